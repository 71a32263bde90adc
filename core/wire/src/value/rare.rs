//! Kinds that programs use now and then: their bytes, and what is checked of them by writer and reader alike.

use super::decode::{
    expect_count, take, take_clock, take_items, take_map, take_name, take_null, take_object,
};
use super::encode::{
    Budget, check_name, check_offset, in_range, put, put_byte_string, put_items, put_map,
    put_object, put_optional_int, put_optional_text,
};
use super::error::{Segment, ValueError, ValueErrorKind};
use super::kind::{
    Deque, Extended, MapKind, MapOf, Numbers, Singleton, TextKind, Texted, TimeOfDay, Value,
};
use super::raised::Raised;
use super::scan::{
    ARRAY, BYTES, FALSE, NULL, Scan, TAG, TRUE, UNSIGNED, put_head, put_int, put_text, tag,
};

use bytes::{BufMut, BytesMut};

/// Most dimensions of an array of numbers: numpy has no more.
const DIMENSIONS_MAX: usize = 64;

/// Longest text of a kind that is known by its text: a path of Linux has no more.
const TEXT_BYTES_MAX: usize = 4096;

/// Writes a value of one of these kinds; `None` for all others.
pub(super) fn put_rare(
    buf: &mut BytesMut,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), ValueError> {
    match value {
        Value::ByteArray(bytes) => {
            put_head(buf, TAG, tag::BYTE_ARRAY);
            put_byte_string(buf, bytes);
        }
        Value::Time(time) => put_time(buf, time)?,
        Value::Deque(deque) => {
            put_head(buf, TAG, tag::DEQUE);
            put_head(buf, ARRAY, 2);
            put_items(buf, &deque.items, budget)?;
            check_longest(deque)?;
            match deque.longest {
                Some(longest) => put_head(buf, UNSIGNED, longest),
                None => buf.put_u8(NULL),
            }
        }
        Value::MapOf(map) => {
            put_head(buf, TAG, tag::MAP_OF);
            put_head(buf, ARRAY, 3);
            put_text(buf, map.kind.name());
            put_map(buf, &map.entries, budget)?;
            check_factory(map)?;
            put_optional_text(buf, map.factory.as_deref());
        }
        Value::Record(record) => put_object(buf, tag::RECORD, record, budget)?,
        Value::Extended(extended) => {
            check_name(&extended.class)?;
            put_head(buf, TAG, tag::EXTENDED);
            put_head(buf, ARRAY, 2);
            put_text(buf, &extended.class);
            put_inside(buf, &extended.content, budget)?;
        }
        Value::Texted(texted) => {
            check_text(&texted.text)?;
            put_head(buf, TAG, tag::TEXTED);
            put_head(buf, ARRAY, 2);
            put_text(buf, texted.kind.name());
            put_text(buf, &texted.text);
        }
        Value::Range(bounds) => {
            check_range(bounds)?;
            put_bounds(buf, tag::RANGE, bounds, budget)?;
        }
        Value::Slice(bounds) => put_bounds(buf, tag::SLICE, bounds, budget)?,
        Value::Singleton(singleton) => {
            put_head(buf, TAG, tag::SINGLETON);
            put_text(buf, singleton.name());
        }
        Value::Exception(raised) => {
            budget.enter()?;
            put_head(buf, TAG, tag::EXCEPTION);
            raised.put(buf, budget)?;
            budget.leave();
        }
        Value::Numbers(numbers) => put_numbers(buf, numbers)?,
        other => unreachable!("{} is written elsewhere", other.kind_name()),
    }
    Ok(())
}

/// The content of a tag of one of these kinds.
pub(super) fn take_rare(
    scan: &mut Scan<'_>,
    number: u64,
    budget: &mut Budget,
) -> Result<Value, ValueError> {
    match number {
        tag::BYTE_ARRAY => {
            let length = scan.expect(BYTES, "bytes")?;
            Ok(Value::ByteArray(scan.take(length)?.to_vec()))
        }
        tag::TIME => take_time(scan),
        tag::DEQUE => {
            expect_count(scan, 2)?;
            let count = scan.expect(ARRAY, "list")?;
            let items = take_items(scan, count, budget)?;
            let longest = if take_null(scan) {
                None
            } else {
                Some(scan.expect(UNSIGNED, "int")?)
            };
            let deque = Deque { items, longest };
            check_longest(&deque)?;
            Ok(Value::Deque(Box::new(deque)))
        }
        tag::MAP_OF => take_map_of(scan, budget),
        tag::RECORD => take_object(scan, budget).map(|record| Value::Record(Box::new(record))),
        tag::EXTENDED => {
            expect_count(scan, 2)?;
            let class = take_name(scan)?;
            let content = take_inside(scan, budget)?;
            Ok(Value::Extended(Box::new(Extended { class, content })))
        }
        tag::TEXTED => {
            expect_count(scan, 2)?;
            let kind = TextKind::of_name(scan.expect_text()?).ok_or(UNKNOWN_KIND)?;
            let text = scan.expect_text()?.to_owned();
            check_text(&text)?;
            Ok(Value::Texted(Box::new(Texted { kind, text })))
        }
        tag::RANGE => {
            let bounds = take_bounds(scan, budget)?;
            check_range(&bounds)?;
            Ok(Value::Range(bounds))
        }
        tag::SLICE => take_bounds(scan, budget).map(Value::Slice),
        tag::SINGLETON => Singleton::of_name(scan.expect_text()?)
            .map(Value::Singleton)
            .ok_or_else(|| UNKNOWN_KIND.into()),
        tag::EXCEPTION => {
            budget.enter()?;
            let raised = Raised::take(scan, budget)?;
            budget.leave();
            Ok(Value::Exception(Box::new(raised)))
        }
        tag::NUMBERS => take_numbers(scan),
        tag => Err(ValueErrorKind::UnknownTag { tag }.into()),
    }
}

const UNKNOWN_KIND: ValueErrorKind = ValueErrorKind::OutOfRange { what: "kind" };

/// A value inside a value that is no container of its own.
fn put_inside(buf: &mut BytesMut, value: &Value, budget: &mut Budget) -> Result<(), ValueError> {
    budget.enter()?;
    put(buf, value, budget)?;
    budget.leave();
    Ok(())
}

fn take_inside(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Value, ValueError> {
    budget.enter()?;
    let value = take(scan, budget)?;
    budget.leave();
    Ok(value)
}

fn put_time(buf: &mut BytesMut, time: &TimeOfDay) -> Result<(), ValueError> {
    check_time(time)?;
    put_head(buf, TAG, tag::TIME);
    put_head(buf, ARRAY, 4);
    put_int(buf, time.micros);
    put_optional_int(buf, time.offset_micros);
    put_optional_text(buf, time.zone.as_deref());
    buf.put_u8(if time.is_second { TRUE } else { FALSE });
    Ok(())
}

fn take_time(scan: &mut Scan<'_>) -> Result<Value, ValueError> {
    let (micros, offset_micros, zone, is_second) = take_clock(scan)?;
    let time = TimeOfDay {
        micros,
        offset_micros,
        zone,
        is_second,
    };
    check_time(&time)?;
    Ok(Value::Time(Box::new(time)))
}

fn check_time(time: &TimeOfDay) -> Result<(), ValueError> {
    in_range((0..86_400_000_000).contains(&time.micros), "time of day")?;
    check_offset(time.offset_micros)?;
    time.zone.as_deref().map_or(Ok(()), check_name)
}

fn check_longest(deque: &Deque) -> Result<(), ValueError> {
    let holds = deque
        .longest
        .is_none_or(|longest| deque.items.len() as u64 <= longest);
    in_range(holds, "length of a deque")
}

fn take_map_of(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Value, ValueError> {
    expect_count(scan, 3)?;
    let kind = MapKind::of_name(scan.expect_text()?).ok_or(UNKNOWN_KIND)?;
    let count = scan.expect(super::scan::MAP, "map")?;
    let entries = take_map(scan, count, budget)?;
    let factory = if take_null(scan) {
        None
    } else {
        Some(take_name(scan)?)
    };
    let map = MapOf {
        kind,
        entries,
        factory,
    };
    check_factory(&map)?;
    Ok(Value::MapOf(Box::new(map)))
}

fn check_factory(map: &MapOf) -> Result<(), ValueError> {
    in_range(
        map.factory.is_none() || map.kind == MapKind::Default,
        "factory of a map",
    )?;
    map.factory.as_deref().map_or(Ok(()), check_name)
}

fn check_text(text: &str) -> Result<(), ValueError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ValueErrorKind::TooLarge {
            limit: TEXT_BYTES_MAX,
        }
        .into());
    }
    Ok(())
}

fn put_bounds(
    buf: &mut BytesMut,
    tag: u64,
    bounds: &[Value; 3],
    budget: &mut Budget,
) -> Result<(), ValueError> {
    put_head(buf, TAG, tag);
    put_items(buf, bounds, budget)
}

fn take_bounds(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Box<[Value; 3]>, ValueError> {
    expect_count(scan, 3)?;
    let items = take_items(scan, 3, budget)?;
    Ok(Box::new(items.try_into().expect("three were taken")))
}

fn check_range(bounds: &[Value; 3]) -> Result<(), ValueError> {
    let are_integers = bounds
        .iter()
        .all(|bound| matches!(bound, Value::Int(_) | Value::BigInt(_)));
    in_range(are_integers && bounds[2] != Value::Int(0), "range")
}

fn put_numbers(buf: &mut BytesMut, numbers: &Numbers) -> Result<(), ValueError> {
    check_numbers(numbers)?;
    put_head(buf, TAG, tag::NUMBERS);
    put_head(buf, ARRAY, 3);
    put_text(buf, &numbers.form);
    match &numbers.shape {
        None => buf.put_u8(NULL),
        Some(shape) => {
            put_head(buf, ARRAY, shape.len() as u64);
            shape
                .iter()
                .for_each(|length| put_head(buf, UNSIGNED, *length));
        }
    }
    put_byte_string(buf, &numbers.data);
    Ok(())
}

fn take_numbers(scan: &mut Scan<'_>) -> Result<Value, ValueError> {
    expect_count(scan, 3)?;
    let form = take_name(scan)?;
    let shape = if take_null(scan) {
        None
    } else {
        let number = scan.expect(ARRAY, "list")?;
        let count = scan.count(number, 1)?;
        in_range(count <= DIMENSIONS_MAX, "number of dimensions")?;
        let mut shape = Vec::with_capacity(count);
        for index in 0..count {
            let length = scan.expect(UNSIGNED, "int");
            shape.push(length.map_err(|error| error.within(Segment::Index(index)))?);
        }
        Some(shape)
    };
    let length = scan.expect(BYTES, "bytes")?;
    let numbers = Numbers {
        form,
        shape,
        data: scan.take(length)?.to_vec(),
    };
    check_numbers(&numbers)?;
    Ok(Value::Numbers(Box::new(numbers)))
}

fn check_numbers(numbers: &Numbers) -> Result<(), ValueError> {
    let width = width_of(&numbers.form).ok_or(ValueErrorKind::OutOfRange {
        what: "form of a number",
    })?;
    let lengths = numbers.shape.as_deref().unwrap_or(&[]);
    in_range(lengths.len() <= DIMENSIONS_MAX, "number of dimensions")?;
    let bytes = lengths
        .iter()
        .try_fold(width, |bytes, length| bytes.checked_mul(*length));
    in_range(
        bytes == Some(numbers.data.len() as u64),
        "length of an array",
    )
}

/// Bytes of a number of this form, `<f8`, `|b1`, `<M8[ns]`; `None` where it is no form.
fn width_of(form: &str) -> Option<u64> {
    let (plain, unit) = match form.split_once('[') {
        Some((plain, rest)) => (plain, Some(rest.strip_suffix(']')?)),
        None => (form, None),
    };
    let mut letters = plain.chars();
    let (order, kind, width) = (letters.next()?, letters.next()?, letters.as_str());
    let is_kind = match kind {
        'b' => width == "1",
        'i' | 'u' => matches!(width, "1" | "2" | "4" | "8"),
        'f' => matches!(width, "2" | "4" | "8"),
        'c' => matches!(width, "8" | "16"),
        'M' | 'm' => width == "8",
        _ => false,
    };
    let is_order = if width == "1" {
        order == '|'
    } else {
        matches!(order, '<' | '>')
    };
    let is_unit = match (kind, unit) {
        ('M' | 'm', Some(unit)) => {
            !unit.is_empty() && unit.chars().all(|c| c.is_ascii_alphanumeric())
        }
        ('M' | 'm', None) => true,
        (_, unit) => unit.is_none(),
    };
    (is_kind && is_order && is_unit).then(|| width.parse().expect("one of the widths above"))
}
