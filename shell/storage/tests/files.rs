//! Identity, snapshots and the log thread, on real directories and on disks that crash.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;

use quorate_storage::Room;
use quorate_storage::{
    Append, DirectoryDisk, Disk, DiskOperation, Fault, Identity, Log, LogWriter, Offer, Persist,
    RecoveredRecord, SimDisk, SnapshotStore, StorageError, StorageLimits, Verified,
};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);
const GROUP: GroupId = GroupId(0);

fn identity() -> Identity {
    Identity {
        lived: true,
        ..Identity::new(CLUSTER, NODE, Incarnation(99), Persist::Memory)
    }
}

#[test]
fn a_directory_is_made_once_and_counts_its_boots() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    assert!(matches!(
        Identity::open(&path),
        Err(StorageError::NotInitialised(_))
    ));
    Identity::init(&path, CLUSTER, NODE, Incarnation(99), Persist::Disk).unwrap();
    assert!(matches!(
        Identity::init(&path, CLUSTER, NODE, Incarnation(99), Persist::Disk),
        Err(StorageError::AlreadyInitialised(_))
    ));
    for boot in 1..4 {
        let mut open = Identity::open(&path).unwrap();
        assert_eq!(
            (open.identity().boot, open.identity().incarnation),
            (boot, Incarnation(99))
        );
        open.mark_lived().unwrap();
    }
    assert!(Identity::open(&path).unwrap().identity().lived);
}

#[test]
fn a_directory_with_something_else_in_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("photo"), b"x").unwrap();
    assert!(matches!(
        Identity::init(dir.path(), CLUSTER, NODE, Incarnation(99), Persist::Disk),
        Err(StorageError::NotEmpty(_))
    ));
    assert!(matches!(
        Identity::open(dir.path()),
        Err(StorageError::NotInitialised(_))
    ));
}

#[test]
fn a_directory_is_closed_to_others_also_one_that_was_open_to_them() {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    Identity::init(&path, CLUSTER, NODE, Incarnation(99), Persist::Disk).unwrap();
    assert_eq!(mode(&path), 0o700);
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let open = Identity::open(&path).unwrap();
    open.log_disk().unwrap();
    for path in [&path, &path.join("log")] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
}

#[test]
fn a_directory_stays_locked_when_its_lock_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    Identity::init(dir.path(), CLUSTER, NODE, Incarnation(99), Persist::Disk).unwrap();
    let _held = Identity::open(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join("lock")).unwrap();
    let second = Identity::open(dir.path());
    assert!(matches!(second, Err(StorageError::Locked { .. })));
}

#[test]
fn a_second_opening_of_a_directory_is_refused_with_the_process_that_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    Identity::init(dir.path(), CLUSTER, NODE, Incarnation(99), Persist::Disk).unwrap();
    let held = Identity::open(dir.path()).unwrap();
    let Err(StorageError::Locked { pid, .. }) = Identity::open(dir.path()) else {
        panic!("opened twice")
    };
    assert_eq!(pid, Some(std::process::id()));
    drop(held);
    assert_eq!(
        Identity::open(dir.path()).unwrap().identity().boot,
        2,
        "a refused opening is no boot"
    );
}

#[test]
fn one_damaged_copy_of_the_identity_is_survived_and_two_are_amnesia() {
    let disk = SimDisk::new();
    identity().create_on(&disk).unwrap();
    disk.flip("identity-a", 20, 1);
    assert_eq!(Identity::load(&disk), Ok(identity()));
    disk.flip("identity-b", 20, 1);
    assert_eq!(Identity::load(&disk), Err(StorageError::Amnesia));
    disk.remove("identity-a").unwrap();
    assert_eq!(Identity::load(&disk), Err(StorageError::Amnesia));
}

#[test]
fn a_crash_at_any_step_of_storing_an_identity_leaves_the_old_or_the_new() {
    for stop in 0..12 {
        for seed in 0..30 {
            let disk = SimDisk::new();
            identity().create_on(&disk).unwrap();
            let next = Identity {
                boot: 1,
                ..identity()
            };
            disk.stop_after(stop);
            let stored = next.store(&disk).is_ok();
            disk.crash_seeded(seed);
            let found = Identity::load(&disk).unwrap();
            assert!(
                found == next || (!stored && found == identity()),
                "stop {stop} seed {seed}"
            );
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_snapshot_leaves_the_one_before_or_the_new_one() {
    let (old, new) = (vec![1u8; 3000], vec![2u8; 5000]);
    for stop in 0..10 {
        for seed in 0..40 {
            let disk = SimDisk::new();
            let store = SnapshotStore::open(disk.clone(), CLUSTER).unwrap();
            store
                .save(GroupId(3), Slot(10), [1; 32], &old, Slot(10))
                .unwrap();
            disk.stop_after(stop);
            let saved = store
                .save(GroupId(3), Slot(20), [2; 32], &new, Slot(20))
                .is_ok();
            disk.crash_seeded(seed);
            let store = SnapshotStore::open(disk, CLUSTER).unwrap();
            let found = store
                .newest(GroupId(3))
                .unwrap()
                .expect("one is always there");
            match found.slot {
                Slot(20) => assert_eq!((&found.bytes[..], found.digest), (&new[..], [2; 32])),
                _ => assert!(
                    !saved && found.slot == Slot(10) && found.bytes == old,
                    "stop {stop} seed {seed}"
                ),
            }
        }
    }
}

/// Saves a snapshot of group 3 at `slot`, which is the agreed one.
fn save(store: &SnapshotStore<SimDisk>, slot: u64) {
    let (at, bytes) = (Slot(slot), [slot as u8; 2000]);
    store.save(GroupId(3), at, [0; 32], &bytes, at).unwrap();
}

#[test]
fn a_snapshot_is_read_in_parts_while_newer_ones_replace_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(DirectoryDisk::open(dir.path()).unwrap(), CLUSTER).unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i >> 8) as u8).collect();
    let save = |slot, bytes: &[u8]| {
        let saved = store.save(GroupId(3), Slot(slot), [1; 32], bytes, Slot(slot));
        saved.unwrap();
    };
    save(10, &content);
    let kept = store.open_at(GroupId(3), Slot(10)).unwrap().unwrap();
    for slot in 11..14 {
        save(slot, b"small");
    }
    assert!(store.open_at(GroupId(3), Slot(10)).unwrap().is_none());
    let mut read = Vec::new();
    while (read.len() as u64) < kept.bytes() {
        read.extend_from_slice(&kept.read(read.len() as u64, 700_000).unwrap());
    }
    assert!(read == content, "the parts make the whole");
    assert!(kept.read(content.len() as u64, 1).unwrap().is_empty());
}

#[test]
fn no_part_is_read_of_a_snapshot_with_a_damaged_byte_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(DirectoryDisk::open(dir.path()).unwrap(), CLUSTER).unwrap();
    let (at, content) = (Slot(10), vec![7; 3_000_000]);
    store.save(GroupId(3), at, [1; 32], &content, at).unwrap();
    let path = dir.path().join("snap-00000003-000000000000000a");
    let whole = std::fs::read(&path).unwrap();
    for from_end in [1, content.len() / 2, content.len()] {
        let mut damaged = whole.clone();
        damaged[whole.len() - from_end] ^= 4;
        std::fs::write(&path, damaged).unwrap();
        assert!(store.open_at(GroupId(3), at).unwrap().is_none());
    }
}

#[test]
fn a_damaged_snapshot_gives_way_to_the_one_before_and_two_are_kept() {
    let disk = SimDisk::new();
    let store = SnapshotStore::open(disk.clone(), CLUSTER).unwrap();
    for slot in [10, 20, 30] {
        save(&store, slot);
    }
    assert_eq!(store.slots(GroupId(3)).unwrap(), [Slot(20), Slot(30)]);
    disk.flip("snap-00000003-000000000000001e", 1500, 4);
    assert_eq!(store.newest(GroupId(3)).unwrap().unwrap().slot, Slot(20));
    assert_eq!(store.slots(GroupId(3)).unwrap(), [Slot(20)]);
    disk.fail(Fault {
        operation: DiskOperation::Write,
        skip: 0,
        times: 1,
        kind: std::io::ErrorKind::StorageFull,
    });
    assert!(matches!(
        store.save(GroupId(3), Slot(40), [0; 32], &[4; 2000], Slot(40)),
        Err(StorageError::Full { .. })
    ));
    assert_eq!(store.newest(GroupId(3)).unwrap().unwrap().slot, Slot(20));
    assert_eq!(
        SnapshotStore::open(disk, ClusterId(8))
            .unwrap()
            .newest(GroupId(3))
            .unwrap(),
        None,
        "another cluster's snapshot counts for nothing"
    );
}

/// Claim rp-135.
#[test]
fn a_start_removes_a_snapshot_that_is_refuted_and_takes_the_next() {
    let store = SnapshotStore::open(SimDisk::new(), CLUSTER).unwrap();
    for slot in [20, 30] {
        save(&store, slot);
    }
    let start = |wrong: &[u64]| {
        let refuted = |found: &Verified| wrong.contains(&found.slot.0);
        let found = store.to_start_from(GroupId(3), Some(Slot(20)), refuted);
        found.unwrap().map(|found| found.slot)
    };
    assert_eq!(start(&[20]), Some(Slot(30)));
    assert_eq!(start(&[]), Some(Slot(30)), "it is gone");
    assert_eq!(start(&[30]), None);
}

#[test]
fn a_start_takes_the_oldest_snapshot_that_the_log_continues() {
    let store = SnapshotStore::open(SimDisk::new(), CLUSTER).unwrap();
    for slot in [20, 30] {
        save(&store, slot);
    }
    let start = |whole_after| {
        let found = store
            .to_start_from(GroupId(3), whole_after, |_| false)
            .unwrap();
        found.map(|found| found.slot)
    };
    assert_eq!(start(Some(Slot(20))), Some(Slot(20)));
    assert_eq!(
        start(Some(Slot(15))),
        Some(Slot(20)),
        "the newer one skips slots that only the log has"
    );
    assert_eq!(start(Some(Slot(21))), Some(Slot(30)));
    assert_eq!(start(Some(Slot(0))), None, "the log has everything");
    assert_eq!(start(None), Some(Slot(30)));
    let others = |started| -> Vec<u64> {
        let others = store.others(GroupId(3), started).unwrap();
        others.map(|found| found.slot.0).collect()
    };
    assert_eq!(
        (others(Some(Slot(20))), others(None)),
        (vec![30], vec![20, 30])
    );
}

#[test]
fn a_received_snapshot_resumes_where_it_was_noted_and_a_wrong_one_is_refused() {
    let body: Vec<u8> = (0..9000u32).map(|byte| byte as u8).collect();
    let hash = *blake3::hash(&body).as_bytes();
    let offer = Offer {
        group: GroupId(3),
        slot: Slot(50),
        digest: [9; 32],
        hash,
        bytes: 9000,
    };
    let disk = SimDisk::new();
    let store = SnapshotStore::open(disk.clone(), CLUSTER).unwrap();
    let mut receiving = store.receive(offer).unwrap();
    receiving.write(&body[..4000]).unwrap();
    receiving.note().unwrap();
    receiving.write(&body[4000..6000]).unwrap();
    disk.crash(|_| 0);
    let store = SnapshotStore::open(disk.clone(), CLUSTER).unwrap();
    assert_eq!(
        store.newest(GroupId(3)).unwrap(),
        None,
        "a part is never chosen"
    );
    let mut receiving = store.receive(offer).unwrap();
    assert_eq!(receiving.offset(), 4000);
    receiving.write(&body[4000..]).unwrap();
    assert_eq!(receiving.finish().unwrap().bytes, body);
    disk.crash(|_| 0);
    assert_eq!(store.newest(GroupId(3)).unwrap().unwrap().digest, [9; 32]);
    assert!(
        matches!(
            store.receive(Offer {
                slot: Slot(40),
                ..offer
            }),
            Err(StorageError::BadSnapshot(_))
        ),
        "older than local"
    );
    let mut wrong = store
        .receive(Offer {
            slot: Slot(60),
            ..offer
        })
        .unwrap();
    wrong.write(&vec![0; 9000]).unwrap();
    assert!(matches!(wrong.finish(), Err(StorageError::BadSnapshot(_))));
    assert_eq!(store.newest(GroupId(3)).unwrap().unwrap().slot, Slot(50));
}

fn record(slot: u64) -> Append {
    Append {
        group: GroupId(0),
        slot: Slot(slot),
        record: vec![slot as u8; 100].into(),
    }
}

#[test]
fn the_log_thread_publishes_the_durable_mark_and_what_it_published_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = DirectoryDisk::open(dir.path()).unwrap();
    let limits = StorageLimits {
        segment_bytes: 256 << 10,
        record_bytes_max: 64 << 10,
        reserve_bytes: 32 << 10,
        ..StorageLimits::default()
    };
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, limits).unwrap();
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    for mark in 1..=500 {
        writer
            .append(mark, vec![record(mark), record(mark)])
            .unwrap();
    }
    while writer.durable_mark() < 500 {
        notified.recv().unwrap();
    }
    writer.close().unwrap();
    let (_, recovered) = Log::open(disk, CLUSTER, NODE, limits).unwrap();
    assert_eq!(recovered.len(), 1000);
    assert!(
        recovered
            .iter()
            .all(|item| matches!(item, RecoveredRecord::Record { .. }))
    );
}

#[test]
fn a_failed_sync_reaches_the_owner_of_the_log_thread_and_no_mark_is_published() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    disk.fail(Fault {
        operation: DiskOperation::Sync,
        skip: 0,
        times: u64::MAX,
        kind: std::io::ErrorKind::Other,
    });
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    writer.append(1, vec![record(1)]).unwrap();
    while writer.failure().is_none() {
        notified.recv().unwrap();
    }
    assert!(writer.failure().unwrap().is_fatal());
    assert_eq!(writer.durable_mark(), 0);
    assert!(writer.append(2, vec![record(2)]).is_err());
    assert!(writer.close().is_err());
}

#[test]
fn a_full_disk_holds_the_log_thread_until_a_discard_makes_room() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    disk.set_capacity(Some(3 * StorageLimits::small().segment_bytes));
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    for mark in 1..=400 {
        writer.append(mark, vec![record(mark)]).unwrap();
        if mark % 4 == 0 && writer.room() != Room::Full {
            // One commit for a few, so that the segments fill.
            notified.recv().unwrap();
        }
    }
    let mut discarded = 0;
    while writer.durable_mark() < 400 {
        notified.recv().unwrap();
        let durable = writer.durable_mark();
        if durable > discarded {
            writer
                .discard(GROUP, Slot(durable), vec![1; 40].into())
                .unwrap();
            discarded = durable;
        }
    }
    writer.close().unwrap();
}

#[test]
fn a_snapshot_of_any_size_comes_back_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(DirectoryDisk::open(dir.path()).unwrap(), CLUSTER).unwrap();
    for (slot, size) in [
        0,
        1,
        3583,
        3584,
        3585,
        7680,
        7681,
        (1 << 20) + 3584,
        (3 << 20) + 77,
    ]
    .into_iter()
    .enumerate()
    {
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        store
            .save(GroupId(3), Slot(slot as u64), [1; 32], &bytes, Slot(0))
            .unwrap();
        assert_eq!(
            store.newest(GroupId(3)).unwrap().unwrap().bytes,
            bytes,
            "{size} bytes"
        );
    }
}

/// A disk that asks the test before it removes a segment.
#[derive(Clone)]
struct AskedRemoval {
    disk: SimDisk,
    ask: std::sync::Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>,
}

impl Disk for AskedRemoval {
    type File = quorate_storage::SimFile;

    fn list(&self) -> std::io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, bytes: u64) -> std::io::Result<Self::File> {
        self.disk.create(name, bytes)
    }

    fn open(&self, name: &str) -> std::io::Result<Self::File> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        if name.starts_with("log-") {
            (self.ask)()?;
        }
        self.disk.remove(name)
    }

    fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }

    fn sync_dir(&self) -> std::io::Result<()> {
        self.disk.sync_dir()
    }
}

fn segment_files(disk: &SimDisk) -> usize {
    let names = disk.list().unwrap().into_iter();
    names.filter(|name| name.starts_with("log-")).count()
}

#[test]
fn commits_go_on_while_trimmed_segments_are_being_removed() {
    let gate = std::sync::Arc::new(std::sync::Mutex::new(()));
    let asked = gate.clone();
    let disk = AskedRemoval {
        disk: SimDisk::new(),
        ask: std::sync::Arc::new(move || {
            drop(asked.lock());
            Ok(())
        }),
    };
    let (log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    // Released before the writer is dropped, also when the test fails.
    let held = gate.lock().unwrap();
    let append = |mark: u64| {
        writer.append(mark, vec![record(mark)]).unwrap();
        while writer.durable_mark() < mark {
            notified
                .recv_timeout(std::time::Duration::from_secs(10))
                .expect("a commit does not wait for a removal");
        }
    };
    (1..=300).for_each(append);
    let before = segment_files(&disk.disk);
    writer
        .discard(GROUP, Slot(300), vec![1; 40].into())
        .unwrap();
    (301..=320).for_each(append);
    // Some of the trimmed files have become the next segments.
    assert!(
        segment_files(&disk.disk) + 3 >= before,
        "no removal has ended yet"
    );
    drop(held);
    writer.close().unwrap();
    let (log, recovered) =
        Log::open(disk.disk.clone(), CLUSTER, NODE, StorageLimits::small()).unwrap();
    assert_eq!(recovered.len(), 21, "the base and what came after it");
    assert_eq!(
        segment_files(&disk.disk),
        log.segments(),
        "the opening removes what the end of the thread has left"
    );
}

#[test]
fn a_failed_removal_ends_the_log_thread_and_reaches_its_owner() {
    let disk = AskedRemoval {
        disk: SimDisk::new(),
        ask: std::sync::Arc::new(|| Err(std::io::ErrorKind::PermissionDenied.into())),
    };
    let (log, _) = Log::open(disk, CLUSTER, NODE, StorageLimits::small()).unwrap();
    let (notify, notified) = mpsc::channel();
    let writer = LogWriter::spawn(log, move || notify.send(()).unwrap_or(()));
    for mark in 1..=300 {
        writer.append(mark, vec![record(mark)]).unwrap();
        while writer.durable_mark() < mark {
            notified.recv().unwrap();
        }
    }
    writer
        .discard(GROUP, Slot(300), vec![1; 40].into())
        .unwrap();
    while writer.failure().is_none() {
        notified
            .recv_timeout(std::time::Duration::from_secs(10))
            .expect("the failure is told");
    }
    assert!(writer.failure().unwrap().is_fatal());
    assert!(writer.append(301, vec![record(301)]).is_err());
    assert!(writer.close().is_err());
}
