//! `rust:map`: values by key, in the order in which the keys came.
//!
//! The methods, their order and their errors are those of `quorate.objects.Map`. What Python hashes and an object in Rust cannot
//! (decimal numbers, enumerations, instances of classes, NaN) is no key.

use super::equality::are_equal;
use super::items::{Items, decoded, encoded, iterated, key_error, pairs, put_pair};
use super::stored::{PIECE_BYTES, Stored};
use crate::arguments::{
    Arguments, CallView, Mistake, NONE, mistake, raised, returned_bool, returned_int,
    returned_none, unknown_method,
};
use crate::image::Image;
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::Outcome;
use quorate_wire::value::{Raised, Value};

/// Values by key, with the methods of `quorate.objects.Map`.
#[derive(Clone, Default, Debug)]
pub struct Map {
    items: Items<Stored>,
}

impl Map {
    /// Makes a map; the optional argument is a mapping or pairs.
    pub(crate) fn create(arguments: &mut Arguments<'_>) -> Result<Map, Mistake> {
        let mut map = Map::default();
        let items = arguments.next_item()?;
        arguments.finish()?;
        if let Some(items) = items {
            map.take_over(decoded(items)?)?;
        }
        Ok(map)
    }

    fn set(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let value = arguments.value("value")?;
        arguments.finish()?;
        self.items.insert(key, value.into())?;
        Ok(returned_none())
    }

    fn set_default(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let default = arguments.value("default")?;
        arguments.finish()?;
        if let Some(present) = self.items.get(key)? {
            return Ok(Outcome::Returned(present.bytes().clone()));
        }
        self.items.insert(key, default.clone().into())?;
        Ok(Outcome::Returned(default))
    }

    fn replace(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let expected = arguments.item("expected")?;
        let value = arguments.value("value")?;
        arguments.finish()?;
        let present = self.items.get(key)?;
        let is_expected = present.is_some_and(|present| are_equal(present.bytes(), expected));
        if is_expected {
            self.items.insert(key, value.into())?;
        }
        Ok(returned_bool(is_expected))
    }

    fn update(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let items = arguments.item("items")?;
        arguments.finish()?;
        self.take_over(decoded(items)?)?;
        Ok(returned_none())
    }

    /// What comes before a pair that is none stays, as in a dict.
    fn take_over(&mut self, items: Value) -> Result<(), Mistake> {
        let entries = match items {
            Value::Map(entries) => entries,
            Value::MapOf(map) => map.entries,
            pairs => return self.take_pairs(iterated(pairs)?),
        };
        for (key, value) in entries {
            self.items
                .insert(&encoded(&key)?, encoded(&value)?.into())?;
        }
        Ok(())
    }

    fn take_pairs(&mut self, pairs: Vec<Value>) -> Result<(), Mistake> {
        for (number, pair) in pairs.into_iter().enumerate() {
            let pair = iterated(pair).map_err(|_| {
                let what = format!("dictionary update sequence element #{number}");
                mistake("TypeError", format!("cannot convert {what} to a sequence"))
            })?;
            let [key, value] = &pair[..] else {
                let has = format!("element #{number} has length {}", pair.len());
                let message = format!("dictionary update sequence {has}; 2 is required");
                return Err(mistake("ValueError", message));
            };
            self.items.insert(&encoded(key)?, encoded(value)?.into())?;
        }
        Ok(())
    }

    fn pop(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let given = arguments.count();
        let key = arguments.item("key")?;
        let default = arguments.next_item()?;
        if given > 2 {
            let message = format!("pop expected at most 2 arguments, got {given}");
            return Err(mistake("TypeError", message));
        }
        arguments.finish()?;
        Ok(match (self.items.remove(key)?, default) {
            (Some(value), _) => Outcome::Returned(value.bytes().clone()),
            (None, Some(default)) => Outcome::Returned(Bytes::copy_from_slice(default)),
            (None, None) => key_error(key),
        })
    }

    fn pop_newest(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        let Some((key, value)) = self.items.pop() else {
            return Ok(empty());
        };
        let mut out = Vec::with_capacity(key.len() + value.bytes().len() + 4);
        put_pair(&mut out, &key);
        out.extend_from_slice(value.bytes());
        Ok(Outcome::Returned(out.into()))
    }

    fn delete(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        arguments.finish()?;
        let removed = self.items.remove(key)?;
        Ok(removed.map_or_else(|| key_error(key), |_| returned_none()))
    }

    fn clear(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        self.items = Items::default();
        Ok(returned_none())
    }

    fn get(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        let default = arguments.next_item()?.unwrap_or(NONE);
        arguments.finish()?;
        let value = match self.items.get(key)? {
            Some(value) => value.bytes().clone(),
            None => Bytes::copy_from_slice(default),
        };
        Ok(Outcome::Returned(value))
    }

    fn of_key(
        &self,
        mut arguments: Arguments<'_>,
        told: impl Fn(&[u8], Option<&Stored>) -> Outcome,
    ) -> Result<Outcome, Mistake> {
        let key = arguments.item("key")?;
        arguments.finish()?;
        Ok(told(key, self.items.get(key)?))
    }

    fn of_all(
        &self,
        mut arguments: Arguments<'_>,
        told: impl Fn(&Items<Stored>) -> Outcome,
    ) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        Ok(told(&self.items))
    }
}

fn put(out: &mut Vec<u8>, value: &Stored) {
    out.extend_from_slice(value.bytes());
}

fn empty() -> Outcome {
    let text = "popitem(): dictionary is empty";
    let raised = Raised {
        class: "builtins.KeyError".to_owned(),
        // What `str` says of this exception is what `repr` says of its argument.
        message: format!("'{text}'"),
        args: vec![text.into()],
        traceback: String::new(),
        details: Vec::new(),
    };
    Outcome::Raised(raised.encode().expect("it is short"))
}

impl Object for Map {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        match call.method {
            "__setitem__" => self.set(call.arguments),
            "setdefault" => self.set_default(call.arguments),
            "replace" => self.replace(call.arguments),
            "update" => self.update(call.arguments),
            "pop" => self.pop(call.arguments),
            "popitem" => self.pop_newest(call.arguments),
            "__delitem__" => self.delete(call.arguments),
            "clear" => self.clear(call.arguments),
            _ => return self.read(call),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn read(&self, call: CallView<'_>) -> Outcome {
        match call.method {
            "get" => self.get(call.arguments),
            "__getitem__" => self.of_key(call.arguments, |key, value| match value {
                Some(value) => Outcome::Returned(value.bytes().clone()),
                None => key_error(key),
            }),
            "__contains__" => {
                self.of_key(call.arguments, |_, value| returned_bool(value.is_some()))
            }
            "__len__" => self.of_all(call.arguments, |items| returned_int(items.len() as i64)),
            "__iter__" | "keys" => self.of_all(call.arguments, Items::keys),
            "values" => self.of_all(call.arguments, |items| items.values(put)),
            "items" => self.of_all(call.arguments, |items| pairs(items.all(), put)),
            name @ ("__setitem__" | "setdefault" | "replace" | "update" | "pop" | "popitem"
            | "__delitem__" | "clear") => {
                let message = format!("`{name}` changes the map: call it, do not read it");
                return raised("TypeError", message);
            }
            unknown => return unknown_method("Map", unknown),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn methods(&self) -> Methods {
        let (class, all) = ("Map", METHODS);
        Methods { class, all }
    }

    /// Per entry: length of key and of value (4 bytes each), key, value. Large values are pieces of their own.
    fn snapshot(&self) -> FrozenState {
        let items = self.items.clone();
        Box::new(move || {
            let mut image = Image::default();
            let mut out = BytesMut::with_capacity(PIECE_BYTES);
            for (key, value) in items.all() {
                out.put_u32(key.len() as u32);
                out.put_u32(value.bytes().len() as u32);
                out.put_slice(key);
                value.put(&mut out, &mut image);
            }
            image.push(out.freeze());
            image
        })
    }

    fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let cut = || RestoreError::new("the image of a map is cut");
        let mut items = Items::default();
        while !image.is_empty() {
            let key = image.try_get_u32().map_err(|_| cut())? as usize;
            let value = image.try_get_u32().map_err(|_| cut())? as usize;
            let (key, rest) = image.split_at_checked(key).ok_or_else(cut)?;
            let (value, rest) = rest.split_at_checked(value).ok_or_else(cut)?;
            let stored = Bytes::copy_from_slice(value).into();
            items
                .insert(key, stored)
                .map_err(|error| RestoreError::new(error.to_string()))?;
            image = rest;
        }
        self.items = items;
        Ok(())
    }
}

const METHODS: &[Method] = &[
    Method::read("__contains__(key: K) -> bool", ""),
    Method::call("__delitem__(key: K) -> None", ""),
    Method::read("__getitem__(key: K) -> V", ""),
    Method::read("__iter__() -> Iterator[K]", ""),
    Method::read("__len__() -> int", ""),
    Method::call("__setitem__(key: K, value: V) -> None", ""),
    Method::call("clear() -> None", "Remove all keys."),
    Method::read(
        "get(key: K, default: V | None = None) -> V | None",
        "The value of a key, or the default.",
    ),
    Method::read(
        "items() -> list[tuple[K, V]]",
        "All keys with their values, the oldest first.",
    ),
    Method::read("keys() -> list[K]", "All keys, the oldest first."),
    Method::call(
        "pop(key: K, *default: V) -> V",
        "Remove a key and return its value, or the default. Raises KeyError where neither is there.",
    ),
    Method::call(
        "popitem() -> tuple[K, V]",
        "Remove the newest key and return it with its value. Raises KeyError if the map is empty.",
    ),
    Method::call(
        "replace(key: K, expected: V, value: V) -> bool",
        "Give a key another value if it has the expected one; whether it did.",
    ),
    Method::call(
        "setdefault(key: K, default: V) -> V",
        "The value of a key, which gets the default if it has none.",
    ),
    Method::call(
        "update(items: Mapping[K, V] | Iterable[tuple[K, V]]) -> None",
        "Take over keys and values, in place of those that were there.",
    ),
    Method::read(
        "values() -> list[V]",
        "All values, in the order of their keys.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_wire::value::{self, call};

    fn apply(map: &mut Map, method: &str, arguments: &[Value]) -> Result<Value, String> {
        let payload = call::encode(method, arguments, &[]).unwrap();
        let call = CallView::parse(&payload).unwrap();
        match map.apply(call, &Environment::default()) {
            Outcome::Returned(bytes) => Ok(value::decode(&bytes).unwrap()),
            Outcome::Raised(bytes) => {
                let raised = Raised::decode(&bytes).unwrap();
                Err(format!("{}: {}", raised.class, raised.message))
            }
            other => panic!("{other:?}"),
        }
    }

    fn text(text: &str) -> Value {
        Value::from(text)
    }

    #[test]
    fn keys_keep_their_order_and_their_first_form() {
        let mut map = Map::default();
        for (key, value) in [(Value::Int(1), 1), (text("b"), 2), (Value::Float(1.0), 3)] {
            apply(&mut map, "__setitem__", &[key, Value::Int(value)]).unwrap();
        }
        let keys = Value::List(vec![Value::Int(1), text("b")]);
        assert_eq!(apply(&mut map, "keys", &[]), Ok(keys.clone()));
        assert_eq!(
            apply(&mut map, "__getitem__", &[Value::Bool(true)]),
            Ok(Value::Int(3))
        );
        let mut copy = Map::default();
        copy.restore(&map.snapshot()().whole()).unwrap();
        assert_eq!(apply(&mut copy, "__iter__", &[]), Ok(keys));
        assert_eq!(copy.snapshot()().whole(), map.snapshot()().whole());
        let newest = Value::Tuple(vec![text("b"), Value::Int(2)]);
        assert_eq!(apply(&mut copy, "popitem", &[]), Ok(newest));
        apply(&mut copy, "clear", &[]).unwrap();
        assert_eq!(
            apply(&mut copy, "popitem", &[]),
            Err("builtins.KeyError: 'popitem(): dictionary is empty'".to_owned())
        );
    }

    #[test]
    fn an_image_is_the_state_at_its_moment_with_values_of_any_size() {
        let mut map = Map::default();
        let large = text(&"x".repeat(200_000));
        apply(&mut map, "__setitem__", &[text("a"), large.clone()]).unwrap();
        apply(&mut map, "__setitem__", &[text("b"), Value::Null]).unwrap();
        let frozen = map.snapshot();
        apply(&mut map, "clear", &[]).unwrap();
        let mut copy = Map::default();
        copy.restore(&frozen().whole()).unwrap();
        assert_eq!(apply(&mut copy, "get", &[text("a")]), Ok(large));
        assert_eq!(apply(&mut copy, "__len__", &[]), Ok(Value::Int(2)));
    }

    #[test]
    fn a_cut_image_is_refused() {
        let mut map = Map::default();
        apply(&mut map, "__setitem__", &[text("key"), text("value")]).unwrap();
        let image = map.snapshot()().whole();
        for length in 1..image.len() {
            assert!(
                Map::default().restore(&image[..length]).is_err(),
                "{length}"
            );
        }
    }
}
