//! Reads that their clients announce to every node: acceptors confirm them unasked. X-Paxos, GS VI.A.3; claims mp-64 to mp-68.
//!
//! A confirmation counts for the one read that it names. A client names a read after it has begun it, so a confirmation may come
//! before the read does: it is kept for a heartbeat. A read that lacks confirmations by then joins the next round of this leader.

use super::{Reader, Waiting};
use crate::leader::{Leader, LeaderStage};
use crate::message::{Attested, Message};
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::{Effects, Lane, ReadId};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{BroadcastId, Level, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// What a leader knows of one read: the read itself, confirmations of it, or both.
#[derive(Clone, PartialEq, Debug)]
struct AnnouncedRead {
    confirmed: NodeSet,
    barrier: Slot,
    reader: Option<Waiting>,
    since: Time,
}

/// The announced reads of a leader; nobody else keeps any.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct AnnouncedReads {
    reads: BTreeMap<BroadcastId, AnnouncedRead>,
    /// None of them is a heartbeat old before this time.
    pub(super) tend_at: Option<Time>,
}

impl AnnouncedReads {
    /// Readers among them.
    pub(super) fn waiting(&self) -> usize {
        self.reads.values().filter(|r| r.reader.is_some()).count()
    }

    /// Forgets all; returns the readers.
    pub(super) fn leave(&mut self) -> Vec<Waiting> {
        self.tend_at = None;
        let reads = std::mem::take(&mut self.reads).into_values();
        reads.filter_map(|read| read.reader).collect()
    }

    fn confirm(&mut self, now: Time, read: BroadcastId, from: NodeId, voted: Slot) {
        let known = self.reads.entry(read).or_insert(AnnouncedRead {
            confirmed: NodeSet::empty(),
            barrier: Slot::ZERO,
            reader: None,
            since: now,
        });
        known.confirmed.insert(from);
        known.barrier = known.barrier.max(voted);
    }

    /// Who confirmed any read.
    fn confirmed_any(&self) -> NodeSet {
        let all = self.reads.values();
        all.flat_map(|read| read.confirmed.iter()).collect()
    }
}

impl MultiPaxos {
    /// The replica has a read that its client announces. Only a leader that serves reads waits for what others say of it unasked.
    pub(crate) fn on_read_announced(
        &mut self,
        now: Time,
        id: ReadId,
        read: BroadcastId,
        effects: &mut Effects<Message>,
    ) {
        let reader = Reader::Local { id, lease: false };
        let is_spoken = self.seat.speaks_of_announced();
        match &mut self.part {
            Part::Leader(leader) if leader.stage == LeaderStage::Steady && is_spoken => {
                leader.take_announced(&mut self.seat, now, reader, read, effects);
            }
            Part::Leader(_) | Part::Candidate(_) | Part::Follower => {
                self.seat.await_barrier(now, reader, effects);
            }
        }
    }

    /// A client has begun a read: this acceptor tells the leader of the highest ballot that it promised. Claim mp-64.
    pub(crate) fn on_announced(&mut self, read: BroadcastId, effects: &mut Effects<Message>) {
        let seat = &self.seat;
        let ballot = seat.acceptor.promised();
        let is_peer = seat.peers.find(ballot.node).is_some();
        if !is_peer || !seat.acceptor.is_voter() || !seat.speaks_of_announced() {
            return;
        }
        let voted = seat.acceptor.voted();
        let attested = Message::Attested(Attested {
            ballot,
            read,
            voted,
        });
        let to = match planted(Plant::AnnouncedBallotIgnored) {
            true => seat.others(),
            false => NodeSet::only(ballot.node),
        };
        seat.send(to, Lane::Urgent, attested, effects);
    }

    pub(crate) fn on_attested(
        &mut self,
        now: Time,
        from: NodeId,
        attested: Attested,
        effects: &mut Effects<Message>,
    ) {
        let Attested {
            ballot,
            read,
            voted,
        } = attested;
        let led = match planted(Plant::AnnouncedBallotIgnored) {
            true => self.leading(),
            false => self.leading_in(ballot),
        };
        let Some((leader, seat)) = led else {
            return;
        };
        let announced = &mut seat.reads.announced;
        let is_full = announced.reads.len() >= seat.config.limits.announced;
        let is_known = announced.reads.contains_key(&read);
        if seat.config.view.acceptors.contains(from) && (is_known || !is_full) {
            announced.confirm(now, read, from, voted);
            seat.tend_announced_later(now);
            leader.answer_announced(seat, read, effects);
        }
    }

    /// Confirmations without a read are forgotten, and reads without enough of them are confirmed as others are.
    pub(crate) fn tend_announced(&mut self, now: Time, effects: &mut Effects<Message>) {
        let seat = &mut self.seat;
        if seat.reads.announced.tend_at.is_none_or(|at| now < at) {
            return;
        }
        let heartbeat = seat.heartbeat();
        let mut overdue = Vec::new();
        let mut earliest: Option<Time> = None;
        seat.reads.announced.reads.retain(|_, read| {
            let due = read.since + heartbeat;
            if now < due {
                earliest = Time::earlier(earliest, Some(due));
                return true;
            }
            overdue.extend(read.reader);
            false
        });
        seat.reads.announced.tend_at = earliest;
        for (reader, deadline) in overdue {
            seat.reads.expire_at = Time::earlier(seat.reads.expire_at, Some(deadline));
            seat.reads.arrived.push((reader, deadline));
        }
        self.open_reads(now, effects);
    }
}

impl Leader {
    fn take_announced(
        &mut self,
        seat: &mut Seat,
        now: Time,
        reader: Reader,
        read: BroadcastId,
        effects: &mut Effects<Message>,
    ) {
        let known = seat.reads.announced.reads.get(&read);
        let is_copy = known.is_some_and(|known| known.reader.is_some());
        if is_copy || seat.reads.waiting >= seat.config.limits.reads {
            return seat.await_barrier(now, reader, effects);
        }
        let barrier = match planted(Plant::AnnouncedBarrierDecided) {
            true => seat.acceptor.log.decided(),
            false => self.proposed(),
        };
        let deadline = now + seat.config.timing.read;
        let announced = &mut seat.reads.announced;
        announced.confirm(now, read, seat.config.own, barrier);
        let reused = match planted(Plant::AnnouncedConfirmReused) {
            true => announced.confirmed_any(),
            false => NodeSet::empty(),
        };
        let known = announced.reads.get_mut(&read).expect("it was just added");
        known.reader = Some((reader, deadline));
        known.confirmed = known.confirmed.iter().chain(reused.iter()).collect();
        seat.reads.waiting += 1;
        seat.tend_announced_later(now);
        self.answer_announced(seat, read, effects);
    }

    /// Answers a read that has come, once enough acceptors confirm it.
    fn answer_announced(&self, seat: &mut Seat, read: BroadcastId, effects: &mut Effects<Message>) {
        let too_few = usize::from(planted(Plant::AnnouncedByOneTooFew));
        let needed = seat.config.view.quorums.confirm() - too_few;
        let reads = &mut seat.reads.announced.reads;
        let Some(known) = reads.get(&read) else {
            return;
        };
        let Some((reader, _)) = known.reader else {
            return;
        };
        if known.confirmed.len() >= needed {
            let mut barrier = known.barrier;
            if planted(Plant::AnnouncedBarrierDecided) {
                barrier = seat.acceptor.log.decided();
            }
            reads.remove(&read);
            seat.reads.waiting -= 1;
            seat.tell(reader, Some(barrier), None, effects);
        }
    }
}

impl Seat {
    /// Whether every member reads what is said of announced reads.
    fn speaks_of_announced(&self) -> bool {
        self.config.view.level >= Level::BROADCAST
    }

    fn tend_announced_later(&mut self, now: Time) {
        let due = now + self.heartbeat();
        self.reads.announced.tend_at.get_or_insert(due);
    }
}
