//! How Python shows keys, for the texts of exceptions.

use quorate_wire::value::Value;

/// What `repr` says of a key.
pub(super) fn repr(key: &Value) -> String {
    match key {
        Value::Null => "None".to_owned(),
        Value::Bool(truth) => if *truth { "True" } else { "False" }.to_owned(),
        Value::Float(number) => float(*number),
        Value::Text(text) => quoted(text.chars()),
        Value::Bytes(bytes) => shown_bytes(bytes),
        Value::Tuple(items) => {
            let shown: Vec<String> = items.iter().map(repr).collect();
            let end = if shown.len() == 1 { "," } else { "" };
            format!("({}{end})", shown.join(", "))
        }
        Value::FrozenSet(items) if items.is_empty() => "frozenset()".to_owned(),
        Value::FrozenSet(items) => {
            let shown: Vec<String> = items.iter().map(repr).collect();
            format!("frozenset({{{}}})", shown.join(", "))
        }
        Value::Date(_) => {
            let shown = key.to_string();
            let parts = shown.trim_matches('"').split('-');
            let parts: Vec<&str> = parts.map(|part| part.trim_start_matches('0')).collect();
            format!("datetime.date({})", parts.join(", "))
        }
        Value::Uuid(_) => format!("UUID('{}')", key.to_string().trim_matches('"')),
        other => other.to_string(),
    }
}

fn float(number: f64) -> String {
    let shown = format!("{number:?}");
    let Some((digits, exponent)) = shown.split_once('e') else {
        return shown;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn shown_bytes(bytes: &[u8]) -> String {
    let shown = quoted(bytes.iter().map(|byte| char::from(*byte)));
    // What is beyond ASCII is a letter of a text, and none of bytes.
    let escaped = shown.chars().map(|letter| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("\\x{:02x}", letter as u32),
    });
    format!("b{}", escaped.collect::<String>())
}

fn quoted(letters: impl Iterator<Item = char> + Clone) -> String {
    let has = |quote| letters.clone().any(|letter| letter == quote);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for letter in letters.clone() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            letter if letter == quote => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            '\0'..='\u{ff}' if !is_shown(letter) => {
                out.push_str(&format!("\\x{:02x}", letter as u32));
            }
            letter if is_shown(letter) => out.push(letter),
            '\u{100}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push_str(&format!("\\U{:08x}", letter as u32)),
        }
    }
    out.push(quote);
    out
}

/// Whether a letter beyond ASCII is shown as it is.
fn is_shown(letter: char) -> bool {
    !letter.is_ascii() && (letter.is_alphanumeric() || letter.escape_debug().count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_python_shows_them() {
        for (key, shown) in [
            (Value::Null, "None"),
            (Value::Bool(true), "True"),
            (Value::Int(-7), "-7"),
            (Value::Float(1e16), "1e+16"),
            (Value::Float(0.000_01), "1e-05"),
            (Value::Float(2.0), "2.0"),
            (Value::from("it's"), "\"it's\""),
            (
                Value::from("a\n'\"\u{7f}\u{e9}\u{2028}"),
                "'a\\n\\'\"\\x7f\u{e9}\\u2028'",
            ),
            (Value::Tuple(vec![Value::Int(1)]), "(1,)"),
            (Value::Date(0), "datetime.date(1970, 1, 1)"),
            (Value::FrozenSet(vec![Value::Int(1)]), "frozenset({1})"),
            (
                Value::Tuple(vec![Value::Int(1), Value::from("a")]),
                "(1, 'a')",
            ),
        ] {
            assert_eq!(repr(&key), shown);
        }
        let bytes = Value::Bytes(b"a\x00\xff".to_vec());
        assert_eq!(repr(&bytes), "b'a\\x00\\xff'");
    }
}
