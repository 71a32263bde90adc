//! What a log promises, on a disk that crashes, lies and fills up.

use quorate_storage::Disk;
use quorate_storage::{
    DiskOperation, Fault, Log, Lost, RecoveredRecord, Room, SimDisk, StorageError, StorageLimits,
};
use quorate_types::{ClusterId, GroupId, NodeId, Slot};
use std::io::ErrorKind;

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);
const GROUP: GroupId = GroupId(0);

fn open(disk: &SimDisk) -> (Log<SimDisk>, Vec<RecoveredRecord>) {
    Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small()).expect("opens")
}

fn slots(recovered: &[RecoveredRecord]) -> Vec<u64> {
    recovered
        .iter()
        .map(|item| match item {
            RecoveredRecord::Record {
                slot: Slot(slot),
                bytes,
                ..
            } => {
                assert_eq!(bytes, &content(*slot), "slot {slot}");
                *slot
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

fn content(slot: u64) -> Vec<u8> {
    vec![slot as u8; 100 + (slot as usize * 137) % 900]
}

fn write(log: &mut Log<SimDisk>, slots: std::ops::Range<u64>) {
    for slot in slots {
        log.append(GROUP, Slot(slot), &content(slot)).expect("room");
    }
}

fn segment_names(disk: &SimDisk) -> Vec<String> {
    let mut names: Vec<String> = disk
        .list()
        .unwrap()
        .into_iter()
        .filter(|name| !name.starts_with("next-"))
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_committed_comes_back_over_many_segments_in_order() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    for slot in 0..200 {
        write(&mut log, slot..slot + 1);
        log.commit().unwrap();
        log.check();
    }
    assert!(log.segments() > 5);
    drop(log);
    let (mut log, recovered) = open(&disk);
    assert_eq!(slots(&recovered), (0..200).collect::<Vec<_>>());
    write(&mut log, 200..210);
    log.commit().unwrap();
    disk.crash(|_| 0);
    assert_eq!(slots(&open(&disk).1), (0..210).collect::<Vec<_>>());
}

#[test]
fn a_small_commit_takes_two_sectors_and_shares_its_page() {
    let disk = SimDisk::new();
    let limits = StorageLimits::default();
    let (mut log, _) = Log::open(disk.clone(), CLUSTER, NODE, limits).unwrap();
    let commits = limits.segment_bytes / limits.commit_bytes_min() - 8;
    for slot in 0..commits {
        log.append(GROUP, Slot(slot), &[7; 100]).unwrap();
        log.commit().unwrap();
    }
    assert_eq!(limits.commit_bytes_min(), 1024);
    assert_eq!(log.segments(), 1, "{commits} commits fill one segment");
    disk.crash(|_| 0);
    let (_, recovered) = Log::open(disk, CLUSTER, NODE, limits).unwrap();
    assert_eq!(recovered.len() as u64, commits);
}

/// Runs `act` with every way in which un-synced writes and names can survive, at most `most` of them.
fn every_crash(disk: &SimDisk, most: usize, mut act: impl FnMut(&SimDisk)) {
    let mut path: Vec<(u64, u64)> = Vec::new();
    for _ in 0..most {
        let fork = disk.fork();
        let mut depth = 0;
        fork.crash(|outcomes| {
            if depth == path.len() {
                path.push((0, outcomes));
            }
            let choice = path[depth].0;
            depth += 1;
            choice
        });
        act(&fork);
        while path
            .last()
            .is_some_and(|(choice, outcomes)| choice + 1 == *outcomes)
        {
            path.pop();
        }
        let Some(last) = path.last_mut() else { return };
        last.0 += 1;
    }
}

#[test]
fn in_every_crash_state_of_every_step_all_acknowledged_records_come_back_and_nothing_is_invented() {
    let mut states = 0;
    for stop in 0.. {
        let disk = SimDisk::new();
        disk.stop_after(stop);
        let mut acknowledged = 0;
        let mut appended = 0;
        let finished = (|| {
            let (mut log, _) = Log::open(disk.clone(), CLUSTER, NODE, StorageLimits::small())?;
            while appended < 120 {
                for _ in 0..1 + appended % 3 {
                    log.append(GROUP, Slot(appended), &content(appended))?;
                    appended += 1;
                }
                log.commit()?;
                acknowledged = appended;
                log.make_room()?;
            }
            Ok::<_, StorageError>(())
        })()
        .is_ok();
        every_crash(&disk, 600, |crashed| {
            states += 1;
            let (mut log, recovered) = open(crashed);
            let found = slots(&recovered);
            assert!(
                found.len() as u64 >= acknowledged,
                "stop {stop}: {acknowledged} acknowledged, {found:?}"
            );
            assert!(found.len() as u64 <= appended);
            assert_eq!(
                found,
                (0..found.len() as u64).collect::<Vec<_>>(),
                "a prefix"
            );
            // The log goes on, and a second crash, which loses all it can, changes nothing of what was recovered.
            let next = found.len() as u64;
            write(&mut log, next..next + 2);
            log.commit().unwrap();
            crashed.crash(|_| 0);
            assert_eq!(slots(&open(crashed).1), (0..next + 2).collect::<Vec<_>>());
        });
        if finished {
            break;
        }
    }
    assert!(states > 1_500, "{states} states");
}

#[test]
fn a_flipped_bit_anywhere_in_the_records_is_reported_and_never_cut() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    for slot in 0..6 {
        write(&mut log, slot..slot + 1);
        log.commit().unwrap();
    }
    drop(log);
    let name = segment_names(&disk)[0].clone();
    let written = disk.content(&name).unwrap();
    for sector in
        (2..written.len() / 512).take_while(|sector| written[sector * 512..][..512] != [0; 512])
    {
        for byte in [0, 5, 20, 100, 511] {
            let fork = disk.fork();
            fork.flip(&name, (sector * 512 + byte) as u64, 0x10);
            for _ in 0..2 {
                let (_, recovered) = open(&fork);
                let mut told: Vec<u64> = recovered
                    .iter()
                    .map(|item| match item {
                        RecoveredRecord::Record {
                            slot: Slot(slot), ..
                        }
                        | RecoveredRecord::Faulty {
                            lost:
                                Lost::Record {
                                    slot: Slot(slot), ..
                                },
                            ..
                        } => *slot,
                        other => panic!("sector {sector}: {other:?}"),
                    })
                    .collect();
                told.dedup();
                assert_eq!(told, (0..6).collect::<Vec<_>>(), "sector {sector}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_is_damage_and_not_a_torn_tail() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    write(&mut log, 0..1);
    log.commit().unwrap();
    log.append(GROUP, Slot(1), b"x").unwrap();
    log.commit().unwrap();
    let name = segment_names(&disk)[0].clone();
    let at = disk
        .content(&name)
        .unwrap()
        .windows(1)
        .rposition(|byte| byte == b"x")
        .unwrap();
    disk.flip(&name, at as u64, 1);
    let (_, recovered) = open(&disk);
    assert!(
        matches!(
            recovered[1],
            RecoveredRecord::Faulty {
                lost: Lost::Record {
                    group: GROUP,
                    slot: Slot(1)
                },
                ..
            }
        ),
        "{recovered:?}"
    );
}

#[test]
fn a_lost_segment_file_is_reported_until_it_is_repaired() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    for slot in 0..100 {
        write(&mut log, slot..slot + 1);
        log.commit().unwrap();
    }
    disk.remove(&segment_names(&disk)[1]).unwrap();
    drop(log);
    let (_, recovered) = open(&disk);
    let position = recovered.iter().find_map(|item| match item {
        RecoveredRecord::Faulty {
            position,
            lost: Lost::Unknown,
        } => Some(*position),
        _ => None,
    });
    let (mut log, _) = open(&disk);
    log.discard(GROUP, Slot(1000), b"base").unwrap();
    assert!(
        log.segments() > 1,
        "unknown loss is not forgotten by a discard"
    );
    log.repaired(position.expect("reported")).unwrap();
    let (mut log, recovered) = open(&disk);
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    log.discard(GROUP, Slot(1001), b"base").unwrap();
    open(&disk);
}

#[test]
fn a_failed_sync_ends_the_log_for_good() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    write(&mut log, 0..1);
    log.commit().unwrap();
    disk.fail(Fault {
        operation: DiskOperation::Sync,
        skip: 0,
        times: 1,
        kind: ErrorKind::Other,
    });
    write(&mut log, 1..2);
    let error = log.commit().unwrap_err();
    assert!(error.is_fatal());
    assert_eq!(log.commit().unwrap_err(), error);
    assert_eq!(log.append(GroupId(0), Slot(9), b"").unwrap_err(), error);
    assert_eq!(log.discard(GROUP, Slot(9), b"").unwrap_err(), error);
    assert_eq!(log.make_room().unwrap_err(), error);
    // A restart does not believe the cache: the record that the failed sync dropped is not given back.
    assert_eq!(slots(&open(&disk).1), [0]);
}

#[test]
fn a_full_disk_refuses_keeps_a_reserve_and_goes_on_when_space_returns() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    disk.set_capacity(Some(3 * StorageLimits::small().segment_bytes));
    let mut slot = 0;
    let mut low_at = None;
    let error = loop {
        if log.make_room().unwrap() == Room::Low && low_at.is_none() {
            low_at = Some(slot);
        }
        match log
            .append(GROUP, Slot(slot), &content(slot))
            .and_then(|()| log.commit())
        {
            Ok(()) => slot += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::Full { .. }));
    assert!(
        low_at.is_some_and(|low| slot - low >= 2),
        "promises fit after the warning: {low_at:?} {slot}"
    );
    assert_eq!(slots(&open(&disk.fork()).1), (0..slot).collect::<Vec<_>>());
    log.discard(GroupId(0), Slot(slot / 2), b"base")
        .expect("a discard always fits");
    log.append(GROUP, Slot(slot), &content(slot))
        .expect("the discard has made room");
    log.commit().unwrap();
    disk.set_capacity(None);
    assert_eq!(log.make_room(), Ok(Room::Plenty), "and it says so");
    let (_, recovered) = open(&disk);
    assert!(
        matches!(&recovered[..], [.., RecoveredRecord::Record { slot: last, .. }] if *last == Slot(slot))
    );
}

#[test]
fn a_write_that_finds_no_space_is_tried_again_without_a_torn_state() {
    for crash in 0..50 {
        let disk = SimDisk::new();
        let (mut log, _) = open(&disk);
        write(&mut log, 0..2);
        log.commit().unwrap();
        disk.fail(Fault {
            operation: DiskOperation::Write,
            skip: 0,
            times: 2,
            kind: ErrorKind::StorageFull,
        });
        write(&mut log, 2..7);
        assert!(matches!(log.commit(), Err(StorageError::Full { .. })));
        write(&mut log, 7..8);
        assert!(matches!(log.commit(), Err(StorageError::Full { .. })));
        let torn = disk.fork();
        torn.crash_seeded(crash);
        assert_eq!(slots(&open(&torn).1), [0, 1]);
        log.commit().unwrap();
        write(&mut log, 8..9);
        log.commit().unwrap();
        disk.crash_seeded(crash);
        assert_eq!(slots(&open(&disk).1), (0..9).collect::<Vec<_>>());
    }
}

#[test]
fn a_log_of_another_node_is_refused() {
    let disk = SimDisk::new();
    open(&disk);
    for (cluster, node) in [(7, 2), (8, 1)] {
        let error = Log::open(
            disk.clone(),
            ClusterId(cluster),
            NodeId(node),
            StorageLimits::small(),
        )
        .unwrap_err();
        assert_eq!(
            error,
            StorageError::Foreign {
                cluster: ClusterId(7),
                node: NodeId(1)
            }
        );
    }
}

#[test]
fn an_idle_group_keeps_its_segment_and_not_those_behind_it() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    log.append(GroupId(9), Slot(3), b"idle").unwrap();
    for slot in 0..100 {
        write(&mut log, slot..slot + 1);
        log.commit().unwrap();
    }
    log.discard(GROUP, Slot(99), b"base").unwrap();
    assert!(log.segments() <= 3, "{}", log.segments());
    let (_, recovered) = open(&disk);
    assert!(
        matches!(
            &recovered[0],
            RecoveredRecord::Record {
                group: GroupId(9),
                slot: Slot(3),
                ..
            }
        ),
        "{recovered:?}"
    );
    assert!(
        matches!(
            &recovered[1..],
            [RecoveredRecord::Base {
                group: GROUP,
                upto: Slot(99),
                ..
            }]
        ),
        "{recovered:?}"
    );
}

/// Whether the log reports damage that names no record.
fn is_unbounded(recovered: &[RecoveredRecord]) -> bool {
    recovered.iter().any(|found| {
        matches!(
            found,
            RecoveredRecord::Faulty {
                lost: Lost::Unknown,
                ..
            }
        )
    })
}

/// A log of one segment, of which only a part is filled.
fn partly_filled() -> SimDisk {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk);
    for slot in 0..8 {
        write(&mut log, slot..slot + 1);
        log.commit().unwrap();
    }
    assert_eq!(log.segments(), 1);
    disk
}

/// Claim st-3.
#[test]
fn a_segment_that_was_cut_anywhere_is_damage_until_it_is_repaired() {
    let disk = partly_filled();
    let name = segment_names(&disk).pop().unwrap();
    for bytes in (0..StorageLimits::small().segment_bytes).step_by(256) {
        let disk = disk.fork();
        assert!(disk.shorten(&name, bytes));
        for start in 0..3 {
            let (mut log, recovered) = open(&disk);
            assert!(is_unbounded(&recovered), "cut to {bytes}, start {start}");
            write(&mut log, 100 + start..101 + start);
            log.commit().unwrap();
        }
        let (mut log, recovered) = open(&disk);
        for found in &recovered {
            if let RecoveredRecord::Faulty { position, .. } = found {
                log.repaired(*position).unwrap();
            }
        }
        drop(log);
        assert!(!is_unbounded(&open(&disk).1), "cut to {bytes}, repaired");
    }
}

/// Claim st-3.
#[test]
fn a_segment_of_nothing_but_zeros_is_damage() {
    let disk = partly_filled();
    let name = segment_names(&disk).pop().unwrap();
    for (offset, byte) in disk.content(&name).unwrap().into_iter().enumerate() {
        disk.flip(&name, offset as u64, byte);
    }
    assert!(is_unbounded(&open(&disk).1));
    assert!(is_unbounded(&open(&disk).1), "the second start says so too");
}

/// Writes `slots` with a commit each, and a base at every twentieth.
fn write_and_trim(log: &mut Log<SimDisk>, slots: std::ops::Range<u64>) -> Result<(), StorageError> {
    for slot in slots {
        log.append(GROUP, Slot(slot), &content(slot))?;
        log.commit()?;
        if slot % 20 == 0 {
            log.discard(GroupId(0), Slot(slot - 5), &slot.to_le_bytes())?;
        }
    }
    Ok(())
}

/// A log that has just trimmed several segments.
fn trimmed(disk: &SimDisk) -> Log<SimDisk> {
    let (mut log, _) = open(disk);
    for slot in 1..150 {
        log.append(GROUP, Slot(slot), &content(slot)).unwrap();
        log.commit().unwrap();
    }
    log.discard(GROUP, Slot(149), &149u64.to_le_bytes())
        .unwrap();
    log
}

#[test]
fn trimmed_segments_become_the_next_ones_so_that_no_file_is_made_or_removed() {
    let disk = SimDisk::new();
    let mut log = trimmed(&disk);
    for operation in [DiskOperation::Create, DiskOperation::Remove] {
        disk.fail(Fault {
            operation,
            skip: 0,
            times: u64::MAX,
            kind: ErrorKind::Other,
        });
    }
    let used = disk.used();
    write_and_trim(&mut log, 150..600).unwrap();
    assert!(disk.used() <= used, "the log takes no more than it did");
    log.check();
}

#[test]
fn what_a_recycled_segment_held_before_is_never_taken_for_its_own() {
    let mut reopened = 0;
    for last in 200..260 {
        let disk = SimDisk::new();
        let (mut log, _) = open(&disk);
        write_and_trim(&mut log, 1..last).unwrap();
        let before = log.segments();
        // Torn: half of it reaches the disk.
        log.append(GroupId(0), Slot(last), &content(7)).unwrap();
        disk.stop_after(1);
        log.commit().unwrap_err();
        disk.crash_seeded(last);
        let (mut log, recovered) = open(&disk);
        let base = (last - 1) / 20 * 20 - 5;
        for item in &recovered {
            match item {
                RecoveredRecord::Base { upto, .. } => assert_eq!(*upto, Slot(base)),
                RecoveredRecord::Record { slot, bytes, .. } => {
                    assert!(*slot > Slot(base) && *slot <= Slot(last), "slot {slot}");
                    let is_whole = *slot == Slot(last) && **bytes == content(7);
                    assert!(is_whole || **bytes == content(slot.0), "{slot}");
                }
                RecoveredRecord::Faulty { .. } => panic!("{item:?} after {last}"),
            }
        }
        let found = recovered.len() as u64;
        assert!(found >= last - base, "{found} of {base}..{last}");
        log.append(GroupId(0), Slot(last + 1), &content(last + 1))
            .unwrap();
        log.commit().unwrap();
        reopened += usize::from(log.segments() <= before);
    }
    assert!(reopened > 10, "a log with nothing torn goes on in place");
}

#[test]
fn a_spare_with_old_records_is_taken_at_the_next_start() {
    let disk = SimDisk::new();
    let mut log = trimmed(&disk);
    write_and_trim(&mut log, 150..190).unwrap();
    log.make_room().unwrap();
    let names = disk.list().unwrap();
    let spare = names.iter().find(|name| name.starts_with("next-")).unwrap();
    let content = disk.content(spare).unwrap();
    assert!(content.iter().any(|byte| *byte != 0), "it was recycled");
    drop(log);
    disk.fail(Fault {
        operation: DiskOperation::Create,
        skip: 0,
        times: u64::MAX,
        kind: ErrorKind::Other,
    });
    let (mut log, _) = open(&disk);
    assert_eq!(log.make_room(), Ok(Room::Plenty), "no file is made");
}

#[test]
fn little_room_is_told_before_there_is_none_and_kept_files_are_given_up() {
    let disk = SimDisk::new();
    let mut log = trimmed(&disk);
    assert_eq!(log.make_room(), Ok(Room::Plenty));
    disk.set_capacity(Some(disk.used()));
    assert_eq!(log.make_room(), Ok(Room::Scarce));
    disk.set_capacity(None);
    assert_eq!(log.make_room(), Ok(Room::Plenty));
}
