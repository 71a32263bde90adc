//! Watches votes, promises and decisions as they leave the nodes: nothing may be decided or voted twice differently,
//! and nothing told may be forgotten.
//!
//! Fed by the seeded world at each event of one group and view, in any order of nodes. Tell it a vote or promise when
//! its message *leaves* a node: what only sits in memory may be forgotten. Values are compared by fingerprint, which
//! the world computes from the bytes of a batch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use quorate_types::{Ballot, NodeId, Slot};

use super::rounds::VoteRound;
use super::{Property, Violation};

/// Hash of the bytes of a batch.
pub type Fingerprint = u64;

/// All that was told and decided so far.
#[derive(Debug, Default)]
pub struct Agreement {
    decided: BTreeMap<Slot, (Fingerprint, NodeId)>,
    /// What each classic round was for.
    voted: BTreeMap<(Slot, Ballot), (Fingerprint, NodeId)>,
    /// What each acceptor voted for in a fast round.
    cast: BTreeMap<(Slot, Ballot, NodeId), Fingerprint>,
    opened: BTreeMap<Ballot, NodeId>,
    told: BTreeMap<NodeId, Told>,
}

/// What one acceptor has told others.
#[derive(Debug, Default)]
struct Told {
    promised: Ballot,
    /// The highest vote by slot.
    votes: BTreeMap<Slot, (VoteRound, Fingerprint)>,
    promises: BTreeMap<Ballot, Vec<Promise>>,
    /// The highest ballot that was opened when the node last started on a log of which any record may be lost.
    lost_up_to: Option<Ballot>,
}

/// One page of a promise: what its sender said of the slots of `covers`.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Slots that the page speaks of; a last page reaches to the highest slot there is.
    pub covers: RangeInclusive<u64>,
    /// Slots up to here are decided or trimmed at the sender: it need not report votes for them.
    pub floor: Slot,
    /// The reported votes: slot, round.
    pub votes: BTreeMap<Slot, VoteRound>,
    /// Slots of which the sender says that it no longer knows: it is no witness there.
    pub unknown: BTreeSet<Slot>,
}

/// What an acceptor holds when it has loaded its log after a restart.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// The highest ballot promised.
    pub promised: Ballot,
    /// Slots up to here were trimmed: their votes may be gone.
    pub trimmed: Slot,
    /// The vote by slot.
    pub votes: BTreeMap<Slot, (VoteRound, Fingerprint)>,
}

impl Agreement {
    /// Takes note that `node` decides `slot` with a value.
    ///
    /// # Errors
    /// [`Property::Agreement`] when the slot was decided otherwise, on any node or on this one before.
    pub fn decided(
        &mut self,
        node: NodeId,
        slot: Slot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let (first, at) = *self.decided.entry(slot).or_insert((value, node));
        if first == value {
            return Ok(());
        }
        Err(Violation::new(
            Property::Agreement,
            format!("{slot}: {node} decides {value:016x}, {at} decided {first:016x}"),
        ))
    }

    /// Takes note that `proposer` begins phase 1 of `ballot`, or phase 2 if it needs no phase 1.
    ///
    /// # Errors
    /// [`Property::BallotUnique`] when the ballot was opened before, by anyone, in this life or an earlier one.
    pub fn opened(&mut self, proposer: NodeId, ballot: Ballot) -> Result<(), Violation> {
        match self.opened.insert(ballot, proposer) {
            None => Ok(()),
            Some(before) => Err(Violation::new(
                Property::BallotUnique,
                format!("{proposer} opens {ballot}, which {before} opened before"),
            )),
        }
    }

    /// Takes note that a vote of `node` leaves it.
    ///
    /// # Errors
    /// [`Property::OneValuePerBallot`] when another value was voted in this slot and round, in a fast one by this node, and
    /// [`Property::PromiseKept`] when a higher promise of the node did not report the vote.
    pub fn voted(
        &mut self,
        node: NodeId,
        slot: Slot,
        round: impl Into<VoteRound>,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let round = round.into();
        let ballot = round.ballot;
        let (first, at) = match round.is_classic {
            true => *self.voted.entry((slot, ballot)).or_insert((value, node)),
            false => {
                let cast = self.cast.entry((slot, ballot, node)).or_insert(value);
                (*cast, node)
            }
        };
        if first != value {
            return Err(Violation::new(
                Property::OneValuePerBallot,
                format!("{slot} {round:?}: {node} votes {value:016x}, {at} voted {first:016x}"),
            ));
        }
        let told = self.told.entry(node).or_default();
        let higher = (
            std::ops::Bound::Excluded(ballot),
            std::ops::Bound::Unbounded,
        );
        let may_show_again = told.lost_up_to.is_some_and(|lost| ballot <= lost);
        for (promised, pages) in told.promises.range(higher) {
            for page in pages.iter().filter(|_| !may_show_again) {
                page.check(node, *promised, slot, round)?;
            }
        }
        let vote = told.votes.entry(slot).or_insert((round, value));
        if round > vote.0 {
            *vote = (round, value);
        }
        Ok(())
    }

    /// Takes note that a page of a promise of `node` for `ballot` leaves it.
    ///
    /// # Errors
    /// [`Property::PromiseKept`] when the page leaves out a vote that the node has told for a lower ballot.
    pub fn promised(
        &mut self,
        node: NodeId,
        ballot: Ballot,
        page: Promise,
    ) -> Result<(), Violation> {
        let told = self.told.entry(node).or_default();
        told.promised = told.promised.max(ballot);
        let covered = Slot(*page.covers.start())..=Slot(*page.covers.end());
        for (slot, (vote, _)) in told.votes.range(covered) {
            if vote.ballot < ballot {
                page.check(node, ballot, *slot, *vote)?;
            }
        }
        told.promises.entry(ballot).or_default().push(page);
        Ok(())
    }

    /// Takes note that `node` starts on a log of which any record may be lost. It votes again once all that others know of is decided:
    /// a vote of its own that no other acceptor holds chose nothing, and may stay forgotten. It may also show again, where its
    /// record was not the lost one: after the repair the next start takes it from the log, and a true vote harms nobody.
    /// Returns whether it told anything.
    pub fn forgot(&mut self, node: NodeId) -> bool {
        let newest = self.opened.last_key_value().map(|(ballot, _)| *ballot);
        let told = self.told.entry(node).or_default();
        let has_told = told.promised > Ballot::ZERO || !told.votes.is_empty();
        told.votes.clear();
        told.lost_up_to = newest;
        has_told
    }

    /// Takes note of what a node with a durable log holds after a restart, before it speaks.
    ///
    /// # Errors
    /// [`Property::Remembered`] when a told promise or vote is gone.
    pub fn restarted(&self, node: NodeId, holds: &Remembered) -> Result<(), Violation> {
        let Some(told) = self.told.get(&node) else {
            return Ok(());
        };
        let forgot = |detail| Err(Violation::new(Property::Remembered, detail));
        if holds.promised < told.promised {
            return forgot(format!(
                "{node} told a promise of {} and restarts with {}",
                told.promised, holds.promised
            ));
        }
        for (slot, (round, value)) in told.votes.range(holds.trimmed.next()..) {
            match holds.votes.get(slot) {
                Some((held, same)) if held == round && same == value => {}
                Some((held, _)) if held > round => {}
                held => {
                    return forgot(format!(
                        "{node} told a vote for {value:016x} in {slot} {round:?} and restarts with {held:x?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Takes a look at a node that starts on a log of which only records of some slots are lost: its promise is not.
    ///
    /// # Errors
    /// [`Property::Remembered`] when it told a higher promise than it has.
    pub fn restarted_on_damage(&self, node: NodeId, promised: Ballot) -> Result<(), Violation> {
        let told = self.told.get(&node);
        match told.filter(|told| promised < told.promised) {
            None => Ok(()),
            Some(told) => Err(Violation::new(
                Property::Remembered,
                format!(
                    "{node} told a promise of {}, lost records of slots only, and restarts with {promised}",
                    told.promised
                ),
            )),
        }
    }

    /// Slots decided anywhere with the fingerprint of their value.
    pub fn decisions(&self) -> impl Iterator<Item = (Slot, Fingerprint)> {
        self.decided
            .iter()
            .map(|(slot, (value, _))| (*slot, *value))
    }
}

impl Promise {
    /// Invariant of phase 1: a promise reports, for each slot it covers above its floor, a vote at least as high as
    /// any lower-ballot vote its sender ever tells, before or after.
    fn check(
        &self,
        node: NodeId,
        promised: Ballot,
        slot: Slot,
        vote: VoteRound,
    ) -> Result<(), Violation> {
        let silent =
            slot <= self.floor || !self.covers.contains(&slot.0) || self.unknown.contains(&slot);
        if silent || self.votes.get(&slot).is_some_and(|told| *told >= vote) {
            return Ok(());
        }
        Err(Violation::new(
            Property::PromiseKept,
            format!(
                "{node} promised {promised} reporting {:?} for {slot}, yet tells a vote of {vote:?} there",
                self.votes.get(&slot)
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn ballot(round: u64, node: u16) -> Ballot {
        Ballot {
            view: quorate_types::ViewNumber(1),
            round,
            node: NodeId(node),
            boot: 1,
        }
    }

    fn page(votes: &[(u64, Ballot)]) -> Promise {
        Promise {
            covers: 1..=u64::MAX,
            floor: Slot(0),
            votes: votes
                .iter()
                .map(|(slot, vote)| (Slot(*slot), (*vote).into()))
                .collect(),
            unknown: BTreeSet::new(),
        }
    }

    fn property(result: Result<(), Violation>) -> Property {
        result.expect_err("a planted fault is found").property
    }

    #[test]
    fn two_values_in_one_slot_break_agreement() {
        let mut seen = Agreement::default();
        seen.decided(A, Slot(1), 7).unwrap();
        seen.decided(B, Slot(1), 7).unwrap();
        seen.decided(A, Slot(2), 8).unwrap();
        assert_eq!(property(seen.decided(B, Slot(2), 9)), Property::Agreement);
        assert_eq!(seen.decisions().count(), 2);
    }

    #[test]
    fn two_values_in_one_ballot_are_found_and_in_two_ballots_are_fine() {
        let mut seen = Agreement::default();
        seen.voted(A, Slot(1), ballot(1, 1), 7).unwrap();
        seen.voted(B, Slot(1), ballot(1, 1), 7).unwrap();
        seen.voted(B, Slot(1), ballot(2, 2), 8).unwrap();
        let twice = seen.voted(B, Slot(1), ballot(1, 1), 8);
        assert_eq!(property(twice), Property::OneValuePerBallot);
    }

    #[test]
    fn a_ballot_opened_again_is_found() {
        let mut seen = Agreement::default();
        seen.opened(A, ballot(1, 1)).unwrap();
        seen.opened(A, ballot(2, 1)).unwrap();
        assert_eq!(
            property(seen.opened(A, ballot(1, 1))),
            Property::BallotUnique
        );
    }

    #[test]
    fn a_promise_that_a_start_on_lost_slots_does_not_know_is_found() {
        let mut seen = Agreement::default();
        seen.promised(A, ballot(5, 2), page(&[])).unwrap();
        seen.restarted_on_damage(A, ballot(5, 2)).unwrap();
        let lower = seen.restarted_on_damage(A, ballot(4, 1));
        assert_eq!(property(lower), Property::Remembered);
    }

    #[test]
    fn a_vote_below_a_promise_that_did_not_report_it_is_found() {
        let mut seen = Agreement::default();
        seen.promised(A, ballot(5, 2), page(&[])).unwrap();
        let late = seen.voted(A, Slot(3), ballot(4, 1), 7);
        assert_eq!(property(late), Property::PromiseKept);
    }

    #[test]
    fn a_vote_that_leaves_after_the_promise_that_reports_it_is_fine() {
        let mut seen = Agreement::default();
        seen.promised(A, ballot(5, 2), page(&[(3, ballot(4, 1))]))
            .unwrap();
        seen.voted(A, Slot(3), ballot(4, 1), 7).unwrap();
        seen.voted(A, Slot(3), ballot(5, 2), 7).unwrap();
    }

    #[test]
    fn a_promise_that_leaves_a_told_vote_out_is_found() {
        let mut seen = Agreement::default();
        seen.voted(A, Slot(3), ballot(4, 1), 7).unwrap();
        seen.voted(A, Slot(4), ballot(4, 1), 8).unwrap();
        let mut paged = page(&[(3, ballot(4, 1))]);
        paged.covers = 1..=3;
        seen.promised(A, ballot(5, 2), paged).unwrap();
        let mut trimmed = page(&[]);
        trimmed.floor = Slot(4);
        seen.promised(A, ballot(6, 2), trimmed).unwrap();
        let mut last = page(&[]);
        last.covers = 4..=u64::MAX;
        let silent = seen.promised(A, ballot(7, 2), last);
        assert_eq!(property(silent), Property::PromiseKept);
    }

    #[test]
    fn a_vote_of_a_life_before_the_loss_may_show_again_and_a_later_one_may_not() {
        let mut seen = Agreement::default();
        seen.opened(B, ballot(4, 1)).unwrap();
        seen.forgot(A);
        seen.opened(B, ballot(5, 1)).unwrap();
        seen.promised(A, ballot(6, 2), page(&[])).unwrap();
        seen.voted(A, Slot(3), ballot(4, 1), 7).unwrap();
        let late = seen.voted(A, Slot(3), ballot(5, 1), 7);
        assert_eq!(property(late), Property::PromiseKept);
    }

    #[test]
    fn a_vote_that_went_with_the_log_need_not_be_reported_and_the_promise_is_kept() {
        let mut seen = Agreement::default();
        seen.voted(A, Slot(3), ballot(4, 1), 7).unwrap();
        seen.promised(A, ballot(5, 2), page(&[(3, ballot(4, 1))]))
            .unwrap();
        seen.forgot(A);
        seen.promised(A, ballot(6, 2), page(&[])).unwrap();
        let holds = Remembered::default();
        assert_eq!(property(seen.restarted(A, &holds)), Property::Remembered);
    }

    #[test]
    fn a_restart_without_a_told_promise_or_vote_is_found() {
        let mut seen = Agreement::default();
        seen.promised(A, ballot(1, 1), page(&[])).unwrap();
        seen.voted(A, Slot(1), ballot(1, 1), 7).unwrap();
        seen.voted(A, Slot(2), ballot(1, 1), 8).unwrap();
        let mut holds = Remembered {
            promised: ballot(1, 1),
            trimmed: Slot(0),
            votes: [
                (Slot(1), (ballot(1, 1).into(), 7)),
                (Slot(2), (ballot(2, 2).into(), 9)),
            ]
            .into(),
        };
        seen.restarted(A, &holds).unwrap();
        seen.restarted(B, &Remembered::default()).unwrap();
        holds.votes.remove(&Slot(1));
        assert_eq!(property(seen.restarted(A, &holds)), Property::Remembered);
        holds.trimmed = Slot(1);
        seen.restarted(A, &holds).unwrap();
        holds.promised = Ballot::ZERO;
        assert_eq!(property(seen.restarted(A, &holds)), Property::Remembered);
    }
}
