//! Every module opens by saying what it is for.

use crate::repository::Repository;

/// Modules without an opening.
pub fn problems(repository: &Repository) -> Vec<String> {
    let rust = repository
        .with_extension(&["rs"])
        .filter(|(_, text)| !first_line(text, &["#!["]).starts_with("//!"))
        .map(|(path, _)| format!("{path}: opens without `//!`: say what it is for"));
    let python = repository
        .with_extension(&["py"])
        .filter(|(_, text)| !opens_with_docstring(text))
        .map(|(path, _)| format!("{path}: opens without a docstring: say what it is for"));
    rust.chain(python).collect()
}

/// The first line that is neither empty nor one that may stand before an opening.
fn first_line<'a>(text: &'a str, before: &[&str]) -> &'a str {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !before.iter().any(|start| line.starts_with(start)))
        .unwrap_or("")
}

fn opens_with_docstring(text: &str) -> bool {
    let opening = first_line(text, &["#"]);
    ["\"\"\"", "r\"\"\""]
        .iter()
        .any(|start| opening.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_module_that_starts_with_code_is_named() {
        let found = problems(&Repository::of(&[
            ("a.rs", "#![forbid(unsafe_code)]\n//! Good.\n"),
            ("b.rs", "use std::fmt;\n//! Late.\n"),
            ("c.py", "#!/usr/bin/env python3\n\"\"\"Good.\"\"\"\n"),
            ("d.py", "import sys\n"),
        ]));
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("b.rs") && found[1].starts_with("d.py"));
    }
}
