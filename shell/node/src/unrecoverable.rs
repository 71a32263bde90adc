//! Why a group is not recovered from what its stopped nodes left.

use quorate_types::Slot;
use std::path::PathBuf;

/// Why no group is made of stopped nodes' directories. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unrecoverable {
    /// What the node knew ended with its process: recover from another node, or restore a backup.
    #[error("{dir} kept votes and state in memory: nothing of them is left")]
    InMemory {
        /// The directory.
        dir: PathBuf,
    },
    /// Something is damaged that the node needs: leave it out, or restore a backup.
    #[error("{dir} is damaged: {what}")]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// What and where.
        what: String,
    },
    /// The node would not vote, or not answer: what it holds may not be what the group decided. Leave it out.
    #[error("{dir} is not to be relied on: {what}")]
    Doubtful {
        /// The directory.
        dir: PathBuf,
        /// Why.
        what: String,
    },
    /// Two survivors cannot both be right: say which by leaving the other out.
    #[error("{dir} and {other} disagree: {what}")]
    Disagree {
        /// A directory.
        dir: PathBuf,
        /// Another one.
        other: PathBuf,
        /// About what.
        what: String,
    },
    /// An operator chose whose state counts, and no survivor has a snapshot of that: restore a backup.
    #[error(
        "slot {} holds an operator's reset, and no survivor holds a snapshot after it", .slot.0
    )]
    Reset {
        /// The slot.
        slot: Slot,
    },
}
