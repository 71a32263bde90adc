//! The thread that writes, reads and checks snapshots. It knows neither the replica nor the loop.

use crate::limits::{OUTGOING_MAX, SNAPSHOT_BYTES_MAX};
use crate::snapshots::{Installed, SnapshotDone, SnapshotResult};
use bytes::Bytes;
use mio::Waker;
use quorate_host::{ObjectImage, images_digest};
use quorate_replica::{ReplicaMessage, SnapshotCore};
use quorate_storage::{
    BodySize, DirectoryDisk, DirectoryFile, KeptSnapshot, PeerMemory, SnapshotStore, StorageError,
};
use quorate_types::{Digest, GroupId, NodeId, ObjectId, PeerPast, Slot};
use quorate_wire::{IMAGE_HEAD_BYTES, Snapshot, image_head, snapshot_front, snapshot_front_bytes};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// One piece of work.
pub(crate) enum ThreadJob {
    /// Write a snapshot of this node.
    Save {
        core: Box<SnapshotCore>,
        images: Vec<ObjectImage>,
        digest: [u8; 32],
        /// The newest agreed one, which stays.
        agreed: Slot,
    },
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
}

impl Worker {
    pub(crate) fn new(
        (store, home): (SnapshotStore<DirectoryDisk>, DirectoryDisk),
        group: GroupId,
        names: Vec<String>,
        reports: Sender<SnapshotResult>,
        waker: Arc<Waker>,
    ) -> Worker {
        Worker {
            store,
            home,
            group,
            names,
            reports,
            waker,
            outgoing: Vec::new(),
            incoming: None,
        }
    }

    /// Works until the loop is gone.
    pub(crate) fn run(mut self, jobs: &Receiver<ThreadJob>) {
        while let Ok(job) = jobs.recv() {
            let report = match job {
                ThreadJob::Save {
                    core,
                    images,
                    digest,
                    agreed,
                } => Some((self.save(&core, &images, digest, agreed), None)),
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
            })
            .collect();
        if let Err(error) = PeerMemory::store(&peers, &self.home) {
            tracing::warn!(%error, "cannot write what was seen of the peers");
        }
    }

    fn save(
        &mut self,
        core: &SnapshotCore,
        images: &[ObjectImage],
        digest: [u8; 32],
        agreed: Slot,
    ) -> SnapshotDone {
        let slot = core.slot;
        let written = self.write(core, images, digest, agreed);
        self.let_removed_go();
        match written {
            // A peer that fetches an older one goes on with it as long as it is kept here.
            Ok(bytes) => SnapshotDone::Taken {
                slot,
                digest,
                bytes,
            },
            Err(error) => SnapshotDone::NotTaken {
                slot,
                reason: error.to_string(),
            },
        }
    }

    /// Writes the snapshot piece by piece: beside the objects' own memory it takes none of its size.
    fn write(
        &self,
        core: &SnapshotCore,
        images: &[ObjectImage],
        digest: [u8; 32],
        agreed: Slot,
    ) -> Result<u64, StorageError> {
        let front = snapshot_front(core, self.names.iter().map(String::as_str));
        let behind = images
            .iter()
            .map(|image| (IMAGE_HEAD_BYTES + image.image.len()) as u64);
        let size = BodySize {
            front: front.len() as u64,
            whole: front.len() as u64 + behind.sum::<u64>(),
        };
        self.store
            .save_from(self.group, core.slot, digest, size, agreed, |sink| {
                sink(&front)?;
                for ObjectImage { object, image } in images {
                    sink(&image_head(*object, image.len() as u64))?;
                    for piece in image.pieces() {
                        sink(piece)?;
                    }
                }
                Ok(())
            })?;
        Ok(size.whole)
    }

    fn read(&mut self, to: NodeId, slot: Slot, offset: u64, length: u32) -> SnapshotDone {
        let piece = self.piece(slot, offset, length);
        let message = piece.unwrap_or(ReplicaMessage::NoSnapshot { slot });
        SnapshotDone::Piece { to, message }
    }

    fn piece(&mut self, slot: Slot, offset: u64, length: u32) -> Option<ReplicaMessage> {
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
        let digest = images_digest(&images);
        let held = Digest {
            replicated: core.digest(),
            state: digest,
        };
        if held != agreed {
            return Err(format!(
                "it holds {held:?}, and a majority agreed on {agreed:?}"
            ));
        }
        let front = snapshot_front_bytes(&bytes).map_err(|error| error.to_string())?;
        let size = BodySize {
            front: front as u64,
            whole: bytes.len() as u64,
        };
        let saved = self
            .store
            .save_from(self.group, slot, digest, size, slot, |sink| sink(&bytes));
        self.let_removed_go();
        saved.map_err(|error: StorageError| error.to_string())?;
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

/// A snapshot's bytes as the replica's part and the objects' images, by number.
pub(crate) fn open(
    bytes: &Bytes,
    names: &[String],
) -> Result<(SnapshotCore, Vec<ObjectImage>), String> {
    let snapshot = Snapshot::take(bytes).map_err(|error| error.to_string())?;
    let mut images = Vec::new();
    for (number, object) in snapshot.objects.into_iter().enumerate() {
        if names.get(number) != Some(&object.name) {
            return Err(format!(
                "its object number {number} is named {}, and this group's is not",
                object.name
            ));
        }
        images.push(ObjectImage {
            object: ObjectId(u32::try_from(number).expect("a group has few objects")),
            image: object.image.into(),
        });
    }
    if images.len() != names.len() {
        return Err(format!(
            "it holds {} of {} objects",
            images.len(),
            names.len()
        ));
    }
    Ok((snapshot.core, images))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{
        Ballot, ClusterId, Incarnation, Member, NodeSet, Persistence, Quorums, Stamp, View,
        ViewNumber,
    };
    use std::path::Path;
    use std::sync::mpsc::channel;

    const GROUP: GroupId = GroupId(3);

    fn core(slot: Slot) -> SnapshotCore {
        let nodes = NodeSet::only(NodeId(1));
        SnapshotCore {
            slot,
            stamp: Stamp::default(),
            replies_digest: 0,
            view: View {
                number: ViewNumber(1),
                first_slot: Slot(1),
                members: vec![Member {
                    node: NodeId(1),
                    incarnation: Incarnation(1),
                    address: "h:1".to_owned(),
                }],
                replicas: nodes,
                acceptors: nodes,
                quorums: Quorums::majority(1).unwrap(),
                window: 64,
                persistence: Persistence::Disk,
                objects: Vec::new(),
            },
            lead_ballot: Ballot::ZERO,
            lead_slot: Slot::ZERO,
            sessions: Vec::new(),
        }
    }

    fn worker(directory: &Path) -> Worker {
        let disk = || DirectoryDisk::open(directory).unwrap();
        let store = SnapshotStore::open(disk(), ClusterId(7)).unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let names = vec!["it".to_owned()];
        Worker::new((store, disk()), GROUP, names, channel().0, waker)
    }

    fn save(worker: &mut Worker, slot: u64) {
        let image = ObjectImage {
            object: ObjectId(0),
            image: vec![1; 1000].into(),
        };
        let images = [image];
        let digest = images_digest(&images);
        let done = worker.save(&core(Slot(slot)), &images, digest, Slot(slot));
        assert!(matches!(done, SnapshotDone::Taken { .. }));
    }

    #[test]
    fn a_snapshot_that_newer_ones_have_replaced_is_held_open_for_no_peer() {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = worker(directory.path());
        save(&mut worker, 10);
        assert!(worker.piece(Slot(10), 0, 100).is_some());
        save(&mut worker, 11);
        assert!(worker.piece(Slot(10), 100, 100).is_some(), "it is kept yet");
        save(&mut worker, 12);
        assert!(worker.outgoing.is_empty(), "its space is free");
        assert!(worker.piece(Slot(10), 200, 100).is_none());
        assert!(worker.piece(Slot(12), 0, 100).is_some());
    }
}
