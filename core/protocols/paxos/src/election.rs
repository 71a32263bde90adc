//! When a node tries to lead: suspicion of the leader, and the pre-vote before a ballot is used.
//!
//! A node that misses its leader first asks whether a phase-1 quorum misses it too. Only then does it begin
//! phase 1, so a node that returns, or that alone lost its link, replaces no leader. The leader of the view before
//! begins it at once: nobody leads the new view (claim mp-77). Slots are the candidate's business.

use crate::message::{Message, PreVote, PreVoted, TakeOver};
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Duration, NodeId, NodeSet, Slot, Time};

/// The most times that the wait between two pre-votes doubles.
const DOUBLINGS_MAX: u32 = 5;

/// What a node knows of other nodes' leadership.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Election {
    /// The ballot of the leader that is followed, until it is suspected.
    pub(crate) leader: Option<Ballot>,
    /// When the leader, or a candidate that was promised a ballot, was last heard.
    pub(crate) heard: Time,
    /// How long its silence is tolerated; drawn anew for each leader.
    patience: Duration,
    /// A try is due at this time, whatever the tolerated silence.
    due: Option<Time>,
    /// No pre-vote is granted before this time: a promise was just given.
    quiet_until: Time,
    /// The end of the span in which a candidate that lags far is denied its pre-vote in favour of a better
    /// one, and a node that lacks a snapshot does not stand. Set when first needed, once per search for a leader.
    preferring_until: Option<Time>,
    /// Tries since a leader was last heard.
    tries: u32,
    attempt: u64,
    granted: NodeSet,
    /// The highest ballot heard of in any way.
    pub(crate) highest: Ballot,
    /// Ballots tried since the start.
    pub(crate) begun: u64,
    /// This node led the view before, and has not stood in this one: there is no leader here that a pre-vote would protect.
    is_successor: bool,
    /// The ballot in which it needs no phase 1, until it stands for the first time.
    first: Option<Ballot>,
}

impl Election {
    pub(crate) fn new(now: Time, patience: Duration) -> Election {
        Election {
            leader: None,
            heard: now,
            patience,
            due: None,
            quiet_until: now,
            preferring_until: None,
            tries: 0,
            attempt: 0,
            granted: NodeSet::empty(),
            highest: Ballot::ZERO,
            begun: 0,
            is_successor: false,
            first: None,
        }
    }

    /// This node leads: the search for a leader is over.
    pub(crate) fn leads(&mut self) {
        self.leader = None;
        self.preferring_until = None;
    }

    /// It stands at once, without pre-votes if it led the view before, and without phase 1 if this view names it.
    pub(crate) fn stand_at_once(&mut self, led_before: bool, first: Option<Ballot>) {
        self.patience = Duration::ZERO;
        self.is_successor = led_before;
        self.first = first;
    }

    /// Whether it stands as the leader of the view before, and nobody was heard of in this one. Once, and not after `span`: by then
    /// others may have a leader of whom this node has not heard.
    fn succeeds(&mut self, now: Time, span: Duration) -> bool {
        let is_soon = now.since(self.heard) < span;
        std::mem::take(&mut self.is_successor) && is_soon && self.highest == Ballot::ZERO
    }

    /// When the leader is missed, if nothing is heard until then.
    pub(crate) fn missed_at(&self) -> Time {
        self.due.unwrap_or(self.heard + self.patience)
    }
}

impl MultiPaxos {
    /// The leader is missed: ask whether others miss it too.
    pub(crate) fn ask_pre_votes(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.seat.election.leader = None;
        self.seat.election.tries += 1;
        self.seat.election.attempt += 1;
        self.seat.election.granted = NodeSet::empty();
        self.seat.retry_later(now);
        let bound = self.seat.acceptor.bound_until(self.seat.config.own);
        if bound > now {
            self.seat.election.due = Some(bound);
            return;
        }
        if let Some(until) = self.seat.stands_back_until(now) {
            self.seat.election.due = Some(until);
            return;
        }
        let span = self.seat.config.timing.election_min;
        let is_successor = self.seat.election.succeeds(now, span);
        let first = self.seat.election.first.take();
        if is_successor && self.seat.acceptor.promised() == Ballot::ZERO {
            self.seat.election.due = None;
            return match first {
                Some(ballot) => self.lead_first(now, ballot, effects),
                None => self.begin_phase1(now, effects),
            };
        }
        let attempt = self.seat.election.attempt;
        let decided = self.seat.acceptor.log.decided();
        let to = self
            .seat
            .config
            .view
            .acceptors
            .without(self.seat.config.own);
        self.seat.send(
            to,
            Lane::Urgent,
            Message::PreVote(PreVote { attempt, decided }),
            effects,
        );
        self.count_grant(now, self.seat.config.own, effects);
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
        let answer = Message::PreVoted(PreVoted {
            attempt,
            is_granted,
            promised: self
                .seat
                .acceptor
                .promised()
                .max(self.seat.election.highest),
            decided: self.seat.acceptor.log.decided(),
        });
        self.seat
            .send(NodeSet::only(from), Lane::Urgent, answer, effects);
    }

    /// Whether this acceptor would promise `candidate` a ballot.
    fn misses_leader(&self, now: Time, candidate: NodeId) -> bool {
        let is_bound = self.seat.acceptor.bound_until(candidate) > now;
        let is_idle = match &self.part {
            Part::Follower => true,
            Part::Candidate(_) | Part::Leader(_) => false,
        };
        let misses = match self.seat.election.leader {
            None => true,
            Some(leader) => {
                leader.node == candidate
                    || !self.seat.peers.is_linked(leader.node)
                    || now.since(self.seat.election.heard) >= self.seat.config.timing.election_min
            }
        };
        is_idle && misses && !is_bound && now >= self.seat.election.quiet_until
    }

    pub(crate) fn on_pre_voted(
        &mut self,
        now: Time,
        from: NodeId,
        PreVoted {
            attempt,
            is_granted,
            promised,
            ..
        }: PreVoted,
        effects: &mut Effects<Message>,
    ) {
        self.seat.election.highest = self.seat.election.highest.max(promised);
        let is_current = attempt == self.seat.election.attempt && self.seat.election.due.is_some();
        if is_current && is_granted && matches!(self.part, Part::Follower) {
            self.count_grant(now, from, effects);
        }
    }

    fn count_grant(&mut self, now: Time, from: NodeId, effects: &mut Effects<Message>) {
        self.seat.election.granted.insert(from);
        if self.seat.election.granted.len() >= self.seat.config.view.quorums.phase1() {
            self.seat.election.granted = NodeSet::empty();
            self.seat.election.due = None;
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
    /// Pre-votes that are still granted have no effect.
    pub(crate) fn stand_no_more(&mut self) {
        self.election.leader = None;
        self.election.due = None;
        self.election.granted = NodeSet::empty();
    }

    /// The leader of `ballot` was heard.
    pub(crate) fn heard_leader(&mut self, now: Time, ballot: Ballot) {
        let is_linked = self.peers.is_linked(ballot.node);
        let election = &mut self.election;
        if election.due.is_some() && !is_linked {
            // It was in flight when the link went down: its sender may be dead.
            return;
        }
        election.heard = now;
        election.preferring_until = None;
        if election.leader == Some(ballot) && election.due.is_none() {
            return;
        }
        election.due = None;
        election.tries = 0;
        election.granted = NodeSet::empty();
        election.highest = election.highest.max(ballot);
        if election.leader != Some(ballot) {
            election.leader = Some(ballot);
            let timing = &self.config.timing;
            election.patience = self.random.span(timing.election_min, timing.election_max);
            self.leader_changed();
        }
    }

    /// A candidate was promised a ballot: it gets time to succeed.
    pub(crate) fn heard_candidate(&mut self, now: Time, ballot: Ballot) {
        let timing = &self.config.timing;
        let election = &mut self.election;
        election.leader = None;
        election.heard = now;
        election.patience = self.random.span(timing.election_min, timing.election_max);
        election.due = None;
        election.highest = election.highest.max(ballot);
        election.quiet_until = now + timing.resend;
    }

    /// The link to the leader, or to the candidate that was promised a ballot, went down: the death of a
    /// process shows at once (claim mp-39).
    pub(crate) fn suspect_soon(&mut self, now: Time) {
        let timing = &self.config.timing;
        let wait = self.random.span(timing.retry_min, timing.retry_max);
        self.election.leader = None;
        self.election.quiet_until = now;
        self.election.due = Some(now + wait);
    }

    /// Another try follows after a wait that grows with each failure.
    pub(crate) fn retry_later(&mut self, now: Time) {
        let timing = &self.config.timing;
        let doublings = self.election.tries.min(DOUBLINGS_MAX);
        let most = Duration(timing.retry_max.0 << doublings).min(timing.election_max);
        let wait = self.random.span(timing.retry_min.min(most), most);
        self.election.due = Some(now + wait);
    }

    /// While its replica waits for a snapshot, a leader can order no more than a window of slots. So another
    /// acceptor goes first; only for a bounded time, because none may be able to win (claim mp-38).
    fn stands_back_until(&mut self, now: Time) -> Option<Time> {
        let lacks_snapshot = self.lacks_snapshot();
        let view = &self.config.view;
        let mut peers = self.peers.iter();
        let is_other_linked = peers.any(|peer| view.may_lead(peer.node) && peer.link.is_some());
        if !lacks_snapshot || !is_other_linked {
            return None;
        }
        let span = self.config.timing.election_max;
        let until = *self.election.preferring_until.get_or_insert(now + span);
        (now < until).then_some(until)
    }

    /// Whether a candidate with this decided prefix should let a better one go first. It could lead only
    /// after it has learned the slots that this acceptor, or one linked to it, knows already. The better one
    /// is preferred for a bounded time, because it may be unable to win (claim mp-38).
    fn prefers_another(&mut self, now: Time, decided: Slot) -> bool {
        let view = &self.config.view;
        let own = match view.may_lead(self.config.own) {
            true => self.acceptor.log.decided(),
            false => Slot::ZERO,
        };
        let linked = self.peers.iter();
        let linked = linked.filter(|peer| view.may_lead(peer.node) && peer.link.is_some());
        let furthest = linked.map(|peer| peer.decided).fold(own, Slot::max);
        let timing = &self.config.timing;
        let far = self.config.limits.chunk_slots as u64;
        let span = if decided < self.acceptor.log.trimmed() {
            timing.election_max
        } else if furthest.since(decided) > far {
            timing.resend
        } else {
            return false;
        };
        let until = *self.election.preferring_until.get_or_insert(now + span);
        if now >= until {
            return false;
        }
        if own.since(decided) > far {
            // The better candidate is this node: it stands at once.
            self.election.due = Some(now);
        }
        true
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
