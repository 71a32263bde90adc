//! Linearizable reads without a log entry: confirmed by a quorum, or served under a lease.
//!
//! A confirmation round is opened at the end of the turn in which its reads arrived, never before, and
//! it serves no other reads. A leader serves no read before everything that phase 1 found is decided. Those who confirm meet
//! every phase-1 quorum, so that nobody else leads: claim mp-86. They need not meet those who decide.

mod announced;

use self::announced::AnnouncedReads;
use crate::leader::{Leader, LeaderStage};
use crate::message::{AskBarrier, Barrier, Confirm, Confirmed, Message};
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane, ReadId};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, NodeId, NodeSet, Slot, Time};
use std::collections::VecDeque;

/// A reader that waits for a barrier.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reader {
    /// A read of this node's replica, and whether the lease is enough.
    Local { id: ReadId, lease: bool },
    /// All reads of one request of another node.
    Remote { node: NodeId, request: u64 },
}

/// A reader and the time until which it waits.
type Waiting = (Reader, Time);

/// One confirmation round of this leader.
#[derive(Clone, PartialEq, Debug)]
struct Epoch {
    number: u64,
    barrier: Slot,
    confirmed: NodeSet,
    readers: Vec<Waiting>,
    asked_at: Time,
}

/// Local reads that were sent to the leader in one request.
#[derive(Clone, PartialEq, Debug)]
struct Asked {
    request: u64,
    readers: Vec<Waiting>,
}

/// Reads that wait.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PaxosReads {
    arrived: Vec<Waiting>,
    epochs: VecDeque<Epoch>,
    asked: VecDeque<Asked>,
    announced: AnnouncedReads,
    /// Numbers epochs and requests; no number is used twice, not even over restarts.
    number: u64,
    waiting: usize,
    /// No reader expires before this time.
    expire_at: Option<Time>,
}

impl PaxosReads {
    /// Numbers rise over restarts because `boot` does: a late answer from before a restart matches nothing.
    pub(crate) fn new(boot: u64) -> PaxosReads {
        PaxosReads {
            arrived: Vec::new(),
            epochs: VecDeque::new(),
            asked: VecDeque::new(),
            announced: AnnouncedReads::default(),
            number: boot << 32,
            waiting: 0,
            expire_at: None,
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        Time::earlier(self.expire_at, self.announced.tend_at)
    }

    fn take_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Vec<Waiting>> {
        let epochs = self.epochs.iter_mut().map(|epoch| &mut epoch.readers);
        let asked = self.asked.iter_mut().map(|asked| &mut asked.readers);
        epochs
            .chain(asked)
            .chain(std::iter::once(&mut self.arrived))
    }

    pub(crate) fn check(&self) {
        let epochs: usize = self.epochs.iter().map(|epoch| epoch.readers.len()).sum();
        let asked: usize = self.asked.iter().map(|asked| asked.readers.len()).sum();
        assert_eq!(
            self.waiting,
            self.arrived.len() + epochs + asked + self.announced.waiting(),
            "every reader is counted"
        );
    }
}

impl MultiPaxos {
    pub(crate) fn on_ask_barrier(
        &mut self,
        now: Time,
        node: NodeId,
        AskBarrier { request }: AskBarrier,
        effects: &mut Effects<Message>,
    ) {
        let reader = Reader::Remote { node, request };
        match &self.part {
            Part::Leader(_) => self.seat.await_barrier(now, reader, effects),
            Part::Candidate(_) | Part::Follower => self.seat.tell(reader, None, None, effects),
        }
    }

    /// The end of a turn, before new commands are proposed: confirms the reads that arrived, or asks the leader.
    pub(crate) fn open_reads(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.seat.reads.arrived.is_empty() {
            return;
        }
        match &mut self.part {
            Part::Leader(leader) => leader.open_reads(&mut self.seat, now, effects),
            Part::Candidate(_) => {}
            Part::Follower => self.seat.ask_leader(effects),
        }
    }

    pub(crate) fn on_confirm(
        &mut self,
        now: Time,
        from: NodeId,
        Confirm { ballot, epoch }: Confirm,
        effects: &mut Effects<Message>,
    ) {
        if !self.follow(now, from, ballot, effects) || !self.seat.acceptor.is_voter() {
            return;
        }
        let voted = self.seat.acceptor.voted();
        let answer = Message::Confirmed(Confirmed {
            ballot,
            epoch,
            voted,
        });
        self.seat
            .send(NodeSet::only(from), Lane::Urgent, answer, effects);
    }
}

impl Leader {
    fn open_reads(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        if self.stage == LeaderStage::Steady || planted(Plant::ReadBeforeRecovered) {
            let barrier = self.proposed();
            self.serve_leased(seat, now, barrier, effects);
            self.open_epoch(seat, now, barrier, effects);
        }
    }

    /// Serves local reads for which the lease is enough, while it holds.
    fn serve_leased(
        &mut self,
        seat: &mut Seat,
        now: Time,
        barrier: Slot,
        effects: &mut Effects<Message>,
    ) {
        let wants = |waiting: &Waiting| matches!(waiting.0, Reader::Local { lease: true, .. });
        if !seat.reads.arrived.iter().any(wants) {
            return;
        }
        let until = seat.lease_until(now);
        // Heartbeats ask for leases only while there are reads under one: an unused lease would delay
        // the election after a crash.
        self.wants_lease_until = now + seat.config.timing.read;
        let Some(until) = until else {
            return;
        };
        let arrived = std::mem::take(&mut seat.reads.arrived);
        for waiting in arrived {
            if wants(&waiting) {
                seat.reads.waiting -= 1;
                seat.tell(waiting.0, Some(barrier), Some(until), effects);
            } else {
                seat.reads.arrived.push(waiting);
            }
        }
    }

    fn open_epoch(
        &mut self,
        seat: &mut Seat,
        now: Time,
        barrier: Slot,
        effects: &mut Effects<Message>,
    ) {
        let ballot = self.ballot;
        if planted(Plant::ConfirmReused)
            && let Some(epoch) = seat.reads.epochs.back_mut()
        {
            epoch.readers.append(&mut seat.reads.arrived);
        }
        let is_busy = seat.reads.epochs.len() >= seat.config.limits.epochs;
        if seat.reads.arrived.is_empty() || is_busy {
            return;
        }
        let number = seat.reads.take_number();
        let readers = std::mem::take(&mut seat.reads.arrived);
        seat.reads.epochs.push_back(Epoch {
            number,
            barrier,
            confirmed: NodeSet::empty(),
            readers,
            asked_at: now,
        });
        let to = seat.config.view.acceptors.without(seat.config.own);
        let epoch = number;
        seat.send(
            to,
            Lane::Urgent,
            Message::Confirm(Confirm { ballot, epoch }),
            effects,
        );
        let own = Confirmed {
            ballot,
            epoch,
            voted: barrier,
        };
        self.on_confirmed(seat, seat.config.own, own, effects);
    }

    /// Sends the questions of open rounds again: a lost confirmation delays a read by one heartbeat.
    pub(crate) fn resend_confirms(
        &self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let ballot = self.ballot;
        let heartbeat = seat.heartbeat();
        for epoch in &mut seat.reads.epochs {
            if now.since(epoch.asked_at) < heartbeat {
                continue;
            }
            epoch.asked_at = now;
            let acceptors = seat.config.view.acceptors.iter();
            let to = acceptors
                .filter(|node| !epoch.confirmed.contains(*node))
                .collect();
            let epoch = epoch.number;
            effects.push(Effect::Send {
                to,
                lane: Lane::Urgent,
                message: Message::Confirm(Confirm { ballot, epoch }),
            });
        }
    }

    pub(crate) fn on_confirmed(
        &mut self,
        seat: &mut Seat,
        from: NodeId,
        Confirmed {
            epoch: number,
            voted,
            ..
        }: Confirmed,
        effects: &mut Effects<Message>,
    ) {
        if !seat.config.view.acceptors.contains(from) {
            return;
        }
        let mut needed = seat.config.view.quorums.confirm();
        if planted(Plant::ReadUnconfirmed) {
            needed = 1;
        } else if planted(Plant::ConfirmedByMajority) {
            needed = seat.config.view.acceptors.len() / 2 + 1;
        } else if planted(Plant::ConfirmedByOneTooFew) {
            needed -= 1;
        }
        let epochs = &mut seat.reads.epochs;
        let Some(index) = epochs.iter().position(|epoch| epoch.number == number) else {
            return;
        };
        let epoch = &mut epochs[index];
        epoch.confirmed.insert(from);
        epoch.barrier = epoch.barrier.max(voted);
        if epoch.confirmed.len() < needed {
            return;
        }
        let epoch = epochs.remove(index).expect("its place was just found");
        seat.reads.waiting -= epoch.readers.len();
        for (reader, _) in epoch.readers {
            seat.tell(reader, Some(epoch.barrier), None, effects);
        }
    }
}

impl Seat {
    pub(crate) fn read(
        &mut self,
        now: Time,
        id: ReadId,
        lease: bool,
        effects: &mut Effects<Message>,
    ) {
        self.await_barrier(now, Reader::Local { id, lease }, effects);
    }

    fn await_barrier(&mut self, now: Time, reader: Reader, effects: &mut Effects<Message>) {
        if self.reads.waiting >= self.config.limits.reads {
            self.tell(reader, None, None, effects);
            return;
        }
        let deadline = now + self.config.timing.read;
        self.reads.expire_at.get_or_insert(deadline);
        self.reads.arrived.push((reader, deadline));
        self.reads.waiting += 1;
    }

    /// The end of the lease, if there is one: no other leader can decide anything before. It counts from the
    /// sending of the heartbeats that enough acceptors granted, and is shortened by the drift of both clocks.
    fn lease_until(&self, now: Time) -> Option<Time> {
        let too_few = usize::from(planted(Plant::LeaseByOneTooFew));
        let confirm = match planted(Plant::LeasedByMajority) {
            true => self.config.view.acceptors.len() / 2 + 1,
            false => self.config.view.quorums.confirm(),
        };
        let needed = (confirm - 1).saturating_sub(too_few);
        let mut granted: Vec<Time> = (self.peers.iter())
            .filter(|peer| peer.is_acceptor)
            .filter_map(|peer| peer.granted)
            .collect();
        granted.sort_unstable_by(|a, b| b.cmp(a));
        let since = if needed == 0 {
            now
        } else {
            *granted.get(needed - 1)?
        };
        let timing = &self.config.timing;
        let mut drift = timing.lease.0 / 1_000_000 * 2 * timing.clock_drift_ppm + 1;
        if planted(Plant::LeaseWithoutDrift) {
            drift = 0;
        }
        let until = since + (timing.lease - Duration(drift));
        (now < until).then_some(until)
    }

    /// One request covers all local reads of the turn.
    fn ask_leader(&mut self, effects: &mut Effects<Message>) {
        let Some(leader) = self.election.leader else {
            return;
        };
        let readers = std::mem::take(&mut self.reads.arrived);
        let request = self.reads.take_number();
        self.reads.asked.push_back(Asked { request, readers });
        let ask = Message::AskBarrier(AskBarrier { request });
        self.send(NodeSet::only(leader.node), Lane::Urgent, ask, effects);
    }

    pub(crate) fn on_barrier(
        &mut self,
        Barrier { request, barrier }: Barrier,
        effects: &mut Effects<Message>,
    ) {
        let asked = &mut self.reads.asked;
        let Some(index) = asked.iter().position(|asked| asked.request == request) else {
            return;
        };
        let asked = asked.remove(index).expect("its place was just found");
        self.reads.waiting -= asked.readers.len();
        for (reader, _) in asked.readers {
            self.tell(reader, barrier, None, effects);
        }
    }

    /// The leader changed: reads sent to the old one are sent to the new one.
    pub(crate) fn reask(&mut self) {
        for asked in std::mem::take(&mut self.reads.asked) {
            self.reads.arrived.extend(asked.readers);
        }
    }

    /// Leadership ended: local readers wait for the next leader, remote ones must ask it.
    pub(crate) fn close_reads(&mut self, now: Time, effects: &mut Effects<Message>) {
        let mut readers = std::mem::take(&mut self.reads.arrived);
        for epoch in std::mem::take(&mut self.reads.epochs) {
            readers.extend(epoch.readers);
        }
        let announced = self.reads.announced.leave();
        for (_, deadline) in &announced {
            self.reads.expire_at = Time::earlier(self.reads.expire_at, Some(*deadline));
        }
        readers.extend(announced);
        for (reader, deadline) in readers {
            match reader {
                Reader::Local { .. } if now < deadline => {
                    self.reads.arrived.push((reader, deadline));
                }
                Reader::Local { .. } | Reader::Remote { .. } => {
                    self.reads.waiting -= 1;
                    self.tell(reader, None, None, effects);
                }
            }
        }
    }

    /// The view is over: no reader gets a barrier here any more.
    pub(crate) fn leave_reads(&mut self, effects: &mut Effects<Message>) {
        let mut left: Vec<Waiting> = self.reads.all().flat_map(std::mem::take).collect();
        left.extend(self.reads.announced.leave());
        self.reads.epochs.clear();
        self.reads.asked.clear();
        self.reads.waiting = 0;
        self.reads.expire_at = None;
        for (reader, _) in left {
            self.tell(reader, None, None, effects);
        }
    }

    pub(crate) fn wake_reads(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.reads.expire_at.is_none_or(|at| now < at) {
            return;
        }
        let mut expired = Vec::new();
        let mut earliest: Option<Time> = None;
        for readers in self.reads.all() {
            readers.retain(|(reader, deadline)| {
                if now >= *deadline {
                    expired.push(*reader);
                    return false;
                }
                earliest = Some(earliest.map_or(*deadline, |at| at.min(*deadline)));
                true
            });
        }
        self.reads.epochs.retain(|epoch| !epoch.readers.is_empty());
        self.reads.asked.retain(|asked| !asked.readers.is_empty());
        self.reads.expire_at = earliest;
        self.reads.waiting -= expired.len();
        for reader in expired {
            self.tell(reader, None, None, effects);
        }
    }

    fn tell(
        &self,
        reader: Reader,
        barrier: Option<Slot>,
        until: Option<Time>,
        effects: &mut Effects<Message>,
    ) {
        match (reader, barrier) {
            (Reader::Local { id, .. }, Some(barrier)) => effects.push(Effect::Confirmed {
                read: id,
                barrier,
                until,
            }),
            (Reader::Local { id, .. }, None) => effects.push(Effect::Unconfirmed { read: id }),
            (Reader::Remote { node, request }, barrier) => {
                let answer = Message::Barrier(Barrier { request, barrier });
                self.send(NodeSet::only(node), Lane::Urgent, answer, effects);
            }
        }
    }
}
