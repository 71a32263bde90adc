//! How this node's answers to proposals are told once they are durable: gathered into ranges, and sent at the end of a turn, to the
//! leader or to all members.

use crate::MultiPaxos;
use crate::message::{Accepted, Message, Seen};
use crate::policies::VotesTold;
use quorate_acceptor::Backing;
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeSet, Slot, Time};

/// Answers of this acceptor about consecutive slots of one ballot, sent together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct UnsentVotes {
    ballot: Ballot,
    first: Slot,
    last: Slot,
    backing: Backing,
}

impl MultiPaxos {
    /// This node's vote for its own proposal is durable.
    pub(crate) fn own_vote_is_durable(
        &mut self,
        now: Time,
        ballot: Ballot,
        slot: Slot,
        effects: &mut Effects<Message>,
    ) {
        match self.seat.policies.votes_told {
            VotesTold::ToLeader => {}
            VotesTold::ToAll => self.gather_vote(ballot, slot, Backing::Vote, effects),
        }
        self.on_accepted(now, ballot.node, vote_of(ballot, slot), effects);
    }

    /// This node's answer to another leader's proposal may be told.
    pub(crate) fn vote_is_durable(
        &mut self,
        now: Time,
        (ballot, slot, backing): (Ballot, Slot, Backing),
        effects: &mut Effects<Message>,
    ) {
        let own = self.seat.config.own;
        if !self.seat.stops.answered(own, ballot, slot, backing) {
            self.gather_vote(ballot, slot, backing, effects);
        }
        if backing == Backing::Vote {
            self.learn_votes(now, own, vote_of(ballot, slot), effects);
        }
    }

    /// Adds a vote to the range that is sent at the end of the turn.
    fn gather_vote(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        backing: Backing,
        effects: &mut Effects<Message>,
    ) {
        if let Some(unsent) = &mut self.unsent_votes
            && unsent.ballot == ballot
            && unsent.last.next() == slot
            && unsent.backing == backing
        {
            unsent.last = slot;
            return;
        }
        self.flush_votes(effects);
        self.unsent_votes = Some(UnsentVotes {
            ballot,
            first: slot,
            last: slot,
            backing,
        });
    }

    pub(crate) fn flush_votes(&mut self, effects: &mut Effects<Message>) {
        let Some(unsent) = self.unsent_votes.take() else {
            return;
        };
        let UnsentVotes {
            ballot,
            first,
            last,
            backing,
        } = unsent;
        let message = match backing {
            Backing::Vote => Message::Accepted(Accepted {
                ballot,
                first,
                last,
            }),
            Backing::Held => Message::Seen(Seen {
                ballot,
                first,
                last,
            }),
        };
        let to = match (self.seat.policies.votes_told, backing) {
            (VotesTold::ToAll, Backing::Vote) => self.seat.others(),
            (VotesTold::ToAll | VotesTold::ToLeader, Backing::Held | Backing::Vote) => {
                NodeSet::only(ballot.node)
            }
        };
        self.seat.send(to, Lane::Normal, message, effects);
        if planted(Plant::LearnerCountsObservers) && backing == Backing::Held {
            let vote = Message::Accepted(Accepted {
                ballot,
                first,
                last,
            });
            self.seat
                .send(self.seat.others(), Lane::Normal, vote, effects);
        }
    }
}

/// A vote in one slot.
fn vote_of(ballot: Ballot, slot: Slot) -> Accepted {
    Accepted {
        ballot,
        first: slot,
        last: slot,
    }
}
