//! Where a claim comes from: the `from` column of `docs/papers.md`.
//!
//! A cell names sections, `;` between two: `OR 3.1`, `GS VI.A.3`, `Lamport, Paxos Made Simple 2.2`; or it is `own`. The
//! short names are those of the page's own table.

use crate::table;

/// What a rule is that stands in no text.
const OWN: &str = "own";

/// The short names that a cell may use, as the page's table gives them.
pub(crate) fn short_names(page: &str) -> Vec<String> {
    let rows = table::rows(page, &["short name", "text"]).unwrap_or_default();
    rows.into_iter().map(|row| row[0].clone()).collect()
}

/// What is wrong with a cell; `None` for a known form.
pub(crate) fn complaint(cell: &str, names: &[String]) -> Option<String> {
    if cell.is_empty() {
        return Some("names no text that it comes from, and not `own`".to_owned());
    }
    if cell == OWN {
        return None;
    }
    let unknown = cell
        .split("; ")
        .find(|source| !names.iter().any(|name| is_section_of(source, name)))?;
    Some(format!(
        "comes from `{unknown}`, which is no short name with a section"
    ))
}

/// The name alone, or the name and a section: `3.1`, `VI.A.3`.
fn is_section_of(source: &str, name: &str) -> bool {
    let Some(rest) = source.strip_prefix(name) else {
        return false;
    };
    // A paper of initials is cited with its section; the literature may be cited whole.
    let is_initials = name.bytes().all(|letter| letter.is_ascii_uppercase());
    match rest.strip_prefix(' ') {
        None => rest.is_empty() && !is_initials,
        Some(section) => section.split('.').all(is_number),
    }
}

/// A part of a section: `3`, `VI`, `A`.
fn is_number(part: &str) -> bool {
    let is_digits = part.bytes().all(|byte| byte.is_ascii_digit());
    let is_roman = part.bytes().all(|byte| b"IVX".contains(&byte));
    let is_letter = part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_uppercase());
    !part.is_empty() && (is_digits || is_roman || is_letter)
}

#[cfg(test)]
mod tests {
    use super::{complaint, short_names};

    const PAGE: &str = "| short name | text |\n| --- | --- |\n| OR | one |\n| GS | two |\n| Lamport, Paxos Made Simple | three |\n";

    #[test]
    fn sections_of_named_texts_and_own_are_known() {
        let names = short_names(PAGE);
        for cell in [
            "OR 3.1",
            "GS VI.A.3",
            "OR 2; GS II.D",
            "Lamport, Paxos Made Simple",
            "Lamport, Paxos Made Simple 2.2",
            "own",
        ] {
            assert_eq!(complaint(cell, &names), None, "{cell}");
        }
    }

    #[test]
    fn nothing_an_unknown_text_and_a_missing_section_are_told() {
        let names = short_names(PAGE);
        for cell in [
            "",
            "OR",
            "OR three",
            "XY 1",
            "OR 2, GS II.D",
            "OR 2;",
            "OR 3.",
        ] {
            assert!(complaint(cell, &names).is_some(), "{cell}");
        }
    }
}
