//! One type name means one thing: no two files define a type of the same name that others can see.
//!
//! Structs, enums, traits and aliases with any `pub` count, over all crates; types of one file alone, tests and their
//! stages do not. The lab is a world of its own, in which a node or a disk is called like what it stands for: its names
//! are compared with each other only. Protocols never meet: each has its messages and its leader, so their names are
//! compared with all others and not with each other. A name that rightly stands twice is in the list below, with its reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::Repository;
use crate::source::code_of_rust;

/// Names with several definitions, and why each is one thing all the same.
const SHARED: [(&str, &str); 1] = [(
    "Value",
    "what a ballot is about, and what a user's method takes and gives: both are the word of their field",
)];

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Names that mean two things, and entries of the list that nobody needs any more.
pub fn problems(repository: &Repository) -> Vec<String> {
    let twice = names_of_several(repository, &SHARED.map(|(name, _)| name));
    let shared = names_of_several(repository, &[]);
    let unneeded = SHARED
        .iter()
        .filter(|(name, _)| {
            !shared
                .iter()
                .any(|told| told.starts_with(&format!("{name} ")))
        })
        .map(|(name, _)| format!("tidy/src/types.rs: {name} names one type and needs no reason"));
    twice.into_iter().chain(unneeded).collect()
}

/// One line for each name of several types, without those that may be.
fn names_of_several(repository: &Repository, allowed: &[&str]) -> Vec<String> {
    let mut files: BTreeMap<(bool, String), BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in repository.with_extension(&["rs"]) {
        if is_test(path) {
            continue;
        }
        for name in visible_types(text) {
            let place = (path.starts_with("lab/"), name);
            files.entry(place).or_default().insert(path);
        }
    }
    files
        .into_iter()
        .filter(|((_, name), paths)| meet(paths) && !allowed.contains(&name.as_str()))
        .map(|((_, name), paths)| {
            let paths: Vec<&str> = paths.into_iter().collect();
            let paths = paths.join(", ");
            format!("{name} names several types: rename all but one of {paths}")
        })
        .collect()
}

/// Whether some reader can meet two of these files' types: not those of one protocol each.
fn meet(paths: &BTreeSet<&str>) -> bool {
    let protocols: BTreeSet<Option<&str>> = paths.iter().map(|path| protocol_of(path)).collect();
    let is_one_each = protocols.len() == paths.len() && !protocols.contains(&None);
    paths.len() > 1 && !is_one_each
}

fn protocol_of(path: &str) -> Option<&str> {
    path.strip_prefix("core/protocols/")?
        .split('/')
        .next()
        .filter(|folder| *folder != "any")
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("_tests.rs") || path.starts_with("fuzz/")
}

/// The types with a `pub` before them, above the file's tests.
fn visible_types(text: &str) -> BTreeSet<String> {
    let above = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    code_of_rust(above)
        .lines()
        .filter_map(|line| {
            let line = line.trim_start().strip_prefix("pub")?;
            let rest = match line.strip_prefix('(') {
                Some(scoped) => scoped.split_once(')')?.1,
                None => line,
            };
            let mut words = rest.split_whitespace();
            let keyword = words.next()?;
            let is_type = rest.starts_with(' ') && KEYWORDS.contains(&keyword);
            let name = words.next().filter(|_| is_type)?;
            let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            Some(name[..end.unwrap_or(name.len())].to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{names_of_several, problems};
    use crate::repository::Repository;

    #[test]
    fn a_name_of_two_visible_types_is_found() {
        let repository = Repository::of(&[
            (
                "core/a/src/lib.rs",
                "pub struct Mark<'a>(&'a str);\npub enum Once {}\n",
            ),
            ("shell/b/src/lib.rs", "    pub(crate) type Mark = u8;\n"),
            ("lab/c/src/lib.rs", "pub trait Mark {}\n"),
        ]);
        let found = names_of_several(&repository, &[]);
        assert!(names_of_several(&repository, &["Mark"]).is_empty());
        assert_eq!(
            found,
            [
                "Mark names several types: rename all but one of core/a/src/lib.rs, shell/b/src/lib.rs"
            ]
        );
    }

    #[test]
    fn private_types_tests_and_words_in_text_are_no_second_meaning() {
        let repository = Repository::of(&[
            ("core/a/src/lib.rs", "pub struct Mark;\n"),
            ("core/a/tests/one.rs", "pub struct Mark;\n"),
            (
                "core/b/src/lib.rs",
                "struct Mark;\n// pub struct Mark;\nconst A: &str = \"pub struct Mark\";\n",
            ),
            (
                "core/c/src/lib.rs",
                "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    pub struct Mark;\n}\n",
            ),
        ]);
        let found = names_of_several(&repository, &[]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn protocols_may_name_their_types_alike_and_like_nothing_else() {
        let message = "pub enum Message {}\n";
        let siblings = [
            ("core/protocols/a/src/message.rs", message),
            ("core/protocols/b/src/message.rs", message),
        ];
        assert!(names_of_several(&Repository::of(&siblings), &[]).is_empty());
        for other in [
            "core/protocols/a/src/other.rs",
            "core/protocols/any/src/lib.rs",
            "core/types/src/lib.rs",
        ] {
            let files = [siblings[0], siblings[1], (other, message)];
            let found = names_of_several(&Repository::of(&files), &[]);
            assert_eq!(found.len(), 1, "{other}: {found:?}");
        }
    }

    #[test]
    fn a_reason_that_nobody_needs_is_found() {
        let once = Repository::of(&[("core/a/src/lib.rs", "pub struct Value;\n")]);
        assert_eq!(problems(&once).len(), 1);
        let twice = Repository::of(&[
            ("core/a/src/lib.rs", "pub struct Value;\n"),
            ("core/b/src/lib.rs", "pub enum Value {}\n"),
        ]);
        assert!(problems(&twice).is_empty());
    }
}
