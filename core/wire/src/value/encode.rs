//! Writes values. What is written here, [`super::decode`] reads back: it refuses the same things.

use super::error::{Segment, ValueError, ValueErrorKind};
use super::kind::{BigInt, DataInstance, DateTime, Sign, TimeDelta, Value, small_magnitude};
use super::rare::put_rare;
use super::scan::{
    ARRAY, BYTES, FALSE, FLOAT, MAP, NAN_BITS, NEGATIVE, NULL, TAG, TRUE, UNSIGNED, put_head,
    put_int, put_text, tag,
};
use crate::limits::{
    DECIMAL_BYTES_MAX, INTEGER_BYTES_MAX, NAME_BYTES_MAX, VALUE_DEPTH_MAX, VALUE_ITEMS_MAX,
};
use bytes::{BufMut, Bytes, BytesMut};

/// The bytes of one value.
///
/// ```
/// use quorate_wire::value::{Value, decode, encode};
/// let value = Value::List(vec![Value::Int(-1), Value::from("ahoy")]);
/// let bytes = encode(&value)?;
/// assert_eq!(&bytes[..], b"\x82\x20\x64ahoy");
/// assert_eq!(decode(&bytes)?, value);
/// # Ok::<(), quorate_wire::value::ValueError>(())
/// ```
///
/// # Errors
/// When a part of it breaks a limit or stands twice where it must not; the path says which.
pub fn encode(value: &Value) -> Result<Bytes, ValueError> {
    let mut buf = BytesMut::new();
    encode_into(&mut buf, value)?;
    Ok(buf.freeze())
}

/// Appends the bytes of one value; as [`encode`]. After an error `buf` ends with part of the value.
///
/// # Errors
/// As [`encode`].
pub fn encode_into(buf: &mut BytesMut, value: &Value) -> Result<(), ValueError> {
    put(
        buf,
        value,
        &mut Budget {
            depth: VALUE_DEPTH_MAX,
            items: VALUE_ITEMS_MAX,
        },
    )
}

/// What a value may still use of its limits.
pub(super) struct Budget {
    pub(super) depth: usize,
    pub(super) items: usize,
}

impl Budget {
    /// One more item.
    pub(super) fn spend(&mut self) -> Result<(), ValueError> {
        match self.items.checked_sub(1) {
            Some(items) => self.items = items,
            None => {
                return Err(ValueErrorKind::TooLarge {
                    limit: VALUE_ITEMS_MAX,
                }
                .into());
            }
        }
        Ok(())
    }

    /// One level further in.
    pub(super) fn enter(&mut self) -> Result<(), ValueError> {
        match self.depth.checked_sub(1) {
            Some(depth) => self.depth = depth,
            None => return Err(ValueErrorKind::TooDeep.into()),
        }
        Ok(())
    }

    /// One level out again.
    pub(super) fn leave(&mut self) {
        self.depth += 1;
    }
}

pub(super) fn put(
    buf: &mut BytesMut,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), ValueError> {
    budget.spend()?;
    match value {
        Value::Null => buf.put_u8(NULL),
        Value::Bool(false) => buf.put_u8(FALSE),
        Value::Bool(true) => buf.put_u8(TRUE),
        Value::Int(number) => put_int(buf, *number),
        Value::BigInt(number) => put_big(buf, number)?,
        Value::Float(number) => put_float(buf, *number),
        Value::Text(text) => put_text(buf, text),
        Value::Bytes(bytes) => put_byte_string(buf, bytes),
        Value::List(items) => put_items(buf, items, budget)?,
        Value::Tuple(items) => {
            put_head(buf, TAG, tag::TUPLE);
            put_items(buf, items, budget)?;
        }
        Value::Map(entries) => put_map(buf, entries, budget)?,
        Value::Set(items) => put_set(buf, tag::SET, items, budget)?,
        Value::FrozenSet(items) => put_set(buf, tag::FROZEN_SET, items, budget)?,
        Value::DateTime(time) => put_date_time(buf, time)?,
        Value::Date(days) => {
            check_date(i64::from(*days))?;
            put_head(buf, TAG, tag::DATE);
            put_int(buf, i64::from(*days));
        }
        Value::TimeDelta(span) => put_time_delta(buf, *span)?,
        Value::Decimal(text) => {
            check_decimal(text)?;
            put_head(buf, TAG, tag::DECIMAL);
            put_text(buf, text);
        }
        Value::Uuid(bytes) => {
            put_head(buf, TAG, tag::UUID);
            put_byte_string(buf, bytes);
        }
        Value::Enum(member) => {
            check_name(&member.class)?;
            check_name(&member.name)?;
            put_head(buf, TAG, tag::ENUM);
            put_head(buf, ARRAY, 2);
            put_text(buf, &member.class);
            put_text(buf, &member.name);
        }
        Value::Object(object) => put_object(buf, tag::OBJECT, object, budget)?,
        Value::ByteArray(_)
        | Value::Time(_)
        | Value::Deque(_)
        | Value::MapOf(_)
        | Value::Record(_)
        | Value::Extended(_)
        | Value::Texted(_)
        | Value::Range(_)
        | Value::Slice(_)
        | Value::Singleton(_)
        | Value::Exception(_)
        | Value::Numbers(_) => put_rare(buf, value, budget)?,
    }
    Ok(())
}

pub(super) fn put_byte_string(buf: &mut BytesMut, bytes: &[u8]) {
    put_head(buf, BYTES, bytes.len() as u64);
    buf.put_slice(bytes);
}

fn put_float(buf: &mut BytesMut, number: f64) {
    let bits = if number.is_nan() {
        NAN_BITS
    } else {
        number.to_bits()
    };
    buf.put_u8(FLOAT);
    buf.put_u64(bits);
}

/// CBOR keeps `-1 - n` for negative integers, so the magnitude is one less than the distance from zero.
fn put_big(buf: &mut BytesMut, number: &BigInt) -> Result<(), ValueError> {
    if number.magnitude.len() > INTEGER_BYTES_MAX {
        return Err(ValueErrorKind::TooLarge {
            limit: INTEGER_BYTES_MAX,
        }
        .into());
    }
    let (major, tag, stored) = match number.sign {
        Sign::Positive => (UNSIGNED, tag::POSITIVE_INTEGER, number.magnitude.clone()),
        Sign::Negative => (
            NEGATIVE,
            tag::NEGATIVE_INTEGER,
            one_less(number.magnitude.clone()),
        ),
    };
    match small_magnitude(&stored) {
        Some(small) => put_head(buf, major, small),
        None => {
            put_head(buf, TAG, tag);
            put_byte_string(buf, &stored);
        }
    }
    Ok(())
}

fn one_less(mut magnitude: Vec<u8>) -> Vec<u8> {
    for byte in magnitude.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            break;
        }
    }
    if magnitude.first() == Some(&0) {
        magnitude.remove(0);
    }
    magnitude
}

pub(super) fn put_items(
    buf: &mut BytesMut,
    items: &[Value],
    budget: &mut Budget,
) -> Result<(), ValueError> {
    budget.enter()?;
    put_head(buf, ARRAY, items.len() as u64);
    for (index, item) in items.iter().enumerate() {
        put(buf, item, budget).map_err(|error| error.within(Segment::Index(index)))?;
    }
    budget.leave();
    Ok(())
}

pub(super) fn put_map(
    buf: &mut BytesMut,
    entries: &[(Value, Value)],
    budget: &mut Budget,
) -> Result<(), ValueError> {
    budget.enter()?;
    put_head(buf, MAP, entries.len() as u64);
    let mut keys = Vec::with_capacity(entries.len());
    for (index, (key, value)) in entries.iter().enumerate() {
        let at = buf.len();
        put(buf, key, budget).map_err(|error| error.within(Segment::Entry(index)))?;
        keys.push(at..buf.len());
        put(buf, value, budget).map_err(|error| error.within(entry_segment(index, key)))?;
    }
    keys.sort_unstable_by(|a, b| buf[a.clone()].cmp(&buf[b.clone()]));
    if keys
        .windows(2)
        .any(|pair| buf[pair[0].clone()] == buf[pair[1].clone()])
    {
        return Err(ValueErrorKind::Duplicate.into());
    }
    budget.leave();
    Ok(())
}

pub(super) fn entry_segment(index: usize, key: &Value) -> Segment {
    match key {
        Value::Text(key) => Segment::Key(key.clone()),
        _ => Segment::Entry(index),
    }
}

fn put_set(
    buf: &mut BytesMut,
    tag: u64,
    items: &[Value],
    budget: &mut Budget,
) -> Result<(), ValueError> {
    budget.enter()?;
    put_head(buf, TAG, tag);
    put_head(buf, ARRAY, items.len() as u64);
    let mut encodings = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut encoding = BytesMut::new();
        put(&mut encoding, item, budget).map_err(|error| error.within(Segment::Index(index)))?;
        encodings.push(encoding);
    }
    encodings.sort_unstable();
    if encodings.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ValueErrorKind::Duplicate.into());
    }
    for encoding in encodings {
        buf.put_slice(&encoding);
    }
    budget.leave();
    Ok(())
}

fn put_date_time(buf: &mut BytesMut, time: &DateTime) -> Result<(), ValueError> {
    check_date_time(time)?;
    put_head(buf, TAG, tag::DATE_TIME);
    put_head(buf, ARRAY, 4);
    put_int(buf, time.local_micros);
    put_optional_int(buf, time.offset_micros);
    put_optional_text(buf, time.zone.as_deref());
    buf.put_u8(if time.is_second { TRUE } else { FALSE });
    Ok(())
}

pub(super) fn put_optional_int(buf: &mut BytesMut, number: Option<i64>) {
    match number {
        Some(number) => put_int(buf, number),
        None => buf.put_u8(NULL),
    }
}

pub(super) fn put_optional_text(buf: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_text(buf, text),
        None => buf.put_u8(NULL),
    }
}

fn put_time_delta(buf: &mut BytesMut, span: TimeDelta) -> Result<(), ValueError> {
    check_time_delta(span)?;
    put_head(buf, TAG, tag::TIME_DELTA);
    put_head(buf, ARRAY, 3);
    put_int(buf, i64::from(span.days));
    put_int(buf, i64::from(span.seconds));
    put_int(buf, i64::from(span.micros));
    Ok(())
}

pub(super) fn put_object(
    buf: &mut BytesMut,
    tag: u64,
    object: &DataInstance,
    budget: &mut Budget,
) -> Result<(), ValueError> {
    budget.enter()?;
    check_name(&object.class)?;
    put_head(buf, TAG, tag);
    put_head(buf, ARRAY, 2);
    put_text(buf, &object.class);
    put_named(buf, &object.fields, budget, |name| {
        Segment::Field(name.to_owned())
    })?;
    budget.leave();
    Ok(())
}

/// A map with text keys: fields of an object, named arguments of a call.
pub(super) fn put_named(
    buf: &mut BytesMut,
    entries: &[(String, Value)],
    budget: &mut Budget,
    segment: impl Fn(&str) -> Segment,
) -> Result<(), ValueError> {
    put_head(buf, MAP, entries.len() as u64);
    for (name, value) in entries {
        check_name(name).map_err(|error| error.within(segment(name)))?;
        put_text(buf, name);
        put(buf, value, budget).map_err(|error| error.within(segment(name)))?;
    }
    let mut names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ValueError::new(ValueErrorKind::Duplicate).within(segment(pair[0]))),
        None => Ok(()),
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ValueError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(ValueErrorKind::TooLarge {
            limit: NAME_BYTES_MAX,
        }
        .into());
    }
    Ok(())
}

/// Days from 0001-01-01 to 9999-12-31, from 1970-01-01.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;
const DAY_MICROS: i64 = 86_400_000_000;

pub(super) fn check_date(days: i64) -> Result<(), ValueError> {
    in_range(DAYS.contains(&days), "date")
}

pub(super) fn check_date_time(time: &DateTime) -> Result<(), ValueError> {
    let is_day = DAYS.contains(&time.local_micros.div_euclid(DAY_MICROS));
    in_range(is_day, "date and time")?;
    check_offset(time.offset_micros)?;
    time.zone.as_deref().map_or(Ok(()), check_name)
}

pub(super) fn check_offset(offset_micros: Option<i64>) -> Result<(), ValueError> {
    let holds = offset_micros.is_none_or(|offset| offset.unsigned_abs() < DAY_MICROS as u64);
    in_range(holds, "offset from UTC")
}

pub(super) fn check_time_delta(span: TimeDelta) -> Result<(), ValueError> {
    in_range(span.days.unsigned_abs() <= 999_999_999, "days")?;
    in_range(span.seconds < 86_400, "seconds")?;
    in_range(span.micros < 1_000_000, "microseconds")
}

pub(super) fn in_range(holds: bool, what: &'static str) -> Result<(), ValueError> {
    if holds {
        Ok(())
    } else {
        Err(ValueErrorKind::OutOfRange { what }.into())
    }
}

/// The texts that Python's `str(Decimal)` makes: sign, digits with an optional point, exponent; or a
/// special value with its diagnostic digits.
pub(super) fn check_decimal(text: &str) -> Result<(), ValueError> {
    if text.len() > DECIMAL_BYTES_MAX {
        return Err(ValueErrorKind::TooLarge {
            limit: DECIMAL_BYTES_MAX,
        }
        .into());
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let special = unsigned
        .strip_prefix("sNaN")
        .or_else(|| unsigned.strip_prefix("NaN"));
    let is_number = || {
        let (mantissa, exponent) = match unsigned.split_once('E') {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let is_exponent = exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or("");
            !digits.is_empty() && digits.len() <= 19 && is_digits(digits)
        });
        let is_mantissa = !whole.is_empty() && !fraction.is_empty();
        is_mantissa && is_digits(whole) && is_digits(fraction) && is_exponent
    };
    let holds = unsigned == "Infinity" || special.is_some_and(is_digits) || is_number();
    in_range(holds, "decimal number")
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}
