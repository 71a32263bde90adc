//! The leader: what phase 1 found, classic rounds, and when fast ones begin and end.
//!
//! It first learns everything that phase 1 found decided, then proposes again what may have been decided above, with NOOPs in
//! the gaps. Then it orders what is forwarded to it, or opens the slots that follow to any value. It never closes them again
//! in the same ballot: a higher one of its own, with phase 1, does that.

use crate::Seat;
use crate::candidate::PhaseOneFound;
use crate::message::{Accept, Any, Decided, Heard, Heartbeat, Message, TakeOver};
use quorate_acceptor::{Beats, Held, Origin, Queue};
use quorate_ordering::{Effects, Lane};
use quorate_types::{Ballot, Batch, Command, Duration, NodeId, NodeSet, Slot, Stamp, Time, Wall};
use std::collections::BTreeMap;

/// The progress of a new leader.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LeaderStage {
    /// Slots up to `floor` are decided elsewhere: learn them before proposing anything.
    CatchUp { floor: Slot, since: Time },
    /// What phase 1 found is proposed again; no read is served before `upto` is decided.
    Recover { upto: Slot },
    /// Everything up to `recovered` was found in phase 1 and is decided; new commands are ordered.
    Steady { recovered: Slot },
}

/// Which rounds the slots behind the proposed ones have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Classic,
    /// From this slot on acceptors choose; the leader proposes only where they collided.
    Fast {
        from: Slot,
    },
}

/// Whether a leader continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tenure {
    /// It continues.
    Goes,
    /// Its quorum is gone: it steps down.
    Over,
    /// It goes on in a higher ballot.
    Renewed,
}

/// A proposal in a classic round that is not decided.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Proposal {
    pub(crate) batch: Batch,
    /// To whom it was sent on the present link.
    sent: NodeSet,
    /// Another node waits for one of its commands.
    is_awaited: bool,
}

/// A leader's state in one ballot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leader {
    pub(crate) ballot: Ballot,
    pub(crate) stage: LeaderStage,
    pub(crate) mode: Mode,
    found: BTreeMap<Slot, Batch>,
    /// Invariant: all above the decided prefix.
    pub(crate) proposals: BTreeMap<Slot, Proposal>,
    /// The slot after the last proposed one.
    pub(crate) next: Slot,
    pub(crate) queue: Queue,
    /// The sequences that the queue, the proposals and what was found hold.
    pub(crate) held: Held,
    since: Time,
    pub(crate) beats: Beats,
    pub(crate) beat_at: Time,
    /// The decided watermark that every message sent so far could carry.
    announced: Slot,
    announce_at: Option<Time>,
    is_awaited_elsewhere: bool,
    /// When a proposal was last sent again, or anything was decided.
    progress_at: Time,
    patience: Duration,
    /// When the decided prefix last moved, or nothing was open.
    moved_at: Time,
    /// A higher ballot is needed.
    pub(crate) must_renew: bool,
    /// Leadership is being transferred to this node, until this time at the latest.
    transfer: Option<(NodeId, Time)>,
}

impl Leader {
    /// One that has learned in phase 1 what was voted for, and begins to learn what is decided.
    pub(crate) fn new(now: Time, ballot: Ballot, found: PhaseOneFound, seat: &Seat) -> Leader {
        let decided = seat.acceptor.log.decided();
        let mut held = Held::default();
        for batch in found.values.values() {
            held.insert(batch.commands());
        }
        Leader {
            ballot,
            stage: LeaderStage::CatchUp {
                floor: found.floor,
                since: now,
            },
            mode: Mode::Classic,
            found: found.values,
            proposals: BTreeMap::new(),
            next: decided.next(),
            queue: Queue::default(),
            held,
            since: now,
            beats: Beats::default(),
            beat_at: now,
            announced: Slot::ZERO,
            announce_at: None,
            is_awaited_elsewhere: false,
            progress_at: now,
            moved_at: now,
            patience: seat.config.timing.resend,
            must_renew: false,
            transfer: None,
        }
    }

    pub(crate) fn is_steady(&self) -> bool {
        matches!(self.stage, LeaderStage::Steady { .. })
    }

    pub(crate) fn wake_at(&self, seat: &Seat) -> Time {
        let mut at = self.beat_at;
        if let Some(announce_at) = self.announce_at {
            at = at.min(announce_at);
        }
        if self.is_busy(seat) {
            at = at.min(self.progress_at + self.patience);
        }
        at
    }

    /// Whether a slot has votes or a proposal and is not decided.
    fn is_busy(&self, seat: &Seat) -> bool {
        let decided = seat.acceptor.log.decided();
        !self.proposals.is_empty() || self.voted(seat) > decided
    }

    /// The highest slot with a vote, as far as this node knows.
    pub(crate) fn voted(&self, seat: &Seat) -> Slot {
        seat.reported.max(seat.tally.highest())
    }

    /// All commands that wait for a slot, are proposed or were found.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Command> {
        let proposed = self.proposals.values().map(|proposal| &proposal.batch);
        let batches = proposed.chain(self.found.values());
        self.queue
            .commands()
            .chain(batches.flat_map(|batch| batch.commands()))
    }

    pub(crate) fn check(&self, decided: Slot) {
        self.queue.check();
        self.held.check(self.waiting());
        let first = self.proposals.first_key_value();
        assert!(
            first.is_none_or(|(slot, _)| *slot > decided),
            "decided slots are not in flight"
        );
    }

    /// Once caught up, proposes again what phase 1 found; once that is decided, turns to new commands.
    pub(crate) fn recover(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        if let LeaderStage::CatchUp { floor, .. } = self.stage
            && decided >= floor
        {
            let mut found = std::mem::take(&mut self.found);
            let upto = found.last_key_value().map_or(decided, |(slot, _)| *slot);
            let upto = upto.max(decided);
            self.stage = LeaderStage::Recover { upto };
            for slot in (decided.0 + 1..=upto.0).map(Slot) {
                let batch = found.remove(&slot).unwrap_or_else(Batch::noop);
                self.propose(seat, now, slot, batch, effects);
            }
            for batch in found.values() {
                self.held.remove(batch.commands());
            }
        }
        if let LeaderStage::Recover { upto } = self.stage
            && seat.acceptor.log.decided() >= upto
        {
            self.stage = LeaderStage::Steady { recovered: upto };
        }
    }

    /// Proposes `batch` in the classic round of `slot` to every peer whose credit allows it.
    pub(crate) fn propose(
        &mut self,
        seat: &mut Seat,
        now: Time,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<Message>,
    ) {
        if self.proposals.is_empty() {
            self.progress_at = now;
        }
        self.next = self.next.max(slot.next());
        self.held.insert(batch.commands());
        let mut sent = NodeSet::empty();
        for peer in seat.peers.iter_mut() {
            if peer.link.is_some() && peer.credit.has_room(&seat.config.limits) {
                peer.credit.charge(now, slot, batch.weight());
                sent.insert(peer.node);
            }
        }
        let decided = seat.acceptor.log.decided();
        self.announced = decided;
        self.announce_at = None;
        let ballot = self.ballot;
        seat.vote(ballot, slot, batch.clone(), effects);
        let accept = Message::Accept(Accept {
            ballot,
            slot,
            batch: batch.clone(),
            decided,
        });
        seat.send(sent, Lane::Normal, accept, effects);
        let is_awaited = false;
        self.proposals.insert(
            slot,
            Proposal {
                batch,
                sent,
                is_awaited,
            },
        );
    }

    /// Sends `node` the proposals that it lacks, as far as its credit allows.
    pub(crate) fn fill(
        &mut self,
        seat: &mut Seat,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        let decided = seat.acceptor.log.decided();
        let Some(peer) = seat.peers.find_mut(node).filter(|peer| peer.link.is_some()) else {
            return;
        };
        for (slot, proposal) in &mut self.proposals {
            if !peer.credit.has_room(&seat.config.limits) {
                return;
            }
            if proposal.sent.insert(node) {
                peer.credit.charge(now, *slot, proposal.batch.weight());
                let accept = accept(self.ballot, *slot, proposal, decided);
                effects.push(to_one(node, accept));
            }
        }
    }

    /// What was sent to `node` may be lost.
    pub(crate) fn forget_sent(&mut self, node: NodeId) {
        for proposal in self.proposals.values_mut() {
            proposal.sent.remove(node);
        }
    }

    /// The end of a turn in classic rounds: cuts waiting commands into batches, as far as the pipeline and ω allow.
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
            // Votes may be left in slots that nobody proposes for, and the next view begins after all slots of this one.
            let must_fill = seat.last >= Some(self.next) || seat.reported >= self.next;
            let fills = self.queue.is_empty() && must_fill;
            let pipeline = if fills || self.queue.is_large_next(limits) {
                limits.pipeline_large
            } else {
                limits.pipeline
            };
            let is_open = self.is_steady()
                && self.mode == Mode::Classic
                && self.transfer.is_none()
                && self.proposals.len() < pipeline
                && seat.is_open(self.next);
            if !is_open || self.queue.is_empty() && !must_fill {
                break;
            }
            let slot = self.next;
            if self.queue.is_empty() {
                self.propose(seat, now, slot, Batch::noop(), effects);
                continue;
            }
            if wall == Wall::UNKNOWN {
                break;
            }
            let (commands, origin) = self.queue.cut(limits);
            let is_mixed = matches!(&origin, Origin::Mixed(runs) if runs.len() > 1);
            seat.contention.ordered(is_mixed);
            let last = seat.acceptor.log.wall();
            let stamp = Stamp {
                wall: wall.max(Wall(last.0 + 1)),
                entropy: entropy ^ slot.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            };
            self.propose(seat, now, slot, Batch::new(stamp, commands), effects);
            let proposal = self.proposals.get_mut(&slot);
            proposal.expect("it was just proposed").is_awaited = origin != Origin::Own;
        }
        self.announce_if_awaited(seat, now, effects);
    }

    /// If a follower waits for its forwarded command, tells the watermark now. Otherwise the watermark may
    /// wait a little for a proposal that carries it. In fast rounds all nodes count for themselves.
    fn announce_if_awaited(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        if self.announced >= decided || self.mode != Mode::Classic {
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
        let decided = Message::Decided(Decided { ballot, upto });
        seat.send(seat.others(), Lane::Normal, decided, effects);
    }

    /// The decided prefix moved: proposals in it are done.
    pub(crate) fn drop_covered(&mut self, seat: &mut Seat, now: Time) {
        let decided = seat.acceptor.log.decided();
        while let Some(entry) = self.proposals.first_entry()
            && *entry.key() <= decided
        {
            let proposal = entry.remove();
            seat.contention.decided_classic();
            self.is_awaited_elsewhere |= proposal.is_awaited;
            self.held.remove(proposal.batch.commands());
        }
        self.next = self.next.max(decided.next());
        self.progress_at = now;
        self.moved_at = now;
        self.patience = seat.config.timing.resend;
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
        if self.is_stuck(seat, now) {
            // Who voted there may be gone, and phase 1 find nothing: the slot is filled all the same. Claim fp-17.
            seat.reported = self.voted(seat);
            seat.contention.close(now);
            return Tenure::Renewed;
        }
        self.resend_unvoted(seat, now, effects);
        if now >= self.beat_at {
            if self.transfer.is_some_and(|(_, until)| now >= until) {
                self.transfer = None;
            }
            if self.has_lost_quorum(seat, now) {
                return Tenure::Over;
            }
            self.beat(seat, now, effects);
            seat.free_stalled(now);
            self.resend_confirms(seat, now, effects);
        }
        Tenure::Goes
    }

    /// Whether the next slot has only votes of a fast round, and these decide nothing: some are lost, or too few acceptors are
    /// left. Phase 1 of another ballot finds out what they were.
    fn is_stuck(&self, seat: &Seat, now: Time) -> bool {
        let next = seat.acceptor.log.decided().next();
        let timing = &seat.config.timing;
        // Where others know more, learning comes first.
        let bearable = if seat.learner.known() < next {
            timing.resend
        } else {
            timing.election_min
        };
        self.mode != Mode::Classic
            && self.voted(seat) >= next
            && !self.proposals.contains_key(&next)
            && now >= self.moved_at + bearable
    }

    /// Nothing was decided for a while: sends the oldest proposals again to the nodes that have not voted for them.
    fn resend_unvoted(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        if !self.is_busy(seat) {
            self.progress_at = now;
            self.moved_at = now;
            return;
        }
        if now < self.progress_at + self.patience {
            return;
        }
        self.progress_at = now;
        self.patience = Duration(self.patience.0 * 2).min(seat.config.timing.election_max);
        let decided = seat.acceptor.log.decided();
        let ballot = self.ballot;
        for (slot, proposal) in self.proposals.iter_mut().take(seat.config.limits.resend) {
            let peers = seat.peers.linked();
            let lacking: NodeSet = peers
                .map(|peer| peer.node)
                .filter(|node| !seat.tally.has_classic(*slot, ballot, *node))
                .collect();
            for node in lacking.iter() {
                proposal.sent.insert(node);
            }
            if !seat.tally.has_classic(*slot, ballot, seat.config.own) {
                // This node lacked something before a trim.
                seat.vote(ballot, *slot, proposal.batch.clone(), effects);
            }
            let accept = accept(ballot, *slot, proposal, decided);
            seat.send(lacking, Lane::Normal, accept, effects);
        }
    }

    /// Whether enough acceptors for a fast quorum answer in this ballot.
    fn hears_fast_quorum(&self, seat: &Seat, now: Time) -> bool {
        let bearable = seat.config.timing.election_min;
        let heard = seat.peers.acceptors().filter(|peer| {
            let is_recent = peer.heard.is_some_and(|at| now.since(at) < bearable);
            peer.link.is_some() && is_recent
        });
        heard.count() + 1 >= seat.quorums.fast()
    }

    /// Opens the slots behind the proposed ones to any value, if that is likely to pay; ends that if it cannot.
    pub(crate) fn choose_mode(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let may_be = seat.last.is_none() && self.hears_fast_quorum(seat, now);
        let is_idle = self.is_steady()
            && self.transfer.is_none()
            && self.queue.is_empty()
            && seat.config.view.acceptors.len() > 1;
        match self.mode {
            Mode::Classic if may_be && is_idle && seat.contention.try_open(now) => {
                let from = self.next;
                let ballot = self.ballot;
                self.mode = Mode::Fast { from };
                let any = Message::Any(Any { ballot, from });
                seat.send(seat.others(), Lane::Normal, any, effects);
                seat.open(ballot, from, effects);
            }
            Mode::Classic => {}
            Mode::Fast { .. } => self.must_renew |= !may_be,
        }
    }

    pub(crate) fn beat(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let decided = seat.acceptor.log.decided();
        let held = self.is_steady().then(|| seat.held_now());
        let beat = self.beats.send(now, held);
        self.count_beats(seat, effects);
        self.beat_at = now + seat.heartbeat();
        let ballot = self.ballot;
        let message = Message::Heartbeat(Heartbeat {
            ballot,
            beat,
            decided,
            any: self.any(),
            recovered: match self.stage {
                LeaderStage::Steady { recovered } => Some(recovered),
                LeaderStage::CatchUp { .. } | LeaderStage::Recover { .. } => None,
            },
            current: self.beats.current(),
        });
        self.announced = decided;
        self.announce_at = None;
        seat.send(seat.others(), Lane::Urgent, message, effects);
        if let Some((successor, _)) = self.transfer {
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
            voted,
            is_voter,
            ..
        }: Heard,
        effects: &mut Effects<Message>,
    ) {
        if let Some(peer) = seat.peers.find_mut(from) {
            peer.answer = peer.answer.max(number);
            if is_voter {
                peer.heard = Some(now);
                peer.beat = peer.beat.max(beat);
            }
        }
        if !self.is_busy(seat) {
            self.progress_at = now;
            self.moved_at = now;
        }
        seat.reported = seat.reported.max(voted);
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
        let heard = seat.peers.acceptors().filter(|peer| {
            let at = peer.heard.unwrap_or(self.since);
            now.since(at) < bearable
        });
        let needed = seat.quorums.classic().phase2();
        heard.count() + 1 < needed && now.since(self.since) >= bearable
    }

    pub(crate) fn transfer_leadership(
        &mut self,
        seat: &mut Seat,
        now: Time,
        to: NodeSet,
        effects: &mut Effects<Message>,
    ) {
        let bearable = seat.config.timing.election_min;
        let successor = (seat.peers.acceptors())
            .filter(|peer| seat.config.view.may_lead(peer.node) && peer.link.is_some())
            .filter(|peer| to.contains(peer.node))
            .filter(|peer| peer.heard.is_some_and(|at| now.since(at) < bearable))
            .max_by_key(|peer| peer.decided);
        let Some(successor) = successor.map(|peer| peer.node) else {
            return;
        };
        self.transfer = Some((successor, now + bearable));
        let ballot = self.ballot;
        let message = Message::TakeOver(TakeOver { ballot });
        seat.send(NodeSet::only(successor), Lane::Urgent, message, effects);
    }
}

fn accept(ballot: Ballot, slot: Slot, proposal: &Proposal, decided: Slot) -> Message {
    let batch = proposal.batch.clone();
    Message::Accept(Accept {
        ballot,
        slot,
        batch,
        decided,
    })
}

fn to_one(node: NodeId, message: Message) -> quorate_ordering::Effect<Message> {
    quorate_ordering::Effect::Send {
        to: NodeSet::only(node),
        lane: Lane::Normal,
        message,
    }
}
