//! Bounds and times of the client, each with its reason.

use std::time::Duration;

/// Body bytes after which a frame of calls is closed and the next begun: a quarter of what a node
/// takes, so that one more payload of the usual sizes always fits.
pub(crate) const FRAME_BYTES: usize = 2 << 20;

/// Bytes that may wait to be written: beyond it the node does not read, and calls are held back.
pub(crate) const WAITING_BYTES_MAX: usize = 32 << 20;

/// Bytes read from a connection before others get a turn.
pub(crate) const READ_TURN_BYTES: usize = 1 << 20;

/// Operations handed to the client's thread and not begun yet; more callers wait.
pub(crate) const QUEUE_MAX: usize = 4096;

/// How long a first connection may take when the caller sets no time.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
