//! The bounds of what this protocol alone keeps, each with its reason; the others are `quorate_ordering::Limits`.

/// Votes of other acceptors are counted for so many slots after the decided prefix: more than a leader's pipeline and what a link
/// delivers out of turn. What is voted beyond, the leader's watermark tells.
pub(crate) const TALLY_SLOTS: u64 = 4096;

/// A chosen acceptor is suspected when nothing was decided for this part of the time after which proposals are sent again.
pub(crate) const STEP_PATIENCE: u64 = 2;

/// Proposals for the trim of logs that wait for an acceptor's vote: a leader has one under way, and another one that took over may
/// have found a few.
pub(crate) const VOTES_DEFERRED: usize = 4;

/// A ring lasts for so many times the slots of a step: its first slots go to every acceptor, which costs the leader as much as without a
/// ring.
pub(crate) const RING_STEPS: u64 = 8;

/// After so many suspicions in a row the first slots of the next step become no more: by then a ring is tried once in eight
/// times its length.
pub(crate) const DOUBTS_MAX: u32 = 10;

/// Values that a node has spread and that are not decided: more than a leader orders at a time. Further commands wait, and gather.
pub(crate) const SPREAD_OPEN: usize = 256;

/// Values kept of each other node: more than it has open, because it may have started anew or be gone.
pub(crate) const SPREAD_KEPT: usize = 1024;

/// Values that others told to hold and that have not come, and those told in one message: more than what links deliver out of turn. Of
/// what is forgotten the sender tells anew when it gets the value again.
pub(crate) const HEARD_EARLY: usize = 1024;

/// After so many times of a repetition a leader sends a value itself that it holds and no quorum does: enough for two to be lost.
pub(crate) const LATE_RESENDS: u64 = 4;

/// Ages kept of values that are gone: so few that they take no memory, so many that dropping them costs little.
pub(crate) const AGES_SPARE: usize = 64;

/// Proposals by names whose values have not come: more than a leader's pipeline, which it sends again.
pub(crate) const NAMELESS_SLOTS: usize = 1024;

/// Values that came by multicast before the proposals that name them: more than a leader's pipeline. What comes beyond is asked for.
pub(crate) const VALUES_HELD: usize = 1024;

/// Proposals whose values were multicast and have not come: more than a leader's pipeline, which it sends again.
pub(crate) const IDS_AWAITED: usize = 1024;

/// Who had to ask for so many values in a row is deaf: fewer are lost by chance.
pub(crate) const ASKED_IN_A_ROW: u32 = 4;

/// Slots whose votes a node waits for that are gathered along a ring: more than a leader's pipeline. Of the lowest above that the own
/// vote is told to nobody, and the leader asks again.
pub(crate) const STOPS_MAX: usize = 1024;
