//! A dependency is a decision: it stands once, in the root manifest, with its reason beside it.

use crate::repository::Repository;

const ROOT: &str = "Cargo.toml";

/// External dependencies without a reason, and crates that bring their own version.
pub fn problems(repository: &Repository) -> Vec<String> {
    let root = repository.text(ROOT).unwrap_or("");
    let unexplained = entries(root)
        .into_iter()
        .filter(|entry| entry.section == "workspace.dependencies")
        .filter(|entry| !entry.line.contains("path = ") && !has_reason(entry.line))
        .map(|entry| {
            format!(
                "{ROOT}:{}: `{}` has no reason beside it",
                entry.number,
                entry.name()
            )
        });
    // A manifest with a workspace of its own (fuzz targets) is outside ours.
    let members = repository
        .texts()
        .filter(|(path, text)| path.ends_with("/Cargo.toml") && !text.contains("[workspace]"));
    let own = members.flat_map(|(path, text)| {
        entries(text)
            .into_iter()
            .filter(|entry| {
                entry.section.ends_with("dependencies") && !entry.line.contains("workspace = true")
            })
            .map(move |entry| {
                format!(
                    "{path}:{}: `{}` is not taken from the workspace",
                    entry.number,
                    entry.name()
                )
            })
    });
    let nested = repository
        .texts()
        .filter(|(path, _)| path.ends_with("Cargo.toml"))
        .flat_map(|(path, text)| {
            text.lines()
                .filter(|line| line.starts_with('[') && line.contains("dependencies."))
                .map(move |line| format!("{path}: {line} hides a dependency: one line each"))
        });
    unexplained.chain(own).chain(nested).collect()
}

struct Entry<'a> {
    section: &'a str,
    number: usize,
    line: &'a str,
}

impl Entry<'_> {
    fn name(&self) -> &str {
        self.line
            .split(['=', '.'])
            .next()
            .unwrap_or(self.line)
            .trim()
    }
}

fn entries(manifest: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.split(']').next().unwrap_or("");
        } else if line.contains('=') && !line.trim_start().starts_with('#') {
            found.push(Entry {
                section,
                number: index + 1,
                line,
            });
        }
    }
    found
}

/// A reason is a few words after `#`.
fn has_reason(line: &str) -> bool {
    line.rsplit_once(" # ")
        .is_some_and(|(_, reason)| reason.split_whitespace().count() >= 2)
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_dependency_without_a_reason_or_with_its_own_version_is_named() {
        let root = "[workspace.dependencies]\n\
                    ours = { path = \"core/ours\" }\n\
                    good = \"1\" # shared immutable bytes\n\
                    bare = \"1\"\n";
        let member = "[package]\nname = \"m\"\n[dependencies]\ngood.workspace = true\n\
                      odd = \"2\"\n[dev-dependencies]\nold = { version = \"1\" }\n[dependencies.far]\n";
        let found = problems(&Repository::of(&[
            ("Cargo.toml", root),
            ("core/m/Cargo.toml", member),
        ]));
        assert_eq!(
            found,
            [
                "Cargo.toml:4: `bare` has no reason beside it",
                "core/m/Cargo.toml:5: `odd` is not taken from the workspace",
                "core/m/Cargo.toml:7: `old` is not taken from the workspace",
                "core/m/Cargo.toml: [dependencies.far] hides a dependency: one line each",
            ]
        );
    }
}
