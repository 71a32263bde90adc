//! Reads values, in their one form only.

use super::encode::{
    Budget, check_date, check_date_time, check_decimal, check_name, check_time_delta, entry_segment,
};
use super::error::{Segment, ValueError, ValueErrorKind};
use super::kind::{DataInstance, DateTime, EnumMember, Sign, TimeDelta, Value};
use super::rare::take_rare;
use super::scan::{
    ARRAY, BYTES, FALSE, FLOAT, Head, MAP, NAN_BITS, NEGATIVE, NULL, Scan, TAG, TEXT, TRUE,
    UNSIGNED, tag,
};
use crate::limits::{INTEGER_BYTES_MAX, VALUE_DEPTH_MAX, VALUE_ITEMS_MAX};

/// The value that these bytes, all of them, encode.
///
/// ```
/// use quorate_wire::value::decode;
/// assert_eq!(decode(b"\x82\x01\x18\x02").unwrap_err().to_string(), "[1]: not in its one canonical form");
/// ```
///
/// # Errors
/// When they are not the one encoding of a value; the path says where.
pub fn decode(bytes: &[u8]) -> Result<Value, ValueError> {
    let mut scan = Scan { rest: bytes };
    let value = take(&mut scan, &mut full_budget())?;
    scan.end()?;
    Ok(value)
}

pub(super) fn full_budget() -> Budget {
    Budget {
        depth: VALUE_DEPTH_MAX,
        items: VALUE_ITEMS_MAX,
    }
}

pub(super) fn take(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Value, ValueError> {
    budget.spend()?;
    let head = scan.head()?;
    match head.major {
        UNSIGNED => Ok(match i64::try_from(head.number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::integer(Sign::Positive, &head.number.to_be_bytes()),
        }),
        NEGATIVE => Ok(match i64::try_from(head.number) {
            Ok(number) => Value::Int(!number),
            Err(_) => negative(&head.number.to_be_bytes()),
        }),
        BYTES => scan
            .take(head.number)
            .map(|bytes| Value::Bytes(bytes.to_vec())),
        TEXT => scan
            .text(head.number)
            .map(|text| Value::Text(text.to_owned())),
        ARRAY => take_items(scan, head.number, budget).map(Value::List),
        MAP => take_map(scan, head.number, budget).map(Value::Map),
        TAG => take_tagged(scan, head.number, budget),
        _ => take_simple(head),
    }
}

fn take_simple(head: Head) -> Result<Value, ValueError> {
    match head.byte {
        NULL => Ok(Value::Null),
        FALSE => Ok(Value::Bool(false)),
        TRUE => Ok(Value::Bool(true)),
        FLOAT => {
            let number = f64::from_bits(head.number);
            if number.is_nan() && head.number != NAN_BITS {
                return Err(ValueErrorKind::NotCanonical.into());
            }
            Ok(Value::Float(number))
        }
        byte => Err(ValueErrorKind::UnknownForm { byte }.into()),
    }
}

/// `-1 - stored`.
fn negative(stored: &[u8]) -> Value {
    let mut magnitude = vec![0];
    magnitude.extend_from_slice(stored);
    for byte in magnitude.iter_mut().rev() {
        let (more, carries) = byte.overflowing_add(1);
        *byte = more;
        if !carries {
            break;
        }
    }
    Value::integer(Sign::Negative, &magnitude)
}

pub(super) fn take_items(
    scan: &mut Scan<'_>,
    number: u64,
    budget: &mut Budget,
) -> Result<Vec<Value>, ValueError> {
    let count = scan.count(number, 1)?;
    budget.enter()?;
    // A list of lists could announce the whole input at each level: reserve little, grow with what is there.
    let mut items = Vec::with_capacity(count.min(64));
    for index in 0..count {
        items.push(take(scan, budget).map_err(|error| error.within(Segment::Index(index)))?);
    }
    budget.leave();
    Ok(items)
}

pub(super) fn take_map(
    scan: &mut Scan<'_>,
    number: u64,
    budget: &mut Budget,
) -> Result<Vec<(Value, Value)>, ValueError> {
    let count = scan.count(number, 2)?;
    budget.enter()?;
    let mut entries = Vec::with_capacity(count.min(64));
    let mut keys = Vec::with_capacity(count.min(64));
    for index in 0..count {
        let before = scan.rest;
        let key = take(scan, budget).map_err(|error| error.within(Segment::Entry(index)))?;
        keys.push(&before[..before.len() - scan.rest.len()]);
        let value = match take(scan, budget) {
            Ok(value) => value,
            Err(error) => return Err(error.within(entry_segment(index, &key))),
        };
        entries.push((key, value));
    }
    refuse_duplicates(keys)?;
    budget.leave();
    Ok(entries)
}

/// By sorting, not by hashing: no choice of keys makes it slow.
fn refuse_duplicates(mut keys: Vec<&[u8]>) -> Result<(), ValueError> {
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ValueErrorKind::Duplicate.into());
    }
    Ok(())
}

fn take_tagged(scan: &mut Scan<'_>, number: u64, budget: &mut Budget) -> Result<Value, ValueError> {
    match number {
        tag::POSITIVE_INTEGER => {
            take_big(scan).map(|magnitude| Value::integer(Sign::Positive, magnitude))
        }
        tag::NEGATIVE_INTEGER => take_big(scan).map(negative),
        tag::TUPLE => {
            let count = scan.expect(ARRAY, "list")?;
            take_items(scan, count, budget).map(Value::Tuple)
        }
        tag::SET => take_set(scan, budget).map(Value::Set),
        tag::FROZEN_SET => take_set(scan, budget).map(Value::FrozenSet),
        tag::DATE => {
            let days = scan.expect_int()?;
            check_date(days)?;
            Ok(Value::Date(i32::try_from(days).expect("checked above")))
        }
        tag::DATE_TIME => take_date_time(scan),
        tag::TIME_DELTA => take_time_delta(scan),
        tag::DECIMAL => {
            let text = scan.expect_text()?;
            check_decimal(text)?;
            Ok(Value::Decimal(text.to_owned()))
        }
        tag::UUID => {
            let length = scan.expect(BYTES, "bytes")?;
            let bytes = scan.take(length)?;
            let bytes = bytes
                .try_into()
                .map_err(|_| ValueErrorKind::OutOfRange { what: "UUID" })?;
            Ok(Value::Uuid(bytes))
        }
        tag::ENUM => {
            expect_count(scan, 2)?;
            Ok(Value::Enum(Box::new(EnumMember {
                class: take_name(scan)?,
                name: take_name(scan)?,
            })))
        }
        tag::OBJECT => take_object(scan, budget).map(|object| Value::Object(Box::new(object))),
        tag => take_rare(scan, tag, budget),
    }
}

/// The stored bytes of an integer that has no shorter form.
fn take_big<'a>(scan: &mut Scan<'a>) -> Result<&'a [u8], ValueError> {
    let length = scan.expect(BYTES, "bytes")?;
    let stored = scan.take(length)?;
    if stored.len() > INTEGER_BYTES_MAX {
        return Err(ValueErrorKind::TooLarge {
            limit: INTEGER_BYTES_MAX,
        }
        .into());
    }
    if stored.len() <= 8 || stored[0] == 0 {
        return Err(ValueErrorKind::NotCanonical.into());
    }
    Ok(stored)
}

fn take_set(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Vec<Value>, ValueError> {
    let number = scan.expect(ARRAY, "list")?;
    let count = scan.count(number, 1)?;
    budget.enter()?;
    let mut items = Vec::with_capacity(count.min(64));
    let mut last: &[u8] = &[];
    for index in 0..count {
        let before = scan.rest;
        items.push(take(scan, budget).map_err(|error| error.within(Segment::Index(index)))?);
        let encoding = &before[..before.len() - scan.rest.len()];
        match last.cmp(encoding) {
            std::cmp::Ordering::Less => last = encoding,
            std::cmp::Ordering::Equal => return Err(ValueErrorKind::Duplicate.into()),
            std::cmp::Ordering::Greater => return Err(ValueErrorKind::NotCanonical.into()),
        }
    }
    budget.leave();
    Ok(items)
}

fn take_date_time(scan: &mut Scan<'_>) -> Result<Value, ValueError> {
    let (local_micros, offset_micros, zone, is_second) = take_clock(scan)?;
    let time = DateTime {
        local_micros,
        offset_micros,
        zone,
        is_second,
    };
    check_date_time(&time)?;
    Ok(Value::DateTime(Box::new(time)))
}

/// What a clock shows: microseconds, offset from UTC, zone, and whether it is the second of two readings.
pub(super) fn take_clock(
    scan: &mut Scan<'_>,
) -> Result<(i64, Option<i64>, Option<String>, bool), ValueError> {
    expect_count(scan, 4)?;
    let micros = scan.expect_int()?;
    let offset_micros = if take_null(scan) {
        None
    } else {
        Some(scan.expect_int()?)
    };
    let zone = if take_null(scan) {
        None
    } else {
        Some(take_name(scan)?)
    };
    let head = scan.head()?;
    let is_second = match head.byte {
        FALSE => false,
        TRUE => true,
        _ => return Err(head.unexpected("bool")),
    };
    Ok((micros, offset_micros, zone, is_second))
}

pub(super) fn take_null(scan: &mut Scan<'_>) -> bool {
    match scan.rest.split_first() {
        Some((&NULL, rest)) => {
            scan.rest = rest;
            true
        }
        Some(_) | None => false,
    }
}

fn take_time_delta(scan: &mut Scan<'_>) -> Result<Value, ValueError> {
    expect_count(scan, 3)?;
    let out = |what| move |_| ValueError::new(ValueErrorKind::OutOfRange { what });
    let span = TimeDelta {
        days: i32::try_from(scan.expect_int()?).map_err(out("days"))?,
        seconds: u32::try_from(scan.expect_int()?).map_err(out("seconds"))?,
        micros: u32::try_from(scan.expect_int()?).map_err(out("microseconds"))?,
    };
    check_time_delta(span)?;
    Ok(Value::TimeDelta(span))
}

pub(super) fn take_object(
    scan: &mut Scan<'_>,
    budget: &mut Budget,
) -> Result<DataInstance, ValueError> {
    budget.enter()?;
    expect_count(scan, 2)?;
    let class = take_name(scan)?;
    let fields = take_named(scan, budget, |name| Segment::Field(name.to_owned()))?;
    budget.leave();
    Ok(DataInstance { class, fields })
}

/// A map with text keys: fields of an object, named arguments of a call.
pub(super) fn take_named(
    scan: &mut Scan<'_>,
    budget: &mut Budget,
    segment: impl Fn(&str) -> Segment,
) -> Result<Vec<(String, Value)>, ValueError> {
    let number = scan.expect(MAP, "map")?;
    let count = scan.count(number, 2)?;
    let mut entries: Vec<(String, Value)> = Vec::with_capacity(count.min(64));
    for index in 0..count {
        let name = take_name(scan).map_err(|error| error.within(Segment::Entry(index)))?;
        match take(scan, budget) {
            Ok(value) => entries.push((name, value)),
            Err(error) => return Err(error.within(segment(&name))),
        }
    }
    refuse_duplicates(entries.iter().map(|(name, _)| name.as_bytes()).collect())?;
    Ok(entries)
}

pub(super) fn take_name(scan: &mut Scan<'_>) -> Result<String, ValueError> {
    let name = scan.expect_text()?;
    check_name(name)?;
    Ok(name.to_owned())
}

pub(super) fn expect_count(scan: &mut Scan<'_>, wanted: u64) -> Result<(), ValueError> {
    if scan.expect(ARRAY, "list")? == wanted {
        Ok(())
    } else {
        Err(ValueErrorKind::OutOfRange {
            what: "number of parts",
        }
        .into())
    }
}
