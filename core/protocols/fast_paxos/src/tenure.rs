//! How a leadership begins and ends. Nothing that was submitted is a leader's alone: who submitted it keeps it.

use crate::candidate::PhaseOneFound;
use crate::leader::Leader;
use crate::message::Message;
use crate::{FastPaxos, Part};
use quorate_ordering::Effects;
use quorate_types::{Ballot, NodeSet, Time};

impl FastPaxos {
    pub(crate) fn begin_leading(
        &mut self,
        now: Time,
        ballot: Ballot,
        promised: NodeSet,
        found: PhaseOneFound,
        effects: &mut Effects<Message>,
    ) {
        let decided = self.seat.acceptor.log.decided();
        self.seat.acceptor.log.raise_wall(found.wall);
        self.seat.learner.knows(found.floor);
        let leader = Leader::new(now, ballot, found, &self.seat);
        self.part = Part::Leader(Box::new(leader));
        self.seat.election.leads();
        for peer in self.seat.peers.iter_mut() {
            peer.heard = promised.contains(peer.node).then_some(now);
            peer.beat = 0;
            peer.restart_at(decided.next());
        }
        self.seat.reask();
        if let Some((leader, seat)) = self.leading() {
            leader.beat(seat, now, effects);
            leader.recover(seat, now, effects);
        }
        self.seat.learn_afresh(now, effects);
    }

    /// A higher ballot exists, or the quorum is gone.
    pub(crate) fn step_down(&mut self, now: Time, effects: &mut Effects<Message>) {
        if !matches!(self.part, Part::Leader(_)) {
            return;
        }
        self.part = Part::Follower;
        self.seat.close_reads(now, effects);
        self.seat.election.leader = None;
        self.seat.leader_changed();
        self.seat.election.retry_later(now);
    }

    /// The leader goes on in a higher ballot: in its present one slots are open to any value.
    pub(crate) fn renew(&mut self, now: Time, effects: &mut Effects<Message>) {
        if matches!(self.part, Part::Leader(_)) {
            self.seat.close_reads(now, effects);
            self.begin_phase1(now, effects);
        }
    }
}
