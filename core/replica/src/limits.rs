//! Every bound of this crate, with its reason.

use quorate_types::Duration;

/// Sequences above a session's floor that are remembered. A pipelined client stays below it. Higher
/// sequences are refused, so that a session cannot grow without bound.
pub const SESSION_WINDOW: u64 = 4096;

/// The highest sequence of a session: arithmetic on sequences never overflows.
pub const SEQUENCE_MAX: u64 = 1 << 62;

/// Connections that wait for the same call at one replica: the first and a few retries.
pub const WAITERS_PER_CALL: usize = 4;

/// Sessions that one connection may use: a pooled client uses a few.
pub const SESSIONS_PER_CONNECTION: usize = 1024;

/// Of so many sessions that a connection opens beyond that, while none of the others is over, one has it looked again which are.
pub(crate) const LEFT_OUT_UNTIL_LOOKED: usize = 64;

/// Calls of this replica's clients that are submitted and neither decided nor refused: many full turns
/// of all clients.
pub const CALLS_IN_FLIGHT: usize = 1 << 18;

/// Opens and checkpoint requests that wait for their slot.
pub const OPENS_WAITING: usize = 1 << 16;

/// Marks of what was the newest state that a replica keeps while it is behind: enough for a second and a half of
/// heartbeats; beyond that every second one is dropped, which only makes its state look older.
pub const MARKS_MAX: usize = 64;

/// How long a read waits for a slot that its client has seen elsewhere: below the silence after which a client goes on
/// to another node.
pub const BEHIND_MAX: Duration = Duration::from_millis(200);

/// How long reads that were sent to a host wait for its next start, which takes less unless its classes import much.
pub const HOST_DOWN_MAX: Duration = Duration::from_millis(1_000);

/// Opens of one connection that wait for their slot: a client has one under way, and a flood of them must not fill batches.
pub const OPENS_PER_CONNECTION: usize = 16;

/// Clients that wait in line for a place in a full table of sessions; those beyond ask again without a place in the line.
pub const LINE_MAX: usize = 1 << 16;

/// After how long the first in line asks again.
pub const LINE_RETRY_MIN: Duration = Duration::from_millis(100);

/// How much longer each one waits who stands behind another: those far behind cost no more than those in front.
pub const LINE_RETRY_STEP: Duration = Duration::from_millis(1);

/// The longest pause of a client in line: a place that is free is not left empty for long.
pub const LINE_RETRY_MAX: Duration = Duration::from_millis(5_000);

/// How late a client in line may ask again before it is forgotten.
pub const LINE_GRACE: Duration = Duration::from_millis(2_000);

/// Closes that wait for their slot: as many as opens, because every session is opened before it is closed.
pub const CLOSES_WAITING: usize = 1 << 16;

/// Between two snapshots that a leader asks for so that the view before the one in force is not needed any more.
pub const OLD_VIEW_SNAPSHOT_EVERY: Duration = Duration::from_millis(2_000);

/// Between two requests of a node that comes back for a view which names its incarnation.
pub const REJOIN_EVERY: Duration = Duration::from_millis(1_000);

/// How long a start waits with its first request where another life of its node may be running.
pub const REJOIN_OF_COPY_AFTER: Duration = Duration::from_millis(10_000);

/// Messages that are kept for a view which this node has not turned to: who asks for its vote there asks again, but later.
pub const EARLY_MESSAGES: usize = 32;

/// Instances of the ordering at a node: the one that orders, and those of the views before until a snapshot of their slots is
/// collected here. Whoever asks for a view knows a majority to hold such a snapshot. Others may learn of it later, and a witness
/// keeps the log besides until it has the snapshot.
pub const INSTANCES_KEPT: usize = 16;

/// Operators' requests that wait until a view is in force.
pub const VIEW_CHANGES_WAITING: usize = 64;

/// Invitations that are open at once: the oldest one gives way.
pub const INVITATIONS_MAX: usize = 64;

/// Groups beside the first one. Each has a setup of at most [`quorate_types::GroupChange::SETUP_BYTES_MAX`].
pub const GROUPS_MAX: usize = 255;

/// Operators' changes of groups that are being ordered at one node.
pub const GROUP_CHANGES_WAITING: usize = 64;

/// Reads that have no answer yet.
pub const READS_WAITING: usize = 1 << 16;

/// Bytes of the payloads of those reads, above which none is taken: as many as of calls that wait to be ordered.
pub const READS_BYTES: usize = 64 << 20;

/// Keepalives that arrived in one turn or wait for a confirmation.
pub const KEEPALIVES_WAITING: usize = 1 << 16;

/// Calls sent to the objects and not executed: enough to keep a host in another process busy.
pub const HANDED_CALLS: usize = 1 << 16;

/// Weight of calls sent to the objects and not executed, in bytes.
pub const HANDED_BYTES: usize = 32 << 20;

/// Calls decided and not executed above which admission answers `Overloaded`.
pub const BACKLOG_CALLS: usize = 1 << 18;

/// Weight of calls decided and not executed above which admission answers `Overloaded`, and the calls
/// that a stable snapshot covers are dropped from the queue and the snapshot is fetched instead. They are not dropped below half of
/// the image's weight: executing them costs less than a larger image, which is in memory several times while it comes.
pub const BACKLOG_BYTES: usize = 128 << 20;

/// Newest snapshots of this node that its disk keeps besides the agreed one.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Snapshot reports kept per replica: older ones cannot become stable before newer ones.
pub const REPORTS_PER_REPLICA: usize = 4;

/// Bytes of one piece of a snapshot: far below a link's credit, so that other messages pass in between.
pub const CHUNK_BYTES: u32 = 256 << 10;

/// Pieces asked for and not received: two keep the link busy while one is written.
pub const CHUNKS_ASKED: u64 = 2;

/// Peers that fetch a snapshot from here at the same time.
pub const FETCHERS: usize = 2;

/// A fetch without progress for this long continues with another peer.
pub const FETCH_PATIENCE: Duration = Duration::from_millis(1_000);

/// How often that span doubles in one fetch: a link of half a megabit a second brings a piece within eight seconds.
pub const FETCH_DOUBLINGS: u32 = 3;

/// A fetching peer that asks nothing for this long gives up its place.
pub const FETCHER_PATIENCE: Duration = Duration::from_millis(5_000);

/// Newest executed slots whose digests of outcomes a replica keeps: three seconds of five thousand slots a second, ten times
/// as long as it takes to find that replicas differ.
pub const OUTCOME_SLOTS: usize = 1 << 14;

/// Calls in these slots whose hashes it keeps, in half a megabyte: with more calls the oldest slots are forgotten earlier.
pub const OUTCOME_CALLS: usize = 1 << 16;

/// How often a replica tells its digest while calls execute. Two of these spans and an exchange fit into a second.
pub const OUTCOMES_EVERY: Duration = Duration::from_millis(200);

/// The longest pause until a replica that differs from another asks all replicas again: nobody may be left to make a majority.
pub const TRAIL_PAUSE_MAX: Duration = Duration::from_millis(5_000);

/// After this a trail counts no more: its sender may have taken over another state meanwhile.
pub const TRAIL_FRESH: Duration = Duration::from_millis(1_000);

/// Time after a refusal until the report of a host's death is submitted again.
pub const POISON_REPORT_EVERY: Duration = Duration::from_millis(500);

/// How often a node tells the others its wall clock, unless it is told otherwise.
pub const CLOCK_EVERY: Duration = Duration::from_millis(1_000);

/// The same in a group that shares its nodes with many others. In between, clocks are taken to run as fast as the own one.
pub const CLOCK_OF_MANY_EVERY: Duration = Duration::from_millis(5_000);

/// How far a stamp may be from the median clock of the acceptors: synchronized clocks differ by far less, and
/// objects tolerate it.
pub const CLOCK_BOUND: Duration = Duration::from_millis(1_000);

/// Where all nodes stamp: how far agreed time may be ahead of the newest stamp that a node has applied. A command takes less from
/// its stamp to there, and a bound of the clocks is twice as much.
pub const STAMPS_LATE: Duration = Duration::from_millis(500);

/// How long a new group waits for the clocks of all acceptors where the known ones differ by more than the bound: nodes that are started
/// together are linked sooner, and one that is down must not keep the others from beginning.
pub const CLOCKS_AWAITED: Duration = Duration::from_millis(5_000);

/// Slots with poison calls that are never skipped whose reports are kept, and as many with skipped ones: more than hosts can die in
/// together.
pub const POISON_CALLS: usize = 16;

/// Bytes of an image that a replica encodes and writes in a second at the least: one that is slower is not waited for.
pub const TURN_BYTES_PER_S: u64 = 32 << 20;

/// Where replicas have left a snapshot out, because they were busy with the one before, the leader asks for another one so long after
/// it is free: a quarter of the shortest turn, so that the others are free too.
pub const CHECKPOINT_AGAIN: Duration = Duration::from_millis(250);

/// How long replicas wait at least for one that encodes a large snapshot before them.
pub const TURN_MIN: Duration = Duration::from_millis(1_000);

/// A checkpoint is asked for because executing took long only once it took so many times as long as the last snapshot, so that
/// snapshots take a tenth of the time.
pub const REPEATING_SHARE: u64 = 10;

/// How often a snapshot report is repeated while no majority agrees on it.
pub const REPORT_EVERY: Duration = Duration::from_millis(2_000);

/// How often a node with little room on its disk asks for a checkpoint: it takes a snapshot and a trim to see what one has freed.
pub const SHORTAGE_EVERY: Duration = Duration::from_millis(1_000);

/// After so many clocks of a peer that did not repeat that its disk is full, it is not. With two, a clock that overtakes the words
/// sent with it does no harm.
pub(crate) const CLOCKS_WITHOUT_SHORTAGE: u32 = 2;

/// How often a replica that differs from the majority asks for a checkpoint ahead of its objects.
pub const HEAL_EVERY: Duration = Duration::from_millis(5_000);

/// After so long a replica says again that a majority holds the state of a reset: what it said may be lost with a leader.
pub const THAW_EVERY: Duration = Duration::from_millis(500);

/// Resets of operators that wait for their slot at one node: one is meant, the others are repetitions.
pub const RESETS_WAITING: usize = 16;

/// What the answer of a call that was parked counts for beside its value: the entry that stays until its session ends. A session
/// keeps 32,768 of them at most, which with its window and all parked calls fit into an image of it.
pub const WOKEN_BYTES: usize = 512;

/// After so long a replica that does not lead submits a tick for what is due: the leader's objects may hang.
pub(crate) const TICK_PATIENCE: Duration = Duration::from_millis(1_000);

/// The pause between two ticks of a node for the same time, where one did not have all happen that was due.
pub(crate) const TICK_AGAIN: Duration = Duration::from_millis(20);

/// A node looks at least so often whether something is due: agreed time may come faster than its own.
pub(crate) const TICK_LOOK_MAX: Duration = Duration::from_millis(1_000);

/// Operators' words about poison calls that wait for their slot at one node: one is meant, the others are repetitions.
pub const SKIPS_WAITING: usize = 16;

/// Expiries proposed in one sweep: a mass expiry is spread over several batches.
pub const EXPIRIES_PER_SWEEP: usize = 1024;

/// How often a leader looks for expired sessions, and dates what was applied: sixteen times in the shortest expiry time.
pub const SWEEP_EVERY: Duration = Duration::from_micros(62_500);

/// How many more sessions than are open a leader may have noted to look at again: beyond that it forgets those that ended.
pub(crate) const DUE_SLACK: usize = 64;

/// A leader that is heard again within so long has led all the while: an election after its process was killed, and less than a client of
/// the shortest expiry time waits with its next sign of life, which is a third of a second.
pub const SERVED_GAP: Duration = Duration::from_millis(320);

/// What a node hears of its leader's quorum so late counts for no session's age: twenty heartbeats.
pub const SERVED_LATE: Duration = Duration::from_millis(500);

/// Sessions of whose signs of life a node tells: their ages fit into a few megabytes. The others count as if they had given one
/// when the youngest of them did.
pub(crate) const SIGNS_TOLD: usize = 1 << 18;

/// How many more notes of signs of life than twice the open sessions a node keeps before it forgets those that ended.
pub(crate) const NOTES_SLACK: usize = 4096;

/// How often a node asks again what others know of signs of life.
pub const SIGNS_EVERY: Duration = Duration::from_millis(500);

/// Closed connections that are told to a leader in one message: many that die together are told of in a few turns.
pub const DISCONNECTS_TOLD: usize = 1 << 12;

/// For how long beyond the shorter time of its session a closed connection is told to leaders: twenty times. After that the expiry
/// time counts.
pub const DISCONNECT_TOLD_FOR: Duration = Duration::from_millis(10_000);

/// How long a leader waits for a quorum to note a keepalive: its client has asked another node then.
pub(crate) const NOTING_MAX: Duration = Duration::from_millis(4_000);

/// Samples of (applied slot, time) from which the time of a session's newest command is estimated: two hundred reach back for
/// the longest expiry time.
pub const ACTIVITY_SAMPLES: usize = 512;

/// A date may be wrong by this part of its age when a sample is dropped.
pub(crate) const ACTIVITY_SHARE: u64 = 16;

/// Weight of calls that the objects may have of slots that are not decided, and of what came of them, in bytes: the next slot may
/// pass it.
pub const SPECULATION_BYTES: usize = 8 << 20;

/// Orders that are not decided and known ahead. They share their batches with the log.
pub const SPECULATION_OFFERS: usize = 1 << 12;

/// How long objects keep a state that is not decided: a replica that is cut off goes back to one that its reads may show.
pub const SPECULATION_PATIENCE: Duration = Duration::from_millis(1_000);
