//! One sample of each kind of value.

use crate::samples::{Reader, Sample, sample};
use bytes::BufMut;
use quorate_wire::value::{
    DataInstance, DateTime, Deque, EnumMember, Extended, MapKind, MapOf, Numbers, Raised, Sign,
    Singleton, TextKind, Texted, TimeDelta, TimeOfDay, Value as V, call, encode,
};

/// A value of every kind in one list.
pub(crate) fn every_kind() -> V {
    V::List(vec![
        V::Null,
        V::Bool(true),
        V::Int(-500),
        V::integer(Sign::Positive, &[0xff; 8]),
        V::integer(Sign::Negative, &[1; 12]),
        V::Float(1.5),
        V::from("é"),
        V::Bytes(vec![1, 2]),
        V::Tuple(vec![V::Int(24)]),
        V::Map(vec![(V::from("b"), V::Int(1)), (V::Int(0), V::Null)]),
        V::Set(vec![V::Int(1), V::from("x")]),
        V::FrozenSet(vec![]),
        V::DateTime(Box::new(DateTime {
            local_micros: 1_700_000_000_000_001,
            offset_micros: Some(-3_600_000_000),
            zone: Some("Atlantic/Azores".into()),
            is_second: true,
        })),
        V::Date(19_000),
        V::TimeDelta(TimeDelta {
            days: -1,
            seconds: 86_399,
            micros: 999_999,
        }),
        V::Decimal("-12.50".into()),
        V::Uuid(*b"0123456789abcdef"),
        V::Enum(Box::new(EnumMember {
            class: "bank.Currency".into(),
            name: "EUR".into(),
        })),
        V::Object(Box::new(DataInstance {
            class: "bank.Owner".into(),
            fields: vec![("name".into(), V::from("Ada")), ("age".into(), V::Int(36))],
        })),
        V::List(rare_kinds()),
    ])
}

fn rare_kinds() -> Vec<V> {
    let numbers = |form: &str, shape: Option<&[u64]>, data: &[u8]| {
        V::Numbers(Box::new(Numbers {
            form: form.into(),
            shape: shape.map(<[u64]>::to_vec),
            data: data.to_vec(),
        }))
    };
    vec![
        V::ByteArray(vec![3, 4]),
        V::Time(Box::new(TimeOfDay {
            micros: 45_000_000_007,
            offset_micros: None,
            zone: None,
            is_second: false,
        })),
        V::Deque(Box::new(Deque {
            items: vec![V::Int(1), V::Null],
            longest: Some(3),
        })),
        V::MapOf(Box::new(MapOf {
            kind: MapKind::Default,
            entries: vec![(V::from("a"), V::Int(1))],
            factory: Some("builtins.list".into()),
        })),
        V::Record(Box::new(DataInstance {
            class: "bank.Point".into(),
            fields: vec![("x".into(), V::Int(1)), ("y".into(), V::Int(2))],
        })),
        V::Extended(Box::new(Extended {
            class: "bank.Number".into(),
            content: V::from("A-1"),
        })),
        V::Texted(Box::new(Texted {
            kind: TextKind::PurePosixPath,
            text: "a/b".into(),
        })),
        V::Range(Box::new([V::Int(0), V::Int(9), V::Int(3)])),
        V::Slice(Box::new([V::Null, V::Int(2), V::Null])),
        V::Singleton(Singleton::Itself),
        V::Exception(Box::new(raised())),
        numbers("<f8", None, &1.5f64.to_le_bytes()),
        numbers(">i2", Some(&[2, 1]), &[0xff, 0xff, 1, 0]),
        numbers("|b1", Some(&[0, 9]), &[]),
    ]
}

fn raised() -> Raised {
    Raised {
        class: "bank.Overdrawn".into(),
        message: "10 too much".into(),
        args: vec![V::Int(10)],
        traceback: "bank.py:7".into(),
        details: vec![("notes".into(), V::List(vec![V::from("ask Ada")]))],
    }
}

pub(crate) fn values() -> [Sample; 3] {
    let kwargs = [("owner".to_owned(), V::from("Ada"))];
    let call = call::encode("deposit", &[V::Int(10), every_kind()], &kwargs);
    let bytes = [
        ("value", encode(&every_kind())),
        ("value_call", call),
        ("value_raised", raised().encode()),
    ];
    bytes.map(|(name, bytes)| {
        sample(name, Reader::Value, |buf| {
            buf.put_slice(&bytes.expect("within all limits"));
        })
    })
}
