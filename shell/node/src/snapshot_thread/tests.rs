//! Snapshots that a node saves, fetches and gives, in files and in memory.

use super::*;
use quorate_host::{Image, SharedPiece, images_list};
use quorate_types::{
    Ballot, ClusterId, GroupLimits, Incarnation, Member, NodeSet, ObjectId, Persistence, Quorums,
    Stamp, View, ViewNumber,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;

const GROUP: GroupId = GroupId(3);

pub(crate) fn core(slot: Slot) -> SnapshotCore {
    let nodes = NodeSet::only(NodeId(1));
    SnapshotCore {
        slot,
        stamp: Stamp::default(),
        replies_digest: 0,
        view: View {
            first_ballot: None,
            limits: GroupLimits::default(),
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
            rejoined: BTreeMap::new(),
            level: quorate_types::Level::UNNAMED,
            ordering: quorate_types::OrderingName::Paxos,
            persistence: Persistence::Disk,
            objects: Vec::new(),
        },
        lead_ballot: Ballot::ZERO,
        lead_slot: Slot::ZERO,
        reset: Slot::ZERO,
        invitations: Vec::new(),
        groups: Vec::new(),
        previous: None,
        next: None,
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
    let Some(ReplicaMessage::Chunk { total, data, .. }) = worker.piece(Slot(10), 0, 1 << 20) else {
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
