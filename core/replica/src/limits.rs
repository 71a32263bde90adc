//! Every bound of this crate, with its reason.

use quorate_types::Duration;

/// Sequences above a session's floor that are remembered. A pipelined client stays below it; what lies
/// beyond is refused, so that one session cannot grow without end.
pub const SESSION_WINDOW: u64 = 4096;

/// The highest sequence of a session: arithmetic on sequences never overflows.
pub const SEQUENCE_MAX: u64 = 1 << 62;

/// Connections that wait for the same call at one replica: the first and a few impatient retries.
pub const WAITERS_PER_CALL: usize = 4;

/// Sessions that one connection may speak for: a pooled client uses a handful.
pub const SESSIONS_PER_CONNECTION: usize = 1024;

/// Calls of this replica's clients that are submitted and neither decided nor refused. A full
/// turn of all clients fits many times.
pub const CALLS_IN_FLIGHT: usize = 1 << 18;

/// Opens, closes and checkpoint requests that wait for their slot.
pub const OPENS_WAITING: usize = 1 << 16;

/// Reads that have no answer yet.
pub const READS_WAITING: usize = 1 << 16;

/// Keepalives that arrived in one turn or wait for a confirmation.
pub const KEEPALIVES_WAITING: usize = 1 << 16;

/// Calls handed to the objects and not executed. Enough for a host in another process to stay
/// busy, and all that is lost with it.
pub const HANDED_CALLS: usize = 1 << 16;

/// Weight of calls handed to the objects and not executed, in bytes.
pub const HANDED_BYTES: usize = 32 << 20;

/// Calls decided and not executed above which admission answers `Overloaded`.
pub const BACKLOG_CALLS: usize = 1 << 18;

/// Weight of calls decided and not executed above which admission answers `Overloaded`, and what a
/// stable snapshot covers is dropped from the queue and fetched instead.
pub const BACKLOG_BYTES: usize = 128 << 20;

/// Snapshot reports kept per replica: older ones cannot become stable before newer ones.
pub const REPORTS_PER_REPLICA: usize = 4;

/// Bytes of one piece of a snapshot: far below a link's credit, so that other lanes pass between.
pub const CHUNK_BYTES: u32 = 256 << 10;

/// Pieces asked for and not received: two keep the link busy while one is written.
pub const CHUNKS_ASKED: u64 = 2;

/// Peers that fetch a snapshot from here at the same time.
pub const FETCHERS: usize = 2;

/// A fetch without progress for this long turns to another peer.
pub const FETCH_PATIENCE: Duration = Duration::from_millis(1_000);

/// A fetching peer that asks nothing for this long gives up its place.
pub const FETCHER_PATIENCE: Duration = Duration::from_millis(5_000);

/// How long after a refusal the report of the own host's end is submitted again.
pub const POISON_REPORT_EVERY: Duration = Duration::from_millis(500);

/// How often a node tells the others its wall clock.
pub const CLOCK_EVERY: Duration = Duration::from_millis(1_000);

/// How far a stamp may be from the median clock of a majority: clocks that are kept in step differ by far
/// less, and what objects do with time bears it.
pub const CLOCK_BOUND: Duration = Duration::from_millis(1_000);

/// Poison calls that somebody survived and that reports are kept of: more than hosts can die at together.
pub const POISON_CALLS: usize = 16;

/// How often a snapshot report is repeated while no majority agrees on it.
pub const REPORT_EVERY: Duration = Duration::from_millis(2_000);

/// How often a replica that differs from the majority asks for a checkpoint ahead of its objects.
pub const HEAL_EVERY: Duration = Duration::from_millis(5_000);

/// Expiries proposed in one sweep: a mass expiry is spread over several batches.
pub const EXPIRIES_PER_SWEEP: usize = 1024;

/// Ended sessions that may stand in the order of activity beyond as many as are open: it is made
/// anew when there are more, so that sessions that come and go take no memory.
pub(crate) const ORDER_SLACK: usize = 64;

/// Samples of (applied slot, time) by which a leader dates the newest command of a session.
pub const ACTIVITY_SAMPLES: usize = 64;
