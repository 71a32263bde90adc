//! The glossary can be searched by eye, and holds the words of the code and no other.
//!
//! Each table's words stand once and in order; a word that no identifier uses is not the code's.

use std::collections::BTreeSet;

use crate::repository::Repository;
use crate::source::{code_of_rust, words};
use crate::table;

const PAGE: &str = "docs/glossary.md";
const HEADERS: [&[&str]; 3] = [
    &["word", "meaning"],
    &["papers say", "here"],
    &["not", "say"],
];

/// Words that stand twice, out of order or for nothing, and tables that are gone.
pub fn problems(repository: &Repository) -> Vec<String> {
    let page = repository.text(PAGE).unwrap_or("");
    let mut found: Vec<String> = HEADERS
        .iter()
        .flat_map(|header| match table::rows(page, header) {
            Some(rows) if !rows.is_empty() => out_of_order(&rows),
            Some(_) | None => vec![format!("{PAGE}: no table `{}`", header.join(" | "))],
        })
        .collect();
    found.extend(unused(repository, page));
    found
}

/// Words of the first table that no identifier has as a part.
fn unused(repository: &Repository, page: &str) -> Vec<String> {
    let rows = table::rows(page, HEADERS[0]).unwrap_or_default();
    let listed = rows.iter().map(|row| row[0].replace('`', ""));
    let parts = parts_of_identifiers(repository);
    listed
        .filter(|word| !parts.contains(&word.replace([' ', '-'], "_")))
        .map(|word| {
            format!("{PAGE}: `{word}` is in no identifier: the glossary holds the code's words")
        })
        .collect()
}

/// Each part of each identifier and each pair of neighbours, without the endings of grammar: `NameServers` has `name`,
/// `server` and `name_server`.
fn parts_of_identifiers(repository: &Repository) -> BTreeSet<String> {
    let rust = repository
        .with_extension(&["rs"])
        .map(|(_, text)| code_of_rust(text));
    let python = repository
        .with_extension(&["py"])
        .map(|(_, text)| definitions_of_python(text));
    let mut parts = BTreeSet::new();
    for code in rust.chain(python) {
        for identifier in words(&code) {
            let pieces = pieces(identifier);
            let pairs = pieces.windows(2).map(|pair| pair.join("_"));
            parts.extend(pairs.flat_map(|pair| stems(&pair)));
            parts.extend(pieces.iter().flat_map(|piece| stems(piece)));
        }
    }
    parts
}

/// The lines that define classes and functions.
fn definitions_of_python(text: &str) -> String {
    let starts = ["class ", "def ", "async def "];
    let lines = text.lines().map(str::trim_start);
    let defining = lines.filter(|line| starts.iter().any(|start| line.starts_with(start)));
    defining.collect::<Vec<_>>().join("\n")
}

/// `HostEvent`, `host_event` and `HOST_EVENT` are `host`, `event`.
fn pieces(identifier: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut was_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            pieces.push(String::new());
        }
        if letter != '_' {
            let last = pieces.last_mut().expect("there is always a piece");
            last.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The word itself, and what is left without `s`, `d`, `ed` or `r` at its end.
fn stems(word: &str) -> Vec<String> {
    let endings = ["s", "d", "ed", "r"];
    let stems = endings
        .iter()
        .filter_map(|ending| word.strip_suffix(ending));
    stems.chain([word]).map(str::to_owned).collect()
}

fn out_of_order(rows: &[Vec<String>]) -> Vec<String> {
    let keys: Vec<String> = rows
        .iter()
        .map(|row| row[0].replace('`', "").to_lowercase())
        .collect();
    keys.windows(2)
        .filter(|pair| pair[0] >= pair[1])
        .map(|pair| {
            if pair[0] == pair[1] {
                format!("{PAGE}: `{}` stands twice", pair[0])
            } else {
                format!("{PAGE}: `{}` stands after `{}`", pair[1], pair[0])
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_word_twice_or_out_of_order_is_named() {
        let rest = "\n| papers say | here |\n| --- | --- |\n| a | b |\n\n| not | say |\n| --- | --- |\n| a | b |\n";
        let page =
            format!("| word | meaning |\n| --- | --- |\n| b | |\n| `a` | |\n| a | |\n{rest}");
        let code = "fn a_b() {}\n";
        let found = problems(&Repository::of(&[
            ("docs/glossary.md", &page),
            ("a.rs", code),
        ]));
        assert_eq!(
            found,
            [
                "docs/glossary.md: `a` stands after `b`",
                "docs/glossary.md: `a` stands twice"
            ]
        );
    }

    #[test]
    fn a_word_that_no_identifier_uses_is_named() {
        let rest = "\n| papers say | here |\n| --- | --- |\n| a | b |\n\n| not | say |\n| --- | --- |\n| a | b |\n";
        let rows =
            "| `lease` | |\n| `name server` | |\n| `node` | |\n| `park` | |\n| `snapshot` | |\n";
        let page = format!("| word | meaning |\n| --- | --- |\n{rows}{rest}");
        // `park` is in a comment and a string only.
        let code = "struct NameServers; fn leased_node(snapshots: u8) {} // park\nconst A: &str = \"park\";\n";
        let found = problems(&Repository::of(&[
            ("docs/glossary.md", &page),
            ("a.rs", code),
        ]));
        assert_eq!(
            found,
            ["docs/glossary.md: `park` is in no identifier: the glossary holds the code's words"]
        );
    }

    #[test]
    fn a_missing_table_is_named() {
        assert_eq!(problems(&Repository::of(&[])).len(), 3);
    }
}
