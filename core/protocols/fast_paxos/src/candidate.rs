//! Phase 1: a candidate gets the promises of a quorum for its ballot, and finds for each slot what may have been decided.
//!
//! All votes that were told are kept until the quorum is complete: in a fast round it is their number that counts. An acceptor
//! that may have lost its vote in a slot is no witness there.

use crate::message::{Message, Nack, Prepare};
use crate::selection::{Selection, select};
use crate::{FastPaxos, Part, Seat};
use quorate_acceptor::{Promise, Vote};
use quorate_ordering::{Effects, Lane};
use quorate_types::{Ballot, Batch, FastQuorums, NodeId, NodeSet, Slot, Time, Wall};
use std::collections::BTreeMap;

/// One attempt to lead.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) ballot: Ballot,
    from: Slot,
    /// Whether the own promise is durable and the others were asked.
    is_announced: bool,
    /// For each acceptor the `from` of the page that is awaited, once it differs from the first.
    awaited: BTreeMap<NodeId, Slot>,
    /// Acceptors that sent their last page.
    promised: NodeSet,
    /// For each slot the acceptors that may have lost a vote there: they count towards no quorum of the slot.
    unknown: BTreeMap<Slot, NodeSet>,
    votes: BTreeMap<Slot, BTreeMap<NodeId, Vote>>,
    /// The highest decided or trimmed slot: nothing at or below it is proposed.
    floor: Slot,
    /// The highest wall clock stamped.
    wall: Wall,
    deadline: Time,
    resend_at: Time,
}

/// What a phase-1 quorum reported.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PhaseOneFound {
    /// For each slot with a vote, the value to propose.
    pub(crate) values: BTreeMap<Slot, Batch>,
    /// The highest decided or trimmed slot: nothing at or below it is proposed.
    pub(crate) floor: Slot,
    /// The highest wall clock stamped.
    pub(crate) wall: Wall,
}

impl Candidate {
    pub(crate) fn wake_at(&self) -> Time {
        self.deadline.min(self.resend_at)
    }

    fn awaited_from(&self, node: NodeId) -> Slot {
        self.awaited.get(&node).copied().unwrap_or(self.from)
    }

    /// Acceptors that answered and know what they voted for in `slot`.
    fn witnesses(&self, slot: Slot) -> NodeSet {
        let ignorant = self.unknown.get(&slot).copied();
        let ignorant = ignorant.unwrap_or(NodeSet::empty());
        let promised = self.promised.iter();
        promised.filter(|node| !ignorant.contains(*node)).collect()
    }

    /// Whether every slot has a quorum of witnesses. Decided slots need none.
    fn is_complete(&self, quorum: usize) -> bool {
        let mut open = self.unknown.range(self.floor.next()..);
        self.promised.len() >= quorum && open.all(|(slot, _)| self.witnesses(*slot).len() >= quorum)
    }

    fn gather(&mut self, from: NodeId, page: Promise) {
        for slot in &page.unknown {
            self.unknown.entry(*slot).or_default().insert(from);
        }
        self.floor = self.floor.max(page.decided).max(page.trimmed);
        self.wall = self.wall.max(page.wall);
        for vote in page.votes {
            self.votes.entry(vote.slot).or_default().insert(from, vote);
        }
    }

    /// What is to be proposed, once the quorum is complete.
    fn found(&self, quorums: &FastQuorums) -> PhaseOneFound {
        let mut values = BTreeMap::new();
        for (slot, votes) in self.votes.range(self.floor.next()..) {
            let witnesses = self.witnesses(*slot);
            let votes = votes.iter().filter(|(node, _)| witnesses.contains(**node));
            let votes: Vec<&Vote> = votes.map(|(_, vote)| vote).collect();
            let rounds: Vec<_> = votes.iter().map(|vote| (vote.ballot, vote.kind)).collect();
            match select(&rounds, witnesses.len(), quorums) {
                Selection::Free => {}
                Selection::Bound(place) | Selection::Collided(place) => {
                    values.insert(*slot, votes[place].batch.clone());
                }
            }
        }
        PhaseOneFound {
            values,
            floor: self.floor,
            wall: self.wall,
        }
    }
}

impl FastPaxos {
    /// Uses a ballot of its own, also where it leads in a lower one.
    pub(crate) fn begin_phase1(&mut self, now: Time, effects: &mut Effects<Message>) {
        assert!(
            self.seat.acceptor.is_voter(),
            "only an acceptor with a vote may lead"
        );
        let seat = &mut self.seat;
        let highest = seat.acceptor.promised().max(seat.election.highest);
        let own = seat.config.own;
        let ballot = highest.next(seat.config.view.number, own, seat.config.boot);
        let from = seat.acceptor.log.decided().next();
        seat.election.highest = ballot;
        seat.election.begun += 1;
        seat.election.heard = now;
        self.part = Part::Candidate(Box::new(Candidate {
            ballot,
            from,
            is_announced: false,
            awaited: BTreeMap::new(),
            promised: NodeSet::empty(),
            unknown: BTreeMap::new(),
            votes: BTreeMap::new(),
            floor: Slot::ZERO,
            wall: Wall(0),
            deadline: now + seat.config.timing.election_min,
            resend_at: now + seat.config.timing.resend,
        }));
        seat.acceptor.promise(ballot, own, from, effects);
        seat.forget_old_values();
        seat.leader_changed();
    }

    /// The own promise of `ballot` is durable: the others may be asked.
    pub(crate) fn own_promise_is_durable(
        &mut self,
        now: Time,
        ballot: Ballot,
        effects: &mut Effects<Message>,
    ) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        if candidate.ballot != ballot || candidate.is_announced {
            return;
        }
        candidate.is_announced = true;
        let from = candidate.from;
        let own = self.seat.config.own;
        let page = (self.seat.acceptor).page(ballot, from, usize::MAX, usize::MAX);
        let to = self.seat.config.view.acceptors.without(own);
        let ask = Message::Prepare(Prepare { ballot, from });
        self.seat.send(to, Lane::Urgent, ask, effects);
        self.on_promise(now, own, page, effects);
    }

    pub(crate) fn on_prepare(
        &mut self,
        now: Time,
        from: NodeId,
        Prepare {
            ballot,
            from: first,
        }: Prepare,
        effects: &mut Effects<Message>,
    ) {
        if !self.seat.acceptor.is_voter() {
            return;
        }
        let promised = self.seat.acceptor.promised();
        if ballot < promised {
            let nack = Message::Nack(Nack { ballot, promised });
            let to = NodeSet::only(from);
            self.seat.send(to, Lane::Urgent, nack, effects);
            return;
        }
        if ballot > promised {
            self.yield_to(now, ballot, effects);
            self.seat.heard_candidate(now, ballot);
        }
        self.seat.acceptor.promise(ballot, from, first, effects);
        self.seat.forget_old_values();
    }

    pub(crate) fn on_promise(
        &mut self,
        now: Time,
        from: NodeId,
        page: Promise,
        effects: &mut Effects<Message>,
    ) {
        self.seat.peers.note_decided(from, page.decided);
        let is_acceptor = self.seat.config.view.acceptors.contains(from);
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        let is_awaited = candidate.ballot == page.ballot
            && candidate.awaited_from(from) == page.from
            && !candidate.promised.contains(from);
        if !is_awaited || !is_acceptor {
            return;
        }
        let next = page.next;
        candidate.gather(from, page);
        if let Some(next) = next {
            candidate.awaited.insert(from, next);
            let ballot = candidate.ballot;
            let ask = Message::Prepare(Prepare { ballot, from: next });
            let to = NodeSet::only(from);
            self.seat.send(to, Lane::Urgent, ask, effects);
            return;
        }
        candidate.promised.insert(from);
        let quorums = &self.seat.quorums;
        if candidate.is_complete(quorums.classic().phase1()) {
            let ballot = candidate.ballot;
            let promised = candidate.promised;
            let found = candidate.found(quorums);
            self.begin_leading(now, ballot, promised, found, effects);
        }
    }

    pub(crate) fn wake_candidate(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        if now >= candidate.deadline {
            self.abandon(now);
            return;
        }
        if now < candidate.resend_at {
            return;
        }
        candidate.resend_at = now + self.seat.config.timing.resend;
        if !candidate.is_announced {
            return;
        }
        let ballot = candidate.ballot;
        let own = self.seat.config.own;
        let silent = self.seat.config.view.acceptors.without(own).iter();
        let silent = silent.filter(|node| !candidate.promised.contains(*node));
        let asks: Vec<_> = silent
            .map(|node| (node, candidate.awaited_from(node)))
            .collect();
        for (node, from) in asks {
            let ask = Message::Prepare(Prepare { ballot, from });
            let to = NodeSet::only(node);
            self.seat.send(to, Lane::Urgent, ask, effects);
        }
    }

    /// The attempt failed; another follows after a while, if nobody else leads by then.
    pub(crate) fn abandon(&mut self, now: Time) {
        self.part = Part::Follower;
        self.seat.election.leader = None;
        self.seat.retry_later(now);
    }
}

impl Seat {
    /// A promise is durable: sends the page that was asked for.
    pub(crate) fn tell_promise(
        &mut self,
        to: NodeId,
        ballot: Ballot,
        from: Slot,
        effects: &mut Effects<Message>,
    ) {
        // A promise below a higher one still holds, but sending it helps nobody.
        if ballot != self.acceptor.promised() {
            return;
        }
        let limits = &self.config.limits;
        let page = (self.acceptor).page(ballot, from, limits.chunk_slots, limits.chunk_bytes);
        let promise = Message::Promise(Box::new(page));
        self.send(NodeSet::only(to), Lane::Urgent, promise, effects);
    }
}
