//! The bounds of what this protocol alone keeps, each with its reason; the others are `quorate_ordering::Limits`.

/// The same slots are told again on one link only after so many times that time: less than a learner waits.
pub(crate) const TAUGHT_AGAIN: u64 = 4;

/// Votes of other acceptors are counted for so many slots after the decided prefix: more than a leader's pipeline and what a link
/// delivers out of turn. What is voted beyond, the leader's watermark tells.
pub(crate) const TALLY_SLOTS: u64 = 4096;

/// A chosen acceptor is suspected when nothing was decided for this part of the time after which proposals are sent again.
pub(crate) const STEP_PATIENCE: u64 = 2;

/// Proposals for the trim of logs that wait for an acceptor's vote: a leader has one under way, and another one that took over may
/// have found a few.
pub(crate) const VOTES_DEFERRED: usize = 4;
