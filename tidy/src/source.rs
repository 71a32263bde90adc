//! Rust text without its comments and literals, so that a rule sees code and nothing else.
//!
//! A scanner, no parser: it knows comments, strings, raw strings and characters, keeps every line break, and turns what
//! it removes into spaces.

/// The same lines with comments and literals blanked.
pub(crate) fn code_of_rust(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at);
        if end > at {
            blank(&mut code[at..end]);
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(code).expect("blanking whole literals leaves UTF-8")
}

/// The words of a text: runs of letters, digits and underscores.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

/// Where the comment or literal that starts here ends; `at` itself when none starts here.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        at + rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len())
    } else if rest.starts_with(b"/*") {
        block_comment_end(bytes, at)
    } else if rest[0] == b'"' {
        string_end(bytes, at + 1)
    } else if rest[0] == b'r' && (!in_word || bytes[at - 1] == b'b') {
        raw_string_end(bytes, at)
    } else if rest[0] == b'\'' {
        character_end(bytes, at)
    } else {
        at
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn raw_string_end(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return start;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inner = &bytes[open + 1..];
    let length = inner
        .windows(close.len())
        .position(|window| window == close)
        .unwrap_or(inner.len());
    (open + 1 + length + close.len()).min(bytes.len())
}

/// A quote also starts a lifetime, which has no closing quote.
fn character_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let from = (at + 3).min(bytes.len());
        return bytes[from..]
            .iter()
            .position(|byte| *byte == b'\'')
            .map_or(at, |length| from + length + 1);
    }
    let is_wide = bytes.get(at + 1).is_some_and(|byte| !byte.is_ascii());
    let reach = if is_wide { 5 } else { 2 };
    let from = (at + 2).min(bytes.len());
    let until = (at + reach + 1).min(bytes.len());
    bytes[from..until]
        .iter()
        .position(|byte| *byte == b'\'')
        .map_or(at, |length| from + length + 1)
}

#[cfg(test)]
mod tests {
    use super::{code_of_rust, words};

    fn survivors(text: &str) -> Vec<String> {
        words(&code_of_rust(text)).map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_strings_are_gone() {
        assert_eq!(survivors("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(
            survivors("a(\"b \\\" c\") d r#\"e \" f\"# g b\"h\" i"),
            ["a", "d", "g", "b", "i"]
        );
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(
            survivors("fn f<'a>(x: &'a str) { '{' }"),
            ["fn", "f", "a", "x", "a", "str"]
        );
        assert_eq!(survivors("('\\'', '\\u{7d}', 'é', q)"), ["q"]);
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "a\n\"b\nc\"\n/* d\n */ e";
        assert_eq!(code_of_rust(text).lines().count(), text.lines().count());
    }
}
