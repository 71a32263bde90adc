//! Every bound of the node's loop, each with its reason.

use std::time::Duration;

/// Readiness events taken from the kernel at once; what does not fit comes with the next poll.
pub(crate) const EVENTS: usize = 1024;

/// Rounds of executing and ordering in one turn before the sockets get their turn again.
pub(crate) const ROUNDS_PER_TURN: usize = 64;

/// Questions of the admin port that wait for the loop; more are answered as overloaded.
pub(crate) const QUESTIONS: usize = 16;

/// Connections of the admin port; a new one ends the oldest above.
pub(crate) const ADMIN_CONNECTIONS: usize = 32;

/// How long a connection of the admin port lasts: far longer than an answer takes.
pub(crate) const ADMIN_CONNECTION_MAX: Duration = Duration::from_secs(30);

/// How long the admin port pauses after a connection could not be accepted.
pub(crate) const ADMIN_PAUSE: Duration = Duration::from_millis(50);

/// Descriptors that connections of clients and peers leave free: the log and its next segments, snapshots read and
/// written, directories, pipes to the host, the admin port.
pub(crate) const DESCRIPTORS_RESERVED: usize = 192;

/// How long the admin port waits for the loop before it says that the node is not alive.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Descriptors of one more group: its log and next segment, its directories, its poll and the pipes to its host. Its links count as
/// connections.
pub(crate) const DESCRIPTORS_OF_A_GROUP: usize = 16;

/// How often a node looks whether its data directory is still there.
pub(crate) const DIRECTORY_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Connections on their way to another group of the same node; more are closed.
pub(crate) const PASSED_WAITING: usize = 256;

/// How long the node of a group that could not start, or had to stop, waits before it begins again: at first, and at most.
pub(crate) const GROUP_BEGINS_AGAIN_MIN: Duration = Duration::from_secs(1);
pub(crate) const GROUP_BEGINS_AGAIN_MAX: Duration = Duration::from_secs(30);

/// How long a node that a group names anew waits for its earlier life in the group to hear that it is over.
pub(crate) const GROUP_LEFT_MAX: quorate_types::Duration =
    quorate_types::Duration::from_millis(2_000);

/// How long a node that was asked to stop waits for its leadership to be taken over and its answers
/// to leave.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Bytes of randomness drawn from the system at once.
pub(crate) const ENTROPY_BLOCK: usize = 512;

/// A turn that comes later than this after its timer was due means that the node was starved: it
/// looks at its sockets once more before it believes its clock.
pub(crate) const STARVED_AFTER: Duration = Duration::from_millis(20);

/// Of so many calls of a session, one is timed: enough for percentiles, and nothing for a processor.
pub(crate) const TIMED_EVERY: u64 = 64;

/// Of so many slots, one is timed: with one client each call has its own.
pub(crate) const TIMED_SLOTS: u64 = 8;

/// Calls, and slots at the objects, that are timed at once: more than a busy node has under way, few enough to be nothing in memory.
pub(crate) const TIMED_CALLS: usize = 1 << 16;

/// Empty lists of lines that are kept for the next place with something to serve: a turn rarely has more, and they take a few kilobytes.
pub(crate) const SPARE_LISTS: usize = 64;

/// Snapshot work that waits for its thread: one being written, one being fetched and the pieces
/// asked for by peers. The replica asks for no more at a time.
pub(crate) const SNAPSHOT_JOBS: usize = 256;

/// Bytes of a snapshot held in memory that the objects' state does not share. At most four such snapshots are there at once: the
/// two newest, the agreed one and the one being taken.
pub(crate) const HELD_COPIED_MAX: usize = 32 << 20;

/// How long a peer that reads a snapshot from memory may be silent before the snapshot gives way to a newer agreed one: more
/// than twice as long as a fetch waits for a piece over the slowest link.
pub(crate) const HELD_FOR_READERS: Duration = Duration::from_secs(20);

/// Snapshots that are open for peers: one for each peer that fetches from here at the same time.
pub(crate) const OUTGOING_MAX: usize = 2;

/// Snapshots that are open for backups: each may keep the space of a removed file.
pub(crate) const BACKUPS_OPEN_MAX: usize = 2;

/// Bytes of a backup that its reader takes in a second, in the average, to keep its place where others wait for one: what any network gives.
pub(crate) const BACKUP_PACE_LEAST: u64 = 64 << 10;

/// Questions for backups that wait for the snapshot thread; more are answered as busy, so that snapshots find their place.
pub(crate) const BACKUP_JOBS_MAX: usize = 8;

/// Bytes of a backup that are given at once: few answers for a large one, and nothing in a client's queue.
pub(crate) const BACKUP_PIECE_MAX: u32 = 1 << 20;

/// Bytes of the largest snapshot that is fetched: it passes through memory once.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

/// A replica whose state was last known to be the newest longer ago than this does not count as serving: several
/// elections and many heartbeats fit in.
pub(crate) const CURRENT_WITHIN: quorate_types::Duration =
    quorate_types::Duration::from_millis(2_000);

/// A trim of the log that waits longer than this is told of: a vote that waits for slots in flight takes much less.
pub(crate) const TRIM_WAIT_TOLD: quorate_types::Duration =
    quorate_types::Duration::from_millis(10_000);

/// Calls at which hosts died that are noted for the next start, until one begins behind them: a timer that repeats may end hosts every
/// few seconds, and 4,096 lines are written and synced in less time than a host takes to start.
pub(crate) const DEATHS_NOTED_MAX: usize = 4_096;

/// Requests of clients served in one turn of the loop: several batches, and few enough that a turn stays far below a heartbeat.
pub(crate) const TURN_WORK: usize = 4096;

/// Requests served of one client before the next one has its turn.
pub(crate) const VISIT_WORK: usize = 64;

/// So many bytes of a payload count as one more request: what encoding and writing them costs.
pub(crate) const WORK_BYTES: usize = 1024;

/// Debt that a client may have: the opens or attaches of a pool of sessions at once. Above it the client pauses.
pub(crate) const DEBT_MAX: u32 = 256;

/// How long a client in debt pauses.
pub(crate) const DEBT_PAUSE: quorate_types::Duration = quorate_types::Duration::from_millis(5);

/// Debt that is forgiven in that time: 3,200 wrong requests or 1,600 opens a second of one client.
pub(crate) const DEBT_REPAID: u32 = 32;

/// Clients that pause no longer for being many: together they are served 6,400 opens a second. With twice as many, calls of others took
/// up to five times as long where three nodes share two cores and one disk.
pub(crate) const PAUSES_AT_ONCE: usize = 4;

/// Debt of asking for the status: the document has some kilobytes.
pub(crate) const STATUS_DEBT: u32 = 8;

/// Between two looks at the worker.
pub(crate) const WORKER_LOOKS: quorate_types::Duration = quorate_types::Duration::from_millis(50);

/// Between two starts of the worker.
pub(crate) const WORKER_REST: quorate_types::Duration = quorate_types::Duration::from_millis(1_000);

/// Slots that no group decides in a second, in the average of its life: each is a commit on the disks of a majority.
pub(crate) const SLOTS_A_SECOND: u64 = 1 << 14;

/// Slots that a group leaves out at least which is made of the state of another: more than that one decides in days, for clocks that
/// are wrong.
pub(crate) const SLOTS_LEFT_OUT: u64 = 1 << 32;

/// Slots that clocks can lead to, until the year 2106.
pub(crate) const SLOT_BY_CLOCK_MAX: u64 = 1 << 46;

/// The highest slot at which a group is made of a state: a fencing token has 16 bits more, and is a number of 63 bits.
pub(crate) const SLOT_RESTORED_MAX: u64 = 3 << 45;

/// Bytes of large answers that clients of a node wait for at once. Whoever asks for little waits behind so many: making them takes
/// each replica some milliseconds, and a few of the largest answers are under way all the time.
pub(crate) const AWAITED_BYTES: usize = 4 << 20;

/// Answers of less are not counted: what they cost is bounded by the number of calls.
pub(crate) const ANSWER_BYTES_LARGE: usize = 16 << 10;

/// What the answers of a client are taken to have that has had none.
pub(crate) const ANSWER_BYTES_UNKNOWN: usize = 64 << 10;

/// After so long without a request served, what a client waits for is not counted.
pub(crate) const AWAITED_FORGOTTEN: quorate_types::Duration =
    quorate_types::Duration::from_millis(1_000);
