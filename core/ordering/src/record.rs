//! What acceptors and learners remember over a restart. One set of records for all protocols.

use quorate_types::{Ballot, Batch, Slot, ViewId};

/// One entry of the log, and the view that it belongs to. Folding the entries of a view in order, in
/// any number of repetitions, gives its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Whose acceptor wrote it; no other may read it.
    pub view: ViewId,
    /// What it says.
    pub entry: Entry,
}

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The acceptor takes part in no lower ballot.
    Promise {
        /// The highest ballot heard of.
        ballot: Ballot,
    },
    /// The acceptor voted; implies the promise.
    Vote {
        /// Where.
        slot: Slot,
        /// In which ballot.
        ballot: Ballot,
        /// For what.
        batch: Batch,
    },
    /// The slot is decided with a batch that differs from the vote held for it, or without a vote.
    Chosen {
        /// Where.
        slot: Slot,
        /// What was decided.
        batch: Batch,
    },
    /// Every slot up to this one is decided; for each, the held vote or `Chosen` is what was decided.
    Decided {
        /// The highest slot of the decided prefix.
        upto: Slot,
    },
    /// Slots up to this one are covered by snapshots and gone.
    Trimmed {
        /// The last trimmed slot.
        upto: Slot,
    },
}

impl Record {
    /// The slot whose trimming makes the record needless; `None` for one that a base must restate.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        match &self.entry {
            Entry::Vote { slot, .. } | Entry::Chosen { slot, .. } => Some(*slot),
            Entry::Decided { upto } => Some(*upto),
            Entry::Promise { .. } | Entry::Trimmed { .. } => None,
        }
    }
}
