//! The messages of elections, of learning and of reads, which are the same in all protocols.
//!
//! Each protocol has an enum of its own with these in it, beside those by which it orders. What is said of all its messages
//! there holds of these too.

use crate::Testimony;
use quorate_types::{Ballot, Batch, Slot};

/// Would you promise me a ballot? A node asks before it uses a ballot, so that a returning node does
/// not replace a leader that works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreVote {
    /// The number of the sender's attempt.
    pub attempt: u64,
    /// The sender's decided prefix.
    pub decided: Slot,
}

/// The answer to [`PreVote`]; it binds nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreVoted {
    /// The attempt answered.
    pub attempt: u64,
    /// The acceptor also misses its leader and is bound by no lease.
    pub is_granted: bool,
    /// The highest ballot that it promised: the next one must be higher.
    pub promised: Ballot,
    /// The acceptor's decided prefix.
    pub decided: Slot,
}

/// Phase 1a: take no part in lower ballots, and report your votes from `from` on. It is sent again with
/// a later `from` for each further page of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepare {
    /// The ballot to promise.
    pub ballot: Ballot,
    /// The first slot to report.
    pub from: Slot,
}

/// The receiver's ballot is too low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nack {
    /// The ballot refused.
    pub ballot: Ballot,
    /// The higher ballot that is promised.
    pub promised: Ballot,
}

/// Phase 2a of a classic round: vote for `batch` in `slot`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accept {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The batch.
    pub batch: Batch,
    /// The leader's decided prefix.
    pub decided: Slot,
}

/// Every slot up to `upto` is decided. For slots that `ballot` proposed in a classic round, its proposal is decided. It is
/// sent when no other message carries the watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decided {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The leader's decided prefix.
    pub upto: Slot,
}

/// Tell me decided batches from `from` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Learn {
    /// The first slot that the sender lacks.
    pub from: Slot,
}

/// Decided batches of consecutive slots, as many as fit a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// Slot of the first batch.
    pub from: Slot,
    /// The decided batches; empty if the sender knows none from there.
    pub batches: Vec<Batch>,
    /// The sender's decided prefix.
    pub decided: Slot,
}

/// The slots asked for, or proposed, are at or below `upto`: they are decided and exist only in snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trimmed {
    /// The sender's last trimmed slot.
    pub upto: Slot,
}

/// Is `ballot` still the highest that you promised?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirm {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The number of a round that was opened after the reads that it covers had arrived; used once.
    pub epoch: u64,
}

/// To the leader: up to which slot must I execute before I answer reads that arrived here?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskBarrier {
    /// The number of the sender's request.
    pub request: u64,
}

/// The answer to [`AskBarrier`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// The request answered.
    pub request: u64,
    /// The barrier; `None` if the sender cannot confirm that it leads.
    pub barrier: Option<Slot>,
}

/// From a leader that shuts down: begin phase 1 at once, without a pre-vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// The ballot given up.
    pub ballot: Ballot,
}

impl PreVote {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'static> {
        let PreVote { attempt, decided } = *self;
        Testimony::AsksPreVote { attempt, decided }
    }
}

impl PreVoted {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'static> {
        Testimony::AnswersPreVote {
            attempt: self.attempt,
            is_granted: self.is_granted,
        }
    }
}

impl Accept {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        Testimony::Proposes {
            ballot: self.ballot,
            slot: self.slot,
            batch: &self.batch,
            decided: self.decided,
        }
    }
}

impl Learned {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        Testimony::TellsDecided {
            from: self.from,
            batches: &self.batches,
        }
    }
}

impl Trimmed {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'static> {
        Testimony::TellsDecided {
            from: self.upto,
            batches: &[],
        }
    }
}

impl Confirm {
    /// What it binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'static> {
        let Confirm { ballot, epoch } = *self;
        Testimony::AsksConfirm { ballot, epoch }
    }
}
