//! Snapshots between the replica, the objects and the disk.
//!
//! The replica's part and the objects' images arrive separately and are joined here. A separate thread
//! writes, reads and checks snapshots; calls never wait for it. A fetched snapshot is checked and made
//! durable before the objects get it.

use crate::NodeConfig;
use crate::backups;
use crate::config::PersistConfig;
use crate::held_snapshots::HeldSnapshots;
use crate::limits::{BACKUP_JOBS_MAX, SNAPSHOT_JOBS};
use crate::membership::KnownMembers;
use crate::snapshot_thread::{ThreadJob, Worker};
use crate::status::OwnIdentity;
use bytes::Bytes;
use mio::Waker;
use quorate_host::ObjectImage;
use quorate_replica::{ReplicaMessage, SnapshotCore};
use quorate_storage::{DirectoryDisk, SnapshotStore};
use quorate_types::{ConnectionId, Digest, NodeId, PartsList, PeerPast, Slot};
use quorate_wire::AdminReply;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// What the snapshot thread finished.
pub(crate) enum SnapshotDone {
    /// A snapshot of this node is durable.
    Taken {
        slot: Slot,
        digest: [u8; 32],
        bytes: u64,
    },
    /// It could not be written.
    NotTaken { slot: Slot, reason: String },
    /// A piece for a peer, or the word that there is none.
    Piece { to: NodeId, message: ReplicaMessage },
    /// What is told to who takes a backup.
    Backup { to: ConnectionId, reply: AdminReply },
    /// A fetched snapshot is whole and durable: the objects may take it.
    Fetched {
        slot: Slot,
        images: Vec<ObjectImage>,
    },
    /// It was damaged, or could not be written.
    NotFetched { slot: Slot, reason: String },
}

/// A fetched snapshot that the objects are taking over.
pub(crate) struct Installed {
    pub(crate) core: SnapshotCore,
    pub(crate) digest: [u8; 32],
    pub(crate) bytes: u64,
}

/// Finished work, with what the loop keeps of it.
pub(crate) type SnapshotResult = (SnapshotDone, Option<Installed>);

/// The loop's end.
pub(crate) struct SnapshotQueue {
    jobs: SyncSender<ThreadJob>,
    reports: Receiver<SnapshotResult>,
    /// For what is refused before it reaches the thread.
    own: Sender<SnapshotResult>,
    /// Halves that wait for their other half. The replica has one snapshot under way at a time, and
    /// what is older than a finished one is dropped.
    cores: BTreeMap<Slot, (SnapshotCore, Slot)>,
    images: BTreeMap<Slot, (Vec<ObjectImage>, PartsList)>,
    installing: Option<Installed>,
    /// The newest agreed snapshot that the thread knows of; it is told where that frees memory.
    agreed: Option<Slot>,
    waiting: usize,
    /// Questions for backups among them; at most `BACKUP_JOBS_MAX`.
    backups: usize,
    /// What a backup says of the group.
    about: Bytes,
    /// The newest snapshot that failed since one was taken, and why.
    failed: Option<(Slot, String)>,
}

impl SnapshotQueue {
    /// Starts the thread.
    pub(crate) fn start(
        config: &NodeConfig,
        disks: (SnapshotStore<DirectoryDisk>, DirectoryDisk),
        identity: &OwnIdentity,
        names: Vec<String>,
        waker: Arc<Waker>,
    ) -> io::Result<SnapshotQueue> {
        let (jobs, taken) = sync_channel(SNAPSHOT_JOBS);
        let (own, reports) = channel();
        let is_memory = config.persist == PersistConfig::Memory;
        let held = is_memory.then(HeldSnapshots::default);
        let worker = Worker::new(disks, held, identity.group, names, own.clone(), waker);
        std::thread::Builder::new()
            .name("snapshots".to_owned())
            .spawn(move || worker.run(&taken))?;
        Ok(SnapshotQueue {
            jobs,
            reports,
            own,
            cores: BTreeMap::new(),
            images: BTreeMap::new(),
            installing: None,
            agreed: is_memory.then_some(Slot::ZERO),
            waiting: 0,
            backups: 0,
            about: backups::about(config, identity),
            failed: None,
        })
    }

    /// The objects' half.
    pub(crate) fn imaged(&mut self, slot: Slot, images: Vec<ObjectImage>, parts: PartsList) {
        self.images.insert(slot, (images, parts));
        self.join(slot);
    }

    /// The replica's half.
    pub(crate) fn finish(&mut self, core: SnapshotCore, agreed: Slot) {
        let slot = core.slot;
        self.cores.insert(slot, (core, agreed));
        self.join(slot);
    }

    fn join(&mut self, slot: Slot) {
        if !self.cores.contains_key(&slot) || !self.images.contains_key(&slot) {
            return;
        }
        let (core, agreed) = self.cores.remove(&slot).expect("looked up above");
        let (images, parts) = self.images.remove(&slot).expect("looked up above");
        self.cores.retain(|older, _| *older > slot);
        self.images.retain(|older, _| *older > slot);
        let job = ThreadJob::Save {
            core: Box::new(core),
            images,
            parts,
            agreed,
        };
        if !self.submit(job) {
            let reason = "earlier snapshot work is not finished".to_owned();
            self.report(SnapshotDone::NotTaken { slot, reason });
        }
    }

    /// The objects' half cannot be had.
    pub(crate) fn fail(&mut self, slot: Slot, reason: String) {
        self.forget(slot);
        self.failed = Some((slot, reason));
    }

    /// The newest snapshot that failed since one was taken, and why.
    pub(crate) fn failed(&self) -> Option<&(Slot, String)> {
        self.failed.as_ref()
    }

    /// The snapshot at `slot` is given up.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.cores.remove(&slot);
        self.images.remove(&slot);
        self.installing
            .take_if(|installed| installed.core.slot == slot);
    }

    /// The newest snapshot of this node that is agreed is at `slot`.
    pub(crate) fn agreed(&mut self, slot: Slot) {
        let is_news = self.agreed.is_some_and(|known| slot > known);
        if is_news && self.jobs.try_send(ThreadJob::Agreed { slot }).is_ok() {
            self.agreed = Some(slot);
        }
    }

    /// Reads a piece for a peer. One that is refused is asked for again.
    pub(crate) fn read(&mut self, to: NodeId, slot: Slot, offset: u64, length: u32) {
        let job = ThreadJob::Read {
            to,
            slot,
            offset,
            length,
        };
        self.submit(job);
    }

    /// Opens an agreed snapshot for a backup, and tells `to` about the group; false if too much is asked already.
    pub(crate) fn offer(&mut self, to: ConnectionId, (slot, agreed): (Slot, Digest)) -> bool {
        let about = self.about.clone();
        self.submit_backup(ThreadJob::Offer {
            to,
            slot,
            agreed,
            about,
        })
    }

    /// Reads a piece for a backup; false if too much is asked already.
    pub(crate) fn backup_piece(
        &mut self,
        to: ConnectionId,
        slot: Slot,
        (offset, length): (u64, u32),
    ) -> bool {
        self.submit_backup(ThreadJob::BackupPiece {
            to,
            slot,
            offset,
            length,
        })
    }

    fn submit_backup(&mut self, job: ThreadJob) -> bool {
        let is_taken = self.backups < BACKUP_JOBS_MAX && self.submit(job);
        self.backups += usize::from(is_taken);
        is_taken
    }

    /// Keeps a piece of a snapshot that is being fetched.
    pub(crate) fn store(&mut self, slot: Slot, offset: u64, total: u64, data: Bytes) {
        let job = ThreadJob::Store {
            slot,
            offset,
            total,
            data,
        };
        // A piece that is lost shows at the installation, which then fails.
        self.submit(job);
    }

    /// All pieces are there.
    pub(crate) fn install(&mut self, slot: Slot, agreed: Digest) {
        if !self.submit(ThreadJob::Install { slot, agreed }) {
            let reason = "earlier snapshot work is not finished".to_owned();
            self.report(SnapshotDone::NotFetched { slot, reason });
        }
    }

    /// Notes the members of a view in the data directory; false if the thread is busy.
    pub(crate) fn note(&mut self, known: KnownMembers, directory: PathBuf) -> bool {
        let known = Box::new(known);
        self.jobs
            .try_send(ThreadJob::Note { known, directory })
            .is_ok()
    }

    /// Writes down what was seen of the peers; false if the thread is busy.
    pub(crate) fn remember(&mut self, pasts: Vec<(NodeId, PeerPast)>) -> bool {
        self.jobs.try_send(ThreadJob::Remember { pasts }).is_ok()
    }

    /// The objects hold the fetched state.
    pub(crate) fn restored(&mut self, slot: Slot) -> Option<Installed> {
        self.installing
            .take_if(|installed| installed.core.slot == slot)
    }

    /// The next finished piece of work.
    pub(crate) fn next(&mut self) -> Option<SnapshotDone> {
        let (finished, installed) = self.reports.try_recv().ok()?;
        self.waiting = self.waiting.saturating_sub(1);
        if installed.is_some() {
            self.installing = installed;
        }
        match &finished {
            SnapshotDone::Taken { .. } => self.failed = None,
            SnapshotDone::NotTaken { slot, reason } => self.failed = Some((*slot, reason.clone())),
            SnapshotDone::Backup { .. } => self.backups = self.backups.saturating_sub(1),
            SnapshotDone::Piece { .. }
            | SnapshotDone::Fetched { .. }
            | SnapshotDone::NotFetched { .. } => {}
        }
        Some(finished)
    }

    /// Jobs that the thread has not finished.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    fn submit(&mut self, job: ThreadJob) -> bool {
        let is_taken = self.jobs.try_send(job).is_ok();
        self.waiting += usize::from(is_taken);
        is_taken
    }

    fn report(&mut self, finished: SnapshotDone) {
        self.waiting += 1;
        self.own
            .send((finished, None))
            .expect("this end holds the receiver");
    }
}
