//! Seeded lives of a log whose segments are prepared and removed beside the commits: each life ends with a power cut at some
//! call of a disk, and the next one must find all that was acknowledged and nothing that was never written.

mod dice;

use std::collections::BTreeMap;

use bytes::Bytes;
use dice::Dice;
use quorate_storage::{
    Append, Disk, GroupCommit, Identity, IdentityFile, Log, LogInbox, LogRequest, Persist,
    RecoveredRecord, Removals, SimDisk, SpareJob, StorageError, StorageLimits,
};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, Slot};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);

const GROUPS: usize = 3;
const SEEDS: u64 = 1000;
const LIVES: u64 = 7;
const STEPS: u64 = 400;

type Key = (u32, u64);

/// What the next start may find, and what it must.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<Key, Vec<u8>>,
    written: BTreeMap<Key, Vec<u8>>,
    bases: BTreeMap<u32, u64>,
    /// Bases whose discard was not acknowledged: one of them may be there.
    perhaps: BTreeMap<u32, Vec<u64>>,
    /// What each mark under way stands for.
    sent: BTreeMap<u64, Vec<Key>>,
    next: [u64; GROUPS],
    mark: u64,
}

impl Model {
    fn base(&self, group: u32) -> u64 {
        self.bases.get(&group).copied().unwrap_or(0)
    }

    fn based(&mut self, group: u32, upto: u64) {
        self.bases.insert(group, upto);
        self.acknowledged
            .retain(|(of, slot), _| *of != group || *slot > upto);
    }

    fn append(&mut self, dice: &mut Dice, inbox: &mut LogInbox) {
        self.mark += 1;
        let (mut records, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..1 + dice.below(3) {
            let group = dice.below(GROUPS as u64) as u32;
            self.next[group as usize] += 1;
            let slot = self.next[group as usize];
            let bytes = vec![slot as u8; dice.below(900) as usize + 1];
            self.written.insert((group, slot), bytes.clone());
            keys.push((group, slot));
            let record = Bytes::from(bytes);
            records.push(Append {
                group: GroupId(group),
                slot: Slot(slot),
                record,
            });
        }
        let mark = self.mark;
        if inbox.offer(LogRequest::Append { mark, records }).is_ok() {
            self.sent.insert(mark, keys);
        }
    }

    fn discard(&mut self, dice: &mut Dice, inbox: &mut LogInbox) {
        let group = dice.below(GROUPS as u64) as u32;
        let newest = self.next[group as usize].saturating_sub(dice.below(4));
        let asked = self.perhaps.get(&group).and_then(|bases| bases.last());
        let upto = newest
            .max(self.base(group))
            .max(asked.copied().unwrap_or(0));
        let base = Bytes::from_static(b"base");
        let discard = LogRequest::Discard {
            group: GroupId(group),
            upto: Slot(upto),
            base,
        };
        if upto > 0 && inbox.offer(discard).is_ok() {
            self.perhaps.entry(group).or_default().push(upto);
        }
    }

    fn finished(&mut self, request: &LogRequest) {
        match request {
            LogRequest::Append { mark, .. } => {
                for key in self.sent.remove(mark).expect("a mark finishes once") {
                    if key.1 > self.base(key.0) {
                        self.acknowledged.insert(key, self.written[&key].clone());
                    }
                }
            }
            LogRequest::Discard { group, upto, .. } => self.based(group.0, upto.0),
            other => panic!("{other:?} was not asked for"),
        }
    }

    /// Compares what a start found, and goes on from it.
    fn compare(&mut self, recovered: Vec<RecoveredRecord>) {
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
                    ..
                } if upto != self.base(group) => {
                    let perhaps = self.perhaps.get(&group);
                    assert!(
                        perhaps.is_some_and(|bases| bases.contains(&upto)),
                        "base {upto} of group {group} was never asked for"
                    );
                    self.based(group, upto);
                }
                RecoveredRecord::Base { .. } => {}
                RecoveredRecord::Faulty { .. } => panic!("a power cut is no damage: {item:?}"),
            }
        }
        for (key, bytes) in &self.acknowledged {
            assert_eq!(found.get(key), Some(bytes), "{key:?} was acknowledged");
        }
        for (key, bytes) in &found {
            assert_eq!(self.written.get(key), Some(bytes), "{key:?} was invented");
        }
        found.retain(|(group, slot), _| *slot > self.base(*group));
        self.acknowledged = found;
        self.perhaps.clear();
        self.sent.clear();
    }
}

fn limits(dice: &mut Dice) -> StorageLimits {
    let small = StorageLimits::small();
    let (block_bytes, page_bytes, segment_bytes) = match dice.below(4) {
        0 => (512, 512, 16 << 10),
        1 => (512, 2048, 16 << 10),
        2 => (512, 4096, 32 << 10),
        _ => (4096, 4096, 64 << 10),
    };
    StorageLimits {
        segment_bytes,
        block_bytes,
        page_bytes,
        ..small
    }
}

struct Disks {
    identity: SimDisk,
    log: SimDisk,
}

impl Disks {
    /// Starts, perhaps with a power cut on the way; `None` where it did not come up.
    fn start(&self, limits: StorageLimits) -> Option<(GroupCommit<SimDisk>, Vec<RecoveredRecord>)> {
        let identity = match IdentityFile::boot(self.identity.clone()) {
            Ok(identity) => identity,
            Err(error) => {
                assert!(!matches!(error, StorageError::Amnesia), "{error}");
                return None;
            }
        };
        match Log::open_of(self.log.clone(), &identity, limits) {
            Ok((log, recovered)) => {
                assert_eq!(identity.get().loss, None, "nothing was lost");
                Some((GroupCommit::new(log), recovered))
            }
            Err(StorageError::SyncFailed(_) | StorageError::Io { .. }) => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn crash(&self, seed: u64) {
        for disk in [&self.log, &self.identity] {
            disk.set_capacity(None);
            disk.crash_seeded(seed);
            disk.heal();
        }
    }
}

/// Runs until a disk fails or the steps are over; returns how many segments were prepared.
fn live(
    dice: &mut Dice,
    commits: &mut GroupCommit<SimDisk>,
    disk: &SimDisk,
    model: &mut Model,
) -> u64 {
    let (mut inbox, mut removals) = (LogInbox::default(), Removals::default());
    let mut job: Option<SpareJob<SimDisk>> = None;
    let mut prepared = 0;
    for _ in 0..STEPS {
        let mut is_over = false;
        match dice.below(10) {
            0..=4 => model.append(dice, &mut inbox),
            5 => model.discard(dice, &mut inbox),
            6 => {
                if let Some(job) = job.take() {
                    prepared += 1;
                    is_over = commits.prepared(job.run()).is_err();
                    inbox.freed();
                }
            }
            7 => {
                is_over = !removals.is_done() && removals.step(disk).is_err();
                inbox.freed();
            }
            _ => {
                commits.gather(&mut inbox);
                let progress = commits.step();
                progress
                    .finished
                    .iter()
                    .for_each(|done| model.finished(done));
                removals.extend(progress.gone);
                job = progress.job.or(job);
                commits.log().check();
                is_over = progress.outcome.is_err();
            }
        }
        if is_over {
            break;
        }
    }
    prepared
}

fn lives(seed: u64) -> u64 {
    let dice = &mut Dice(seed * 2 + 1);
    let limits = limits(dice);
    let disks = Disks {
        identity: SimDisk::new(),
        log: SimDisk::new(),
    };
    let identity = Identity::new(CLUSTER, NODE, Incarnation(99), Persist::Disk);
    identity.create_on(&disks.identity).expect("the disk works");
    let mut model = Model::default();
    let mut prepared = 0;
    let copy = dice.below(2);
    for life in 0..LIVES {
        if dice.below(3) == 0 {
            disks.log.stop_after(dice.below(12));
        }
        if dice.below(4) == 0 {
            disks.identity.stop_after(dice.below(8));
        }
        if let Some((mut commits, recovered)) = disks.start(limits) {
            model.compare(recovered);
            disks.log.stop_after(30 + dice.below(400));
            if dice.below(3) == 0 {
                disks.identity.stop_after(10 + dice.below(40));
            }
            if dice.below(3) == 0 {
                let room = dice.below(4) * limits.segment_bytes;
                disks.log.set_capacity(Some(disks.log.used() + room));
            }
            prepared += live(dice, &mut commits, &disks.log, &mut model);
        }
        disks.crash(seed.wrapping_mul(31) + life);
        if dice.below(3) == 0 {
            damage_a_header(dice, &disks.log, copy * limits.page_bytes);
        }
    }
    prepared
}

/// Damages the copy at `copy_at` of a segment's header, which costs nothing while the other one is whole.
fn damage_a_header(dice: &mut Dice, disk: &SimDisk, copy_at: u64) {
    let mut names = disk.list().expect("the disk works");
    names.retain(|name| name.starts_with("log-"));
    if let Some(name) = names.get(dice.below(names.len().max(1) as u64) as usize) {
        disk.flip(name, copy_at + dice.below(512), 1);
    }
}

#[test]
fn what_was_acknowledged_outlives_power_cuts_while_segments_are_prepared_and_removed() {
    let prepared: u64 = (1..=SEEDS).map(lives).sum();
    assert!(prepared > SEEDS, "only {prepared} segments were prepared");
}
