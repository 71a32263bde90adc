//! The data directory of a node: made once, locked while a process runs, with the log and the snapshots below it.
//!
//! `init` refuses a directory that is not empty. `open` refuses a directory that `init` did not make, and a second process.
//! Called by the command line (`node init`) and the node.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use quorate_types::{ClusterId, Incarnation, NodeId, Slot, Starts};
use rustix::fs::{FlockOperation, flock};

use crate::directory_disk::{DirectoryDisk, OWNER_ONLY};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::identity::{Identity, IdentityFile, MemoryLoss, Persist};

pub(crate) const LOCK: &str = "lock";

impl Identity {
    /// Makes the directory of a new node. `cluster` and `incarnation` are random numbers of the caller's.
    pub fn init(
        dir: &Path,
        cluster: ClusterId,
        node: NodeId,
        incarnation: Incarnation,
        persist: Persist,
    ) -> Result<Identity, StorageError> {
        Identity::new(cluster, node, incarnation, persist).init_in(dir, &[])
    }

    /// Makes this the identity of a new node, in a directory that may hold files with the names `beside` already.
    pub fn init_beside(self, dir: &Path, beside: &[&str]) -> Result<Identity, StorageError> {
        self.init_in(dir, beside)
    }

    /// Makes the directory of a node anew whose own is gone: it knows from the first moment that it has lost what it voted.
    pub fn remake(
        dir: &Path,
        cluster: ClusterId,
        node: NodeId,
        incarnation: Incarnation,
        persist: Persist,
    ) -> Result<Identity, StorageError> {
        let identity = Identity {
            lived: true,
            loss: Some(MemoryLoss::DirectoryGone),
            ..Identity::new(cluster, node, incarnation, persist)
        };
        identity.init_in(dir, &[])
    }

    /// Refuses a directory that no new node can have, because it holds more than files with the names `beside`.
    pub fn check_unused(dir: &Path, beside: &[&str]) -> Result<(), StorageError> {
        let shown = dir.display().to_string();
        let entries = std::fs::read_dir(dir)
            .map_err(|error| StorageError::io(format!("list {shown}"), &error))?;
        for entry in entries {
            let name = entry
                .map_err(|error| StorageError::io(format!("list {shown}"), &error))?
                .file_name();
            match name.to_str() {
                Some("identity-a" | "identity-b") => {
                    return Err(StorageError::AlreadyInitialised(shown));
                }
                // What an interrupted `init` leaves.
                Some(LOCK | "identity-new") => {}
                Some(name) if beside.contains(&name) => {}
                Some(_) | None => return Err(StorageError::NotEmpty(shown)),
            }
        }
        Ok(())
    }

    fn init_in(self, dir: &Path, beside: &[&str]) -> Result<Identity, StorageError> {
        let shown = dir.display().to_string();
        let disk = DirectoryDisk::open(dir)
            .and_then(|disk| keep_others_out(dir).map(|()| disk))
            .map_err(|error| StorageError::io(format!("make {shown}"), &error))?;
        Identity::check_unused(dir, beside)?;
        let _lock = lock(dir)?;
        match self.create_on(&disk) {
            Err(StorageError::AlreadyInitialised(_)) => {
                Err(StorageError::AlreadyInitialised(shown))
            }
            other => other.map(|()| self),
        }
    }

    /// Opens the directory of a node, locks it, and counts its boots up durably.
    pub fn open(dir: &Path) -> Result<DataDirectory, StorageError> {
        open_as(dir, IdentityFile::boot)
    }

    /// Opens and locks the directory of a node that does not run, to mend it. That counts as no boot.
    pub fn open_stopped(dir: &Path) -> Result<DataDirectory, StorageError> {
        open_as(dir, IdentityFile::stopped)
    }

    /// Opens and locks the directory of a node that has never started, to give it what it will start from. That counts as no boot.
    pub fn open_unborn(dir: &Path) -> Result<DataDirectory, StorageError> {
        open_as(dir, IdentityFile::unborn)
    }
}

fn open_as(
    dir: &Path,
    identify: impl FnOnce(DirectoryDisk) -> Result<IdentityFile<DirectoryDisk>, StorageError>,
) -> Result<DataDirectory, StorageError> {
    let shown = dir.display().to_string();
    let has = |name: &str| dir.join(name).exists();
    if !has("identity-a") && !has("identity-b") {
        // A log without an identity is a node that has forgotten who it is, not a new one.
        return Err(if has("log") {
            StorageError::Amnesia
        } else {
            StorageError::NotInitialised(shown)
        });
    }
    let disk = DirectoryDisk::open(dir)
        .and_then(|disk| keep_others_out(dir).map(|()| disk))
        .map_err(|error| StorageError::io(format!("open {shown}"), &error))?;
    let lock = lock(dir)?;
    let identity = identify(disk.clone())?;
    Ok(DataDirectory {
        identity,
        disk,
        _lock: lock,
    })
}

/// An open data directory. The lock is held as long as this lives: keep it until the process ends.
#[derive(Debug)]
pub struct DataDirectory {
    identity: IdentityFile<DirectoryDisk>,
    disk: DirectoryDisk,
    _lock: DirectoryLock,
}

impl DataDirectory {
    /// Who the node is, with the boot that this process may use.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    /// The identity, to be shared with the log.
    pub fn identity_file(&self) -> &IdentityFile<DirectoryDisk> {
        &self.identity
    }

    /// Where the log lives.
    pub fn log_disk(&self) -> Result<DirectoryDisk, StorageError> {
        self.below("log")
    }

    /// Where the snapshots live.
    pub fn snapshot_disk(&self) -> Result<DirectoryDisk, StorageError> {
        self.below("snapshots")
    }

    /// Notes durably that a group has lived here. Call it before the first vote.
    pub fn mark_lived(&mut self) -> Result<(), StorageError> {
        self.identity.change(|identity| identity.lived = true)
    }

    /// Notes durably that this node no longer has all that it promised and voted for. The first loss that was noted stays.
    pub fn note_loss(&mut self, loss: MemoryLoss) -> Result<(), StorageError> {
        self.identity.change(|identity| {
            identity.loss.get_or_insert(loss);
        })
    }

    /// Notes durably that this node and a peer hold different decisions for `slot`. The first slot that was noted stays.
    pub fn note_conflict(&mut self, slot: Slot) -> Result<(), StorageError> {
        self.identity.change(|identity| {
            identity.conflict.get_or_insert(slot);
        })
    }

    /// Notes durably with which commit of the log this start begins, before any peer is told. `number` was drawn for it.
    pub fn note_start(&mut self, number: u64, begun: u64) -> Result<Starts, StorageError> {
        self.identity.note_start(number, begun)
    }

    /// Goes on above `boot`, which a peer has seen, from the next opening on.
    pub fn raise_boot(&mut self, boot: u64) -> Result<(), StorageError> {
        self.identity
            .change(|identity| identity.boot = identity.boot.max(boot))
    }

    /// The directory itself, for what is remembered of peers.
    pub fn disk(&self) -> &DirectoryDisk {
        &self.disk
    }

    fn below(&self, name: &str) -> Result<DirectoryDisk, StorageError> {
        let disk = DirectoryDisk::open(&self.disk.path().join(name));
        let disk = disk.and_then(|disk| self.disk.sync_dir().map(|()| disk));
        disk.map_err(|error| StorageError::io(format!("open {}", self.disk.place(name)), &error))
    }
}

/// The directory itself is locked, so that two nodes exclude each other also when somebody removes or replaces files in
/// it. The file tells who holds the lock.
#[derive(Debug)]
struct DirectoryLock {
    _directory: File,
    _file: File,
}

/// Directories of earlier builds, and those that `init` found, may be open to others.
fn keep_others_out(dir: &Path) -> std::io::Result<()> {
    let now = std::fs::metadata(dir)?.permissions();
    if now.mode() & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(dir, Permissions::from_mode(OWNER_ONLY))
}

fn lock(dir: &Path) -> Result<DirectoryLock, StorageError> {
    let path = dir.join(LOCK);
    let wrap = |error: std::io::Error| StorageError::io(format!("lock {}", dir.display()), &error);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = opened.map_err(wrap)?;
    let directory = File::open(dir).map_err(wrap)?;
    let locked = flock(&directory, FlockOperation::NonBlockingLockExclusive)
        .and_then(|()| flock(&file, FlockOperation::NonBlockingLockExclusive));
    if let Err(errno) = locked {
        if errno != rustix::io::Errno::WOULDBLOCK {
            return Err(wrap(errno.into()));
        }
        let mut pid = String::new();
        // The number is only a courtesy.
        let pid = file
            .read_to_string(&mut pid)
            .ok()
            .and_then(|_| pid.trim().parse().ok());
        return Err(StorageError::Locked {
            dir: dir.display().to_string(),
            pid,
        });
    }
    // A full disk must not keep a node from running: the lock is what counts.
    let _ = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(DirectoryLock {
        _directory: directory,
        _file: file,
    })
}
