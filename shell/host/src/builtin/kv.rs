//! `rust:kv`: an ordered map from strings to values of any kind.
//!
//! The map is persistent (shared structure), so freezing it costs one pointer copy however large it is.

use super::stored::{PIECE_BYTES, Stored};
use crate::arguments::{
    Arguments, CallView, Mistake, NONE, StringKind, mistake, put_list, put_string, raised,
    returned_bool, returned_int, string_of, unknown_method,
};
use crate::image::Image;
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use bytes::{BufMut, Bytes, BytesMut};
use imbl::OrdMap;
use quorate_types::Outcome;
use std::ops::Bound;

/// Entries that one `range` returns at most, so that a reply stays below the frame limit.
const RANGE_MAX: usize = 10_000;

/// Bytes of entries after which one `range` ends, for the same reason.
const RANGE_BYTES_MAX: usize = 512 << 10;

/// Bytes that one `fill` may make.
const FILL_BYTES_MAX: i64 = 1 << 30;

/// Maps keys (text or bytes) to values.
///
/// Methods: `get(key)`, `put(key, value)` -> previous, `delete(key)` -> existed?,
/// `append(key, string)` -> new length, `range(start=None, end=None, limit=100)` -> list of pairs,
/// `len()`, `fill(count, size)` -> number of keys.
#[derive(Clone, Default, Debug)]
pub struct Kv {
    entries: OrdMap<Key, Stored>,
}

/// Text sorts before bytes, each by content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(StringKind, Box<[u8]>);

impl Key {
    fn of(item: &[u8], name: &str) -> Result<Key, Mistake> {
        let (content, kind) = string_of(item)
            .ok_or_else(|| mistake("TypeError", format!("`{name}` is neither str nor bytes")))?;
        Ok(Key(kind, content.into()))
    }
}

impl Kv {
    fn put(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = Key::of(arguments.item("key")?, "key")?;
        let value = arguments.value("value")?;
        arguments.finish()?;
        let previous = self.entries.insert(key, value.into());
        Ok(returned_or_none(previous.as_ref()))
    }

    fn delete(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = Key::of(arguments.item("key")?, "key")?;
        arguments.finish()?;
        Ok(returned_bool(self.entries.remove(&key).is_some()))
    }

    fn append(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = Key::of(arguments.item("key")?, "key")?;
        let (more, kind) = string_of(arguments.item("string")?)
            .ok_or_else(|| mistake("TypeError", "only strings can be appended".to_owned()))?;
        arguments.finish()?;
        let present = match self.entries.get(&key).map(|v| string_of(v.bytes())) {
            None => &[][..],
            Some(Some((content, present))) if present == kind => content,
            Some(_) => {
                let message = "the present value is not a string of that kind".to_owned();
                return Err(mistake("TypeError", message));
            }
        };
        let joined = [present, more].concat();
        let mut encoded = Vec::with_capacity(joined.len() + 9);
        put_string(&mut encoded, kind, &joined);
        self.entries.insert(key, Bytes::from(encoded).into());
        Ok(returned_int(joined.len() as i64))
    }

    /// Makes the keys `fill-00000000`.. with `size` bytes each: a large state in one short call.
    fn fill(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let count = arguments.int("count")?;
        let size = arguments.int("size")?;
        arguments.finish()?;
        let bytes = count.checked_mul(size.saturating_add(64));
        if count < 0 || size < 0 || bytes.is_none_or(|b| b > FILL_BYTES_MAX) {
            let message = format!("fill makes at most {FILL_BYTES_MAX} bytes");
            return Err(mistake("ValueError", message));
        }
        for number in 0..count {
            let key = format!("fill-{number:08}").into_bytes().into_boxed_slice();
            let mut value = Vec::with_capacity(size as usize + 9);
            put_string(
                &mut value,
                StringKind::Bytes,
                &vec![number as u8; size as usize],
            );
            self.entries
                .insert(Key(StringKind::Text, key), Bytes::from(value).into());
        }
        Ok(returned_int(self.entries.len() as i64))
    }

    fn get(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let key = Key::of(arguments.item("key")?, "key")?;
        arguments.finish()?;
        Ok(returned_or_none(self.entries.get(&key)))
    }

    /// Pairs with `start <= key < end`.
    fn range(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let mut bound = |name| match arguments.next_item()? {
            None | Some(NONE) => Ok(None),
            Some(item) => Key::of(item, name).map(Some),
        };
        let start = bound("start")?.map_or(Bound::Unbounded, Bound::Included);
        let end = bound("end")?.map_or(Bound::Unbounded, Bound::Excluded);
        let limit = arguments.int_or("limit", 100)?;
        arguments.finish()?;
        let limit = usize::try_from(limit).unwrap_or(0).min(RANGE_MAX);
        let is_empty = matches!((&start, &end), (Bound::Included(s), Bound::Excluded(e)) if s >= e);
        let found: Vec<_> = if is_empty {
            Vec::new()
        } else {
            let mut bytes = 0;
            self.entries
                .range((start, end))
                .take(limit)
                .take_while(|(key, value)| {
                    let is_room = bytes < RANGE_BYTES_MAX;
                    bytes += key.1.len() + value.bytes().len();
                    is_room
                })
                .collect()
        };
        let mut out = Vec::new();
        put_list(&mut out, found.len());
        for (Key(kind, content), value) in found {
            put_list(&mut out, 2);
            put_string(&mut out, *kind, content);
            out.extend_from_slice(value.bytes());
        }
        Ok(Outcome::Returned(out.into()))
    }

    fn len(&self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        Ok(returned_int(self.entries.len() as i64))
    }
}

impl Object for Kv {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        match call.method {
            "put" => self.put(call.arguments),
            "delete" => self.delete(call.arguments),
            "append" => self.append(call.arguments),
            "fill" => self.fill(call.arguments),
            _ => return self.read(call),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn read(&self, call: CallView<'_>) -> Outcome {
        match call.method {
            "get" => self.get(call.arguments),
            "range" => self.range(call.arguments),
            "len" => self.len(call.arguments),
            name @ ("put" | "delete" | "append" | "fill") => {
                let message = format!("`{name}` changes the map: call it, do not read it");
                return raised("TypeError", message);
            }
            unknown => return unknown_method("Kv", unknown),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn methods(&self) -> Methods {
        let all = const {
            &[
                Method::call(
                    "append(key: str | bytes, string: str | bytes) -> int",
                    "Add to the end of a string; its new length.",
                ),
                Method::call(
                    "delete(key: str | bytes) -> bool",
                    "Remove a key; whether it was there.",
                ),
                Method::call(
                    "fill(count: int, size: int) -> int",
                    "Make keys with that many bytes each; how many keys there are.",
                ),
                Method::read(
                    "get(key: str | bytes) -> object",
                    "The value of a key, or None.",
                ),
                Method::read("len() -> int", "How many keys there are."),
                Method::call(
                    "put(key: str | bytes, value: object) -> object",
                    "Give a key a value; the one that it had.",
                ),
                Method::read(
                    "range(start: str | bytes | None = None, end: str | bytes | None = None, limit: int = 100) -> list",
                    "Pairs of keys and values in the order of the keys, up to and without the end.",
                ),
            ]
        };
        let class = "Kv";
        Methods { class, all }
    }

    fn snapshot(&self) -> FrozenState {
        let entries = self.entries.clone();
        Box::new(move || encode(&entries))
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), RestoreError> {
        self.entries = decode(image)?;
        Ok(())
    }
}

fn returned_or_none(value: Option<&Stored>) -> Outcome {
    let none = || Bytes::from_static(NONE);
    Outcome::Returned(value.map_or_else(none, |value| value.bytes().clone()))
}

/// Per entry: kind (1 byte), length of key and of value (4 bytes each, big-endian), key, value.
/// Large values are pieces of the image as they are in the map, with their hashes.
fn encode(entries: &OrdMap<Key, Stored>) -> Image {
    let mut image = Image::default();
    let mut out = BytesMut::with_capacity(PIECE_BYTES);
    for (Key(kind, content), value) in entries {
        out.put_u8(match kind {
            StringKind::Text => 0,
            StringKind::Bytes => 1,
        });
        out.put_u32(content.len() as u32);
        out.put_u32(value.bytes().len() as u32);
        out.put_slice(content);
        value.put(&mut out, &mut image);
    }
    image.push(out.freeze());
    image
}

fn decode(mut image: &[u8]) -> Result<OrdMap<Key, Stored>, RestoreError> {
    let cut = || RestoreError::new("the image of a kv is cut short");
    let mut entries = OrdMap::new();
    while let Some((kind, rest)) = image.split_first() {
        let kind = match kind {
            0 => StringKind::Text,
            1 => StringKind::Bytes,
            _ => return Err(RestoreError::new("a key is neither text nor bytes")),
        };
        let (lengths, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        let [k0, k1, k2, k3, v0, v1, v2, v3] = *lengths;
        let key_length = u32::from_be_bytes([k0, k1, k2, k3]) as usize;
        let value_length = u32::from_be_bytes([v0, v1, v2, v3]) as usize;
        let (key, rest) = rest.split_at_checked(key_length).ok_or_else(cut)?;
        let (value, rest) = rest.split_at_checked(value_length).ok_or_else(cut)?;
        entries.insert(Key(kind, key.into()), Bytes::copy_from_slice(value).into());
        image = rest;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::stored::SHARE_MIN;
    use super::*;

    fn payload(method: &str, arguments: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0x83];
        put_string(&mut out, StringKind::Text, method.as_bytes());
        put_list(&mut out, arguments.len());
        for argument in arguments {
            out.extend_from_slice(argument);
        }
        out.push(0xa0);
        out
    }

    fn apply(kv: &mut Kv, method: &str, arguments: &[&[u8]]) -> Outcome {
        let payload = payload(method, arguments);
        kv.apply(CallView::parse(&payload).unwrap(), &Environment::default())
    }

    fn returned(bytes: &'static [u8]) -> Outcome {
        Outcome::Returned(Bytes::from_static(bytes))
    }

    #[test]
    fn a_map_keeps_order_and_returns_what_was_there() {
        let mut kv = Kv::default();
        assert_eq!(apply(&mut kv, "put", &[b"\x61b", b"\x02"]), returned(NONE));
        assert_eq!(apply(&mut kv, "put", &[b"\x62aa", b"\x01"]), returned(NONE));
        assert_eq!(
            apply(&mut kv, "put", &[b"\x61b", b"\x03"]),
            returned(b"\x02")
        );
        assert_eq!(
            apply(&mut kv, "range", &[]),
            returned(b"\x82\x82\x62aa\x01\x82\x61b\x03")
        );
        assert_eq!(
            apply(&mut kv, "range", &[b"\x61b", b"\x61a"]),
            returned(b"\x80")
        );
        assert_eq!(apply(&mut kv, "delete", &[b"\x62aa"]), returned_bool(true));
        assert_eq!(apply(&mut kv, "delete", &[b"\x62aa"]), returned_bool(false));
        assert_eq!(apply(&mut kv, "len", &[]), returned_int(1));
    }

    #[test]
    fn appending_joins_strings_of_one_kind_only() {
        let mut kv = Kv::default();
        assert_eq!(
            apply(&mut kv, "append", &[b"\x61k", b"\x62ab"]),
            returned_int(2)
        );
        assert_eq!(
            apply(&mut kv, "append", &[b"\x61k", b"\x61c"]),
            returned_int(3)
        );
        assert_eq!(apply(&mut kv, "get", &[b"\x61k"]), returned(b"\x63abc"));
        assert!(matches!(
            apply(&mut kv, "append", &[b"\x61k", b"\x41c"]),
            Outcome::Raised(_)
        ));
        assert!(matches!(
            apply(&mut kv, "append", &[b"\x01", b"\x61c"]),
            Outcome::Raised(_)
        ));
    }

    #[test]
    fn a_frozen_map_is_what_it_was_while_calls_go_on() {
        let mut kv = Kv::default();
        apply(&mut kv, "fill", &[b"\x18\x64", b"\x14"]);
        let frozen = kv.snapshot();
        apply(&mut kv, "put", &[b"\x61z", b"\x01"]);
        let mut copy = Kv::default();
        copy.restore(&frozen().whole()).unwrap();
        assert_eq!(apply(&mut copy, "len", &[]), returned_int(100));
        assert_eq!(apply(&mut kv, "len", &[]), returned_int(101));
        let image = kv.snapshot()().whole();
        assert!(copy.restore(&image[..image.len() - 1]).is_err());
    }

    #[test]
    fn a_large_value_that_was_appended_to_is_hashed_anew() {
        let text = |length| {
            let mut encoded = Vec::new();
            put_string(&mut encoded, StringKind::Text, &vec![b'a'; length]);
            encoded
        };
        let digest = |kv: &Kv| {
            let (object, image) = (quorate_types::ObjectId(3), kv.snapshot()());
            crate::image::images_list(&[crate::ObjectImage { object, image }]).digest()
        };
        let (mut kv, mut whole) = (Kv::default(), Kv::default());
        apply(&mut kv, "put", &[b"\x61k", &text(3 * SHARE_MIN)]);
        let before = digest(&kv);
        let length = returned_int(3 * SHARE_MIN as i64 + 1);
        assert_eq!(apply(&mut kv, "append", &[b"\x61k", &text(1)]), length);
        apply(&mut whole, "put", &[b"\x61k", &text(3 * SHARE_MIN + 1)]);
        assert_ne!(digest(&kv), before);
        assert_eq!(digest(&kv), digest(&whole));
        let value = apply(&mut kv, "get", &[b"\x61k"]);
        assert_eq!(value, Outcome::Returned(text(3 * SHARE_MIN + 1).into()));
    }

    #[test]
    fn a_range_of_large_values_ends_early_and_never_empty() {
        let mut kv = Kv::default();
        apply(&mut kv, "fill", &[b"\x18\x64", b"\x1a\x00\x04\x00\x00"]);
        let Outcome::Returned(page) = apply(&mut kv, "range", &[]) else {
            panic!("it is a read")
        };
        assert!((256 << 10..1 << 20).contains(&page.len()), "{}", page.len());
    }

    #[test]
    fn a_fill_beyond_the_bound_is_raised() {
        let mut kv = Kv::default();
        let huge = b"\x1b\x7f\xff\xff\xff\xff\xff\xff\xff";
        assert!(matches!(
            apply(&mut kv, "fill", &[huge, huge]),
            Outcome::Raised(_)
        ));
        assert_eq!(apply(&mut kv, "len", &[]), returned_int(0));
    }
}
