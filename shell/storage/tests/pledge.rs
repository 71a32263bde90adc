//! A log that lacks what the node had written is noticed, however it came to lack it; a crash never looks like that.

use quorate_storage::{
    Disk, DiskOperation, Fault, Identity, IdentityFile, Log, LogWriter, MemoryLoss, Persist,
    RecoveredRecord, Rejoined, SimDisk, StorageError, StorageLimits,
};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, Slot, ViewNumber};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);
const GROUP: GroupId = GroupId(0);

/// The log, what it gave back, and what its node has lost.
type Opened = (Log<SimDisk>, Vec<RecoveredRecord>, Option<MemoryLoss>);

/// The disks of one node.
struct Node {
    identity: SimDisk,
    log: SimDisk,
}

impl Node {
    fn init() -> Node {
        let node = Node {
            identity: SimDisk::new(),
            log: SimDisk::new(),
        };
        let identity = Identity::new(CLUSTER, NODE, Incarnation(99), Persist::Disk);
        identity.create_on(&node.identity).unwrap();
        node
    }

    fn fork(&self) -> Node {
        Node {
            identity: self.identity.fork(),
            log: self.log.fork(),
        }
    }

    fn open(&self) -> Result<Opened, StorageError> {
        let identity = IdentityFile::boot(self.identity.clone())?;
        let (log, recovered) = Log::open_of(self.log.clone(), &identity, StorageLimits::small())?;
        Ok((log, recovered, identity.get().loss))
    }

    fn loss(&self) -> Option<MemoryLoss> {
        let (_, _, loss) = self.open().expect("opens");
        loss
    }

    /// A node with a few segments, which has ended without a chance to put anything in order.
    fn lived() -> Node {
        let node = Node::init();
        write(&mut node.open().unwrap().0, 0..60).unwrap();
        node
    }

    fn segments(&self) -> Vec<String> {
        let mut names = self.log.list().unwrap();
        names.retain(|name| name.starts_with("log-"));
        names.sort();
        names
    }
}

fn write(log: &mut Log<SimDisk>, slots: std::ops::Range<u64>) -> Result<(), StorageError> {
    for slot in slots {
        log.append(GROUP, Slot(slot), &[slot as u8; 900])?;
        log.commit()?;
        log.make_room()?;
    }
    Ok(())
}

#[test]
fn a_log_that_is_whole_is_no_loss_however_often_it_is_opened() {
    let node = Node::lived();
    assert!(node.segments().len() > 2);
    for _ in 0..3 {
        assert_eq!(node.loss(), None);
        node.log.crash(|_| 0);
        node.identity.crash(|_| 0);
    }
}

/// Claim st-1.
#[test]
fn what_is_lost_stays_lost_from_view_to_view_until_the_node_comes_back() {
    let mut identity = Identity::new(CLUSTER, NODE, Incarnation(11), Persist::Disk);
    identity.loss = Some(MemoryLoss::LogShort);
    identity.begin_view(ViewNumber(2), None);
    assert_eq!(identity.loss, Some(MemoryLoss::LogShort));
    let (incarnation, view) = (Incarnation(12), ViewNumber(3));
    identity.begin_view(view, Some(Rejoined { incarnation, view }));
    assert_eq!(identity.loss, None);
    identity.begin_view(ViewNumber(4), None);
    assert_eq!(identity.votes_as(), incarnation);
    assert_eq!(identity.rejoined.map(|back| back.view), Some(view));
}

#[test]
fn a_log_directory_that_is_gone_is_a_loss_at_every_later_start() {
    let node = Node::lived();
    let emptied = Node {
        log: SimDisk::new(),
        identity: node.identity,
    };
    assert_eq!(emptied.loss(), Some(MemoryLoss::LogShort));
    let (mut log, _, loss) = emptied.open().unwrap();
    assert_eq!(loss, Some(MemoryLoss::LogShort));
    write(&mut log, 0..60).unwrap();
    assert_eq!(
        emptied.loss(),
        Some(MemoryLoss::LogShort),
        "a new log mends nothing"
    );
}

#[test]
fn a_removed_newest_segment_is_a_loss_and_so_are_all_segments_but_the_first() {
    let node = Node::lived();
    let names = node.segments();
    let shorter = node.fork();
    shorter.log.remove(names.last().unwrap()).unwrap();
    assert_eq!(shorter.loss(), Some(MemoryLoss::LogShort));
    let stump = node.fork();
    for name in stump.log.list().unwrap() {
        if name != names[0] {
            stump.log.remove(&name).unwrap();
        }
    }
    assert_eq!(stump.loss(), Some(MemoryLoss::LogShort));
}

#[test]
fn an_older_copy_of_the_log_is_a_loss_to_the_last_commit_after_an_orderly_end() {
    let node = Node::init();
    write(&mut node.open().unwrap().0, 0..3).unwrap();
    let copy = node.log.fork();
    let (log, _, _) = node.open().unwrap();
    let writer = LogWriter::spawn(log, || {});
    let record = quorate_storage::Append {
        group: GroupId(0),
        slot: Slot(3),
        record: vec![3; 900].into(),
    };
    writer.append(1, vec![record]).unwrap();
    writer.close().unwrap();
    let rolled_back = Node {
        log: copy,
        identity: node.identity.fork(),
    };
    assert_eq!(rolled_back.loss(), Some(MemoryLoss::LogShort));
    assert_eq!(node.loss(), None);
}

#[test]
fn an_older_copy_of_the_identity_is_a_loss() {
    let node = Node::init();
    write(&mut node.open().unwrap().0, 0..3).unwrap();
    let copy = node.identity.fork();
    write(&mut node.open().unwrap().0, 3..60).unwrap();
    let rolled_back = Node {
        identity: copy,
        log: node.log,
    };
    assert_eq!(rolled_back.loss(), Some(MemoryLoss::IdentityOld));
}

#[test]
fn damage_is_reported_as_damage_and_not_as_a_loss() {
    let node = Node::init();
    let (mut log, _, _) = node.open().unwrap();
    write(&mut log, 0..5).unwrap();
    log.seal().unwrap();
    let name = node.segments().pop().unwrap();
    let content = node.log.content(&name).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    for offset in (end - 3000..end).step_by(100) {
        node.log.flip(&name, offset as u64, 1);
    }
    let (_, recovered, loss) = node.open().unwrap();
    assert_eq!(loss, None);
    assert!(
        recovered
            .iter()
            .any(|found| matches!(found, RecoveredRecord::Faulty { .. }))
    );
}

#[test]
fn a_crash_at_any_step_is_no_loss_and_forgets_nothing_that_was_acknowledged() {
    for stop in 0..150 {
        for seed in 0..12 {
            let node = Node::init();
            node.log.stop_after(stop);
            let mut acknowledged = 0;
            let _ = (|| {
                let (mut log, _, _) = node.open()?;
                for slot in 0..40 {
                    write(&mut log, slot..slot + 1)?;
                    acknowledged = slot + 1;
                }
                Ok::<(), StorageError>(())
            })();
            node.log.crash_seeded(seed);
            node.identity.crash_seeded(seed);
            let (_, recovered, loss) = node.open().unwrap();
            assert_eq!(loss, None, "stop {stop} seed {seed}");
            assert!(
                recovered.len() as u64 >= acknowledged,
                "stop {stop} seed {seed}"
            );
        }
    }
}

#[test]
fn a_crash_while_the_identity_is_stored_is_no_loss() {
    for stop in 0..120 {
        let node = Node::init();
        node.identity.stop_after(stop);
        let _ = node
            .open()
            .and_then(|(mut log, _, _)| write(&mut log, 0..40));
        node.identity.crash_seeded(stop);
        node.log.crash_seeded(stop);
        assert_eq!(node.loss(), None, "stop {stop}");
    }
}

/// Claim st-1. The next run reuses a segment that the crashed one made ahead, whether or not the identity knows of it.
#[test]
fn a_run_that_goes_on_after_a_crash_is_no_loss_at_any_commit() {
    for stop in 0..120 {
        for is_log in [false, true] {
            let node = Node::init();
            let disk = if is_log { &node.log } else { &node.identity };
            disk.stop_after(stop);
            let _ = node
                .open()
                .and_then(|(mut log, _, _)| write(&mut log, 0..40));
            node.identity.crash_seeded(stop);
            node.log.crash_seeded(stop);
            let (mut log, _, loss) = node.open().unwrap();
            assert_eq!(loss, None, "stop {stop}, log {is_log}");
            for slot in 40..60 {
                log.append(GROUP, Slot(slot), &[slot as u8; 900]).unwrap();
                log.commit().unwrap();
                let found = node.fork().loss();
                assert_eq!(found, None, "stop {stop}, log {is_log}, slot {slot}");
                log.make_room().unwrap();
            }
        }
    }
}

#[test]
fn an_identity_that_can_not_be_stored_for_want_of_space_holds_the_log_in_its_segment() {
    let node = Node::init();
    let (mut log, _, _) = node.open().unwrap();
    node.identity.set_capacity(Some(node.identity.used()));
    // A file system that does not write in place has no room for that either.
    node.identity.fail(Fault {
        operation: DiskOperation::Write,
        skip: 0,
        times: u64::MAX,
        kind: std::io::ErrorKind::StorageFull,
    });
    assert!(matches!(
        write(&mut log, 0..60),
        Err(StorageError::Full { .. })
    ));
    node.identity.set_capacity(None);
    node.identity.heal();
    log.make_room().unwrap();
    write(&mut log, 60..100).unwrap();
    assert_eq!(node.loss(), None);
}

#[test]
fn a_log_whose_last_commits_are_damaged_goes_on_above_them() {
    let node = Node::init();
    let (mut log, _, _) = node.open().unwrap();
    write(&mut log, 0..5).unwrap();
    let told = log.newest_commit();
    let name = node.segments().pop().unwrap();
    let content = node.log.content(&name).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    for offset in (end - 5000..=end).step_by(20) {
        node.log.flip(&name, offset as u64, 1);
    }
    let (mut log, recovered, _) = node.open().unwrap();
    assert!(log.newest_commit() >= told);
    for found in recovered {
        if let RecoveredRecord::Faulty { position, .. } = found {
            log.repaired(position).unwrap();
        }
    }
    let told = log.newest_commit();
    log.seal().unwrap();
    let (log, recovered, loss) = node.open().unwrap();
    assert!(
        recovered
            .iter()
            .all(|found| matches!(found, RecoveredRecord::Record { .. }))
    );
    assert!(log.newest_commit() >= told);
    assert_eq!(loss, None);
}

#[test]
fn a_killed_node_starts_on_a_disk_without_a_free_byte() {
    let node = Node::lived();
    for disk in [&node.identity, &node.log] {
        disk.crash(|outcomes| outcomes - 1);
        disk.set_capacity(Some(disk.used()));
    }
    for start in 2..5 {
        let (_, recovered, loss) = node.open().expect("it writes over its identity");
        assert_eq!(recovered.len(), 60);
        assert_eq!(loss, None);
        assert_eq!(Identity::load(&node.identity).unwrap().boot, start);
    }
}

#[test]
fn a_damaged_copy_of_the_identity_is_written_over_on_a_full_disk_while_the_other_is_whole() {
    for copy in ["identity-a", "identity-b"] {
        let node = Node::lived();
        node.identity.flip(copy, 40, 1);
        for disk in [&node.identity, &node.log] {
            disk.crash(|outcomes| outcomes - 1);
            disk.set_capacity(Some(disk.used()));
        }
        let (_, recovered, loss) = node.open().expect("it writes over the bad copy");
        assert_eq!((recovered.len(), loss), (60, None));
        let other = if copy == "identity-a" {
            "identity-b"
        } else {
            "identity-a"
        };
        node.identity.flip(other, 40, 1);
        assert_eq!(Identity::load(&node.identity).unwrap().boot, 2);
    }
}
