//! The bounds of what this protocol alone keeps, each with its reason; the others are `quorate_ordering::Limits`.

/// Heartbeats whose sending time a leader remembers, to measure leases; answers to older ones are ignored.
pub(crate) const BEATS: usize = 64;
