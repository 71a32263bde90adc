//! Files and modules are named after what they hold; names that fit everything are refused.

use crate::repository::Repository;
use crate::source::{code_of_rust, words};

const EMPTY_NAMES: [&str; 10] = [
    "util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared",
    "stuff",
];

/// Files, folders and inline modules with a name that says nothing.
pub fn problems(repository: &Repository) -> Vec<String> {
    let named = repository
        .paths()
        .filter(|path| is_source(path))
        .filter_map(|path| {
            let part = path
                .split('/')
                .map(stem)
                .find(|part| EMPTY_NAMES.contains(part))?;
            Some(format!(
                "{path}: `{part}` names nothing: call it after what it holds"
            ))
        });
    let inline = repository.with_extension(&["rs"]).flat_map(|(path, text)| {
        inline_modules(text)
            .into_iter()
            .filter(|name| EMPTY_NAMES.contains(&name.as_str()))
            .map(move |name| format!("{path}: module `{name}` names nothing"))
    });
    named.chain(inline).collect()
}

fn is_source(path: &str) -> bool {
    [".rs", ".py", ".pyi", ".ts", ".tsx"]
        .iter()
        .any(|end| path.ends_with(end))
}

fn stem(part: &str) -> &str {
    part.split('.')
        .next()
        .unwrap_or(part)
        .trim_start_matches('_')
}

fn inline_modules(text: &str) -> Vec<String> {
    let code = code_of_rust(text);
    let all: Vec<&str> = words(&code).collect();
    all.windows(2)
        .filter(|pair| pair[0] == "mod")
        .map(|pair| pair[1].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_file_a_folder_and_a_module_without_a_name_are_found() {
        let found = problems(&Repository::of(&[
            ("core/types/src/utils.rs", ""),
            ("python/quorate/common/frame.py", ""),
            ("python/quorate/_helpers.py", ""),
            ("core/types/src/slot.rs", "mod misc { }\n// mod manager"),
            ("docs/common.md", ""),
        ]));
        assert_eq!(found.len(), 4, "{found:#?}");
    }
}
