//! How submitted commands reach the acceptors: as values sent to all of them in fast rounds, over the leader in classic ones.

use crate::leader::{Leader, Mode};
use crate::message::{Forward, Message, Propose};
use crate::submissions::{Kept, ProposedValue, SentBy};
use crate::{FastPaxos, Part, Seat};
use quorate_acceptor::{Fate, Source};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Command, NodeId, NodeSet, Refusal, Slot, Stamp, Time, Wall};

impl FastPaxos {
    pub(crate) fn submit(
        &mut self,
        now: Time,
        commands: Vec<Command>,
        fate: Fate,
        effects: &mut Effects<Message>,
    ) {
        let limits = &self.seat.config.limits;
        let forward = &self.seat.forward;
        let is_full =
            forward.kept.len() >= limits.queue_commands || forward.bytes >= limits.queue_bytes;
        if is_full {
            let refusal = match fate {
                Fate::Unproposed => Refusal::Overloaded,
                Fate::Open => Refusal::Unknown,
            };
            let fresh = commands.iter().map(|command| command.id);
            let fresh = fresh.filter(|id| !forward.kept.contains_key(id));
            effects.extend(fresh.map(|command| Effect::Refuse { command, refusal }));
            return;
        }
        self.seat.keep(now, commands, fate);
    }

    /// The end of a turn: sends on what was submitted, by the way that the rounds have.
    pub(crate) fn send_unsent(&mut self, now: Time, wall: Wall, effects: &mut Effects<Message>) {
        if self.seat.is_over {
            return;
        }
        let leader = match &self.part {
            Part::Leader(leader) => Some(leader.ballot),
            Part::Candidate(_) => None,
            Part::Follower => self.seat.election.leader,
        };
        let any = self
            .seat
            .any()
            .filter(|(ballot, _)| Some(*ballot) == leader);
        if let Some((ballot, _)) = any {
            if self.seat.last.is_none() {
                self.seat.propose_unsent(now, ballot, wall, effects);
            }
            return;
        }
        match &mut self.part {
            Part::Leader(leader) if leader.is_steady() && leader.mode == Mode::Classic => {
                leader.adopt_unsent(&mut self.seat, now);
            }
            Part::Leader(_) | Part::Candidate(_) => {}
            Part::Follower => self.seat.forward_unsent(now, effects),
        }
    }

    pub(crate) fn on_forward(
        &mut self,
        now: Time,
        from: NodeId,
        Forward { ballot, commands }: Forward,
        effects: &mut Effects<Message>,
    ) {
        let Some((leader, seat)) = self.leading() else {
            return;
        };
        if leader.ballot != ballot || !leader.queue.has_room(&seat.config.limits) {
            // The sender keeps them, and sends them again.
            return;
        }
        // Whoever forwarded a copy keeps the command until it is decided, or forwards it to the next leader.
        let (_, fresh) = leader.held.part(commands, leader.waiting());
        if fresh.is_empty() {
            return;
        }
        match leader.mode {
            Mode::Classic => {
                leader.held.insert(&fresh);
                let number = 0;
                leader
                    .queue
                    .push(Source::Forwarded { node: from, number }, fresh);
            }
            // The sender had not heard of it yet.
            Mode::Fast { .. } => {
                let stamp = Stamp {
                    wall: Wall(seat.acceptor.log.wall().0 + 1),
                    entropy: seat.drawn_for(seat.forward.number + 1),
                };
                let batch = Batch::new(stamp, fresh);
                seat.propose_value(now, ballot, batch, true, effects);
            }
        }
    }
}

impl Leader {
    /// Lets the commands of this node wait for a slot. It keeps them, as any other node does.
    fn adopt_unsent(&mut self, seat: &mut Seat, now: Time) {
        if !self.queue.has_room(&seat.config.limits) {
            return;
        }
        let mut commands = Vec::new();
        for id in std::mem::take(&mut seat.forward.unsent) {
            if let Some(kept) = seat.forward.kept.get_mut(&id) {
                kept.sent = SentBy::Forwarded(now);
                commands.push(kept.command.clone());
            }
        }
        let (_, fresh) = self.held.part(commands, self.waiting());
        if !fresh.is_empty() {
            self.held.insert(&fresh);
            self.queue.push(Source::Own(Fate::Open), fresh);
        }
    }
}

impl Seat {
    /// Keeps commands until they are decided or expire.
    fn keep(&mut self, now: Time, commands: Vec<Command>, fate: Fate) {
        let is_uncertain = fate == Fate::Open;
        let deadline = now + self.config.timing.submit;
        if self.forward.deadlines.is_empty() {
            self.forward.resend_at = now + self.config.timing.election_min;
        }
        for command in commands {
            let id = command.id;
            if let Some(kept) = self.forward.kept.get_mut(&id) {
                kept.is_uncertain |= is_uncertain;
                continue;
            }
            self.forward.bytes += command.weight();
            self.forward.unsent.push_back(id);
            self.forward.deadlines.push_back((deadline, id));
            let kept = Kept {
                command,
                sent: SentBy::No,
                is_uncertain,
                deadline,
            };
            self.forward.kept.insert(id, kept);
        }
    }

    /// The next commands to send, as many as fit a batch; `mark` says that they are sent.
    fn cut_unsent(&mut self, mark: SentBy) -> Vec<Command> {
        let limits = &self.config.limits;
        let mut commands = Vec::new();
        let mut weight = 0;
        while let Some(id) = self.forward.unsent.front() {
            let Some(kept) = self.forward.kept.get_mut(id) else {
                self.forward.unsent.pop_front();
                continue;
            };
            let own = kept.command.weight();
            let is_large = own >= limits.large_bytes;
            let is_full = commands.len() >= limits.batch_commands
                || is_large
                || weight + own > limits.batch_bytes;
            if is_full && !commands.is_empty() {
                break;
            }
            kept.sent = mark;
            weight += own;
            commands.push(kept.command.clone());
            self.forward.unsent.pop_front();
            if is_large {
                break;
            }
        }
        commands
    }

    /// Proposes waiting commands to all acceptors, as many values at once as the pipeline allows.
    fn propose_unsent(
        &mut self,
        now: Time,
        ballot: Ballot,
        wall: Wall,
        effects: &mut Effects<Message>,
    ) {
        while wall != Wall::UNKNOWN && self.forward.proposals.len() < self.config.limits.pipeline {
            let number = self.forward.number + 1;
            let commands = self.cut_unsent(SentBy::Proposed(number));
            if commands.is_empty() {
                return;
            }
            let last = self.acceptor.log.wall();
            let stamp = Stamp {
                wall: wall.max(Wall(last.0 + 1)),
                entropy: self.drawn_for(number),
            };
            self.propose_value(now, ballot, Batch::new(stamp, commands), false, effects);
        }
    }

    /// The entropy of the value with this number, which no other one has.
    fn drawn_for(&self, number: u64) -> u64 {
        self.entropy ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Names a new value and sends it to all acceptors.
    fn propose_value(
        &mut self,
        now: Time,
        ballot: Ballot,
        batch: Batch,
        is_forwarded: bool,
        effects: &mut Effects<Message>,
    ) {
        self.forward.number += 1;
        let number = self.forward.number;
        let proposal = ProposedValue {
            batch,
            votes: std::collections::BTreeMap::new(),
            void: NodeSet::empty(),
            again_at: now,
            is_forwarded,
        };
        self.forward.proposals.insert(number, proposal);
        self.send_value(now, ballot, number, effects);
    }

    /// Sends a value to every acceptor that, as far as this node knows, does not vote for it.
    fn send_value(
        &mut self,
        now: Time,
        ballot: Ballot,
        number: u64,
        effects: &mut Effects<Message>,
    ) {
        let value = self.forward.value(number);
        let Some(proposal) = self.forward.proposals.get_mut(&number) else {
            return;
        };
        proposal.void = NodeSet::empty();
        proposal.again_at = now + self.config.timing.resend;
        let batch = proposal.batch.clone();
        let mut to = NodeSet::empty();
        for peer in self.peers.iter_mut() {
            let is_meant = peer.is_acceptor
                && peer.link.is_some()
                && !proposal.votes.contains_key(&peer.node)
                && peer.value_credit.has_room(&self.config.limits);
            if is_meant {
                peer.value_credit.charge(now, number, batch.weight());
                to.insert(peer.node);
            }
        }
        let propose = Propose {
            ballot,
            value,
            batch,
        };
        self.send(to, Lane::Normal, Message::Propose(propose.clone()), effects);
        if self.config.view.acceptors.contains(self.config.own) {
            self.on_propose(propose, effects);
        }
    }

    /// `slot` is decided: what was submitted in it is settled, and what lost it is proposed again.
    pub(crate) fn settle_decided(
        &mut self,
        now: Time,
        slot: Slot,
        batch: &Batch,
        effects: &mut Effects<Message>,
    ) {
        let acceptors = self.config.view.acceptors.len();
        let needed = self.quorums.fast();
        let lost = self.forward.settle(slot, batch, acceptors, needed);
        let Some((ballot, _)) = self.any() else {
            return;
        };
        for number in lost {
            if planted(Plant::LoserForgotten) {
                self.forward.proposals.remove(&number);
            } else {
                self.send_value(now, ballot, number, effects);
            }
        }
    }

    /// Sends unsent commands to the leader, if one is known.
    fn forward_unsent(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Some(ballot) = self.election.leader else {
            return;
        };
        loop {
            let commands = self.cut_unsent(SentBy::Forwarded(now));
            if commands.is_empty() {
                return;
            }
            let forward = Message::Forward(Forward { ballot, commands });
            let to = NodeSet::only(ballot.node);
            self.send(to, Lane::Normal, forward, effects);
        }
    }

    /// Another leader, or another ballot of it, or none, or a new link to it: what was sent may be lost.
    pub(crate) fn leader_changed(&mut self) {
        self.forward.send_again();
        self.reask();
        for peer in self.peers.iter_mut() {
            peer.value_credit.reset();
        }
    }

    pub(crate) fn wake_forward(&mut self, now: Time, effects: &mut Effects<Message>) {
        let mut is_late = false;
        while let Some((deadline, id)) = self.forward.deadlines.front().copied() {
            if now < deadline {
                break;
            }
            self.forward.deadlines.pop_front();
            let kept = self.forward.kept.get(&id);
            let is_open = kept.is_some_and(|kept| kept.deadline == deadline);
            if is_open && let Some(kept) = self.forward.take(id) {
                is_late = true;
                self.refuse_late(kept, effects);
            }
        }
        if is_late {
            self.forward.drop_late();
        }
        self.forward.drop_settled();
        self.free_stalled_values(now);
        let any = self.any();
        let mut due = Vec::new();
        for (number, proposal) in &mut self.forward.proposals {
            if now >= proposal.again_at {
                proposal.again_at = now + self.config.timing.resend;
                due.push(*number);
            }
        }
        // While nobody leads, what was proposed waits for the next leader.
        if let Some((ballot, _)) = any {
            for number in due {
                self.send_value(now, ballot, number, effects);
            }
        }
        if now >= self.forward.resend_at {
            self.forward.resend_at = now + self.config.timing.election_min;
            self.forward_again(now);
        }
    }

    /// An acceptor that answers but votes for nothing that it was sent has lost it, or may not vote.
    fn free_stalled_values(&mut self, now: Time) {
        let bearable = self.config.timing.election_min;
        for peer in self.peers.iter_mut() {
            let since = peer.value_credit.stalled_since();
            let has_lost = |since| now.since(since) >= bearable && peer.answered > since;
            if since.is_some_and(has_lost) {
                peer.value_credit.reset();
            }
        }
    }

    fn refuse_late(&self, kept: Kept, effects: &mut Effects<Message>) {
        let refusal = if kept.is_uncertain || kept.sent != SentBy::No {
            Refusal::Unknown
        } else {
            Refusal::NotOrdered
        };
        let command = kept.command.id;
        effects.push(Effect::Refuse { command, refusal });
    }

    /// Commands that were forwarded long ago without an answer are to be sent again.
    fn forward_again(&mut self, now: Time) {
        let bearable = self.config.timing.read;
        let forward = &mut self.forward;
        for (id, kept) in &mut forward.kept {
            if let SentBy::Forwarded(at) = kept.sent
                && now.since(at) >= bearable
            {
                kept.is_uncertain = true;
                kept.sent = SentBy::No;
                forward.unsent.push_back(*id);
            }
        }
    }

    /// Where acceptors voted up to `upto` for values of this node is not known any more.
    pub(crate) fn forget_votes_upto(&mut self, upto: Slot) {
        for proposal in self.forward.proposals.values_mut() {
            proposal.votes.retain(|_, slot| *slot > upto);
        }
    }
}
