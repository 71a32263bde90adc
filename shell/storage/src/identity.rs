//! Who a node is, on disk: two checksummed copies, written one after the other, so that one is always whole.
//!
//! Both damaged means amnesia: the directory may not vote. `boot` is counted up durably before it is used. Whether the node's
//! groups have lived, and the persist mode, are kept too, so that a group in memory cannot form empty after a restart.
//! Called by `DataDirectory`; works on any `Disk`, so the simulator can crash it.

use std::io;

use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::{StorageError, is_full};
use crate::limits::SECTOR_BYTES;
use crate::sector::{u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"QUORIDN1";
const COPIES: [&str; 2] = ["identity-a", "identity-b"];
const NEW: &str = "identity-new";

/// Where a node keeps what its groups remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// In the log: a restarted node is the same acceptor.
    Disk,
    /// In memory: a restarted node may vote only as a new incarnation.
    Memory,
}

/// Who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster, chosen once.
    pub cluster: u64,
    /// The node in it.
    pub node: u16,
    /// Chosen at random when the node is made, and again when it begins anew.
    pub incarnation: u64,
    /// How often it has been opened; 0 before the first time.
    pub boot: u64,
    /// Where its groups keep what they remember.
    pub persist: Persist,
    /// A group has lived here: it may not be formed again from nothing.
    pub lived: bool,
}

impl Identity {
    /// Writes a new identity; refuses a disk that has one.
    pub fn create_on<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        let names = disk
            .list()
            .map_err(|error| StorageError::io("list the directory", &error))?;
        if names.iter().any(|name| COPIES.contains(&name.as_str())) {
            return Err(StorageError::AlreadyInitialised("the directory".into()));
        }
        self.store(disk)
    }

    /// Reads the identity from whichever copy is whole.
    pub fn load<D: Disk>(disk: &D) -> Result<Identity, StorageError> {
        let names = disk
            .list()
            .map_err(|error| StorageError::io("list the directory", &error))?;
        if !names.iter().any(|name| COPIES.contains(&name.as_str())) {
            return Err(StorageError::NotInitialised("the directory".into()));
        }
        let read = |name| {
            disk.open(name)
                .and_then(|mut file| read_whole(&mut file))
                .ok()
        };
        let found = COPIES
            .into_iter()
            .filter_map(read)
            .filter_map(|content| decode(&content));
        found
            .max_by_key(|(version, _)| *version)
            .map(|(_, identity)| identity)
            .ok_or(StorageError::Amnesia)
    }

    /// Replaces both copies, each by a whole file: first the content durable, then the name.
    pub fn store<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        let read = |name| {
            disk.open(name)
                .and_then(|mut file| read_whole(&mut file))
                .ok()
        };
        let versions = COPIES.map(|name| {
            read(name)
                .and_then(|content| decode(&content))
                .map_or(0, |(version, _)| version)
        });
        let version = versions[0].max(versions[1]) + 1;
        // The older copy goes first, so that the newest stays until another is whole.
        let order = if versions[0] <= versions[1] {
            COPIES
        } else {
            [COPIES[1], COPIES[0]]
        };
        for name in order {
            self.replace(disk, name, version)
                .map_err(|error| match error {
                    error if is_full(&error) => StorageError::Full {
                        wanted: SECTOR_BYTES as u64,
                    },
                    error => StorageError::SyncFailed(error.to_string()),
                })?;
        }
        Ok(())
    }

    fn replace<D: Disk>(&self, disk: &D, name: &str, version: u64) -> io::Result<()> {
        match disk.remove(NEW) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = disk.create(NEW, SECTOR_BYTES as u64)?;
        file.write_at(0, &self.encode(version))?;
        file.sync()?;
        disk.rename(NEW, name)?;
        disk.sync_dir()
    }

    fn encode(&self, version: u64) -> Vec<u8> {
        let mut out = vec![0; SECTOR_BYTES];
        out[4..12].copy_from_slice(MAGIC);
        out[12] = match self.persist {
            Persist::Disk => 1,
            Persist::Memory => 2,
        };
        out[13] = u8::from(self.lived);
        out[14..16].copy_from_slice(&self.node.to_le_bytes());
        out[16..24].copy_from_slice(&self.cluster.to_le_bytes());
        out[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        out[32..40].copy_from_slice(&self.boot.to_le_bytes());
        out[40..48].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c(&out[4..]);
        out[0..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

/// The version of a copy and what it says, if it is whole.
fn decode(content: &[u8]) -> Option<(u64, Identity)> {
    if content.len() != SECTOR_BYTES
        || !content[4..].starts_with(MAGIC)
        || u32_at(content, 0) != crc32c::crc32c(&content[4..])
    {
        return None;
    }
    let persist = match content[12] {
        1 => Persist::Disk,
        2 => Persist::Memory,
        _ => return None,
    };
    let identity = Identity {
        cluster: u64_at(content, 16),
        node: u16_at(content, 14),
        incarnation: u64_at(content, 24),
        boot: u64_at(content, 32),
        persist,
        lived: content[13] == 1,
    };
    Some((u64_at(content, 40), identity))
}
