//! Counts the votes that acceptors tell to all: how a node that does not lead learns by itself what is decided.
//!
//! A set of acceptors for each slot, of one ballot at a time, the highest that any vote was told in. Votes of an earlier ballot are
//! no part of a quorum of a later one, so they are dropped; what is decided by them alone, the leader's watermark tells. Claim mp-57.

use crate::limits::TALLY_SLOTS;
use crate::message::{Accepted, Message};
use crate::policies::VotesTold;
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::Effects;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};
use std::collections::VecDeque;

/// Votes told in one ballot, for the slots after the decided prefix.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tally {
    ballot: Ballot,
    /// The slot of the first set.
    first: Slot,
    /// Who voted in each slot. It is a set, so that none counts twice. Invariant: at most `TALLY_SLOTS`.
    voters: VecDeque<NodeSet>,
}

impl Tally {
    /// `from` says that it voted. What is too far ahead is ignored, as a message that was lost.
    fn note(&mut self, decided: Slot, from: NodeId, accepted: Accepted) {
        let is_mixed = planted(Plant::LearnerMixesBallots);
        if accepted.ballot < self.ballot && !is_mixed {
            return;
        }
        if accepted.ballot > self.ballot {
            self.ballot = accepted.ballot;
            if !is_mixed {
                self.voters.clear();
            }
        }
        self.begin_after(decided);
        let last = accepted.last.0.min(decided.0 + TALLY_SLOTS);
        for slot in accepted.first.0.max(self.first.0)..=last {
            let index = (slot - self.first.0) as usize;
            if index >= self.voters.len() {
                self.voters.resize(index + 1, NodeSet::empty());
            }
            if !self.voters[index].insert(from) && planted(Plant::LearnerCountsTwice) {
                self.voters[index].insert(NodeId(63));
            }
        }
    }

    /// Drops what is decided.
    fn begin_after(&mut self, decided: Slot) {
        let first = decided.next();
        while self.first < first && self.voters.pop_front().is_some() {
            self.first = self.first.next();
        }
        self.first = self.first.max(first);
    }

    fn has(&self, slot: Slot, needed: usize) -> bool {
        let index = slot.0.checked_sub(self.first.0);
        let voters = index.and_then(|index| self.voters.get(usize::try_from(index).ok()?));
        voters.is_some_and(|voters| voters.len() >= needed)
    }

    pub(crate) fn check(&self) {
        assert!(
            self.voters.len() as u64 <= TALLY_SLOTS,
            "votes are counted for a bounded number of slots"
        );
    }
}

impl MultiPaxos {
    /// An acceptor, perhaps this one, tells its votes to a node that does not lead in their ballot. A leader of another ballot learns
    /// nothing by them: what contradicts its own proposals must unseat it, and votes do not say their values.
    pub(crate) fn learn_votes(
        &mut self,
        now: Time,
        from: NodeId,
        accepted: Accepted,
        effects: &mut Effects<Message>,
    ) {
        let is_acceptor = self.seat.config.view.acceptors.contains(from)
            || planted(Plant::LearnerCountsObservers);
        let counts = match self.part {
            Part::Follower | Part::Candidate(_) => is_acceptor,
            Part::Leader(_) => false,
        };
        if !counts || self.seat.policies.votes_told == VotesTold::ToLeader {
            return;
        }
        let decided = self.seat.acceptor.log.decided();
        self.seat.tally.note(decided, from, accepted);
        self.seat.decide_counted(effects);
        self.learn_more(now, effects);
    }
}

impl Seat {
    /// Decides the slots that a quorum voted in, as long as their values of that ballot are here. Of the others it is known now that
    /// they are decided somewhere.
    pub(crate) fn decide_counted(&mut self, effects: &mut Effects<Message>) {
        if self.policies.votes_told == VotesTold::ToLeader {
            return;
        }
        let needed = self.config.view.quorums.phase2();
        let ballot = self.tally.ballot;
        let mut next = self.acceptor.log.decided().next();
        self.tally.begin_after(next.previous());
        while self.tally.has(next, needed) {
            let open = self.acceptor.log.open(next);
            if open.is_none_or(|open| open.ballot != ballot) {
                break;
            }
            self.acceptor.decide(None, effects);
            next = next.next();
        }
        while self.tally.has(next, needed) {
            self.learner.knows(next);
            next = next.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_far_ahead_of_the_decided_prefix_take_no_memory() {
        let (mut tally, decided, voter) = (Tally::default(), Slot(10), NodeId(2));
        let ballot = Ballot::ZERO;
        let far = Slot(decided.0 + TALLY_SLOTS);
        for last in [far.next(), Slot(decided.0 + 3 * TALLY_SLOTS)] {
            let first = decided.next();
            let accepted = Accepted {
                ballot,
                first,
                last,
            };
            tally.note(decided, voter, accepted);
            tally.check();
            assert!(tally.has(far, 1), "the last one that is counted");
            assert!(!tally.has(far.next(), 1), "it is too far ahead");
        }
    }
}
