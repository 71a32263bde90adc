//! The bounds of what this protocol alone keeps, each with its reason; the others are `quorate_ordering::Limits`.

use quorate_types::Duration;

/// Values that a node keeps although it has not seen them decided. Proposers send a pipeline each, so these are the
/// pipelines of more nodes than a group has; what is dropped is proposed again or learned.
pub(crate) const VALUES: usize = 1 << 10;

/// Decided slots among which a late copy of a value is looked for: as many as a chunk of decisions has, which may overtake the values,
/// and as many values as a proposer sends without an answer.
pub(crate) const RECENT_SLOTS: u64 = 256;

/// How far above the decided prefix votes are counted: as far as acceptors hold votes.
pub(crate) const TALLIED_SLOTS: u64 = 1 << 14;

/// Slots over which collisions are counted. Older ones count half.
pub(crate) const COUNTED_SLOTS: u32 = 64;

/// Fewer slots say nothing about how often values collide.
pub(crate) const COUNTED_MIN: u32 = 8;

/// Fast rounds end when more than one slot in so many collided: a collision costs two delays more, a classic round one.
pub(crate) const COLLISIONS_MAX: u32 = 3;

/// They return when fewer than one batch in so many holds commands of several nodes. Much rarer than what ended them, so that
/// a load between the two changes nothing.
pub(crate) const MIXED_MAX: u32 = 12;

/// The shortest time between a change to classic rounds and the return; doubles with each change up to the longest.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest such time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(32_000);

/// Rounds of fast values that were decided without a change make the next pause as short as the first.
pub(crate) const CALM_SLOTS: u32 = 1 << 10;
