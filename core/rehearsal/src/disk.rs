//! What survives a crash: the log's durable records, and the newest snapshots.
//!
//! A write is lost with the process that has not heard of its end. Damage is the lab's business.

use quorate_ordering::{Mark, Past, Record};
use quorate_replica::{Quarantine, SnapshotReport};
use quorate_types::{Digest, Slot, Value};
use std::collections::{BTreeMap, VecDeque};

/// Snapshots that are kept beside the agreed one.
const KEPT: usize = 2;

/// The disk of one node.
#[derive(Debug, Default)]
pub(crate) struct KeptDisk {
    records: Vec<Record>,
    /// Written and not durable yet, in the order of the log.
    waiting: VecDeque<(Mark, Write)>,
    snapshots: BTreeMap<Slot, KeptImage>,
    /// The note that its objects must answer nobody.
    pub(crate) quarantine: Option<Quarantine>,
}

#[derive(Debug)]
enum Write {
    Record(Record),
    /// Restates what must remain of everything up to the slot.
    Base(Slot, Vec<Record>),
}

/// A snapshot as it lies on the disk.
#[derive(Clone, Debug)]
pub(crate) struct KeptImage {
    pub(crate) bytes: Value,
    pub(crate) digest: Digest,
}

impl KeptDisk {
    pub(crate) fn write(&mut self, mark: Mark, record: Record) {
        self.waiting.push_back((mark, Write::Record(record)));
    }

    /// Everything up to the mark is durable.
    pub(crate) fn sync(&mut self, mark: Mark) {
        while self.waiting.front().is_some_and(|(at, _)| *at <= mark) {
            if let Some((_, write)) = self.waiting.pop_front() {
                self.settle(write);
            }
        }
    }

    /// Writes a base behind all that was written, and removes what it replaces once it is durable.
    pub(crate) fn discard(&mut self, upto: Slot, base: Vec<Record>) {
        let write = Write::Base(upto, base);
        match self.waiting.back() {
            Some((mark, _)) => self.waiting.push_back((*mark, write)),
            None => self.settle(write),
        }
    }

    fn settle(&mut self, write: Write) {
        match write {
            Write::Record(record) => self.records.push(record),
            Write::Base(upto, base) => {
                let stays = |record: &Record| record.slot().is_some_and(|slot| slot > upto);
                self.records.retain(stays);
                self.records.extend(base);
            }
        }
    }

    /// The process is gone.
    pub(crate) fn crash(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn past(&self) -> Past {
        let mut past = Past::default();
        for record in &self.records {
            past.read(record.clone());
        }
        past
    }

    pub(crate) fn keep(&mut self, slot: Slot, image: KeptImage, agreed: Slot) {
        self.snapshots.insert(slot, image);
        let old = self.snapshots.len().saturating_sub(KEPT);
        let slots: Vec<Slot> = self.snapshots.keys().copied().take(old).collect();
        for slot in slots.into_iter().filter(|slot| *slot != agreed) {
            self.snapshots.remove(&slot);
        }
    }

    pub(crate) fn snapshot(&self, slot: Slot) -> Option<&KeptImage> {
        self.snapshots.get(&slot)
    }

    pub(crate) fn newest(&self) -> Option<(Slot, &KeptImage)> {
        let newest = self.snapshots.last_key_value();
        newest.map(|(slot, image)| (*slot, image))
    }

    /// All snapshots but the newest.
    pub(crate) fn others(&self) -> Vec<SnapshotReport> {
        let count = self.snapshots.len().saturating_sub(1);
        let older = self.snapshots.iter().take(count);
        let report = |(slot, image): (&Slot, &KeptImage)| SnapshotReport {
            slot: *slot,
            digest: image.digest,
            bytes: image.bytes.len() as u64,
        };
        older.map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_ordering::Entry;
    use quorate_types::{Ballot, Batch, ViewId};

    fn vote(slot: u64) -> Record {
        Record {
            view: ViewId::default(),
            entry: Entry::Vote {
                slot: Slot(slot),
                ballot: Ballot::ZERO,
                kind: quorate_types::VoteKind::Classic,
                batch: Batch::noop(),
            },
        }
    }

    #[test]
    fn a_write_that_a_crash_took_holds_up_none_of_the_next_life() {
        let mut disk = KeptDisk::default();
        disk.write(Mark(6), vote(1));
        disk.sync(Mark(6));
        disk.write(Mark(7), vote(2));
        disk.crash();
        // The marks of a life begin anew.
        disk.write(Mark(1), vote(3));
        disk.sync(Mark(1));
        assert_eq!(disk.records, [vote(1), vote(3)]);
        disk.discard(Slot(1), vec![vote(4)]);
        assert_eq!(disk.records, [vote(3), vote(4)], "nothing waits before it");
    }
}
