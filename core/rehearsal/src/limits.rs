//! Bounds of a rehearsal, each with its reason.

use quorate_types::Duration;

/// Nodes of a group: as many as `quorate up` starts.
pub const NODES_MAX: u16 = 9;

/// Clients of a group: tests have a handful, and each costs a session.
pub const CALLERS_MAX: usize = 64;

/// Schedule of one wait: a group that has work for longer than this makes no progress. A call takes about thirty.
pub const STEPS_MAX: u64 = 2_000_000;

/// Ended operations that nobody has taken: their owner waits for each, so a few per client.
pub const ENDED_MAX: usize = 65_536;

/// Messages of one trace: a command takes a few dozen on nine nodes.
pub const TRACED_MAX: usize = 4_096;

/// How long a link that carries nothing stands before both ends give it up.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// Between two tries to connect.
pub(crate) const REDIAL: Duration = Duration::from_millis(20);

/// A copy of a call arrives at most so much later.
pub(crate) const COPY_WITHIN_MS: u64 = 60;

/// Sessions outlast every rehearsal: its clients are the owner's, and end with it.
pub(crate) const SESSION_EXPIRY: Duration = Duration::from_millis(7 * 24 * 3_600_000);
