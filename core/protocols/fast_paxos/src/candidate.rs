//! Phase 1: a candidate gets the promises of a quorum for its ballot, and finds for each slot what may have been decided.
//!
//! All votes that were told are kept until the quorum is complete: in a fast round it is their number that counts. An acceptor
//! that may have lost its vote in a slot is no witness there.

use crate::message::{Message, Nack, Prepare};
use crate::selection::{Selection, select};
use crate::{FastPaxos, Part, Seat};
use quorate_acceptor::{PhaseOne, Promise, Vote};
use quorate_ordering::{Effects, Lane};
use quorate_types::{Ballot, Batch, FastQuorums, NodeId, NodeSet, Slot, Time, Wall};
use std::collections::BTreeMap;

/// One attempt to lead.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) phase: PhaseOne,
    votes: BTreeMap<Slot, BTreeMap<NodeId, Vote>>,
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
    /// Takes what a page has. Returns the question for the next one.
    fn gather(&mut self, from: NodeId, page: Promise) -> Option<Prepare> {
        let ask = self.phase.gather(from, &page);
        for vote in page.votes {
            self.votes.entry(vote.slot).or_default().insert(from, vote);
        }
        ask
    }

    /// What is to be proposed, once the quorum is complete.
    fn found(&self, quorums: &FastQuorums) -> PhaseOneFound {
        let mut values = BTreeMap::new();
        for (slot, votes) in self.votes.range(self.phase.floor().next()..) {
            let witnesses = self.phase.witnesses(*slot);
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
            floor: self.phase.floor(),
            wall: self.phase.wall(),
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
        let highest = seat.acceptor.promised().max(seat.election.highest());
        let own = seat.config.own;
        let ballot = highest.next(seat.config.view.number, own, seat.config.boot);
        let from = seat.acceptor.log.decided().next();
        seat.election.begin(now, ballot);
        let timing = &seat.config.timing;
        self.part = Part::Candidate(Box::new(Candidate {
            phase: PhaseOne::new(now, ballot, from, timing),
            votes: BTreeMap::new(),
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
        let Some(ask) = candidate.phase.announce(ballot) else {
            return;
        };
        let own = self.seat.config.own;
        let page = (self.seat.acceptor).page(ballot, ask.from, usize::MAX, usize::MAX);
        let to = self.seat.config.view.acceptors.without(own);
        self.seat
            .send(to, Lane::Urgent, Message::Prepare(ask), effects);
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
            self.seat.election.heard_candidate(now, ballot);
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
        if !candidate.phase.awaits(from, &page) || !is_acceptor {
            return;
        }
        if let Some(ask) = candidate.gather(from, page) {
            let to = NodeSet::only(from);
            self.seat
                .send(to, Lane::Urgent, Message::Prepare(ask), effects);
            return;
        }
        let quorums = &self.seat.quorums;
        if candidate.phase.is_complete(quorums.classic().phase1()) {
            let ballot = candidate.phase.ballot();
            let promised = candidate.phase.promised();
            let found = candidate.found(quorums);
            self.begin_leading(now, ballot, promised, found, effects);
        }
    }

    pub(crate) fn wake_candidate(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        if candidate.phase.is_over(now) {
            self.abandon(now);
            return;
        }
        let others = (self.seat.config.view.acceptors).without(self.seat.config.own);
        let timing = &self.seat.config.timing;
        for (node, ask) in candidate.phase.ask_again(now, others, timing) {
            let to = NodeSet::only(node);
            self.seat
                .send(to, Lane::Urgent, Message::Prepare(ask), effects);
        }
    }

    /// The attempt failed; another follows after a while, if nobody else leads by then.
    pub(crate) fn abandon(&mut self, now: Time) {
        self.part = Part::Follower;
        self.seat.election.leader = None;
        self.seat.election.retry_later(now);
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
