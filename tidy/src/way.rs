//! How far a reader has to go: the number of files that ARCHITECTURE.md says one call passes is the number that
//! `docs/one-call.md` lists, each of them once.

use std::collections::BTreeSet;

use crate::repository::Repository;

const MAP: &str = "ARCHITECTURE.md";
const PAGE: &str = "docs/one-call.md";

/// A number that is not the one listed, and files listed twice.
pub fn problems(repository: &Repository) -> Vec<String> {
    let (map, page) = (repository.text(MAP), repository.text(PAGE));
    let files: Vec<&str> = page.unwrap_or("").lines().filter_map(listed).collect();
    let mut seen = BTreeSet::new();
    let mut found: Vec<String> = files
        .iter()
        .filter(|file| !seen.insert(**file))
        .map(|file| format!("{PAGE}: {file} stands twice"))
        .collect();
    let bold = page.unwrap_or("").matches("| **[").count();
    let stated = format!("through {} files; {bold} of them", files.len());
    if !map.unwrap_or("").contains(&stated) {
        found.push(format!(
            "{MAP}: does not say `{stated}`, which {PAGE} lists"
        ));
    }
    found
}

/// The file that a row of the table links.
fn listed(line: &str) -> Option<&str> {
    let row = line.strip_prefix('|')?;
    let (_, link) = row.split_once("](../")?;
    link.split(')').next()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    const PAGE: &str = "| a | [x.rs](../x.rs) | does |\n| | **[y.rs](../y.rs)** | decides |\n";

    #[test]
    fn a_number_that_the_page_does_not_list_is_named() {
        let of =
            |map: &str| Repository::of(&[("ARCHITECTURE.md", map), ("docs/one-call.md", PAGE)]);
        assert!(problems(&of("through 2 files; 1 of them decide")).is_empty());
        assert_eq!(problems(&of("through 3 files; 1 of them decide")).len(), 1);
        assert_eq!(problems(&of("")).len(), 1);
    }

    #[test]
    fn a_file_listed_twice_is_named() {
        let page = format!("{PAGE}| | [x.rs](../x.rs) | again |\n");
        let map = "through 3 files; 1 of them decide";
        let found = problems(&Repository::of(&[
            ("ARCHITECTURE.md", map),
            ("docs/one-call.md", &page),
        ]));
        assert_eq!(found, ["docs/one-call.md: x.rs stands twice"]);
    }
}
