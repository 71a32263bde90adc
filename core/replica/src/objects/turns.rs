//! Whose turn it is to encode a large snapshot. All replicas capture the state at one slot, or their digests could not be compared, and
//! then encode it one after another: a majority has its processors and disks for calls meanwhile.
//!
//! Nothing is told for that: a replica reports a snapshot that is durable, and the next one begins.

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

    /// When it is over at the latest.
    pub(crate) fn ends(&self) -> Option<Time> {
        self.ends
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
        let turn =
            Duration::from_micros(bytes.saturating_mul(1_000_000) / TURN_BYTES_PER_S).max(TURN_MIN);
        let wait = |nodes: NodeSet| Duration(turn.0.saturating_mul(nodes.len() as u64));
        round.turn = now + wait(self.ahead(round.slot));
        round.ends = Some(now + wait(self.view().replicas));
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
        let leader = self.leader();
        let place = |node: NodeId| (Some(node) == leader, node);
        let own = place(self.config.own);
        self.are_waited_for(slot, |node| place(node) < own)
    }

    /// The linked replicas among those that have not reported the snapshot at `slot`.
    fn are_waited_for(&self, slot: Slot, among: impl Fn(NodeId) -> bool) -> NodeSet {
        let holders = self.agreement.holders(slot);
        let replicas = self.view().replicas.iter();
        replicas
            .filter(|node| among(*node) && !holders.contains(*node) && self.is_linked(*node))
            .collect()
    }
}
