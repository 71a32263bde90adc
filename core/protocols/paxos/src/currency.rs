//! How old the state of a node is: what of that a leader finds out, and what its followers make of it.

use crate::Seat;
use crate::leader::Leader;
use crate::message::{Current, Message};
use crate::policies::VotesTold;
use quorate_ordering::{Effect, Effects};
use quorate_types::Slot;
use quorate_types::zoo::{Plant, planted};

impl Leader {
    /// Looks whether a phase-2 quorum has heard another heartbeat. Fewer may confirm a read where elections need more acceptors, because
    /// nobody leads without them; but they order nothing, and what is not heard of clients then counts as no silence.
    pub(crate) fn count_beats(&mut self, seat: &Seat, effects: &mut Effects<Message>) {
        let quorums = seat.config.view.quorums;
        let needed = quorums.confirm().max(quorums.phase2()) - 1;
        let acceptors = seat.peers.iter().filter(|peer| peer.is_acceptor);
        let heard = acceptors.map(|peer| peer.beat).collect();
        if let Some((slot, at)) = self.beats.confirm(heard, needed, Slot::ZERO) {
            effects.push(Effect::Current { slot, at });
        }
    }
}

impl Seat {
    /// Whether others may order in the next view already, where a leader of this one has proposed up to `proposed`: they may know its
    /// last slot to be decided before the leader does. Claim mp-60.
    pub(crate) fn may_others_go_on(&self, proposed: Slot) -> bool {
        self.policies.votes_told == VotesTold::ToAll
            && self.last.is_some_and(|last| proposed >= last)
    }

    /// What can be decided by now where a leader has proposed up to `proposed`, and for each peer the highest number of its answers that
    /// arrived here. Where acceptors tell all, others may know a slot to be decided before the leader does. Claim mp-60.
    pub(crate) fn held_now(&self, proposed: Slot) -> Current {
        let answered = self.peers.iter().filter(|peer| peer.answer > 0);
        Current {
            decided: match self.policies.votes_told {
                VotesTold::ToLeader => self.acceptor.log.decided(),
                VotesTold::ToAll if planted(Plant::AgeByLeaderOnly) => self.acceptor.log.decided(),
                VotesTold::ToAll => proposed,
            },
            heard: answered.map(|peer| (peer.node, peer.answer)).collect(),
        }
    }
}
