//! The small notes of a data directory: quarantines, the pinned code, deaths of hosts, and how far the objects had executed.

use crate::NodeError;
use crate::code_file::CodeFile;
use crate::died_file::DiedFile;
use crate::membership::KnownMembers;
use crate::quarantine_file::QuarantineFile;
use quorate_replica::{EarlierDeaths, Quarantine};
use quorate_storage::{FlawKind, ScrubbedFile, StoppedDirectory};
use quorate_types::GroupId;
use std::path::Path;

/// What the notes say of the next start.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) files: Vec<ScrubbedFile>,
    /// A note with which no node starts.
    pub(super) unreadable: Option<String>,
    /// Why objects answer no calls at first.
    pub(super) quarantined: Vec<String>,
}

/// What the other files of a data directory are called.
const KNOWN: [&str; 7] = [
    "lock",
    "identity-a",
    "identity-b",
    "identity-new",
    "peers-a",
    "peers-b",
    "peers-new",
];

/// Reads every note.
pub(super) fn scrub(directory: &StoppedDirectory) -> Result<Notes, NodeError> {
    let dir = directory.path();
    let failed = |error| NodeError::System("cannot list the data directory", error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.retain(|name| !KNOWN.contains(&name.as_str()));
    names.sort_unstable();
    let mut notes = Notes::default();
    for name in names {
        let bytes = std::fs::metadata(dir.join(&name)).map_or(0, |metadata| metadata.len());
        let file = notes.scrub(dir, &name, bytes);
        notes.files.push(file);
    }
    Ok(notes)
}

impl Notes {
    fn scrub(&mut self, dir: &Path, name: &str, bytes: u64) -> ScrubbedFile {
        let Some((kind, group)) = place_of(name) else {
            let holds = match name {
                "node.toml" => "the node's configuration",
                _ => "not a file of a node",
            };
            let mut file = ScrubbedFile::new(name, bytes, holds);
            if is_unfinished(name) {
                let means = "it counts for nothing and is written over";
                file.find(FlawKind::Leftover, 0, "it was being written", means);
            }
            return file;
        };
        let mut file = ScrubbedFile::new(name, bytes, format!("group {}", group.0));
        let read = match kind {
            "quarantine" => self.quarantine(dir, group, &mut file),
            "code" => CodeFile::in_directory(dir, group).is_readable(),
            "members" => members(dir, group, &mut file),
            "died" => DiedFile::open(dir, group).map(|died| died_tells(&died, &mut file)),
            _ => {
                executed(dir, name, &mut file);
                Ok(())
            }
        };
        if let Err(error) = read {
            let what = error.to_string();
            file.find(
                FlawKind::Damaged,
                0,
                what.clone(),
                "the node does not start with this file",
            );
            self.unreadable.get_or_insert(what);
        }
        file
    }

    fn quarantine(
        &mut self,
        dir: &Path,
        group: GroupId,
        file: &mut ScrubbedFile,
    ) -> Result<(), NodeError> {
        let (slot, what, means) = match QuarantineFile::in_directory(dir, group).read()? {
            None => return Ok(()),
            Some(Quarantine::Diverged { slot, .. }) => (
                slot,
                "differs from the majority's",
                "it answers no calls until it has fetched the majority's snapshot, which it does by itself",
            ),
            Some(Quarantine::Frozen { slot }) => (
                slot,
                "is one that no majority agrees on",
                "it answers no calls until `quorate object reset --from NODE` says whose state counts",
            ),
        };
        let what = format!("the objects' state at slot {} {what}", slot.0);
        self.quarantined.push(format!("{what}: {means}"));
        file.find(FlawKind::Noted, 0, what, means);
        Ok(())
    }
}

fn died_tells(died: &DiedFile, file: &mut ScrubbedFile) {
    file.holds = match died.deaths() {
        EarlierDeaths::At(places) => format!("hosts died at {} calls", places.len()),
        EarlierDeaths::Unknown => "at which calls hosts died is unknown".to_owned(),
    };
}

fn members(dir: &Path, group: GroupId, file: &mut ScrubbedFile) -> Result<(), NodeError> {
    if let Some(known) = KnownMembers::noted(dir, group)? {
        let count = known.members.len();
        file.holds = format!("{count} members in view {}", known.view);
    }
    Ok(())
}

fn executed(dir: &Path, name: &str, file: &mut ScrubbedFile) {
    match quorate_lasting::read(&dir.join(name)) {
        Ok(Some((_, u64::MAX))) => file.holds = "how far it executed is unknown".to_owned(),
        Ok(Some((_, upto))) => file.holds = format!("executed up to slot {upto}"),
        Ok(None) | Err(_) => file.find(
            FlawKind::Damaged,
            0,
            "it holds no number",
            "how far this node had executed is unknown to it, which delays the skipping of a poison call only",
        ),
    }
}

/// Kind and group of a note by its name, such as code-1.
fn place_of(name: &str) -> Option<(&'static str, GroupId)> {
    let (kind, group) = name.split_once('-')?;
    let kind = ["quarantine", "code", "died", "executed", "members"]
        .into_iter()
        .find(|known| *known == kind)?;
    Some((kind, GroupId(group.parse().ok()?)))
}

/// Whether a note is being written under this name, such as code-1.new.
fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(".new")
        .is_some_and(|name| place_of(name).is_some())
}
