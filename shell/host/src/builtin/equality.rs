//! Which values are equal, and which can be keys, as Python has it: `1 == 1.0 == True`, and a list is no key.
//!
//! Two values are equal when their canonical forms are. Values whose kind has rules of its own (decimal numbers, enumerations,
//! instances of classes) are equal when they are encoded alike, and are no keys here.

use crate::arguments::{Mistake, mistake};
use quorate_wire::value::{self, MapKind, Sign, Value};

/// Whether two encoded values are equal.
pub(super) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let canonical = |item| value::decode(item).ok().map(canonical);
    match (canonical(one), canonical(other)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => one == other,
    }
}

/// The encoding that all keys have which are equal to this one.
///
/// # Errors
/// `TypeError` when it is no key.
pub(super) fn key_of(item: &[u8]) -> Result<Box<[u8]>, Mistake> {
    // Integers and strings have one encoding each.
    if item.first().is_some_and(|first| first >> 5 <= 3) {
        return Ok(item.into());
    }
    let decoded = value::decode(item).map_err(refused)?;
    check_key(&decoded)?;
    let encoded = value::encode(&canonical(decoded)).map_err(refused)?;
    Ok(encoded[..].into())
}

fn refused(error: value::ValueError) -> Mistake {
    mistake("ValueError", error.to_string())
}

fn check_key(key: &Value) -> Result<(), Mistake> {
    match key {
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Text(_)
        | Value::Bytes(_)
        | Value::Date(_)
        | Value::Uuid(_) => Ok(()),
        Value::Float(number) if !number.is_nan() => Ok(()),
        Value::Tuple(items) => items.iter().try_for_each(check_key),
        Value::FrozenSet(items) => items.iter().try_for_each(check_key),
        Value::List(_)
        | Value::Map(_)
        | Value::Set(_)
        | Value::ByteArray(_)
        | Value::Deque(_)
        | Value::MapOf(_) => {
            let message = format!("unhashable type: '{}'", type_name(key));
            Err(mistake("TypeError", message))
        }
        other => {
            let message = format!(
                "an object in Rust has keys that are None, bools, numbers, texts, bytes, dates, UUIDs, and tuples and frozen \
                 sets of these, and no {}: serve the class in Python",
                other.kind_name()
            );
            Err(mistake("TypeError", message))
        }
    }
}

/// What Python calls the type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Float(_) => "float",
        Value::Text(_) => "str",
        Value::Bytes(_) => "bytes",
        Value::ByteArray(_) => "bytearray",
        Value::List(_) => "list",
        Value::Tuple(_) => "tuple",
        Value::Map(_) => "dict",
        Value::Set(_) => "set",
        Value::FrozenSet(_) => "frozenset",
        Value::Deque(_) => "collections.deque",
        Value::MapOf(map) => match map.kind {
            MapKind::Ordered => "collections.OrderedDict",
            MapKind::Counter => "Counter",
            MapKind::Default => "collections.defaultdict",
        },
        other => other.kind_name(),
    }
}

/// The same for all values that are equal.
fn canonical(value: Value) -> Value {
    let all = |items: Vec<Value>| -> Vec<Value> { items.into_iter().map(canonical).collect() };
    match value {
        Value::Bool(truth) => Value::Int(i64::from(truth)),
        Value::Float(number) => whole(number).unwrap_or(Value::Float(number)),
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        Value::Set(items) | Value::FrozenSet(items) => Value::FrozenSet(sorted(all(items))),
        Value::ByteArray(bytes) => Value::Bytes(bytes),
        Value::Map(entries) => Value::Map(without_order(entries)),
        Value::MapOf(map) if map.kind != MapKind::Ordered => Value::Map(without_order(map.entries)),
        other => other,
    }
}

/// The integer that a number is, if it is one.
fn whole(number: f64) -> Option<Value> {
    if !number.is_finite() || number.trunc() != number {
        return None;
    }
    if number.abs() < 9e18 {
        return Some(Value::Int(number as i64));
    }
    // From here on a number is its 53 leading bits and zeros behind them.
    let bits = number.to_bits();
    let zeros = (bits >> 52 & 0x7ff) as usize - 1075;
    let leading = u128::from(bits & ((1 << 52) - 1) | 1 << 52) << (zeros % 8);
    let mut magnitude = leading.to_be_bytes().to_vec();
    magnitude.resize(magnitude.len() + zeros / 8, 0);
    let sign = match number < 0.0 {
        true => Sign::Negative,
        false => Sign::Positive,
    };
    Some(Value::integer(sign, &magnitude))
}

fn without_order(entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut entries: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| (canonical(key), canonical(value)))
        .collect();
    entries.sort_by_cached_key(|(key, _)| value::encode(key).unwrap_or_default());
    entries
}

fn sorted(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_cached_key(|item| value::encode(item).unwrap_or_default());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &Value) -> Vec<u8> {
        value::encode(value).unwrap().to_vec()
    }

    fn equal(one: &Value, other: &Value) -> bool {
        are_equal(&encoded(one), &encoded(other))
    }

    #[test]
    fn numbers_are_equal_whatever_their_kind() {
        for (one, other) in [
            (Value::Int(1), Value::Float(1.0)),
            (Value::Bool(true), Value::Int(1)),
            (Value::Float(-0.0), Value::Bool(false)),
            (
                Value::Float(9_223_372_036_854_775_808.0),
                Value::integer(Sign::Positive, &[0x80, 0, 0, 0, 0, 0, 0, 0]),
            ),
            (
                Value::Float(-9_223_372_036_854_775_808.0),
                Value::Int(i64::MIN),
            ),
            (
                Value::Float(1e22),
                Value::integer(Sign::Positive, &10u128.pow(22).to_be_bytes()),
            ),
        ] {
            assert!(equal(&one, &other), "{one} {other}");
            assert_eq!(key_of(&encoded(&one)), key_of(&encoded(&other)));
        }
        assert!(!equal(&Value::Float(f64::NAN), &Value::Float(f64::NAN)));
        assert!(!equal(&Value::Int(1), &Value::from("1")));
        assert!(!equal(&Value::Float(0.5), &Value::Int(0)));
    }

    #[test]
    fn the_order_counts_in_lists_and_not_in_maps_and_sets() {
        let pair = |one, other| (Value::Int(one), Value::Int(other));
        let map = |entries: Vec<_>| Value::Map(entries);
        assert!(equal(
            &map(vec![pair(1, 2), pair(3, 4)]),
            &map(vec![pair(3, 4), pair(1, 2)])
        ));
        assert!(!equal(&map(vec![pair(1, 2)]), &map(vec![pair(1, 3)])));
        let two = vec![Value::Int(1), Value::Int(2)];
        assert!(equal(
            &Value::Set(two.clone()),
            &Value::FrozenSet(vec![Value::Int(2), Value::Float(1.0)])
        ));
        assert!(!equal(
            &Value::List(two.clone()),
            &Value::Tuple(two.clone())
        ));
        assert!(!equal(
            &Value::List(two),
            &Value::List(vec![Value::Int(2), Value::Int(1)])
        ));
    }

    #[test]
    fn what_python_cannot_hash_is_no_key_and_what_has_rules_of_its_own_neither() {
        for (key, text) in [
            (Value::List(Vec::new()), "unhashable type: 'list'"),
            (
                Value::Tuple(vec![Value::Map(Vec::new())]),
                "unhashable type: 'dict'",
            ),
            (Value::Decimal("1".to_owned()), "serve the class in Python"),
            (Value::Float(f64::NAN), "serve the class in Python"),
        ] {
            let refused = key_of(&encoded(&key)).unwrap_err();
            assert_eq!(refused.class, "TypeError");
            assert!(refused.message.contains(text), "{refused}");
        }
        let nested = Value::Tuple(vec![Value::Null, Value::Tuple(vec![Value::Float(0.5)])]);
        assert!(key_of(&encoded(&nested)).is_ok());
    }
}
