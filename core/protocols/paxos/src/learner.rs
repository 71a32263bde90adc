//! How a node learns decisions, and catches up on those it missed.
//!
//! A follower takes its own vote for the decided batch only if the vote has the ballot of the leader that
//! announced the watermark. It asks for all other batches, one bounded chunk at a time.

use crate::limits::TAUGHT_AGAIN;
use crate::message::{Learn, Learned, Message, Trimmed};
use crate::peers::Taught;
use crate::policies::VotesTold;
use crate::{MultiPaxos, Part, Seat};
use quorate_acceptor::OpenQuestions;
use quorate_ordering::{ConflictingDecisions, Decision, Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Duration, NodeId, NodeSet, Slot, Time};

/// What a node knows of decisions beyond its own decided prefix.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Learner {
    /// The newest leader's watermark.
    heard: (Ballot, Slot),
    /// The highest slot known to be decided somewhere.
    pub(crate) known: Slot,
    gap_since: Option<Time>,
    /// The peer that was asked last, and when another one is asked.
    asked: Option<(NodeId, Time)>,
    questions: OpenQuestions,
    /// Peers trimmed slots up to here which this node lacked when they told it.
    elided: Slot,
    /// Peers that have what is missing only in snapshots: the others are asked first, until learning goes on.
    trimmed: NodeSet,
    /// Rises when an answer does not help, so that the next peer is asked.
    turn: usize,
    /// When learning last brought a batch.
    pub(crate) progress_at: Time,
}

impl Learner {
    pub(crate) fn new(now: Time) -> Learner {
        Learner {
            heard: (Ballot::ZERO, Slot::ZERO),
            known: Slot::ZERO,
            gap_since: None,
            asked: None,
            questions: OpenQuestions::default(),
            elided: Slot::ZERO,
            trimmed: NodeSet::empty(),
            turn: 0,
            progress_at: now,
        }
    }

    /// The prefix moved by what peers told, or by a snapshot.
    pub(crate) fn went_on(&mut self, now: Time) {
        self.progress_at = now;
        self.trimmed = NodeSet::empty();
    }
}

impl MultiPaxos {
    /// The leader of `ballot` says that every slot up to `upto` is decided.
    pub(crate) fn heard_decided(
        &mut self,
        now: Time,
        ballot: Ballot,
        upto: Slot,
        effects: &mut Effects<Message>,
    ) {
        let heard = &mut self.seat.learner.heard;
        if ballot > heard.0 {
            *heard = (ballot, upto);
        } else if ballot == heard.0 {
            heard.1 = heard.1.max(upto);
        }
        self.seat.learner.known = self.seat.learner.known.max(upto);
        self.seat.decide_heard(effects);
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
        self.seat.learner.known = self.seat.learner.known.max(decided);
        self.learn_more(now, effects);
    }

    /// Notes a gap; if it remains, the missing slots are asked for.
    pub(crate) fn learn_more(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.seat.acceptor.log.decided() >= self.seat.learner.known {
            self.seat.learner.gap_since = None;
            self.seat.learner.asked = None;
            return;
        }
        if self.seat.learner.gap_since.is_none() {
            self.seat.learner.gap_since = Some(now);
            let next = self.seat.acceptor.log.decided().next();
            match &self.part {
                // The votes for what it proposed itself are on their way, where they go to all.
                Part::Leader(leader)
                    if self.seat.policies.votes_told == VotesTold::ToAll
                        && next <= leader.proposed() => {}
                Part::Leader(_) => self.seat.learn(now, effects),
                Part::Follower | Part::Candidate(_) => {}
            }
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
        self.seat.learner.known = self.seat.learner.known.max(decided);
        let learner = &mut self.seat.learner;
        learner.questions.answered(now, from);
        if learner.asked.is_some_and(|(peer, _)| peer == from) {
            learner.asked = None;
        }
        let before = self.seat.acceptor.log.decided();
        let mut slot = first;
        for batch in batches {
            self.told_decision(now, from, slot, batch, effects);
            slot = slot.next();
        }
        self.seat.decide_heard(effects);
        if self.seat.acceptor.log.decided() > before {
            self.seat.learner.went_on(now);
            self.prefix_moved(now, effects);
            if self.seat.acceptor.log.decided() < self.seat.learner.known {
                self.seat.learn(now, effects);
            }
        } else {
            self.seat.learner.turn += 1;
            // After all peers were asked in vain, pause. Otherwise questions and empty answers would follow
            // each other as fast as the links carry them.
            let linked = self.seat.peers.iter().filter(|peer| peer.link.is_some());
            let place = self.seat.learner.turn.checked_rem(linked.count());
            self.seat.learner.gap_since = place.is_none_or(|place| place == 0).then_some(now);
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
        if let Some(known) = self.seat.acceptor.log.chosen(slot)
            && *known != batch
        {
            effects.push(Effect::Conflict(ConflictingDecisions {
                slot,
                peer: from,
                own: known.clone(),
                told: batch,
            }));
            return;
        }
        let proposed = match &self.part {
            Part::Leader(leader) => leader.proposal(slot),
            Part::Candidate(_) | Part::Follower => None,
        };
        let is_other = proposed.is_some_and(|proposal| proposal.batch != batch);
        if is_other && !planted(Plant::SupersededLeaderStays) {
            self.step_down(now, effects);
        }
        if slot == next {
            self.seat.acceptor.decide(Some(batch), effects);
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
        self.seat.learner.known = self.seat.learner.known.max(upto);
        if upto <= self.seat.acceptor.log.decided() {
            return;
        }
        self.seat.learner.elided = self.seat.learner.elided.max(upto);
        let holds = upto <= self.seat.executed;
        if holds && !(upto == self.seat.executed && planted(Plant::HeldStateFetched)) {
            // The replica began with a snapshot that holds these slots.
            self.leave_to_snapshot(now, upto, effects);
            return;
        }
        let asked = self.seat.learner.asked.filter(|(peer, _)| *peer == from);
        if asked.is_some() || self.seat.learner.asked.is_none() {
            let is_news = self.seat.learner.trimmed.insert(from);
            // Who says it again, for example to each pre-vote, does not put off the question to the next peer.
            let again_at = asked.filter(|_| !is_news).map(|(_, again_at)| again_at);
            let again_at = again_at.unwrap_or(now + self.seat.config.timing.read);
            self.seat.learner.asked = Some((from, again_at));
            effects.push(Effect::NeedSnapshot { upto });
        }
        self.learn_more(now, effects);
    }

    /// The prefix moved by other means than this leader's own counting of votes.
    pub(crate) fn prefix_moved(&mut self, now: Time, effects: &mut Effects<Message>) {
        if let Some((leader, seat)) = self.leading() {
            leader.drop_covered(seat);
            leader.recover(seat, now, effects);
            leader.decide_voted(seat, now, effects);
        }
    }
}

impl Seat {
    /// Decides the slots that the watermark covers and that are held in the watermark's ballot, and those for which votes are counted
    /// here.
    pub(crate) fn decide_heard(&mut self, effects: &mut Effects<Message>) {
        let (ballot, upto) = self.learner.heard;
        loop {
            let next = self.acceptor.log.decided().next();
            let is_held = next <= upto
                && (self.acceptor.log.open(next))
                    .is_some_and(|open| open.ballot == ballot || planted(Plant::HeldInAnyBallot));
            if !is_held {
                break;
            }
            self.acceptor.decide(None, effects);
        }
        self.decide_counted(effects);
    }

    /// No further answer is expected: asks at once for what is still missing.
    pub(crate) fn learn_afresh(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.learner.asked = None;
        self.learner.questions.forget();
        if self.acceptor.log.decided() < self.learner.known {
            self.learner.gap_since.get_or_insert(now);
            self.learn(now, effects);
        }
    }

    /// What is missing is needed now: asks for it, unless a question is open.
    pub(crate) fn learn_at_once(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.acceptor.log.decided() < self.learner.known {
            self.learner.gap_since.get_or_insert(now);
            self.learn(now, effects);
        }
    }

    /// Up to where slots are decided of which only a snapshot helps on; slot 0 where no snapshot is awaited.
    pub(crate) fn elided(&self) -> Slot {
        match self.acceptor.log.decided() < self.learner.elided {
            true => self.learner.known.max(self.learner.elided),
            false => Slot::ZERO,
        }
    }

    /// The link to `node` changed: a question to it, or its answer, may be lost.
    pub(crate) fn teacher_changed(
        &mut self,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        let is_asked = self.learner.questions.lost(node);
        if is_asked && !planted(Plant::DeadPeerWaitedFor) {
            self.learn_afresh(now, effects);
        }
    }

    pub(crate) fn learner_wake_at(&self) -> Option<Time> {
        match (self.learner.asked, self.learner.gap_since) {
            (Some((_, again_at)), _) => Some(again_at),
            (None, Some(since)) => {
                let all_asked = self.learner.questions.first_end();
                let linked = self.peers.iter().filter(|peer| peer.link.is_some());
                let is_blocked = self.learner.questions.len() >= linked.count();
                let at = since + self.config.timing.gap;
                Some(
                    all_asked
                        .filter(|_| is_blocked)
                        .map_or(at, |end| at.max(end)),
                )
            }
            (None, None) => None,
        }
    }

    pub(crate) fn wake_learner(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.learner_wake_at().is_none_or(|at| now < at) {
            return;
        }
        self.learner.asked = None;
        self.learn(now, effects);
    }

    fn learn(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.learner.asked.is_some() || planted(Plant::TailLossUnnoticed) {
            return;
        }
        let Some(peer) = self.teacher(now) else {
            self.learner.gap_since = Some(now);
            return;
        };
        let again_at = (self.learner.questions).ask(now, peer, self.config.timing.resend);
        self.learner.asked = Some((peer, again_at));
        let from = self.acceptor.log.decided().next();
        self.send(
            NodeSet::only(peer),
            Lane::Bulk,
            Message::Learn(Learn { from }),
            effects,
        );
    }

    /// The peer to ask: the leader for a few slots, preferably another peer for many, and the next one
    /// after a failure. A log that lost records begins later than those of others.
    fn teacher(&self, now: Time) -> Option<NodeId> {
        let decided = self.acceptor.log.decided();
        let leader = self.election.leader.map(|ballot| ballot.node);
        let is_long = self.learner.known.since(decided) > self.config.limits.chunk_slots as u64;
        let mut choice: Vec<_> = (self.peers.iter())
            .filter(|peer| peer.link.is_some() && !self.learner.questions.is_open(now, peer.node))
            .map(|peer| {
                let is_leader = Some(peer.node) == leader;
                let is_ahead = peer.decided > decided || is_leader;
                let is_trimmed = self.learner.trimmed.contains(peer.node);
                let is_upstream = self.stops.upstream() == Some(peer.node);
                let is_better = is_upstream || is_ahead;
                (
                    is_trimmed,
                    !is_better,
                    !is_upstream,
                    is_leader == is_long,
                    peer.node,
                )
            })
            .collect();
        choice.sort_unstable();
        let turn = self.learner.turn.checked_rem(choice.len())?;
        choice.get(turn).map(|(.., node)| *node)
    }

    /// Whether the answer to a question is on its way already: over a slow link it takes longer than a learner waits.
    fn is_under_way(&self, now: Time, node: NodeId, first: Slot) -> bool {
        let taught = self.peers.find(node).and_then(|peer| peer.taught);
        taught.is_some_and(|taught| {
            let is_in = taught.first <= first && first < taught.end;
            is_in && now < taught.at + Duration(self.config.timing.resend.0 * TAUGHT_AGAIN)
        })
    }

    pub(crate) fn on_learn(
        &mut self,
        now: Time,
        from: NodeId,
        Learn { from: first }: Learn,
        effects: &mut Effects<Message>,
    ) {
        let log = &self.acceptor.log;
        let limits = &self.config.limits;
        if self.is_under_way(now, from, first) {
            return;
        }
        if first <= log.trimmed() {
            let upto = log.trimmed();
            self.send(
                NodeSet::only(from),
                Lane::Bulk,
                Message::Trimmed(Trimmed { upto }),
                effects,
            );
            return;
        }
        let mut batches = Vec::new();
        let mut bytes = 0;
        let mut slot = first;
        while let Some(batch) = log.chosen(slot) {
            bytes += batch.weight();
            let is_full = batches.len() == limits.chunk_slots || bytes > limits.chunk_bytes;
            if is_full && !batches.is_empty() {
                break;
            }
            batches.push(batch.clone());
            slot = slot.next();
        }
        let answer = Message::Learned(Learned {
            from: first,
            batches,
            decided: log.decided(),
        });
        if let Some(peer) = self.peers.find_mut(from) {
            peer.taught = Some(Taught {
                first,
                end: slot,
                at: now,
            });
        }
        self.send(NodeSet::only(from), Lane::Bulk, answer, effects);
    }

    /// Passes decided slots to the replica, in order, and settles the submissions in them. It waits while
    /// the replica lacks trimmed slots: a snapshot must bring them first.
    pub(crate) fn deliver(&mut self, effects: &mut Effects<Message>) {
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
            self.settle_decided(&batch);
            self.spreading.settle(self.config.own, &batch);
            if slot <= self.executed {
                // The snapshot with which the replica began has its effects.
                continue;
            }
            let decision = Decision::Batch(batch);
            effects.push(Effect::Decide { slot, decision });
        }
    }
}
