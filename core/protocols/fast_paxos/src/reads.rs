//! Linearizable reads without a log entry, confirmed by a quorum. There are no leases: fast rounds are decided without the leader.
//!
//! A confirmation round is opened at the end of the turn in which its reads arrived, never before, and it serves no other reads.
//! Its barrier is the highest slot in which one of those who confirm voted, or may have: they meet every fast quorum. Claim fp-9.

use crate::leader::Leader;
use crate::message::{AskBarrier, Barrier, Confirm, Confirmed, Message};
use crate::{FastPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane, ReadId};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{NodeId, NodeSet, Slot, Time};
use std::collections::VecDeque;

/// A reader that waits for a barrier.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reader {
    /// A read of this node's replica.
    Local { id: ReadId },
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
pub(crate) struct FastReads {
    arrived: Vec<Waiting>,
    epochs: VecDeque<Epoch>,
    asked: VecDeque<Asked>,
    /// Numbers epochs and requests; no number is used twice, not even over restarts.
    number: u64,
    waiting: usize,
    /// No reader expires before this time.
    expire_at: Option<Time>,
}

impl FastReads {
    /// Numbers rise over restarts because `boot` does: a late answer from before a restart matches nothing.
    pub(crate) fn new(boot: u64) -> FastReads {
        FastReads {
            arrived: Vec::new(),
            epochs: VecDeque::new(),
            asked: VecDeque::new(),
            number: boot << 32,
            waiting: 0,
            expire_at: None,
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.expire_at
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
            self.arrived.len() + epochs + asked,
            "every reader is counted"
        );
    }
}

impl FastPaxos {
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
            Part::Candidate(_) | Part::Follower => self.seat.tell(reader, None, effects),
        }
    }

    /// The end of a turn: confirms the reads that arrived, or asks the leader.
    pub(crate) fn open_reads(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.seat.reads.arrived.is_empty() {
            return;
        }
        match &mut self.part {
            Part::Leader(leader) if leader.is_steady() => {
                leader.open_epoch(&mut self.seat, now, effects);
            }
            Part::Leader(_) | Part::Candidate(_) => {}
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
        let voted = self.seat.voted_now();
        let answer = Message::Confirmed(Confirmed {
            ballot,
            epoch,
            voted,
        });
        let to = NodeSet::only(from);
        self.seat.send(to, Lane::Urgent, answer, effects);
    }
}

impl Leader {
    fn open_epoch(&mut self, seat: &mut Seat, now: Time, effects: &mut Effects<Message>) {
        let ballot = self.ballot;
        if seat.reads.epochs.len() >= seat.config.limits.epochs {
            return;
        }
        let epoch = seat.reads.take_number();
        let readers = std::mem::take(&mut seat.reads.arrived);
        let barrier = self.next.previous();
        seat.reads.epochs.push_back(Epoch {
            number: epoch,
            barrier,
            confirmed: NodeSet::empty(),
            readers,
            asked_at: now,
        });
        let own = seat.config.own;
        let to = seat.config.view.acceptors.without(own);
        let ask = Message::Confirm(Confirm { ballot, epoch });
        seat.send(to, Lane::Urgent, ask, effects);
        let voted = seat.voted_now().max(barrier);
        let answer = Confirmed {
            ballot,
            epoch,
            voted,
        };
        self.on_confirmed(seat, own, answer, effects);
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
        let acceptors = seat.config.view.acceptors;
        for epoch in &mut seat.reads.epochs {
            if now.since(epoch.asked_at) < heartbeat {
                continue;
            }
            epoch.asked_at = now;
            let silent = acceptors.iter();
            let to = silent.filter(|node| !epoch.confirmed.contains(*node));
            let epoch = epoch.number;
            effects.push(Effect::Send {
                to: to.collect(),
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
            ballot,
            epoch: number,
            voted,
        }: Confirmed,
        effects: &mut Effects<Message>,
    ) {
        if !seat.config.view.acceptors.contains(from) || ballot != self.ballot {
            return;
        }
        let epochs = &mut seat.reads.epochs;
        let Some(index) = epochs.iter().position(|epoch| epoch.number == number) else {
            return;
        };
        let epoch = &mut epochs[index];
        epoch.confirmed.insert(from);
        // Readers wait for it, and nobody may be left who voted there or proposed something.
        seat.reported = seat.reported.max(voted);
        if !planted(Plant::FastReadUnasked) {
            epoch.barrier = epoch.barrier.max(voted);
        }
        if epoch.confirmed.len() < seat.quorums.confirm() {
            return;
        }
        let epoch = epochs.remove(index).expect("its place was just found");
        seat.reads.waiting -= epoch.readers.len();
        for (reader, _) in epoch.readers {
            seat.tell(reader, Some(epoch.barrier), effects);
        }
    }
}

impl Seat {
    pub(crate) fn read(&mut self, now: Time, id: ReadId, effects: &mut Effects<Message>) {
        self.await_barrier(now, Reader::Local { id }, effects);
    }

    fn await_barrier(&mut self, now: Time, reader: Reader, effects: &mut Effects<Message>) {
        if self.reads.waiting >= self.config.limits.reads {
            self.tell(reader, None, effects);
            return;
        }
        let deadline = now + self.config.timing.read;
        self.reads.expire_at.get_or_insert(deadline);
        self.reads.arrived.push((reader, deadline));
        self.reads.waiting += 1;
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
            self.tell(reader, barrier, effects);
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
        for (reader, deadline) in readers {
            match reader {
                Reader::Local { .. } if now < deadline => {
                    self.reads.arrived.push((reader, deadline));
                }
                Reader::Local { .. } | Reader::Remote { .. } => {
                    self.reads.waiting -= 1;
                    self.tell(reader, None, effects);
                }
            }
        }
    }

    /// The view is over: no reader gets a barrier here any more.
    pub(crate) fn leave_reads(&mut self, effects: &mut Effects<Message>) {
        let left: Vec<Waiting> = self.reads.all().flat_map(std::mem::take).collect();
        self.reads.epochs.clear();
        self.reads.asked.clear();
        self.reads.waiting = 0;
        self.reads.expire_at = None;
        for (reader, _) in left {
            self.tell(reader, None, effects);
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
                earliest = Time::earlier(earliest, Some(*deadline));
                true
            });
        }
        self.reads.epochs.retain(|epoch| !epoch.readers.is_empty());
        self.reads.asked.retain(|asked| !asked.readers.is_empty());
        self.reads.expire_at = earliest;
        self.reads.waiting -= expired.len();
        for reader in expired {
            self.tell(reader, None, effects);
        }
    }

    fn tell(&self, reader: Reader, barrier: Option<Slot>, effects: &mut Effects<Message>) {
        match (reader, barrier) {
            (Reader::Local { id }, Some(barrier)) => effects.push(Effect::Confirmed {
                read: id,
                barrier,
                until: None,
            }),
            (Reader::Local { id }, None) => effects.push(Effect::Unconfirmed { read: id }),
            (Reader::Remote { node, request }, barrier) => {
                let answer = Message::Barrier(Barrier { request, barrier });
                self.send(NodeSet::only(node), Lane::Urgent, answer, effects);
            }
        }
    }
}
