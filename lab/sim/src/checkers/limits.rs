//! Bounds of the checkers, each with its reason.

/// Configurations that one search may visit before it counts as failed.
///
/// A configuration costs 100 to 200 bytes, so a search stays below some 200 MB; histories of 10,000 operations by
/// 16 clients usually visit about as many configurations as they have operations. Blind additions and appends of many
/// clients to one object, seen only by rare reads, can spend it: give such loads several objects or keep the answers.
pub const CONFIGURATIONS_MAX: usize = 1_000_000;

/// Steps that one search may take for each configuration that it may visit before it counts as failed.
///
/// A step is a call tried in a state, or a comparison with an earlier visit: what a search does between two new
/// configurations. Usual histories take 2 to 10; many unfinished calls to one object lead to the same configuration in
/// so many ways that a search visits few and compares without end.
pub const STEPS_PER_CONFIGURATION: usize = 64;

/// Configurations that the judgement of one simulated run may visit for each object or key: a few seconds.
pub const RUN_CONFIGURATIONS_MAX: usize = 100_000;

/// Configurations spent on a better explanation of a history already refuted: a second or less.
pub const EXPLAINING_CONFIGURATIONS_MAX: usize = 100_000;

/// Possible states that an explanation lists: more do not help a reader.
pub const STATES_SHOWN_MAX: usize = 8;

/// Operations at the end of the longest linearizable prefix that an explanation lists.
pub const PREFIX_SHOWN_MAX: usize = 10;

/// Operations an explanation lists as concurrent with the one that cannot be placed.
pub const CONCURRENT_SHOWN_MAX: usize = 20;

/// Confirmation rounds that are remembered: a read waits a second at most, in which a leader opens fewer by far.
pub const ROUNDS_MAX: usize = 8192;

/// A grant is remembered for so long after it ran out: a leader that stood still judges by the clock that it read before,
/// and no stop lasts longer.
pub(super) const GRANTS_KEPT_NS: u64 = 10_000_000_000;

/// A clock that is told may be so old: a delayed message, a stop of the node that was told it, a copy that comes seconds
/// later.
pub(super) const CLOCK_LATE_NS: i64 = 30_000_000_000;
