//! The objects that recorded histories speak about: register, counter, key-value map and account.
//!
//! Key-value operations touch one key, so a history is judged key by key and the state is a single value. Operations
//! over several keys do not exist here. Called by `history` to read lines and by `linearizability` to judge them.

use serde_json::Value;

use super::model::Model;

/// What an object is; the text before the first `/` of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One value; begins with null.
    Register,
    /// One integer; begins with 0.
    Counter,
    /// Values by key; each begins absent.
    Kv,
    /// A balance that never goes below zero by a debit; begins with 0.
    Account,
}

/// One call on a recorded object, with what it answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `read()`: the value.
    Read,
    /// `write(value)`: null.
    Write(Value),
    /// `cas(expected, new)`: whether the value was `expected` and is `new` thereby.
    Cas(Value, Value),
    /// `add(amount)`: the sum, wrapping at 64 bits.
    Add(i64),
    /// `get()` of a counter: the sum.
    Sum,
    /// `get(key)`: the value or null.
    Get(String),
    /// `put(key, value)`, the value not null: null.
    Put(String, Value),
    /// `append(key, text)`: null; an absent key counts as empty text.
    Append(String, String),
    /// `delete(key)`: whether the key was present.
    Delete(String),
    /// `deposit(amount)`: the balance.
    Deposit(i64),
    /// `debit(amount)`: whether the balance sufficed and is lower thereby.
    Debit(i64),
    /// `balance()`: the balance.
    Balance,
    /// `put(item)` of a queue, or `put_later(item, delay)` with a delay in milliseconds. No history has it: a taker's answer comes with another's call.
    Offer(i64, u64),
    /// `get(True, timeout)` of a queue, with a timeout in milliseconds, if any.
    Take(Option<u64>),
    /// `acquire(True, timeout)` of a lock, with a timeout in milliseconds.
    Acquire(u64),
    /// `release()` of a lock.
    Release,
    /// `publish(change)` of a feed, or `publish(change, delay)` with a delay in milliseconds, if it comes by a timer.
    Publish(i64, Option<u64>),
    /// `watch(seen, timeout)` of a feed, with the number of the last change that was seen, and a timeout in milliseconds, if any.
    Watch(i64, Option<u64>),
}

/// What is wrong with a recorded call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The object's name does not begin with a known kind.
    #[error("object {0:?} is not a register, counter, kv or account (name it kind/name)")]
    Kind(String),
    /// The kind has no such operation with such arguments.
    #[error("{kind:?} has no operation {op}({args})")]
    Operation {
        /// The object's kind.
        kind: Kind,
        /// The operation's name.
        op: String,
        /// The arguments, as JSON.
        args: String,
    },
    /// The first value does not fit the kind.
    #[error("{kind:?} cannot begin with {value}")]
    Initial {
        /// The object's kind.
        kind: Kind,
        /// The stated value, as JSON.
        value: String,
    },
}

impl Kind {
    /// The kind of the object named `object`.
    ///
    /// # Errors
    /// [`CallError::Kind`] when the name begins with no known kind.
    pub fn of_object(object: &str) -> Result<Self, CallError> {
        match object.split('/').next() {
            Some("register") => Ok(Self::Register),
            Some("counter") => Ok(Self::Counter),
            Some("kv") => Ok(Self::Kv),
            Some("account") => Ok(Self::Account),
            Some(_) | None => Err(CallError::Kind(object.to_owned())),
        }
    }

    /// What an object of this kind (for `Kv`, each key) begins with unless a history says otherwise.
    pub fn initial(self) -> Value {
        match self {
            Self::Register | Self::Kv => Value::Null,
            Self::Counter | Self::Account => Value::from(0),
        }
    }

    /// Refuses a first value that the kind cannot hold.
    ///
    /// # Errors
    /// [`CallError::Initial`].
    pub fn check_initial(self, value: &Value) -> Result<(), CallError> {
        match self {
            Self::Register | Self::Kv => Ok(()),
            Self::Counter | Self::Account if value.as_i64().is_some() => Ok(()),
            Self::Counter | Self::Account => Err(CallError::Initial {
                kind: self,
                value: value.to_string(),
            }),
        }
    }
}

impl Call {
    /// Reads an operation's name and JSON arguments.
    ///
    /// # Errors
    /// [`CallError::Operation`] when the kind has no such operation.
    pub fn parse(kind: Kind, op: &str, args: &[Value]) -> Result<Self, CallError> {
        let known = match (kind, op, args) {
            (Kind::Register, "read", []) => Some(Self::Read),
            (Kind::Register, "write", [value]) => Some(Self::Write(value.clone())),
            (Kind::Register, "cas", [old, new]) => Some(Self::Cas(old.clone(), new.clone())),
            (Kind::Counter, "add", [amount]) => amount.as_i64().map(Self::Add),
            (Kind::Counter, "get", []) => Some(Self::Sum),
            (Kind::Kv, "get", [key]) => text(key).map(Self::Get),
            (Kind::Kv, "put", [key, value]) if !value.is_null() => {
                text(key).map(|key| Self::Put(key, value.clone()))
            }
            (Kind::Kv, "append", [key, tail]) => text(key)
                .zip(text(tail))
                .map(|(key, tail)| Self::Append(key, tail)),
            (Kind::Kv, "delete", [key]) => text(key).map(Self::Delete),
            (Kind::Account, "deposit", [amount]) => amount.as_i64().map(Self::Deposit),
            (Kind::Account, "debit", [amount]) => amount.as_i64().map(Self::Debit),
            (Kind::Account, "balance", []) => Some(Self::Balance),
            (Kind::Register | Kind::Counter | Kind::Kv | Kind::Account, _, _) => None,
        };
        known.ok_or_else(|| CallError::Operation {
            kind,
            op: op.to_owned(),
            args: Value::from(args).to_string(),
        })
    }

    /// The operation's name in a history.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write(_) => "write",
            Self::Cas(..) => "cas",
            Self::Add(_) => "add",
            Self::Sum | Self::Get(_) => "get",
            Self::Put(..) => "put",
            Self::Append(..) => "append",
            Self::Delete(_) => "delete",
            Self::Deposit(_) => "deposit",
            Self::Debit(_) => "debit",
            Self::Balance => "balance",
            Self::Offer(_, 0) => "put",
            Self::Offer(..) => "put_later",
            Self::Take(_) => "get",
            Self::Acquire(_) => "acquire",
            Self::Release => "release",
            Self::Publish(..) => "publish",
            Self::Watch(..) => "watch",
        }
    }

    /// The arguments as a history has them.
    pub fn args(&self) -> Vec<Value> {
        match self {
            Self::Read | Self::Sum | Self::Balance => vec![],
            Self::Take(None) | Self::Release => vec![],
            Self::Take(Some(ms)) | Self::Acquire(ms) => vec![Value::from(true), seconds(*ms)],
            Self::Offer(number, 0) | Self::Publish(number, None) | Self::Watch(number, None) => {
                vec![Value::from(*number)]
            }
            Self::Publish(number, Some(ms)) | Self::Watch(number, Some(ms)) => {
                vec![Value::from(*number), seconds(*ms)]
            }
            Self::Offer(item, ms) => vec![Value::from(*item), seconds(*ms)],
            Self::Write(value) => vec![value.clone()],
            Self::Cas(expected, new) => vec![expected.clone(), new.clone()],
            Self::Add(amount) | Self::Deposit(amount) | Self::Debit(amount) => {
                vec![Value::from(*amount)]
            }
            Self::Get(key) | Self::Delete(key) => vec![Value::from(key.as_str())],
            Self::Put(key, value) => vec![Value::from(key.as_str()), value.clone()],
            Self::Append(key, tail) => vec![Value::from(key.as_str()), Value::from(tail.as_str())],
        }
    }

    /// The key that a key-value call touches; other kinds have none.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Get(key) | Self::Put(key, _) | Self::Append(key, _) | Self::Delete(key) => {
                Some(key)
            }
            Self::Read | Self::Write(_) | Self::Cas(..) | Self::Add(_) | Self::Sum => None,
            Self::Deposit(_) | Self::Debit(_) | Self::Balance => None,
            Self::Offer(..) | Self::Take(_) | Self::Acquire(_) | Self::Release => None,
            Self::Publish(..) | Self::Watch(..) => None,
        }
    }
}

fn seconds(ms: u64) -> Value {
    Value::from(ms as f64 / 1000.0)
}

/// The model of every recorded object; its state is the value of the object, or of one key of a map.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedObject;

impl Model for RecordedObject {
    type State = Value;
    type Call = Call;
    type Reply = Value;

    fn apply(&self, state: &Value, call: &Call) -> (Value, Value) {
        let number = state.as_i64().unwrap_or(0);
        match call {
            Call::Read | Call::Get(_) | Call::Sum | Call::Balance => (state.clone(), state.clone()),
            Call::Write(value) | Call::Put(_, value) => (value.clone(), Value::Null),
            Call::Cas(expected, new) if state == expected => (new.clone(), Value::Bool(true)),
            Call::Cas(..) => (state.clone(), Value::Bool(false)),
            Call::Append(_, tail) => {
                let grown = state.as_str().unwrap_or("").to_owned() + tail;
                (Value::from(grown), Value::Null)
            }
            Call::Delete(_) => (Value::Null, Value::Bool(!state.is_null())),
            Call::Add(amount) | Call::Deposit(amount) => {
                let sum = Value::from(number.wrapping_add(*amount));
                (sum.clone(), sum)
            }
            Call::Debit(amount) if *amount > number => (state.clone(), Value::Bool(false)),
            Call::Debit(amount) => (Value::from(number.wrapping_sub(*amount)), Value::Bool(true)),
            Call::Offer(..)
            | Call::Take(_)
            | Call::Acquire(_)
            | Call::Release
            | Call::Publish(..)
            | Call::Watch(..) => {
                unreachable!("no history has calls that wait")
            }
        }
    }

    fn never_changes(&self, call: &Call, reply: Option<&Value>) -> bool {
        match call {
            Call::Read | Call::Get(_) | Call::Sum | Call::Balance => true,
            Call::Cas(..) | Call::Debit(_) | Call::Delete(_) => reply == Some(&Value::Bool(false)),
            Call::Write(_) | Call::Put(..) | Call::Append(..) => false,
            Call::Add(_) | Call::Deposit(_) => false,
            Call::Offer(..) | Call::Take(_) | Call::Acquire(_) | Call::Release => false,
            Call::Publish(..) | Call::Watch(..) => false,
        }
    }

    fn needs(&self, call: &Call, reply: Option<&Value>) -> Option<Value> {
        match call {
            Call::Read | Call::Get(_) | Call::Sum | Call::Balance => reply.cloned(),
            Call::Cas(expected, _) if reply == Some(&Value::Bool(true)) => Some(expected.clone()),
            Call::Delete(_) if reply == Some(&Value::Bool(false)) => Some(Value::Null),
            Call::Cas(..) | Call::Delete(_) | Call::Write(_) | Call::Put(..) => None,
            Call::Append(..) | Call::Add(_) | Call::Deposit(_) | Call::Debit(_) => None,
            Call::Offer(..) | Call::Take(_) | Call::Acquire(_) | Call::Release => None,
            Call::Publish(..) | Call::Watch(..) => None,
        }
    }

    fn leaves(&self, call: &Call) -> Option<Value> {
        match call {
            Call::Write(value) | Call::Put(_, value) | Call::Cas(_, value) => Some(value.clone()),
            Call::Delete(_) => Some(Value::Null),
            Call::Append(..) | Call::Add(_) | Call::Deposit(_) | Call::Debit(_) => None,
            Call::Read | Call::Get(_) | Call::Sum | Call::Balance => None,
            Call::Offer(..) | Call::Take(_) | Call::Acquire(_) | Call::Release => None,
            Call::Publish(..) | Call::Watch(..) => None,
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
