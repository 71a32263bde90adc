//! Bugs that can be planted, one at a time, to prove that the simulator finds them.
//!
//! Only a build with the feature `zoo` can plant any, and no program that ships has it: without the
//! feature [`planted`] is the constant `false`, and what depends on it is not compiled in.

/// A bug that many an implementation has had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Plant {
    /// A vote is told before its record is durable.
    AcknowledgeBeforeSync,
    /// A promise is told before its record is durable.
    PromiseBeforeSync,
    /// Promises are not read back after a restart.
    ForgetPromise,
    /// An acceptor votes in ballots below its promise.
    AcceptLowerBallot,
    /// A ballot is used before its promise is durable, and no boot number tells it from the next.
    BallotReused,
    /// A vote that arrives twice counts twice.
    AcceptorCountedTwice,
    /// One promise that tells a vote is taken for a quorum.
    PhaseOneSkipped,
    /// A new leader proposes found values without the gaps between them.
    GapsClosedUp,
    /// A node that misses decided slots does not ask for them.
    TailLossUnnoticed,
    /// Promises do not tell what is decided and trimmed.
    DecidedNotInPromise,
    /// Of several votes found for a slot, the one of the lowest ballot is proposed again.
    LowestBallotWins,
    /// A vote counts for all slots before it too.
    CumulativeVote,
    /// What is held for a decided slot is taken for its value, whatever its ballot.
    HeldInAnyBallot,
    /// After a restart the own vote is taken for the value, though another was chosen.
    OwnVoteOverChosen,
    /// A new leader answers reads before it has decided what phase 1 found.
    ReadBeforeRecovered,
    /// A leader answers confirmed reads on its own word.
    ReadUnconfirmed,
    /// Reads join a confirmation that was opened before they arrived.
    ConfirmReused,
    /// A lease is not looked at again after the value was read.
    LeaseNotRechecked,
    /// Reads do not wait until their barrier is executed.
    BarrierNotAwaited,
    /// Snapshots hold no sessions.
    SessionsNotInSnapshot,
    /// One replica's snapshot is enough to trim the log.
    TrimByOne,
    /// Damage in the middle of the log is taken for its end.
    MidLogCut,
    /// An emptied directory is made a node again.
    WipedVotes,
    /// A duplicate of an answered call executes.
    DuplicateExecutes,
    /// A leader that steps down forgets what waited.
    SubmissionForgotten,
    /// A session expires though it was active after it was judged.
    ExpireIgnoresActivity,
    /// A snapshot lacks the calls of its own slot.
    SnapshotAtWrongSlot,
    /// A peer gets as many values as there are, acknowledged or not.
    CreditUnbounded,
    /// An acceptor votes although its log has lost records.
    DamageIgnored,
    /// A node that kept nothing over its restart votes.
    ForgetfulNodeVotes,
    /// The base that replaces old records does not restate the promise.
    BaseWithoutPromise,
    /// A leader stamps batches with its own clock alone.
    WallGoesBack,
    /// A client takes the end of its session for a refusal of its calls.
    ExpiredCountsAsRefused,
    /// A snapshot is reported durable and was never written.
    SnapshotNotDurable,
    /// A failed sync is taken for a success.
    SyncErrorIgnored,
}

impl Plant {
    /// Plants that the simulator must find.
    pub const ALL: [Plant; 28] = [
        Plant::AcknowledgeBeforeSync,
        Plant::PromiseBeforeSync,
        Plant::ForgetPromise,
        Plant::AcceptLowerBallot,
        Plant::BallotReused,
        Plant::AcceptorCountedTwice,
        Plant::PhaseOneSkipped,
        Plant::TailLossUnnoticed,
        Plant::DecidedNotInPromise,
        Plant::LowestBallotWins,
        Plant::CumulativeVote,
        Plant::HeldInAnyBallot,
        Plant::ReadBeforeRecovered,
        Plant::BarrierNotAwaited,
        Plant::SessionsNotInSnapshot,
        Plant::TrimByOne,
        Plant::MidLogCut,
        Plant::WipedVotes,
        Plant::DuplicateExecutes,
        Plant::SubmissionForgotten,
        Plant::SnapshotAtWrongSlot,
        Plant::CreditUnbounded,
        Plant::DamageIgnored,
        Plant::ForgetfulNodeVotes,
        Plant::BaseWithoutPromise,
        Plant::WallGoesBack,
        Plant::SnapshotNotDurable,
        Plant::SyncErrorIgnored,
    ];

    /// Plants that show so rarely that a few hundred seeds do not find them: looked for on request.
    pub const RARE: [Plant; 7] = [
        Plant::GapsClosedUp,
        Plant::OwnVoteOverChosen,
        Plant::ReadUnconfirmed,
        Plant::ConfirmReused,
        Plant::LeaseNotRechecked,
        Plant::ExpireIgnoresActivity,
        Plant::ExpiredCountsAsRefused,
    ];
}

#[cfg(feature = "zoo")]
mod planting {
    use super::Plant;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread, in place of the one before; `None`: nothing is wrong.
    pub fn plant(plant: Option<Plant>) {
        PLANTED.set(plant);
    }

    /// Says whether `plant` is planted in this thread.
    #[must_use]
    pub fn planted(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
}

#[cfg(feature = "zoo")]
pub use planting::{plant, planted};

/// Nothing is ever planted in this build.
#[cfg(not(feature = "zoo"))]
#[must_use]
#[inline(always)]
pub const fn planted(_plant: Plant) -> bool {
    false
}

#[cfg(not(feature = "zoo"))]
const _: () = assert!(
    !planted(Plant::ForgetPromise),
    "what ships holds no planted bug"
);
