//! Links between pages and files lead somewhere.
//!
//! Only links inside the repository are followed; a link inside code is not one.

use crate::repository::Repository;

/// Relative links whose target does not exist.
pub fn problems(repository: &Repository) -> Vec<String> {
    repository
        .with_extension(&["md"])
        .flat_map(|(path, text)| {
            targets(text)
                .into_iter()
                .map(move |(number, target)| (path, number, target))
        })
        .filter(|(path, _, target)| !leads_somewhere(repository, path, target))
        .map(|(path, number, target)| {
            format!("{path}:{number}: the link to {target} leads nowhere")
        })
        .collect()
}

fn leads_somewhere(repository: &Repository, page: &str, target: &str) -> bool {
    let target = target.split('#').next().unwrap_or("");
    let is_elsewhere = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
    is_elsewhere
        || resolve(page, target).is_some_and(|path| path.is_empty() || repository.has(&path))
}

/// The path from the root; `None` when the link climbs out of the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Targets of `[text](target)` and `src="target"`, with their line.
fn targets(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            let links = between(&prose, "](", ')')
                .into_iter()
                .chain(between(&prose, "src=\"", '"'));
            found.extend(links.map(|target| (index + 1, target)));
        }
    }
    found
}

fn between(line: &str, open: &str, close: char) -> Vec<String> {
    line.split(open)
        .skip(1)
        .filter_map(|rest| rest.split_once(close))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or("").to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_link_to_nothing_is_named() {
        let page = "[ok](wire.md#frames) [up](../README.md) [`dir`](../core) [web](https://example.org/x)\n\
                    [dead](gone.md) <img src=\"gone.svg\"> `[code](gone.md)`\n```\n[code](gone.md)\n```\n[out](../../x)\n";
        let found = problems(&Repository::of(&[
            ("docs/a.md", page),
            ("docs/wire.md", ""),
            ("README.md", "[self](#top)"),
            ("core/types/src/lib.rs", ""),
        ]));
        assert_eq!(
            found,
            [
                "docs/a.md:2: the link to gone.md leads nowhere",
                "docs/a.md:2: the link to gone.svg leads nowhere",
                "docs/a.md:6: the link to ../../x leads nowhere",
            ]
        );
    }
}
