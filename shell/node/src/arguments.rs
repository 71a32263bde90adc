//! Constructor arguments: JSON as people write it, to values as objects read them.

use bytes::Bytes;
use quorate_wire::value::{Sign, Value, encode};

/// `[args, kwargs]` as a host reads it.
///
/// # Errors
/// What is wrong, beginning with `args` or `kwargs`.
pub fn constructor_arguments(args: Option<&str>, kwargs: Option<&str>) -> Result<Bytes, String> {
    let parse = |key: &str, text: &str| {
        serde_json::from_str::<serde_json::Value>(text).map_err(|error| format!("{key}: {error}"))
    };
    let args = match args.map(|text| parse("args", text)).transpose()? {
        None => Vec::new(),
        Some(serde_json::Value::Array(items)) => items.iter().map(value_of_json).collect(),
        Some(other) => return Err(format!("args: {other} is not a JSON list")),
    };
    let kwargs = match kwargs.map(|text| parse("kwargs", text)).transpose()? {
        None => Vec::new(),
        Some(serde_json::Value::Object(fields)) => fields
            .iter()
            .map(|(name, item)| (Value::Text(name.clone()), value_of_json(item)))
            .collect(),
        Some(other) => return Err(format!("kwargs: {other} is not a JSON object")),
    };
    let both = Value::List(vec![Value::List(args), Value::Map(kwargs)]);
    encode(&both).map_err(|error| format!("args: {error}"))
}

/// JSON as a value.
#[must_use]
pub fn value_of_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(small), _) => Value::Int(small),
            (None, Some(large)) => Value::integer(Sign::Positive, &large.to_be_bytes()),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(value_of_json).collect()),
        serde_json::Value::Object(fields) => Value::Map(
            fields
                .iter()
                .map(|(name, item)| (Value::Text(name.clone()), value_of_json(item)))
                .collect(),
        ),
    }
}
