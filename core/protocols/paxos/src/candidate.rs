//! Phase 1: a candidate gets the promises of a quorum for its ballot, and collects their votes.
//!
//! The candidate's own promise is durable before it tells others of the ballot. It proposes nothing. When
//! a quorum has sent all its pages, the leader takes over the votes found.

use crate::message::{Message, Nack, Prepare};
use crate::{MultiPaxos, Part, Seat};
use quorate_acceptor::{PhaseOne, Promise, Vote};
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time, Wall};
use std::collections::BTreeMap;

/// One attempt to lead.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) phase: PhaseOne,
    /// For each slot, the vote in the highest ballot.
    votes: BTreeMap<Slot, Vote>,
}

/// The votes and decisions that a phase-1 quorum reported.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PhaseOneFound {
    /// For each slot, the vote in the highest ballot.
    pub(crate) votes: BTreeMap<Slot, Vote>,
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
            match self.votes.get(&vote.slot) {
                Some(known) if outranks(known, &vote) => {}
                Some(known) if known.ballot == vote.ballot => {
                    assert!(
                        known.batch == vote.batch,
                        "one ballot proposes one batch a slot"
                    );
                }
                Some(_) | None => {
                    self.votes.insert(vote.slot, vote);
                }
            }
        }
        ask
    }

    /// What is to be proposed, once the quorum is complete.
    fn found(&mut self) -> PhaseOneFound {
        PhaseOneFound {
            votes: std::mem::take(&mut self.votes),
            floor: self.phase.floor(),
            wall: self.phase.wall(),
        }
    }
}

/// Whether the vote known for a slot takes precedence over another vote reported for it.
fn outranks(known: &Vote, vote: &Vote) -> bool {
    if planted(Plant::LowestBallotWins) {
        return known.ballot < vote.ballot;
    }
    known.ballot > vote.ballot
}

impl MultiPaxos {
    pub(crate) fn begin_phase1(&mut self, now: Time, effects: &mut Effects<Message>) {
        assert!(
            self.seat.acceptor.is_voter(),
            "only an acceptor with a vote may lead"
        );
        let is_reused = planted(Plant::BallotReused);
        let mut highest = self
            .seat
            .acceptor
            .promised()
            .max(self.seat.election.highest());
        if is_reused {
            highest = self.seat.acceptor.promised();
        }
        let boot = if is_reused { 0 } else { self.seat.config.boot };
        let ballot = highest.next(self.seat.config.view.number, self.seat.config.own, boot);
        let from = self.seat.acceptor.log.decided().next();
        self.seat.election.begin(now, ballot);
        let timing = &self.seat.config.timing;
        self.part = Part::Candidate(Box::new(Candidate {
            phase: PhaseOne::new(now, ballot, from, timing),
            votes: BTreeMap::new(),
        }));
        self.seat
            .acceptor
            .promise(ballot, self.seat.config.own, from, effects);
        if is_reused {
            self.own_promise_is_durable(now, ballot, effects);
        }
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
            self.seat
                .send(NodeSet::only(from), Lane::Urgent, nack, effects);
            return;
        }
        if ballot > promised {
            if self.seat.acceptor.bound_until(ballot.node) > now {
                return;
            }
            self.yield_to(now, ballot, effects);
            self.seat.election.heard_candidate(now, ballot);
        }
        self.seat.acceptor.promise(ballot, from, first, effects);
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
        let is_skipped = planted(Plant::PhaseOneSkipped) && !candidate.votes.is_empty()
            || planted(Plant::NextViewWithoutPhaseOne) && candidate.phase.ballot().view.0 > 1;
        let quorums = self.seat.config.view.quorums;
        let needed = match planted(Plant::PhaseOneByPhaseTwo) {
            true => quorums.phase2(),
            false => quorums.phase1(),
        };
        if candidate.phase.is_complete(needed) || is_skipped {
            let ballot = candidate.phase.ballot();
            let found = candidate.found();
            self.begin_leading(now, ballot, found, effects);
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
        let page = self
            .acceptor
            .page(ballot, from, limits.chunk_slots, limits.chunk_bytes);
        self.send(
            NodeSet::only(to),
            Lane::Urgent,
            Message::Promise(Box::new(page)),
            effects,
        );
    }
}
