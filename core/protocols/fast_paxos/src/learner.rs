//! How a node learns decisions, and catches up on those it missed.
//!
//! It counts votes itself: acceptors tell those of fast rounds to everybody. It takes its own vote for the decided batch also
//! where the leader of the vote's ballot announces so, but only a classic vote: in a fast round others may have voted for another
//! value. It asks for all other batches, one bounded chunk at a time. Claim fp-2.

use crate::message::{Learn, Learned, Message, Trimmed};
use crate::{FastPaxos, Part, Seat};
use quorate_acceptor::{Taught, Teachers, Verdict};
use quorate_ordering::{Decision, Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, NodeId, NodeSet, Slot, Time, VoteKind};

impl FastPaxos {
    /// The leader of `ballot` says that every slot up to `upto` is decided.
    pub(crate) fn heard_decided(
        &mut self,
        now: Time,
        ballot: Ballot,
        upto: Slot,
        effects: &mut Effects<Message>,
    ) {
        self.seat.learner.heard(ballot, upto);
        self.decide_known(now, effects);
        self.learn_more(now, effects);
    }

    /// A peer reported its decided prefix.
    pub(crate) fn peer_decided(
        &mut self,
        now: Time,
        from: NodeId,
        decided: Slot,
        effects: &mut Effects<Message>,
    ) {
        self.seat.peers.note_decided(from, decided);
        self.seat.learner.knows(decided);
        self.learn_more(now, effects);
    }

    /// Notes a gap; if it remains, the missing slots are asked for.
    pub(crate) fn learn_more(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.seat.acceptor.log.decided();
        let is_new = self.seat.learner.finds_gap(now, decided);
        if is_new && matches!(self.part, Part::Leader(_)) {
            self.seat.learn(now, effects);
        }
    }

    pub(crate) fn on_learned(
        &mut self,
        now: Time,
        from: NodeId,
        Learned {
            from: first,
            batches,
            decided,
        }: Learned,
        effects: &mut Effects<Message>,
    ) {
        self.seat.peers.note_decided(from, decided);
        self.seat.learner.answered(now, from, decided);
        let before = self.seat.acceptor.log.decided();
        let mut slot = first;
        for batch in batches {
            self.told_decision(now, from, slot, batch, effects);
            slot = slot.next();
        }
        self.decide_known(now, effects);
        if self.seat.acceptor.log.decided() > before {
            self.seat.learner.went_on(now);
            if self.seat.acceptor.log.decided() < self.seat.learner.known() {
                self.seat.learn(now, effects);
            }
        } else {
            let linked = self.seat.peers.linked().count();
            self.seat.learner.learned_nothing(now, linked);
        }
        self.learn_more(now, effects);
    }

    /// `from` reports that `batch` was decided in `slot`. A leader that proposed another batch there was
    /// superseded. It steps down first, because followers that hold its proposal would take its watermark
    /// for the decision of that proposal (claim mp-32).
    fn told_decision(
        &mut self,
        now: Time,
        from: NodeId,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<Message>,
    ) {
        let next = self.seat.acceptor.log.decided().next();
        if let Some(conflict) = self.seat.acceptor.log.conflict(slot, from, &batch) {
            effects.push(Effect::Conflict(conflict));
            return;
        }
        let proposed = match &self.part {
            Part::Leader(leader) => leader.proposals.get(&slot),
            Part::Candidate(_) | Part::Follower => None,
        };
        let is_other = proposed.is_some_and(|proposal| proposal.batch != batch);
        if is_other {
            self.step_down(now, effects);
        }
        if slot == next {
            self.decide(now, Some(batch), effects);
        }
    }

    /// The next slot is decided, with `learned` or with the own vote.
    fn decide(&mut self, now: Time, learned: Option<Batch>, effects: &mut Effects<Message>) {
        let seat = &mut self.seat;
        seat.acceptor.decide(learned, effects);
        let slot = seat.acceptor.log.decided();
        seat.tally.forget_upto(slot);
        let batch = seat.acceptor.log.chosen(slot);
        let batch = batch.expect("it was just decided").clone();
        seat.forget_value(&batch);
        if let Some((leader, seat)) = self.leading() {
            leader.drop_covered(seat, now);
            leader.recover(seat, now, effects);
        }
    }

    /// Decides the slots that this node knows enough of: by votes, or by what the leader announced.
    pub(crate) fn decide_known(&mut self, now: Time, effects: &mut Effects<Message>) {
        loop {
            let seat = &self.seat;
            let next = seat.acceptor.log.decided().next();
            let Some((ballot, kind)) = seat.tally.decided(next, &seat.quorums) else {
                if !seat.is_announced(next) {
                    return;
                }
                self.decide(now, None, effects);
                continue;
            };
            let proposed = match &self.part {
                Part::Leader(leader) if leader.ballot == ballot && !kind.is_fast() => {
                    let proposal = leader.proposals.get(&next);
                    proposal.map(|proposal| proposal.batch.clone())
                }
                Part::Leader(_) | Part::Candidate(_) | Part::Follower => None,
            };
            let batch = proposed.or_else(|| seat.value_of(next, ballot, kind));
            let Some(batch) = batch else {
                self.seat.learner.knows(next);
                self.learn_more(now, effects);
                return;
            };
            if matches!(&self.part, Part::Leader(leader) if leader.ballot < ballot) {
                // A leader of a higher ballot decided: this one must not announce it (claim mp-32).
                self.step_down(now, effects);
            }
            if let Some((_, seat)) = self.leading()
                && kind.is_fast()
            {
                seat.contention.passed();
            }
            self.decide(now, Some(batch), effects);
        }
    }

    /// A peer has the slots that this node lacks only in snapshots.
    pub(crate) fn on_trimmed(
        &mut self,
        now: Time,
        from: NodeId,
        Trimmed { upto }: Trimmed,
        effects: &mut Effects<Message>,
    ) {
        self.seat.peers.note_decided(from, upto);
        self.seat.learner.knows(upto);
        if upto <= self.seat.acceptor.log.decided() {
            return;
        }
        self.seat.learner.elide(upto);
        if upto <= self.seat.executed {
            // The replica began with a snapshot that holds these slots.
            self.leave_to_snapshot(now, upto, effects);
            return;
        }
        let timing = &self.seat.config.timing;
        if self.seat.learner.is_told_trimmed(now, from, timing) {
            effects.push(Effect::NeedSnapshot { upto });
        }
        self.learn_more(now, effects);
    }
}

impl Seat {
    /// Whether the leader says that the next slot is decided, and this node holds what it proposed there.
    fn is_announced(&self, next: Slot) -> bool {
        let (ballot, upto) = self.learner.watermark();
        let open = self.acceptor.log.open(next);
        let is_any = planted(Plant::FastVoteDecidedByWatermark);
        let is_proposed = |kind: VoteKind| !kind.is_fast() || is_any;
        next <= upto && open.is_some_and(|open| open.ballot == ballot && is_proposed(open.kind))
    }

    /// Up to where slots are decided of which only a snapshot helps on; slot 0 where no snapshot is awaited.
    pub(crate) fn elided(&self) -> Slot {
        self.learner.elided(self.acceptor.log.decided())
    }

    /// Votes in a classic round; for a trim of logs only where nothing before it is missing here. Claim fp-15.
    pub(crate) fn vote(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<Message>,
    ) -> Verdict {
        self.acceptor.set_elided(self.elided());
        self.acceptor.vote(ballot, slot, batch, effects)
    }

    /// No further answer is expected: asks at once for what is still missing.
    pub(crate) fn learn_afresh(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.learner.forget_questions();
        self.learn_at_once(now, effects);
    }

    fn learn_at_once(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.learner.needs_more(now, self.acceptor.log.decided()) {
            self.learn(now, effects);
        }
    }

    /// The link to `node` changed: a question to it, or its answer, may be lost.
    pub(crate) fn teacher_changed(
        &mut self,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        let is_asked = self.learner.lost(node);
        if is_asked {
            self.learn_afresh(now, effects);
        }
    }

    pub(crate) fn learner_wake_at(&self) -> Option<Time> {
        let linked = self.peers.linked().count();
        self.learner.wake_at(linked, &self.config.timing)
    }

    pub(crate) fn wake_learner(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.learner_wake_at().is_none_or(|at| now < at) {
            return;
        }
        self.learner.ask_another();
        self.learn(now, effects);
    }

    fn learn(&mut self, now: Time, effects: &mut Effects<Message>) {
        let linked = self.peers.linked();
        let linked: Vec<_> = linked.map(|peer| (peer.node, peer.decided)).collect();
        let teachers = Teachers {
            linked: &linked,
            leader: self.election.leader.map(|ballot| ballot.node),
            upstream: None,
            chunk: self.config.limits.chunk_slots as u64,
        };
        let decided = self.acceptor.log.decided();
        let timing = &self.config.timing;
        if let Some(peer) = self.learner.ask(now, decided, teachers, timing) {
            let from = decided.next();
            let ask = Message::Learn(Learn { from });
            self.send(NodeSet::only(peer), Lane::Bulk, ask, effects);
        }
    }

    pub(crate) fn on_learn(
        &mut self,
        now: Time,
        from: NodeId,
        Learn { from: first }: Learn,
        effects: &mut Effects<Message>,
    ) {
        let mut peer = self.peers.find_mut(from);
        let taught = peer.as_ref().and_then(|peer| peer.taught);
        if taught.is_some_and(|taught| taught.is_under_way(now, first, &self.config.timing)) {
            return;
        }
        let answer = match self.acceptor.log.teach(first, &self.config.limits) {
            Ok(learned) => {
                if let Some(peer) = &mut peer {
                    peer.taught = Some(Taught::by(&learned, now));
                }
                Message::Learned(learned)
            }
            Err(trimmed) => Message::Trimmed(trimmed),
        };
        self.send(NodeSet::only(from), Lane::Bulk, answer, effects);
    }

    /// Passes decided slots to the replica, in order, and settles the submissions in them. It waits while
    /// the replica lacks trimmed slots: a snapshot must bring them first.
    pub(crate) fn deliver(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.lacks_snapshot() {
            return;
        }
        while self.delivered < self.acceptor.log.decided() {
            let slot = self.delivered.next();
            self.delivered = slot;
            let batch = self.acceptor.log.chosen(slot);
            let batch = batch
                .expect("slots are trimmed after they are delivered")
                .clone();
            self.settle_decided(now, slot, &batch, effects);
            if slot <= self.executed {
                // The snapshot with which the replica began has its effects.
                continue;
            }
            let decision = Decision::Batch(batch);
            effects.push(Effect::Decide { slot, decision });
        }
    }
}
