//! Passes every event to its role, and does the work that concerns several roles.

use crate::leader::Tenure;
use crate::message::{Accept, Accepted, Decided, Heard, Heartbeat, Learn, Message, Nack, Trimmed};
use crate::{MultiPaxos, Part};
use quorate_acceptor::{DurableAnswer, Fate, Verdict};
use quorate_ordering::{
    Effect, Effects, Event, Lane, LinkState, Ordering, OrderingStatus, Record, Standing, ViewPast,
};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, LinkEpoch, NodeId, NodeSet, Slot, Time, View, ViewId, Wall};

/// The number of decided slots after which the watermark is written with the next vote.
const UNRECORDED_MAX: u64 = 64;

impl Ordering for MultiPaxos {
    type Message = Message;

    fn view(&self) -> ViewId {
        self.seat.acceptor.view()
    }

    fn statement(&self) -> Vec<Record> {
        self.seat.acceptor.statement()
    }

    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> MultiPaxos {
        let mut instance = MultiPaxos::begin(now, self.handover().begin(view, standing, past));
        if planted(Plant::OldPolicyInNextView) {
            instance.seat.policies = self.seat.policies;
        }
        instance
    }

    fn gone(message: &Message, upto: Slot) -> Option<Message> {
        MultiPaxos::gone_answer(message, upto)
    }

    fn handle(&mut self, now: Time, event: Event<Message>, effects: &mut Effects<Message>) {
        match event {
            Event::Submit { commands } => self.submit(now, commands, Fate::Unproposed, effects),
            Event::Resubmit { commands } => self.submit(now, commands, Fate::Open, effects),
            Event::Close { last } => self.close(last),
            Event::Passed => self.passed(now, effects),
            Event::Over => self.over(now, effects),
            Event::Read { id, lease } => self.seat.read(now, id, lease, effects),
            Event::ReadAnnounced { id, read } => self.on_read_announced(now, id, read, effects),
            Event::Announced { read } => self.on_announced(read, effects),
            Event::Receive {
                from,
                link,
                view,
                message,
            } => {
                if view == self.view() && message.is_of(view.number) {
                    self.receive(now, (from, link), message, effects);
                } else {
                    self.foreign += 1;
                }
            }
            Event::Persisted { mark } => self.seat.acceptor.gate.persisted(mark),
            Event::Link { peer, state } => self.link_changed(now, peer, state, effects),
            Event::Executed { slot } => self.on_executed(now, slot, effects),
            Event::Trimmable { slot, digest } => self.seat.trim(slot, digest, effects),
            Event::TurnEnd { wall, entropy } => self.end_turn(now, wall, entropy, effects),
            Event::TransferLeadership { to } => {
                if let Some((leader, seat)) = self.leading() {
                    leader.transfer_leadership(seat, now, to, effects);
                }
            }
            Event::Attended(is_attended) => self.attended(now, is_attended),
            Event::Wake => self.wake(now, effects),
        }
        self.vote_deferred(now, effects);
        self.settle(now, effects);
        self.seat.deliver(effects);
        let patience = self.seat.config.timing.resend;
        self.seat.spreading.note_progress(now, patience);
        self.seat.report_repair(effects);
        let role = self.role();
        if role != self.role_told {
            self.role_told = role;
            effects.push(Effect::Role(role));
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let mut earliest = match &self.part {
            Part::Follower if self.may_stand() => Some(self.seat.election.missed_at()),
            Part::Follower => None,
            Part::Candidate(candidate) => Some(candidate.phase.wake_at()),
            Part::Leader(leader) => Some(leader.wake_at(&self.seat)),
        };
        let is_unrecorded =
            self.seat.acceptor.gate.is_on_disk() && self.seat.acceptor.unrecorded() > 0;
        let record = is_unrecorded.then_some(self.record_at);
        for due in [
            self.seat.learner_wake_at(),
            self.seat.forward.wake_at(),
            self.seat.reads.wake_at(),
            self.seat.spreading_wake_at(),
            self.seat.multicast_wake_at(),
            record,
            self.seat.repair.as_ref().map(|repair| repair.ask_at),
        ] {
            earliest = Time::earlier(earliest, due);
        }
        earliest
    }

    fn status(&self) -> OrderingStatus {
        self.report()
    }

    fn decided(&self) -> Slot {
        self.seat.acceptor.log.decided()
    }

    fn batch(&self, slot: Slot) -> Option<&Batch> {
        self.seat.acceptor.log.chosen(slot)
    }

    fn check(&self) {
        self.check_all();
    }
}

impl MultiPaxos {
    /// Whether this node tries to lead where it misses a leader.
    pub(crate) fn may_stand(&self) -> bool {
        let may_lead = self.seat.config.view.may_lead(self.seat.config.own);
        self.seat.acceptor.is_voter() && !self.seat.is_over && may_lead
    }

    // Longer than a screen: one arm a message.
    fn receive(
        &mut self,
        now: Time,
        (from, link): (NodeId, LinkEpoch),
        message: Message,
        effects: &mut Effects<Message>,
    ) {
        if self.seat.peers.find(from).is_none() {
            // A member of a later view may lack slots of this one, and nobody else may have them.
            if let Message::Learn(ask) = message {
                self.seat.on_learn(now, from, ask, effects);
            }
            return;
        }
        match message {
            Message::PreVote(ask) => self.on_pre_vote(now, from, ask, effects),
            Message::PreVoted(answer) => {
                self.peer_decided(now, from, answer.decided, effects);
                self.on_pre_voted(now, from, answer, effects);
            }
            Message::Prepare(ask) => self.on_prepare(now, from, ask, effects),
            Message::Promise(page) => self.on_promise(now, from, *page, effects),
            Message::Nack(nack) => self.on_nack(now, nack, effects),
            Message::Accept(accept) => self.on_accept(now, from, accept, effects),
            Message::Accepted(accepted) => self.on_accepted(now, from, accepted, effects),
            Message::Seen(seen) => {
                if let Some((leader, seat)) = self.leading_in(seen.ballot) {
                    leader.on_seen(seat, now, from, seen, effects);
                }
            }
            Message::Decided(decided) => self.on_decided(now, from, decided, effects),
            Message::Heartbeat(beat) => self.on_heartbeat(now, from, beat, effects),
            Message::Heard(heard) => {
                self.peer_decided(now, from, heard.decided, effects);
                if let Some((leader, seat)) = self.leading_in(heard.ballot) {
                    leader.on_heard(seat, now, from, heard, effects);
                    self.learn_more(now, effects);
                }
            }
            Message::Learn(ask) => self.seat.on_learn(now, from, ask, effects),
            Message::Learned(learned) => self.on_learned(now, from, learned, effects),
            Message::Trimmed(trimmed) => self.on_trimmed(now, from, trimmed, effects),
            Message::Forward(forward) => self.on_forward(from, forward, effects),
            Message::Returned(returned) => self.seat.on_returned(returned, effects),
            Message::Confirm(ask) => self.on_confirm(now, from, ask, effects),
            Message::Confirmed(answer) => {
                if let Some((leader, seat)) = self.leading_in(answer.ballot) {
                    leader.on_confirmed(seat, from, answer, effects);
                }
            }
            Message::Attested(told) => self.on_attested(now, from, told, effects),
            Message::AskBarrier(ask) => self.on_ask_barrier(now, from, ask, effects),
            Message::Barrier(answer) => self.seat.on_barrier(answer, effects),
            Message::TakeOver(request) => self.on_take_over(now, request, effects),
            Message::Survey(survey) => self.on_survey(from, survey, effects),
            Message::Surveyed(answer) => self.seat.on_surveyed(from, answer, effects),
            Message::Pass(pass) => self.on_pass(now, from, pass, 0, effects),
            Message::Gathered(gathered) => self.on_gathered(now, gathered, effects),
            Message::Spread(spread) => self.on_spread(now, (from, link), spread, effects),
            Message::Holds(holds) => self.on_holds(now, (from, link), holds),
            Message::Named(named) => self.on_named(now, from, named, effects),
            Message::Want(want) => self.on_want(now, from, want, effects),
            Message::Multicast(carried) => self.on_multicast(now, from, carried, effects),
            Message::Fetched(carried) => self.on_fetched(now, &carried, effects),
            Message::PassId(pass) => self.on_pass_id(now, from, pass, effects),
            Message::Hears(hears) => {
                if let Some((leader, seat)) = self.leading_in(hears.ballot) {
                    leader.on_hears(seat, from, hears.slot);
                }
            }
        }
    }

    pub(crate) fn on_accepted(
        &mut self,
        now: Time,
        from: NodeId,
        accepted: Accepted,
        effects: &mut Effects<Message>,
    ) {
        match self.leading_in(accepted.ballot) {
            Some((leader, seat)) => leader.on_accepted(seat, now, from, accepted, effects),
            None => self.learn_votes(now, from, accepted, effects),
        }
    }

    /// A message of the leader of `ballot` arrived. Returns whether to follow it; a leader with a lower ballot gets a nack.
    pub(crate) fn follow(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        effects: &mut Effects<Message>,
    ) -> bool {
        let promised = self.seat.acceptor.promised();
        if ballot < promised && !planted(Plant::AcceptLowerBallot) {
            let nack = Message::Nack(Nack { ballot, promised });
            self.seat
                .send(NodeSet::only(from), Lane::Urgent, nack, effects);
            return false;
        }
        if ballot.node != from {
            return false;
        }
        self.yield_to(now, ballot, effects);
        self.seat.acceptor.raise(ballot, effects);
        self.seat.heard_leader(now, ballot);
        true
    }

    /// A higher ballot exists: this node's own attempt or leadership below it ends.
    pub(crate) fn yield_to(&mut self, now: Time, ballot: Ballot, effects: &mut Effects<Message>) {
        match &self.part {
            Part::Follower => {}
            Part::Candidate(candidate) if candidate.phase.ballot() < ballot => {
                self.part = Part::Follower;
            }
            Part::Leader(leader) if leader.ballot < ballot => self.step_down(now, effects),
            Part::Candidate(_) | Part::Leader(_) => {}
        }
    }

    fn on_nack(
        &mut self,
        now: Time,
        Nack { ballot, promised }: Nack,
        effects: &mut Effects<Message>,
    ) {
        self.seat.election.heard_of(promised);
        match &self.part {
            Part::Follower => {}
            Part::Candidate(candidate) if candidate.phase.ballot() == ballot => self.abandon(now),
            Part::Leader(leader) if leader.ballot == ballot => self.step_down(now, effects),
            Part::Candidate(_) | Part::Leader(_) => {}
        }
    }

    fn on_decided(
        &mut self,
        now: Time,
        from: NodeId,
        Decided { ballot, upto }: Decided,
        effects: &mut Effects<Message>,
    ) {
        if self.follow(now, from, ballot, effects) {
            self.heard_decided(now, ballot, upto, effects);
        }
    }

    fn on_accept(
        &mut self,
        now: Time,
        from: NodeId,
        accept: Accept,
        effects: &mut Effects<Message>,
    ) {
        if self.follow(now, from, accept.ballot, effects) {
            self.take_proposal(now, accept, effects);
        }
    }

    /// Answers a proposal of the leader that this node follows, and learns what it says of decisions.
    pub(crate) fn take_proposal(
        &mut self,
        now: Time,
        Accept {
            ballot,
            slot,
            batch,
            decided,
        }: Accept,
        effects: &mut Effects<Message>,
    ) -> Verdict {
        let leader = ballot.node;
        self.seat.spreading.came(slot);
        self.seat.value_came(ballot, slot, effects);
        let verdict = self.seat.vote(ballot, slot, batch, effects);
        match verdict {
            Verdict::Voted | Verdict::NoRoom | Verdict::Incomplete => {}
            Verdict::Superseded => {
                let ask = Learn { from: slot };
                self.seat.on_learn(now, leader, ask, effects);
            }
            Verdict::Trimmed => {
                let upto = self.seat.acceptor.log.trimmed();
                self.seat.send(
                    NodeSet::only(leader),
                    Lane::Normal,
                    Message::Trimmed(Trimmed { upto }),
                    effects,
                );
            }
        }
        self.heard_decided(now, ballot, decided, effects);
        if verdict == Verdict::Incomplete {
            self.seat.learn_at_once(now, effects);
        }
        verdict
    }

    fn on_heartbeat(
        &mut self,
        now: Time,
        from: NodeId,
        Heartbeat {
            ballot,
            beat,
            decided,
            wants_lease,
            current,
        }: Heartbeat,
        effects: &mut Effects<Message>,
    ) {
        if !self.follow(now, from, ballot, effects) {
            return;
        }
        let is_granted = wants_lease && self.seat.acceptor.is_voter();
        if is_granted {
            self.seat
                .acceptor
                .bind(ballot, now + self.seat.config.timing.lease);
        }
        self.seat.acceptor.tell(DurableAnswer::Heard {
            ballot,
            beat,
            is_granted,
        });
        if let Some(current) = current {
            let own = self.seat.config.own;
            self.seat.answers.told(now, own, &current, effects);
        }
        self.heard_decided(now, ballot, decided, effects);
        self.seat.repair_led(now, ballot, effects);
    }

    fn link_changed(
        &mut self,
        now: Time,
        node: NodeId,
        state: LinkState,
        effects: &mut Effects<Message>,
    ) {
        self.seat.repair_linked(node);
        let next = self.seat.acceptor.log.decided().next();
        let Some(peer) = self.seat.peers.find_mut(node) else {
            return;
        };
        peer.restart_at(next);
        peer.taught = None;
        let leads = self
            .seat
            .election
            .leader
            .is_some_and(|ballot| ballot.node == node);
        match state {
            LinkState::Up(epoch) => {
                peer.link = Some(epoch);
                if leads {
                    self.seat.leader_changed();
                }
                let may_lag = self.seat.config.view.first_slot > Slot(1) && !self.seat.is_over;
                if self.seat.election.leader.is_none() && may_lag {
                    // The peer may be in an earlier view, and nobody leads who tells it.
                    self.tell_beginning(NodeSet::only(node), effects);
                }
                if let Some((leader, seat)) = self.leading() {
                    leader.fill(seat, now, node, effects);
                }
            }
            LinkState::Down => {
                peer.link = None;
                let is_awaited = leads
                    || (self.seat.election.leader.is_none()
                        && self.seat.acceptor.promised().node == node);
                if is_awaited {
                    self.seat.election.suspect_soon(now);
                }
                if let Some((leader, seat)) = self.leading() {
                    leader.suspect_unlinked(seat, now, node, effects);
                }
            }
        }
        self.seat.spread_relinked(now, node, effects);
        self.seat.teacher_changed(now, node, effects);
    }

    /// Clients have sessions now, or none has any more: a leader's next heartbeat comes in the time that this asks for.
    fn attended(&mut self, now: Time, is_attended: bool) {
        self.seat.is_attended = is_attended;
        if let Some((leader, seat)) = self.leading() {
            leader.beat_at = leader.beat_at.min(now + seat.heartbeat());
        }
    }

    fn on_executed(&mut self, now: Time, slot: Slot, effects: &mut Effects<Message>) {
        self.seat.executed = self.seat.executed.max(slot);
        if slot < self.seat.acceptor.log.trimmed() {
            let upto = self.seat.acceptor.log.trimmed();
            effects.push(Effect::NeedSnapshot { upto });
        }
        let is_first = !std::mem::replace(&mut self.seat.has_begun, true);
        let upto = if is_first {
            self.seat.acceptor.lost_upto(slot)
        } else {
            slot
        };
        if upto > self.seat.acceptor.log.decided() {
            self.leave_to_snapshot(now, upto, effects);
        }
        self.seat.learner.knows(slot);
        let delivered = slot.min(self.seat.acceptor.log.decided());
        self.seat.delivered = self.seat.delivered.max(delivered);
        if is_first {
            self.tell_begun(effects);
        }
    }

    /// The replica has the effects of all slots up to `upto`, which is above the decided prefix: the log goes on after it.
    pub(crate) fn leave_to_snapshot(
        &mut self,
        now: Time,
        upto: Slot,
        effects: &mut Effects<Message>,
    ) {
        // A snapshot hides what was decided in the slots in flight, perhaps proposals of another leader.
        if matches!(&self.part, Part::Leader(leader) if !leader.in_flight.is_empty()) {
            self.step_down(now, effects);
        }
        self.seat.acceptor.jump(upto);
        self.seat.delivered = upto;
        self.seat.discard(effects);
        self.seat.learner.knows(upto);
        self.seat.learner.went_on(now);
        self.seat.decide_heard(effects);
        self.prefix_moved(now, effects);
        if !planted(Plant::TrimmedAskKept) {
            self.seat.learn_afresh(now, effects);
        }
    }

    fn end_turn(&mut self, now: Time, wall: Wall, entropy: u64, effects: &mut Effects<Message>) {
        self.settle(now, effects);
        self.open_reads(now, effects);
        self.seat.spread_submitted(now, effects);
        if let Some((leader, seat)) = self.leading() {
            leader.order_waiting(seat, now, wall, entropy, effects);
        }
        match &self.part {
            Part::Follower => self.seat.forward_unsent(now, effects),
            Part::Candidate(_) | Part::Leader(_) => {}
        }
        if self.seat.acceptor.unrecorded() >= UNRECORDED_MAX {
            self.seat.acceptor.record_decided(effects);
        }
        self.settle(now, effects);
        self.flush_votes(effects);
        self.seat.flush_gathered(effects);
    }

    fn wake(&mut self, now: Time, effects: &mut Effects<Message>) {
        match &mut self.part {
            Part::Follower => {
                if self.may_stand() && now >= self.seat.election.missed_at() {
                    if planted(Plant::PreVoteSkipped) {
                        return self.begin_phase1(now, effects);
                    }
                    self.ask_pre_votes(now, effects);
                }
            }
            Part::Candidate(_) => self.wake_candidate(now, effects),
            Part::Leader(leader) => match leader.wake(&mut self.seat, now, effects) {
                Tenure::Goes => {}
                Tenure::Over => self.step_down(now, effects),
            },
        }
        self.seat.wake_learner(now, effects);
        self.seat.wake_forward(now, effects);
        self.seat.wake_reads(now, effects);
        self.tend_announced(now, effects);
        self.seat.wake_spreading(now, effects);
        self.seat.wake_multicast(now, effects);
        self.seat.wake_repair(now, effects);
        if now >= self.record_at {
            self.record_at = now + self.seat.config.timing.lease;
            self.seat.acceptor.record_decided(effects);
        }
    }

    /// Turns durable answers into messages; answers to this node itself take effect at once.
    fn settle(&mut self, now: Time, effects: &mut Effects<Message>) {
        while let Some(answer) = self.seat.acceptor.gate.take_ready() {
            match answer {
                DurableAnswer::Promised { ballot, to, from } if to == self.seat.config.own => {
                    let _ = from;
                    self.own_promise_is_durable(now, ballot, effects);
                }
                DurableAnswer::Promised { ballot, to, from } => {
                    self.seat.tell_promise(to, ballot, from, effects);
                }
                DurableAnswer::Voted { ballot, slot, .. }
                    if ballot.node == self.seat.config.own =>
                {
                    self.own_vote_is_durable(now, ballot, slot, effects);
                }
                DurableAnswer::Voted {
                    ballot,
                    slot,
                    kind: _,
                    backing,
                } => self.vote_is_durable(now, (ballot, slot, backing), effects),
                DurableAnswer::Heard {
                    ballot,
                    beat,
                    is_granted,
                } => {
                    let message = Message::Heard(Heard {
                        ballot,
                        beat,
                        number: self.seat.answers.give(now),
                        decided: self.seat.acceptor.log.decided(),
                        is_voter: self.seat.acceptor.is_voter(),
                        is_granted,
                    });
                    let to = NodeSet::only(ballot.node);
                    self.seat.send(to, Lane::Urgent, message, effects);
                }
            }
        }
    }
}
