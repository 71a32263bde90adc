//! What clients saw: operations with the times of their call and their answer, in memory and as JSON lines.
//!
//! Refuses any line it does not fully understand, naming the line: a mistyped field must not turn a finished
//! operation into an unfinished one. Written by the seeded world and by the real-process nemesis; read by the
//! checkers and by the `history` program. `checkers::linearizability` judges what is recorded here.
//!
//! One line per operation:
//! `{"client":1,"object":"register/r","op":"write","args":[3],"invoke":10,"return":20,"result":null,"error":null}`.
//! The text before the first `/` of `object` names its kind: `register`, `counter`, `kv` or `account`.
//! `return` null, or any `error` but `refused`: the operation may or may not have taken effect, at any later time.
//! `error` beginning with `refused`: it certainly did not. `result` left out: the answer came, its value was not kept.
//! A line `{"object":"account/A-1","init":100}` states with what an object (for `kv`, each key) begins.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::checkers::recorded::{Call, CallError, Kind};

/// One operation of one client on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called; a client may have several operations under way.
    pub client: u64,
    /// Kind and name of the object, `kind/name`.
    pub object: String,
    /// What was called.
    pub call: Call,
    /// When the call was made, in nanoseconds of one clock shared by all clients.
    pub invoke_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended, as far as its client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer arrived.
    Returned {
        /// When, in nanoseconds of the clock of `invoke_ns`.
        return_ns: u64,
        /// The answer; `None` when its value was not kept, so only its time counts.
        result: Option<Value>,
    },
    /// It certainly had no effect and never will.
    Refused,
    /// It may or may not have taken effect, at any time after it was called.
    Unknown,
}

/// All operations of a run and what the objects began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The operations, in any order.
    pub operations: Vec<Operation>,
    /// First value by object; an object that is absent begins with its kind's own first value.
    pub initial: BTreeMap<String, Value>,
}

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file or stream failed.
    #[error("line {line}: cannot read: {source}")]
    Read {
        /// Line number, from 1.
        line: usize,
        /// What the operating system said.
        source: io::Error,
    },
    /// The line is not JSON of the stated form.
    #[error("line {line}: {source}")]
    Form {
        /// Line number, from 1.
        line: usize,
        /// What the JSON reader said.
        source: serde_json::Error,
    },
    /// The line names an object kind, operation or argument that does not exist.
    #[error("line {line}: {source}")]
    Call {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with the call.
        source: CallError,
    },
    /// The answer came before the call.
    #[error("line {line}: returned at {return_ns} before it was invoked at {invoke_ns}")]
    Backwards {
        /// Line number, from 1.
        line: usize,
        /// When it was called.
        invoke_ns: u64,
        /// When it is said to have returned.
        return_ns: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    client: u64,
    object: String,
    op: String,
    args: Vec<Value>,
    invoke: u64,
    #[serde(rename = "return")]
    returned: Option<u64>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    result: Option<Value>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitLine {
    object: String,
    init: Value,
}

/// Keeps a null result apart from a result that was left out.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl History {
    /// Reads JSON lines until the end; empty lines are skipped.
    ///
    /// # Errors
    /// The first line that cannot be read or understood.
    pub fn read(from: impl BufRead) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        for (index, text) in from.lines().enumerate() {
            let line = index + 1;
            let text = text.map_err(|source| HistoryError::Read { line, source })?;
            if !text.trim().is_empty() {
                history.take_line(line, &text)?;
            }
        }
        Ok(history)
    }

    /// Writes every first value and operation as a JSON line.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        for (object, init) in &self.initial {
            writeln!(
                to,
                "{}",
                serde_json::json!({"object": object, "init": init})
            )?;
        }
        self.operations
            .iter()
            .try_for_each(|operation| operation.write(&mut to))
    }

    fn take_line(&mut self, line: usize, text: &str) -> Result<(), HistoryError> {
        let form = |source| HistoryError::Form { line, source };
        let value: Value = serde_json::from_str(text).map_err(form)?;
        if value.get("init").is_some() {
            let init: InitLine = serde_json::from_value(value).map_err(form)?;
            Kind::of_object(&init.object)
                .and_then(|kind| kind.check_initial(&init.init))
                .map_err(|source| HistoryError::Call { line, source })?;
            self.initial.insert(init.object, init.init);
        } else {
            let parsed: Line = serde_json::from_value(value).map_err(form)?;
            self.operations.push(parsed.into_operation(line)?);
        }
        Ok(())
    }
}

impl Line {
    fn into_operation(self, line: usize) -> Result<Operation, HistoryError> {
        let call = Kind::of_object(&self.object)
            .and_then(|kind| Call::parse(kind, &self.op, &self.args))
            .map_err(|source| HistoryError::Call { line, source })?;
        let invoke_ns = self.invoke;
        let outcome = match (self.error, self.returned) {
            (Some(error), _) if error.starts_with("refused") => Outcome::Refused,
            (Some(_), _) | (None, None) => Outcome::Unknown,
            (None, Some(return_ns)) if return_ns < invoke_ns => {
                return Err(HistoryError::Backwards {
                    line,
                    invoke_ns,
                    return_ns,
                });
            }
            (None, Some(return_ns)) => Outcome::Returned {
                return_ns,
                result: self.result,
            },
        };
        Ok(Operation {
            client: self.client,
            object: self.object,
            call,
            invoke_ns,
            outcome,
        })
    }
}

impl Operation {
    /// Writes the operation as one JSON line.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let (returned, result, error) = match &self.outcome {
            Outcome::Returned { return_ns, result } => (Some(*return_ns), result.clone(), None),
            Outcome::Refused => (None, None, Some("refused".to_owned())),
            Outcome::Unknown => (None, None, None),
        };
        let line = Line {
            client: self.client,
            object: self.object.clone(),
            op: self.call.name().to_owned(),
            args: self.call.args(),
            invoke: self.invoke_ns,
            returned,
            result,
            error,
        };
        serde_json::to_writer(&mut to, &line)?;
        to.write_all(b"\n")
    }
}

/// Records a run of a single-threaded world, which sees calls and answers one after the other.
///
/// Stamps grow strictly even when the world's clock stands still, so a call made in answer to a reply counts as
/// later than that reply. Without this, two events of the same instant would count as concurrent.
#[derive(Debug, Default)]
pub struct Recorder {
    history: History,
    last_ns: u64,
}

/// An operation that a [`Recorder`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded(usize);

impl From<Recorded> for usize {
    /// The operation's index in the history.
    fn from(recorded: Recorded) -> usize {
        recorded.0
    }
}

impl Recorder {
    /// Notes that `client` calls `call` at `now_ns`; it stays unfinished until [`Recorder::returned`].
    pub fn invoked(&mut self, now_ns: u64, client: u64, object: &str, call: Call) -> Recorded {
        let invoke_ns = self.stamp(now_ns);
        self.history.operations.push(Operation {
            client,
            object: object.to_owned(),
            call,
            invoke_ns,
            outcome: Outcome::Unknown,
        });
        Recorded(self.history.operations.len() - 1)
    }

    /// Notes the answer of an operation; panics if it has ended before.
    pub fn returned(&mut self, now_ns: u64, operation: Recorded, result: Value) {
        let return_ns = self.stamp(now_ns);
        self.end(
            operation,
            Outcome::Returned {
                return_ns,
                result: Some(result),
            },
        );
    }

    /// Notes that an operation certainly had no effect; panics if it has ended before.
    pub fn refused(&mut self, operation: Recorded) {
        self.end(operation, Outcome::Refused);
    }

    /// What was recorded so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    fn end(&mut self, operation: Recorded, outcome: Outcome) {
        let slot = &mut self.history.operations[operation.0].outcome;
        assert_eq!(*slot, Outcome::Unknown, "an operation ends once");
        *slot = outcome;
    }

    fn stamp(&mut self, now_ns: u64) -> u64 {
        self.last_ns = now_ns.max(self.last_ns + 1);
        self.last_ns
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
