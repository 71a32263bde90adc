//! The calls of clients, and how the checkers see calls and answers.
//!
//! Values written are unique in a run, so that an answer names the write it saw, and searches decide quickly.

use super::random::Random;
use crate::checkers::holding::{REFUSED, RELEASED};
use crate::checkers::recorded::Call;
use bytes::Bytes;
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Value, call};
use serde_json::{Value as Json, json};

/// Name and class of each object, in the order of the view.
pub(super) const OBJECTS: [(&str, &str); 7] = [
    ("counter/a", "counter"),
    ("counter/b", "counter"),
    ("register/r", "register"),
    ("kv/m", "kv"),
    ("queue/q", "queue"),
    ("lock/l", "lock"),
    ("feed/f", "feed"),
];

/// So many of them, the first ones, are in histories.
pub(super) const RECORDED: usize = 4;

/// The others: clients that wait call them, or those that watch the last one, and nobody else.
pub(super) const QUEUE: ObjectId = ObjectId(RECORDED as u32);
pub(super) const LOCK: ObjectId = ObjectId(RECORDED as u32 + 1);
pub(super) const FEED: ObjectId = ObjectId(RECORDED as u32 + 2);

/// Takers wait for less, and items come earlier.
const PATIENCE_MS: u64 = 3_000;

/// Who waits for the lock waits for less: its holder may be gone, and its session has to end.
const LOCK_PATIENCE_MS: u64 = 6_000;

/// Calls of one client that may wait at once.
const TAKES_MAX: usize = 3;

/// Keys of the map that hold numbers, and keys that hold text.
const KEYS: u64 = 4;

/// Appended text ends here: longer values would only make the search slower.
const APPENDS_MAX: u64 = 40;

/// An operation to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// On which object.
    pub object: ObjectId,
    /// What.
    pub call: Call,
    /// `Some` for a read of that level.
    pub level: Option<ReadLevel>,
}

impl Drawn {
    /// Whether it reads the state of any replica.
    pub(super) fn is_any(&self) -> bool {
        matches!(self.level, Some(ReadLevel::Any | ReadLevel::Loose))
    }
}

/// Whether calls of it may wait, and are answered by other calls.
pub(super) fn lets_wait(object: ObjectId) -> bool {
    object.0 as usize >= RECORDED
}

/// Draws the operations of one client.
#[derive(Debug)]
pub(super) struct Workload {
    random: Random,
    client: u64,
    written: u64,
    appended: u64,
    reads_per_mille: u64,
    /// The newest value seen in the register: what a swap expects.
    seen: Json,
    /// Whether it was told last that it has the lock.
    holds: bool,
}

impl Workload {
    /// The operations of `client`.
    pub(super) fn new(random: Random, client: u64, reads_per_mille: u64) -> Workload {
        Workload {
            random,
            client,
            written: 0,
            appended: 0,
            reads_per_mille,
            seen: Json::Null,
            holds: false,
        }
    }

    /// The next operation of a client that only reads.
    pub(super) fn draw_read(&mut self) -> Drawn {
        let object = ObjectId(self.random.below(RECORDED as u64) as u32);
        let level = *self.random.pick(&[
            ReadLevel::Confirmed,
            ReadLevel::Broadcast,
            ReadLevel::Lease,
            ReadLevel::Lease,
        ]);
        Drawn {
            object,
            call: self.read_of(object),
            level: Some(level),
        }
    }

    /// The next operation.
    pub(super) fn draw(&mut self) -> Drawn {
        let object = ObjectId(self.random.below(RECORDED as u64) as u32);
        if self.random.chance(self.reads_per_mille) {
            let level = match self.random.below(20) {
                0..=4 => ReadLevel::Confirmed,
                5..=8 => ReadLevel::Broadcast,
                9..=13 => ReadLevel::Lease,
                14..=15 => ReadLevel::Ordered,
                16..=18 => ReadLevel::Any,
                _ => ReadLevel::Loose,
            };
            let call = self.read_of(object);
            return Drawn {
                object,
                call,
                level: Some(level),
            };
        }
        Drawn {
            object,
            call: self.write_of(object),
            level: None,
        }
    }

    /// The next operation of a client that waits, of whose calls so many do so already; in a drought it offers nothing.
    pub(super) fn draw_waiting(&mut self, waiting: usize, is_dry: bool) -> Option<Drawn> {
        if self.random.chance(300) {
            return self.draw_lock(waiting, is_dry);
        }
        if is_dry {
            return (waiting < TAKES_MAX).then(|| self.draw_take());
        }
        if waiting < TAKES_MAX && self.random.chance(500) {
            return Some(self.draw_take());
        }
        let delay = match self.random.below(4) {
            0 => self.random.below(PATIENCE_MS),
            _ => 0,
        };
        Some(self.draw_offer(delay))
    }

    fn draw_take(&mut self) -> Drawn {
        let timeout = self
            .random
            .chance(400)
            .then(|| self.random.below(PATIENCE_MS));
        Drawn {
            object: QUEUE,
            call: Call::Take(timeout),
            level: None,
        }
    }

    /// Who has the lock gives it back some time, and some do who have it no more.
    fn draw_lock(&mut self, waiting: usize, is_dry: bool) -> Option<Drawn> {
        let releases = self.random.chance(if self.holds { 500 } else { 50 });
        let call = match releases {
            true if is_dry => return None,
            true => Call::Release,
            false if waiting >= TAKES_MAX => return None,
            false => Call::Acquire(self.random.below(LOCK_PATIENCE_MS)),
        };
        Some(Drawn {
            object: LOCK,
            call,
            level: None,
        })
    }

    /// An item for whoever waits when so many milliseconds have passed.
    pub(super) fn draw_offer(&mut self, delay_ms: u64) -> Drawn {
        self.written += 1;
        let item = self.client * 1_000_000 + self.written;
        Drawn {
            object: QUEUE,
            call: Call::Offer(item as i64, delay_ms),
            level: None,
        }
    }

    /// A read that every client makes of every object when a run ends.
    pub(super) fn read_of(&mut self, object: ObjectId) -> Call {
        match object.0 {
            0 | 1 => Call::Sum,
            2 => Call::Read,
            _ => Call::Get(self.key()),
        }
    }

    fn write_of(&mut self, object: ObjectId) -> Call {
        match object.0 {
            0 | 1 => Call::Add(self.random.between(1, 9) as i64),
            2 if self.random.chance(400) => Call::Cas(self.seen.clone(), self.unique()),
            2 => Call::Write(self.unique()),
            _ => self.change_map(),
        }
    }

    fn change_map(&mut self) -> Call {
        let key = self.key();
        if key.starts_with('t') && self.appended < APPENDS_MAX {
            self.appended += 1;
            return Call::Append(key, format!("{}.{};", self.client, self.appended));
        }
        let key = key.replace('t', "k");
        match self.random.below(4) {
            0 => Call::Delete(key),
            _ => Call::Put(key, self.unique()),
        }
    }

    fn key(&mut self) -> String {
        let kind = if self.random.chance(250) { 't' } else { 'k' };
        format!("{kind}{}", self.random.below(KEYS))
    }

    fn unique(&mut self) -> Json {
        self.written += 1;
        json!(self.client * 1_000_000 + self.written)
    }

    /// Remembers what an answer showed.
    pub(super) fn saw(&mut self, call: &Call, result: &Json) {
        match call {
            Call::Read => self.seen = result.clone(),
            Call::Write(value) => self.seen = value.clone(),
            Call::Cas(_, new) if *result == json!(true) => self.seen = new.clone(),
            Call::Acquire(_) if result.as_i64() > Some(0) => self.holds = true,
            Call::Release => self.holds = false,
            _ => {}
        }
    }
}

/// The bytes of a call as objects read them.
pub(super) fn payload(call: &Call) -> Bytes {
    let arguments: Vec<Value> = call.args().iter().map(value_of).collect();
    call::encode(call.name(), &arguments, &[]).expect("small plain values")
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Float(number.as_f64().expect("a number of seconds")),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => unreachable!("the workload writes plain values"),
    }
}

/// The answer to `call` as the models give it. `put` and `append` say more than the models; that part is left out.
pub(super) fn result(call: &Call, outcome: &Outcome) -> Json {
    match (call, outcome) {
        (Call::Put(..) | Call::Append(..), Outcome::Returned(_)) => Json::Null,
        (Call::Release, Outcome::Returned(bytes)) if value::decode(bytes) == Ok(Value::Null) => {
            json!(RELEASED)
        }
        (_, Outcome::Returned(bytes)) => match value::decode(bytes) {
            Ok(Value::Null) => Json::Null,
            Ok(Value::Bool(truth)) => json!(truth),
            Ok(Value::Int(number)) => json!(number),
            Ok(Value::Text(text)) => json!(text),
            Ok(Value::List(items)) => items.iter().map(number_of).collect(),
            Ok(other) => json!({"unexpected": other.kind_name()}),
            Err(error) => json!({"undecodable": error.to_string()}),
        },
        (Call::Take(Some(_)), Outcome::Raised(bytes))
            if is_of(bytes, "quorate.objects._queue.Empty") =>
        {
            Json::Null
        }
        (Call::Release, Outcome::Raised(bytes)) if is_of(bytes, "builtins.RuntimeError") => {
            json!(REFUSED)
        }
        (_, Outcome::Raised(bytes)) => json!({"raised": format!("{bytes:?}")}),
        (_, Outcome::Skipped) => json!({"skipped": true}),
    }
}

/// A number of a list; null for anything else.
fn number_of(item: &Value) -> Json {
    match item {
        Value::Int(number) => json!(number),
        _ => Json::Null,
    }
}

fn is_of(raised: &[u8], class: &str) -> bool {
    value::Raised::decode(raised).is_ok_and(|raised| raised.class == class)
}
