//! Says whether what clients saw is the behaviour of one sequential object in an order that respects real time.
//!
//! Trusts neither slots nor any other word of the servers: only calls, answers and their times. Each object, and each
//! key of a key-value object, is judged alone, which is enough because linearizability is local. Operations without an
//! answer may have taken effect at any later time or never. A search that spends its configurations or steps has failed.
//! Called by the seeded world at the end of a run and by the `history` program on recorded files.

use std::collections::BTreeMap;
use std::fmt;

use super::limits::{
    CONCURRENT_SHOWN_MAX, CONFIGURATIONS_MAX, EXPLAINING_CONFIGURATIONS_MAX, PREFIX_SHOWN_MAX,
    STEPS_PER_CONFIGURATION,
};
use super::model::Model;
use super::order::first_value;
use super::recorded::{Call, RecordedObject};
use super::search::{Finished, Found, Pending, Search, Stuck};
use super::{Property, Violation};
use crate::history::{History, Outcome};
use serde_json::Value;

/// One operation on the object under judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval<C, R> {
    /// Who called.
    pub client: u64,
    /// What was called.
    pub call: C,
    /// When, in nanoseconds of a clock shared by all clients.
    pub invoke_ns: u64,
    /// How it ended.
    pub end: End<R>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<R> {
    /// The answer arrived.
    Returned {
        /// When; not before `invoke_ns`.
        return_ns: u64,
        /// The answer; `None` when any answer would do.
        reply: Option<R>,
    },
    /// It may have taken effect at any time after its call, or never.
    Unfinished,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The operations, by index, in an order that explains all answers; unfinished ones without effect are left out.
    Linearizable(Vec<usize>),
    /// No order explains the answers.
    Refuted(Box<Explanation>),
    /// The search spent its configurations or its steps: counts as failed.
    Undecided(Box<Explanation>),
}

/// Where the search got furthest, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The longest order found that leads up to `blocker`, by index.
    pub prefix: Vec<usize>,
    /// The operation that fits at no point between its call and its return.
    pub blocker: Option<usize>,
    /// Some of the states that were possible where it had to fit.
    pub states: Vec<String>,
    /// The text of the above.
    pub text: String,
}

impl Verdict {
    /// Says that an order was found.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Linearizable(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable(order) => write!(f, "linearizable ({} operations)", order.len()),
            Self::Refuted(why) => write!(f, "NOT linearizable\n{}", why.text),
            Self::Undecided(why) => write!(
                f,
                "UNDECIDED, counts as failed: the search spent its configurations or its steps\n{}",
                why.text
            ),
        }
    }
}

/// Judges the operations of one object that begins in `initial`, visiting at most `configurations_max` configurations in
/// at most [`STEPS_PER_CONFIGURATION`] times as many steps.
///
/// Operations whose times touch count as concurrent.
pub fn check<M: Model>(
    model: &M,
    initial: M::State,
    operations: &[Interval<M::Call, M::Reply>],
    configurations_max: usize,
) -> Verdict {
    let search = prepare(model, initial.clone(), operations);
    match search.run(configurations_max, steps(configurations_max)) {
        Found::Order(order) => Verdict::Linearizable(order),
        Found::Spent(stuck) => Verdict::Undecided(Box::new(explain(operations, stuck))),
        Found::Nothing(foreseen) => {
            let plain = prepare(model, initial, operations).without_foresight();
            let most = configurations_max.min(EXPLAINING_CONFIGURATIONS_MAX);
            let stuck = match plain.run(most, steps(most)) {
                Found::Nothing(stuck) => stuck,
                Found::Order(_) | Found::Spent(_) => foreseen,
            };
            Verdict::Refuted(Box::new(explain(operations, stuck)))
        }
    }
}

fn steps(configurations_max: usize) -> usize {
    configurations_max.saturating_mul(STEPS_PER_CONFIGURATION)
}

fn prepare<'a, M: Model>(
    model: &'a M,
    initial: M::State,
    operations: &'a [Interval<M::Call, M::Reply>],
) -> Search<'a, M> {
    let mut finished: Vec<Finished<'_, M>> = vec![];
    let mut pending: Vec<Pending<'_, M>> = vec![];
    for (index, operation) in operations.iter().enumerate() {
        let (call, invoke_ns) = (&operation.call, operation.invoke_ns);
        match &operation.end {
            End::Returned { return_ns, reply } => finished.push(Finished {
                index,
                call,
                reply: reply.as_ref(),
                invoke_ns,
                return_ns: *return_ns,
            }),
            End::Unfinished if model.never_changes(call, None) => {}
            End::Unfinished => pending.push(Pending {
                index,
                call,
                invoke_ns,
            }),
        }
    }
    finished.sort_by_key(|op| op.invoke_ns);
    pending.sort_by_key(|op| op.invoke_ns);
    Search::new(model, initial, finished, pending)
}

/// Verdicts of a whole history, by object, and by key for key-value objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryReport {
    /// What was judged alone and how it came out.
    pub parts: Vec<(String, Verdict)>,
    /// Operations judged, refused ones not counted.
    pub operations: usize,
    /// Those of them that returned.
    pub finished: usize,
}

impl HistoryReport {
    /// Says that every part is linearizable.
    pub fn passed(&self) -> bool {
        self.parts.iter().all(|(_, verdict)| verdict.passed())
    }

    /// The first part that failed, as a violation.
    ///
    /// # Errors
    /// A violation of [`Property::Linearizability`].
    pub fn verdict(&self) -> Result<(), Violation> {
        match self.parts.iter().find(|(_, verdict)| !verdict.passed()) {
            None => Ok(()),
            Some((part, verdict)) => Err(Violation::new(
                Property::Linearizability,
                format!("{part}: {verdict}"),
            )),
        }
    }
}

impl fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, verdict) in self.parts.iter().filter(|(_, verdict)| !verdict.passed()) {
            writeln!(f, "{part}: {verdict}")?;
        }
        let failed = self.parts.iter().filter(|(_, verdict)| !verdict.passed());
        write!(
            f,
            "{}: {} operations ({} finished) on {} objects or keys, {} failed",
            if self.passed() { "PASSED" } else { "FAILED" },
            self.operations,
            self.finished,
            self.parts.len(),
            failed.count()
        )
    }
}

/// Judges a recorded history with the usual bound on each search.
pub fn check_history(history: &History) -> HistoryReport {
    check_history_within(history, CONFIGURATIONS_MAX)
}

/// Judges a recorded history with at most `configurations_max` configurations for each object or key.
pub fn check_history_within(history: &History, configurations_max: usize) -> HistoryReport {
    type Part<'a> = (&'a str, Option<&'a str>);
    let mut parts: BTreeMap<Part<'_>, Vec<Interval<Call, Value>>> = BTreeMap::new();
    let (mut operations, mut finished) = (0, 0);
    for operation in &history.operations {
        let end = match &operation.outcome {
            Outcome::Refused => continue,
            Outcome::Unknown => End::Unfinished,
            Outcome::Returned { return_ns, result } => {
                finished += 1;
                End::Returned {
                    return_ns: *return_ns,
                    reply: result.clone(),
                }
            }
        };
        operations += 1;
        let part = (operation.object.as_str(), operation.call.key());
        parts.entry(part).or_default().push(Interval {
            client: operation.client,
            call: operation.call.clone(),
            invoke_ns: operation.invoke_ns,
            end,
        });
    }
    let judge = |((object, key), intervals): (Part<'_>, Vec<Interval<Call, Value>>)| {
        let verdict = check(
            &RecordedObject,
            first_value(history, object),
            &intervals,
            configurations_max,
        );
        (
            key.map_or(object.to_owned(), |key| format!("{object} key {key:?}")),
            verdict,
        )
    };
    HistoryReport {
        parts: parts.into_iter().map(judge).collect(),
        operations,
        finished,
    }
}

fn explain<C: fmt::Debug, R: fmt::Debug>(
    operations: &[Interval<C, R>],
    stuck: Stuck,
) -> Explanation {
    let mut text = String::new();
    let shown = stuck.prefix.len().min(PREFIX_SHOWN_MAX);
    let hidden = stuck.prefix.len() - shown;
    text += &format!(
        "  {} operations fit in this order{}:\n",
        stuck.prefix.len(),
        if hidden > 0 { " (its end)" } else { "" }
    );
    for index in &stuck.prefix[hidden..] {
        text += &format!("    {}\n", Line(&operations[*index]));
    }
    text += &format!("  possible states there: {}\n", stuck.states.join(" | "));
    if let Some(blocker) = stuck.blocker {
        text += &format!("  then no order places: {}\n", Line(&operations[blocker]));
        let beside = concurrent(operations, &stuck.prefix, blocker);
        if !beside.is_empty() {
            text += "  concurrent with it and not placed before it:\n";
        }
        for index in beside.into_iter().take(CONCURRENT_SHOWN_MAX) {
            text += &format!("    {}\n", Line(&operations[index]));
        }
    }
    Explanation {
        prefix: stuck.prefix,
        blocker: stuck.blocker,
        states: stuck.states,
        text,
    }
}

/// Operations called before `blocker` returned that `prefix` does not hold.
fn concurrent<C, R>(operations: &[Interval<C, R>], prefix: &[usize], blocker: usize) -> Vec<usize> {
    let End::Returned { return_ns, .. } = operations[blocker].end else {
        return vec![];
    };
    let mut placed = vec![false; operations.len()];
    prefix.iter().for_each(|index| placed[*index] = true);
    placed[blocker] = true;
    (0..operations.len())
        .filter(|index| !placed[*index] && operations[*index].invoke_ns <= return_ns)
        .collect()
}

struct Line<'a, C, R>(&'a Interval<C, R>);

impl<C: fmt::Debug, R: fmt::Debug> fmt::Display for Line<'_, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval {
            client,
            call,
            invoke_ns,
            end,
        } = self.0;
        write!(f, "client {client} {call:?}")?;
        match end {
            End::Returned { return_ns, reply } => match reply {
                Some(reply) => write!(f, " -> {reply:?} [{invoke_ns}..{return_ns}]"),
                None => write!(f, " -> any [{invoke_ns}..{return_ns}]"),
            },
            End::Unfinished => write!(f, " unfinished [{invoke_ns}..]"),
        }
    }
}

#[cfg(test)]
#[path = "linearizability_tests.rs"]
mod tests;
