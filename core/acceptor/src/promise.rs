//! What an acceptor tells a candidate: its promise, and page by page the votes that bind the candidate.

use quorate_types::{Ballot, Batch, Slot, Wall};

/// One page of an acceptor's answer to a prepare.
///
/// The promise is durable when any page leaves, and votes in lower ballots are frozen by it: pages
/// asked for one after the other are one consistent answer. It counts once the page without `next`
/// has arrived and all before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// The ballot promised.
    pub ballot: Ballot,
    /// The `from` of the prepare that this page answers.
    pub from: Slot,
    /// Votes in ascending slots, none at or below `decided`.
    pub votes: Vec<Vote>,
    /// Slots of the page in which the sender may have voted and no longer knows: it is no witness of what was voted there.
    pub unknown: Vec<Slot>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<Slot>,
    /// Every slot up to here is decided: the sender's values can be learned, and nothing may be
    /// proposed there.
    pub decided: Slot,
    /// Slots up to here are only in snapshots.
    pub trimmed: Slot,
    /// The highest wall clock of any batch that the acceptor saw: a new leader stamps later ones.
    pub wall: Wall,
}

/// A vote as a promise tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vote {
    /// Where.
    pub slot: Slot,
    /// In which ballot.
    pub ballot: Ballot,
    /// For what.
    pub batch: Batch,
}
