//! A claim has three ends: a row in `docs/papers.md`, the file that keeps it, and a script or test that would fail.
//!
//! A row reads `| mp-7 | what is claimed | from | file | script or test |`; the last two cells name paths between backticks, a
//! test inside a Rust file as `path::name`. Code cites a claim by the word and its id.

use std::collections::BTreeMap;

use crate::repository::Repository;
use crate::{sources, table};

const PAGE: &str = "docs/papers.md";
const HEADER: [&str; 5] = ["id", "claim", "from", "file", "script or test"];
/// The word before an id; assembled so that this file cites nothing.
const CITE: &str = concat!("Cl", "aim ");

/// Rows with an end that does not meet, and citations without a row.
pub fn problems(repository: &Repository) -> Vec<String> {
    let page = repository.text(PAGE).unwrap_or("");
    let rows: Vec<Vec<String>> = claim_rows(page);
    let mut found = Vec::new();
    let mut seen = BTreeMap::new();
    let texts = sources::short_names(page);
    for row in &rows {
        match row.as_slice() {
            [id, claim, from, file, proof] => {
                if seen.insert(id.clone(), ()).is_some() {
                    found.push(format!("{PAGE}: {id} stands twice"));
                }
                let complaint = sources::complaint(from, &texts);
                found.extend(complaint.map(|told| format!("{PAGE}: {id} {told}")));
                check_row(repository, id, claim, file, proof, &mut found);
            }
            _ => found.push(format!(
                "{PAGE}: {} has {} cells, not {}",
                row[0],
                row.len(),
                HEADER.len()
            )),
        }
    }
    for (path, number, id) in citations(repository) {
        if !seen.contains_key(&id) {
            found.push(format!(
                "{path}:{number}: cites {id}, which is no row of {PAGE}"
            ));
        }
    }
    found
}

/// A page may hold several tables, one per paper; a row is a claim by its id.
fn claim_rows(page: &str) -> Vec<Vec<String>> {
    page.lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'))
        .map(|inner| {
            inner
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|cells| id_at_start(&cells[0]).is_some_and(|id| id == cells[0]))
        .collect()
}

fn check_row(
    repository: &Repository,
    id: &str,
    claim: &str,
    file: &str,
    proof: &str,
    found: &mut Vec<String>,
) {
    if claim.is_empty() {
        found.push(format!("{PAGE}: {id} claims nothing"));
    }
    let files = table::quoted(file);
    if files.is_empty() {
        found.push(format!("{PAGE}: {id} names no file that keeps it"));
    }
    for path in files.iter().filter(|path| !repository.has(path)) {
        found.push(format!(
            "{PAGE}: {id} is kept by {path}, which does not exist"
        ));
    }
    let proofs = table::quoted(proof);
    if proofs.is_empty() {
        found.push(format!(
            "{PAGE}: {id} has no script or test that would fail"
        ));
    }
    for proof in proofs {
        found.extend(complaint_about_proof(repository, id, &proof));
    }
}

fn complaint_about_proof(repository: &Repository, id: &str, proof: &str) -> Option<String> {
    let (path, test) = proof
        .split_once("::")
        .map_or((proof, None), |(path, test)| (path, Some(test)));
    let Some(text) = repository.text(path) else {
        return Some(format!(
            "{PAGE}: {id} is shown by {path}, which does not exist"
        ));
    };
    if let Some(test) = test
        && !text.contains(&format!("fn {test}("))
        && !text.contains(&format!("def {test}("))
    {
        return Some(format!(
            "{PAGE}: {id} is shown by {test}, which {path} does not hold"
        ));
    }
    let is_program = [".rs", ".py"].iter().any(|end| path.ends_with(end));
    let cited = if is_program {
        ids_cited(text)
    } else {
        ids_cited(&header_comment(text))
    };
    (!cited.iter().any(|(_, cited)| cited == id))
        .then(|| format!("{path}: does not cite {id}, which {PAGE} says it shows"))
}

/// The comment lines a script opens with.
fn header_comment(text: &str) -> String {
    text.lines()
        .take_while(|line| line.starts_with('#') || line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn citations(repository: &Repository) -> Vec<(String, usize, String)> {
    repository
        .texts()
        .filter(|(path, _)| !path.ends_with(".md"))
        .flat_map(|(path, text)| {
            ids_cited(text)
                .into_iter()
                .map(move |(number, id)| (path.to_owned(), number, id))
        })
        .collect()
}

fn ids_cited(text: &str) -> Vec<(usize, String)> {
    text.lines()
        .enumerate()
        .flat_map(|(index, line)| line.split(CITE).skip(1).map(move |rest| (index + 1, rest)))
        .filter_map(|(number, rest)| Some((number, id_at_start(rest)?.to_owned())))
        .collect()
}

/// An id is letters, a hyphen and a number, such as the seventh of Multi-Paxos.
fn id_at_start(text: &str) -> Option<&str> {
    let letters = text.bytes().take_while(u8::is_ascii_lowercase).count();
    let digits = text[letters..]
        .strip_prefix('-')?
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    (letters > 0 && digits > 0).then(|| &text[..letters + 1 + digits])
}

#[cfg(test)]
mod tests {
    use super::{CITE, problems};
    use crate::repository::Repository;

    fn found(row: &str, script: &str) -> Vec<String> {
        let page = format!(
            "| id | claim | from | file | script or test |\n| --- | --- | --- | --- | --- |\n{row}\n"
        );
        let script = script.replace("CITE ", CITE);
        problems(&Repository::of(&[
            ("docs/papers.md", &page),
            ("a.rs", ""),
            ("one.script", &script),
        ]))
    }

    #[test]
    fn three_ends_that_meet_are_fine() {
        assert!(
            found(
                "| zz-1 | holds | own | `a.rs` | `one.script` |",
                "# CITE zz-1: holds.\nnodes 3\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_claim_without_a_test_fails() {
        assert_eq!(
            found("| zz-1 | holds | own | `a.rs` | |", ""),
            ["docs/papers.md: zz-1 has no script or test that would fail"]
        );
        assert_eq!(
            found("| zz-1 | holds | own | `a.rs` | `gone.script` |", "").len(),
            1
        );
        assert_eq!(
            found(
                "| zz-1 | holds | own | `a.rs` | `one.script::absent` |",
                "# CITE zz-1\n"
            )
            .len(),
            1
        );
    }

    #[test]
    fn a_script_that_does_not_cite_its_claim_fails() {
        assert_eq!(
            found(
                "| zz-1 | holds | own | `a.rs` | `one.script` |",
                "nodes 3\n"
            )
            .len(),
            1
        );
        assert_eq!(
            found(
                "| zz-1 | holds | own | `a.rs` | `one.script` |",
                "nodes 3\n# CITE zz-1\n"
            )
            .len(),
            1
        );
    }

    #[test]
    fn a_claim_that_comes_from_nowhere_fails() {
        let script = "# CITE zz-1: holds.\n";
        for from in ["", "somewhere 3"] {
            let row = format!("| zz-1 | holds | {from} | `a.rs` | `one.script` |");
            assert_eq!(found(&row, script).len(), 1, "{from}");
        }
    }

    #[test]
    fn a_citation_without_a_row_fails() {
        let found = found(
            "| zz-1 | holds | own | `a.rs` | `one.script` |",
            "# CITE zz-1\n# CITE zz-12\n",
        );
        assert_eq!(
            found,
            ["one.script:2: cites zz-12, which is no row of docs/papers.md"]
        );
    }

    #[test]
    fn a_row_stands_once_and_is_whole() {
        let row = "| zz-1 | holds | own | `a.rs` | `one.script` |";
        assert_eq!(
            found(&format!("{row}\n{row}"), "# CITE zz-1\n"),
            ["docs/papers.md: zz-1 stands twice"]
        );
        assert_eq!(found("| zz-1 | holds | own | `a.rs` |", "").len(), 1);
        assert_eq!(
            found(
                "| zz-1 | | own | `gone.rs` | `one.script` |",
                "# CITE zz-1\n"
            )
            .len(),
            2
        );
    }
}
