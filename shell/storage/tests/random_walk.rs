//! Seeded random walks: appends, commits, discards, crashes, full disks; after each crash the log is compared with a model.

mod dice;

use std::collections::BTreeMap;
use std::io::ErrorKind;

use dice::Dice;
use quorate_storage::{
    DiskOperation, Fault, Log, RecoveredRecord, SimDisk, StorageError, StorageLimits,
};
use quorate_types::{ClusterId, GroupId, NodeId, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);

/// What must come back: records by (group, slot), and the newest base of each group.
#[derive(Default)]
struct Model {
    records: BTreeMap<(u32, u64), Vec<u8>>,
    waiting: Vec<((u32, u64), Vec<u8>)>,
    bases: BTreeMap<u32, u64>,
    /// A base whose discard failed half way: it may be there or not.
    perhaps: Option<(u32, u64)>,
}

impl Model {
    fn committed(&mut self) {
        self.records.extend(self.waiting.drain(..));
    }

    fn based(&mut self, group: u32, upto: u64) {
        self.bases.insert(group, upto);
        self.records
            .retain(|(of, slot), _| *of != group || *slot > upto);
    }

    fn compare(&mut self, seed: u64, recovered: Vec<RecoveredRecord>) {
        let mut found = BTreeMap::new();
        for item in recovered {
            match item {
                RecoveredRecord::Record {
                    group: GroupId(group),
                    slot: Slot(slot),
                    bytes,
                } => {
                    found.insert((group, slot), bytes.to_vec());
                }
                RecoveredRecord::Base {
                    group: GroupId(group),
                    upto: Slot(upto),
                    bytes,
                } => {
                    assert_eq!(bytes, upto.to_le_bytes().to_vec());
                    let known = self.bases.get(&group) == Some(&upto);
                    assert!(
                        known || self.perhaps == Some((group, upto)),
                        "seed {seed}: base {group} {upto}"
                    );
                    if !known {
                        self.committed();
                        self.based(group, upto);
                    }
                }
                RecoveredRecord::Faulty { .. } => panic!("seed {seed}: {item:?}"),
            }
        }
        for (key, bytes) in &self.records {
            assert!(
                found.get(key) == Some(bytes),
                "seed {seed}: {key:?} was acknowledged"
            );
        }
        for (key, bytes) in &found {
            let known = self.records.get(key) == Some(bytes);
            assert!(
                known
                    || self
                        .waiting
                        .iter()
                        .any(|(of, waiting)| of == key && waiting == bytes),
                "seed {seed}: {key:?} invented"
            );
        }
        self.records = found;
        self.waiting.clear();
        self.perhaps = None;
    }
}

// Longer than a screen: the steps of a walk, and the model beside them.
fn walk(seed: u64, limits: StorageLimits) {
    let mut dice = Dice(seed * 2 + 1);
    let disk = SimDisk::new();
    let mut model = Model::default();
    let mut slots = [1u64; 3];
    for _ in 0..6 {
        let (mut log, recovered) = match Log::open(disk.clone(), CLUSTER, NODE, limits) {
            Ok(opened) => opened,
            Err(error) => {
                // Cut or full while opening: a crash of its own.
                assert!(
                    matches!(error, StorageError::Full { .. }),
                    "seed {seed}: {error}"
                );
                disk.set_capacity(None);
                continue;
            }
        };
        model.compare(seed, recovered);
        if dice.below(3) == 0 {
            disk.set_capacity(Some(disk.used() + dice.below(3) * limits.segment_bytes));
        }
        disk.stop_after(20 + dice.below(150));
        loop {
            let group = dice.below(3) as u32;
            let outcome = match dice.below(20) {
                0 if slots[group as usize] > 4 => {
                    let before = model
                        .perhaps
                        .filter(|(of, _)| *of == group)
                        .map_or(0, |(_, upto)| upto);
                    let before = before.max(model.bases.get(&group).copied().unwrap_or(0));
                    let upto = (slots[group as usize] - 1 - dice.below(3)).max(before);
                    model.perhaps = Some((group, upto));
                    let outcome = log.discard(GroupId(group), Slot(upto), &upto.to_le_bytes());
                    if outcome.is_ok() {
                        model.committed();
                        model.based(group, upto);
                    }
                    outcome
                }
                1 => {
                    disk.fail(Fault {
                        operation: DiskOperation::Write,
                        skip: 0,
                        times: 1,
                        kind: ErrorKind::StorageFull,
                    });
                    Ok(())
                }
                2..8 => log.commit().map(|()| model.committed()),
                _ => {
                    let slot = slots[group as usize];
                    let bytes = vec![dice.below(256) as u8; dice.below(1200) as usize];
                    let taken = log.append(GroupId(group), Slot(slot), &bytes);
                    if taken.is_ok() {
                        slots[group as usize] += 1;
                        model.waiting.push(((group, slot), bytes));
                    }
                    taken
                }
            };
            log.check();
            match outcome {
                Ok(()) => {}
                Err(StorageError::Full { .. }) => disk.set_capacity(None),
                Err(_) => break,
            }
        }
        disk.heal();
        disk.crash_seeded(dice.below(u64::MAX));
    }
}

#[test]
fn a_log_that_walks_at_random_through_crashes_and_full_disks_keeps_what_it_acknowledged() {
    for seed in 0..400 {
        walk(seed, StorageLimits::small());
    }
}

#[test]
fn a_log_whose_commits_share_pages_keeps_what_it_acknowledged() {
    let limits = StorageLimits {
        segment_bytes: 32 << 10,
        page_bytes: 4096,
        ..StorageLimits::small()
    };
    for seed in 400..600 {
        walk(seed, limits);
    }
}
