//! Values as JSON text, for people and scripts. One way: what JSON lacks is shown in its nearest form
//! (bytes as hexadecimal, sets and tuples as arrays, objects as their fields), so it does not read back.

use super::kind::{DateTime, Numbers, Sign, TimeDelta, Value};
use std::fmt::{self, Write};

/// JSON text without spaces.
///
/// ```
/// use quorate_wire::value::Value;
/// let value = Value::Map(vec![(Value::from("who"), Value::Tuple(vec![Value::from("a\n"), Value::Int(1)]))]);
/// assert_eq!(value.to_string(), r#"{"who":["a\n",1]}"#);
/// ```
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::BigInt(number) => {
                if number.sign == Sign::Negative {
                    f.write_char('-')?;
                }
                write_decimal(f, &number.magnitude)
            }
            Value::Float(number) => write_float(f, *number),
            Value::Text(text) | Value::Decimal(text) => write_text(f, text),
            Value::Bytes(bytes) | Value::ByteArray(bytes) => write_bytes(f, bytes),
            Value::List(items)
            | Value::Tuple(items)
            | Value::Set(items)
            | Value::FrozenSet(items) => write_items(f, items),
            Value::Map(entries) => write_map(f, entries),
            Value::DateTime(time) => write_date_time(f, time),
            Value::Date(days) => {
                f.write_char('"')?;
                write_date(f, i64::from(*days))?;
                f.write_char('"')
            }
            Value::TimeDelta(span) => write_time_delta(f, *span),
            Value::Uuid(bytes) => {
                f.write_char('"')?;
                for (index, range) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                    if index > 0 {
                        f.write_char('-')?;
                    }
                    write_hex(f, &bytes[range])?;
                }
                f.write_char('"')
            }
            Value::Enum(member) => write_text(f, &member.name),
            Value::Object(object) | Value::Record(object) => write_fields(f, &object.fields),
            Value::Time(time) => {
                f.write_char('"')?;
                write_time(f, time.micros, time.offset_micros)?;
                f.write_char('"')
            }
            Value::Deque(deque) => write_items(f, &deque.items),
            Value::MapOf(map) => write_map(f, &map.entries),
            Value::Extended(extended) => extended.content.fmt(f),
            Value::Texted(texted) => write_text(f, &texted.text),
            Value::Range(bounds) | Value::Slice(bounds) => {
                let [start, stop, step] = &**bounds;
                write!(f, r#"{{"start":{start},"stop":{stop},"step":{step}}}"#)
            }
            Value::Singleton(singleton) => write_text(f, singleton.name()),
            Value::Exception(raised) => {
                f.write_str(r#"{"exception":"#)?;
                write_text(f, &raised.class)?;
                f.write_str(r#","message":"#)?;
                write_text(f, &raised.message)?;
                f.write_char('}')
            }
            Value::Numbers(numbers) => write_numbers(f, numbers),
        }
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[(String, Value)]) -> fmt::Result {
    f.write_char('{')?;
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write_text(f, name)?;
        write!(f, ":{value}")?;
    }
    f.write_char('}')
}

/// A number, or arrays of arrays of them. Forms that JSON has no numbers for are shown as their bytes.
fn write_numbers(f: &mut fmt::Formatter<'_>, numbers: &Numbers) -> fmt::Result {
    let lengths = numbers.shape.as_deref().unwrap_or(&[]);
    write_dimension(f, &numbers.form, lengths, &numbers.data)
}

fn write_dimension(
    f: &mut fmt::Formatter<'_>,
    form: &str,
    lengths: &[u64],
    data: &[u8],
) -> fmt::Result {
    let Some((&length, inner)) = lengths.split_first() else {
        return write_number(f, form, data);
    };
    f.write_char('[')?;
    // Nothing is shown of what has no elements: its lengths may be any.
    if !data.is_empty() {
        let length = usize::try_from(length).expect("there are bytes for each");
        for (index, part) in data.chunks(data.len() / length).enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            write_dimension(f, form, inner, part)?;
        }
    }
    f.write_char(']')
}

fn write_number(f: &mut fmt::Formatter<'_>, form: &str, data: &[u8]) -> fmt::Result {
    let mut bytes = data.to_vec();
    if form.starts_with('>') {
        bytes.reverse();
    }
    let number = bytes
        .iter()
        .rev()
        .take(8)
        .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len().min(8);
    match (form.as_bytes()[1], bytes.len()) {
        (b'b', _) => write!(f, "{}", number != 0),
        (b'u', _) => write!(f, "{number}"),
        (b'i', _) => write!(f, "{}", (number << unused).cast_signed() >> unused),
        (b'f', 4) => write_float(f, f64::from(f32::from_bits(number as u32))),
        (b'f', 8) => write_float(f, f64::from_bits(number)),
        _ => write_bytes(f, data),
    }
}

fn write_float(f: &mut fmt::Formatter<'_>, number: f64) -> fmt::Result {
    if number.is_finite() {
        write!(f, "{number:?}")
    } else {
        write!(f, "\"{number}\"")
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    write_hex(f, bytes)?;
    f.write_char('"')
}

fn write_items(f: &mut fmt::Formatter<'_>, items: &[Value]) -> fmt::Result {
    f.write_char('[')?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write!(f, "{item}")?;
    }
    f.write_char(']')
}

/// JSON's keys are texts: another key stands there as the text of its own form.
fn write_map(f: &mut fmt::Formatter<'_>, entries: &[(Value, Value)]) -> fmt::Result {
    f.write_char('{')?;
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        match key {
            Value::Text(text) => write_text(f, text)?,
            other => write_text(f, other.to_string().trim_matches('"'))?,
        }
        write!(f, ":{value}")?;
    }
    f.write_char('}')
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if u32::from(c) < 0x20 => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Quadratic in the digits: longer integers than people read are shown in hexadecimal.
fn write_decimal(f: &mut fmt::Formatter<'_>, magnitude: &[u8]) -> fmt::Result {
    const DECIMAL_BYTES: usize = 512;
    if magnitude.len() > DECIMAL_BYTES {
        f.write_str("\"0x")?;
        write_hex(f, magnitude)?;
        return f.write_char('"');
    }
    const CHUNK: u64 = 1_000_000_000;
    let mut number = magnitude.to_vec();
    let mut chunks = Vec::new();
    while !number.is_empty() {
        let mut rest = 0;
        for byte in &mut number {
            let part = rest << 8 | u64::from(*byte);
            *byte = u8::try_from(part / CHUNK).expect("the rest is below the chunk");
            rest = part % CHUNK;
        }
        chunks.push(rest);
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.drain(..zeros);
    }
    let mut chunks = chunks.into_iter().rev();
    write!(f, "{}", chunks.next().unwrap_or(0))?;
    chunks.try_for_each(|chunk| write!(f, "{chunk:09}"))
}

/// Year, month and day of a day number, by counting from 0000-03-01 in cycles of 400 years.
fn write_date(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    let from_march = days + 719_468;
    let (cycle, day) = (
        from_march.div_euclid(146_097),
        from_march.rem_euclid(146_097),
    );
    let year_of_cycle = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    write!(f, "{year:04}-{month:02}-{day_of_month:02}")
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

fn write_date_time(f: &mut fmt::Formatter<'_>, time: &DateTime) -> fmt::Result {
    f.write_char('"')?;
    write_date(f, time.local_micros.div_euclid(DAY))?;
    f.write_char('T')?;
    write_time(f, time.local_micros.rem_euclid(DAY), time.offset_micros)?;
    f.write_char('"')
}

fn write_time(f: &mut fmt::Formatter<'_>, micros: i64, offset_micros: Option<i64>) -> fmt::Result {
    let (second, micro) = (micros / SECOND, micros % SECOND);
    write!(
        f,
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )?;
    if micro > 0 {
        write!(f, ".{micro:06}")?;
    }
    if let Some(offset) = offset_micros {
        let sign = if offset < 0 { '-' } else { '+' };
        let seconds = offset.abs() / SECOND;
        write!(f, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
        if seconds % 60 > 0 {
            write!(f, ":{:02}", seconds % 60)?;
        }
    }
    Ok(())
}

/// Seconds as a number, exact to the microsecond.
fn write_time_delta(f: &mut fmt::Formatter<'_>, span: TimeDelta) -> fmt::Result {
    let micros = (i128::from(span.days) * 86_400 + i128::from(span.seconds)) * 1_000_000
        + i128::from(span.micros);
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    write!(f, "{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
