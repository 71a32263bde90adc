//! The replica's own part of a snapshot: everything that is not the objects' state.

use quorate_types::{Ballot, Outcome, SessionId, Slot, Stamp, View};

/// Sessions, view and digests as they stand after `slot`.
#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotCore {
    /// The slot after which the state holds.
    pub slot: Slot,
    /// Stamp of the newest batch up to the slot.
    pub stamp: Stamp,
    /// Rolling hash of every reply up to the slot.
    pub replies_digest: u64,
    /// The view in force.
    pub view: View,
    /// The highest ballot whose leader began to judge expiry.
    pub lead_ballot: Ballot,
    /// Where it began: expiries judged before this slot are void.
    pub lead_slot: Slot,
    /// All open sessions, ascending by id.
    pub sessions: Vec<SessionImage>,
}

/// One session in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionImage {
    /// Whose.
    pub id: SessionId,
    /// The slot of its newest command.
    pub active: Slot,
    /// Wall time (ns) of its newest command's batch.
    pub active_wall: u64,
    /// Every sequence up to this one was executed and its reply acknowledged or dropped.
    pub floor: u64,
    /// Executed sequences above the floor, ascending, with payload fingerprint and outcome.
    pub replies: Vec<ReplyImage>,
}

/// One kept reply in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyImage {
    /// The command's sequence.
    pub sequence: u64,
    /// Hash of its payload, so that a reused sequence is noticed.
    pub fingerprint: u64,
    /// What was answered; `None` where it is gone.
    pub outcome: Option<Outcome>,
}
