//! `unsafe` stands only in the crates that ARCHITECTURE.md names, and `core/` forbids it to itself.

use std::collections::BTreeSet;

use crate::repository::Repository;
use crate::{source, table};

const MAP: &str = "ARCHITECTURE.md";
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Core crates that do not forbid unsafe code, and unsafe code where the map does not expect it.
pub fn problems(repository: &Repository) -> Vec<String> {
    let allowed = allowed_folders(repository);
    let lax = repository
        .with_extension(&["rs"])
        .filter(|(path, _)| path.starts_with("core/") && path.ends_with("/src/lib.rs"))
        .filter(|(_, text)| !text.lines().any(|line| line == FORBID))
        .map(|(path, _)| format!("{path}: lacks {FORBID}"));
    let strayed = repository
        .with_extension(&["rs"])
        .filter(|(path, _)| {
            !allowed
                .iter()
                .any(|folder| path.starts_with(&format!("{folder}/")))
        })
        .flat_map(|(path, text)| {
            lines_with_unsafe(text).into_iter().map(move |number| {
                format!("{path}:{number}: unsafe outside the crates that {MAP} names")
            })
        });
    let absent = allowed
        .iter()
        .filter(|folder| {
            !repository.has(&format!("{folder}/Cargo.toml")) || folder.starts_with("core/")
        })
        .map(|folder| {
            format!("{MAP}: allows unsafe in {folder}, which is no crate that may have it")
        });
    lax.chain(strayed).chain(absent).collect()
}

fn allowed_folders(repository: &Repository) -> BTreeSet<String> {
    let page = repository.text(MAP).unwrap_or("");
    let rows = table::rows(page, &["crate", "why it needs unsafe"]).unwrap_or_default();
    rows.iter().flat_map(|row| table::quoted(&row[0])).collect()
}

fn lines_with_unsafe(text: &str) -> Vec<usize> {
    let code = source::code_of_rust(text);
    code.lines()
        .enumerate()
        .filter(|(_, line)| source::words(line).any(|word| word == "unsafe"))
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn unsafe_outside_the_named_crates_is_found() {
        let map = "| crate | why it needs unsafe |\n| --- | --- |\n| `shell/host` | fork |\n| `shell/gone` | none |\n";
        let found = problems(&Repository::of(&[
            ("ARCHITECTURE.md", map),
            (
                "core/types/src/lib.rs",
                "#![forbid(unsafe_code)]\n// unsafe in a comment\n",
            ),
            ("core/wire/src/lib.rs", "//! No line that forbids.\n"),
            ("shell/host/Cargo.toml", ""),
            ("shell/host/src/lib.rs", "unsafe { fork() }\n"),
            ("shell/node/src/lib.rs", "fn f() {\n    unsafe { g() }\n}\n"),
        ]));
        assert_eq!(
            found,
            [
                "core/wire/src/lib.rs: lacks #![forbid(unsafe_code)]",
                "shell/node/src/lib.rs:2: unsafe outside the crates that ARCHITECTURE.md names",
                "ARCHITECTURE.md: allows unsafe in shell/gone, which is no crate that may have it",
            ]
        );
    }
}
