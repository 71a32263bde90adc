//! Phase 1: a candidate gets the promises of a quorum for its ballot, and collects their votes.
//!
//! The candidate's own promise is durable before it tells others of the ballot. It proposes nothing. When
//! a quorum has sent all its pages, the leader takes over the votes found.

use crate::message::{Message, Nack, Prepare};
use crate::{MultiPaxos, Part, Seat};
use quorate_acceptor::{Promise, Vote};
use quorate_ordering::{Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time, Wall};
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
    pub(crate) found: PhaseOneFound,
    deadline: Time,
    resend_at: Time,
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
    pub(crate) fn wake_at(&self) -> Time {
        self.deadline.min(self.resend_at)
    }

    fn awaited_from(&self, node: NodeId) -> Slot {
        self.awaited.get(&node).copied().unwrap_or(self.from)
    }

    /// Whether enough acceptors sent their pages: for every slot `quorum` of them, without those that answered `unknown` there.
    /// Decided slots need no witness. Claim mp-45.
    fn is_complete(&self, quorum: usize) -> bool {
        let open = self.unknown.range(self.found.floor.next()..);
        let told = |node: &NodeId| self.promised.contains(*node);
        let ignorant = open.map(|(_, nodes)| nodes.iter().filter(told).count());
        self.promised.len() >= quorum + ignorant.max().unwrap_or(0)
    }

    fn gather(&mut self, from: NodeId, page: Promise) {
        for slot in &page.unknown {
            self.unknown.entry(*slot).or_default().insert(from);
        }
        if planted(Plant::FloorOfLastPromise) {
            self.found.floor = Slot::ZERO;
        }
        self.found.floor = self.found.floor.max(page.decided).max(page.trimmed);
        self.found.wall = self.found.wall.max(page.wall);
        for vote in page.votes {
            match self.found.votes.get(&vote.slot) {
                Some(known) if outranks(known, &vote) => {}
                Some(known) if known.ballot == vote.ballot => {
                    assert!(
                        known.batch == vote.batch,
                        "one ballot proposes one batch a slot"
                    );
                }
                Some(_) | None => {
                    self.found.votes.insert(vote.slot, vote);
                }
            }
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
            .max(self.seat.election.highest);
        if is_reused {
            highest = self.seat.acceptor.promised();
        }
        let boot = if is_reused { 0 } else { self.seat.config.boot };
        let ballot = highest.next(self.seat.config.view.number, self.seat.config.own, boot);
        let from = self.seat.acceptor.log.decided().next();
        self.seat.election.highest = ballot;
        self.seat.election.begun += 1;
        self.seat.election.heard = now;
        self.part = Part::Candidate(Box::new(Candidate {
            ballot,
            from,
            is_announced: false,
            awaited: BTreeMap::new(),
            promised: NodeSet::empty(),
            unknown: BTreeMap::new(),
            found: PhaseOneFound::default(),
            deadline: now + self.seat.config.timing.election_min,
            resend_at: now + self.seat.config.timing.resend,
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
        if candidate.ballot != ballot || candidate.is_announced {
            return;
        }
        candidate.is_announced = true;
        let from = candidate.from;
        let page = self
            .seat
            .acceptor
            .page(ballot, from, usize::MAX, usize::MAX);
        let to = self
            .seat
            .config
            .view
            .acceptors
            .without(self.seat.config.own);
        self.seat.send(
            to,
            Lane::Urgent,
            Message::Prepare(Prepare { ballot, from }),
            effects,
        );
        self.on_promise(now, self.seat.config.own, page, effects);
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
            self.seat.heard_candidate(now, ballot);
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
        let is_awaited = candidate.ballot == page.ballot
            && candidate.awaited_from(from) == page.from
            && !candidate.promised.contains(from);
        if !is_awaited || !is_acceptor {
            return;
        }
        let next = page.next;
        candidate.gather(from, page);
        if let Some(next) = next.filter(|_| !planted(Plant::PromisePagesSkipped)) {
            candidate.awaited.insert(from, next);
            let ballot = candidate.ballot;
            let ask = Message::Prepare(Prepare { ballot, from: next });
            self.seat
                .send(NodeSet::only(from), Lane::Urgent, ask, effects);
            return;
        }
        candidate.promised.insert(from);
        let is_skipped = planted(Plant::PhaseOneSkipped) && !candidate.found.votes.is_empty()
            || planted(Plant::NextViewWithoutPhaseOne) && candidate.ballot.view.0 > 1;
        let quorums = self.seat.config.view.quorums;
        let needed = match planted(Plant::PhaseOneByPhaseTwo) {
            true => quorums.phase2(),
            false => quorums.phase1(),
        };
        if candidate.is_complete(needed) || is_skipped {
            let ballot = candidate.ballot;
            let found = std::mem::take(&mut candidate.found);
            self.begin_leading(now, ballot, found, effects);
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
        let asks: Vec<(NodeId, Slot)> = (self.seat.config.view.acceptors.iter())
            .filter(|node| *node != self.seat.config.own && !candidate.promised.contains(*node))
            .map(|node| (node, candidate.awaited_from(node)))
            .collect();
        for (node, from) in asks {
            let ask = Message::Prepare(Prepare { ballot, from });
            self.seat
                .send(NodeSet::only(node), Lane::Urgent, ask, effects);
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
