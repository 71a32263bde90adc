//! Plants that a run of a minute shows seldom or never.

use super::Plant;

impl Plant {
    /// Plants that show only after hours: the run of an hour is what finds them.
    pub const LASTING: [Plant; 3] = [
        Plant::SegmentsKept,
        Plant::SnapshotsKept,
        Plant::SessionsKept,
    ];

    /// Plants that show only where several faults meet: the simulator is given more seeds to find them.
    pub const RARE: [Plant; 12] = [
        Plant::ProposalsNotSentAgain,
        Plant::GapsClosedUp,
        Plant::OwnVoteOverChosen,
        Plant::ReadUnconfirmed,
        Plant::ConfirmReused,
        Plant::LeaseNotRechecked,
        Plant::ExpireIgnoresActivity,
        Plant::ExpiryBeforeLead,
        Plant::ExpiredCountsAsRefused,
        Plant::SeenFallsBack,
        Plant::ExactSnapshotNotAsked,
        Plant::StallAgesClose,
    ];
}
