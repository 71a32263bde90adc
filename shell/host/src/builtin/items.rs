//! Entries by key in the order in which the keys came, as a dict of Python has them.
//!
//! Shared structure: a copy costs two pointers however many entries there are.

use super::equality::{key_of, type_name};
use super::repr::repr;
use crate::arguments::{Mistake, mistake, put_list};
use bytes::Bytes;
use imbl::OrdMap;
use quorate_types::Outcome;
use quorate_wire::value::{self, Raised, Value};

/// The head of a tuple of two.
const PAIR: [u8; 4] = [0xd9, 0xea, 0x61, 0x82];

/// Entries by key.
///
/// Invariant: each key has one place, and each place one entry.
#[derive(Clone, Debug)]
pub(super) struct Items<V: Clone> {
    /// By what equal keys have in common.
    places: OrdMap<Box<[u8]>, u64>,
    /// The key as it came first, and its value.
    entries: OrdMap<u64, (Bytes, V)>,
}

impl<V: Clone> Default for Items<V> {
    fn default() -> Items<V> {
        let (places, entries) = (OrdMap::new(), OrdMap::new());
        Items { places, entries }
    }
}

impl<V: Clone> Items<V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key, given as it is encoded.
    ///
    /// # Errors
    /// `TypeError` when it is no key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&V>, Mistake> {
        let place = self.places.get(&key_of(key)?);
        let entry = place.and_then(|place| self.entries.get(place));
        Ok(entry.map(|(_, value)| value))
    }

    /// Gives a key a value; a new key comes last.
    ///
    /// # Errors
    /// `TypeError` when it is no key.
    pub(super) fn insert(&mut self, key: &[u8], value: V) -> Result<(), Mistake> {
        let found = key_of(key)?;
        if let Some(place) = self.places.get(&found)
            && let Some(entry) = self.entries.get_mut(place)
        {
            entry.1 = value;
            return Ok(());
        }
        let place = self.entries.get_max().map_or(0, |(last, _)| last + 1);
        self.places.insert(found, place);
        self.entries
            .insert(place, (Bytes::copy_from_slice(key), value));
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `TypeError` when it is no key.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<Option<V>, Mistake> {
        let place = self.places.remove(&key_of(key)?);
        let entry = place.and_then(|place| self.entries.remove(&place));
        Ok(entry.map(|(_, value)| value))
    }

    /// Removes the newest key.
    pub(super) fn pop(&mut self) -> Option<(Bytes, V)> {
        let (place, (key, _)) = self.entries.get_max()?.clone();
        let found = key_of(&key).expect("it was a key when it came");
        self.places.remove(&found);
        self.entries.remove(&place)
    }

    /// All, the oldest first.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &(Bytes, V)> {
        self.entries.values()
    }

    /// The keys as a list.
    pub(super) fn keys(&self) -> Outcome {
        let mut out = Vec::new();
        put_list(&mut out, self.len());
        for (key, _) in self.all() {
            out.extend_from_slice(key);
        }
        Outcome::Returned(out.into())
    }

    /// The values as a list; `put` encodes one.
    pub(super) fn values(&self, put: impl Fn(&mut Vec<u8>, &V)) -> Outcome {
        let mut out = Vec::new();
        put_list(&mut out, self.len());
        for (_, value) in self.all() {
            put(&mut out, value);
        }
        Outcome::Returned(out.into())
    }
}

/// Pairs as a list of tuples; `put` encodes the second half of one.
pub(super) fn pairs<'a, V: 'a>(
    items: impl ExactSizeIterator<Item = &'a (Bytes, V)>,
    put: impl Fn(&mut Vec<u8>, &V),
) -> Outcome {
    let mut out = Vec::new();
    put_list(&mut out, items.len());
    for (key, value) in items {
        put_pair(&mut out, key);
        put(&mut out, value);
    }
    Outcome::Returned(out.into())
}

/// The beginning of a pair, whose second half comes next.
pub(super) fn put_pair(out: &mut Vec<u8>, first: &[u8]) {
    out.extend_from_slice(&PAIR);
    out.extend_from_slice(first);
}

/// What Python raises for a key that is not there.
pub(super) fn key_error(key: &[u8]) -> Outcome {
    let key = value::decode(key).unwrap_or(Value::Null);
    let message = repr(&key);
    let raised = Raised {
        class: "builtins.KeyError".to_owned(),
        message,
        args: vec![key],
        traceback: String::new(),
        details: Vec::new(),
    };
    // A key that came in a call is no larger than an exception may be.
    Outcome::Raised(raised.encode().unwrap_or_default())
}

/// What a loop over a value gives.
///
/// # Errors
/// `TypeError` when there is no loop over it.
pub(super) fn iterated(value: Value) -> Result<Vec<Value>, Mistake> {
    let keys = |entries: Vec<(Value, Value)>| entries.into_iter().map(|(key, _)| key).collect();
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            Ok(items)
        }
        Value::Deque(deque) => Ok(deque.items),
        Value::Map(entries) => Ok(keys(entries)),
        Value::MapOf(map) => Ok(keys(map.entries)),
        Value::Text(text) => Ok(text.chars().map(|c| Value::from(&*c.to_string())).collect()),
        Value::Bytes(bytes) | Value::ByteArray(bytes) => Ok(bytes
            .into_iter()
            .map(|byte| Value::Int(byte.into()))
            .collect()),
        other => {
            let message = format!("'{}' object is not iterable", type_name(&other));
            Err(mistake("TypeError", message))
        }
    }
}

/// Reads an argument whole.
///
/// # Errors
/// `ValueError` when it is no value.
pub(super) fn decoded(item: &[u8]) -> Result<Value, Mistake> {
    value::decode(item).map_err(|error| mistake("ValueError", error.to_string()))
}

/// The encoding of a part of an argument.
///
/// # Errors
/// `ValueError` when it has none.
pub(super) fn encoded(value: &Value) -> Result<Bytes, Mistake> {
    value::encode(value).map_err(|error| mistake("ValueError", error.to_string()))
}
