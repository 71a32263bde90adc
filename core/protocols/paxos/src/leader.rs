//! Phase 2: a stable leader fills slots, counts votes and tells followers what is decided.
//!
//! It first learns everything that phase 1 found decided. Then it proposes again the values that were
//! voted for above, with NOOPs in the gaps. Only then it proposes new commands. Each peer's credit bounds
//! what is sent to it. Lost values are sent again when no slot was decided for a while.

use crate::Seat;
use crate::candidate::PhaseOneFound;
use crate::message::{Accepted, Decided, Heard, Heartbeat, Message, Pass, Seen, TakeOver};
use crate::policies::{AcceptorsAsked, VotesTold};
use crate::steps::Steps;
use quorate_acceptor::{Backing, Beats, Held, Origin, Queue, Source, Vote};
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ballot, Batch, Command, Duration, NodeId, NodeSet, Slot, Stamp, Time, ValueId, Wall,
};
use std::collections::{BTreeMap, VecDeque};

/// The progress of a new leader.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LeaderStage {
    /// Slots up to `floor` are decided elsewhere: learn them before proposing anything.
    CatchUp { floor: Slot, since: Time },
    /// The votes that phase 1 found are proposed again; no read is served before `upto` is decided.
    Recover { upto: Slot },
    /// New commands are ordered.
    Steady,
}

/// Whether a leader continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tenure {
    /// It continues.
    Goes,
    /// Its quorum is gone: it steps down.
    Over,
}

/// A proposed, undecided slot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Proposal {
    pub(crate) batch: Batch,
    /// Acceptors known to have voted for it in this ballot. It is a set, so that none counts twice.
    pub(crate) voters: NodeSet,
    pub(crate) origin: Origin,
}

/// A leader's state in one ballot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leader {
    pub(crate) ballot: Ballot,
    pub(crate) stage: LeaderStage,
    found: BTreeMap<Slot, Vote>,
    /// Invariant: the first is for the slot after the decided prefix.
    pub(crate) in_flight: VecDeque<Proposal>,
    /// The slot after the last proposed one.
    pub(crate) next: Slot,
    pub(crate) queue: Queue,
    /// The sequences that the queue and the slots in flight hold.
    pub(crate) held: Held,
    since: Time,
    pub(crate) beats: Beats,
    pub(crate) beat_at: Time,
    /// The decided watermark that every message sent so far could carry.
    announced: Slot,
    pub(crate) announce_at: Option<Time>,
    is_awaited_elsewhere: bool,
    pub(crate) progress_at: Time,
    pub(crate) patience: Duration,
    /// Who is asked for votes, where that is not always everybody.
    pub(crate) steps: Steps,
    pub(crate) wants_lease_until: Time,
    /// Leadership is being transferred to this node, until this time at the latest.
    transfer: Option<(NodeId, Time)>,
}

impl Leader {
    /// One that has learned in phase 1 what was voted for, and begins to learn what is decided.
    pub(crate) fn new(now: Time, ballot: Ballot, found: PhaseOneFound, seat: &Seat) -> Leader {
        let decided = seat.acceptor.log.decided();
        Leader {
            ballot,
            stage: LeaderStage::CatchUp {
                floor: found.floor,
                since: now,
            },
            found: found.votes,
            in_flight: VecDeque::new(),
            next: decided.next(),
            queue: Queue::default(),
            held: Held::default(),
            since: now,
            beats: Beats::default(),
            beat_at: now,
            announced: Slot::ZERO,
            announce_at: None,
            is_awaited_elsewhere: false,
            progress_at: now,
            patience: seat.config.timing.resend,
            steps: Steps::new(seat, decided.next()),
            wants_lease_until: Time(0),
            transfer: None,
        }
    }

    /// The highest slot proposed.
    pub(crate) fn proposed(&self) -> Slot {
        self.next.previous()
    }

    /// The first slot in flight.
    fn first(&self) -> Slot {
        Slot(self.next.0 - self.in_flight.len() as u64)
    }

    /// The proposal in `slot`, while the slot is undecided.
    pub(crate) fn proposal(&self, slot: Slot) -> Option<&Proposal> {
        let index = slot.0.checked_sub(self.first().0)?;
        self.in_flight.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn wake_at(&self, seat: &Seat) -> Time {
        let mut at = self.beat_at;
        if let Some(suspect_at) = self.suspect_at(seat.config.timing.resend) {
            at = at.min(suspect_at);
        }
        if let Some(announce_at) = self.announce_at {
            at = at.min(announce_at);
        }
        if !self.in_flight.is_empty() {
            at = at.min(self.progress_at + self.patience);
        }
        seat.spreading
            .late_at()
            .map_or(at, |late_at| at.min(late_at))
    }

    pub(crate) fn check(&self, decided: Slot) {
        self.queue.check();
        self.check_held();
        let end = decided.plus(self.in_flight.len() as u64).next();
        assert_eq!(
            self.next, end,
            "the slots in flight cover what is proposed and undecided"
        );
    }

    /// Lets `commands`, none of which is held, wait for a slot.
    pub(crate) fn enqueue(&mut self, source: Source, commands: Vec<Command>) {
        if !commands.is_empty() {
            self.held.insert(&commands);
            self.queue.push(source, commands);
        }
    }

    /// Once caught up, proposes again the votes that phase 1 found; once these are decided, turns to new commands.
    pub(crate) fn recover(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        if let LeaderStage::CatchUp { floor, .. } = self.stage
            && decided >= floor
        {
            let mut found = std::mem::take(&mut self.found);
            let upto = found.last_key_value().map_or(decided, |(slot, _)| *slot);
            self.stage = LeaderStage::Recover { upto };
            for slot in decided.0 + 1..=upto.0 {
                let vote = found.remove(&Slot(slot));
                if vote.is_none() && planted(Plant::GapsClosedUp) {
                    continue;
                }
                let batch = vote.map_or_else(Batch::noop, |vote| vote.batch);
                self.propose(seat, now, batch, Origin::Found, Vec::new(), effects);
            }
        }
        if let LeaderStage::Recover { upto } = self.stage
            && seat.acceptor.log.decided() >= upto
        {
            self.stage = LeaderStage::Steady;
            self.adopt_outstanding(seat, effects);
        }
    }

    /// Proposes `batch` in the next slot to every peer whose credit allows it.
    fn propose(
        &mut self,
        seat: &mut Seat,
        now: Time,
        batch: Batch,
        origin: Origin,
        values: Vec<ValueId>,
        effects: &mut Effects<Message>,
    ) {
        let decided = seat.acceptor.log.decided();
        let slot = self.next;
        let ballot = self.ballot;
        self.take_step(seat, now, slot, effects);
        if self.in_flight.is_empty() {
            self.progress_at = now;
        }
        self.next = slot.next();
        match origin {
            Origin::Found => self.held.insert(batch.commands()),
            Origin::Own | Origin::Mixed(_) => {}
        }
        self.in_flight.push_back(Proposal {
            batch: batch.clone(),
            voters: NodeSet::empty(),
            origin,
        });
        let mut to = NodeSet::empty();
        for peer in seat.peers.iter_mut() {
            peer.next = peer.next.max(decided.next());
            let is_spared = self.steps.spares(peer.node, peer.is_acceptor);
            let takes = peer.link.is_some() && peer.next == slot && !is_spared;
            if takes && peer.credit.has_room(&seat.config.limits) {
                peer.charge(now, slot, batch.weight());
                to.insert(peer.node);
            }
        }
        self.announced = decided;
        self.announce_at = None;
        self.is_awaited_elsewhere = false;
        seat.vote(ballot, slot, batch.clone(), effects);
        if let Some(way) = self.steps.way(seat, to) {
            let pass = Pass {
                ballot,
                slot,
                batch,
                decided,
                way,
            };
            return self.pass_along(seat, pass, effects);
        }
        self.try_multicast(seat, slot, &batch, effects);
        let message = self.proposal_message(seat, slot, batch, values);
        seat.send(to, Lane::Normal, message, effects);
    }

    /// The end of a turn: cuts waiting commands into batches, as far as the pipeline and ω allow.
    pub(crate) fn order_waiting(
        &mut self,
        seat: &mut Seat,
        now: Time,
        wall: Wall,
        entropy: u64,
        effects: &mut Effects<Message>,
    ) {
        loop {
            let limits = &seat.config.limits;
            // The next view begins only after all slots of this one: they are filled, and nothing gathers meanwhile.
            let is_idle = self.queue.is_empty() && !seat.spreading.has_stable();
            let fills = is_idle && seat.last.is_some();
            let is_large = self.queue.is_large_next(limits) || seat.spreading.is_large_next(limits);
            let pipeline = if fills || is_large {
                limits.pipeline_large
            } else {
                limits.pipeline
            };
            let is_open = self.stage == LeaderStage::Steady
                && self.transfer.is_none()
                && self.in_flight.len() < pipeline
                && !seat.is_blocked()
                && (self.next.since(seat.executed) <= seat.config.view.window
                    || planted(Plant::WindowIgnored))
                && seat.is_in_view(self.next);
            if !is_open {
                break;
            }
            if is_idle {
                if seat.last.is_none() || seat.last < Some(self.next) {
                    break;
                }
                let noop = Batch::noop();
                self.propose(seat, now, noop, Origin::Found, Vec::new(), effects);
                continue;
            }
            if wall == Wall::UNKNOWN {
                break;
            }
            let (commands, origin, values) = self.cut_next(seat);
            let last = seat.acceptor.log.wall();
            let stamp = Stamp {
                wall: wall.max(Wall(last.0 + 1)),
                entropy: entropy ^ self.next.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            };
            let batch = Batch::new(stamp, commands);
            self.propose(seat, now, batch, origin, values, effects);
        }
        self.announce_if_awaited(seat, now, effects);
    }

    /// The next batch: what waits here, or what is stable of what nodes spread.
    fn cut_next(&mut self, seat: &mut Seat) -> (Vec<Command>, Origin, Vec<ValueId>) {
        let limits = &seat.config.limits;
        if !self.queue.is_empty() {
            let (commands, origin) = self.queue.cut(limits);
            return (commands, origin, Vec::new());
        }
        let needed = seat.stable_at();
        let cut = (seat.spreading.cut(limits, needed)).expect("something is stable");
        let own = seat.config.own;
        // Nothing is owed for these here: who spread them keeps them.
        let origin = match cut.values.iter().all(|value| value.node == own) {
            true => Origin::Found,
            false => Origin::Mixed(Vec::new()),
        };
        let values = if cut.by_name { cut.values } else { Vec::new() };
        (cut.commands, origin, values)
    }

    /// If a follower waits for its forwarded command, tells the watermark now. Otherwise the watermark may
    /// wait a little for a proposal that carries it.
    fn announce_if_awaited(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        if self.announced >= decided || seat.policies.votes_told == VotesTold::ToAll {
            return;
        }
        if self.is_awaited_elsewhere {
            self.announce(seat, effects);
        } else if self.announce_at.is_none() {
            self.announce_at = Some(now + seat.config.timing.announce);
        }
    }

    pub(crate) fn announce(&mut self, seat: &mut Seat, effects: &mut Effects<Message>) {
        let upto = seat.acceptor.log.decided();
        self.announced = upto;
        self.announce_at = None;
        self.is_awaited_elsewhere = false;
        let ballot = self.ballot;
        let to = seat.others();
        seat.send(
            to,
            Lane::Normal,
            Message::Decided(Decided { ballot, upto }),
            effects,
        );
    }

    /// `from` voted for this ballot's proposals in `first..=last`.
    pub(crate) fn on_accepted(
        &mut self,
        seat: &mut Seat,
        now: Time,
        from: NodeId,
        accepted: Accepted,
        effects: &mut Effects<Message>,
    ) {
        self.count_votes(seat, from, accepted);
        self.acknowledged(seat, now, from, accepted.last, Backing::Vote, effects);
    }

    /// `from`, which has no vote, holds this ballot's proposals in `first..=last`.
    pub(crate) fn on_seen(
        &mut self,
        seat: &mut Seat,
        now: Time,
        from: NodeId,
        seen: Seen,
        effects: &mut Effects<Message>,
    ) {
        if planted(Plant::LearnerCounted) {
            let (ballot, first, last) = (seen.ballot, seen.first, seen.last);
            let accepted = Accepted {
                ballot,
                first,
                last,
            };
            self.count_votes(seat, from, accepted);
        }
        self.acknowledged(seat, now, from, seen.last, Backing::Held, effects);
    }

    pub(crate) fn count_votes(&mut self, seat: &mut Seat, from: NodeId, accepted: Accepted) {
        let decided = seat.acceptor.log.decided();
        let is_acceptor = seat.config.view.acceptors.contains(from);
        if !is_acceptor && !planted(Plant::LearnerCounted) {
            return;
        }
        let is_cumulative = planted(Plant::CumulativeVote);
        let first = if is_cumulative {
            Slot::ZERO
        } else {
            accepted.first
        };
        let least = first.max(decided.next());
        let needed = seat.config.view.quorums.phase2();
        for slot in least.0..=accepted.last.min(self.proposed()).0 {
            let index = (slot - decided.0 - 1) as usize;
            let voters = &mut self.in_flight[index].voters;
            if voters.insert(from) {
                if voters.len() <= needed && seat.policies.asked != AcceptorsAsked::All {
                    self.steps.counted(Slot(slot), from);
                }
            } else if planted(Plant::AcceptorCountedTwice) {
                voters.insert(NodeId(63));
            }
        }
    }

    /// `from` has received everything sent to it up to `last`.
    fn acknowledged(
        &mut self,
        seat: &mut Seat,
        now: Time,
        from: NodeId,
        last: Slot,
        backing: Backing,
        effects: &mut Effects<Message>,
    ) {
        if let Some(peer) = seat.peers.find_mut(from) {
            peer.answered = now;
            if backing == Backing::Vote {
                peer.heard = now;
            }
            peer.refund(now, last);
        }
        self.decide_voted(seat, now, effects);
        self.fill(seat, now, from, effects);
    }

    /// Extends the decided prefix over every slot with a quorum of votes.
    pub(crate) fn decide_voted(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let mut needed = seat.config.view.quorums.phase2();
        if planted(Plant::StepQuorumTooSmall) && self.steps.is_narrow() {
            needed -= 1;
        }
        loop {
            match self.in_flight.front() {
                Some(proposal) if proposal.voters.len() >= needed => {}
                Some(_) | None => break,
            }
            let proposal = self.in_flight.pop_front().expect("it was just looked at");
            self.held.remove(proposal.batch.commands());
            if matches!(proposal.origin, Origin::Mixed(_)) {
                self.is_awaited_elsewhere = true;
            }
            self.progress_at = now;
            self.patience = seat.config.timing.resend;
            // The own vote may be missing: counting others' votes needs no room in the own log.
            seat.acceptor.decide(Some(proposal.batch), effects);
        }
        self.recover(seat, now, effects);
    }

    /// The decided prefix moved by learning: drops own proposals that were decided.
    pub(crate) fn drop_covered(&mut self, seat: &mut Seat) {
        let decided = seat.acceptor.log.decided();
        while self.first() <= decided
            && let Some(proposal) = self.in_flight.pop_front()
        {
            self.held.remove(proposal.batch.commands());
        }
        self.next = self.next.max(decided.next());
    }

    pub(crate) fn wake(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) -> Tenure {
        if self.announce_at.is_some_and(|at| now >= at) {
            self.announce(seat, effects);
        }
        let (bearable, needed) = (seat.late_after(), seat.stable_at());
        seat.spreading.place_late(now, bearable, needed);
        self.suspect_late(seat, now, effects);
        if planted(Plant::ProposalsNotSentAgain) {
            self.progress_at = now;
        } else {
            self.resend_unvoted(seat, now, effects);
        }
        if now >= self.beat_at {
            if self.transfer.is_some_and(|(_, until)| now >= until) {
                self.transfer = None;
            }
            if self.has_lost_quorum(seat, now) && !planted(Plant::LeaderWithoutQuorumStays) {
                return Tenure::Over;
            }
            self.beat(seat, now, effects);
            if !planted(Plant::ProposalsNotSentAgain) {
                seat.free_stalled(now);
            }
            self.retry_overdue(seat, now, effects);
            self.resend_confirms(seat, now, effects);
        }
        Tenure::Goes
    }

    pub(crate) fn beat(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        let proposed = self.proposed();
        let is_bound = self.stage == LeaderStage::Steady && !seat.may_others_go_on(proposed);
        let held = is_bound.then(|| seat.held_now(proposed));
        let beat = self.beats.send(now, held);
        self.await_answers(seat, now);
        self.count_beats(seat, effects);
        self.beat_at = now + seat.heartbeat();
        let successor = self.transfer.map(|(successor, _)| successor);
        let wants_lease = now < self.wants_lease_until && successor.is_none();
        let message = Message::Heartbeat(Heartbeat {
            ballot: self.ballot,
            beat,
            decided,
            wants_lease,
            current: self.beats.current(),
        });
        if wants_lease {
            let until = now + seat.config.timing.lease;
            seat.acceptor.bind(self.ballot, until);
        }
        self.announced = decided;
        self.announce_at = None;
        let ballot = self.ballot;
        let to = seat.others();
        seat.send(to, Lane::Urgent, message, effects);
        if let Some(successor) = successor {
            // Sent again with each heartbeat, because a successor that is bound by a lease ignores it at first.
            let message = Message::TakeOver(TakeOver { ballot });
            seat.send(NodeSet::only(successor), Lane::Urgent, message, effects);
        }
    }

    /// `from` answered a heartbeat.
    pub(crate) fn on_heard(
        &mut self,
        seat: &mut Seat,
        now: Time,
        from: NodeId,
        Heard {
            beat,
            number,
            is_voter,
            is_granted,
            ..
        }: Heard,
        effects: &mut Effects<Message>,
    ) {
        let Some(peer) = seat.peers.find_mut(from) else {
            return;
        };
        peer.answered = now;
        peer.answer = peer.answer.max(number);
        if is_voter {
            peer.heard_beat(now, beat, self.beats.sent_at(beat));
        }
        if is_voter && is_granted {
            let is_late = planted(Plant::LeaseFromItsAnswer);
            let sent_at = self.beats.sent_at(beat);
            peer.granted = peer.granted.max(if is_late { Some(now) } else { sent_at });
        }
        self.count_beats(seat, effects);
        self.fill(seat, now, from, effects);
    }

    /// Whether too few acceptors for a quorum answered within an election timeout.
    fn has_lost_quorum(&self, seat: &Seat, now: Time) -> bool {
        let bearable = seat.config.timing.election_min;
        if let LeaderStage::CatchUp { since, .. } = self.stage
            && now.since(since) >= seat.config.timing.election_max
            && now.since(seat.learner.progress_at()) >= seat.config.timing.election_max
        {
            return true;
        }
        let heard = (seat.peers.iter())
            .filter(|peer| peer.is_acceptor && now.since(peer.heard) < bearable)
            .count();
        heard + 1 < seat.config.view.quorums.phase2() && now.since(self.since) >= bearable
    }

    pub(crate) fn transfer_leadership(
        &mut self,
        seat: &mut Seat,
        now: Time,
        to: NodeSet,
        effects: &mut Effects<Message>,
    ) {
        let decided = seat.acceptor.log.decided();
        let until = now + seat.config.timing.election_min;
        let successor = (seat.peers.iter())
            .filter(|peer| seat.config.view.may_lead(peer.node) && peer.link.is_some())
            .filter(|peer| to.contains(peer.node))
            .filter(|peer| now.since(peer.heard) < seat.config.timing.election_min)
            .max_by_key(|peer| peer.decided.max(peer.acked).min(decided));
        let Some(successor) = successor.map(|peer| peer.node) else {
            return;
        };
        self.transfer = Some((successor, until));
        let ballot = self.ballot;
        let message = Message::TakeOver(TakeOver { ballot });
        seat.send(NodeSet::only(successor), Lane::Urgent, message, effects);
    }
}
