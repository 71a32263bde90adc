//! When a node tries to lead: how long it tolerates silence, which pre-votes it grants, and which it was granted.
//!
//! It sends nothing and counts no quorum: a protocol asks it and acts. All randomness of timeouts is here.

use crate::message::{PreVote, PreVoted};
use crate::random::Random;
use quorate_ordering::Timing;
use quorate_types::{Ballot, Duration, NodeId, NodeSet, Slot, Time};

/// The most times that the wait between two pre-votes doubles.
const DOUBLINGS_MAX: u32 = 5;

/// What a node knows of other nodes' leadership.
#[derive(Clone, PartialEq, Debug)]
pub struct Election {
    timing: Timing,
    random: Random,
    /// The ballot of the leader that is followed, until it is suspected.
    pub leader: Option<Ballot>,
    /// When the leader, or a candidate that was promised a ballot, was last heard.
    heard: Time,
    /// How long its silence is tolerated; drawn anew for each leader.
    patience: Duration,
    /// A try is due at this time, whatever the tolerated silence.
    due: Option<Time>,
    /// No pre-vote is granted before this time: a promise was just given.
    quiet_until: Time,
    /// The end of the span in which a candidate that lags far is denied its pre-vote in favour of a better
    /// one, and a node that lacks a snapshot does not stand. Set when first needed, once per search for a leader.
    preferring_until: Option<Time>,
    /// Tries since a leader was last heard, or this node led.
    tries: u32,
    attempt: u64,
    granted: NodeSet,
    /// The highest ballot heard of in any way.
    highest: Ballot,
    /// Ballots tried since the start.
    begun: u64,
    /// This node led the view before, and has not stood in this one: there is no leader here that a pre-vote would protect.
    is_successor: bool,
    /// The ballot in which it needs no phase 1, until it stands for the first time.
    first: Option<Ballot>,
}

/// How far those have come that may lead, as an acceptor knows that is asked for a pre-vote.
#[derive(Clone, Copy, Debug)]
pub struct Rivals {
    /// The decided prefix of the acceptor; slot 0 if it may not lead.
    pub own: Slot,
    /// The furthest of its own and those of nodes linked to it.
    pub furthest: Slot,
    /// Where its log begins.
    pub trimmed: Slot,
    /// Who lags by more slots lags far.
    pub far: u64,
}

impl Election {
    /// A node that knows of no leader, in a view with so many acceptors: if there is one, it waits for nobody.
    #[must_use]
    pub fn new(now: Time, seed: u64, timing: Timing, acceptors: usize) -> Election {
        let mut random = Random::new(seed);
        let patience = match acceptors {
            1 => Duration::ZERO,
            _ => random.span(timing.retry_max, timing.election_min),
        };
        Election {
            timing,
            random,
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

    /// Ballots tried since the start.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The highest ballot heard of in any way.
    #[must_use]
    pub fn highest(&self) -> Ballot {
        self.highest
    }

    /// Somebody promised or uses `ballot`.
    pub fn heard_of(&mut self, ballot: Ballot) {
        self.highest = self.highest.max(ballot);
    }

    /// This node uses `ballot`.
    pub fn begin(&mut self, now: Time, ballot: Ballot) {
        self.highest = ballot;
        self.begun += 1;
        self.heard = now;
    }

    /// This node leads: the search for a leader is over.
    pub fn leads(&mut self) {
        self.leader = None;
        self.preferring_until = None;
        self.tries = 0;
    }

    /// It stands at once, without pre-votes if it succeeds the leader of the view before, and without phase 1 if this view names it.
    pub fn stand_at_once(&mut self, succeeds: bool, first: Option<Ballot>) {
        self.patience = Duration::ZERO;
        self.is_successor = succeeds;
        self.first = first;
    }

    /// The ballot in which it needs no phase 1; once.
    pub fn take_first(&mut self) -> Option<Ballot> {
        self.first.take()
    }

    /// Whether it stands as the successor of the leader of the view before: nobody was heard of in this one, and nothing is `promised`. Once, and only
    /// soon: later others may have a leader of whom this node has not heard.
    pub fn succeeds(&mut self, now: Time, promised: Ballot) -> bool {
        let is_soon = now.since(self.heard) < self.timing.election_min;
        let is_unheard = self.highest == Ballot::ZERO && promised == Ballot::ZERO;
        let succeeds = std::mem::take(&mut self.is_successor) && is_soon && is_unheard;
        if succeeds {
            self.due = None;
        }
        succeeds
    }

    /// When the leader is missed, if nothing is heard until then.
    #[must_use]
    pub fn missed_at(&self) -> Time {
        self.due.unwrap_or(self.heard + self.patience)
    }

    /// The next try is due at `until`.
    pub fn put_off(&mut self, until: Time) {
        self.due = Some(until);
    }

    /// Another try begins, and if it fails another one follows.
    pub fn try_again(&mut self, now: Time) {
        self.tries += 1;
        self.attempt += 1;
        self.granted = NodeSet::empty();
        self.retry_later(now);
    }

    /// The question of this try.
    #[must_use]
    pub fn ask(&self, decided: Slot) -> PreVote {
        PreVote {
            attempt: self.attempt,
            decided,
        }
    }

    /// Another try follows after a wait that grows with each failure.
    pub fn retry_later(&mut self, now: Time) {
        let timing = &self.timing;
        let doublings = self.tries.min(DOUBLINGS_MAX);
        let most = Duration(timing.retry_max.0 << doublings).min(timing.election_max);
        let wait = self.random.span(timing.retry_min.min(most), most);
        self.due = Some(now + wait);
    }

    /// Whether a pre-vote of this node's present try is granted.
    pub fn is_granted(&mut self, answer: PreVoted) -> bool {
        self.heard_of(answer.promised);
        answer.is_granted && answer.attempt == self.attempt && self.due.is_some()
    }

    /// Counts the pre-vote of `from`. Returns whether there are as many as are needed; then they are used.
    pub fn count_grant(&mut self, from: NodeId, needed: usize) -> bool {
        self.granted.insert(from);
        let is_enough = self.granted.len() >= needed;
        if is_enough {
            self.granted = NodeSet::empty();
            self.due = None;
        }
        is_enough
    }

    /// Pre-votes that are still granted have no effect.
    pub fn stand_no_more(&mut self) {
        self.leader = None;
        self.due = None;
        self.granted = NodeSet::empty();
    }

    /// Whether an acceptor that neither leads nor stands misses its leader, as `candidate` does.
    pub fn misses_leader(
        &self,
        now: Time,
        candidate: NodeId,
        is_linked: impl Fn(NodeId) -> bool,
    ) -> bool {
        let misses = self.leader.is_none_or(|leader| {
            leader.node == candidate
                || !is_linked(leader.node)
                || now.since(self.heard) >= self.timing.election_min
        });
        misses && now >= self.quiet_until
    }

    /// The leader of `ballot` was heard, over a link that is up or was. Returns whether it is a new one.
    pub fn heard_leader(&mut self, now: Time, ballot: Ballot, is_linked: bool) -> bool {
        if self.due.is_some() && !is_linked {
            // It was in flight when the link went down: its sender may be dead.
            return false;
        }
        self.heard = now;
        self.preferring_until = None;
        let is_new = self.leader != Some(ballot);
        if !is_new && self.due.is_none() {
            return false;
        }
        self.due = None;
        self.tries = 0;
        self.granted = NodeSet::empty();
        self.heard_of(ballot);
        if is_new {
            self.leader = Some(ballot);
            self.draw_patience();
        }
        is_new
    }

    /// A candidate was promised a ballot: it gets time to succeed.
    pub fn heard_candidate(&mut self, now: Time, ballot: Ballot) {
        self.leader = None;
        self.heard = now;
        self.draw_patience();
        self.due = None;
        self.heard_of(ballot);
        self.quiet_until = now + self.timing.resend;
    }

    fn draw_patience(&mut self) {
        let timing = &self.timing;
        self.patience = self.random.span(timing.election_min, timing.election_max);
    }

    /// The link to the leader, or to the candidate that was promised a ballot, went down: the death of a
    /// process shows at once (claim mp-39).
    pub fn suspect_soon(&mut self, now: Time) {
        let timing = &self.timing;
        let wait = self.random.span(timing.retry_min, timing.retry_max);
        self.leader = None;
        self.quiet_until = now;
        self.due = Some(now + wait);
    }

    /// Until when a node whose replica waits for a snapshot lets others go first: as a leader it could order no more than a window of
    /// slots. Only for a bounded time, because none may be able to win (claim mp-38).
    pub fn stands_back_until(&mut self, now: Time) -> Option<Time> {
        let until = self.prefer_until(now, self.timing.election_max);
        (now < until).then_some(until)
    }

    /// Whether a candidate with this decided prefix should let a better one go first. It could lead only
    /// after it has learned the slots that this acceptor, or one linked to it, knows already. The better one
    /// is preferred for a bounded time, because it may be unable to win (claim mp-38).
    pub fn prefers_another(&mut self, now: Time, decided: Slot, rivals: Rivals) -> bool {
        let span = if decided < rivals.trimmed {
            self.timing.election_max
        } else if rivals.furthest.since(decided) > rivals.far {
            self.timing.resend
        } else {
            return false;
        };
        if now >= self.prefer_until(now, span) {
            return false;
        }
        if rivals.own.since(decided) > rivals.far {
            // The better candidate is this node: it stands at once.
            self.due = Some(now);
        }
        true
    }

    fn prefer_until(&mut self, now: Time, span: Duration) -> Time {
        *self.preferring_until.get_or_insert(now + span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{FirstBallot, ViewNumber};

    const BEGUN: Time = Time(1_000_000_000);

    /// Whether the leader of the view before stands without pre-votes, so long after it began, once this was heard of and promised.
    fn succeeds(after: Duration, heard_of: Ballot, promised: Ballot) -> bool {
        let mut election = Election::new(BEGUN, 1, Timing::default(), 3);
        election.stand_at_once(true, None);
        election.heard_of(heard_of);
        let succeeds = election.succeeds(BEGUN + after, promised);
        assert!(!election.succeeds(BEGUN + after, promised), "once");
        succeeds
    }

    /// Claim mp-77.
    #[test]
    fn who_led_the_view_before_succeeds_soon_and_where_no_ballot_was_heard_of_or_promised() {
        let late = Timing::default().election_min;
        let soon = Duration(late.0 - 1);
        let (none, one) = (Ballot::ZERO, Ballot::ZERO.next(ViewNumber(1), NodeId(3), 1));
        assert!(succeeds(soon, none, none));
        assert!(!succeeds(late, none, none));
        assert!(!succeeds(soon, one, none), "somebody tries to lead");
        assert!(!succeeds(soon, none, one), "it promised not to");
    }

    /// Claim mp-90.
    #[test]
    fn who_needs_no_phase_1_leads_so_once() {
        let mut election = Election::new(BEGUN, 1, Timing::default(), 3);
        let first = FirstBallot {
            node: NodeId(2),
            boot: 1,
        };
        let first = first.of(ViewNumber(2));
        election.stand_at_once(true, Some(first));
        assert_eq!(election.take_first(), Some(first));
        assert!(election.succeeds(BEGUN, Ballot::ZERO));
        election.begin(BEGUN, first);
        assert_eq!(election.take_first(), None);
        assert!(!election.succeeds(BEGUN, Ballot::ZERO));
        assert!(!election.succeeds(BEGUN, first));
    }

    /// The longest wait before another try that any of many nodes draws after so many failures, and after what `then` tells it.
    fn longest_wait(failures: u32, then: impl Fn(&mut Election)) -> Duration {
        let waits = (0..100).map(|seed| {
            let mut election = Election::new(BEGUN, seed, Timing::default(), 3);
            for _ in 0..failures {
                election.try_again(BEGUN);
            }
            then(&mut election);
            election.retry_later(BEGUN);
            election.missed_at().since(BEGUN)
        });
        waits.max().expect("there are some")
    }

    #[test]
    fn failures_before_a_leader_was_found_make_no_later_try_wait() {
        let one = Ballot::ZERO.next(ViewNumber(1), NodeId(3), 1);
        let first = Timing::default().retry_max;
        assert!(longest_wait(9, |_| {}) > first, "each failure doubles it");
        let heard = longest_wait(9, |own| {
            assert!(own.heard_leader(BEGUN, one, true));
        });
        assert!(heard <= first, "{heard:?}");
        let led = longest_wait(9, Election::leads);
        assert!(led <= first, "{led:?}");
    }
}
