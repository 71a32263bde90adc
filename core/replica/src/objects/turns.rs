//! Whose turn it is to encode a large snapshot. All replicas capture the state at one slot, or their digests could not be compared, and
//! then encode it one after another: a majority has its processors and disks for calls meanwhile.
//!
//! Nothing is told for that: a replica reports a snapshot that is durable, and the next one begins. A replica that was busy at the
//! checkpoint of a round begins no snapshot before that round is over. Otherwise replicas whose rounds overlap would never take one at
//! the same slot while checkpoints are decided more often than a round lasts.

use crate::limits::{TURN_BYTES_PER_S, TURN_MIN};
use crate::{Replica, Snapshots};
use quorate_ordering::Ordering;
use quorate_types::{Duration, NodeId, NodeSet, Slot, Time};

/// The time in which the replicas take a large snapshot one after another. No other one is begun in it: those that are done first
/// would take it, and no majority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    slot: Slot,
    /// Who has not reported by then is not waited for; `None` until the state is captured here.
    ends: Option<Time>,
    /// When this replica encodes at the latest.
    pub(crate) turn: Time,
}

impl Round {
    /// Begins at the slot of a checkpoint.
    pub(crate) fn new(slot: Slot) -> Round {
        Round {
            slot,
            ends: None,
            turn: Time(0),
        }
    }

    /// The slot of its checkpoint.
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// When it is over at the latest.
    pub(crate) fn ends(&self) -> Option<Time> {
        self.ends
    }
}

/// The newest round of which a report is known, and the wait for rounds in which this replica has no part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elsewhere {
    slot: Slot,
    /// When that round is over.
    ends: Time,
    /// This replica waits for at most so long, two rounds, and begins a snapshot before it waits again.
    longest: Duration,
    /// Since when it has waited.
    since: Option<Time>,
    /// Until when it waits.
    until: Option<Time>,
}

impl Elsewhere {
    /// Until when no snapshot is begun here.
    pub(crate) fn until(&self) -> Option<Time> {
        self.until
    }

    /// What is begun from here on is begun at once.
    pub(crate) fn stop_waiting(&mut self) {
        self.until = None;
    }

    /// A snapshot is begun here.
    pub(crate) fn begins(&mut self) {
        self.since = None;
    }
}

impl<O: Ordering> Replica<O> {
    /// Whether snapshots are so large that the replicas take turns.
    pub(crate) fn takes_turns(&self) -> bool {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return false;
        };
        self.agreement
            .own()
            .is_some_and(|own| own.bytes >= policy.bytes_dear)
    }

    /// The state at the slot of `round` is captured: says until when this replica waits for the others.
    pub(crate) fn captured(&self, now: Time, round: &mut Round) {
        let bytes = self.agreement.own().map_or(0, |own| own.bytes);
        let ahead = self.ahead(round.slot).len() as u64;
        round.turn = now + Duration(turn(bytes).0.saturating_mul(ahead));
        round.ends = Some(now + self.rest_of_round(round.slot, bytes, 0));
    }

    /// How long the round at `slot` lasts once `done` replicas are done. Half a turn more, because requests for checkpoints may come in
    /// the rhythm of turns: replicas that learn of the end a moment apart shall not do so while one is decided.
    fn rest_of_round(&self, slot: Slot, bytes: u64, done: usize) -> Duration {
        let left = self.takers(slot).len().saturating_sub(done) as u64;
        let turn = turn(bytes).0;
        Duration(turn.saturating_mul(left).saturating_add(turn / 2))
    }

    /// Learns of the newest round by its first report. All replicas reckon its end from that, so that they are free at the same
    /// time. One that was busy at its checkpoint waits for that end. Claim rp-134.
    pub(crate) fn tend_rounds(&mut self, now: Time) {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return;
        };
        let mut elsewhere = self.checkpoints.elsewhere;
        let reported = self.agreement.newest_report(self.view().replicas);
        let reported = reported.filter(|(_, report)| report.bytes >= policy.bytes_dear);
        if let Some((node, report)) = reported
            && report.slot > elsewhere.slot
        {
            let takers = self.takers(report.slot).iter();
            let before = takers.filter(|one| self.is_before(*one, node)).count();
            let round = self.rest_of_round(report.slot, report.bytes, 0);
            elsewhere.slot = report.slot;
            elsewhere.ends = now + self.rest_of_round(report.slot, report.bytes, before);
            elsewhere.longest = round + round;
        }
        let own = self.agreement.own().map_or(Slot::ZERO, |own| own.slot);
        let has_part = own.max(self.checkpoints.newest_begun()) >= elsewhere.slot;
        let is_missed = elsewhere.slot <= self.replicated.applied && !has_part;
        let may_begin = self.is_replica() && !self.quarantine.is_set() && self.has_plenty_of_room();
        elsewhere.until = None;
        if is_missed && may_begin && elsewhere.ends > now {
            let since = *elsewhere.since.get_or_insert(now);
            let until = elsewhere.ends.min(since + elsewhere.longest);
            elsewhere.until = (until > now).then_some(until);
        }
        self.checkpoints.elsewhere = elsewhere;
        if let Some(round) = &mut self.checkpoints.round
            && round.slot == elsewhere.slot
            && round.ends.is_some()
        {
            round.ends = Some(elsewhere.ends);
        }
    }

    /// Whether this replica may encode its snapshot.
    pub(crate) fn is_turn(&self, now: Time, round: &Round) -> bool {
        now >= round.turn
            || self.quarantine.is_set()
            || !self.has_plenty_of_room()
            || self.ahead(round.slot).is_empty()
    }

    /// Whether the time for one snapshot after another is over.
    pub(crate) fn is_over(&self, now: Time, round: &Round) -> bool {
        round.ends.is_some_and(|ends| now >= ends)
            || self.quarantine.is_set()
            || self.are_waited_for(round.slot, |_| true).is_empty()
    }

    /// The replicas that encode the snapshot at `slot` before this one: by number, and the leader last.
    fn ahead(&self, slot: Slot) -> NodeSet {
        let own = self.config.own;
        self.are_waited_for(slot, |node| self.is_before(node, own))
    }

    /// Whether `one` encodes before `other`.
    fn is_before(&self, one: NodeId, other: NodeId) -> bool {
        let leader = self.leader();
        let place = |node: NodeId| (Some(node) == leader, node);
        place(one) < place(other)
    }

    /// The linked replicas among those that can take the snapshot at `slot` and have not reported it.
    fn are_waited_for(&self, slot: Slot, among: impl Fn(NodeId) -> bool) -> NodeSet {
        let holders = self.agreement.holders(slot);
        let takers = self.takers(slot).iter();
        takers
            .filter(|node| among(*node) && !holders.contains(*node) && self.is_linked(*node))
            .collect()
    }

    /// The replicas that can take a snapshot at `slot`. One that stands at a call before it, which another one survived, takes
    /// none: it waits for that snapshot itself. Claim rp-144.
    fn takers(&self, slot: Slot) -> NodeSet {
        let stuck = self.replicated.poison.stuck(slot);
        let replicas = self.view().replicas.iter();
        replicas.filter(|node| !stuck.contains(*node)).collect()
    }
}

/// How long a replica is waited for that encodes an image of so many bytes.
fn turn(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / TURN_BYTES_PER_S).max(TURN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::snapshots::Checkpoints;

    #[test]
    fn a_replica_that_waits_for_a_round_wakes_at_its_end() {
        let mut checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.next_wake(), None);
        checkpoints.elsewhere.until = Some(Time(5));
        assert_eq!(checkpoints.next_wake(), Some(Time(5)));
    }
}
