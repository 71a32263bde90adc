//! The records that a start found in the log, and the losses that no later record makes up for.
//!
//! The order of an acceptor's records limits what a lost record can have contained: ballots never fall from record to
//! record, and a later record of a slot replaces the earlier ones. So an acceptor loses its say only in the slots that
//! the damage names, unless no later record bounds the damage. The node that opens a log calls this in the log's order. Claim mp-45.

use crate::{Entry, Record};
use quorate_types::{Digest, Slot, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

/// A part of the log that cannot be read any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostRecord {
    /// A record of this slot: a vote, a chosen batch, or a watermark.
    Slot(Slot),
    /// A record of no slot: a promise.
    Promise,
    /// Any number of records of any slot.
    Anything,
}

/// The promises and votes that an acceptor may have lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Slots in which it may have cast a vote that its records do not show.
    slots: BTreeSet<Slot>,
    is_promise_lost: bool,
    is_anything_lost: bool,
    was_found: bool,
}

impl Damage {
    /// Anything may be lost.
    #[must_use]
    pub fn anything() -> Damage {
        Damage {
            is_anything_lost: true,
            was_found: true,
            ..Damage::default()
        }
    }

    /// Something was lost, whether or not later records make up for it.
    #[must_use]
    pub fn was_found(&self) -> bool {
        self.was_found
    }

    /// Slots for which it must answer `unknown`, never that it did not vote.
    #[must_use]
    pub fn slots(&self) -> &BTreeSet<Slot> {
        &self.slots
    }

    /// Votes may be lost in any slot.
    #[must_use]
    pub fn is_anywhere(&self) -> bool {
        self.is_anything_lost
    }

    /// The loss has no bounds: the acceptor may vote only after all others have reported what they know.
    #[must_use]
    pub fn needs_survey(&self) -> bool {
        self.is_promise_lost || self.is_anything_lost
    }

    /// Something is lost that no later record makes up for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.needs_survey() || !self.slots.is_empty()
    }
}

/// The log as an earlier start of the node left it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Past {
    /// The records in their order.
    pub records: Vec<Record>,
    /// What is missing among them.
    pub damage: Damage,
}

impl Past {
    /// The slot after which the log has everything that this node knew; 0 means from the beginning. `None` if
    /// that is not certain, because there is no log or part of it is missing.
    #[must_use]
    pub fn whole_after(&self) -> Option<Slot> {
        if self.records.is_empty() || self.damage.was_found() {
            return None;
        }
        let oldest = self.oldest_view();
        let records = self.records.iter();
        let records = records.filter(|record| Some(record.view.number) == oldest);
        let trimmed = records.filter_map(|record| match record.entry {
            Entry::Trimmed { upto } => Some(upto),
            Entry::Promise { .. }
            | Entry::Vote { .. }
            | Entry::Chosen { .. }
            | Entry::Decided { .. }
            | Entry::Agreed { .. } => None,
        });
        Some(trimmed.max().unwrap_or(Slot::ZERO))
    }

    /// The newest snapshot for which the log was trimmed, and what a majority holds in it.
    #[must_use]
    pub fn agreed(&self) -> Option<(Slot, Digest)> {
        let agreed = self.records.iter().filter_map(|record| match record.entry {
            Entry::Agreed { slot, digest } => Some((slot, digest)),
            Entry::Promise { .. }
            | Entry::Vote { .. }
            | Entry::Chosen { .. }
            | Entry::Decided { .. }
            | Entry::Trimmed { .. } => None,
        });
        agreed.max_by_key(|(slot, _)| *slot)
    }

    /// The oldest view of which the log has all that this node said. An acceptor notes an agreed snapshot only once nothing of the
    /// views before its own is needed: what is left of these is not whole.
    fn oldest_view(&self) -> Option<ViewNumber> {
        let views = |is_wanted: fn(&Record) -> bool| {
            let records = self.records.iter().filter(move |record| is_wanted(record));
            records.map(|record| record.view.number)
        };
        let noted = views(|record| matches!(record.entry, Entry::Agreed { .. })).max();
        let kept = views(|_| true).filter(|view| Some(*view) >= noted);
        kept.min()
    }

    /// Parts the log by view, for a replica that begins with `first` and a node that has taken part in no view after `begun`.
    /// Returns what there is of `first`, and the records of other views. What was lost may be of any of them.
    #[must_use]
    pub fn part(
        self,
        first: ViewNumber,
        begun: ViewNumber,
    ) -> (Past, BTreeMap<ViewNumber, Vec<Record>>) {
        let oldest = self.oldest_view();
        let Past { records, damage } = self;
        let mut views: BTreeMap<ViewNumber, Vec<Record>> = BTreeMap::new();
        for record in records {
            if Some(record.view.number) >= oldest {
                views.entry(record.view.number).or_default().push(record);
            }
        }
        let records = views.remove(&first).unwrap_or_default();
        let is_gone = records.is_empty() && (begun > first || begun == first && first.0 > 1);
        let is_mixed = damage.was_found() && !views.is_empty();
        let damage = if is_gone || is_mixed {
            Damage::anything()
        } else {
            damage
        };
        (Past { records, damage }, views)
    }

    /// The next record that could be read.
    pub fn read(&mut self, record: Record) {
        let damage = &mut self.damage;
        match &record.entry {
            // Ballots never fall: what was promised before is at or below this one.
            Entry::Promise { .. } => damage.is_promise_lost = false,
            Entry::Vote { slot, .. } => {
                damage.is_promise_lost = false;
                damage.slots.remove(slot);
            }
            // A base begins with what its oldest view has trimmed. A later view has all before its first slot trimmed from the
            // beginning: that says nothing of slots of a view that is still kept.
            Entry::Trimmed { upto }
                if !damage.slots.is_empty() && is_oldest(&self.records, record.view.number) =>
            {
                damage.slots = damage.slots.split_off(&upto.next());
            }
            Entry::Trimmed { .. } => {}
            // A chosen batch that does not continue the decided prefix is no vote, so it hides no lost one.
            Entry::Chosen { .. } | Entry::Decided { .. } | Entry::Agreed { .. } => {}
        }
        self.records.push(record);
    }

    /// The next thing that could not be read.
    pub fn lost(&mut self, lost: LostRecord) {
        let damage = &mut self.damage;
        damage.was_found = true;
        match lost {
            LostRecord::Slot(slot) => {
                damage.slots.insert(slot);
            }
            LostRecord::Promise => damage.is_promise_lost = true,
            LostRecord::Anything => {
                damage.is_promise_lost = true;
                damage.is_anything_lost = true;
            }
        }
    }
}

/// Whether none of these records is of a view before this one.
fn is_oldest(records: &[Record], view: ViewNumber) -> bool {
    records.iter().all(|record| record.view.number >= view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{Ballot, Batch, GroupId, ViewId};

    fn record(entry: Entry) -> Record {
        record_in(1, entry)
    }

    fn record_in(view: u64, entry: Entry) -> Record {
        let view = ViewId {
            group: GroupId(1),
            number: ViewNumber(view),
        };
        Record { view, entry }
    }

    fn vote(slot: u64) -> Record {
        record(Entry::Vote {
            slot: Slot(slot),
            ballot: Ballot::ZERO,
            kind: quorate_types::VoteKind::Classic,
            batch: Batch::noop(),
        })
    }

    #[test]
    fn a_whole_log_says_where_it_begins() {
        let mut past = Past::default();
        assert_eq!(past.whole_after(), None, "there is no log");
        past.read(vote(4));
        assert_eq!(past.whole_after(), Some(Slot::ZERO));
        past.read(record(Entry::Trimmed { upto: Slot(3) }));
        assert_eq!(past.whole_after(), Some(Slot(3)));
        past.lost(LostRecord::Slot(Slot(4)));
        assert_eq!(past.whole_after(), None, "some of it is missing");
    }

    #[test]
    fn the_newest_agreed_snapshot_is_told_whatever_else_is_lost() {
        let agreed = |slot, replicated| {
            let state = [7; 32];
            let digest = Digest { replicated, state };
            (Slot(slot), digest)
        };
        let mut past = Past::default();
        assert_eq!(past.agreed(), None);
        for (slot, digest) in [agreed(3, 1), agreed(9, 2), agreed(5, 3)] {
            past.read(record(Entry::Agreed { slot, digest }));
        }
        past.lost(LostRecord::Anything);
        assert_eq!(past.agreed(), Some(agreed(9, 2)));
    }

    #[test]
    fn a_later_vote_makes_up_for_a_lost_promise_and_for_a_lost_record_of_its_slot() {
        let mut past = Past::default();
        past.lost(LostRecord::Promise);
        past.lost(LostRecord::Slot(Slot(3)));
        past.lost(LostRecord::Slot(Slot(4)));
        assert!(past.damage.needs_survey());
        past.read(vote(4));
        assert!(!past.damage.needs_survey());
        assert_eq!(past.damage.slots(), &BTreeSet::from([Slot(3)]));
        past.read(record(Entry::Trimmed { upto: Slot(3) }));
        assert!(past.damage.was_found() && !past.damage.is_open());
    }

    #[test]
    fn what_a_later_view_has_trimmed_makes_up_for_no_lost_record_of_a_view_that_is_kept() {
        let trimmed = |view, upto| record_in(view, Entry::Trimmed { upto: Slot(upto) });
        let mut past = Past::default();
        past.lost(LostRecord::Slot(Slot(2)));
        past.lost(LostRecord::Slot(Slot(4)));
        past.read(vote(5));
        past.read(record(Entry::Decided { upto: Slot(5) }));
        // The base of the older view, and what the later one, which begins after slot 5, says in it.
        past.read(trimmed(1, 2));
        past.read(trimmed(2, 5));
        assert_eq!(past.damage.slots(), &BTreeSet::from([Slot(4)]));
        assert!(past.damage.is_open());

        // Once nothing of the older view is left, the later one makes up for it.
        let mut past = Past::default();
        past.lost(LostRecord::Slot(Slot(4)));
        past.read(trimmed(2, 5));
        assert!(past.damage.was_found() && !past.damage.is_open());
    }

    #[test]
    fn a_record_before_the_damage_makes_up_for_nothing() {
        let mut past = Past::default();
        past.read(vote(4));
        past.lost(LostRecord::Slot(Slot(4)));
        past.lost(LostRecord::Promise);
        assert!(past.damage.needs_survey() && past.damage.is_open());
        assert!(past.damage.slots().contains(&Slot(4)));
    }

    #[test]
    fn a_loss_that_names_nothing_may_be_anywhere_whatever_follows() {
        let mut past = Past::default();
        past.lost(LostRecord::Anything);
        past.read(vote(9));
        assert!(past.damage.needs_survey() && past.damage.is_anywhere());
    }
}
