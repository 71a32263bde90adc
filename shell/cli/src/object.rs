//! Objects as the command line names them.

use crate::error::CliError;
use crate::json;
use bytes::Bytes;
use quorate_wire::value::{self, Value};

/// What clients call an object of this class: `rust:counter` is `Counter`, `bank:Account` is `Account`.
pub(crate) fn name_of(class: &str) -> String {
    let bare = class.rsplit([':', '.']).next().unwrap_or(class);
    let mut letters = bare.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Constructor arguments, given as a JSON list and a JSON object, as hosts take them.
pub(crate) fn arguments(args: &str, kwargs: &str) -> Result<Bytes, CliError> {
    let args = json::list(args).map_err(CliError::usage)?;
    let kwargs = json::named(kwargs).map_err(CliError::usage)?;
    let named = kwargs
        .into_iter()
        .map(|(name, item)| (Value::Text(name), item))
        .collect();
    let pair = Value::List(vec![Value::List(args), Value::Map(named)]);
    value::encode(&pair).map_err(|error| CliError::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_after_its_class() {
        assert_eq!(name_of("rust:counter"), "Counter");
        assert_eq!(name_of("shop.bank:Account"), "Account");
    }
}
