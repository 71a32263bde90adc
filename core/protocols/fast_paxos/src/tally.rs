//! The votes that a node has heard of, by slot and acceptor. It decides nothing by itself.
//!
//! Votes are counted by ballot and value: those of a fast round may differ. A vote of an earlier round that arrives late changes
//! nothing, because each acceptor's last round in a slot counts. Bounded by the slots near the decided prefix.

use crate::limits::TALLIED_SLOTS;
use crate::selection::count;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, FastQuorums, NodeId, Slot, ValueId, VoteKind};
use std::collections::BTreeMap;

type Votes = BTreeMap<NodeId, (Ballot, VoteKind)>;

/// Votes above the decided prefix.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tally {
    slots: BTreeMap<Slot, Votes>,
}

/// What a fast round of one slot looks like from here.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FastVotes {
    pub(crate) counts: BTreeMap<ValueId, usize>,
    /// Acceptors that voted in the round or in a later one of the ballot.
    pub(crate) heard: usize,
}

impl Tally {
    /// `acceptor` voted. Says whether that is news.
    pub(crate) fn note(
        &mut self,
        decided: Slot,
        slot: Slot,
        acceptor: NodeId,
        ballot: Ballot,
        kind: VoteKind,
    ) -> bool {
        if slot <= decided || slot.since(decided) > TALLIED_SLOTS {
            return false;
        }
        let votes = self.slots.entry(slot).or_default();
        let round = |vote: &(Ballot, VoteKind)| (vote.0, !vote.1.is_fast());
        let is_news = match votes.get(&acceptor) {
            Some(known) => round(known) < (ballot, !kind.is_fast()),
            None => true,
        };
        if is_news {
            votes.insert(acceptor, (ballot, kind));
        }
        is_news
    }

    /// The round of `slot` in which a quorum voted for one value, and the value.
    pub(crate) fn decided(&self, slot: Slot, quorums: &FastQuorums) -> Option<(Ballot, VoteKind)> {
        let votes = self.slots.get(&slot)?;
        votes.values().copied().find(|vote| {
            let is_same = |other: &&(Ballot, VoteKind)| {
                let is_any = planted(Plant::FastVotesOfAnyValue);
                **other == *vote || is_any && other.0 == vote.0 && other.1.is_fast()
            };
            let count = votes.values().filter(is_same).count();
            count >= needed(vote.1, quorums)
        })
    }

    /// The fast round of `ballot` in `slot`.
    pub(crate) fn fast_votes(&self, slot: Slot, ballot: Ballot) -> FastVotes {
        let votes = self.slots.get(&slot);
        let of_ballot = votes
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|vote| vote.0 == ballot);
        FastVotes {
            heard: of_ballot.clone().count(),
            counts: count(of_ballot.map(|vote| vote.1)),
        }
    }

    /// Slots with votes, ascending.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.keys().copied()
    }

    /// The highest slot with a vote.
    pub(crate) fn highest(&self) -> Slot {
        self.slots
            .last_key_value()
            .map_or(Slot::ZERO, |(slot, _)| *slot)
    }

    /// Who voted in `slot` for the proposal of `ballot`.
    pub(crate) fn has_classic(&self, slot: Slot, ballot: Ballot, acceptor: NodeId) -> bool {
        let votes = self.slots.get(&slot);
        let vote = votes.and_then(|votes| votes.get(&acceptor));
        vote == Some(&(ballot, VoteKind::Classic))
    }

    /// Slots up to `decided` are decided.
    pub(crate) fn forget_upto(&mut self, decided: Slot) {
        if self
            .slots
            .first_key_value()
            .is_some_and(|(slot, _)| *slot <= decided)
        {
            self.slots = self.slots.split_off(&decided.next());
        }
    }
}

fn needed(kind: VoteKind, quorums: &FastQuorums) -> usize {
    match kind {
        VoteKind::Fast(_) if planted(Plant::FastQuorumTooSmall) => quorums.classic().phase2(),
        VoteKind::Fast(_) => quorums.fast(),
        VoteKind::Classic => quorums.classic().phase2(),
    }
}
