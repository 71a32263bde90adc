//! Watches that an acceptor writes before it speaks, and that what replaces old records says no more and no less than
//! they did.
//!
//! Fed by the seeded world in disk mode: with records once they are durable, with what a start finds, and with promises
//! and votes as they leave. A vote in a slot that the acceptor knows to be decided needs no record; the world tells none
//! of those.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{Ballot, NodeId, Slot};

use super::agreement::Fingerprint;
use super::rounds::VoteRound;
use super::{Property, Violation};

/// What is durable at each acceptor.
#[derive(Debug, Default)]
pub struct Written {
    logs: BTreeMap<NodeId, Log>,
    /// The slot after which the view begins.
    before: Slot,
}

/// The records of one log, folded.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The highest ballot of a promise or vote.
    promised: Ballot,
    /// Per slot, the rounds voted in.
    votes: BTreeMap<Slot, BTreeMap<VoteRound, Fingerprint>>,
    /// Per slot, what is written as chosen.
    chosen: BTreeMap<Slot, Fingerprint>,
    decided: Slot,
    trimmed: Slot,
    lost: LostRecords,
}

/// Which records damage has taken from a log.
#[derive(Clone, Debug, Default)]
pub struct LostRecords {
    /// Some of these slots.
    pub slots: BTreeSet<Slot>,
    /// Any: then no watermark of the log counts.
    pub is_anywhere: bool,
}

/// A record, its batch by fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A promise of this ballot.
    Promise(Ballot),
    /// A vote.
    Vote(Slot, VoteRound, Fingerprint),
    /// What is decided in a slot.
    Chosen(Slot, Fingerprint),
    /// All slots up to here are decided.
    Decided(Slot),
    /// All slots up to here are only in snapshots.
    Trimmed(Slot),
    /// A majority agrees on the snapshot here.
    Agreed(Slot),
}

impl Log {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Promise(ballot) => self.promised = self.promised.max(ballot),
            Entry::Vote(slot, round, value) => {
                self.promised = self.promised.max(round.ballot);
                self.votes.entry(slot).or_default().insert(round, value);
            }
            Entry::Chosen(slot, value) => {
                self.chosen.insert(slot, value);
            }
            Entry::Decided(upto) => self.decided = self.decided.max(upto),
            Entry::Trimmed(upto) => {
                self.trimmed = self.trimmed.max(upto);
                self.decided = self.decided.max(upto);
                self.votes = self.votes.split_off(&self.trimmed.next());
                self.chosen = self.chosen.split_off(&self.trimmed.next());
            }
            Entry::Agreed(_) => {}
        }
    }

    /// What a start takes for decided in `slot`.
    fn held(&self, slot: Slot) -> Option<Fingerprint> {
        let newest = self
            .votes
            .get(&slot)
            .and_then(|votes| votes.last_key_value());
        let chosen = self.chosen.get(&slot).copied();
        chosen.or(newest.map(|(_, value)| *value))
    }

    /// Looks whether the watermark covers, above `from`, only slots of which the records hold what is decided.
    fn check_watermark(
        &self,
        node: NodeId,
        from: Slot,
        value: impl Fn(Slot) -> Option<Fingerprint>,
    ) -> Result<(), Violation> {
        if self.lost.is_anywhere {
            return Ok(());
        }
        let covered = (from.max(self.trimmed).0 + 1..=self.decided.0).map(Slot);
        let mut whole = covered.filter(|slot| !self.lost.slots.contains(slot));
        let wrong =
            whole.find(|slot| self.held(*slot).is_none() || self.held(*slot) != value(*slot));
        let Some(slot) = wrong else {
            return Ok(());
        };
        broken(format!(
            "{node} has written that slots up to {} are decided, and holds {:x?} for {slot}, where {:x?} was decided",
            self.decided,
            self.held(slot),
            value(slot)
        ))
    }
}

impl Written {
    /// Of a view that begins after `before`.
    pub fn after(before: Slot) -> Written {
        Written {
            logs: BTreeMap::new(),
            before,
        }
    }

    /// Takes note that an entry is durable at `node`. `value` knows what is decided.
    ///
    /// # Errors
    /// [`Property::Remembered`] when it is a watermark above records of another value, or of none.
    pub fn wrote(
        &mut self,
        node: NodeId,
        entry: Entry,
        value: impl Fn(Slot) -> Option<Fingerprint>,
    ) -> Result<(), Violation> {
        let log = self.logs.entry(node).or_default();
        let before = log.decided.max(self.before);
        log.take(entry);
        log.check_watermark(node, before, value)
    }

    /// Takes note of what `node` finds when it starts, and of what it cannot read; nothing else is durable there.
    ///
    /// # Errors
    /// [`Property::Remembered`] when the watermark covers a slot whose records hold another value, or none.
    pub fn found(
        &mut self,
        node: NodeId,
        entries: impl IntoIterator<Item = Entry>,
        lost: LostRecords,
        value: impl Fn(Slot) -> Option<Fingerprint>,
    ) -> Result<(), Violation> {
        let mut log = Log {
            lost,
            ..Log::default()
        };
        entries.into_iter().for_each(|entry| log.take(entry));
        let judged = log.check_watermark(node, self.before, value);
        self.logs.insert(node, log);
        judged
    }

    /// Takes note that a promise of `node` leaves it.
    ///
    /// # Errors
    /// [`Property::Remembered`] when it is not durable.
    pub fn told_promise(&self, node: NodeId, ballot: Ballot) -> Result<(), Violation> {
        let durable = self
            .logs
            .get(&node)
            .map_or(Ballot::ZERO, |log| log.promised);
        if durable >= ballot {
            return Ok(());
        }
        broken(format!(
            "{node} tells a promise of {ballot}, durable is {durable}"
        ))
    }

    /// Takes note that a vote of `node` in a slot that it does not know to be decided leaves it.
    ///
    /// # Errors
    /// [`Property::Remembered`] when it is not durable.
    pub fn told_vote(
        &self,
        node: NodeId,
        slot: Slot,
        round: impl Into<VoteRound>,
    ) -> Result<(), Violation> {
        let round = round.into();
        let votes = self.logs.get(&node).and_then(|log| log.votes.get(&slot));
        if votes.is_some_and(|votes| votes.contains_key(&round)) {
            return Ok(());
        }
        let durable: Vec<_> = votes.into_iter().flatten().collect();
        broken(format!(
            "{node} tells a vote in {slot} {round:?}, durable are {durable:x?}"
        ))
    }

    /// The value of a durable vote of `node`.
    pub fn vote_in(&self, node: NodeId, slot: Slot, round: VoteRound) -> Option<Fingerprint> {
        let votes = self.logs.get(&node)?.votes.get(&slot)?;
        votes.get(&round).copied()
    }

    /// The slots before `slot` of which nothing is durable at `node`.
    pub fn lacking(&self, node: NodeId, slot: Slot) -> impl Iterator<Item = Slot> {
        let log = self.logs.get(&node);
        let begins = log.map_or(self.before, |log| log.trimmed.max(self.before));
        let before = (begins.0 + 1..slot.0).map(Slot);
        before.filter(move |slot| log.is_none_or(|log| log.held(*slot).is_none()))
    }

    /// The newest durable vote of `node` in each slot.
    pub fn votes(&self, node: NodeId) -> BTreeMap<Slot, (VoteRound, Fingerprint)> {
        let votes = self.logs.get(&node).map(|log| &log.votes);
        let newest = votes.into_iter().flatten().filter_map(|(slot, votes)| {
            let (round, value) = votes.last_key_value()?;
            Some((*slot, (*round, *value)))
        });
        newest.collect()
    }

    /// Takes note that `node` tells a damaged acceptor what it promised and the highest slot that it voted in.
    ///
    /// # Errors
    /// [`Property::Remembered`] when its disk holds more.
    pub fn surveyed(&self, node: NodeId, promised: Ballot, voted: Slot) -> Result<(), Violation> {
        let Some(log) = self.logs.get(&node) else {
            return Ok(());
        };
        let last = log.votes.last_key_value().map(|(slot, _)| *slot);
        if promised >= log.promised && Some(voted) >= last {
            return Ok(());
        }
        broken(format!(
            "{node} tells a survey of {promised} and of votes up to {voted}; durable are {} and {last:?}",
            log.promised
        ))
    }

    /// Takes note that `node` wants a base in place of older records that says so much of this view, and of which it trims nothing.
    ///
    /// # Errors
    /// [`Property::Remembered`] when a durable promise would be gone.
    pub fn restated(&self, node: NodeId, base: &[Entry]) -> Result<(), Violation> {
        let mut fold = Log::default();
        base.iter().for_each(|entry| fold.take(*entry));
        let durable = self
            .logs
            .get(&node)
            .map_or(Ballot::ZERO, |log| log.promised);
        if fold.promised >= durable {
            return Ok(());
        }
        broken(format!(
            "{node} replaces a durable promise of {durable:?} by one of {:?}",
            fold.promised
        ))
    }

    /// Takes note that `base` is to replace the records up to `upto`.
    ///
    /// # Errors
    /// [`Property::Remembered`] when it promises less than the records did, or speaks of other slots than those: it may
    /// become durable before records that were written ahead of it.
    pub fn replaced(&self, node: NodeId, upto: Slot, base: &[Entry]) -> Result<(), Violation> {
        self.restated(node, base)?;
        let mut fold = Log::default();
        base.iter().for_each(|entry| fold.take(*entry));
        if fold.trimmed == upto && fold.decided == upto {
            return Ok(());
        }
        broken(format!(
            "{node} replaces its records up to {upto} by a base that is trimmed up to {} and decided up to {}",
            fold.trimmed, fold.decided
        ))
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Remembered, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::ballot;

    const A: NodeId = NodeId(1);

    /// A record that is no watermark.
    fn write(seen: &mut Written, entry: Entry) {
        seen.wrote(A, entry, |_| None).unwrap();
    }

    #[test]
    fn what_is_told_was_written_in_that_very_ballot() {
        let mut seen = Written::default();
        write(&mut seen, Entry::Vote(Slot(1), ballot(2).into(), 7));
        seen.told_promise(A, ballot(2)).unwrap();
        seen.told_vote(A, Slot(1), ballot(2)).unwrap();
        assert!(seen.told_promise(A, ballot(3)).is_err());
        assert!(
            seen.told_vote(A, Slot(1), ballot(3)).is_err(),
            "the older vote is no vote there"
        );
        assert!(seen.told_vote(A, Slot(2), ballot(2)).is_err());
    }

    #[test]
    fn a_survey_that_leaves_out_a_vote_or_a_promise_is_found() {
        let mut seen = Written::default();
        seen.surveyed(A, Ballot::ZERO, Slot(0)).unwrap();
        write(&mut seen, Entry::Vote(Slot(1), ballot(2).into(), 7));
        write(&mut seen, Entry::Promise(ballot(3)));
        assert_eq!(seen.votes(A), [(Slot(1), (ballot(2).into(), 7))].into());
        seen.surveyed(A, ballot(3), Slot(1)).unwrap();
        assert!(seen.surveyed(A, ballot(3), Slot(0)).is_err());
        assert!(seen.surveyed(A, ballot(2), Slot(1)).is_err());
    }

    #[test]
    fn a_start_on_less_takes_back_what_was_written() {
        let mut seen = Written::default();
        write(&mut seen, Entry::Vote(Slot(1), ballot(2).into(), 7));
        seen.found(
            A,
            [Entry::Promise(ballot(2))],
            LostRecords::default(),
            |_| None,
        )
        .unwrap();
        seen.told_promise(A, ballot(2)).unwrap();
        assert!(seen.told_vote(A, Slot(1), ballot(2)).is_err());
    }

    #[test]
    fn a_watermark_above_records_of_another_value_is_found() {
        let old = [
            Entry::Vote(Slot(1), ballot(1).into(), 7),
            Entry::Decided(Slot(1)),
        ];
        let whole = [old[0], Entry::Chosen(Slot(1), 8), old[1]];
        let gone = [Entry::Decided(Slot(1))];
        let found = |entries: &[Entry], lost| {
            Written::default().found(A, entries.iter().copied(), lost, |_| Some(8))
        };
        assert!(found(&old, LostRecords::default()).is_err());
        found(&whole, LostRecords::default()).unwrap();
        assert!(found(&gone, LostRecords::default()).is_err());
        let slots = |slots: &[u64]| LostRecords {
            slots: slots.iter().copied().map(Slot).collect(),
            is_anywhere: false,
        };
        assert!(found(&old, slots(&[2])).is_err(), "nothing of it is lost");
        found(&old, slots(&[1])).unwrap();
        let anywhere = LostRecords {
            is_anywhere: true,
            ..LostRecords::default()
        };
        found(&old, anywhere).unwrap();
    }

    #[test]
    fn a_watermark_is_looked_at_when_it_is_written() {
        let mut seen = Written::default();
        write(&mut seen, Entry::Vote(Slot(1), ballot(1).into(), 7));
        let decided = |_| Some(8);
        assert!(seen.wrote(A, Entry::Decided(Slot(1)), decided).is_err());
    }

    #[test]
    fn a_base_restates_the_promise_and_the_watermarks_of_what_it_replaces() {
        let mut seen = Written::default();
        write(&mut seen, Entry::Promise(ballot(2)));
        let base = |promise, decided, trimmed| {
            [
                Entry::Promise(promise),
                Entry::Trimmed(trimmed),
                Entry::Decided(decided),
            ]
        };
        seen.replaced(A, Slot(5), &base(ballot(2), Slot(5), Slot(5)))
            .unwrap();
        for wrong in [
            base(ballot(1), Slot(5), Slot(5)),
            base(ballot(2), Slot(6), Slot(5)),
            base(ballot(2), Slot(6), Slot(6)),
            base(ballot(2), Slot(4), Slot(4)),
        ] {
            assert!(seen.replaced(A, Slot(5), &wrong).is_err(), "{wrong:?}");
        }
    }
}
