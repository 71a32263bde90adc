//! The code with which a group's calls are executed, pinned in the data directory at the first start.
//!
//! A start executes again what the log holds after the snapshot. With other code the same calls may have other outcomes,
//! and nobody would be told: so a start with other code is refused, and names what changed. Whoever accepts the new code
//! goes on from a snapshot that no call follows in the log. A group in memory has nothing to execute again.

use crate::NodeError;
use crate::line_diff;
use quorate_ordering::{Entry, Past};
use quorate_types::{Batch, Body, GroupId, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Lines of differences that are shown: a screen. The rest is counted.
const LINES_SHOWN_MAX: usize = 40;

/// What becomes of a start whose code is not the pinned one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherCode {
    /// It is refused.
    Refused,
    /// It goes on from a snapshot, if the log holds no call after it.
    Accepted,
}

/// What a host says its code is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Code {
    /// Of all that follows; for people, who compare nodes by it.
    #[serde(default)]
    hash: String,
    /// Interpreter and version.
    python: String,
    /// Steps that a call of each object may take.
    #[serde(default)]
    budgets: BTreeMap<String, u64>,
    /// Versions of the installed packages that the objects' modules import.
    packages: BTreeMap<String, String>,
    /// The objects' own modules.
    sources: BTreeMap<String, Source>,
}

/// The source of one module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Source {
    file: String,
    hash: String,
    /// Absent where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The file in the data directory.
#[derive(Debug)]
pub(crate) struct CodeFile {
    directory: PathBuf,
    path: PathBuf,
}

/// The code of this start, found to be the pinned one or accepted in its place.
#[derive(Debug)]
pub(crate) struct FoundCode {
    file: CodeFile,
    code: Code,
    standing: Standing,
}

/// How the code of this start stands to the pinned one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Nothing was pinned.
    First,
    Same,
    /// It is accepted in the place of other code.
    Other,
}

impl CodeFile {
    /// That of `group` in the data directory.
    pub(crate) fn in_directory(directory: &Path, group: GroupId) -> CodeFile {
        CodeFile {
            directory: directory.to_owned(),
            path: directory.join(format!("code-{}", group.0)),
        }
    }

    /// Compares what a host told with what is pinned.
    ///
    /// # Errors
    /// [`NodeError::OtherCode`] when they differ and that is not accepted.
    pub(crate) fn compare(self, told: &str, other: OtherCode) -> Result<FoundCode, NodeError> {
        let code: Code = serde_json::from_str(told).map_err(|error| {
            NodeError::Unreadable(format!("the host's word about its code: {error}"))
        })?;
        let standing = match self.read()? {
            None => Standing::First,
            Some(pinned) if pinned == code => Standing::Same,
            Some(pinned) => match differences(&pinned, &code) {
                // An earlier version of Quorate pinned less.
                changes if changes.is_empty() => Standing::First,
                changes if other == OtherCode::Refused => {
                    return Err(NodeError::OtherCode {
                        dir: self.directory,
                        changes: bounded(changes).join("\n"),
                    });
                }
                _ => Standing::Other,
            },
        };
        let file = self;
        Ok(FoundCode {
            file,
            code,
            standing,
        })
    }

    /// Whether a start could compare its code with it.
    pub(crate) fn is_readable(&self) -> Result<(), NodeError> {
        self.read().map(drop)
    }

    fn read(&self) -> Result<Option<Code>, NodeError> {
        let unreadable = |reason: String| {
            NodeError::Unreadable(format!(
                "{}: {reason}; remove it only if the objects' code is known to be the old one",
                self.path.display()
            ))
        };
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| unreadable(error.to_string()))
    }

    fn write(&self, code: &Code) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)?;
        let text = serde_json::to_vec(code).expect("every field has a form in JSON");
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }
}

impl FoundCode {
    /// Pins the code for later starts. `past` is the log, and the objects start from the snapshot at `start`.
    ///
    /// # Errors
    /// When other code would execute a call of the log, or the file cannot be written.
    pub(crate) fn pin(self, past: &Past, start: Slot) -> Result<(), NodeError> {
        match self.standing {
            Standing::Same => return Ok(()),
            Standing::First => {}
            Standing::Other if past.damage.was_found() || has_calls_after(past, start) => {
                return Err(NodeError::CodeNotCovered {
                    dir: self.file.directory,
                    start,
                });
            }
            Standing::Other => {
                tracing::warn!(%start, "other code is accepted: it goes on from the snapshot");
            }
        }
        self.file.write(&self.code).map_err(|error| {
            NodeError::System(
                "cannot write down which code the group is executed with",
                error,
            )
        })
    }
}

/// Whether the log has calls after `start`, decided or only voted for.
fn has_calls_after(past: &Past, start: Slot) -> bool {
    let is_call = |batch: &Batch| {
        let mut commands = batch.commands().iter();
        commands.any(|command| matches!(command.body, Body::Call { .. }))
    };
    past.records.iter().any(|record| match &record.entry {
        Entry::Vote { slot, batch, .. } | Entry::Chosen { slot, batch } => {
            *slot > start && is_call(batch)
        }
        Entry::Promise { .. }
        | Entry::Decided { .. }
        | Entry::Trimmed { .. }
        | Entry::Agreed { .. } => false,
    })
}

/// What is not the same, a line each; empty when all is.
fn differences(pinned: &Code, found: &Code) -> Vec<String> {
    let mut lines = Vec::new();
    if pinned.python != found.python {
        lines.push(format!("{} became {}", pinned.python, found.python));
    }
    for (name, after) in &found.budgets {
        if let Some(before) = pinned.budgets.get(name).filter(|before| *before != after) {
            lines.push(format!(
                "the budget of {name}: {before} steps became {after}"
            ));
        }
    }
    let packages = pinned.packages.keys().chain(found.packages.keys());
    for name in packages.collect::<BTreeSet<_>>() {
        let [before, after] = [pinned, found].map(|code| code.packages.get(name));
        if before != after {
            let [before, after] =
                [before, after].map(|version| version.map_or("absent", String::as_str));
            lines.push(format!("package {name}: {before} became {after}"));
        }
    }
    let modules = pinned.sources.keys().chain(found.sources.keys());
    for name in modules.collect::<BTreeSet<_>>() {
        match (pinned.sources.get(name), found.sources.get(name)) {
            (Some(before), Some(after)) if before.hash != after.hash => {
                lines.extend(changed(before, after));
            }
            (Some(before), None) => lines.push(format!("{} is gone", before.file)),
            (None, Some(after)) => lines.push(format!("{} is new", after.file)),
            (Some(_) | None, Some(_) | None) => {}
        }
    }
    lines
}

fn changed(before: &Source, after: &Source) -> Vec<String> {
    let mut lines = vec![
        format!("--- {} as pinned", before.file),
        format!("+++ {} as found", after.file),
    ];
    match (&before.text, &after.text) {
        (Some(before), Some(after)) => lines.extend(line_diff::unified(before, after)),
        (Some(_) | None, Some(_) | None) => {
            lines.push("it changed, and is too long to be shown".to_owned());
        }
    }
    lines
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let left_out = lines.len().saturating_sub(LINES_SHOWN_MAX);
    if left_out > 0 {
        lines.truncate(LINES_SHOWN_MAX);
        lines.push(format!("... and {left_out} lines more"));
    }
    lines
}

/// The first digits of the hash of what a host told, for the status.
pub(crate) fn short_hash(told: &str) -> Option<String> {
    let code: Code = serde_json::from_str(told).ok()?;
    code.hash.get(..16).map(str::to_owned)
}

/// Refuses a start of the node with this data directory when a host's code is not the pinned one. `quorate up` asks before
/// it starts a node.
///
/// # Errors
/// [`NodeError::OtherCode`], with what changed.
pub fn refuse_other_code(
    directory: &Path,
    group: GroupId,
    told: Option<&str>,
) -> Result<(), NodeError> {
    let Some(told) = told else { return Ok(()) };
    CodeFile::in_directory(directory, group)
        .compare(told, OtherCode::Refused)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_ordering::Record;
    use quorate_types::{Ballot, Command, CommandId, ObjectId, Stamp, ViewId};

    const OLD: &str = r#"{"python": "CPython 3.11.2", "packages": {"numpy": "1.26"},
        "sources": {"tally": {"file": "tally.py", "hash": "a", "text": "class Tally:\n    step = 1\n"}}}"#;

    fn file(directory: &tempfile::TempDir) -> CodeFile {
        CodeFile::in_directory(directory.path(), GroupId(1))
    }

    fn pinned() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let found = file(&directory).compare(OLD, OtherCode::Refused).unwrap();
        found.pin(&Past::default(), Slot::ZERO).unwrap();
        directory
    }

    fn refusal(told: &str) -> String {
        let directory = pinned();
        let refused = file(&directory).compare(told, OtherCode::Refused);
        refused.expect_err("it is other code").to_string()
    }

    #[test]
    fn the_same_code_starts_again_and_other_code_is_refused_with_what_changed() {
        let directory = pinned();
        assert!(file(&directory).compare(OLD, OtherCode::Refused).is_ok());
        let edited = refusal(&OLD.replace("\"a\"", "\"b\"").replace("= 1", "= 10"));
        assert!(
            edited.contains("\n-    step = 1\n+    step = 10\n"),
            "{edited}"
        );
        assert!(edited.ends_with("--accept-code"), "{edited}");
        let upgraded = refusal(&OLD.replace("3.11.2", "3.12.1"));
        assert!(upgraded.contains("CPython 3.11.2 became CPython 3.12.1"));
        let package = refusal(&OLD.replace("1.26", "2.0"));
        assert!(package.contains("package numpy: 1.26 became 2.0"));
        let without = refusal(&OLD.replace("\"numpy\": \"1.26\"", ""));
        assert!(without.contains("package numpy: 1.26 became absent"));
    }

    #[test]
    fn a_long_change_is_cut() {
        let text: String = (0..200).map(|line| format!("x{line} = 1\\n")).collect();
        let told = OLD.replace("\"a\"", "\"b\"");
        let refused = refusal(&told.replace("class Tally:", &text));
        assert!(refused.lines().count() < LINES_SHOWN_MAX + 5);
        assert!(refused.contains("lines more"));
    }

    #[test]
    fn other_code_is_accepted_only_where_the_log_has_no_call_after_the_snapshot() {
        let directory = pinned();
        let other = OLD.replace("\"a\"", "\"b\"");
        let batch = |body| {
            let command = Command {
                id: CommandId::default(),
                acknowledged: 0,
                body,
            };
            Batch::new(Stamp::default(), vec![command])
        };
        let call = batch(Body::Call {
            object: ObjectId(0),
            payload: bytes::Bytes::new(),
        });
        let vote = |slot, batch: &Batch| Record {
            view: ViewId::default(),
            entry: Entry::Vote {
                slot: Slot(slot),
                ballot: Ballot::ZERO,
                kind: quorate_types::VoteKind::Classic,
                batch: batch.clone(),
            },
        };
        let past = Past {
            records: vec![vote(7, &call), vote(8, &batch(Body::Checkpoint))],
            ..Past::default()
        };
        let accept = || {
            file(&directory)
                .compare(&other, OtherCode::Accepted)
                .unwrap()
        };
        let refused = accept().pin(&past, Slot(6)).expect_err("slot 7 has a call");
        assert!(refused.to_string().contains("quorate snapshot"));
        assert!(
            file(&directory)
                .compare(&other, OtherCode::Refused)
                .is_err()
        );
        accept().pin(&past, Slot(7)).unwrap();
        assert!(file(&directory).compare(&other, OtherCode::Refused).is_ok());
    }
}
