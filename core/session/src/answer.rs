//! How an operation ends.

use quorate_types::zoo::{Plant, planted};
use quorate_types::{ClusterId, Duration, Outcome, Refusal, Slot};

/// The answer to an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A call's outcome.
    Called(Outcome),
    /// A read's outcome, at least as fresh as `slot`; `age` is zero for linearizable levels.
    Read {
        /// What it returned or raised.
        outcome: Outcome,
        /// The answer reflects all slots up to this one.
        slot: Slot,
        /// At most so long ago nothing newer was decided, as far as a leader knew.
        age: Duration,
    },
    /// The slot of a checkpoint.
    Checkpointed(Slot),
}

/// Why an operation has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What went wrong.
    pub cause: Cause,
    /// Whether the operation may have been executed all the same.
    pub may_have_executed: bool,
}

/// What went wrong with an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Its deadline passed.
    DeadlinePassed,
    /// A replica refused it for good.
    Refused(Refusal),
    /// The connection on which its only copy was sent was lost.
    ConnectionLost,
    /// [`PARKED_MAX`](crate::PARKED_MAX) calls of its session wait in the group.
    TooManyParked,
    /// The addresses of its group belong to another cluster now.
    OtherCluster {
        /// The cluster that the client first spoke to.
        pinned: ClusterId,
        /// The one that answers there.
        found: ClusterId,
    },
}

impl Failure {
    /// The failure that a final refusal is.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Failure {
        Failure {
            cause: Cause::Refused(refusal),
            may_have_executed: refusal.may_have_executed()
                && !planted(Plant::ExpiredCountsAsRefused),
        }
    }
}
