//! Watches phase 1: a leader proposes only after enough acceptors have told it all that they voted for, and proposes what
//! the highest of these votes was for.
//!
//! Fed by the seeded world with promises and proposals as they leave. What the leader's own acceptor holds, and which of
//! the promises had arrived, is not known: a proposal is wrong only if every promise contradicts it.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_types::{Ballot, NodeId, NodeSet, Slot};

use super::agreement::Fingerprint;
use super::{Property, Violation};

/// What was told for each ballot.
#[derive(Debug)]
pub struct PhaseOne {
    /// Promises of others that a leader needs besides its own.
    needed: usize,
    told: BTreeMap<Ballot, Told>,
    /// Values proposed, by slot and ballot.
    proposed: BTreeMap<Slot, BTreeMap<Ballot, Fingerprint>>,
    /// The slot of each batch that holds commands.
    slots: BTreeMap<Fingerprint, Slot>,
}

#[derive(Debug, Default)]
struct Told {
    /// Acceptors that told their last page.
    whole: NodeSet,
    votes: BTreeMap<(Slot, NodeId), (Ballot, Fingerprint)>,
}

impl PhaseOne {
    /// A leader needs promises of `needed` others.
    pub fn new(needed: usize) -> PhaseOne {
        PhaseOne {
            needed,
            told: BTreeMap::new(),
            proposed: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }

    /// Takes note that a batch that holds commands is proposed: its stamp tells it from every other batch.
    ///
    /// # Errors
    /// [`Property::PhaseOne`] when it was proposed in another slot, by whomever.
    pub fn placed(&mut self, slot: Slot, value: Fingerprint) -> Result<(), Violation> {
        let first = *self.slots.entry(value).or_insert(slot);
        if first == slot {
            return Ok(());
        }
        broken(format!(
            "{value:016x} is proposed in {slot}, it was proposed in {first}: gaps are filled with empty batches"
        ))
    }

    /// Takes note that `acceptor` tells a page of votes for `ballot`.
    pub fn told(
        &mut self,
        acceptor: NodeId,
        ballot: Ballot,
        votes: impl IntoIterator<Item = (Slot, Ballot, Fingerprint)>,
        is_last: bool,
    ) {
        let told = self.told.entry(ballot).or_default();
        for (slot, vote, value) in votes {
            if vote < ballot {
                told.votes.insert((slot, acceptor), (vote, value));
            }
        }
        if is_last {
            told.whole.insert(acceptor);
        }
    }

    /// Takes note that `proposer` asks for votes for `value`.
    ///
    /// # Errors
    /// [`Property::PhaseOne`] when too few told all their votes before, or when all of them told a vote for another value
    /// that outranks this one.
    pub fn proposed(
        &mut self,
        proposer: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let of_slot = self.proposed.entry(slot).or_default();
        if of_slot.insert(ballot, value).is_some() {
            return Ok(());
        }
        let nobody = Told::default();
        let told = self.told.get(&ballot).unwrap_or(&nobody);
        let others = told.whole.without(proposer);
        if others.len() < self.needed {
            return broken(format!(
                "{proposer} proposes in {slot} {ballot}; of {} others only {others:?} told all their votes",
                self.needed
            ));
        }
        let lower = of_slot.range(..ballot).rev();
        let source = lower
            .filter(|(_, known)| **known == value)
            .map(|(lower, _)| *lower)
            .next();
        let contradicts = |acceptor| {
            let vote = told.votes.get(&(slot, acceptor));
            vote.is_some_and(|(vote, other)| *other != value && Some(*vote) > source)
        };
        if self.needed == 0 || !others.iter().all(contradicts) {
            return Ok(());
        }
        let highest = others.iter().map(|other| told.votes[&(slot, other)].0);
        if self.may_have_voted_alone(proposer, slot, highest.max(), ballot) {
            return Ok(());
        }
        let votes: Vec<_> = others
            .iter()
            .map(|other| (other, told.votes[&(slot, other)]))
            .collect();
        broken(format!(
            "{proposer} proposes {value:016x} in {slot} {ballot}, last proposed in {source:?}, and was told {votes:x?}"
        ))
    }

    /// Whether `proposer` led a ballot between `vote` and `ballot` that could propose and is not known to have proposed in
    /// `slot`: cut off from all others it votes alone, no message tells of it, and its own vote outranks theirs.
    fn may_have_voted_alone(
        &self,
        proposer: NodeId,
        slot: Slot,
        vote: Option<Ballot>,
        ballot: Ballot,
    ) -> bool {
        let Some(vote) = vote else { return false };
        let between = (Bound::Excluded(vote), Bound::Excluded(ballot));
        let mut own = self.told.range(between).filter(|(led, told)| {
            led.node == proposer && told.whole.without(proposer).len() >= self.needed
        });
        own.any(|(led, _)| {
            let proposed = self.proposed.get(&slot);
            proposed.is_none_or(|known| !known.contains_key(led))
        })
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::PhaseOne, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::ViewNumber;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn ballot(round: u64) -> Ballot {
        Ballot {
            view: ViewNumber(1),
            round,
            node: A,
            boot: 1,
        }
    }

    /// Slot 1 has 7 proposed in ballot 1 and 8 in ballot 2.
    fn begun() -> PhaseOne {
        let mut seen = PhaseOne::new(1);
        for (round, value) in [(1, 7), (2, 8)] {
            seen.told(B, ballot(round), [], true);
            seen.proposed(A, Slot(1), ballot(round), value).unwrap();
        }
        seen
    }

    #[test]
    fn a_leader_that_was_told_only_a_page_is_found() {
        let mut seen = begun();
        seen.told(B, ballot(3), [], false);
        let early = seen.proposed(A, Slot(1), ballot(3), 8).unwrap_err();
        assert_eq!(early.property, Property::PhaseOne);
        let mut seen = begun();
        seen.told(A, ballot(3), [], true);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 8).is_err(),
            "its own promise is not another's"
        );
    }

    #[test]
    fn a_batch_that_moves_to_another_slot_is_found() {
        let mut seen = begun();
        seen.placed(Slot(2), 7).unwrap();
        seen.placed(Slot(2), 7).unwrap();
        assert!(seen.placed(Slot(1), 7).is_err());
    }

    #[test]
    fn a_proposal_that_every_promise_outranks_is_found() {
        let mut seen = begun();
        seen.told(B, ballot(3), [(Slot(1), ballot(2), 8)], true);
        seen.told(C, ballot(3), [(Slot(1), ballot(2), 8)], true);
        assert!(seen.proposed(A, Slot(1), ballot(3), 7).is_err());
        let mut seen = begun();
        seen.told(B, ballot(3), [(Slot(1), ballot(1), 7)], true);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 9).is_err(),
            "a new value over a vote"
        );
    }

    #[test]
    fn what_a_leader_voted_for_alone_outranks_an_older_vote_of_another() {
        let mut seen = PhaseOne::new(1);
        seen.told(B, ballot(1), [], true);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        seen.told(C, ballot(2), [], true);
        // Its link to the others was down: no message of ballot 2 told of slot 1.
        seen.told(B, ballot(3), [(Slot(1), ballot(1), 7)], true);
        seen.proposed(A, Slot(1), ballot(3), 9).unwrap();
        let mut seen = PhaseOne::new(1);
        seen.told(B, ballot(1), [], true);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        seen.told(B, ballot(2), [], false);
        seen.told(B, ballot(3), [(Slot(1), ballot(1), 7)], true);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 9).is_err(),
            "it led no ballot between"
        );
    }

    #[test]
    fn a_proposal_that_some_promises_allow_is_fine() {
        let mut seen = begun();
        seen.told(B, ballot(3), [(Slot(1), ballot(2), 8)], true);
        seen.told(C, ballot(3), [], true);
        seen.proposed(A, Slot(1), ballot(3), 7).unwrap();
        let mut seen = begun();
        seen.told(B, ballot(3), [(Slot(1), ballot(1), 7)], true);
        seen.proposed(A, Slot(1), ballot(3), 8).unwrap();
        seen.proposed(A, Slot(2), ballot(3), 5).unwrap();
    }
}
