//! The errors of storage; each variant says what the caller may do next.
//!
//! The enum is `Clone`, because every later call returns a fatal error again.

use std::io;

use quorate_types::{ClusterId, NodeId};
use rustix::io::Errno;

/// The one error type of this crate. Each variant says what the caller may do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// `fsync` or `fdatasync` failed, or a write failed with anything but a full disk. What is durable is no longer known:
    /// stop the process and start again, which reads the disk afresh. Every later call gives this error again.
    #[error("sync failed, the process must stop: {0}")]
    SyncFailed(String),
    /// No room. Nothing of the refused call was written; call again when space has returned.
    #[error("disk full: {place} needs {wanted} more bytes; free space on its file system")]
    Full {
        /// The file, or its directory.
        place: String,
        /// Bytes that the refused call needed.
        wanted: u64,
    },
    /// A record, base or snapshot is larger than its limit. It will never fit: refuse the request that made it.
    #[error("{bytes} bytes are more than the limit of {limit}")]
    TooLarge {
        /// Size of what was offered.
        bytes: u64,
        /// The limit it broke.
        limit: u64,
    },
    /// Listing, opening, reading, renaming or removing failed: stop, or leave the file out where a copy exists elsewhere.
    #[error("{what}: {why}")]
    Io {
        /// Which step on which file.
        what: String,
        /// What the system answered.
        why: String,
    },
    /// The files belong to another cluster or node: never touch them, point the node at its own directory.
    #[error(
        "the directory belongs to cluster {:016x} node {}: use this node's own directory", .cluster.0, .node.0
    )]
    Foreign {
        /// Cluster named in the files.
        cluster: ClusterId,
        /// Node named in the files.
        node: NodeId,
    },
    /// The files were written with another layout version or other sizes: use the program or the limits that wrote them.
    #[error("layout not supported: {0}")]
    Layout(String),
    /// The directory is absent or has no identity: run `quorate node init` first.
    #[error("{0} is not initialised: make it once with `quorate node init`")]
    NotInitialised(String),
    /// `init` found something in the directory: choose another one.
    #[error("{0} is not empty: choose another directory")]
    NotEmpty(String),
    /// `init` found an identity: this node exists, run it.
    #[error("{0} already has an identity: start it with `quorate node run`")]
    AlreadyInitialised(String),
    /// Both copies of the identity are damaged. What this node promised is unknown: it may not vote, and comes back only as a
    /// new incarnation.
    #[error("both copies of the identity are damaged: this directory must not vote any more")]
    Amnesia,
    /// Another process holds the directory: stop that one first.
    #[error("{dir} is locked by {}", .pid.map_or("another process".to_string(), |pid| format!("process {pid}")))]
    Locked {
        /// The directory.
        dir: String,
        /// The process that wrote the lock file, if it could be read.
        pid: Option<u32>,
    },
    /// A snapshot or part of one does not match its hash or its place: fetch it again, from another node.
    #[error("snapshot refused: {0}")]
    BadSnapshot(String),
    /// The thread that owns the file has ended: the node is shutting down.
    #[error("the storage thread has ended")]
    Closed,
}

impl StorageError {
    /// True if the process must stop: what is durable is no longer known.
    pub fn is_fatal(&self) -> bool {
        matches!(self, StorageError::SyncFailed(_))
    }

    /// A failure that leaves the state of the disk unknown.
    pub(crate) fn sync_failed(place: &str, error: &io::Error) -> StorageError {
        StorageError::SyncFailed(format!("{place}: {error}"))
    }

    pub(crate) fn io(what: impl Into<String>, error: &io::Error) -> StorageError {
        StorageError::Io {
            what: what.into(),
            why: error.to_string(),
        }
    }
}

/// True if `error` says that there is no room, or no descriptor for another file: that passes, unlike every other failure to write.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let is_kind = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let no_descriptor = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    is_kind
        || error
            .raw_os_error()
            .is_some_and(|error| no_descriptor.contains(&error))
}
