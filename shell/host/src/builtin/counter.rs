//! `rust:counter`: counts by key, and one number beside them.
//!
//! The methods, their order and their errors are those of `quorate.objects.Counter`. Counts are integers of 64 bits. The number is
//! what simulator and measurements count with: `add` changes it, and `get` without a key returns it.

use super::items::{Items, decoded, encoded, iterated, key_error, pairs};
use crate::arguments::{
    Arguments, CallView, Mistake, mistake, put_int, put_list, raised, returned_bool, returned_int,
    returned_none, unknown_method,
};
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use crate::outcomes::too_large;
use bytes::{Buf, BufMut, Bytes};
use quorate_types::{Outcome, PAYLOAD_BYTES_MAX};
use quorate_wire::value::{self, Sign, Value};

/// Counts by key, with the methods of `quorate.objects.Counter`; `add(n=1, padding=None)` and `get()` are of the number beside
/// them.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    number: i64,
    counts: Items<i64>,
}

impl Counter {
    /// Makes a counter; the optional argument is where the number starts, or what is counted at the beginning.
    pub(crate) fn create(arguments: &mut Arguments<'_>) -> Result<Counter, Mistake> {
        let mut counter = Counter::default();
        let counted = arguments.next_item()?.map(decoded).transpose()?;
        arguments.finish()?;
        match counted {
            None | Some(Value::Null) => {}
            Some(Value::Int(number)) => counter.number = number,
            Some(counted) => counter.count(counted, 1)?,
        }
        Ok(counter)
    }

    /// Adds `n`. The padding makes calls of any size for measurements; nothing reads it.
    fn add(&mut self, mut arguments: Arguments<'_>) -> Result<i64, Mistake> {
        let n = arguments.int_or("n", 1)?;
        arguments.next_item()?;
        arguments.finish()?;
        self.number = self
            .number
            .checked_add(n)
            .ok_or_else(|| mistake("OverflowError", "the counter holds 64 bits".to_owned()))?;
        Ok(self.number)
    }

    /// `sign` is 1 to add and -1 to take away.
    fn change(&mut self, mut arguments: Arguments<'_>, sign: i64) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let by = arguments.next_item()?.map(decoded).transpose()?;
        arguments.finish()?;
        let by = by.unwrap_or(Value::Int(1));
        self.change_one(key, &by, sign).map(returned_int)
    }

    fn change_one(&mut self, key: &[u8], by: &Value, sign: i64) -> Result<i64, Mistake> {
        let present = self.counts.get(key)?.copied().unwrap_or(0);
        let by = integer(by)?;
        let count = sign.checked_mul(by).and_then(|by| present.checked_add(by));
        let count = count.ok_or_else(too_many_bits)?;
        self.counts.insert(key, count)?;
        Ok(count)
    }

    fn count_all(&mut self, mut arguments: Arguments<'_>, sign: i64) -> Result<Outcome, Mistake> {
        let counted = arguments.item("counted")?;
        arguments.finish()?;
        self.count(decoded(counted)?, sign)?;
        Ok(returned_none())
    }

    /// What comes before a key or count that is none stays, as in Python.
    fn count(&mut self, counted: Value, sign: i64) -> Result<(), Mistake> {
        let counts = match counted {
            Value::Map(counts) => counts,
            Value::MapOf(map) => map.entries,
            items => {
                for key in iterated(items)? {
                    self.change_one(&encoded(&key)?, &Value::Int(1), sign)?;
                }
                return Ok(());
            }
        };
        for (key, count) in counts {
            self.change_one(&encoded(&key)?, &count, sign)?;
        }
        Ok(())
    }

    fn set(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let count = integer(&decoded(arguments.item("count")?)?)?;
        arguments.finish()?;
        self.counts.insert(key, count)?;
        Ok(returned_none())
    }

    fn remove(
        &mut self,
        mut arguments: Arguments<'_>,
        told: impl Fn(&[u8], Option<i64>) -> Outcome,
    ) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        arguments.finish()?;
        Ok(told(key, self.counts.remove(key)?))
    }

    fn clear(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        self.counts = Items::default();
        Ok(returned_none())
    }

    /// The count of a key; without one the number.
    fn get(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let Some(key) = arguments.next_item()? else {
            arguments.finish()?;
            return Ok(returned_int(self.number));
        };
        let default = arguments.next_item()?;
        arguments.finish()?;
        Ok(match (self.counts.get(key)?, default) {
            (Some(count), _) => returned_int(*count),
            (None, Some(default)) => Outcome::Returned(Bytes::copy_from_slice(default)),
            (None, None) => returned_int(0),
        })
    }

    fn of_key(
        &self,
        mut arguments: Arguments<'_>,
        told: impl Fn(Option<&i64>) -> Outcome,
    ) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        arguments.finish()?;
        Ok(told(self.counts.get(key)?))
    }

    fn of_all(
        &self,
        mut arguments: Arguments<'_>,
        told: impl Fn(&Items<i64>) -> Outcome,
    ) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        Ok(told(&self.counts))
    }

    fn most_common(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let n = arguments.next_item()?.map(decoded).transpose()?;
        arguments.finish()?;
        let mut all: Vec<_> = self.counts.all().collect();
        // Of equal ones the oldest stays first.
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let length = all.len();
        let kept = match n {
            None | Some(Value::Null) => length,
            Some(Value::Bool(truth)) => length.min(usize::from(truth)),
            Some(Value::Int(n)) if n < 0 => {
                length.saturating_sub(usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX))
            }
            Some(Value::Int(n)) => length.min(usize::try_from(n).unwrap_or(usize::MAX)),
            Some(_) => {
                let message = "slice indices must be integers or None or have an __index__ method";
                return Err(mistake("TypeError", message.to_owned()));
            }
        };
        Ok(pairs(all[..kept].iter().copied(), put_count))
    }
}

fn put_count(out: &mut Vec<u8>, count: &i64) {
    put_int(out, *count);
}

/// Each key as often as its count says.
fn elements(counts: &Items<i64>) -> Outcome {
    let often = |count: i64| usize::try_from(count).unwrap_or(0);
    let sum = |sum: (usize, usize), (key, count): &(Bytes, i64)| {
        let (all, bytes) = sum;
        let often = often(*count);
        (
            all.saturating_add(often),
            bytes.saturating_add(often.saturating_mul(key.len())),
        )
    };
    let (all, bytes) = counts.all().fold((0, 0), sum);
    if bytes > PAYLOAD_BYTES_MAX {
        return too_large(bytes);
    }
    let mut out = Vec::with_capacity(bytes + 9);
    put_list(&mut out, all);
    for (key, count) in counts.all() {
        for _ in 0..often(*count) {
            out.extend_from_slice(key);
        }
    }
    Outcome::Returned(out.into())
}

fn total(counts: &Items<i64>) -> Outcome {
    let sum: i128 = counts.all().map(|(_, count)| i128::from(*count)).sum();
    let sign = match sum < 0 {
        true => Sign::Negative,
        false => Sign::Positive,
    };
    let sum = Value::integer(sign, &sum.unsigned_abs().to_be_bytes());
    Outcome::Returned(value::encode(&sum).unwrap_or_default())
}

/// A count that came in a call.
fn integer(count: &Value) -> Result<i64, Mistake> {
    match count {
        Value::Int(count) => Ok(*count),
        Value::Bool(truth) => Ok(i64::from(*truth)),
        Value::BigInt(_) => Err(too_many_bits()),
        other => {
            let kind = other.kind_name();
            let message =
                format!("a counter in Rust has counts that are integers of 64 bits, not {kind}");
            Err(mistake("TypeError", message))
        }
    }
}

fn too_many_bits() -> Mistake {
    let message = "a counter in Rust has counts of 64 bits: serve the class in Python".to_owned();
    mistake("OverflowError", message)
}

impl Object for Counter {
    #[inline]
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        match call.method {
            "add" => self.add(call.arguments).map(returned_int),
            "increment" => self.change(call.arguments, 1),
            "decrement" => self.change(call.arguments, -1),
            "update" => self.count_all(call.arguments, 1),
            "subtract" => self.count_all(call.arguments, -1),
            "__setitem__" => self.set(call.arguments),
            "__delitem__" => self.remove(call.arguments, |_, _| returned_none()),
            "pop" => self.remove(call.arguments, |key, count| {
                count.map_or_else(|| key_error(key), returned_int)
            }),
            "clear" => self.clear(call.arguments),
            _ => return self.read(call),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn read(&self, call: CallView<'_>) -> Outcome {
        let count = |count: Option<&i64>| returned_int(count.copied().unwrap_or(0));
        match call.method {
            "get" => self.get(call.arguments),
            "__getitem__" => self.of_key(call.arguments, count),
            "__contains__" => self.of_key(call.arguments, |count| returned_bool(count.is_some())),
            "most_common" => self.most_common(call.arguments),
            "total" => self.of_all(call.arguments, total),
            "elements" => self.of_all(call.arguments, elements),
            "__len__" => self.of_all(call.arguments, |counts| returned_int(counts.len() as i64)),
            "__iter__" | "keys" => self.of_all(call.arguments, Items::keys),
            "values" => self.of_all(call.arguments, |counts| counts.values(put_count)),
            "items" => self.of_all(call.arguments, |counts| pairs(counts.all(), put_count)),
            name @ ("add" | "increment" | "decrement" | "update" | "subtract" | "__setitem__"
            | "__delitem__" | "pop" | "clear") => {
                let message = format!("`{name}` changes the counter: call it, do not read it");
                return raised("TypeError", message);
            }
            unknown => return unknown_method("Counter", unknown),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn methods(&self) -> Methods {
        let (class, all) = ("Counter", METHODS);
        Methods { class, all }
    }

    /// The number in 8 bytes, then per entry the length of its key in 4, the key, and the count in 8.
    fn snapshot(&self) -> FrozenState {
        let (number, counts) = (self.number, self.counts.clone());
        Box::new(move || {
            let mut image = number.to_be_bytes().to_vec();
            for (key, count) in counts.all() {
                image.put_u32(key.len() as u32);
                image.put_slice(key);
                image.put_i64(*count);
            }
            image.into()
        })
    }

    fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let cut = || RestoreError::new("the image of a counter is cut");
        let mut counter = Counter {
            number: image.try_get_i64().map_err(|_| cut())?,
            counts: Items::default(),
        };
        while !image.is_empty() {
            let length = image.try_get_u32().map_err(|_| cut())? as usize;
            let (key, mut rest) = image.split_at_checked(length).ok_or_else(cut)?;
            let count = rest.try_get_i64().map_err(|_| cut())?;
            let inserted = counter.counts.insert(key, count);
            inserted.map_err(|error| RestoreError::new(error.to_string()))?;
            image = rest;
        }
        *self = counter;
        Ok(())
    }
}

const METHODS: &[Method] = &[
    Method::read("__contains__(key: K) -> bool", ""),
    Method::call("__delitem__(key: K) -> None", ""),
    Method::read("__getitem__(key: K) -> int", ""),
    Method::read("__iter__() -> Iterator[K]", ""),
    Method::read("__len__() -> int", ""),
    Method::call("__setitem__(key: K, count: int) -> None", ""),
    Method::call(
        "add(n: int = 1, padding: object = None) -> int",
        "Add to the number beside the counts; the new number.",
    ),
    Method::call("clear() -> None", "Forget all keys."),
    Method::call(
        "decrement(key: K, by: int = 1) -> int",
        "Take from the count of a key, which may become negative; the new count.",
    ),
    Method::read(
        "elements() -> list[K]",
        "Each key as often as its count says.",
    ),
    Method::read(
        "get(key: K = ..., default: int = 0) -> int",
        "The count of a key, or the default where the key was never counted; without a key the number.",
    ),
    Method::call(
        "increment(key: K, by: int = 1) -> int",
        "Add to the count of a key; the new count.",
    ),
    Method::read(
        "items() -> list[tuple[K, int]]",
        "All keys with their counts.",
    ),
    Method::read(
        "keys() -> list[K]",
        "All keys that were counted, in the order of their first time.",
    ),
    Method::read(
        "most_common(n: int | None = None) -> list[tuple[K, int]]",
        "Keys with their counts, the largest first, all or `n` of them; of equal ones the oldest first.",
    ),
    Method::call(
        "pop(key: K) -> int",
        "Forget a key; its last count. Raises KeyError if it was never counted.",
    ),
    Method::call(
        "subtract(counted: Iterable[K] | Mapping[K, int]) -> None",
        "Take away one for each item, or the counts of a mapping.",
    ),
    Method::read("total() -> int", "The sum of all counts."),
    Method::call(
        "update(counted: Iterable[K] | Mapping[K, int]) -> None",
        "Add one for each item, or the counts of a mapping.",
    ),
    Method::read(
        "values() -> list[int]",
        "All counts, in the order of their keys.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::call_payload;

    fn apply(counter: &mut Counter, method: &str, arguments: &[i64]) -> Outcome {
        let payload = call_payload(method, arguments);
        let call = CallView::parse(&payload).unwrap();
        counter.apply(call, &Environment::default())
    }

    #[test]
    fn a_counter_adds_and_is_restored() {
        let mut counter = Counter::default();
        assert_eq!(apply(&mut counter, "add", &[5]), returned_int(5));
        assert_eq!(apply(&mut counter, "add", &[-2]), returned_int(3));
        assert_eq!(apply(&mut counter, "add", &[]), returned_int(4));
        let mut copy = Counter::default();
        copy.restore(&counter.snapshot()().whole()).unwrap();
        assert_eq!(copy.number, counter.number);
        assert_eq!(counter.snapshot()().whole()[..], 4i64.to_be_bytes());
        assert!(copy.restore(b"short").is_err());
    }

    #[test]
    fn an_overflow_is_raised_and_changes_nothing() {
        let mut counter = Counter {
            number: i64::MAX,
            ..Counter::default()
        };
        assert!(matches!(
            apply(&mut counter, "add", &[1]),
            Outcome::Raised(_)
        ));
        assert_eq!(apply(&mut counter, "get", &[]), returned_int(i64::MAX));
    }

    #[test]
    fn counts_by_key_are_restored_beside_the_number() {
        let mut counter = Counter::default();
        apply(&mut counter, "add", &[9]);
        assert_eq!(apply(&mut counter, "increment", &[7, 5]), returned_int(5));
        assert_eq!(apply(&mut counter, "decrement", &[8]), returned_int(-1));
        let mut copy = Counter::default();
        copy.restore(&counter.snapshot()().whole()).unwrap();
        assert_eq!(copy.snapshot()().whole(), counter.snapshot()().whole());
        assert_eq!(apply(&mut copy, "get", &[7]), returned_int(5));
        assert_eq!(apply(&mut copy, "get", &[]), returned_int(9));
        assert_eq!(apply(&mut copy, "total", &[]), returned_int(4));
        let image = counter.snapshot()().whole();
        assert!(copy.restore(&image[..image.len() - 1]).is_err());
    }

    #[test]
    fn a_count_beyond_64_bits_is_raised_and_changes_nothing() {
        let mut counter = Counter::default();
        apply(&mut counter, "increment", &[1, i64::MAX]);
        for (method, arguments) in [("increment", [1, 1]), ("decrement", [2, i64::MIN])] {
            let refused = apply(&mut counter, method, &arguments);
            assert!(matches!(refused, Outcome::Raised(_)));
        }
        assert_eq!(apply(&mut counter, "get", &[1]), returned_int(i64::MAX));
        assert_eq!(apply(&mut counter, "__len__", &[]), returned_int(1));
        let many = apply(&mut counter, "elements", &[]);
        assert!(
            matches!(many, Outcome::Raised(_)),
            "it would fill the memory"
        );
    }

    #[test]
    fn an_unknown_method_is_raised() {
        let mut counter = Counter::default();
        assert!(matches!(
            apply(&mut counter, "drop", &[]),
            Outcome::Raised(_)
        ));
    }
}
