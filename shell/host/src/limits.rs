//! Bounds of this crate, each with its reason.

use std::time::Duration;

/// Frozen states that wait for their encoding. Each may pin a copy of everything written since, so a
/// third one is refused: the replica tries again at its next snapshot.
pub const IMAGES_PENDING_MAX: usize = 2;

/// Niceness of the threads that encode: calls come first.
pub const ENCODER_NICENESS: i32 = 10;

/// Longest time after which a call that has not returned is reported.
pub const HANG_REPORTED_AFTER: Duration = Duration::from_secs(1);
