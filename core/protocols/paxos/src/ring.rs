//! Proposals that go along a ring, and the votes that are gathered along it. High Performance State-Machine Replication 3.1 (Ring Paxos),
//! claims mp-70 to mp-72.
//!
//! The way of a proposal is a part of it: the leader makes it, and nobody else knows a ring. A node passes the proposal on at once, and
//! votes. Those votes that make the quorum travel the same way in a message of their own, which leaves a node when its own vote is
//! durable and the votes of those before it have come; the last one sends them to the leader. All others tell the leader their votes as
//! without a ring. What is lost on the way the leader notices ([`crate::steps`]): here nothing is sent again.

use crate::leader::Leader;
use crate::limits::STOPS_MAX;
use crate::message::{Accept, Accepted, Gathered, Message, Nack, Pass, RingWay};
use crate::{MultiPaxos, Seat};
use quorate_acceptor::{Backing, Verdict};
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// What a node has to pass on: the votes gathered in each slot, and those that are complete.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Stops {
    /// Invariant: at most `STOPS_MAX`.
    waiting: BTreeMap<Slot, RingStop>,
    /// Sent at the end of the turn, neighbours together.
    complete: Vec<(NodeId, Gathered)>,
    /// Who passed the newest proposal on to this node.
    upstream: Option<NodeId>,
}

/// The votes of one slot at this node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RingStop {
    ballot: Ballot,
    /// The votes of those before are awaited. It is not so where the leader itself brought the proposal.
    awaits_others: bool,
    awaits_own: bool,
    voters: NodeSet,
    to: NodeId,
}

impl Stops {
    /// The proposal of `slot` has come, and its votes go on to a node.
    pub(crate) fn begin(&mut self, own: NodeId, slot: Slot, stop: RingStop) {
        self.waiting.insert(slot, stop);
        if self.waiting.len() > STOPS_MAX {
            self.waiting.pop_first();
        }
        self.go_on(own, slot);
    }

    /// The value of `slot` has come: the votes of others that came meanwhile go on with this node's.
    fn begin_or_go_on(&mut self, own: NodeId, slot: Slot, stop: RingStop) {
        let known = self.waiting.get_mut(&slot);
        match known.filter(|known| known.ballot == stop.ballot && known.awaits_own) {
            Some(known) => {
                known.awaits_own = stop.awaits_own;
                self.go_on(own, slot);
            }
            None => self.begin(own, slot, stop),
        }
    }

    /// This node's answer to the proposal of `ballot` may be told. Returns whether that is done along the ring.
    pub(crate) fn answered(
        &mut self,
        own: NodeId,
        ballot: Ballot,
        slot: Slot,
        backing: Backing,
    ) -> bool {
        let stop = self.waiting.get_mut(&slot);
        let Some(stop) = stop.filter(|stop| stop.ballot == ballot && stop.awaits_own) else {
            return false;
        };
        stop.awaits_own = false;
        let is_vote = backing == Backing::Vote || planted(Plant::RingAbstainerNamed);
        if is_vote {
            stop.voters.insert(own);
        }
        self.go_on(own, slot);
        backing == Backing::Vote
    }

    /// Those before this node tell their votes in `slot`. Returns whether they go on with its own.
    fn heard(&mut self, own: NodeId, slot: Slot, (ballot, voters): (Ballot, NodeSet)) -> bool {
        let stop = self.waiting.get_mut(&slot);
        let Some(stop) = stop.filter(|stop| stop.ballot == ballot) else {
            return false;
        };
        stop.awaits_others = false;
        for voter in voters.iter() {
            stop.voters.insert(voter);
        }
        self.go_on(own, slot);
        true
    }

    fn go_on(&mut self, own: NodeId, slot: Slot) {
        let Some(stop) = self.waiting.get_mut(&slot) else {
            return;
        };
        if planted(Plant::RingVoteBeforeSync) && stop.awaits_own {
            stop.awaits_own = false;
            stop.voters.insert(own);
        }
        if stop.awaits_own || stop.awaits_others {
            return;
        }
        let RingStop {
            ballot, voters, to, ..
        } = *stop;
        self.waiting.remove(&slot);
        self.pass_on(
            to,
            Gathered {
                ballot,
                first: slot,
                last: slot,
                voters,
            },
        );
    }

    fn pass_on(&mut self, to: NodeId, gathered: Gathered) {
        if let Some((last_to, last)) = self.complete.last_mut()
            && *last_to == to
            && last.ballot == gathered.ballot
            && last.last.next() == gathered.first
            && last.voters == gathered.voters
        {
            last.last = gathered.last;
            return;
        }
        self.complete.push((to, gathered));
    }

    /// The proposal of `slot` has come another way.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.waiting.remove(&slot);
    }

    /// Who passed the newest proposal on to this node: it has what this one lacks.
    pub(crate) fn upstream(&self) -> Option<NodeId> {
        self.upstream
    }

    pub(crate) fn check(&self) {
        assert!(
            self.waiting.len() <= STOPS_MAX,
            "votes are gathered for a bounded number of slots"
        );
    }
}

impl MultiPaxos {
    /// A proposal on its way, of which `hearing` nodes get the value apart from it. It comes from its leader, or from somebody who is on
    /// the way before this node.
    pub(crate) fn on_pass(
        &mut self,
        now: Time,
        from: NodeId,
        pass: Pass,
        hearing: usize,
        effects: &mut Effects<Message>,
    ) {
        let Some(place) = self.place_behind(from, pass.ballot, &pass.way) else {
            return;
        };
        if self.follow_passed(now, from, pass.ballot, effects) {
            self.take_passed(now, (from, place), pass, hearing, effects);
        }
    }

    /// As [`MultiPaxos::on_pass`], once its ballot is followed, at this place of the way.
    pub(crate) fn take_passed(
        &mut self,
        now: Time,
        (from, place): (NodeId, usize),
        pass: Pass,
        hearing: usize,
        effects: &mut Effects<Message>,
    ) {
        let (ballot, slot) = (pass.ballot, pass.slot);
        self.seat.stops.upstream = (from != ballot.node).then_some(from);
        if let Some(next) = self.seat.next_on(&pass.way, place) {
            let to = NodeSet::only(pass.way.nodes()[next]);
            let message = pass.to_place(next, hearing);
            self.seat.send(to, Lane::Normal, message, effects);
        }
        let stop = RingStop::before(from, ballot, &pass.way, place, &self.seat);
        let verdict = self.take_proposal(
            now,
            Accept {
                ballot,
                slot,
                batch: pass.batch,
                decided: pass.decided,
            },
            effects,
        );
        if let Some(mut stop) = stop {
            stop.awaits_own = verdict == Verdict::Voted;
            self.seat
                .stops
                .begin_or_go_on(self.seat.config.own, slot, stop);
        }
    }

    /// As [`MultiPaxos::follow`], of a proposal that another node passed on. It is no sign of life: the leader may have died since, and
    /// others notice that no earlier for it.
    pub(crate) fn follow_passed(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        effects: &mut Effects<Message>,
    ) -> bool {
        if from == ballot.node {
            return self.follow(now, from, ballot, effects);
        }
        if self.seat.peers.find(ballot.node).is_none() {
            return false;
        }
        let promised = self.seat.acceptor.promised();
        if ballot < promised && !planted(Plant::AcceptLowerBallot) {
            let nack = Message::Nack(Nack { ballot, promised });
            let leader = NodeSet::only(ballot.node);
            self.seat.send(leader, Lane::Urgent, nack, effects);
            return false;
        }
        self.yield_to(now, ballot, effects);
        self.seat.acceptor.raise(ballot, effects);
        if self.seat.election.leader.is_none_or(|led| led < ballot) {
            self.seat.heard_leader(now, ballot);
        }
        true
    }

    /// Votes gathered along a ring: the leader counts them. Everybody else lets them go on with its own vote, or to the leader at once
    /// where its own has gone already or the proposal never came.
    pub(crate) fn on_gathered(
        &mut self,
        now: Time,
        gathered: Gathered,
        effects: &mut Effects<Message>,
    ) {
        if let Some((leader, seat)) = self.leading_in(gathered.ballot) {
            return leader.on_gathered(seat, now, gathered, effects);
        }
        let Gathered {
            ballot,
            first,
            last,
            voters,
        } = gathered;
        let own = self.seat.config.own;
        let seat = &mut self.seat;
        if ballot.node == own || seat.peers.find(ballot.node).is_none() {
            return;
        }
        let most = first.plus(STOPS_MAX as u64);
        for slot in (first.0..=last.0.min(most.0)).map(Slot) {
            if !seat.stops.heard(own, slot, (ballot, voters)) && !voters.is_empty() {
                let alone = Gathered {
                    ballot,
                    first: slot,
                    last: slot,
                    voters,
                };
                seat.stops.pass_on(ballot.node, alone);
            }
        }
    }
}

impl RingStop {
    /// Where `from` brings a proposal to the node at `place`, whose vote is awaited; none where it tells the leader its vote itself.
    pub(crate) fn before(
        from: NodeId,
        ballot: Ballot,
        way: &RingWay,
        place: usize,
        seat: &Seat,
    ) -> Option<RingStop> {
        let gathering = way.gathering();
        if place >= gathering {
            return None;
        }
        let is_first = from == ballot.node;
        let is_named = !is_first && planted(Plant::RingBringerNamed);
        Some(RingStop {
            ballot,
            awaits_others: !is_first && !is_named,
            awaits_own: true,
            voters: match is_named {
                true => NodeSet::only(from),
                false => NodeSet::empty(),
            },
            to: match seat.next_on(way, place) {
                Some(next) if next < gathering => way.nodes()[next],
                Some(_) | None => ballot.node,
            },
        })
    }
}

impl Seat {
    /// The place of the next node behind `place` that is linked.
    fn next_on(&self, way: &RingWay, place: usize) -> Option<usize> {
        let behind = place + 1..way.nodes().len();
        let mut linked = behind.filter(|next| self.peers.is_linked(way.nodes()[*next]));
        linked.next()
    }

    pub(crate) fn flush_gathered(&mut self, effects: &mut Effects<Message>) {
        for (to, gathered) in std::mem::take(&mut self.stops.complete) {
            let says_nothing = to == gathered.ballot.node && gathered.voters.is_empty();
            if !says_nothing {
                let message = Message::Gathered(gathered);
                self.send(NodeSet::only(to), Lane::Normal, message, effects);
            }
        }
    }
}

impl Leader {
    /// Votes gathered along the ring. Each counts as if its voter had told it.
    fn on_gathered(
        &mut self,
        seat: &mut Seat,
        now: Time,
        gathered: Gathered,
        effects: &mut Effects<Message>,
    ) {
        let Gathered {
            ballot,
            first,
            last,
            voters,
        } = gathered;
        let accepted = Accepted {
            ballot,
            first: match planted(Plant::RingCumulative) {
                true => Slot::ZERO,
                false => first,
            },
            last,
        };
        let others = voters.without(seat.config.own);
        let counted = match planted(Plant::RingTakenForQuorum) {
            true => seat.others(),
            false => others,
        };
        for voter in counted.iter() {
            self.count_votes(seat, voter, accepted);
        }
        for voter in others.iter() {
            if let Some(peer) = seat.peers.find_mut(voter) {
                peer.refund(now, last);
            }
        }
        self.decide_voted(seat, now, effects);
        for voter in others.iter() {
            self.fill(seat, now, voter, effects);
        }
    }
}
