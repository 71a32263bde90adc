//! The identity of a node, on disk: two checksummed copies, written one after the other, so that one is always whole.
//!
//! If both are damaged (amnesia), the directory must not vote. `boot` is increased durably before it is used. The identity
//! also has the pledge, what the log must at least contain, so that a removed or older log is detected, and any loss found.
//! Called by `DataDirectory` and `Log`; works on any `Disk`, so the simulator can crash it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use quorate_types::{ClusterId, Incarnation, NodeId, Slot, StartOfNode, Starts, ViewNumber};

use crate::copies::Copies;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::SECTOR_BYTES;
use crate::pledge::LogPledge;
use crate::sector::{u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"QUORIDN2";
/// The layout before the identity kept anything of the log.
const MAGIC_BEFORE: &[u8; 8] = b"QUORIDN1";
/// Where the starts begin, each of 24 bytes.
const STARTS_AT: usize = 96;
pub(crate) const COPIES: Copies = Copies {
    names: ["identity-a", "identity-b"],
    new: "identity-new",
    version: |content| decode(content).map(|(version, _)| version),
};

/// Where a node keeps what its groups remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// In the log: a restarted node is the same acceptor.
    Disk,
    /// In memory: a restarted node may vote only as a new incarnation.
    Memory,
}

/// Why a node no longer has all that it promised and voted for. It never votes again in this incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLoss {
    /// The log lacks segments that it had: files were removed, or the log is an older copy than the identity.
    LogShort,
    /// The log has records that the identity knows nothing of: the identity is an older copy.
    IdentityOld,
    /// A peer has seen more of this node than the directory holds: the whole directory is an older copy.
    DirectoryOld,
    /// The whole directory was gone, and was made anew.
    DirectoryGone,
}

impl fmt::Display for MemoryLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryLoss::LogShort => "the log lacks segments that this node had written",
            MemoryLoss::IdentityOld => "the identity is an older copy than the log",
            MemoryLoss::DirectoryOld => {
                "the data directory is an older copy: a peer has seen a later state of this node"
            }
            MemoryLoss::DirectoryGone => "the data directory was gone, and was made anew",
        })
    }
}

/// Who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster, chosen once.
    pub cluster: ClusterId,
    /// The node in it.
    pub node: NodeId,
    /// Chosen at random when the node is made, and again when it begins anew.
    pub incarnation: Incarnation,
    /// How often it has been opened; 0 before the first time.
    pub boot: u64,
    /// Where its groups keep what they remember.
    pub persist: Persist,
    /// A group has lived here: it may not be formed again from nothing.
    pub lived: bool,
    /// What the log must at least contain.
    pub log: LogPledge,
    /// What was found to be lost; stays until the node has come back.
    pub loss: Option<MemoryLoss>,
    /// A slot for which this node and a peer hold different decisions: it never runs again in this incarnation.
    pub conflict: Option<Slot>,
    /// The newest view in which the node may have promised or voted.
    pub view: ViewNumber,
    /// It lost what it had promised and voted, and came back.
    pub rejoined: Option<Rejoined>,
    /// Its newest starts, and with which commit of the log each began.
    pub starts: Starts,
}

/// How a node that had lost its votes came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejoined {
    /// As which incarnation it votes. To its peers it proves itself as the one that it was made as.
    pub incarnation: Incarnation,
    /// With which view: it remembers all that it promised and voted from this one on.
    pub view: ViewNumber,
}

impl Identity {
    /// A node that has never been opened.
    pub fn new(
        cluster: ClusterId,
        node: NodeId,
        incarnation: Incarnation,
        persist: Persist,
    ) -> Identity {
        Identity {
            cluster,
            node,
            incarnation,
            boot: 0,
            persist,
            lived: false,
            log: LogPledge::default(),
            loss: None,
            conflict: None,
            view: ViewNumber(1),
            rejoined: None,
            starts: Starts::default(),
        }
    }

    /// The incarnation as which this directory may vote, as long as nothing of it is lost.
    pub fn votes_as(&self) -> Incarnation {
        self.rejoined
            .map_or(self.incarnation, |back| back.incarnation)
    }

    /// The node takes part in a view, and has come back if it had lost anything.
    pub fn begin_view(&mut self, view: ViewNumber, back: Option<Rejoined>) {
        self.view = view;
        if back.is_some() {
            self.rejoined = back;
            self.loss = None;
        }
    }

    /// Writes a new identity; refuses a disk that has one.
    pub fn create_on<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        if COPIES.exist(disk)? {
            return Err(StorageError::AlreadyInitialised("the directory".into()));
        }
        self.store(disk)
    }

    /// Reads the identity from whichever copy is whole.
    pub fn load<D: Disk>(disk: &D) -> Result<Identity, StorageError> {
        if !COPIES.exist(disk)? {
            return Err(StorageError::NotInitialised("the directory".into()));
        }
        let contents = COPIES.read(disk);
        let is_before = contents
            .iter()
            .any(|content| is_sealed(content, MAGIC_BEFORE));
        let newest = COPIES.newest(contents);
        match newest.as_deref().and_then(decode) {
            Some((_, identity)) => Ok(identity),
            None if is_before => Err(StorageError::Layout(
                "an identity of layout 1, written before identities knew of the log".into(),
            )),
            None => Err(StorageError::Amnesia),
        }
    }

    /// Replaces both copies.
    pub fn store<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        COPIES.store(disk, |version| self.encode(version))
    }

    fn encode(&self, version: u64) -> Vec<u8> {
        let mut out = vec![0; SECTOR_BYTES];
        out[4..12].copy_from_slice(MAGIC);
        out[12] = match self.persist {
            Persist::Disk => 1,
            Persist::Memory => 2,
        };
        out[13] = u8::from(self.lived);
        out[14..16].copy_from_slice(&self.node.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.cluster.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.incarnation.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.boot.to_le_bytes());
        out[40..48].copy_from_slice(&version.to_le_bytes());
        out[48..52].copy_from_slice(&self.log.segment.to_le_bytes());
        out[56..64].copy_from_slice(&self.log.commit.to_le_bytes());
        out[52] = match self.loss {
            None => 0,
            Some(MemoryLoss::LogShort) => 1,
            Some(MemoryLoss::IdentityOld) => 2,
            Some(MemoryLoss::DirectoryOld) => 3,
            Some(MemoryLoss::DirectoryGone) => 4,
        };
        out[53] = u8::from(self.conflict.is_some());
        out[64..72].copy_from_slice(&self.conflict.unwrap_or(Slot::ZERO).0.to_le_bytes());
        out[72..80].copy_from_slice(&self.view.0.to_le_bytes());
        if let Some(Rejoined { incarnation, view }) = self.rejoined {
            out[80..88].copy_from_slice(&incarnation.0.to_le_bytes());
            out[88..96].copy_from_slice(&view.0.to_le_bytes());
        }
        let starts = self.starts.kept();
        out[54] = starts.len() as u8;
        for (start, to) in starts.iter().zip(out[STARTS_AT..].chunks_exact_mut(24)) {
            to[0..8].copy_from_slice(&start.boot.to_le_bytes());
            to[8..16].copy_from_slice(&start.number.to_le_bytes());
            to[16..24].copy_from_slice(&start.begun.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&out[4..]);
        out[0..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

/// The version of a copy and what it says, if it is whole.
pub(crate) fn decode(content: &[u8]) -> Option<(u64, Identity)> {
    if !is_sealed(content, MAGIC) {
        return None;
    }
    let persist = match content[12] {
        1 => Persist::Disk,
        2 => Persist::Memory,
        _ => return None,
    };
    let loss = match content[52] {
        0 => None,
        1 => Some(MemoryLoss::LogShort),
        2 => Some(MemoryLoss::IdentityOld),
        3 => Some(MemoryLoss::DirectoryOld),
        4 => Some(MemoryLoss::DirectoryGone),
        _ => return None,
    };
    let identity = Identity {
        cluster: ClusterId(u64_at(content, 16)),
        node: NodeId(u16_at(content, 14)),
        incarnation: Incarnation(u64_at(content, 24)),
        boot: u64_at(content, 32),
        persist,
        lived: content[13] == 1,
        log: LogPledge {
            segment: u32_at(content, 48),
            commit: u64_at(content, 56),
        },
        loss,
        conflict: (content[53] == 1).then(|| Slot(u64_at(content, 64))),
        // An identity from before there were further views says nothing of them.
        view: ViewNumber(u64_at(content, 72).max(1)),
        // No node comes back with view 0: nothing was written there.
        rejoined: (u64_at(content, 88) > 0).then(|| Rejoined {
            incarnation: Incarnation(u64_at(content, 80)),
            view: ViewNumber(u64_at(content, 88)),
        }),
        starts: starts(content)?,
    };
    Some((u64_at(content, 40), identity))
}

/// An identity from before it kept starts has none.
fn starts(content: &[u8]) -> Option<Starts> {
    let count = usize::from(content[54]);
    let mut starts = Starts::default();
    for place in 0..count.min(Starts::MAX) {
        let at = STARTS_AT + 24 * place;
        starts.note(StartOfNode {
            boot: u64_at(content, at),
            number: u64_at(content, at + 8),
            begun: u64_at(content, at + 16),
        });
    }
    (starts.kept().len() == count).then_some(starts)
}

fn is_sealed(content: &[u8], magic: &[u8; 8]) -> bool {
    content.len() == SECTOR_BYTES
        && content[4..].starts_with(magic)
        && u32_at(content, 0) == crc32c::crc32c(&content[4..])
}

/// The identity of a running node, shared by who opened it and its log, which announces segments in it.
#[derive(Debug)]
pub struct IdentityFile<D: Disk> {
    shared: Arc<Mutex<Shared<D>>>,
}

#[derive(Debug)]
struct Shared<D> {
    disk: D,
    identity: Identity,
}

impl<D: Disk> Clone for IdentityFile<D> {
    fn clone(&self) -> IdentityFile<D> {
        IdentityFile {
            shared: self.shared.clone(),
        }
    }
}

impl<D: Disk> IdentityFile<D> {
    /// Loads the identity on `disk` and counts its boots up durably.
    pub fn boot(disk: D) -> Result<IdentityFile<D>, StorageError> {
        let mut identity = Identity::load(&disk)?;
        identity.boot += 1;
        identity.store(&disk)?;
        Ok(IdentityFile {
            shared: Arc::new(Mutex::new(Shared { disk, identity })),
        })
    }

    /// Loads the identity of a node that has never started, and counts nothing.
    pub(crate) fn unborn(disk: D) -> Result<IdentityFile<D>, StorageError> {
        let identity = Identity::load(&disk)?;
        if identity.boot > 0 {
            return Err(StorageError::AlreadyInitialised(disk.place("")));
        }
        IdentityFile::stopped(disk)
    }

    /// Loads the identity of a node that does not run, and counts nothing.
    pub(crate) fn stopped(disk: D) -> Result<IdentityFile<D>, StorageError> {
        let identity = Identity::load(&disk)?;
        Ok(IdentityFile {
            shared: Arc::new(Mutex::new(Shared { disk, identity })),
        })
    }

    /// What it says.
    pub fn get(&self) -> Identity {
        self.lock().identity
    }

    /// Changes it durably. Nothing is changed when it cannot be stored. The lock is held while the disk works: only the log
    /// changes a running node's identity, and who stops the node.
    pub fn change(&self, change: impl FnOnce(&mut Identity)) -> Result<(), StorageError> {
        let mut shared = self.lock();
        let mut identity = shared.identity;
        change(&mut identity);
        if identity != shared.identity {
            identity.store(&shared.disk)?;
            shared.identity = identity;
        }
        Ok(())
    }

    /// Notes durably with which commit of the log this start begins, before any peer is told. `number` was drawn for it.
    pub fn note_start(&self, number: u64, begun: u64) -> Result<Starts, StorageError> {
        self.change(|identity| {
            identity.starts.note(StartOfNode {
                boot: identity.boot,
                number,
                begun,
            });
        })?;
        Ok(self.get().starts)
    }

    fn lock(&self) -> MutexGuard<'_, Shared<D>> {
        self.shared
            .lock()
            .expect("no one panics while holding the identity")
    }
}
