//! How old the state of a node is: what of that a leader finds out, and what its followers make of it.
//!
//! In fast rounds more may be decided than the leader knows. But then an acceptor among those who heard a heartbeat had voted for it
//! before, and its answer says in which slot: nothing above the highest of these was decided when the heartbeat was sent. Claim fp-14.

use crate::Seat;
use crate::leader::Leader;
use crate::message::Message;
use quorate_acceptor::Current;
use quorate_ordering::{Effect, Effects};
use quorate_types::Slot;
use quorate_types::zoo::{Plant, planted};

impl Leader {
    /// Looks whether a quorum that meets all others, and orders, has heard another heartbeat.
    pub(crate) fn count_beats(&mut self, seat: &Seat, effects: &mut Effects<Message>) {
        let orders = seat.quorums.classic().phase2();
        let needed = seat.quorums.confirm().max(orders) - 1;
        let heard = seat.peers.acceptors().map(|peer| peer.beat).collect();
        let mut voted = self.voted(seat).max(seat.acceptor.log.highest());
        if planted(Plant::FastAgeOfLeader) {
            voted = Slot::ZERO;
        }
        if let Some((slot, at)) = self.beats.confirm(heard, needed, voted) {
            effects.push(Effect::Current { slot, at });
        }
    }
}

impl Seat {
    /// For each peer, the highest number of its answers that arrived here.
    pub(crate) fn held_now(&self) -> Current {
        let answered = self.peers.iter().filter(|peer| peer.answer > 0);
        Current {
            decided: self.acceptor.log.decided(),
            heard: answered.map(|peer| (peer.node, peer.answer)).collect(),
        }
    }
}
