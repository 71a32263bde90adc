//! One value for each seed; over many seeds, values of every kind and shape.

use crate::draw::Draw;
use quorate_wire::value::{
    DataInstance, DateTime, Deque, EnumMember, Extended, MapKind, MapOf, Numbers, Sign, TextKind,
    Texted, TimeDelta, TimeOfDay, Value, encode,
};

pub(crate) fn value(draw: &mut Draw, depth: u32) -> Value {
    let kinds = if depth == 0 { 13 } else { 28 };
    match draw.below(kinds) {
        0 => Value::Null,
        1 => Value::Bool(draw.flag()),
        2 => Value::Int(integer(draw)),
        3 => big(draw),
        4 => Value::Float(float(draw)),
        5 => Value::Text(draw.text(30)),
        6 => Value::Bytes(draw.bytes(40)),
        7 => date_time(draw),
        8 => Value::Date(draw.below(3_652_059) as i32 - 719_162),
        9 => Value::TimeDelta(TimeDelta {
            days: draw.below(1_999_999_999) as i32 - 999_999_999,
            seconds: draw.below(86_400) as u32,
            micros: draw.below(1_000_000) as u32,
        }),
        10 => Value::Decimal(decimal(draw)),
        11 => Value::Uuid(std::array::from_fn(|_| draw.number() as u8)),
        12 => Value::Enum(Box::new(EnumMember {
            class: draw.text(20),
            name: draw.text(10),
        })),
        13 => Value::List(draw.list(5, |draw| value(draw, depth - 1))),
        14 => Value::Tuple(draw.list(5, |draw| value(draw, depth - 1))),
        15 => Value::Map(distinct(
            draw.list(5, |draw| (value(draw, depth - 1), value(draw, depth - 1))),
        )),
        16 => Value::Set(distinct_values(draw, depth)),
        17 => Value::FrozenSet(distinct_values(draw, depth)),
        18 => Value::Object(Box::new(instance(draw, depth))),
        19 => Value::Record(Box::new(instance(draw, depth))),
        _ => rare(draw, depth),
    }
}

fn instance(draw: &mut Draw, depth: u32) -> DataInstance {
    let class = draw.text(20);
    let mut fields = draw.list(4, |draw| (draw.text(8), value(draw, depth - 1)));
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields.dedup_by(|a, b| a.0 == b.0);
    DataInstance { class, fields }
}

fn rare(draw: &mut Draw, depth: u32) -> Value {
    match draw.below(9) {
        0 => Value::ByteArray(draw.bytes(40)),
        1 => Value::Time(Box::new(TimeOfDay {
            micros: draw.below(86_400_000_000) as i64,
            offset_micros: draw.option(|draw| draw.below(86_400_000_000) as i64 - 43_200_000_000),
            zone: draw.option(|draw| draw.text(12)),
            is_second: draw.flag(),
        })),
        2 => Value::Deque(Box::new(Deque {
            items: draw.list(5, |draw| value(draw, depth - 1)),
            longest: draw.option(|draw| 5 + draw.below(100)),
        })),
        3 => {
            let kind = MapKind::ALL[draw.below(MapKind::ALL.len() as u64) as usize];
            let entries =
                distinct(draw.list(5, |draw| (value(draw, depth - 1), value(draw, depth - 1))));
            let factory = draw.option(|draw| draw.text(12));
            Value::MapOf(Box::new(MapOf {
                kind,
                entries,
                factory: factory.filter(|_| kind == MapKind::Default),
            }))
        }
        4 => Value::Extended(Box::new(Extended {
            class: draw.text(20),
            content: value(draw, depth - 1),
        })),
        5 => Value::Texted(Box::new(Texted {
            kind: TextKind::ALL[draw.below(TextKind::ALL.len() as u64) as usize],
            text: draw.text(30),
        })),
        6 => {
            let mut bound = || Value::Int(integer(draw));
            Value::Slice(Box::new([bound(), Value::Null, bound()]))
        }
        7 => {
            let mut bound = || Value::Int(integer(draw));
            Value::Range(Box::new([bound(), bound(), Value::Int(7)]))
        }
        _ => {
            let data = draw.bytes(12);
            Value::Numbers(Box::new(Numbers {
                form: "|u1".to_owned(),
                shape: Some(vec![data.len() as u64, 1]),
                data,
            }))
        }
    }
}

fn integer(draw: &mut Draw) -> i64 {
    let magnitude = draw.of_any_size(64) as i64;
    if draw.flag() { magnitude } else { !magnitude }
}

fn big(draw: &mut Draw) -> Value {
    let sign = if draw.flag() {
        Sign::Positive
    } else {
        Sign::Negative
    };
    Value::integer(sign, &draw.bytes(20))
}

/// No NaN: it differs from itself and has a test of its own.
fn float(draw: &mut Draw) -> f64 {
    let number = f64::from_bits(draw.number());
    if number.is_nan() { -0.0 } else { number }
}

fn date_time(draw: &mut Draw) -> Value {
    Value::DateTime(Box::new(DateTime {
        local_micros: draw.of_any_size(56) as i64 - (1 << 54),
        offset_micros: draw.option(|draw| draw.below(86_400_000_000) as i64 - 43_200_000_000),
        zone: draw.option(|draw| draw.text(12)),
        is_second: draw.flag(),
    }))
}

fn decimal(draw: &mut Draw) -> String {
    let number = draw.number() as i64;
    match draw.below(5) {
        0 => format!("{number}"),
        1 => format!("{number}.{}", draw.number()),
        2 => format!("{number}E-{}", draw.below(1000)),
        3 => "-sNaN12".to_owned(),
        _ => "Infinity".to_owned(),
    }
}

fn distinct(entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut seen = std::collections::BTreeSet::new();
    entries
        .into_iter()
        .filter(|(key, _)| seen.insert(encode(key).expect("drawn within all limits")))
        .collect()
}

/// In the order of their encodings, as they are when they have been decoded.
fn distinct_values(draw: &mut Draw, depth: u32) -> Vec<Value> {
    let mut items = draw.list(5, |draw| value(draw, depth - 1));
    items.sort_by_key(|item| encode(item).expect("drawn within all limits"));
    items.dedup_by_key(|item| encode(item).expect("drawn within all limits"));
    items
}
