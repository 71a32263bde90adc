//! An acceptor's answer to a candidate: its promise and, in pages, the votes that bind the candidate.

use quorate_types::{Ballot, Batch, Slot, VoteKind, Wall};

/// One page of an acceptor's answer to a prepare.
///
/// The promise is durable before the first page leaves, and it prevents further votes in lower ballots.
/// So all pages together are one consistent answer. It counts once all pages, up to the one without
/// `next`, have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// The ballot promised.
    pub ballot: Ballot,
    /// The `from` of the prepare that this page answers.
    pub from: Slot,
    /// Votes in ascending slots, none at or below `decided`.
    pub votes: Vec<Vote>,
    /// Slots of the page in which the sender may have cast a vote that it has lost: it is no witness there.
    pub unknown: Vec<Slot>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<Slot>,
    /// Every slot up to here is decided: the sender's values can be learned, and nothing may be
    /// proposed there.
    pub decided: Slot,
    /// Slots up to here exist only in snapshots.
    pub trimmed: Slot,
    /// The highest time stamp of any batch that the acceptor saw: a new leader uses later stamps.
    pub wall: Wall,
}

/// A vote in a promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vote {
    /// The slot.
    pub slot: Slot,
    /// The ballot.
    pub ballot: Ballot,
    /// Whose choice it was.
    pub kind: VoteKind,
    /// The batch voted for.
    pub batch: Batch,
}
