//! The durable half of a node: its write-ahead log, its snapshots and its identity on disk.
//!
//! It knows no protocol: a record is bytes with a group and a slot. It refuses to hide damage: what was durable is given back,
//! or reported as faulty, never silently missing. Everything stands on the small trait `Disk`, so the same code runs on files
//! and in the simulator. Byte layout and reasons: docs/storage.md. Called by the node and by the simulator.
//!
//! ```
//! use quorate_storage::{StorageLimits, Log, RecoveredRecord, SimDisk, StorageError};
//! use quorate_types::{ClusterId, GroupId, NodeId, Slot};
//!
//! let (cluster, node, group) = (ClusterId(7), NodeId(1), GroupId(0));
//! let disk = SimDisk::new();
//! let (mut log, recovered) = Log::open(disk.clone(), cluster, node, StorageLimits::small())?;
//! assert!(recovered.is_empty());
//! log.append(group, Slot(5), b"a vote in slot 5")?;
//! log.commit()?;                               // durable from here on
//! log.append(group, Slot(6), b"never committed")?;
//!
//! disk.crash_seeded(42);                       // power cut: what was not synced is lost
//! let (_log, recovered) = Log::open(disk, cluster, node, StorageLimits::small())?;
//! let bytes = (&b"a vote in slot 5"[..]).into();
//! assert_eq!(recovered, [RecoveredRecord::Record { group, slot: Slot(5), bytes }]);
//! # Ok::<(), StorageError>(())
//! ```
#![forbid(unsafe_code)]

mod aligned;
mod aside;
mod backup_file;
mod copies;
mod directory;
mod directory_disk;
mod disk;
mod error;
mod group_commit;
mod identity;
mod kept_snapshot;
mod limits;
mod log;
mod opening;
mod peer_memory;
mod pledge;
mod preparer;
mod read_only;
mod record;
mod recovered;
mod recovery;
mod remover;
mod replay;
mod requests;
mod scrub;
mod scrub_log;
mod scrub_snapshot;
mod sector;
mod segment;
mod sim_disk;
mod snapshot;
mod snapshot_body;
mod snapshot_file;
mod spare;
mod writer;

pub use backup_file::{
    BackupError, BackupHead, BackupScrub, BackupWriter, WholeBackup, scrub_backup,
};
pub use directory::DataDirectory;
pub use directory_disk::{DirectoryDisk, DirectoryFile};
pub use disk::{Disk, DiskFile};
pub use error::StorageError;
pub use group_commit::{GroupCommit, Progress};
pub use identity::{Identity, IdentityFile, MemoryLoss, Persist, Rejoined};
pub use kept_snapshot::KeptSnapshot;
pub use limits::*;
pub use log::Log;
pub use peer_memory::PeerMemory;
pub use pledge::LogPledge;
pub use read_only::{ReadOnlyDirectory, ReadOnlyFile, StoppedDirectory};
pub use recovered::{Append, Lost, Position, RecoveredRecord, Room};
pub use remover::{RemovalStep, Removals};
pub use requests::{LogInbox, LogRequest};
pub use scrub::{Flaw, FlawKind, ScrubbedFile, scrub_identity, scrub_peers};
pub use scrub_log::{LogScrub, scrub_log};
pub use scrub_snapshot::{SnapshotScrub, WholeBody, scrub_snapshots};
pub use sim_disk::{DiskOperation, Fault, SimDisk, SimFile};
pub use snapshot::{Offer, PieceSink, Receiving, SnapshotStore, Verified};
pub use snapshot_body::BodySize;
pub use spare::{Prepared, SpareJob};
pub use writer::{CommitTook, LogWriter, Refused};
