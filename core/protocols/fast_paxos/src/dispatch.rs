//! Passes every event to its role, and does the work that concerns several roles.

use crate::leader::Tenure;
use crate::message::{
    Accept, Any, Decided, Heard, Heartbeat, Learn, Message, Nack, Seen, Trimmed, Voted,
};
use crate::{FastPaxos, Part, Seat};
use quorate_acceptor::{Backing, DurableAnswer, Fate, Verdict};
use quorate_ordering::{
    Effect, Effects, Event, Lane, LinkState, Ordering, OrderingStatus, Record, Standing, ViewPast,
};
use quorate_types::{Ballot, Batch, NodeId, NodeSet, Slot, Time, View, ViewId, VoteKind, Wall};

/// The number of decided slots after which the watermark is written with the next vote.
const UNRECORDED_MAX: u64 = 64;

impl Ordering for FastPaxos {
    type Message = Message;

    fn view(&self) -> ViewId {
        self.seat.acceptor.view()
    }

    fn statement(&self) -> Vec<Record> {
        self.seat.acceptor.statement()
    }

    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> FastPaxos {
        FastPaxos::begin(now, self.handover().begin(view, standing, past))
    }

    fn gone(message: &Message, upto: Slot) -> Option<Message> {
        FastPaxos::gone_answer(message, upto)
    }

    fn handle(&mut self, now: Time, event: Event<Message>, effects: &mut Effects<Message>) {
        match event {
            Event::Submit { commands } => self.submit(now, commands, Fate::Unproposed, effects),
            Event::Resubmit { commands } => self.submit(now, commands, Fate::Open, effects),
            Event::Close { last } => self.close(last),
            Event::Passed => self.passed(now, effects),
            Event::Over => self.over(now, effects),
            // There is no leader of classic rounds whom acceptors could confirm unasked.
            Event::Read { id, lease: _ } | Event::ReadAnnounced { id, read: _ } => {
                self.seat.read(now, id, effects);
            }
            Event::Announced { read: _ } => {}
            Event::Receive {
                from,
                link: _,
                view,
                message,
            } => {
                if view == self.view() && message.is_of(view.number) {
                    self.receive(now, from, message, effects);
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
            Event::Attended(is_attended) => {
                self.seat.is_attended = is_attended;
                if let Some((leader, seat)) = self.leading() {
                    leader.beat_at = leader.beat_at.min(now + seat.heartbeat());
                }
            }
            Event::Wake => self.wake(now, effects),
        }
        self.settle(now, effects);
        if matches!(&self.part, Part::Leader(leader) if leader.must_renew) {
            self.renew(now, effects);
            self.settle(now, effects);
        }
        self.seat.deliver(now, effects);
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

impl FastPaxos {
    // Longer than a screen: one arm a message.
    fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        effects: &mut Effects<Message>,
    ) {
        let Some(peer) = self.seat.peers.find_mut(from) else {
            // A member of a later view may lack slots of this one, and nobody else may have them.
            if let Message::Learn(ask) = message {
                self.seat.on_learn(now, from, ask, effects);
            }
            return;
        };
        peer.answered = now;
        match message {
            Message::PreVote(ask) => self.on_pre_vote(now, from, ask, effects),
            Message::PreVoted(answer) => {
                self.peer_decided(now, from, answer.decided, effects);
                self.on_pre_voted(now, from, answer, effects);
            }
            Message::Prepare(ask) => self.on_prepare(now, from, ask, effects),
            Message::Promise(page) => self.on_promise(now, from, *page, effects),
            Message::Nack(nack) => self.on_nack(now, nack, effects),
            Message::Any(any) => self.on_any(now, from, any, effects),
            Message::Propose(propose) => {
                self.seat.on_propose(propose, effects);
                // Votes for it may have come before it.
                self.decide_known(now, effects);
            }
            Message::Accept(accept) => self.on_accept(now, from, accept, effects),
            Message::Voted(voted) => self.on_voted(now, from, voted, effects),
            Message::Seen(Seen { ballot, slot }) => {
                self.acknowledged(now, from, ballot, slot, effects);
            }
            Message::Decided(Decided { ballot, upto }) => {
                if self.follow(now, from, ballot, effects) {
                    self.heard_decided(now, ballot, upto, effects);
                }
            }
            Message::Heartbeat(beat) => self.on_heartbeat(now, from, beat, effects),
            Message::Heard(heard) => {
                self.peer_decided(now, from, heard.decided, effects);
                if let Some((leader, seat)) = self.leading()
                    && leader.ballot == heard.ballot
                {
                    leader.on_heard(seat, now, from, heard, effects);
                    leader.choose_mode(seat, now, effects);
                }
            }
            Message::Learn(ask) => self.seat.on_learn(now, from, ask, effects),
            Message::Learned(learned) => self.on_learned(now, from, learned, effects),
            Message::Trimmed(trimmed) => self.on_trimmed(now, from, trimmed, effects),
            Message::Forward(forward) => self.on_forward(now, from, forward, effects),
            Message::Confirm(ask) => self.on_confirm(now, from, ask, effects),
            Message::Confirmed(answer) => {
                if let Some((leader, seat)) = self.leading() {
                    leader.on_confirmed(seat, from, answer, effects);
                }
            }
            Message::AskBarrier(ask) => self.on_ask_barrier(now, from, ask, effects),
            Message::Barrier(answer) => self.seat.on_barrier(answer, effects),
            Message::TakeOver(request) => self.on_take_over(now, request, effects),
            Message::Survey(survey) => self.on_survey(from, survey, effects),
            Message::Surveyed(answer) => self.seat.on_surveyed(from, answer, now, effects),
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
        if ballot < promised {
            let nack = Message::Nack(Nack { ballot, promised });
            let to = NodeSet::only(from);
            self.seat.send(to, Lane::Urgent, nack, effects);
            return false;
        }
        if ballot.node != from {
            return false;
        }
        self.yield_to(now, ballot, effects);
        self.seat.acceptor.raise(ballot, effects);
        self.seat.forget_old_values();
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

    fn on_any(
        &mut self,
        now: Time,
        from: NodeId,
        Any {
            ballot,
            from: first,
        }: Any,
        effects: &mut Effects<Message>,
    ) {
        if self.follow(now, from, ballot, effects) {
            self.seat.open(ballot, first, effects);
        }
    }

    fn on_accept(
        &mut self,
        now: Time,
        from: NodeId,
        Accept {
            ballot,
            slot,
            batch,
            decided,
        }: Accept,
        effects: &mut Effects<Message>,
    ) {
        if !self.follow(now, from, ballot, effects) {
            return;
        }
        match self.seat.vote(ballot, slot, batch, effects) {
            // The leader sends again what has no vote; by then the acceptor may have learned what it lacks before a trim.
            Verdict::Voted | Verdict::NoRoom | Verdict::Incomplete => {}
            Verdict::Superseded => {
                let ask = Learn { from: slot };
                self.seat.on_learn(now, from, ask, effects);
            }
            Verdict::Trimmed => {
                let upto = self.seat.acceptor.log.trimmed();
                let answer = Message::Trimmed(Trimmed { upto });
                let to = NodeSet::only(from);
                self.seat.send(to, Lane::Normal, answer, effects);
            }
        }
        self.heard_decided(now, ballot, decided, effects);
    }

    /// An acceptor, perhaps this one, has voted, and that is durable.
    fn on_voted(&mut self, now: Time, from: NodeId, voted: Voted, effects: &mut Effects<Message>) {
        let Voted { ballot, slot, kind } = voted;
        let seat = &mut self.seat;
        if !seat.config.view.acceptors.contains(from) {
            return;
        }
        let decided = seat.acceptor.log.decided();
        if let VoteKind::Fast(value) = kind {
            seat.forward.note_vote(value, from, slot, decided);
            if let Some(number) = seat.forward.number_of(value)
                && let Some(peer) = seat.peers.find_mut(from)
            {
                peer.value_credit.refund(now, number);
            }
        }
        let tally = &mut seat.tally;
        if tally.note(decided, slot, from, ballot, kind) {
            self.decide_known(now, effects);
            if let Some((leader, seat)) = self.leading() {
                leader.look_for_collision(seat, now, slot, effects);
            }
        }
        if !kind.is_fast() {
            self.acknowledged(now, from, ballot, slot, effects);
        }
    }

    /// `from` has the leader's proposal in `slot`.
    fn acknowledged(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        slot: Slot,
        effects: &mut Effects<Message>,
    ) {
        let Some((leader, seat)) = self.leading() else {
            return;
        };
        if leader.ballot == ballot {
            if let Some(peer) = seat.peers.find_mut(from) {
                peer.credit.refund(now, slot);
            }
            leader.fill(seat, now, from, effects);
        }
    }

    fn on_heartbeat(
        &mut self,
        now: Time,
        from: NodeId,
        heartbeat: Heartbeat,
        effects: &mut Effects<Message>,
    ) {
        let Heartbeat {
            ballot,
            beat,
            decided,
            any,
            ..
        } = heartbeat;
        if !self.follow(now, from, ballot, effects) {
            return;
        }
        if let Some(first) = any {
            self.seat.open(ballot, first, effects);
        }
        if let Some(current) = &heartbeat.current {
            let own = self.seat.config.own;
            self.seat.answers.told(now, own, current, effects);
        }
        self.heard_decided(now, ballot, decided, effects);
        self.seat.repair_heard(&heartbeat, effects);
        self.seat.acceptor.tell(DurableAnswer::Heard {
            ballot,
            beat,
            is_granted: false,
        });
    }

    fn link_changed(
        &mut self,
        now: Time,
        node: NodeId,
        state: LinkState,
        effects: &mut Effects<Message>,
    ) {
        let next = self.seat.acceptor.log.decided().next();
        let Some(peer) = self.seat.peers.find_mut(node) else {
            return;
        };
        peer.restart_at(next);
        peer.value_credit.reset();
        peer.taught = None;
        let leads = (self.seat.election.leader).is_some_and(|ballot| ballot.node == node);
        if let Some((leader, _)) = self.leading() {
            leader.forget_sent(node);
        }
        match state {
            LinkState::Up(epoch) => {
                if let Some(peer) = self.seat.peers.find_mut(node) {
                    peer.link = Some(epoch);
                }
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
                if let Some(peer) = self.seat.peers.find_mut(node) {
                    peer.link = None;
                }
                let is_awaited = leads
                    || (self.seat.election.leader.is_none()
                        && self.seat.acceptor.promised().node == node);
                if is_awaited {
                    self.seat.election.suspect_soon(now);
                }
            }
        }
        self.seat.teacher_changed(now, node, effects);
    }

    fn end_turn(&mut self, now: Time, wall: Wall, entropy: u64, effects: &mut Effects<Message>) {
        self.seat.entropy = entropy;
        self.settle(now, effects);
        self.open_reads(now, effects);
        self.seat.cast_waiting(effects);
        self.send_unsent(now, wall, effects);
        if let Some((leader, seat)) = self.leading() {
            leader.order_waiting(seat, now, wall, entropy, effects);
        }
        if self.seat.acceptor.unrecorded() >= UNRECORDED_MAX {
            self.seat.acceptor.record_decided(effects);
        }
        self.settle(now, effects);
    }

    fn wake(&mut self, now: Time, effects: &mut Effects<Message>) {
        match &mut self.part {
            Part::Follower => {
                if self.may_stand() && now >= self.seat.election.missed_at() {
                    self.ask_pre_votes(now, effects);
                }
            }
            Part::Candidate(_) => self.wake_candidate(now, effects),
            Part::Leader(leader) => match leader.wake(&mut self.seat, now, effects) {
                Tenure::Goes => leader.choose_mode(&mut self.seat, now, effects),
                Tenure::Over => self.step_down(now, effects),
                Tenure::Renewed => self.renew(now, effects),
            },
        }
        self.seat.wake_learner(now, effects);
        self.seat.wake_forward(now, effects);
        self.seat.wake_reads(now, effects);
        self.seat.wake_repair(now, effects);
        if now >= self.record_at {
            self.record_at = now + self.seat.config.timing.lease;
            self.seat.acceptor.record_decided(effects);
        }
    }

    /// Turns durable answers into messages; answers to this node itself take effect at once.
    fn settle(&mut self, now: Time, effects: &mut Effects<Message>) {
        let own = self.seat.config.own;
        while let Some(answer) = self.seat.acceptor.gate.take_ready() {
            match answer {
                DurableAnswer::Promised {
                    ballot,
                    to,
                    from: _,
                } if to == own => {
                    self.own_promise_is_durable(now, ballot, effects);
                }
                DurableAnswer::Promised { ballot, to, from } => {
                    self.seat.tell_promise(to, ballot, from, effects);
                }
                DurableAnswer::Voted {
                    ballot,
                    slot,
                    kind,
                    backing: Backing::Vote,
                } => {
                    let voted = Voted { ballot, slot, kind };
                    let to = self.seat.who_counts(ballot);
                    let message = Message::Voted(voted);
                    self.seat.send(to, Lane::Normal, message, effects);
                    self.on_voted(now, own, voted, effects);
                }
                DurableAnswer::Voted {
                    ballot,
                    slot,
                    kind: _,
                    backing: Backing::Held,
                } => {
                    let message = Message::Seen(Seen { ballot, slot });
                    let to = NodeSet::only(ballot.node);
                    self.seat.send(to, Lane::Normal, message, effects);
                }
                DurableAnswer::Heard {
                    ballot,
                    beat,
                    is_granted: _,
                } => {
                    let message = Message::Heard(Heard {
                        ballot,
                        beat,
                        number: self.seat.answers.give(now),
                        decided: self.seat.acceptor.log.decided(),
                        voted: self.seat.voted_ever(),
                        is_voter: self.seat.acceptor.is_voter(),
                    });
                    let to = NodeSet::only(ballot.node);
                    self.seat.send(to, Lane::Urgent, message, effects);
                }
            }
        }
    }
}

impl Seat {
    /// Who is told of a vote in `ballot`: everybody while its slots are open to any value, or else its leader, which announces
    /// what is decided.
    fn who_counts(&self, ballot: Ballot) -> NodeSet {
        if self.any().is_some_and(|(open, _)| open == ballot) {
            self.others()
        } else {
            NodeSet::only(ballot.node).without(self.config.own)
        }
    }
}
