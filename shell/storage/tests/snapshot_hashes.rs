//! What covers which bytes of a snapshot file: the file's own hash the front, the digest of the state the rest.

use quorate_storage::{BodySize, SimDisk, SnapshotStore, StorageError};
use quorate_types::{ClusterId, GroupId, PartsWriter, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const GROUP: GroupId = GroupId(3);
const NAME: &str = "snap-00000003-000000000000000a";
const HEAD_BYTES: u64 = 512;

/// A snapshot of group 3 at slot 10 with a front of 1000 bytes, and `digest` for the rest.
fn save(disk: &SimDisk, content: &[u8], digest: [u8; 32]) -> SnapshotStore<SimDisk> {
    let store = SnapshotStore::open(disk.clone(), CLUSTER).unwrap();
    let size = BodySize {
        front: 1000,
        whole: content.len() as u64,
    };
    let saved = store.save_from(GROUP, Slot(10), digest, size, Slot(10), |sink| {
        content.chunks(700).try_for_each(sink)
    });
    saved.unwrap();
    store
}

fn content() -> (Vec<u8>, [u8; 32]) {
    let bytes: Vec<u8> = (0..9000_u32).map(|at| (at % 251) as u8).collect();
    let (front, rest) = bytes.split_at(1000);
    let mut parts = PartsWriter::default();
    for part in rest.chunks(3000) {
        parts.part(part.len() as u64, blake3::hash(part).as_bytes());
    }
    let parts = parts.finish();
    ([front, parts.bytes(), rest].concat(), parts.digest())
}

/// Whether both ways of reading it take the snapshot.
fn is_taken(store: &SnapshotStore<SimDisk>) -> bool {
    let is_opened = store.open_at(GROUP, Slot(10)).unwrap().is_some();
    let is_read = store.at(GROUP, Slot(10)).unwrap().is_some();
    assert_eq!(is_opened, is_read);
    is_read
}

#[test]
fn a_damaged_byte_is_found_in_the_front_and_behind_it() {
    let (content, digest) = content();
    let last = content.len() as u64 - 1;
    for at in [0, 999, 1000, 1010, 5000, last] {
        let disk = SimDisk::new();
        let store = save(&disk, &content, digest);
        assert!(is_taken(&store));
        disk.flip(NAME, HEAD_BYTES + at, 4);
        assert!(!is_taken(&store), "byte {at}");
        assert_eq!(store.newest(GROUP).unwrap(), None);
    }
}

#[test]
fn images_that_are_not_those_of_the_digest_are_never_read_back() {
    let (content, mut digest) = content();
    digest[7] ^= 1;
    assert!(!is_taken(&save(&SimDisk::new(), &content, digest)));
}

#[test]
fn a_snapshot_of_a_layout_before_is_refused_and_not_removed() {
    let disk = SimDisk::new();
    let (content, digest) = content();
    drop(save(&disk, &content, digest));
    // The last byte of the magic: `3` becomes `2` or `1`, and `3` again.
    for bits in [1, 2] {
        disk.flip(NAME, 11, bits);
        let opened = SnapshotStore::open(disk.clone(), CLUSTER);
        let Err(StorageError::Layout(reason)) = opened else {
            panic!("{opened:?}");
        };
        assert!(reason.contains(NAME), "{reason}");
        disk.flip(NAME, 11, bits);
    }
    assert!(is_taken(&SnapshotStore::open(disk, CLUSTER).unwrap()));
}
