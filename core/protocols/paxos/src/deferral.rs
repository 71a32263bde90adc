//! Votes that wait: logs are to be trimmed for a batch, and this acceptor lacks slots before it.
//!
//! "The acceptors detect the meta command and acquiesce only if they themselves have all the ballots for all preceding slot
//! numbers" (OpenReplica 3.9). The proposal is kept, what is missing is learned, and the vote is given then. No proposal waits for ever:
//! each missing slot is decided and learned, or in flight and sent again, or, where only a snapshot brings it, not asked for.

use crate::limits::VOTES_DEFERRED;
use crate::message::Message;
use crate::{MultiPaxos, Seat};
use quorate_acceptor::Verdict;
use quorate_ordering::Effects;
use quorate_types::{Ballot, Batch, Slot, Time};
use std::collections::BTreeMap;

/// Proposals without this acceptor's vote, until it holds what is before them.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Deferred {
    /// At most [`VOTES_DEFERRED`]: the leader sends again what finds no place.
    waiting: BTreeMap<Slot, (Ballot, Batch)>,
    count: u64,
}

impl Deferred {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn keep(&mut self, slot: Slot, ballot: Ballot, batch: Batch) {
        let is_known = self.waiting.get(&slot).map(|(known, _)| *known) == Some(ballot);
        self.count += u64::from(!is_known);
        self.waiting.insert(slot, (ballot, batch));
        if self.waiting.len() > VOTES_DEFERRED {
            self.waiting.pop_last();
        }
    }
}

impl Seat {
    /// Votes, or keeps the proposal until this acceptor holds what it lacks.
    pub(crate) fn vote(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<Message>,
    ) -> Verdict {
        if !batch.is_collecting() {
            return self.acceptor.vote(ballot, slot, batch, effects);
        }
        let verdict = self.vote_for_trim(ballot, slot, batch.clone(), effects);
        if verdict == Verdict::Incomplete {
            self.deferred.keep(slot, ballot, batch);
        }
        verdict
    }

    fn vote_for_trim(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<Message>,
    ) -> Verdict {
        self.acceptor.set_elided(self.elided());
        self.acceptor.vote(ballot, slot, batch, effects)
    }
}

impl MultiPaxos {
    /// Gives the votes that waited, as far as nothing before them is missing any more.
    pub(crate) fn vote_deferred(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.seat.deferred.waiting.is_empty() {
            return;
        }
        let (promised, decided) = (
            self.seat.acceptor.promised(),
            self.seat.acceptor.log.decided(),
        );
        let mut is_voted = false;
        for (slot, (ballot, batch)) in std::mem::take(&mut self.seat.deferred.waiting) {
            if ballot < promised || slot <= decided {
                continue;
            }
            let seat = &mut self.seat;
            match seat.vote_for_trim(ballot, slot, batch.clone(), effects) {
                Verdict::Voted => is_voted = true,
                Verdict::Incomplete => {
                    seat.deferred.waiting.insert(slot, (ballot, batch));
                }
                Verdict::NoRoom | Verdict::Superseded | Verdict::Trimmed => {}
            }
        }
        if is_voted {
            self.seat.decide_heard(effects);
            self.learn_more(now, effects);
        }
    }
}
