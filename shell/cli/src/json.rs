//! JSON of the command line as values of objects. The way back is `Value`'s own text.

use quorate_node::value_of_json;
use quorate_wire::value::Value;

/// A JSON list as values.
pub(crate) fn list(text: &str) -> Result<Vec<Value>, String> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Array(items)) => Ok(items.iter().map(value_of_json).collect()),
        Ok(_) => Err(format!(
            "'{text}' is not a JSON list; write for example '[1, \"two\"]'"
        )),
        Err(error) => Err(format!(
            "'{text}' is not JSON ({error}); write for example '[1, \"two\"]'"
        )),
    }
}

/// A JSON object as named values.
pub(crate) fn named(text: &str) -> Result<Vec<(String, Value)>, String> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(items)) => Ok(items
            .into_iter()
            .map(|(name, item)| (name, value_of_json(&item)))
            .collect()),
        Ok(_) => Err(format!(
            "'{text}' is not a JSON object; write for example '{{\"n\": 1}}'"
        )),
        Err(error) => Err(format!(
            "'{text}' is not JSON ({error}); write for example '{{\"n\": 1}}'"
        )),
    }
}

/// One word of a command line: JSON where it is JSON, else the text itself.
pub(crate) fn word(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(json) => value_of_json(&json),
        Err(_) => Value::Text(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_back_as_it_went_in() {
        for text_in in [
            "null",
            "true",
            "-7",
            "1.5",
            "\"a\"",
            "[1,[2]]",
            "{\"a\":{\"b\":1}}",
        ] {
            assert_eq!(word(text_in).to_string(), text_in);
        }
    }

    #[test]
    fn a_word_that_is_no_json_is_text() {
        assert_eq!(word("A-1"), Value::Text("A-1".into()));
    }

    #[test]
    fn a_list_must_be_one() {
        assert!(list("{}").is_err());
        assert!(list("[1").is_err());
    }
}
