//! The acceptor's part in fast rounds: which values have reached it, and in which slots it votes for them.
//!
//! It votes for values in the order in which they arrive, each in its next free slot, and only in the ballot whose leader
//! opened the slots. Where several proposers send at the same time, other acceptors may have another order. Claim fp-1.

use crate::Seat;
use crate::limits::{RECENT_SLOTS, VALUES};
use crate::message::{Message, Propose};
use quorate_acceptor::{Backing, DurableAnswer};
use quorate_ordering::Effects;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Slot, ValueId, VoteKind};
use std::collections::{BTreeMap, VecDeque};

/// The values proposed to all acceptors, and where they may be voted for.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Caster {
    /// The ballot that is open to any value, and its first such slot.
    any: Option<(Ballot, Slot)>,
    /// No slot before this one is free in that ballot.
    next: Slot,
    values: BTreeMap<ValueId, (Ballot, Batch)>,
    /// Values not voted for yet, in the order of their arrival. Invariant: each is among `values`.
    waiting: VecDeque<ValueId>,
    /// Invariant: the weight of `values`.
    bytes: usize,
}

impl Caster {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn take(&mut self, value: ValueId) {
        if let Some((_, batch)) = self.values.remove(&value) {
            self.bytes -= batch.weight();
            self.waiting.retain(|waiting| *waiting != value);
        }
    }

    pub(crate) fn check(&self) {
        let weights = self.values.values().map(|(_, batch)| batch.weight());
        assert_eq!(weights.sum::<usize>(), self.bytes, "kept bytes are counted");
        let mut waiting = self.waiting.iter();
        assert!(
            waiting.all(|value| self.values.contains_key(value)),
            "what waits is kept"
        );
    }
}

impl Seat {
    /// The ballot of the leader that this node follows, or leads itself, if it is open to any value.
    pub(crate) fn any(&self) -> Option<(Ballot, Slot)> {
        let promised = self.acceptor.promised();
        self.caster.any.filter(|(ballot, _)| *ballot == promised)
    }

    /// The leader of the promised ballot opened the slots from `from` on.
    pub(crate) fn open(&mut self, ballot: Ballot, from: Slot, effects: &mut Effects<Message>) {
        assert_eq!(
            ballot,
            self.acceptor.promised(),
            "only its leader opens a ballot"
        );
        if self.any().is_none() {
            self.caster.any = Some((ballot, from));
            self.caster.next = from;
            self.cast_waiting(effects);
        }
    }

    /// A value was proposed to all acceptors.
    pub(crate) fn on_propose(
        &mut self,
        Propose {
            ballot,
            value,
            batch,
        }: Propose,
        effects: &mut Effects<Message>,
    ) {
        let is_late = ballot < self.acceptor.promised() && !planted(Plant::AnyOfOldBallot);
        if is_late || self.is_recent(&batch) {
            return;
        }
        if let Some((slot, kind)) = self.held_in(ballot, &batch) {
            if self.acceptor.is_voter() {
                // Somebody has not heard of the vote.
                let backing = Backing::Vote;
                self.acceptor.gate.after(DurableAnswer::Voted {
                    ballot,
                    slot,
                    kind,
                    backing,
                });
            }
            return;
        }
        if self.caster.values.contains_key(&value) {
            if !self.caster.waiting.contains(&value) {
                self.caster.waiting.push_back(value);
            }
        } else {
            let is_full = self.caster.values.len() >= VALUES
                || self.caster.bytes >= self.config.limits.queue_bytes;
            if is_full {
                return;
            }
            self.caster.bytes += batch.weight();
            self.caster.values.insert(value, (ballot, batch));
            self.caster.waiting.push_back(value);
        }
        self.cast_waiting(effects);
    }

    /// Votes for the values that wait, as far as their ballot is open and slots are free.
    pub(crate) fn cast_waiting(&mut self, effects: &mut Effects<Message>) {
        let any = if planted(Plant::AnyOfOldBallot) {
            self.caster.any
        } else {
            self.any()
        };
        let Some((ballot, _)) = any.filter(|_| self.acceptor.is_voter()) else {
            return;
        };
        while let Some(value) = self.caster.waiting.front().copied() {
            let (own, batch) = self.caster.values[&value].clone();
            if own > ballot {
                return;
            }
            if own == ballot && self.held_in(ballot, &batch).is_none() {
                let Some(slot) = self.free_slot() else { return };
                let lacks_before = batch.is_collecting();
                if self.acceptor.try_cast(slot, value, batch, effects) {
                    self.caster.next = slot.next();
                } else {
                    // Its proposer sends it again; by then this node may have learned what it lacks before a trim.
                    assert!(lacks_before, "the slot is free");
                }
            }
            self.caster.waiting.pop_front();
        }
    }

    /// Where this acceptor votes for `batch` in `ballot` already, in either round.
    fn held_in(&self, ballot: Ballot, batch: &Batch) -> Option<(Slot, VoteKind)> {
        let mut open = self.acceptor.log.open_from(Slot::ZERO);
        let held = open.find(|(_, open)| open.ballot == ballot && open.batch == *batch);
        held.map(|(slot, open)| (slot, open.kind))
    }

    /// The next slot in which this acceptor has no vote in the open ballot.
    fn free_slot(&self) -> Option<Slot> {
        let mut slot = self.caster.next.max(self.acceptor.log.decided().next());
        while self.is_open(slot) {
            if self.acceptor.may_cast(slot) {
                return Some(slot);
            }
            if !self.acceptor.log.has_room(slot) {
                return None;
            }
            slot = slot.next();
        }
        None
    }

    /// The batch that an acceptor voted for with `kind` in `slot`, if this node has it.
    pub(crate) fn value_of(&self, slot: Slot, ballot: Ballot, kind: VoteKind) -> Option<Batch> {
        let open = self.acceptor.log.open(slot);
        let held = open.filter(|open| open.ballot == ballot && open.kind == kind);
        held.map(|open| open.batch.clone()).or_else(|| match kind {
            VoteKind::Fast(value) => {
                let kept = self.caster.values.get(&value);
                kept.map(|(_, batch)| batch.clone())
            }
            VoteKind::Classic => None,
        })
    }

    /// Whether `batch` was decided in one of the last slots: a copy of it that arrives late is not voted for again.
    pub(crate) fn is_recent(&self, batch: &Batch) -> bool {
        let decided = self.acceptor.log.decided();
        let oldest = decided.0.saturating_sub(RECENT_SLOTS) + 1;
        let mut slots = (oldest..=decided.0).rev().map(Slot);
        slots.any(|slot| self.acceptor.log.chosen(slot) == Some(batch))
    }

    /// `batch` is decided: it takes no second slot.
    pub(crate) fn forget_value(&mut self, batch: &Batch) {
        let mut values = self.caster.values.iter();
        let same = values.find(|(_, (_, kept))| kept == batch);
        if let Some(value) = same.map(|(value, _)| *value) {
            self.caster.take(value);
        }
    }

    /// A higher ballot was promised: no value of a lower one is voted for any more.
    pub(crate) fn forget_old_values(&mut self) {
        if planted(Plant::AnyOfOldBallot) {
            return;
        }
        let promised = self.acceptor.promised();
        let values = self.caster.values.iter();
        let old = values.filter(|(_, (ballot, _))| *ballot < promised);
        let old: Vec<ValueId> = old.map(|(value, _)| *value).collect();
        for value in old {
            self.caster.take(value);
        }
    }
}
