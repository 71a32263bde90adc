//! Phase 2: a stable leader fills slots, counts votes and lets followers know what is decided.
//!
//! It first catches up to everything that phase 1 found decided, then proposes again what was voted
//! for there (NOOPs in the gaps), and only then new commands. What each peer gets is bounded by its
//! credit; what is lost is sent again when no slot was decided for a while.

use crate::candidate::Found;
use crate::limits::BEATS;
use crate::message::Message;
use crate::queue::{OWN, OWN_UNCERTAIN, Origin, Queue, Run};
use crate::{MultiPaxos, Part};
use quorate_acceptor::Vote;
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Command, Duration, NodeId, NodeSet, Slot, Stamp, Time, Wall};
use std::collections::{BTreeMap, VecDeque};

/// How far a new leader is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Stage {
    /// Slots up to `floor` are decided elsewhere: learn them before proposing anything.
    CatchUp { floor: Slot, since: Time },
    /// What phase 1 found is proposed again; no read is served before `upto` is decided.
    Recover { upto: Slot },
    /// New commands are ordered.
    Steady,
}

/// A proposed, undecided slot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Proposal {
    pub(crate) batch: Batch,
    /// Acceptors known to have voted for it in this ballot. A set: nobody counts twice.
    pub(crate) voters: NodeSet,
    pub(crate) origin: Origin,
}

/// A leader's state in one ballot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leader {
    pub(crate) ballot: Ballot,
    pub(crate) stage: Stage,
    found: BTreeMap<Slot, Vote>,
    /// Invariant: the first stands for the slot after the decided prefix.
    pub(crate) in_flight: VecDeque<Proposal>,
    /// The slot after the last proposed one.
    pub(crate) next: Slot,
    pub(crate) queue: Queue,
    since: Time,
    beat: u64,
    /// When which recent heartbeat was sent.
    beats: VecDeque<(u64, Time)>,
    pub(crate) beat_at: Time,
    /// The decided watermark that every message sent so far could carry.
    announced: Slot,
    pub(crate) announce_at: Option<Time>,
    is_awaited_elsewhere: bool,
    pub(crate) progress_at: Time,
    pub(crate) patience: Duration,
    pub(crate) wants_lease_until: Time,
    /// Leadership is being given to this node, until then at the latest.
    transfer: Option<(NodeId, Time)>,
}

impl Leader {
    /// The highest slot proposed.
    pub(crate) fn proposed(&self) -> Slot {
        self.next.previous()
    }

    /// The first slot in flight.
    fn first(&self) -> Slot {
        Slot(self.next.0 - self.in_flight.len() as u64)
    }

    /// What is proposed in `slot`, while that is undecided.
    pub(crate) fn proposal(&self, slot: Slot) -> Option<&Proposal> {
        let index = slot.0.checked_sub(self.first().0)?;
        self.in_flight.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn wake_at(&self) -> Time {
        let mut at = self.beat_at;
        if let Some(announce_at) = self.announce_at {
            at = at.min(announce_at);
        }
        if !self.in_flight.is_empty() {
            at = at.min(self.progress_at + self.patience);
        }
        at
    }

    pub(crate) fn sent_beat_at(&self, beat: u64) -> Option<Time> {
        let found = self.beats.binary_search_by_key(&beat, |(beat, _)| *beat);
        found.ok().map(|index| self.beats[index].1)
    }

    pub(crate) fn check(&self, decided: Slot) {
        self.queue.check();
        let end = decided.plus(self.in_flight.len() as u64).next();
        assert_eq!(
            self.next, end,
            "the slots in flight cover what is proposed and undecided"
        );
    }
}

impl MultiPaxos {
    pub(crate) fn begin_leading(
        &mut self,
        now: Time,
        ballot: Ballot,
        found: Found,
        effects: &mut Effects<Message>,
    ) {
        let decided = self.acceptor.log.decided();
        self.acceptor.log.raise_wall(found.wall);
        self.learner.known = self.learner.known.max(found.floor);
        self.part = Part::Leader(Box::new(Leader {
            ballot,
            stage: Stage::CatchUp {
                floor: found.floor,
                since: now,
            },
            found: found.votes,
            in_flight: VecDeque::new(),
            next: decided.next(),
            queue: Queue::default(),
            since: now,
            beat: 0,
            beats: VecDeque::new(),
            beat_at: now,
            announced: Slot::ZERO,
            announce_at: None,
            is_awaited_elsewhere: false,
            progress_at: now,
            patience: self.config.timing.resend,
            wants_lease_until: Time(0),
            transfer: None,
        }));
        self.election.leads();
        for peer in self.peers.iter_mut() {
            peer.heard = now;
            peer.answered = now;
            peer.granted = None;
            peer.acked = Slot::ZERO;
            peer.restart_at(decided.next());
        }
        self.reask();
        self.beat(now, effects);
        self.recover(now, effects);
        self.learn_afresh(now, effects);
    }

    /// Once caught up, proposes again what phase 1 found; once that is decided, turns to new commands.
    pub(crate) fn recover(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if let Stage::CatchUp { floor, .. } = leader.stage
            && decided >= floor
        {
            let mut found = std::mem::take(&mut leader.found);
            let upto = found.last_key_value().map_or(decided, |(slot, _)| *slot);
            leader.stage = Stage::Recover { upto };
            for slot in decided.0 + 1..=upto.0 {
                let vote = found.remove(&Slot(slot));
                if vote.is_none() && planted(Plant::GapsClosedUp) {
                    continue;
                }
                let batch = vote.map_or_else(Batch::noop, |vote| vote.batch);
                self.propose(now, batch, Origin::Found, effects);
            }
        }
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if let Stage::Recover { upto } = leader.stage
            && self.acceptor.log.decided() >= upto
        {
            leader.stage = Stage::Steady;
            self.adopt_outstanding(effects);
        }
    }

    /// Proposes `batch` in the next slot to everybody whose credit allows it.
    fn propose(&mut self, now: Time, batch: Batch, origin: Origin, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            unreachable!("only a leader proposes");
        };
        let slot = leader.next;
        let ballot = leader.ballot;
        if leader.in_flight.is_empty() {
            leader.progress_at = now;
        }
        leader.next = slot.next();
        leader.in_flight.push_back(Proposal {
            batch: batch.clone(),
            voters: NodeSet::empty(),
            origin,
        });
        let mut to = NodeSet::empty();
        for peer in self.peers.iter_mut() {
            peer.next = peer.next.max(decided.next());
            let takes = peer.link.is_some() && peer.next == slot;
            if takes && peer.credit.has_room(&self.config.limits) {
                peer.charge(now, slot, batch.weight());
                to.insert(peer.node);
            }
        }
        leader.announced = decided;
        leader.announce_at = None;
        leader.is_awaited_elsewhere = false;
        self.acceptor.vote(ballot, slot, batch.clone(), effects);
        let accept = Message::Accept {
            ballot,
            slot,
            batch,
            decided,
        };
        self.send(to, Lane::Normal, accept, effects);
    }

    /// The end of a turn: what waits becomes batches, as far as the pipeline and ω allow.
    pub(crate) fn order_waiting(
        &mut self,
        now: Time,
        wall: Wall,
        entropy: u64,
        effects: &mut Effects<Message>,
    ) {
        loop {
            let Part::Leader(leader) = &mut self.part else {
                return;
            };
            let is_open = leader.stage == Stage::Steady
                && leader.transfer.is_none()
                && leader.in_flight.len() < self.config.limits.pipeline
                && leader.next.since(self.executed) <= self.config.view.window;
            if !is_open || leader.queue.is_empty() {
                break;
            }
            let (commands, origin) = leader.queue.cut(self.config.own, &self.config.limits);
            let last = self.acceptor.log.wall();
            let stamp = Stamp {
                wall: wall.max(Wall(last.0 + 1)),
                entropy: entropy ^ leader.next.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            };
            self.propose(now, Batch::new(stamp, commands), origin, effects);
        }
        self.announce_if_awaited(now, effects);
    }

    /// A follower waits for its forwarded command: tell it now. Otherwise the watermark may wait a
    /// little for a proposal that carries it.
    fn announce_if_awaited(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if leader.announced >= decided {
            return;
        }
        if leader.is_awaited_elsewhere {
            self.announce(effects);
        } else if leader.announce_at.is_none() {
            leader.announce_at = Some(now + self.config.timing.announce);
        }
    }

    fn announce(&mut self, effects: &mut Effects<Message>) {
        let upto = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        leader.announced = upto;
        leader.announce_at = None;
        leader.is_awaited_elsewhere = false;
        let ballot = leader.ballot;
        let to = self.others();
        self.send(to, Lane::Normal, Message::Decided { ballot, upto }, effects);
    }

    /// `from` voted (or, without a vote, holds) what this ballot proposed in `first..=last`.
    pub(crate) fn on_accepted(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        (first, last): (Slot, Slot),
        is_vote: bool,
        effects: &mut Effects<Message>,
    ) {
        let decided = self.acceptor.log.decided();
        let is_acceptor = self.config.view.acceptors.contains(from);
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if leader.ballot != ballot {
            return;
        }
        if is_vote && is_acceptor {
            let is_cumulative = planted(Plant::CumulativeVote);
            let first = if is_cumulative { Slot::ZERO } else { first };
            let least = first.max(decided.next());
            for slot in least.0..=last.min(leader.proposed()).0 {
                let index = (slot - decided.0 - 1) as usize;
                let voters = &mut leader.in_flight[index].voters;
                if !voters.insert(from) && planted(Plant::AcceptorCountedTwice) {
                    voters.insert(NodeId(63));
                }
            }
        }
        if let Some(peer) = self.peers.find_mut(from) {
            peer.answered = now;
            if is_vote {
                peer.heard = now;
            }
            peer.refund(now, last);
        }
        self.decide_voted(now, effects);
        self.fill(now, from, effects);
    }

    /// Extends the decided prefix over every slot that has its quorum.
    pub(crate) fn decide_voted(&mut self, now: Time, effects: &mut Effects<Message>) {
        let needed = self.config.view.quorums.phase2();
        loop {
            let Part::Leader(leader) = &mut self.part else {
                return;
            };
            match leader.in_flight.front() {
                Some(proposal) if proposal.voters.len() >= needed => {}
                Some(_) | None => break,
            }
            let proposal = leader.in_flight.pop_front().expect("it was just looked at");
            if matches!(proposal.origin, Origin::Mixed(_)) {
                leader.is_awaited_elsewhere = true;
            }
            leader.progress_at = now;
            leader.patience = self.config.timing.resend;
            // The own vote may be missing: counting others' needs no room of one's own.
            self.acceptor.decide(Some(proposal.batch), effects);
        }
        self.recover(now, effects);
    }

    /// The decided prefix moved by learning: lets go of the own proposals that were decided.
    pub(crate) fn drop_covered(&mut self) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        while !leader.in_flight.is_empty() && leader.first() <= decided {
            leader.in_flight.pop_front();
        }
        leader.next = leader.next.max(decided.next());
    }

    pub(crate) fn wake_leader(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if leader.announce_at.is_some_and(|at| now >= at) {
            self.announce(effects);
        }
        self.resend_unvoted(now, effects);
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if now >= leader.beat_at {
            if leader.transfer.is_some_and(|(_, until)| now >= until) {
                leader.transfer = None;
            }
            if self.has_lost_quorum(now) && !planted(Plant::LeaderWithoutQuorumStays) {
                self.step_down(now, effects);
                return;
            }
            self.beat(now, effects);
            self.free_stalled(now);
            self.resend_confirms(now, effects);
        }
    }

    fn beat(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        leader.beat += 1;
        leader.beat_at = now + self.config.timing.heartbeat;
        if leader.beats.len() == BEATS {
            leader.beats.pop_front();
        }
        leader.beats.push_back((leader.beat, now));
        let successor = leader.transfer.map(|(successor, _)| successor);
        let wants_lease = now < leader.wants_lease_until && successor.is_none();
        let message = Message::Heartbeat {
            ballot: leader.ballot,
            beat: leader.beat,
            decided,
            wants_lease,
        };
        if wants_lease {
            let until = now + self.config.timing.lease;
            self.acceptor.bind(leader.ballot, until);
        }
        leader.announced = decided;
        leader.announce_at = None;
        let ballot = leader.ballot;
        let to = self.others();
        self.send(to, Lane::Urgent, message, effects);
        if let Some(successor) = successor {
            // Said again with each heartbeat: a successor that is bound by a lease does not listen yet.
            let message = Message::TakeOver { ballot };
            self.send(NodeSet::only(successor), Lane::Urgent, message, effects);
        }
    }

    /// `from` answered a heartbeat.
    pub(crate) fn on_heard(
        &mut self,
        now: Time,
        from: NodeId,
        ballot: Ballot,
        beat: u64,
        (is_voter, is_granted): (bool, bool),
        effects: &mut Effects<Message>,
    ) {
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        let Some(peer) = self.peers.find_mut(from) else {
            return;
        };
        if leader.ballot != ballot {
            return;
        }
        peer.answered = now;
        if is_voter {
            peer.heard = now;
        }
        if is_voter && is_granted {
            let is_late = planted(Plant::LeaseFromItsAnswer);
            let sent_at = leader.sent_beat_at(beat);
            peer.granted = peer.granted.max(if is_late { Some(now) } else { sent_at });
        }
        self.fill(now, from, effects);
        self.learn_more(now, effects);
    }

    /// Says whether too few acceptors answered within an election timeout to decide anything.
    fn has_lost_quorum(&self, now: Time) -> bool {
        let Part::Leader(leader) = &self.part else {
            return false;
        };
        let bearable = self.config.timing.election_min;
        if let Stage::CatchUp { since, .. } = leader.stage
            && now.since(since) >= self.config.timing.election_max
            && now.since(self.learner.progress_at) >= self.config.timing.election_max
        {
            return true;
        }
        let heard = (self.peers.iter())
            .filter(|peer| peer.is_acceptor && now.since(peer.heard) < bearable)
            .count();
        heard + 1 < self.config.view.quorums.phase2() && now.since(leader.since) >= bearable
    }

    /// Another ballot beat this one, or the quorum is gone: everything that waits here is rerouted.
    pub(crate) fn step_down(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Part::Leader(mut leader) = std::mem::replace(&mut self.part, Part::Follower) else {
            return;
        };
        let own = self.config.own;
        for proposal in &leader.in_flight {
            let commands: Vec<Command> = own_commands(proposal, own).collect();
            if planted(Plant::SubmissionForgotten) {
                continue;
            }
            self.keep(now, commands, true);
        }
        for (run, commands) in leader.queue.drain() {
            if run.node == own {
                self.keep(now, commands, run.number == OWN_UNCERTAIN);
            } else {
                self.give_back(run, &commands, effects);
            }
        }
        self.close_reads(now, effects);
        self.election.leader = None;
        self.retry_later(now);
    }

    pub(crate) fn transfer_leadership(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let until = now + self.config.timing.election_min;
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        let successor = (self.peers.iter())
            .filter(|peer| peer.is_acceptor && peer.link.is_some())
            .filter(|peer| now.since(peer.heard) < self.config.timing.election_min)
            .max_by_key(|peer| peer.decided.max(peer.acked).min(decided));
        let Some(successor) = successor.map(|peer| peer.node) else {
            return;
        };
        leader.transfer = Some((successor, until));
        let ballot = leader.ballot;
        let message = Message::TakeOver { ballot };
        self.send(NodeSet::only(successor), Lane::Urgent, message, effects);
    }
}

/// The commands of `proposal` that were submitted at `own`.
fn own_commands(proposal: &Proposal, own: NodeId) -> impl Iterator<Item = Command> {
    let commands = proposal.batch.commands();
    let runs = match &proposal.origin {
        Origin::Own => vec![Run {
            node: own,
            number: OWN,
            count: commands.len(),
        }],
        Origin::Mixed(runs) => runs.clone(),
        Origin::Found => Vec::new(),
    };
    let mut start = 0;
    let mut own_ones = Vec::new();
    for run in runs {
        if run.node == own {
            own_ones.extend_from_slice(&commands[start..start + run.count]);
        }
        start += run.count;
    }
    own_ones.into_iter()
}
