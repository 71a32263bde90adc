//! Who imports whom: the "may import" table of ARCHITECTURE.md, and the few rules that no table may break.
//!
//! The arrows are the normal dependencies between crates of the workspace, as cargo sees them. Crates are called by their
//! folder, `core/types`. The table is exact: an arrow it lacks and an arrow that is gone both fail.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::repository::Repository;
use crate::table;

const MAP: &str = "ARCHITECTURE.md";
/// Where each protocol has its folder, beside the one crate that names them all.
const PROTOCOLS: &str = "core/protocols/";
/// The stage of their scripts; nothing that ships depends on it.
const TESTKIT: &str = "core/testkit";
/// The only crate that names protocols: all others go through it.
const ANY: &str = "core/protocols/any";

/// Each crate, and the crates of the workspace it imports.
#[derive(Debug, Default)]
pub struct Arrows {
    /// What ships depends on.
    pub normal: BTreeMap<String, BTreeSet<String>>,
    /// What tests and build scripts add.
    pub development: BTreeMap<String, BTreeSet<String>>,
}

impl Arrows {
    /// Asks cargo.
    ///
    /// # Panics
    /// When `cargo metadata` fails, which means a manifest is broken.
    pub fn read() -> Arrows {
        let root = Repository::root();
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .expect("cargo metadata reads every manifest");
        let folder_of: BTreeMap<&str, String> = metadata
            .packages
            .iter()
            .map(|package| {
                let folder = package
                    .manifest_path
                    .parent()
                    .expect("a manifest stands in a folder");
                let folder = folder
                    .as_std_path()
                    .strip_prefix(&root)
                    .expect("members stand below the root");
                (package.name.as_str(), folder.to_string_lossy().into_owned())
            })
            .collect();
        let mut arrows = Arrows::default();
        for package in &metadata.packages {
            let from = &folder_of[package.name.as_str()];
            arrows.normal.entry(from.clone()).or_default();
            for dependency in &package.dependencies {
                let Some(to) = folder_of.get(dependency.name.as_str()) else {
                    continue;
                };
                let side = match dependency.kind {
                    DependencyKind::Normal => &mut arrows.normal,
                    _ => &mut arrows.development,
                };
                side.entry(from.clone()).or_default().insert(to.clone());
            }
        }
        arrows
    }

    /// Arrows for a test: one line each, `core/a core/b` for "a imports b", `core/a` alone for a crate that imports nothing.
    pub fn of(lines: &[&str]) -> Arrows {
        let mut arrows = Arrows::default();
        for line in lines {
            let mut words = line.split_whitespace().map(str::to_owned);
            let from = words.next().expect("a line names a crate");
            arrows.normal.entry(from).or_default().extend(words);
        }
        arrows
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        [&self.normal, &self.development]
            .into_iter()
            .flat_map(|side| side.iter())
            .flat_map(|(from, targets)| targets.iter().map(move |to| (from.as_str(), to.as_str())))
    }
}

/// Arrows that the table lacks or invents, and arrows that no table may hold.
pub fn problems(repository: &Repository, arrows: &Arrows) -> Vec<String> {
    let mut found = compare(repository, arrows);
    found.extend(arrows.all().filter_map(|(from, to)| {
        let reason = forbidden(from, to)?;
        Some(format!("{from} imports {to}: {reason}"))
    }));
    found.extend(testkit_ships(arrows));
    found.extend(client_reaches(arrows));
    found
}

fn compare(repository: &Repository, arrows: &Arrows) -> Vec<String> {
    let page = repository.text(MAP).unwrap_or("");
    let Some(rows) = table::rows(page, &["crate", "may import"]) else {
        return vec![format!("{MAP}: no table `crate | may import`")];
    };
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &rows {
        for from in table::quoted(&row[0]) {
            listed
                .entry(from)
                .or_default()
                .extend(table::quoted(&row[1]));
        }
    }
    let nothing = BTreeSet::new();
    let crates: BTreeSet<&String> = arrows.normal.keys().chain(listed.keys()).collect();
    let mut found = Vec::new();
    for from in crates {
        if !listed.contains_key(from) {
            found.push(format!("{MAP}: the table has no row for {from}"));
        }
        if !arrows.normal.contains_key(from) {
            found.push(format!(
                "{MAP}: the table has a row for {from}, which is no crate"
            ));
        }
        let (actual, allowed) = (
            arrows.normal.get(from).unwrap_or(&nothing),
            listed.get(from).unwrap_or(&nothing),
        );
        found.extend(
            actual
                .difference(allowed)
                .map(|to| format!("{from} imports {to}, which {MAP} does not allow")),
        );
        found.extend(
            allowed
                .difference(actual)
                .map(|to| format!("{MAP}: lets {from} import {to}, which it does not")),
        );
    }
    found
}

fn is_protocol(folder: &str) -> bool {
    folder.starts_with(PROTOCOLS) && folder != ANY
}

fn forbidden(from: &str, to: &str) -> Option<&'static str> {
    let layer = |folder: &str| folder.split('/').next().unwrap_or("").to_owned();
    let (above, below) = (layer(from), layer(to));
    if below == "lab" && above != "lab" {
        return Some("nothing imports the lab");
    }
    if below == "tidy" || above == "tidy" {
        return Some("tidy stands alone");
    }
    if above == "core" && below != "core" {
        return Some("core computes and imports nothing above it");
    }
    if below == "python" || (above == "shell" && below == "lab") {
        return Some("imports point down: present, perform, compute");
    }
    if is_protocol(to) && is_protocol(from) {
        return Some("protocols do not know each other");
    }
    if to == ANY && is_protocol(from) {
        return Some("protocols do not know each other");
    }
    (is_protocol(to) && from != ANY).then_some("only core/protocols/any names a protocol")
}

/// The testkit is a development dependency, of protocols and of the crate that names them all.
fn testkit_ships(arrows: &Arrows) -> Vec<String> {
    let who = |side: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> {
        side.iter()
            .filter(|(_, targets)| targets.contains(TESTKIT))
            .map(|(from, _)| from.clone())
            .collect()
    };
    let ships = who(&arrows.normal)
        .into_iter()
        .map(|from| format!("{from} ships {TESTKIT}: only tests depend on it"));
    let others = who(&arrows.development)
        .into_iter()
        .filter(|from| !is_protocol(from) && from != ANY)
        .map(|from| format!("{from} tests with {TESTKIT}, which is for protocols"));
    ships.chain(others).collect()
}

/// A client may hold frames, whose bytes name protocols; through nothing else may it reach what runs on a node.
fn client_reaches(arrows: &Arrows) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec!["shell/client"];
    while let Some(from) = next.pop() {
        if from != "core/wire" && reached.insert(from) {
            next.extend(
                arrows
                    .normal
                    .get(from)
                    .into_iter()
                    .flatten()
                    .map(String::as_str),
            );
        }
    }
    reached
        .into_iter()
        .filter(|folder| {
            is_protocol(folder) || ["shell/node", "shell/storage", "core/replica"].contains(folder)
        })
        .map(|folder| {
            format!("shell/client reaches {folder}: a client knows frames and sessions only")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Arrows, problems};
    use crate::repository::Repository;

    fn found(table: &[&str], arrows: &[&str]) -> Vec<String> {
        let page = format!(
            "| crate | may import |\n| --- | --- |\n{}\n",
            table.join("\n")
        );
        problems(
            &Repository::of(&[("ARCHITECTURE.md", &page)]),
            &Arrows::of(arrows),
        )
    }

    #[test]
    fn an_arrow_the_table_lacks_and_one_that_is_gone_both_fail() {
        let table = [
            "| `core/types` | nothing |",
            "| `core/session` | `core/types` |",
        ];
        assert!(found(&table, &["core/types", "core/session core/types"]).is_empty());
        assert_eq!(
            found(
                &table,
                &["core/types core/session", "core/session", "core/wire"]
            ),
            [
                "ARCHITECTURE.md: lets core/session import core/types, which it does not",
                "core/types imports core/session, which ARCHITECTURE.md does not allow",
                "ARCHITECTURE.md: the table has no row for core/wire",
            ]
        );
    }

    #[test]
    fn a_forbidden_arrow_fails_even_when_the_table_has_it() {
        for (from, to) in [
            ("core/types", "shell/storage"),
            ("shell/node", "lab/sim"),
            ("core/protocols/paxos", "core/protocols/ring_paxos"),
            ("core/replica", "core/protocols/paxos"),
            ("shell/cli", "core/protocols/paxos"),
            ("core/wire", "core/protocols/paxos"),
            ("lab/sim", "core/protocols/paxos"),
            ("core/protocols/paxos", "core/protocols/any"),
            ("shell/client", "shell/storage"),
            ("shell/node", "python/native"),
            ("core/replica", "core/testkit"),
        ] {
            let rows = [
                format!("| `{from}` | `{to}` |"),
                format!("| `{to}` | nothing |"),
            ];
            let arrow = format!("{from} {to}");
            let found = found(&[&rows[0], &rows[1]], &[&arrow, to]);
            assert_eq!(found.len(), 1, "{from} {to}: {found:?}");
        }
    }

    #[test]
    fn a_client_reaches_a_protocol_through_wire_only() {
        let table = [
            "| `shell/client` | `core/wire` |",
            "| `core/wire` | `core/protocols/any` |",
            "| `core/protocols/any` | `core/protocols/paxos` |",
            "| `core/protocols/paxos` | nothing |",
        ];
        assert!(
            found(
                &table,
                &[
                    "shell/client core/wire",
                    "core/wire core/protocols/any",
                    "core/protocols/any core/protocols/paxos",
                    "core/protocols/paxos"
                ]
            )
            .is_empty()
        );
    }
}
