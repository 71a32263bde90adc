//! Words that sources do not contain: promises left open, and words the glossary replaces.

use crate::repository::Repository;
use crate::{source, table};

/// The page that says which word replaces another.
const GLOSSARY: &str = "docs/glossary.md";

/// Marks of unfinished work; assembled so that this list is not its own breach.
const UNFINISHED: [&str; 4] = [
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];
const OPEN_QUESTION: &str = concat!("TO", "DO");
const DECISIONS: &str = "docs/decisions/";

/// Lines of sources that hold such a word.
pub fn problems(repository: &Repository) -> Vec<String> {
    let replaced = replaced_words(repository);
    repository
        .with_extension(&["rs", "py", "pyi", "ts", "tsx", "sh"])
        .flat_map(|(path, text)| {
            text.lines()
                .enumerate()
                .map(move |(index, line)| (path, index + 1, line))
        })
        .filter_map(|(path, number, line)| {
            let complaint = unfinished(line).or_else(|| replaced_word(line, &replaced))?;
            Some(format!("{path}:{number}: {complaint}"))
        })
        .collect()
}

fn unfinished(line: &str) -> Option<String> {
    if line.contains(OPEN_QUESTION) && !line.contains(DECISIONS) {
        return Some(format!(
            "{OPEN_QUESTION} without the page of {DECISIONS} that holds it"
        ));
    }
    let mark = UNFINISHED.iter().find(|mark| line.contains(**mark))?;
    Some(format!("{mark} is not what finished means"))
}

/// Pairs of a word and the one to say instead.
fn replaced_words(repository: &Repository) -> Vec<(String, String)> {
    let page = repository.text(GLOSSARY).unwrap_or("");
    let rows = table::rows(page, &["not", "say"]).unwrap_or_default();
    rows.into_iter()
        .map(|row| (row[0].to_lowercase(), row[1].clone()))
        .collect()
}

fn replaced_word(line: &str, replaced: &[(String, String)]) -> Option<String> {
    let lower = line.to_lowercase();
    let parts: Vec<&str> = source::words(&lower)
        .flat_map(|word| word.split('_'))
        .collect();
    let (not, say) = replaced
        .iter()
        .find(|(not, _)| parts.contains(&not.as_str()))?;
    Some(format!("the glossary says `{say}`, not `{not}`"))
}

#[cfg(test)]
mod tests {
    use super::{OPEN_QUESTION, UNFINISHED, problems};
    use crate::repository::Repository;

    #[test]
    fn unfinished_work_is_named() {
        for mark in UNFINISHED.iter().chain([&OPEN_QUESTION]) {
            let text = format!("fine\n// {mark} later)\n");
            let found = problems(&Repository::of(&[("a.rs", &text)]));
            assert_eq!(found.len(), 1, "{mark}");
            assert!(found[0].starts_with("a.rs:2: "));
        }
        let held = format!("// {OPEN_QUESTION}: see docs/decisions/reads.md\n");
        assert!(problems(&Repository::of(&[("a.rs", &held)])).is_empty());
    }

    #[test]
    fn a_word_the_glossary_replaces_is_found_inside_names() {
        let glossary = "| not | say |\n| --- | --- |\n| boss | leader |\n";
        let repository = Repository::of(&[
            ("docs/glossary.md", glossary),
            ("a.py", "next_boss = 1\n"),
            ("b.py", "embossed = 1\n"),
        ]);
        assert_eq!(
            problems(&repository),
            ["a.py:1: the glossary says `leader`, not `boss`"]
        );
    }
}
