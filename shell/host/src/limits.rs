//! Bounds of this crate, each with its reason.

use std::time::Duration;

/// Frozen states that wait for their encoding. Each may pin a copy of everything written since, so a
/// third one is refused: the replica tries again at its next snapshot.
pub const IMAGES_PENDING_MAX: usize = 2;

/// Niceness of the threads that encode: calls come first.
pub const ENCODER_NICENESS: i32 = 10;

/// Longest time after which a call that has not returned is reported.
pub const HANG_REPORTED_AFTER: Duration = Duration::from_secs(1);

/// Frames to a host process that wait for its socket; more waits in the work log, which exists anyway.
pub const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Space offered to one read of a host process's replies.
pub const READ_BYTES: usize = 256 << 10;

/// Work kept for a new host process before the host makes an image of its own. Catching up takes about
/// as long as the work took: some seconds.
pub const WORK_LOG_BYTES_MAX: usize = 64 << 20;

/// A host process that has not greeted back by then is killed: importing a large package takes seconds.
pub const START_PATIENCE: Duration = Duration::from_secs(60);

/// Deaths at one and the same call before the host process stays down.
pub const DEATHS_AT_ONE_CALL_MAX: u32 = 3;

/// Wait before the second start in a row; it doubles with each further one.
pub const RESTART_DELAY: Duration = Duration::from_millis(100);

/// The longest wait before a start.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(5);

/// How often the activity of a busy host process is looked at.
pub const ACTIVITY_INTERVAL: Duration = Duration::from_millis(250);
