//! The disks of one simulated node, through the storage that real nodes use: identity, log and snapshots.
//!
//! A crash leaves the disks to the next life; what that life finds is told by [`Disks::start`]. Refuses to start on a
//! directory without an identity, as a real node does.

use super::log_thread::LogThread;
use bytes::{Buf, Bytes};
use quorate_ordering::{Damage, LostRecord, Past, Record};
use quorate_replica::{SnapshotCore, SnapshotReport};
use quorate_storage::{
    BodySize, GroupCommit, Identity, IdentityFile, Log, Persist, PieceSink, RecoveredRecord,
    Rejoined, SNAPSHOTS_KEPT, SimDisk, SnapshotStore, StorageError, StorageLimits, Verified,
};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    ClusterId, Digest, GroupId, Incarnation, NodeId, ObjectId, Persistence, Slot, Starts,
    ViewNumber,
};
use quorate_wire::{Snapshot, StoredImage, small_snapshot, snapshot_front_bytes, take_record};

const CLUSTER: ClusterId = ClusterId(7);
/// The only group of a world.
pub(super) const GROUP: GroupId = GroupId(1);

/// Small segments, so that they are filled and removed often; large enough for the largest batch.
pub(super) const LIMITS: StorageLimits = StorageLimits {
    segment_bytes: 64 << 10,
    block_bytes: 512,
    page_bytes: 512,
    record_bytes_max: 24 << 10,
    reserve_bytes: 8 << 10,
    scarce_bytes: 160 << 10,
    discard_reserve_bytes: 4 << 10,
};

/// What survives a process.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    /// The log's directory.
    pub log: SimDisk,
    /// The snapshots' directory.
    pub snapshots: SimDisk,
    /// The identity's directory.
    pub identity: SimDisk,
    /// As which the directory was made.
    pub incarnation: Incarnation,
    node: u16,
    persistence: Persistence,
}

/// The open files of one life.
#[derive(Debug)]
pub(super) struct Storage {
    /// The log, as its thread drives it.
    pub log: LogThread,
    identity: IdentityFile<SimDisk>,
    snapshots: SnapshotStore<SimDisk>,
    /// Snapshots that peers may fetch, newest last: those that the store keeps.
    served: Vec<(Slot, Bytes)>,
}

/// What a life begins with.
#[derive(Debug)]
pub(super) struct DiskFound {
    /// The open files.
    pub storage: Storage,
    /// Which start this is.
    pub boot: u64,
    /// The newest view in which the node may have voted.
    pub begun: ViewNumber,
    /// The log's records in order, and what is missing among them.
    pub past: Past,
    /// It no longer has all that it promised and voted for, and knows it.
    pub has_forgotten: bool,
    /// The incarnation as which its directory may vote, if it has forgotten nothing.
    pub votes_as: Option<Incarnation>,
    /// The view with which it came back, after it had lost everything.
    pub since: Option<ViewNumber>,
    /// The starts of its directory.
    pub starts: Starts,
    /// Files of its directory were lost once, or are older than what its peers have seen.
    pub has_loss: bool,
    /// The whole snapshot to start from, its digest and its size.
    pub snapshot: Option<(Snapshot, [u8; 32], u64)>,
    /// The other whole snapshots.
    pub others: Vec<SnapshotReport>,
}

impl DiskFound {
    /// The slot of the snapshot to start from.
    pub(super) fn slot(&self) -> Slot {
        let newest = self.snapshot.as_ref();
        newest.map_or(Slot::ZERO, |(snapshot, ..)| snapshot.core.slot)
    }

    /// The start is noted, before any peer is told of it.
    ///
    /// # Errors
    /// What the storage says.
    pub(super) fn noted(mut self, number: u64) -> Result<DiskFound, StorageError> {
        if self.storage.identity.get().persist == Persist::Disk {
            let begun = self.storage.log.newest_commit();
            self.starts = self.storage.identity.note_start(number, begun)?;
        }
        Ok(self)
    }
}

impl Disks {
    /// The disks of a node that was made a moment ago.
    pub(super) fn init(node: u16, incarnation: Incarnation, persistence: Persistence) -> Disks {
        let disks = Disks {
            incarnation,
            log: SimDisk::new(),
            snapshots: SimDisk::new(),
            identity: SimDisk::new(),
            node,
            persistence,
        };
        disks.create_identity();
        disks
    }

    fn create_identity(&self) {
        let persist = match self.persistence {
            Persistence::Disk => Persist::Disk,
            Persistence::Memory => Persist::Memory,
        };
        let identity = Identity::new(CLUSTER, NodeId(self.node), self.incarnation, persist);
        identity
            .create_on(&self.identity)
            .expect("a new disk takes an identity");
    }

    /// Empties the directory.
    pub(super) fn wipe(&mut self) {
        self.log = SimDisk::new();
        self.snapshots = SimDisk::new();
        self.identity = SimDisk::new();
        if planted(Plant::WipedVotes) {
            self.create_identity();
        }
    }

    /// The same disks, apart: what happens to one pair does not happen to the other.
    pub(super) fn fork(&self) -> Disks {
        Disks {
            log: self.log.fork(),
            snapshots: self.snapshots.fork(),
            identity: self.identity.fork(),
            incarnation: self.incarnation,
            node: self.node,
            persistence: self.persistence,
        }
    }

    /// All disks.
    pub(super) fn each(&self) -> [&SimDisk; 3] {
        [&self.log, &self.snapshots, &self.identity]
    }

    /// The process is gone; `choose` says what became of each thing that was not synced, as for `SimDisk::crash`.
    pub(super) fn crash(&self, mut choose: impl FnMut(u64) -> u64) {
        for disk in self.each() {
            disk.crash(&mut choose);
        }
    }

    /// Begins a life.
    ///
    /// # Errors
    /// What the storage says; a directory without identity is refused.
    pub(super) fn start(&self) -> Result<DiskFound, StorageError> {
        self.start_as(false)
    }

    /// The same where the node noted that its objects differ.
    ///
    /// # Errors
    /// As of [`Disks::start`].
    pub(super) fn start_as(&self, is_diverged: bool) -> Result<DiskFound, StorageError> {
        let identity = IdentityFile::boot(self.identity.clone())?;
        let has_lived = identity.get().lived;
        identity.change(|identity| identity.lived = true)?;
        if self.persistence == Persistence::Memory && has_lived {
            self.forget()?;
        }
        let (log, recovered) = match self.persistence {
            Persistence::Disk => Log::open_of(self.log.clone(), &identity, LIMITS)?,
            Persistence::Memory => Log::open(self.log.clone(), CLUSTER, NodeId(self.node), LIMITS)?,
        };
        let snapshots = SnapshotStore::open(self.snapshots.clone(), CLUSTER)?;
        let mut damaged = Vec::new();
        let mut past = Past::default();
        for entry in recovered {
            if past.damage.was_found() && planted(Plant::MidLogCut) {
                break;
            }
            match entry {
                RecoveredRecord::Record { bytes, .. } => match take_record(&bytes) {
                    Ok(record) => past.read(record),
                    Err(_) => past.lost(LostRecord::Anything),
                },
                RecoveredRecord::Base { bytes, .. } => {
                    let base = records_of(bytes).into_iter();
                    base.for_each(|record| past.read(record));
                }
                RecoveredRecord::Faulty { position, lost } => {
                    damaged.push(position);
                    past.lost(core_loss(lost));
                }
            }
        }
        if planted(Plant::MidLogCut) {
            past.damage = Damage::default();
        }
        let mut storage = Storage {
            log: LogThread::new(GroupCommit::new(log), self.log.clone(), damaged),
            identity: identity.clone(),
            snapshots,
            served: Vec::new(),
        };
        let snapshot = storage.start_from(&past, is_diverged)?;
        let started = snapshot.as_ref().map(|(snapshot, ..)| snapshot.core.slot);
        let others = storage.others(started)?;
        let identity = identity.get();
        let has_forgotten = (identity.loss.is_some() && !planted(Plant::LostLogUnnoticed))
            || (self.persistence == Persistence::Memory && has_lived);
        Ok(DiskFound {
            storage,
            boot: identity.boot,
            begun: identity.view,
            past,
            has_forgotten,
            votes_as: (!has_forgotten).then(|| identity.votes_as()),
            since: identity.rejoined.map(|back| back.view),
            starts: identity.starts,
            has_loss: identity.loss.is_some(),
            snapshot,
            others,
        })
    }

    /// A memory-mode node keeps nothing but who it is.
    fn forget(&self) -> Result<(), StorageError> {
        use quorate_storage::Disk;
        for disk in [&self.log, &self.snapshots] {
            let failed = |error: std::io::Error| StorageError::Io {
                what: "empty the directory".to_owned(),
                why: error.to_string(),
            };
            for name in disk.list().map_err(failed)? {
                disk.remove(&name).map_err(failed)?;
            }
            disk.sync_dir().map_err(failed)?;
        }
        Ok(())
    }
}

/// What a loss means to an acceptor, as real nodes take it.
fn core_loss(lost: quorate_storage::Lost) -> LostRecord {
    match lost {
        quorate_storage::Lost::Record {
            slot: Slot::ZERO, ..
        } => LostRecord::Promise,
        quorate_storage::Lost::Record { slot, .. } => LostRecord::Slot(slot),
        quorate_storage::Lost::Base { .. } | quorate_storage::Lost::Unknown => LostRecord::Anything,
    }
}

impl Storage {
    /// Notes durably that the node takes part in a view.
    ///
    /// # Errors
    /// What the storage says.
    pub(super) fn begin_view(
        &self,
        number: ViewNumber,
        back: Option<Rejoined>,
    ) -> Result<(), StorageError> {
        let change = |identity: &mut Identity| identity.begin_view(number, back);
        self.identity.change(change)
    }

    fn start_from(
        &mut self,
        past: &Past,
        is_diverged: bool,
    ) -> Result<Option<(Snapshot, [u8; 32], u64)>, StorageError> {
        let agreed = past.agreed().filter(|_| !is_diverged);
        let refuted = |found: &Verified| {
            let snapshot = Snapshot::take(&found.bytes);
            snapshot.is_ok_and(|snapshot| snapshot.core.is_refuted(found.digest, agreed))
        };
        let whole_after = past.whole_after();
        let newest = self.snapshots.to_start_from(GROUP, whole_after, refuted)?;
        let Some(newest) = newest else {
            return Ok(None);
        };
        let Ok(snapshot) = Snapshot::take(&newest.bytes) else {
            return Ok(None);
        };
        let bytes = newest.bytes.len() as u64;
        self.serve(newest.slot, newest.bytes, newest.slot);
        Ok(Some((snapshot, newest.digest, bytes)))
    }

    /// The whole snapshots except the one that the life starts from.
    fn others(&mut self, started: Option<Slot>) -> Result<Vec<SnapshotReport>, StorageError> {
        let mut others = Vec::new();
        for other in self.snapshots.others(GROUP, started)? {
            let Ok(snapshot) = Snapshot::take(&other.bytes) else {
                continue;
            };
            others.push(SnapshotReport {
                slot: other.slot,
                digest: Digest {
                    replicated: snapshot.core.digest(),
                    state: other.digest,
                },
                bytes: other.bytes.len() as u64,
            });
            self.served.push((other.slot, other.bytes));
        }
        self.served.sort_by_key(|(slot, _)| *slot);
        Ok(others)
    }

    fn serve(&mut self, slot: Slot, bytes: Bytes, agreed: Slot) {
        self.served.retain(|(kept, _)| *kept != slot);
        self.served.push((slot, bytes));
        self.served.sort_by_key(|(slot, _)| *slot);
        let passed = self.served.iter().filter(|(kept, _)| *kept <= slot);
        let older = passed.count().saturating_sub(SNAPSHOTS_KEPT);
        let mut place = 0;
        self.served.retain(|(kept, _)| {
            place += 1;
            place > older || *kept == agreed
        });
    }

    /// Joins the replica's part with the objects' images; makes both durable. Says how many bytes that is.
    ///
    /// # Errors
    /// What the store says.
    pub(super) fn save(
        &mut self,
        core: &SnapshotCore,
        images: &[Bytes],
        digest: [u8; 32],
        agreed: Slot,
    ) -> Result<u64, StorageError> {
        let names = core.view.objects.iter().map(|spec| spec.name.as_str());
        let images = (0..).map(ObjectId).zip(images);
        let images = images.map(|(object, image)| StoredImage {
            object,
            image: image.clone(),
        });
        let bytes = small_snapshot(core, names, &images.collect::<Vec<_>>());
        let size = bytes.len() as u64;
        self.keep(core.slot, digest, bytes, agreed)?;
        Ok(size)
    }

    /// Makes a fetched snapshot durable.
    ///
    /// # Errors
    /// What the store says.
    pub(super) fn keep(
        &mut self,
        slot: Slot,
        digest: [u8; 32],
        bytes: Bytes,
        agreed: Slot,
    ) -> Result<(), StorageError> {
        if !planted(Plant::SnapshotNotDurable) {
            let front = snapshot_front_bytes(&bytes).expect("it was written or read whole here");
            let size = BodySize {
                front: front as u64,
                whole: bytes.len() as u64,
            };
            let put = |sink: &mut PieceSink<'_>| sink(&bytes);
            self.snapshots
                .save_from(GROUP, slot, digest, size, agreed, put)?;
        }
        self.serve(slot, bytes, agreed);
        Ok(())
    }

    /// The slot of the newest whole snapshot.
    pub(super) fn newest_snapshot(&self) -> Slot {
        let newest = self.snapshots.newest(GROUP).ok().flatten();
        newest.map_or(Slot::ZERO, |newest| newest.slot)
    }

    /// The bytes of a snapshot that is held.
    pub(super) fn served(&self, slot: Slot) -> Option<&Bytes> {
        let found = self.served.iter().find(|(kept, _)| *kept == slot);
        found.map(|(_, bytes)| bytes)
    }
}

fn records_of(mut base: Bytes) -> Vec<Record> {
    let mut records = Vec::new();
    while base.has_remaining() {
        let length = base.get_u32_le() as usize;
        let record = take_record(&base.split_to(length));
        records.push(record.expect("the log's checksum covers a base"));
    }
    records
}
