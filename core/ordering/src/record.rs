//! The log records of acceptors and learners, which survive a restart. All protocols use the same records.

use quorate_types::{Ballot, Batch, Digest, Slot, ViewId, VoteKind};

/// One entry of the log, and the view that it belongs to. Applying the entries of a view in order gives
/// its state; repeated entries do no harm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The view whose acceptor wrote it; acceptors of other views refuse it.
    pub view: ViewId,
    /// The content.
    pub entry: Entry,
}

/// The content of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The acceptor takes no part in lower ballots.
    Promise {
        /// The highest ballot heard of.
        ballot: Ballot,
    },
    /// The acceptor voted. This implies a promise of the ballot.
    Vote {
        /// The slot.
        slot: Slot,
        /// The ballot.
        ballot: Ballot,
        /// Whose choice it was. In one ballot a classic vote of a slot comes after a fast one, never before.
        kind: VoteKind,
        /// The batch voted for.
        batch: Batch,
    },
    /// The slot is decided with a batch that differs from the vote held for it, or without a vote.
    Chosen {
        /// The slot.
        slot: Slot,
        /// The decided batch.
        batch: Batch,
    },
    /// Every slot up to this one is decided. The decided batch of each is in its `Chosen`, else in its vote.
    Decided {
        /// The highest slot of the decided prefix.
        upto: Slot,
    },
    /// Slots up to this one are covered by snapshots and removed.
    Trimmed {
        /// The last trimmed slot.
        upto: Slot,
    },
    /// A majority of replicas holds snapshots with this digest: the log was trimmed for them.
    Agreed {
        /// Their slot.
        slot: Slot,
        /// What they hold.
        digest: Digest,
    },
}

impl Record {
    /// The slot whose trimming makes the record unnecessary; `None` if a base must restate the record.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        match &self.entry {
            Entry::Vote { slot, .. } | Entry::Chosen { slot, .. } => Some(*slot),
            Entry::Decided { upto } => Some(*upto),
            Entry::Promise { .. } | Entry::Trimmed { .. } | Entry::Agreed { .. } => None,
        }
    }
}
