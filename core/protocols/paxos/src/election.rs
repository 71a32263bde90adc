//! When a node tries to lead: suspicion of the leader, and the pre-vote before a ballot is used.
//!
//! A node that misses its leader first asks whether a phase-1 quorum misses it too. Only then does it begin
//! phase 1, so a node that returns, or that alone lost its link, replaces no leader. The leader of the view before
//! begins it at once: nobody leads the new view (claim mp-77). Slots are the candidate's business.

use crate::message::{Message, PreVote, PreVoted, TakeOver};
use crate::{MultiPaxos, Part, Seat};
use quorate_acceptor::Rivals;
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};

impl MultiPaxos {
    /// The leader is missed: ask whether others miss it too.
    pub(crate) fn ask_pre_votes(&mut self, now: Time, effects: &mut Effects<Message>) {
        let own = self.seat.config.own;
        self.seat.election.leader = None;
        self.seat.election.try_again(now);
        let bound = self.seat.acceptor.bound_until(own);
        if bound > now {
            self.seat.election.put_off(bound);
            return;
        }
        if let Some(until) = self.seat.stands_back_until(now) {
            self.seat.election.put_off(until);
            return;
        }
        let promised = self.seat.acceptor.promised();
        let first = self.seat.election.take_first();
        if self.seat.election.succeeds(now, promised) {
            return match first {
                Some(ballot) => self.lead_first(now, ballot, effects),
                None => self.begin_phase1(now, effects),
            };
        }
        let decided = self.seat.acceptor.log.decided();
        let ask = Message::PreVote(self.seat.election.ask(decided));
        let to = self.seat.config.view.acceptors.without(own);
        self.seat.send(to, Lane::Urgent, ask, effects);
        self.count_grant(now, own, effects);
    }

    pub(crate) fn on_pre_vote(
        &mut self,
        now: Time,
        from: NodeId,
        PreVote { attempt, decided }: PreVote,
        effects: &mut Effects<Message>,
    ) {
        self.seat.peers.note_decided(from, decided);
        if !self.seat.acceptor.is_voter() {
            return;
        }
        let is_granted = self.misses_leader(now, from)
            && (!self.seat.prefers_another(now, decided)
                || planted(Plant::LaggingCandidateGranted));
        let promised = self.seat.acceptor.promised();
        let answer = Message::PreVoted(PreVoted {
            attempt,
            is_granted,
            promised: promised.max(self.seat.election.highest()),
            decided: self.seat.acceptor.log.decided(),
        });
        let to = NodeSet::only(from);
        self.seat.send(to, Lane::Urgent, answer, effects);
    }

    /// Whether this acceptor would promise `candidate` a ballot.
    fn misses_leader(&self, now: Time, candidate: NodeId) -> bool {
        let is_bound = self.seat.acceptor.bound_until(candidate) > now;
        let is_idle = match &self.part {
            Part::Follower => true,
            Part::Candidate(_) | Part::Leader(_) => false,
        };
        let is_linked = |node| self.seat.peers.is_linked(node);
        let misses = (self.seat.election).misses_leader(now, candidate, is_linked);
        is_idle && misses && !is_bound
    }

    pub(crate) fn on_pre_voted(
        &mut self,
        now: Time,
        from: NodeId,
        answer: PreVoted,
        effects: &mut Effects<Message>,
    ) {
        let is_granted = self.seat.election.is_granted(answer);
        if is_granted && matches!(self.part, Part::Follower) {
            self.count_grant(now, from, effects);
        }
    }

    fn count_grant(&mut self, now: Time, from: NodeId, effects: &mut Effects<Message>) {
        let needed = self.seat.config.view.quorums.phase1();
        if self.seat.election.count_grant(from, needed) {
            self.begin_phase1(now, effects);
        }
    }

    /// The leader shuts down and names this node as its successor: no pre-vote is needed.
    pub(crate) fn on_take_over(
        &mut self,
        now: Time,
        TakeOver { ballot }: TakeOver,
        effects: &mut Effects<Message>,
    ) {
        let is_free = matches!(self.part, Part::Follower)
            && self.may_stand()
            && self.seat.acceptor.bound_until(self.seat.config.own) <= now;
        if is_free && ballot >= self.seat.acceptor.promised() {
            self.seat.election.leader = None;
            self.begin_phase1(now, effects);
        }
    }
}

impl Seat {
    /// The leader of `ballot` was heard.
    pub(crate) fn heard_leader(&mut self, now: Time, ballot: Ballot) {
        let is_linked = self.peers.is_linked(ballot.node);
        if self.election.heard_leader(now, ballot, is_linked) {
            self.leader_changed();
        }
    }

    /// Until when this node lets another one go first, because its replica waits for a snapshot.
    fn stands_back_until(&mut self, now: Time) -> Option<Time> {
        let view = &self.config.view;
        let is_other_linked = self.peers.linked().any(|peer| view.may_lead(peer.node));
        if !self.lacks_snapshot() || !is_other_linked {
            return None;
        }
        self.election.stands_back_until(now)
    }

    /// Whether a candidate with this decided prefix should let a better one go first.
    fn prefers_another(&mut self, now: Time, decided: Slot) -> bool {
        let view = &self.config.view;
        let own = match view.may_lead(self.config.own) {
            true => self.acceptor.log.decided(),
            false => Slot::ZERO,
        };
        let linked = self.peers.linked().filter(|peer| view.may_lead(peer.node));
        let rivals = Rivals {
            own,
            furthest: linked.map(|peer| peer.decided).fold(own, Slot::max),
            trimmed: self.acceptor.log.trimmed(),
            far: self.config.limits.chunk_slots as u64,
        };
        self.election.prefers_another(now, decided, rivals)
    }

    pub(crate) fn send(
        &self,
        to: NodeSet,
        lane: Lane,
        message: Message,
        effects: &mut Effects<Message>,
    ) {
        if !to.is_empty() {
            effects.push(Effect::Send { to, lane, message });
        }
    }
}
