//! The value codec: bytes of the standard's own examples, one form per value, and refusals with paths.

use crate::draw::Draw;
use crate::readers;
use crate::samples_values::every_kind;
use quorate_wire::limits::VALUE_DEPTH_MAX;
use quorate_wire::value::{DataInstance, Sign, Value, ValueErrorKind, call, decode, encode};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn refusal(bytes: &str) -> String {
    decode(&hex(bytes)).expect_err("not a value").to_string()
}

#[test]
fn values_stay_small_in_memory() {
    assert!(size_of::<Value>() <= 32);
}

#[test]
fn numbers_and_texts_have_the_bytes_of_rfc_8949_appendix_a() {
    let nine = |number: u64| Value::integer(Sign::Positive, &number.to_be_bytes());
    let cases = [
        (Value::Int(0), "00"),
        (Value::Int(23), "17"),
        (Value::Int(24), "1818"),
        (Value::Int(1000), "1903e8"),
        (Value::Int(1_000_000), "1a000f4240"),
        (Value::Int(1_000_000_000_000), "1b000000e8d4a51000"),
        (nine(u64::MAX), "1bffffffffffffffff"),
        (
            Value::integer(Sign::Positive, &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
            "c249010000000000000000",
        ),
        (
            Value::integer(Sign::Negative, &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
            "3bffffffffffffffff",
        ),
        (
            Value::integer(Sign::Negative, &[1, 0, 0, 0, 0, 0, 0, 0, 1]),
            "c349010000000000000000",
        ),
        (Value::Int(-1), "20"),
        (Value::Int(-1000), "3903e7"),
        (Value::Int(i64::MIN), "3b7fffffffffffffff"),
        (Value::Float(1.1), "fb3ff199999999999a"),
        (Value::Float(f64::INFINITY), "fb7ff0000000000000"),
        (Value::Bool(false), "f4"),
        (Value::Null, "f6"),
        (Value::Bytes(vec![1, 2, 3, 4]), "4401020304"),
        (Value::from("IETF"), "6449455446"),
        (Value::from("水"), "63e6b0b4"),
        (Value::List(vec![]), "80"),
        (Value::Map(vec![(Value::Int(1), Value::Int(2))]), "a10102"),
    ];
    for (value, bytes) in cases {
        assert_eq!(encode(&value).unwrap(), hex(bytes), "{value:?}");
        assert_eq!(decode(&hex(bytes)), Ok(value));
    }
}

#[test]
fn every_nan_is_written_as_one_and_only_that_one_is_read() {
    let odd = Value::Float(f64::from_bits(0xfff8_0000_0000_0001));
    let bytes = encode(&odd).unwrap();
    assert_eq!(bytes, hex("fb7ff8000000000000"));
    assert!(matches!(decode(&bytes), Ok(Value::Float(number)) if number.is_nan()));
    assert_eq!(
        refusal("fbfff8000000000001"),
        "not in its one canonical form"
    );
}

#[test]
fn longer_forms_of_a_value_are_refused() {
    for bytes in [
        "1817",
        "190017",
        "1a00000017",
        "1b0000000000000017",
        "7801 61",
        "9800",
        "c24101",
        "c2490001000000000000 0000",
        "c248ffffffffffffffff",
        "d9010282 0201",
    ] {
        assert_eq!(refusal(bytes), "not in its one canonical form", "{bytes}");
    }
}

#[test]
fn forms_without_a_meaning_are_refused() {
    assert_eq!(refusal("f7"), "unknown form 0xf7");
    assert_eq!(refusal("f93c00"), "unknown form 0xf9");
    assert_eq!(refusal("9f01ff"), "unknown form 0x9f");
    assert_eq!(refusal("c074323031"), "unknown tag 0");
    assert_eq!(refusal("0000"), "1 bytes too many");
    assert_eq!(refusal(""), "the bytes end inside a value");
    assert_eq!(refusal("62c328"), "text is not UTF-8");
    assert_eq!(
        refusal("9bffffffffffffffff"),
        "the bytes end inside a value"
    );
    assert_eq!(refusal("d8645a7fffffff"), "int expected, bytes found");
}

#[test]
fn what_stands_twice_is_refused_by_reader_and_writer() {
    assert_eq!(refusal("a2 0101 0102"), "stands twice");
    assert_eq!(refusal("d90102 82 0101"), "stands twice");
    let one = || (Value::Int(1), Value::Null);
    let twice = [
        Value::Map(vec![one(), one()]),
        Value::Set(vec![Value::Int(1), Value::Int(1)]),
        Value::Object(Box::new(DataInstance {
            class: "C".into(),
            fields: vec![("a".into(), Value::Null), ("a".into(), Value::Int(1))],
        })),
    ];
    for value in twice {
        assert_eq!(encode(&value).unwrap_err().kind, ValueErrorKind::Duplicate);
    }
}

#[test]
fn parts_of_rare_kinds_that_contradict_each_other_are_refused() {
    let refused = [
        // A queue that is longer than it may be.
        ("d9ea6a 82 820102 01", "length of a deque is out of range"),
        // A map of an unknown kind, and a factory that only one kind has.
        ("d9ea6b 83 6162 a0 f6", "kind is out of range"),
        (
            "d9ea6b 83 67636f756e746572 a0 6161",
            "factory of a map is out of range",
        ),
        // A step of zero, and a bound that is no integer.
        ("d9ea6f 83 000900", "range is out of range"),
        ("d9ea6f 83 00f601", "range is out of range"),
        // An unknown singleton, an unknown form, and an array with too few bytes.
        ("d9ea79 6161", "kind is out of range"),
        (
            "d9ea7b 83 633c6639 f6 40",
            "form of a number is out of range",
        ),
        (
            "d9ea7b 83 633c6634 8102 44 00000000",
            "length of an array is out of range",
        ),
        (
            "d9ea7b 83 633c6634 82 1bffffffffffffffff 1bffffffffffffffff 44 00000000",
            "length of an array is out of range",
        ),
    ];
    for (bytes, reason) in refused {
        assert_eq!(refusal(bytes), reason, "{bytes}");
    }
}

#[test]
fn exceptions_inside_exceptions_are_bounded_in_depth() {
    let mut deep = Vec::new();
    for _ in 0..VALUE_DEPTH_MAX + 1 {
        // An exception whose details have another one as its cause.
        deep.extend(hex("d9ea7a 85 6161 60 80 60 a1 656361757365"));
    }
    deep.extend(hex("f6"));
    assert_eq!(decode(&deep).unwrap_err().kind, ValueErrorKind::TooDeep);
}

#[test]
fn sets_are_equal_bytes_in_any_order_and_maps_keep_theirs() {
    let (a, b) = (Value::from("a"), Value::Int(500));
    let set = |items| encode(&Value::Set(items)).unwrap();
    assert_eq!(
        set(vec![a.clone(), b.clone()]),
        set(vec![b.clone(), a.clone()])
    );
    let map = |first: &Value, second: &Value| {
        let entries = [first, second].map(|key| (key.clone(), Value::Null));
        encode(&Value::Map(entries.into())).unwrap()
    };
    assert_ne!(map(&a, &b), map(&b, &a));
}

#[test]
fn nesting_is_bounded_for_reader_and_writer_alike() {
    let nested = |depth| (0..depth).fold(Value::Null, |value, _| Value::List(vec![value]));
    let deepest = encode(&nested(VALUE_DEPTH_MAX)).unwrap();
    assert!(decode(&deepest).is_ok());
    assert_eq!(
        encode(&nested(VALUE_DEPTH_MAX + 1)).unwrap_err().kind,
        ValueErrorKind::TooDeep
    );
    let bomb = vec![0x81; 1_000_000];
    assert_eq!(decode(&bomb).unwrap_err().kind, ValueErrorKind::TooDeep);
}

#[test]
fn the_number_of_items_is_bounded() {
    let mut bytes = hex("9a00400000");
    bytes.resize(bytes.len() + (4 << 20), 0xf6);
    assert!(matches!(
        decode(&bytes).unwrap_err().kind,
        ValueErrorKind::TooLarge { .. }
    ));
}

#[test]
fn long_lists_and_maps_take_memory_for_what_they_hold() {
    let numbers = || (0..10_000).map(Value::Int);
    for value in [
        Value::List(numbers().collect()),
        Value::Tuple(vec![Value::Null; 10_000]),
        Value::Map(numbers().map(|key| (key, Value::Null)).collect()),
        Value::FrozenSet(numbers().collect()),
    ] {
        readers::value(&encode(&value).unwrap());
    }
}

#[test]
fn a_refused_argument_is_named_by_its_path() {
    let owner = Value::Object(Box::new(DataInstance {
        class: "bank.Owner".into(),
        fields: vec![("age".into(), Value::Date(i32::MAX))],
    }));
    let args = [
        Value::Null,
        Value::Map(vec![(Value::from("who"), Value::Tuple(vec![owner]))]),
    ];
    let error = call::encode("open", &args, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "args[1][\"who\"][0].age: date is out of range"
    );
    let kwargs = [("rate".to_owned(), Value::Decimal("1e5".into()))];
    let error = call::encode("open", &[], &kwargs).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kwargs[\"rate\"]: decimal number is out of range"
    );
}

#[test]
fn a_view_reads_arguments_in_order_and_says_which_one_is_wrong() {
    let bytes = call::encode("add", &[Value::from("x"), Value::Int(-3)], &[]).unwrap();
    let mut view = call::MethodCallView::parse(&bytes).unwrap();
    let error = view.int().unwrap_err();
    assert_eq!(error.to_string(), "args[0]: int expected, text found");
    assert_eq!(view.text(), Ok("x"), "a refused look consumes nothing");
    assert_eq!(view.int(), Ok(-3));
    assert_eq!(
        view.int().unwrap_err().to_string(),
        "args[2]: int expected, nothing found"
    );
    view.finish().unwrap();
    let error = call::MethodCallView::parse(&bytes)
        .unwrap()
        .finish()
        .unwrap_err();
    assert_eq!(error.path(), "args");
}

#[test]
fn names_of_methods_are_bounded() {
    for refused in ["", &"m".repeat(256)] {
        let error = call::encode(refused, &[], &[]).unwrap_err();
        let what = "the length of the method's name (1 to 255 bytes) is out of range";
        assert_eq!(error.to_string(), what);
    }
    assert!(call::encode(&"m".repeat(255), &[], &[]).is_ok());
}

#[test]
fn decimals_are_those_that_python_prints() {
    for text in [
        "0", "-0", "1.50", "1E+3", "-1.5E-7", "NaN", "-sNaN12", "Infinity",
    ] {
        assert!(encode(&Value::Decimal(text.into())).is_ok(), "{text}");
    }
    for text in [
        "", "-", "+1", "1.", ".5", "1E3", "1E+", "inf", "nan", "1_0", "0x1", "١",
    ] {
        assert!(encode(&Value::Decimal(text.into())).is_err(), "{text}");
    }
}

#[test]
fn integers_of_any_size_are_printed_in_decimal() {
    let big = Value::integer(Sign::Negative, &[1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(big.to_string(), "-18446744073709551616");
    let mut draw = Draw::seeded(1);
    for _ in 0..200 {
        let number = u128::from(draw.number()) << 64 | u128::from(draw.of_any_size(64));
        let value = Value::integer(Sign::Positive, &number.to_be_bytes());
        assert_eq!(value.to_string(), number.to_string());
    }
}

#[test]
fn every_kind_is_shown_as_json() {
    let expected = concat!(
        r#"[null,true,-500,18446744073709551615,-310698676526526814092329217,1.5,"é","0102","#,
        r#"[24],{"b":1,"0":null},[1,"x"],[],"2023-11-14T22:13:20.000001-01:00","2022-01-08","#,
        r#"-0.000001,"-12.50","30313233-3435-3637-3839-616263646566","EUR","#,
        r#"{"name":"Ada","age":36},["0304","12:30:00.000007",[1,null],{"a":1},{"x":1,"y":2},"A-1","a/b","#,
        r#"{"start":0,"stop":9,"step":3},{"start":null,"stop":2,"step":null},"self","#,
        r#"{"exception":"bank.Overdrawn","message":"10 too much"},1.5,[[-1],[256]],[]]]"#
    );
    assert_eq!(every_kind().to_string(), expected);
}
