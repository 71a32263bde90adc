//! The disk of a node in a random world: what is durable, what is not yet, and what was lost of it.

use quorate_ordering::{Entry, LostRecord, Mark, Past, Record};
use quorate_types::Slot;

#[derive(Clone, PartialEq, Debug)]
enum Kept {
    Record(Record),
    /// A record that cannot be read any more.
    Lost(LostRecord),
    /// Everything that was lost before is made good.
    Repaired,
}

/// Records in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct WorldDisk {
    synced: Vec<Kept>,
    unsynced: Vec<(Mark, Kept)>,
}

impl WorldDisk {
    pub(crate) fn write(&mut self, mark: Mark, record: Record) {
        self.unsynced.push((mark, Kept::Record(record)));
    }

    /// What was lost is made good, once everything written before is durable.
    pub(crate) fn repaired(&mut self) {
        match self.unsynced.last() {
            Some((mark, _)) => self.unsynced.push((*mark, Kept::Repaired)),
            None => self.keep(Kept::Repaired),
        }
    }

    fn keep(&mut self, kept: Kept) {
        if kept == Kept::Repaired {
            self.synced.retain(|kept| !matches!(kept, Kept::Lost(_)));
        } else {
            self.synced.push(kept);
        }
    }

    /// Everything is durable; returns the last write.
    pub(crate) fn sync(&mut self) -> Option<Mark> {
        let last = self.unsynced.last().map(|(mark, _)| *mark);
        for (_, kept) in std::mem::take(&mut self.unsynced) {
            self.keep(kept);
        }
        last
    }

    /// The node stops: of what is not durable, the first `percent` stay.
    pub(crate) fn crash(&mut self, percent: u64) {
        let stay = self.unsynced.len() * percent as usize / 100;
        self.unsynced.truncate(stay);
        self.sync();
    }

    /// Removes records of slots up to `upto`, for which `base` stands.
    pub(crate) fn discard(&mut self, upto: Slot, base: Vec<Record>) {
        self.synced.extend(base.into_iter().map(Kept::Record));
        self.synced.retain(|kept| match kept {
            Kept::Record(record) => record.slot().is_none_or(|slot| slot > upto),
            Kept::Lost(_) | Kept::Repaired => true,
        });
    }

    /// The record at `place`, counted from the end, cannot be read any more. `is_named` says whether it is known what it was of.
    pub(crate) fn lose(&mut self, place: usize, is_named: bool) {
        let Some(index) = self.synced.len().checked_sub(place + 1) else {
            return;
        };
        let Kept::Record(record) = &self.synced[index] else {
            return;
        };
        let lost = match (&record.entry, record.slot()) {
            (_, Some(slot)) if is_named => LostRecord::Slot(slot),
            (Entry::Promise { .. }, _) if is_named => LostRecord::Promise,
            _ => LostRecord::Anything,
        };
        self.synced[index] = Kept::Lost(lost);
    }

    /// What a start finds.
    pub(crate) fn past(&self) -> Past {
        let mut past = Past::default();
        for kept in &self.synced {
            match kept {
                Kept::Record(record) => past.read(record.clone()),
                Kept::Lost(lost) => past.lost(*lost),
                Kept::Repaired => {}
            }
        }
        past
    }
}
