//! Each known trap names the scripts and tests that would fall into it, and these exist.

use crate::repository::Repository;
use crate::table;

const PAGE: &str = "docs/traps.md";
const HEADER: [&str; 3] = [
    "trap",
    "what it leads to",
    "what shows that it is none here",
];

/// Rows that name nothing, or what does not exist.
pub fn problems(repository: &Repository) -> Vec<String> {
    let page = repository.text(PAGE).unwrap_or("");
    let Some(rows) = table::rows(page, &HEADER) else {
        return vec![format!("{PAGE}: has no table of traps")];
    };
    rows.iter()
        .flat_map(|row| complaints(repository, row))
        .collect()
}

fn complaints(repository: &Repository, row: &[String]) -> Vec<String> {
    let [trap, _, proofs] = row else {
        return vec![format!("{PAGE}: a row has {} cells", row.len())];
    };
    let proofs = table::quoted(proofs);
    if proofs.is_empty() {
        return vec![format!("{PAGE}: nothing shows {trap:?}")];
    }
    let missing = proofs.into_iter().filter(|proof| {
        let (path, test) = proof.split_once("::").unwrap_or((proof, ""));
        let holds = |text: &str| test.is_empty() || text.contains(&format!("fn {test}("));
        !repository.text(path).is_some_and(holds)
    });
    missing
        .map(|proof| format!("{PAGE}: {proof} does not exist"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HEADER, PAGE, problems};
    use crate::repository::Repository;

    fn found(proofs: &str) -> Vec<String> {
        let page = format!(
            "| {} |\n| --- | --- | --- |\n| a trap | a project | {proofs} |\n",
            HEADER.join(" | ")
        );
        let files = [(PAGE, page.as_str()), ("a.rs", "fn it_is_none() {}")];
        problems(&Repository::of(&files))
    }

    #[test]
    fn a_trap_is_shown_by_what_exists() {
        assert_eq!(found("`a.rs::it_is_none`"), [""; 0]);
        assert_eq!(found("`a.rs`"), [""; 0]);
        assert_eq!(found("").len(), 1);
        assert_eq!(found("`b.rs`").len(), 1);
        assert_eq!(found("`a.rs::it_is_one`").len(), 1);
    }
}
