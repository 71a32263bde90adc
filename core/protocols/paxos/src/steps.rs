//! The steps of a leader that spares slow acceptors. Paxos in the Cloud III.E (Libpaxos+), claims mp-58 and mp-59.
//!
//! The first slots of a step are proposed to all acceptors, and the leader counts how often each was in the first quorum. The rest
//! of the step is proposed to the quorum of those that were so most often. A slow acceptor has time to do what it was sent, and learns
//! the rest like every node that missed something. When one of the chosen is suspected, everything undecided goes to all at once.

use crate::Seat;
use crate::leader::Leader;
use crate::limits::STEP_PATIENCE;
use crate::message::Message;
use crate::policies::AcceptorsAsked;
use quorate_ordering::Effects;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, NodeId, NodeSet, Slot, Time};

/// One step of a leader, and what it has counted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Steps {
    /// The first slot of the step.
    first: Slot,
    /// In the first quorum of how many of the step's first slots each acceptor was.
    counts: Vec<(NodeId, u64)>,
    /// Who is asked for votes, once that is not everybody: a quorum with the leader.
    best: Option<NodeSet>,
    /// Slots proposed to such a quorum only.
    pub(crate) narrow: u64,
    /// Steps that ended with a suspicion.
    pub(crate) suspicions: u64,
}

impl Steps {
    /// Those of a new leader, whose next slot this is.
    pub(crate) fn new(asked: AcceptorsAsked, next: Slot) -> Steps {
        Steps {
            first: match asked {
                AcceptorsAsked::All => Slot::ZERO,
                AcceptorsAsked::Steps => next,
            },
            counts: Vec::new(),
            best: None,
            narrow: 0,
            suspicions: 0,
        }
    }

    fn begin(&mut self, first: Slot) {
        self.first = first;
        self.counts.clear();
        self.best = None;
    }

    /// Whether only a quorum is asked at present.
    pub(crate) fn is_narrow(&self) -> bool {
        self.best.is_some()
    }

    /// Whether a node is an acceptor that is not asked at present.
    pub(crate) fn spares(&self, node: NodeId, is_acceptor: bool) -> bool {
        is_acceptor && self.best.is_some_and(|best| !best.contains(node))
    }

    /// `node` is in the first quorum of a slot; those of the first slots of a step count.
    pub(crate) fn counted(&mut self, slot: Slot, node: NodeId, first_slots: u64) {
        if !(self.first..self.first.plus(first_slots)).contains(&slot) {
            return;
        }
        match self.counts.iter_mut().find(|(known, _)| *known == node) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((node, 1)),
        }
    }

    fn count(&self, node: NodeId) -> u64 {
        let found = self.counts.iter().find(|(known, _)| *known == node);
        found.map_or(0, |(_, count)| *count)
    }

    /// The quorum of those that were in first quorums most often, this node among them; none while too few are linked.
    fn best_of(&self, seat: &Seat) -> Option<NodeSet> {
        let others = seat.config.view.quorums.phase2() - 1;
        let linked = seat.peers.iter();
        let linked = linked.filter(|peer| peer.is_acceptor && peer.link.is_some());
        let mut linked: Vec<NodeId> = linked.map(|peer| peer.node).collect();
        linked.sort_by_key(|node| (std::cmp::Reverse(self.count(*node)), *node));
        let chosen = linked.get(..others)?.iter().copied();
        Some(chosen.chain([seat.config.own]).collect())
    }
}

impl Leader {
    /// Before a proposal in `slot`: the step may end, or turn to the best quorum.
    pub(crate) fn take_step(
        &mut self,
        seat: &mut Seat,
        now: Time,
        slot: Slot,
        effects: &mut Effects<Message>,
    ) {
        match seat.policies.asked {
            AcceptorsAsked::All => return,
            AcceptorsAsked::Steps => {}
        }
        let limits = &seat.config.limits;
        let first_ones = self.steps.first.plus(limits.step_first_slots);
        if slot >= self.steps.first.plus(limits.step_slots) {
            self.steps.begin(slot);
            self.fill_all(seat, now, effects);
        } else if self.steps.best.is_none() && seat.acceptor.log.decided().next() >= first_ones {
            self.steps.best = self.steps.best_of(seat);
        }
        self.steps.narrow += u64::from(self.steps.best.is_some());
    }

    /// When one of the chosen acceptors is suspected, if nothing is decided before.
    pub(crate) fn suspect_at(&self, timing_resend: Duration) -> Option<Time> {
        let waits = self.steps.best.is_some() && !self.in_flight.is_empty();
        waits.then(|| self.progress_at + Duration(timing_resend.0 / STEP_PATIENCE))
    }

    /// Nothing was decided for too long.
    pub(crate) fn suspect_late(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let at = self.suspect_at(seat.config.timing.resend);
        if at.is_some_and(|at| now >= at) {
            self.suspect(seat, now, effects);
        }
    }

    /// The link to `node` is gone.
    pub(crate) fn suspect_unlinked(
        &mut self,
        seat: &mut Seat,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        if self.steps.best.is_some_and(|best| best.contains(node)) {
            self.suspect(seat, now, effects);
        }
    }

    /// The step ends: all acceptors are asked for everything that is undecided, and the next step begins.
    fn suspect(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        if planted(Plant::SuspectedStaysChosen) {
            return;
        }
        self.steps.suspicions += 1;
        self.steps.begin(self.next);
        self.fill_all(seat, now, effects);
    }

    fn fill_all(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        for node in seat.others().iter() {
            self.fill(seat, now, node, effects);
        }
    }
}
