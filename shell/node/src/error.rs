//! Why a node ends, and with which exit code.

use crate::{NotRebuilt, Unrecoverable};
use quorate_host::HostError;
use quorate_ordering::ConflictingDecisions;
use quorate_storage::{MemoryLoss, StorageError};
use quorate_transport::TransportError;
use quorate_types::{Level, Levels, NodeId, Sighting, Slot};
use std::io;
use std::path::PathBuf;

/// What an operator does about conflicting decisions.
const CONFLICT_TO_DO: &str = "stop the group, keep the data directories of all nodes and report this; \
    of the nodes that agree with each other choose whose state counts, and make the others anew with `quorate node init`";

/// Why a node could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration is wrong: correct the named key.
    #[error("{path}: {reason}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, naming the key.
        reason: String,
    },
    /// The data directory cannot be used, or the disk failed while the node ran.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The address cannot be bound.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// The multicast address cannot be joined: correct `limits.multicast`, or leave it out.
    #[error("limits.multicast: cannot join {address}: {reason}")]
    Multicast {
        /// The address.
        address: std::net::SocketAddrV4,
        /// What the system says.
        reason: String,
    },
    /// The objects cannot be made.
    #[error("{0}")]
    Host(#[from] HostError),
    /// The data directory belongs to another node than the configuration says.
    #[error("{0}")]
    Identity(String),
    /// The certificates cannot be used, or are missing where they are needed: correct the named key.
    #[error("{0}")]
    Tls(String),
    /// Something durable cannot be read: the file was damaged, or written by another version.
    #[error("{0}")]
    Unreadable(String),
    /// The directory has lost votes and no other node can make up for them: put the newest directory back.
    #[error(
        "{dir}: {loss}; no other node holds a copy, so it does not start: put the newest data directory back"
    )]
    Forgotten {
        /// The directory.
        dir: PathBuf,
        /// What was found.
        loss: MemoryLoss,
    },
    /// The data directory was removed while the node ran: what it votes from then on would be lost.
    #[error("{dir} was removed while the node ran")]
    DirectoryRemoved {
        /// The directory.
        dir: PathBuf,
    },
    /// A peer has seen newer state of this node than its directory holds. The directory notes it: start the node again.
    #[error("{peer} has seen a later state of this node, in boot {} ({:?}): this node must start again", .sighting.boot, .sighting.finding)]
    Sighted {
        /// The peer.
        peer: NodeId,
        /// What the peer has seen.
        sighting: Sighting,
    },
    /// The group has removed this node: who should take part again joins with a new directory.
    #[error(
        "{dir}: this node is no member of its group since view {view}: it was removed, and does not start again"
    )]
    Removed {
        /// The directory.
        dir: PathBuf,
        /// The view.
        view: u64,
    },
    /// The group is at a level that this program does not speak: start another version.
    #[error(
        "{dir}: view {view} of the group asks for level {level} and this program speaks {speaks}: start a version that speaks level {level}, \
        or set the group to another level first (quorate view set level=N)"
    )]
    LevelNotSpoken {
        /// The directory.
        dir: PathBuf,
        /// The view.
        view: u64,
        /// What it asks for.
        level: Level,
        /// What this program speaks, as it was started.
        speaks: Levels,
    },
    /// Most of those that vote give this node no link, because of what it speaks: start another version.
    #[error("{dir}: most of the acceptors refuse this node, which speaks {speaks}: {text}")]
    LevelRefused {
        /// The directory.
        dir: PathBuf,
        /// What this program speaks, as it was started.
        speaks: Levels,
        /// What the others say.
        text: String,
    },
    /// Agreement is broken. The directory notes it, and the node does not start again: keep all data directories.
    #[error(
        "{dir}: two values are decided for one slot: {conflict}; this node has stopped and does not start again: {CONFLICT_TO_DO}"
    )]
    Conflict {
        /// The directory.
        dir: PathBuf,
        /// The two decisions.
        conflict: Box<ConflictingDecisions>,
    },
    /// An earlier life of the node ended with `Conflict`.
    #[error(
        "{dir}: this node has stopped because it and a peer hold different decisions for {slot}, and it does not start again: {CONFLICT_TO_DO}"
    )]
    Conflicted {
        /// The directory.
        dir: PathBuf,
        /// The slot.
        slot: Slot,
    },
    /// The objects' code is not the one that the group was made with: put that back, or accept the new one.
    #[error(
        "{dir}: the objects' code is not the one that this group runs with:\n{changes}\n\
        calls that are acknowledged would be executed again with other code, so nothing was started: put the old code back, \
        or start all nodes with --accept-code"
    )]
    OtherCode {
        /// The data directory.
        dir: PathBuf,
        /// What changed, a line each.
        changes: String,
    },
    /// Other code is accepted, but the log has calls that would be executed with it.
    #[error(
        "{dir}: --accept-code: the log has calls after the snapshot at {start} from which this node starts, and they would be \
        executed again with other code: start with the old code, run `quorate snapshot`, stop, and then start with --accept-code"
    )]
    CodeNotCovered {
        /// The data directory.
        dir: PathBuf,
        /// The snapshot's slot.
        start: Slot,
    },
    /// No group is made of what stopped nodes hold.
    #[error("{0}")]
    Unrecoverable(#[from] Unrecoverable),
    /// A directory keeps its log and snapshots.
    #[error("{0}")]
    NotRebuilt(#[from] NotRebuilt),
    /// The process may open too few files: raise the limit.
    #[error(
        "this process may open {allowed} files and a node needs at least {needed}: raise the limit (ulimit -n, or LimitNOFILE= of its service)"
    )]
    Descriptors {
        /// How many it may open.
        allowed: usize,
        /// How many it needs.
        needed: usize,
    },
    /// The operating system refused something every node needs.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl NodeError {
    /// The exit code of the process: 2 for wrong usage; 7 for a directory that exists, a node that was removed, a level that is not spoken, conflicting decisions and other code; 1 for
    /// everything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            NodeError::Config { .. }
            | NodeError::Multicast { .. }
            | NodeError::Identity(_)
            | NodeError::Tls(_)
            | NodeError::Host(HostError::Object { .. } | HostError::Mixed(..))
            | NodeError::Storage(StorageError::NotInitialised(_) | StorageError::Foreign { .. }) => {
                2
            }
            NodeError::Storage(StorageError::NotEmpty(_) | StorageError::AlreadyInitialised(_))
            | NodeError::Conflict { .. }
            | NodeError::Conflicted { .. }
            | NodeError::Removed { .. }
            | NodeError::LevelNotSpoken { .. }
            | NodeError::LevelRefused { .. }
            | NodeError::OtherCode { .. }
            | NodeError::Unrecoverable(Unrecoverable::Disagree { .. })
            | NodeError::NotRebuilt(NotRebuilt::Sound { .. })
            | NodeError::CodeNotCovered { .. } => 7,
            NodeError::Host(_)
            | NodeError::Storage(_)
            | NodeError::Transport(_)
            | NodeError::Unreadable(_)
            | NodeError::Forgotten { .. }
            | NodeError::NotRebuilt(
                NotRebuilt::InMemory { .. } | NotRebuilt::Note { .. } | NotRebuilt::Unborn { .. },
            )
            | NodeError::Unrecoverable(
                Unrecoverable::InMemory { .. }
                | Unrecoverable::Damaged { .. }
                | Unrecoverable::Doubtful { .. }
                | Unrecoverable::Reset { .. },
            )
            | NodeError::DirectoryRemoved { .. }
            | NodeError::Sighted { .. }
            | NodeError::Descriptors { .. }
            | NodeError::System(..) => 1,
        }
    }
}
