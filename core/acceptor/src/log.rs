//! The part of the log that is in memory: decided batches from the trim point on, and above them the
//! batches voted for (or, at a node without a vote, heard of).
//!
//! It does not compare ballots and decides nothing; acceptor and learner do. Decided slots are one
//! contiguous run. Open slots may have gaps and are at most `limits::OPEN_SLOTS` above that run, except
//! votes from an earlier start.

use crate::limits::OPEN_SLOTS;
use quorate_types::{Ballot, Batch, Slot, VoteKind, Wall};
use std::collections::{BTreeMap, VecDeque};

/// The batch held for a slot above the decided prefix.
#[derive(Clone, PartialEq, Debug)]
pub struct Open {
    /// The ballot voted in or heard of.
    pub ballot: Ballot,
    /// Whose choice it was.
    pub kind: VoteKind,
    /// The batch of that ballot.
    pub batch: Batch,
    /// A vote record with this batch was written.
    pub is_recorded: bool,
}

/// Batches of one view at one node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SlotLog {
    trimmed: Slot,
    /// Batches of `trimmed + 1 ..= decided`.
    chosen: VecDeque<Batch>,
    /// Invariant: every slot lies above the decided prefix.
    open: BTreeMap<Slot, Open>,
    bytes: usize,
    wall: Wall,
}

impl SlotLog {
    /// Slots up to this one are removed.
    #[must_use]
    pub fn trimmed(&self) -> Slot {
        self.trimmed
    }

    /// The last slot of the decided prefix.
    #[must_use]
    pub fn decided(&self) -> Slot {
        self.trimmed.plus(self.chosen.len() as u64)
    }

    /// The highest slot with a batch, else the last decided slot.
    #[must_use]
    pub fn highest(&self) -> Slot {
        match self.open.last_key_value() {
            Some((slot, _)) => *slot,
            None => self.decided(),
        }
    }

    /// Bytes of all batches held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The highest wall clock of any batch that was ever held.
    #[must_use]
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Notes a wall clock that another node saw.
    pub fn raise_wall(&mut self, wall: Wall) {
        self.wall = self.wall.max(wall);
    }

    /// The batch held for `slot`, if the slot is above the decided prefix.
    #[must_use]
    pub fn open(&self, slot: Slot) -> Option<&Open> {
        self.open.get(&slot)
    }

    /// Open slots from `from` on, ascending.
    pub fn open_from(&self, from: Slot) -> impl Iterator<Item = (Slot, &Open)> {
        self.open.range(from..).map(|(slot, open)| (*slot, open))
    }

    /// The decided batch of `slot`, if it is decided and not trimmed.
    #[must_use]
    pub fn chosen(&self, slot: Slot) -> Option<&Batch> {
        let index = slot.0.checked_sub(self.trimmed.0 + 1)?;
        self.chosen.get(usize::try_from(index).ok()?)
    }

    /// Whether a batch for `slot` may be held: the slot must be near enough to the decided prefix. The
    /// distance counts, so slots of a gap always have room.
    #[must_use]
    pub fn has_room(&self, slot: Slot) -> bool {
        slot.since(self.decided()) <= OPEN_SLOTS
    }

    /// Holds `open` for `slot` and replaces what was held before.
    pub fn put(&mut self, slot: Slot, open: Open) {
        assert!(slot > self.decided(), "a decided slot takes no vote");
        self.wall = self.wall.max(open.batch.stamp().wall);
        self.bytes += open.batch.weight();
        if let Some(old) = self.open.insert(slot, open) {
            self.bytes -= old.batch.weight();
        }
    }

    /// Extends the decided prefix by one slot, with `learned` or with the batch held for it. Returns
    /// whether a vote record with exactly that batch exists.
    pub fn decide_next(&mut self, learned: Option<Batch>) -> bool {
        let slot = self.decided().next();
        let held = self.open.remove(&slot);
        self.bytes -= held.as_ref().map_or(0, |open| open.batch.weight());
        let (batch, is_recorded) = match (learned, held) {
            (Some(batch), Some(open)) if open.is_recorded => {
                let is_same = open.batch == batch;
                (batch, is_same)
            }
            (Some(batch), _) => (batch, false),
            (None, held) => {
                let open = held.expect("only a held batch is decided without being learned");
                (open.batch, open.is_recorded)
            }
        };
        self.wall = self.wall.max(batch.stamp().wall);
        self.bytes += batch.weight();
        self.chosen.push_back(batch);
        is_recorded
    }

    /// Removes decided batches up to `upto`.
    pub fn trim(&mut self, upto: Slot) {
        assert!(upto <= self.decided(), "only decided slots are trimmed");
        while self.trimmed < upto {
            let batch = self
                .chosen
                .pop_front()
                .expect("the run begins after the trim point");
            self.bytes -= batch.weight();
            self.trimmed = self.trimmed.next();
        }
    }

    /// A snapshot replaces everything up to `upto`, which is above the decided prefix.
    pub fn jump(&mut self, upto: Slot) {
        assert!(
            upto > self.decided(),
            "a snapshot below the prefix moves nothing"
        );
        self.chosen.clear();
        self.open = self.open.split_off(&upto.next());
        self.bytes = self.open.values().map(|open| open.batch.weight()).sum();
        self.trimmed = upto;
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        if let Some((slot, _)) = self.open.first_key_value() {
            assert!(
                *slot > self.decided(),
                "open slots lie above the decided prefix"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_room_however_much_is_held_above_it_and_a_far_slot_has_none() {
        let mut log = SlotLog::default();
        for slot in 2..=OPEN_SLOTS + 1 {
            let open = Open {
                ballot: Ballot::ZERO,
                kind: VoteKind::Classic,
                batch: Batch::noop(),
                is_recorded: false,
            };
            if log.has_room(Slot(slot)) {
                log.put(Slot(slot), open);
            }
        }
        assert!(log.has_room(Slot(1)));
        assert!(!log.has_room(Slot(OPEN_SLOTS + 1)));
        assert!(!log.has_room(Slot(u64::MAX)));
        log.check();
    }
}
