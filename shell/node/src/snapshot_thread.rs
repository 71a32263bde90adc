//! The thread that writes, reads and checks snapshots. It knows neither the replica nor the loop.

use crate::backup_sources::{BackupSources, Opened, SnapshotBytes};
use crate::held_snapshots::{HeldSnapshots, is_worth_holding};
use crate::limits::{OUTGOING_MAX, SNAPSHOT_BYTES_MAX};
use crate::membership::KnownMembers;
use crate::snapshots::{Installed, SnapshotDone, SnapshotResult};
use bytes::Bytes;
use mio::Waker;
use quorate_host::ObjectImage;
use quorate_ordering::Past;
use quorate_replica::{ReplicaMessage, SnapshotCore};
use quorate_storage::{
    BodySize, DirectoryDisk, DirectoryFile, KeptSnapshot, PeerMemory, PieceSink, SNAPSHOTS_KEPT,
    SnapshotStore, StorageError, Verified,
};
use quorate_types::{ConnectionId, Digest, GroupId, NodeId, PartsCheck, PartsList, PeerPast, Slot};
use quorate_wire::{
    AdminReply, BackupOffer, IMAGE_HEAD_BYTES, Snapshot, image_head, snapshot_front,
    snapshot_front_bytes,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

/// One piece of work.
pub(crate) enum ThreadJob {
    /// Keep a snapshot of this node.
    Save {
        core: Box<SnapshotCore>,
        images: Vec<ObjectImage>,
        parts: PartsList,
        /// The newest agreed one, which stays.
        agreed: Slot,
    },
    /// The snapshot of this node at `slot` is the newest that is agreed.
    Agreed { slot: Slot },
    /// Read a piece for a peer.
    Read {
        to: NodeId,
        slot: Slot,
        offset: u64,
        length: u32,
    },
    /// Keep a piece of a snapshot being fetched.
    Store {
        slot: Slot,
        offset: u64,
        total: u64,
        data: Bytes,
    },
    /// Check that what was fetched is what a majority agreed on, and keep it.
    Install { slot: Slot, agreed: Digest },
    /// Open an agreed snapshot for a backup.
    Offer {
        to: ConnectionId,
        slot: Slot,
        agreed: Digest,
        /// What is told with it.
        about: Bytes,
    },
    /// Read a piece for a backup.
    BackupPiece {
        to: ConnectionId,
        slot: Slot,
        offset: u64,
        length: u32,
    },
    /// Note the members of a view in the data directory.
    Note {
        known: Box<KnownMembers>,
        directory: PathBuf,
    },
    /// Keep what was seen of the peers.
    Remember { pasts: Vec<(NodeId, PeerPast)> },
}

/// A snapshot on its way in.
struct Incoming {
    slot: Slot,
    total: u64,
    bytes: Vec<u8>,
}

pub(crate) struct Worker {
    store: SnapshotStore<DirectoryDisk>,
    /// What a node that persists to memory holds there instead of in `store`.
    held: Option<HeldSnapshots>,
    /// The data directory.
    home: DirectoryDisk,
    group: GroupId,
    /// The objects' names, in the order of their numbers.
    names: Vec<String>,
    reports: Sender<SnapshotResult>,
    waker: Arc<Waker>,
    /// The snapshots that peers fetch, oldest first, at most [`OUTGOING_MAX`]; kept open so that not every piece checks the
    /// whole file.
    outgoing: Vec<(Slot, KeptSnapshot<DirectoryFile>)>,
    incoming: Option<Incoming>,
    backups: BackupSources,
}

impl Worker {
    pub(crate) fn new(
        (store, home): (SnapshotStore<DirectoryDisk>, DirectoryDisk),
        held: Option<HeldSnapshots>,
        group: GroupId,
        names: Vec<String>,
        reports: Sender<SnapshotResult>,
        waker: Arc<Waker>,
    ) -> Worker {
        Worker {
            store,
            held,
            home,
            group,
            names,
            reports,
            waker,
            outgoing: Vec::new(),
            incoming: None,
            backups: BackupSources::default(),
        }
    }

    /// Works until the loop is gone.
    pub(crate) fn run(mut self, jobs: &Receiver<ThreadJob>) {
        while let Some(job) = self.next_job(jobs) {
            let report = match job {
                ThreadJob::Save {
                    core,
                    images,
                    parts,
                    agreed,
                } => Some((self.save(&core, images, &parts, agreed), None)),
                ThreadJob::Agreed { slot } => {
                    if let Some(held) = &mut self.held {
                        held.agreed(slot, Instant::now());
                    }
                    None
                }
                ThreadJob::Read {
                    to,
                    slot,
                    offset,
                    length,
                } => Some((self.read(to, slot, offset, length), None)),
                ThreadJob::Store {
                    slot,
                    offset,
                    total,
                    data,
                } => {
                    self.store_piece(slot, offset, total, &data);
                    None
                }
                ThreadJob::Install { slot, agreed } => Some(self.install(slot, agreed)),
                ThreadJob::Offer {
                    to,
                    slot,
                    agreed,
                    about,
                } => Some((self.offer(to, (slot, agreed), about), None)),
                ThreadJob::BackupPiece {
                    to,
                    slot,
                    offset,
                    length,
                } => Some((self.backup_piece(to, slot, (offset, length)), None)),
                ThreadJob::Note { known, directory } => {
                    known.note(&directory, self.group);
                    None
                }
                ThreadJob::Remember { pasts } => {
                    self.remember(&pasts);
                    None
                }
            };
            let Some(report) = report else { continue };
            if self.reports.send(report).is_err() || self.waker.wake().is_err() {
                return;
            }
        }
    }

    /// The next job; `None` when the loop is gone. Meanwhile lets go of what nobody reads any more.
    fn next_job(&mut self, jobs: &Receiver<ThreadJob>) -> Option<ThreadJob> {
        while let Some(patience) = self.backups.patience() {
            match jobs.recv_timeout(patience) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.backups.close_idle(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        jobs.recv().ok()
    }

    fn offer(
        &mut self,
        to: ConnectionId,
        (slot, agreed): (Slot, Digest),
        about: Bytes,
    ) -> SnapshotDone {
        let (store, group) = (&self.store, self.group);
        let held = self.held.as_ref().and_then(|held| held.copy(slot));
        let find = || match held {
            Some(held) => Some(SnapshotBytes::Held(held)),
            None => Some(SnapshotBytes::File(store.open_at(group, slot).ok()??)),
        };
        let reply = match self.backups.open((slot, agreed), Instant::now(), find) {
            Opened::Ready { bytes, front } => AdminReply::Offered(BackupOffer {
                slot,
                digest: agreed,
                bytes,
                front,
                about,
            }),
            Opened::Absent => AdminReply::NotHeld { slot },
            Opened::Busy => AdminReply::Busy,
        };
        SnapshotDone::Backup { to, reply }
    }

    fn backup_piece(&mut self, to: ConnectionId, slot: Slot, place: (u64, u32)) -> SnapshotDone {
        let reply = match self.backups.piece(slot, place, Instant::now()) {
            Some(data) => AdminReply::Piece {
                slot,
                offset: place.0,
                data,
            },
            None => AdminReply::NotHeld { slot },
        };
        SnapshotDone::Backup { to, reply }
    }

    /// A second defence against old copies of the peers' directories: without it, the node goes on.
    fn remember(&self, pasts: &[(NodeId, PeerPast)]) {
        let peers: Vec<PeerMemory> = pasts
            .iter()
            .map(|(node, past)| PeerMemory {
                node: *node,
                incarnation: past.incarnation,
                newest: past.newest,
                voting: past.voting,
                commit: past.commit,
                since: past.since,
            })
            .collect();
        if let Err(error) = PeerMemory::store(&peers, &self.home) {
            tracing::warn!(%error, "cannot write what was seen of the peers");
        }
    }

    fn save(
        &mut self,
        core: &SnapshotCore,
        images: Vec<ObjectImage>,
        parts: &PartsList,
        agreed: Slot,
    ) -> SnapshotDone {
        let slot = core.slot;
        let kept = self.keep(core, images, parts, agreed);
        self.let_removed_go();
        match kept {
            // A peer that fetches an older one goes on with it as long as it is kept here.
            Ok(bytes) => SnapshotDone::Taken {
                slot,
                digest: parts.digest(),
                bytes,
            },
            Err(error) => SnapshotDone::NotTaken {
                slot,
                reason: error.to_string(),
            },
        }
    }

    /// Holds the snapshot, or writes it piece by piece: beside the objects' own memory it takes none of its size.
    fn keep(
        &mut self,
        core: &SnapshotCore,
        images: Vec<ObjectImage>,
        parts: &PartsList,
        agreed: Slot,
    ) -> Result<u64, StorageError> {
        let front = snapshot_front(core, self.names.iter().map(String::as_str));
        let before = front.len() + parts.bytes().len();
        let behind = images
            .iter()
            .map(|image| (IMAGE_HEAD_BYTES + image.image.len()) as u64);
        let size = BodySize {
            front: front.len() as u64,
            whole: before as u64 + behind.sum::<u64>(),
        };
        let slot = core.slot;
        match &mut self.held {
            Some(held) if is_worth_holding(before, &images) => {
                held.hold(slot, front, parts.bytes().clone(), images);
                self.store.let_go(self.group, slot)?;
            }
            Some(_) | None => {
                let digest = parts.digest();
                self.store
                    .save_from(self.group, slot, digest, size, agreed, |sink| {
                        put_body(sink, &front, parts.bytes(), &images)
                    })?;
                self.held.iter_mut().for_each(|held| held.let_go(slot));
            }
        }
        self.let_older_go(agreed)?;
        Ok(size.whole)
    }

    /// Keeps of both kinds together the newest snapshots and the agreed one, as the store does of its own.
    fn let_older_go(&mut self, agreed: Slot) -> Result<(), StorageError> {
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let mut slots = self.store.slots(self.group)?;
        slots.extend(held.slots());
        slots.sort_unstable();
        let older = slots.iter().rev().skip(SNAPSHOTS_KEPT);
        for slot in older.filter(|slot| **slot != agreed) {
            held.let_go(*slot);
            self.store.let_go(self.group, *slot)?;
        }
        Ok(())
    }

    fn read(&mut self, to: NodeId, slot: Slot, offset: u64, length: u32) -> SnapshotDone {
        let piece = self.piece(slot, offset, length);
        let message = piece.unwrap_or(ReplicaMessage::NoSnapshot { slot });
        SnapshotDone::Piece { to, message }
    }

    fn piece(&mut self, slot: Slot, offset: u64, length: u32) -> Option<ReplicaMessage> {
        if let Some(held) = &mut self.held
            && let Some((data, total)) = held.read(slot, (offset, length), Instant::now())
        {
            return (!data.is_empty()).then_some(ReplicaMessage::Chunk {
                slot,
                offset,
                total,
                data,
            });
        }
        let place = self.outgoing.iter().position(|(held, _)| *held == slot);
        let place = match place {
            Some(place) => place,
            None => {
                let found = self.store.open_at(self.group, slot).ok()??;
                if self.outgoing.len() == OUTGOING_MAX {
                    self.outgoing.remove(0);
                }
                self.outgoing.push((slot, found));
                self.outgoing.len() - 1
            }
        };
        let kept = &self.outgoing[place].1;
        let data = kept.read(offset, length).ok()?;
        (!data.is_empty()).then(|| ReplicaMessage::Chunk {
            slot,
            offset,
            total: kept.bytes(),
            data,
        })
    }

    /// A removed snapshot takes its space as long as it is open.
    fn let_removed_go(&mut self) {
        if !self.outgoing.is_empty() {
            let kept = self.store.slots(self.group).unwrap_or_default();
            self.outgoing.retain(|(slot, _)| kept.contains(slot));
        }
    }

    fn store_piece(&mut self, slot: Slot, offset: u64, total: u64, data: &Bytes) {
        if offset == 0 && total <= SNAPSHOT_BYTES_MAX {
            // What came before is let go first. Room for all at once: growing would copy it, and hold it twice meanwhile.
            self.incoming = None;
            let mut bytes = Vec::new();
            if bytes.try_reserve_exact(total as usize).is_ok() {
                self.incoming = Some(Incoming { slot, total, bytes });
            }
        }
        let Some(incoming) = &mut self.incoming else {
            return;
        };
        let continues = incoming.slot == slot
            && incoming.total == total
            && incoming.bytes.len() as u64 == offset;
        if continues && offset + data.len() as u64 <= total {
            incoming.bytes.extend_from_slice(data);
        } else {
            self.incoming = None;
        }
    }

    fn install(&mut self, slot: Slot, agreed: Digest) -> SnapshotResult {
        match self.check(slot, agreed) {
            Ok((images, installed)) => (SnapshotDone::Fetched { slot, images }, Some(installed)),
            Err(reason) => (SnapshotDone::NotFetched { slot, reason }, None),
        }
    }

    fn check(
        &mut self,
        slot: Slot,
        agreed: Digest,
    ) -> Result<(Vec<ObjectImage>, Installed), String> {
        let incoming = self.incoming.take().ok_or("pieces are missing")?;
        if incoming.slot != slot || incoming.bytes.len() as u64 != incoming.total {
            return Err("pieces are missing".to_owned());
        }
        let bytes = Bytes::from(incoming.bytes);
        let (core, images) = open(&bytes, &self.names)?;
        if core.slot != slot {
            return Err(format!("it holds {} and was sent as {slot}", core.slot));
        }
        let front = snapshot_front_bytes(&bytes).map_err(|error| error.to_string())?;
        let mut parts = PartsCheck::default();
        parts.update(&bytes[front..]);
        let digest = parts
            .digest()
            .ok_or("a part of it is not what its list says")?;
        let held = Digest {
            replicated: core.digest(),
            state: digest,
        };
        if held != agreed {
            return Err(format!(
                "it holds {held:?}, and a majority agreed on {agreed:?}"
            ));
        }
        let size = BodySize {
            front: front as u64,
            whole: bytes.len() as u64,
        };
        let saved = self
            .store
            .save_from(self.group, slot, digest, size, slot, |sink| sink(&bytes));
        let kept = saved.and_then(|()| {
            self.held.iter_mut().for_each(|held| held.let_go(slot));
            self.let_older_go(slot)
        });
        self.let_removed_go();
        kept.map_err(|error: StorageError| error.to_string())?;
        let bytes = size.whole;
        Ok((
            images,
            Installed {
                core,
                digest,
                bytes,
            },
        ))
    }
}

/// Hands over the bytes of a snapshot, front to back.
fn put_body(
    sink: &mut PieceSink<'_>,
    front: &[u8],
    parts: &[u8],
    images: &[ObjectImage],
) -> Result<(), StorageError> {
    sink(front)?;
    sink(parts)?;
    for ObjectImage { object, image } in images {
        sink(&image_head(*object, image.len() as u64))?;
        for piece in image.pieces() {
            sink(piece)?;
        }
    }
    Ok(())
}

/// A snapshot's bytes as the replica's part and the objects' images, by number.
pub(crate) fn open(
    bytes: &Bytes,
    names: &[String],
) -> Result<(SnapshotCore, Vec<ObjectImage>), String> {
    let snapshot = Snapshot::take(bytes).map_err(|error| error.to_string())?;
    if snapshot.names != names {
        return Err(format!(
            "its objects are {}, and this group's {}",
            snapshot.names.join(", "),
            names.join(", ")
        ));
    }
    let images = snapshot.images.into_iter().map(|stored| ObjectImage {
        object: stored.object,
        image: stored.image.into(),
    });
    Ok((snapshot.core, images.collect()))
}

/// The snapshot to start from beside a log that has `past`. A node that noted that its objects differ begins with what it has, and heals
/// where everybody sees it.
pub(crate) fn to_start_from(
    store: &SnapshotStore<DirectoryDisk>,
    group: GroupId,
    (past, is_diverged): (&Past, bool),
) -> Result<Option<Verified>, StorageError> {
    let agreed = past.agreed().filter(|_| !is_diverged);
    store.to_start_from(group, past.whole_after(), |found| {
        let snapshot = Snapshot::take(&found.bytes);
        let is_refuted = |one: Snapshot| one.core.is_refuted(found.digest, agreed);
        let is_refuted = snapshot.is_ok_and(is_refuted);
        if is_refuted {
            tracing::warn!(slot = %found.slot, "a snapshot that differs from the agreed one is removed");
        }
        is_refuted
    })
}

#[cfg(test)]
pub(crate) mod tests;
