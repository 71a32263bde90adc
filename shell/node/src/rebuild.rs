//! A stopped node's log and snapshots are put aside, so that its next start takes everything from the others.
//!
//! The node keeps its identity, which knows that votes are lost: from then on it is what a node is whose log was lost, and votes no
//! more by itself. Nothing is removed. Called by `quorate node rebuild`.

use crate::NodeError;
use crate::verify::{StartsAs, VerifiedNode, verify_node};
use quorate_storage::{Identity, MemoryLoss, Persist};
use quorate_types::NodeId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What is put aside. Which calls its hosts died at and how far it had executed stay: the group counts on this node for these.
const ASIDE: [&str; 2] = ["log", "snapshots"];

/// The notes among what stays without which, or with which damaged, no node starts.
const KEPT: [&str; 3] = ["members-", "code-", "died-"];

/// Whether a directory is rebuilt in which nothing is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoundDirectory {
    /// It is refused: its node has lost nothing.
    Refused,
    /// It is rebuilt all the same.
    Rebuilt,
}

/// Why a directory is not rebuilt. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRebuilt {
    /// Start the node.
    #[error("{dir} is sound: its node has lost nothing, and would lose its votes")]
    Sound {
        /// The directory.
        dir: PathBuf,
    },
    /// Start the node: it begins anew by itself.
    #[error("{dir} keeps votes in memory: its node begins anew at each start")]
    InMemory {
        /// The directory.
        dir: PathBuf,
    },
    /// Put the file right: it stays where it is, and the node would lose its votes for nothing.
    #[error(
        "{file} keeps the node from starting, and that it gives its votes up would not help: {what}"
    )]
    Note {
        /// The note.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Start the node, or make it again.
    #[error("{dir} is of a node that has never started: there is nothing to rebuild")]
    Unborn {
        /// The directory.
        dir: PathBuf,
    },
}

/// What was done.
#[derive(Debug)]
pub struct RebuiltNode {
    /// The node.
    pub node: NodeId,
    /// Where the log and the snapshots are now; `None` where there were none.
    pub aside: Option<PathBuf>,
    /// What was put there, by its name in the directory.
    pub moved: Vec<String>,
    /// As what it would start.
    pub start: StartsAs,
}

/// Puts the log, the snapshots and the quarantine of the stopped node in `dir` aside. `read` is told how many bytes were read.
///
/// # Errors
/// When a node runs there, nothing is wrong with it, or it is no node that the others can rebuild.
pub fn rebuild(
    dir: &Path,
    sound: SoundDirectory,
    read: &mut dyn FnMut(u64),
) -> Result<RebuiltNode, NodeError> {
    let found = verify_node(dir, read)?;
    let mut directory = Identity::open_stopped(dir)?;
    let identity = directory.identity();
    judge(dir, &identity, &found, sound)?;
    // First: whatever ends this, the node does not vote as if its log were the one that it had.
    directory.note_loss(MemoryLoss::LogShort)?;
    let failed = |error| NodeError::System("cannot put the log and the snapshots aside", error);
    let (aside, moved) = put_aside(dir).map_err(failed)?;
    drop(directory);
    Ok(RebuiltNode {
        node: identity.node,
        aside,
        moved,
        start: verify_node(dir, &mut |_| ())?.start,
    })
}

fn judge(
    dir: &Path,
    identity: &Identity,
    found: &VerifiedNode,
    sound: SoundDirectory,
) -> Result<(), NodeError> {
    let dir = dir.to_owned();
    if let Some(slot) = identity.conflict {
        return Err(NodeError::Conflicted { dir, slot });
    }
    if let Some(note) = unread_note(&dir, found) {
        return Err(note.into());
    }
    let refused = match identity.persist {
        Persist::Memory => NotRebuilt::InMemory { dir },
        Persist::Disk if identity.boot == 0 => NotRebuilt::Unborn { dir },
        Persist::Disk if found.is_sound() && sound == SoundDirectory::Refused => {
            NotRebuilt::Sound { dir }
        }
        Persist::Disk => return Ok(()),
    };
    Err(refused.into())
}

/// A note that keeps the node from starting and is not put aside.
fn unread_note(dir: &Path, found: &VerifiedNode) -> Option<NotRebuilt> {
    let stays = |name: &str| KEPT.iter().any(|kept| name.starts_with(kept));
    let file = found
        .files
        .iter()
        .find(|file| stays(&file.name) && !file.is_sound())?;
    let what = file.findings.first()?.what.clone();
    Some(NotRebuilt::Note {
        file: dir.join(&file.name),
        what,
    })
}

/// Moves what is there into a directory of its own, and makes that durable.
fn put_aside(dir: &Path) -> io::Result<(Option<PathBuf>, Vec<String>)> {
    let mut names: Vec<String> = ASIDE.map(str::to_owned).into();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().into_string();
        names.extend(
            name.into_iter()
                .filter(|name| name.starts_with("quarantine-")),
        );
    }
    names.retain(|name| dir.join(name).exists());
    if names.is_empty() {
        return Ok((None, names));
    }
    let mut numbers = (1..).map(|number: u32| dir.join(format!("aside-{number}")));
    let aside = numbers.find(|path| path.symlink_metadata().is_err());
    let aside = aside.expect("a directory has fewer entries than there are numbers");
    std::fs::create_dir(&aside)?;
    for name in &names {
        std::fs::rename(dir.join(name), aside.join(name))?;
    }
    File::open(&aside)?.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok((Some(aside), names))
}
