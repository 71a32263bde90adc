//! The steps of a leader that spares slow acceptors, or lets proposals go along a ring. Paxos in the Cloud III.E (Libpaxos+), claims mp-58
//! and mp-59; High Performance State-Machine Replication 3.1 (Ring Paxos), claims mp-70 to mp-72.
//!
//! The first slots of a step are proposed to all acceptors, and the leader counts how often each was in the first quorum. The rest
//! of the step is proposed to the quorum of those that were so most often. A slow acceptor has time to do what it was sent, and learns
//! the rest like every node that missed something. When one of the chosen is suspected, everything undecided goes to all at once.
//!
//! Where the nearest quorum is asked, nobody is counted but after a suspicion: at the end of a step those are chosen whose answers to
//! heartbeats come soonest.
//!
//! Where there is a ring, the rest goes to one node only, which passes it on: to the quorum of the best first, so that no other node
//! delays a decision, and then to all others.

use crate::Seat;
use crate::leader::Leader;
use crate::limits::{DOUBTS_MAX, RING_STEPS, STEP_PATIENCE};
use crate::message::{Message, RingWay};
use crate::multicast::Hearers;
use crate::policies::AcceptorsAsked;
use quorate_ordering::{Effects, Limits};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, NodeId, NodeSet, Slot, Time};

/// One step of a leader, and what it has counted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Steps {
    /// The first slot of the step.
    first: Slot,
    /// In so many slots from there on all acceptors are asked.
    first_slots: u64,
    /// In the first quorum of how many of these slots each acceptor was.
    counts: Vec<(NodeId, u64)>,
    at_present: Asking,
    /// Slots that were not proposed to everybody by the leader itself.
    pub(crate) narrow: u64,
    /// Steps that ended with a suspicion.
    pub(crate) suspicions: u64,
    /// How many of them in a row were rings. Invariant: at most `DOUBTS_MAX`.
    doubts: u32,
    pub(crate) hearers: Hearers,
}

/// How acceptors are asked at present.
#[derive(Clone, PartialEq, Debug)]
enum Asking {
    /// All.
    All,
    /// A quorum with the leader.
    Best(NodeSet),
    /// One after the other, the best first; behind them who does not vote.
    Ring(Vec<NodeId>),
}

impl Steps {
    /// Those of a new leader, whose next slot this is.
    pub(crate) fn new(seat: &Seat, next: Slot) -> Steps {
        Steps {
            first: match seat.policies.asked {
                AcceptorsAsked::All => Slot::ZERO,
                AcceptorsAsked::Steps | AcceptorsAsked::Nearest | AcceptorsAsked::Ring => next,
            },
            first_slots: seat.config.limits.step_first_slots,
            counts: Vec::new(),
            at_present: Asking::All,
            narrow: 0,
            suspicions: 0,
            doubts: 0,
            hearers: Hearers::default(),
        }
    }

    /// A step begins. After rings that failed one after the other, all acceptors are asked in more of its slots, so that a fault that
    /// shows on the ring only costs less and less.
    fn begin(&mut self, seat: &Seat, first: Slot) {
        let first_slots = seat.config.limits.step_first_slots;
        self.first = first;
        self.first_slots = match self.doubts {
            0 => first_slots,
            doubts => first_slots.max(1) << doubts,
        };
        self.counts.clear();
        self.hearers.begin();
        self.at_present = Asking::All;
    }

    /// Whether all are asked in `slot` in every step, however many rings have failed.
    pub(crate) fn is_first(&self, slot: Slot, limits: &Limits) -> bool {
        (self.first..self.first.plus(limits.step_first_slots)).contains(&slot)
    }

    /// Whether only a quorum is asked at present.
    pub(crate) fn is_narrow(&self) -> bool {
        matches!(self.at_present, Asking::Best(_))
    }

    /// Whether a node is an acceptor that is not asked at present.
    pub(crate) fn spares(&self, node: NodeId, is_acceptor: bool) -> bool {
        match &self.at_present {
            Asking::All | Asking::Ring(_) => false,
            Asking::Best(best) => is_acceptor && !best.contains(node),
        }
    }

    /// Whether nothing can be decided as it is meant to be without `node`, where not everybody is asked.
    fn needs(&self, node: NodeId, others: usize) -> bool {
        match &self.at_present {
            Asking::All => false,
            Asking::Best(best) => best.contains(node),
            Asking::Ring(order) => order.iter().take(others).any(|named| *named == node),
        }
    }

    /// The way of a proposal by all `takers`, in the order of the ring; none where too few of them are acceptors.
    pub(crate) fn way(&self, seat: &Seat, takers: NodeSet) -> Option<RingWay> {
        let Asking::Ring(order) = &self.at_present else {
            return None;
        };
        let acceptors = seat.config.view.acceptors;
        let others = seat.config.view.quorums.phase2() - 1;
        let mut nodes = order.clone();
        // They were not linked when the ring began.
        nodes.extend(takers.iter().filter(|node| !order.contains(node)));
        nodes.retain(|node| takers.contains(*node));
        // Whom a value reaches by multicast needs nobody else for it.
        nodes.sort_by_key(|node| (!acceptors.contains(*node), !self.hearers.hears(*node)));
        let voters = nodes.iter().filter(|node| acceptors.contains(**node));
        (voters.count() >= others).then(|| RingWay::new(nodes, others))?
    }

    /// `node` is in the first quorum of a slot; those of the first slots of a step count.
    pub(crate) fn counted(&mut self, slot: Slot, node: NodeId) {
        if !(self.first..self.first.plus(self.first_slots)).contains(&slot) {
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

    /// The linked acceptors, those first that were in first quorums most often. Where the nearest are asked, those are first among equal
    /// ones. Otherwise equal ones change places with each suspicion: of two
    /// that cannot talk to each other one comes to another place.
    fn ranked(&self, seat: &Seat) -> Vec<NodeId> {
        let linked = seat.peers.iter();
        let linked = linked.filter(|peer| peer.is_acceptor && peer.link.is_some());
        let mut linked: Vec<NodeId> = linked.map(|peer| peer.node).collect();
        let turns = match seat.policies.asked {
            AcceptorsAsked::All | AcceptorsAsked::Steps | AcceptorsAsked::Nearest => 0,
            AcceptorsAsked::Ring => self.suspicions,
        };
        if let Some(turns) = turns.checked_rem(linked.len() as u64) {
            linked.rotate_left(turns as usize);
        }
        if seat.policies.asked == AcceptorsAsked::Nearest {
            let taken = |node| seat.peers.find(node)?.round_trip;
            linked.sort_by_key(|node| taken(*node).map_or(u64::MAX, |taken| taken.0));
        }
        linked.sort_by_key(|node| std::cmp::Reverse(self.count(*node)));
        linked
    }

    /// The quorum of the best, this node among them; none while too few are linked.
    fn best_of(&self, seat: &Seat) -> Option<Asking> {
        let others = seat.config.view.quorums.phase2() - 1;
        let ranked = self.ranked(seat);
        let chosen = ranked.get(..others)?.iter().copied();
        Some(Asking::Best(chosen.chain([seat.config.own]).collect()))
    }

    /// A ring of all acceptors; none while too few are linked, or where nobody else is needed.
    fn ring_of(&self, seat: &Seat) -> Option<Asking> {
        let others = seat.config.view.quorums.phase2() - 1;
        let mut order = self.ranked(seat);
        if others == 0 || order.len() < others {
            return None;
        }
        let learners = seat.peers.iter().filter(|peer| !peer.is_acceptor);
        order.extend(learners.map(|peer| peer.node));
        Some(Asking::Ring(order))
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
        let step_slots = seat.config.limits.step_slots;
        let slots = match seat.policies.asked {
            AcceptorsAsked::All => return,
            AcceptorsAsked::Steps | AcceptorsAsked::Nearest => step_slots,
            // Counted from where it begins: however many slots go without one, a ring is tried then.
            AcceptorsAsked::Ring => self.steps.first_slots + step_slots * RING_STEPS,
        };
        let first_ones = self.steps.first.plus(self.steps.first_slots);
        if slot >= self.steps.first.plus(slots) {
            if self.steps.at_present != Asking::All {
                self.steps.doubts = 0;
            }
            self.steps.begin(seat, slot);
            if seat.policies.asked == AcceptorsAsked::Nearest {
                // The round trips say who is next: nobody is counted first.
                self.steps.at_present = self.steps.best_of(seat).unwrap_or(Asking::All);
            }
            self.fill_all(seat, now, effects);
        } else if self.steps.at_present == Asking::All
            && seat.acceptor.log.decided().next() >= first_ones
        {
            let chosen = match seat.policies.asked {
                AcceptorsAsked::All => None,
                AcceptorsAsked::Steps | AcceptorsAsked::Nearest => self.steps.best_of(seat),
                AcceptorsAsked::Ring => self.steps.ring_of(seat),
            };
            self.steps.at_present = chosen.unwrap_or(Asking::All);
        }
        self.steps.narrow += u64::from(self.steps.at_present != Asking::All);
    }

    /// A heartbeat is sent: acceptors that have not answered the one before are no nearer than it is old.
    pub(crate) fn await_answers(&self, seat: &mut Seat, now: Time) {
        for peer in seat.peers.iter_mut().filter(|peer| peer.is_acceptor) {
            if let Some(sent_at) = self.beats.sent_at(peer.beat + 1) {
                peer.awaits_answer(now.since(sent_at));
            }
        }
    }

    /// When one of the chosen acceptors is suspected, if nothing is decided before.
    pub(crate) fn suspect_at(&self, timing_resend: Duration) -> Option<Time> {
        let waits = self.steps.at_present != Asking::All && !self.in_flight.is_empty();
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
        let others = seat.config.view.quorums.phase2() - 1;
        if self.steps.needs(node, others) {
            self.suspect(seat, now, effects);
        }
    }

    /// The step ends: all acceptors are asked for everything that is undecided, and the next step begins.
    fn suspect(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        if planted(Plant::SuspectedStaysChosen) {
            return;
        }
        self.steps.suspicions += 1;
        if let Asking::Ring(_) = self.steps.at_present {
            self.steps.doubts = (self.steps.doubts + 1).min(DOUBTS_MAX);
            let next = seat.acceptor.log.decided().next();
            for peer in seat.peers.iter_mut() {
                // Of what went along the ring nobody knows where it is.
                peer.restart_at(next);
            }
        }
        self.steps.begin(seat, self.next);
        self.fill_all(seat, now, effects);
    }

    fn fill_all(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        for node in seat.others().iter() {
            self.fill(seat, now, node, effects);
        }
    }
}
