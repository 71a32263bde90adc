//! The thread that writes, reads and checks snapshots. It knows neither the replica nor the loop.

use crate::held_snapshots::{HeldSnapshots, is_worth_holding};
use crate::limits::{OUTGOING_MAX, SNAPSHOT_BYTES_MAX};
use crate::snapshots::{Installed, SnapshotDone, SnapshotResult};
use bytes::Bytes;
use mio::Waker;
use quorate_host::ObjectImage;
use quorate_replica::{ReplicaMessage, SnapshotCore};
use quorate_storage::{
    BodySize, DirectoryDisk, DirectoryFile, KeptSnapshot, PeerMemory, PieceSink, SNAPSHOTS_KEPT,
    SnapshotStore, StorageError,
};
use quorate_types::{Digest, GroupId, NodeId, PartsCheck, PartsList, PeerPast, Slot};
use quorate_wire::{IMAGE_HEAD_BYTES, Snapshot, image_head, snapshot_front, snapshot_front_bytes};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
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
        }
    }

    /// Works until the loop is gone.
    pub(crate) fn run(mut self, jobs: &Receiver<ThreadJob>) {
        while let Ok(job) = jobs.recv() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::{Image, SharedPiece, images_list};
    use quorate_types::{
        Ballot, ClusterId, Incarnation, Member, NodeSet, ObjectId, Persistence, Quorums, Stamp,
        View, ViewNumber,
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
            reset: Slot::ZERO,
            sessions: Vec::new(),
        }
    }

    fn worker(directory: &Path, held: Option<HeldSnapshots>) -> Worker {
        let disk = || DirectoryDisk::open(directory).unwrap();
        let store = SnapshotStore::open(disk(), ClusterId(7)).unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let names = vec!["it".to_owned()];
        Worker::new((store, disk()), held, GROUP, names, channel().0, waker)
    }

    fn save(worker: &mut Worker, slot: u64) {
        save_image(worker, slot, vec![1; 1000].into());
    }

    fn save_image(worker: &mut Worker, slot: u64, image: Image) {
        let object = ObjectId(0);
        let images = vec![ObjectImage { object, image }];
        let parts = images_list(&images);
        let done = worker.save(&core(Slot(slot)), images, &parts, Slot(slot));
        assert!(matches!(done, SnapshotDone::Taken { .. }));
    }

    fn save_shared(worker: &mut Worker, slot: u64) {
        let mut image = Image::default();
        image.push_shared(&SharedPiece::new(vec![2; 5000].into()));
        save_image(worker, slot, image);
    }

    #[test]
    fn a_snapshot_that_newer_ones_have_replaced_is_held_open_for_no_peer() {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = worker(directory.path(), None);
        save(&mut worker, 10);
        assert!(worker.piece(Slot(10), 0, 100).is_some());
        save(&mut worker, 11);
        assert!(worker.piece(Slot(10), 100, 100).is_some(), "it is kept yet");
        save(&mut worker, 12);
        assert!(worker.outgoing.is_empty(), "its space is free");
        assert!(worker.piece(Slot(10), 200, 100).is_none());
        assert!(worker.piece(Slot(12), 0, 100).is_some());
    }

    #[test]
    fn a_fetched_snapshot_with_a_changed_byte_is_not_installed() {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = worker(directory.path(), Some(HeldSnapshots::default()));
        let slot = Slot(10);
        let mut image = Image::default();
        image.push(vec![1; 100].into());
        image.push_shared(&SharedPiece::new(vec![2; 5000].into()));
        image.push(vec![3; 10].into());
        let object = ObjectId(0);
        let agreed = Digest {
            replicated: core(slot).digest(),
            state: images_list(&[ObjectImage {
                object,
                image: image.clone(),
            }])
            .digest(),
        };
        save_image(&mut worker, 10, image.clone());
        let Some(ReplicaMessage::Chunk { total, data, .. }) = worker.piece(slot, 0, 1 << 20) else {
            panic!("it is held");
        };
        let front = snapshot_front_bytes(&data).unwrap();
        let behind = [
            front,
            front + 10,
            front + 50,
            data.len() - 3000,
            data.len() - 1,
        ];
        for at in behind {
            let mut changed = data.to_vec();
            changed[at] ^= 1;
            worker.store_piece(slot, 0, total, &changed.into());
            assert!(worker.check(slot, agreed).is_err(), "byte {at}");
        }
        worker.store_piece(slot, 0, total, &data);
        let (images, installed) = worker.check(slot, agreed).expect("it is the agreed one");
        assert_eq!(images[0].image, image);
        assert_eq!((installed.digest, installed.bytes), (agreed.state, total));
    }

    #[test]
    fn in_memory_what_the_objects_share_is_in_no_file_and_is_sent_like_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = worker(directory.path(), Some(HeldSnapshots::default()));
        save_shared(&mut worker, 10);
        save(&mut worker, 11);
        assert_eq!(worker.store.slots(GROUP).unwrap(), [Slot(11)]);
        let Some(ReplicaMessage::Chunk { total, data, .. }) = worker.piece(Slot(10), 0, 1 << 20)
        else {
            panic!("it is held");
        };
        assert_eq!(total, data.len() as u64);
        let (read, images) = open(&data, &worker.names).unwrap();
        assert_eq!((read, images[0].image.len()), (core(Slot(10)), 5000));
        save_shared(&mut worker, 12);
        assert!(worker.piece(Slot(10), 0, 100).is_none(), "two are kept");
        save_shared(&mut worker, 13);
        let files = worker.store.slots(GROUP).unwrap();
        assert!(files.is_empty(), "two of both kinds together");
        save(&mut worker, 13);
        assert_eq!(worker.store.slots(GROUP).unwrap(), [Slot(13)]);
        let held: Vec<Slot> = worker.held.iter().flat_map(|held| held.slots()).collect();
        assert_eq!(held, [Slot(12)], "the newest state of a slot counts");
    }
}
