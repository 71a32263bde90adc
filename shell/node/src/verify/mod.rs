//! Scrubs the data directory of a node that does not run, and says as what the node would start from it.
//!
//! The storage scrubs the bytes; this reads what they say, as a start reads it, and changes nothing. Called by `quorate verify`.

mod group;
mod notes;
mod records;
mod snapshots;

use crate::NodeError;
use crate::membership::KnownMembers;
pub use group::{nodes_of, verify_group};
use quorate_storage::{
    FlawKind, Identity, MemoryLoss, Persist, ScrubbedFile, StoppedDirectory, StorageError,
    scrub_identity, scrub_log, scrub_peers, scrub_snapshots,
};
use quorate_types::{Digest, GroupId, Slot};
use records::GroupLog;
pub use snapshots::{BodyContent, content_of};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A data directory, file by file.
#[derive(Debug)]
pub struct VerifiedNode {
    /// The directory.
    pub dir: PathBuf,
    /// Whose it is, if that can be read.
    pub identity: Option<Identity>,
    /// What is in it and what is missing.
    pub files: Vec<ScrubbedFile>,
    /// What the node would be.
    pub start: StartsAs,
    /// Its sound snapshots, for whoever compares them with those of other nodes.
    pub snapshots: Vec<VerifiedSnapshot>,
}

/// A snapshot that is whole and can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSnapshot {
    /// The file.
    pub name: String,
    /// Its group.
    pub group: GroupId,
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// What it holds.
    pub digest: Digest,
}

/// What a node would be that starts from a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartsAs {
    /// It votes, leads and answers calls.
    Voter {
        /// What it does first, if anything is to be done.
        first: Vec<String>,
    },
    /// It serves calls and does not vote.
    Observer {
        /// Why.
        why: String,
        /// What an operator can do.
        to_do: String,
    },
    /// It does not start, and need not: the group goes on without it.
    Removed {
        /// Since this view.
        view: u64,
    },
    /// It does not start.
    Refused {
        /// Why.
        why: String,
        /// What an operator can do.
        to_do: String,
    },
}

/// What to do with a directory from which no node may vote.
const REBUILT: &str = "put the newest copy of this node's own directory back; without one, this node's votes are lost: move what is there away, and \
    `quorate up`, or `quorate node run --remake`, makes it anew, as long as a majority of the others is up";

/// What to do with a note that no start reads: the votes are elsewhere.
const NOTE_REMOVED: &str = "put that file of the newest copy of this node's own directory back, or move it away where what is said of it allows \
    that; the node keeps its votes";

/// What to do with a log that no start reads, in a directory that knows whose it is.
const LOG_REBUILT: &str = "put the newest copy of this node's own directory back; without one, `quorate node rebuild` has the node take the state \
    from the others, and its votes are lost";

impl StartsAs {
    fn refused(why: impl Into<String>, to_do: impl Into<String>) -> StartsAs {
        StartsAs::Refused {
            why: why.into(),
            to_do: to_do.into(),
        }
    }
}

impl VerifiedNode {
    /// Whether everything is sound, but for what a crash leaves.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_as_meant = match self.start {
            StartsAs::Voter { .. } | StartsAs::Removed { .. } => true,
            StartsAs::Observer { .. } => self.kept_votes_in_memory(),
            StartsAs::Refused { .. } => false,
        };
        is_as_meant && self.files.iter().all(ScrubbedFile::is_sound)
    }

    /// Then it observes after its first start whatever its files hold.
    fn kept_votes_in_memory(&self) -> bool {
        self.identity
            .is_some_and(|identity| identity.persist == Persist::Memory && identity.loss.is_none())
    }
}

/// Whether `dir` looks like the data directory of a node.
#[must_use]
pub fn is_node_directory(dir: &Path) -> bool {
    ["identity-a", "identity-b", "log", "snapshots"]
        .iter()
        .any(|name| dir.join(name).exists())
}

/// Scrubs the data directory `dir`. `read` is told how many bytes were read.
///
/// # Errors
/// When a node runs there, or the directory cannot be read.
pub fn verify_node(dir: &Path, read: &mut dyn FnMut(u64)) -> Result<VerifiedNode, NodeError> {
    let directory = StoppedDirectory::open(dir)?;
    let home = directory.home();
    let (mut files, loaded) = scrub_identity(&home);
    files.extend(scrub_peers(&home));
    let mut found = Found {
        notes: notes::scrub(&directory)?,
        ..Found::default()
    };
    files.append(&mut found.notes.files);
    let identity = loaded.as_ref().ok();
    if let Some(disk) = directory.log() {
        let mut log = scrub_log(&disk, identity, read)?;
        found.is_log_refused = log.is_refused;
        found.loss = log.loss;
        found.groups = records::by_group(&mut log);
        files.append(&mut log.files);
    } else if identity.is_some_and(|identity| identity.log.segment > 0) {
        found.loss = Some(MemoryLoss::LogShort);
    }
    let mut snapshots = Vec::new();
    if let Some(disk) = directory.snapshots() {
        let cluster = identity.map(|identity| identity.cluster);
        for scrubbed in scrub_snapshots(&disk, cluster, read)? {
            let (file, snapshot) = snapshots::verified(scrubbed);
            files.push(file);
            snapshots.extend(snapshot);
        }
    }
    let start = match &loaded {
        Ok(identity) => match found.start(identity, &snapshots, &mut files) {
            refused @ StartsAs::Refused { .. } => refused,
            starts => removed(dir, identity).unwrap_or(starts),
        },
        Err(error) => without_identity(dir, error),
    };
    Ok(VerifiedNode {
        dir: dir.to_owned(),
        identity: loaded.ok(),
        files,
        start,
        snapshots,
    })
}

/// That the directory names members without its node. One whose members cannot be read says nothing of it.
fn removed(dir: &Path, identity: &Identity) -> Option<StartsAs> {
    let noted = KnownMembers::noted(dir, GroupId::FIRST).ok().flatten()?;
    let is_member = noted.names((identity.node, identity.incarnation));
    (!is_member).then_some(StartsAs::Removed { view: noted.view })
}

fn without_identity(dir: &Path, error: &StorageError) -> StartsAs {
    match error {
        StorageError::NotInitialised(_) | StorageError::Amnesia => StartsAs::refused(
            format!("{} has no identity that can be read", dir.display()),
            REBUILT,
        ),
        other => StartsAs::refused(other.to_string(), "start with the program that wrote it"),
    }
}

/// What decides about the start, beside the identity.
#[derive(Default)]
struct Found {
    is_log_refused: bool,
    loss: Option<MemoryLoss>,
    groups: BTreeMap<GroupId, GroupLog>,
    notes: notes::Notes,
}

impl Found {
    /// In the order in which a start finds it.
    fn start(
        &self,
        identity: &Identity,
        snapshots: &[VerifiedSnapshot],
        files: &mut Vec<ScrubbedFile>,
    ) -> StartsAs {
        if let Some(slot) = identity.conflict {
            let why = format!("it and a peer hold different decisions for slot {}", slot.0);
            let to_do = "keep the data directories of all nodes and report this";
            return StartsAs::refused(why, to_do);
        }
        if identity.persist == Persist::Memory {
            return self.start_in_memory(identity);
        }
        if self.is_log_refused {
            let why = "its log has files that do not belong there, or cannot be read";
            return StartsAs::refused(why, LOG_REBUILT);
        }
        if let Some(why) = self.groups.values().find_map(|log| log.unreadable.as_ref()) {
            return StartsAs::refused(why, LOG_REBUILT);
        }
        if let Some(why) = &self.notes.unreadable {
            return StartsAs::refused(why, NOTE_REMOVED);
        }
        let is_newer = |log: &GroupLog| log.newest_boot(identity.node) > Some(identity.boot);
        let is_old = self.groups.values().any(is_newer);
        let loss = identity.loss.or(self.loss);
        if let Some(loss) = loss.or(is_old.then_some(MemoryLoss::IdentityOld)) {
            return StartsAs::Observer {
                why: loss.to_string(),
                to_do: "put this node's own newest directory back, if that exists".to_owned(),
            };
        }
        let mut first = Vec::new();
        for (group, log) in &self.groups {
            first.extend(log.repairs(*group));
            first.extend(missing_snapshot(*group, log, snapshots, files));
        }
        first.extend(self.notes.quarantined.iter().cloned());
        StartsAs::Voter { first }
    }

    fn start_in_memory(&self, identity: &Identity) -> StartsAs {
        match identity.lived {
            false => StartsAs::Voter { first: Vec::new() },
            true => StartsAs::Observer {
                why: "it kept its votes in memory, and they ended with its process".to_owned(),
                to_do: "keep the other nodes running; this one fetches the state from them"
                    .to_owned(),
            },
        }
    }
}

/// What becomes of a group whose log begins after a snapshot that is not here.
fn missing_snapshot(
    group: GroupId,
    log: &GroupLog,
    snapshots: &[VerifiedSnapshot],
    files: &mut Vec<ScrubbedFile>,
) -> Option<String> {
    let begins = log.begins_after();
    let is_held = |held: &VerifiedSnapshot| held.group == group && held.slot >= begins;
    if begins == Slot::ZERO || snapshots.iter().any(is_held) {
        return None;
    }
    let means = "the node fetches it from the others before it answers; where no other node has it, restore a backup";
    let name = format!("snapshots/snap-{:08x}-{:016x}", group.0, begins.0);
    let what = format!(
        "the log of group {} begins after slot {}, and no whole snapshot of it is here",
        group.0, begins.0
    );
    match files.iter_mut().find(|file| file.name == name) {
        // What is wrong with it is told already.
        Some(file) => file.find(FlawKind::Damaged, 0, what, means),
        None => {
            let mut file = ScrubbedFile::new(name, 0, "");
            file.find(FlawKind::Missing, 0, what, means);
            files.push(file);
        }
    }
    Some(format!(
        "it fetches the snapshot at slot {} or a later one from the others",
        begins.0
    ))
}
