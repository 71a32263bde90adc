//! Bounds of this crate, each with its reason.

use std::time::Duration;

/// Frozen states that wait for their encoding. Each may pin a copy of everything written since, so a
/// third one is refused: the replica tries again at its next snapshot.
pub const IMAGES_PENDING_MAX: usize = 2;

/// From this size of the state on, encoding does not give way to calls: with busy cores it would take seconds, and the log would
/// grow in them by more than the state.
pub const LARGE_IMAGE_BYTES: usize = 256 << 20;

/// Niceness of the threads that encode: calls come first.
pub const ENCODER_NICENESS: i32 = 10;

/// How long Rust objects execute what has piled up before the node votes and answers again: far longer than a turn takes at the
/// highest rates, and short beside what clients and elections wait for.
pub const EXECUTES_FOR: Duration = Duration::from_millis(5);

/// A call that has not returned by then is reported, and again each time its span has doubled: ten lines
/// for a quarter of an hour.
pub const HANG_REPORTED_AFTER: Duration = Duration::from_secs(1);

/// A call may take this long unless told otherwise: the whole group waits for it. It is as long as clients
/// wait unless told otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Steps that a call may take unless told otherwise. Short rounds take some seconds then, less than [`CALL_TIMEOUT`], and a
/// call that means to end takes a hundredth.
pub const BUDGET_STEPS: u64 = 50_000_000;

/// How long a read that ended its process is answered from memory: a client gives a silent node up after 4 s at
/// most, and asks every node of a group of five until then.
pub const ENDED_READ_KEPT: Duration = Duration::from_secs(20);

/// Reads that are answered so. Each ended a process, which takes longer than a hundredth of the span above.
pub const ENDED_READS_MAX: usize = 64;

/// Address space of a host process unless told otherwise: an image takes twice the state beside it, so this is enough
/// for a state of a gigabyte.
pub const HOST_MEMORY_BYTES: u64 = 4 << 30;

/// Output of objects that is passed on at once. A traceback has a few kilobytes.
pub const OUTPUT_BURST_BYTES: usize = 64 << 10;

/// Output that is passed on in a second after that: 700 MB a day at most, which the log files rotate away.
pub const OUTPUT_BYTES_PER_S: u64 = 8 << 10;

/// Longest line; a longer one is cut.
pub const OUTPUT_LINE_BYTES_MAX: usize = 4 << 10;

/// Calls of a group that may be parked: each holds a client's attention and a place in every image.
pub const PARKED_MAX: usize = 10_000;

/// Timers that one object may have set: each takes a place in every image.
pub const TIMERS_MAX: usize = 10_000;

/// Timers of one object that run in one tick; those that are due beyond it wait for the next.
pub const TIMERS_AT_ONCE: usize = 1_024;

/// Methods that are remembered for having changed their object as reads; a class has fewer.
pub const LIARS_MAX: usize = 256;

/// Frames to a host process that wait for its socket; more waits in the work log, which exists anyway.
pub const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Longest frame of a host process: the largest outcome, and what was gathered before it. A host that writes to its
/// stream on its own must not fill the node's memory.
pub const REPLY_BYTES_MAX: usize = 16 << 20;

/// Outcomes of one slot, together. They leave at the slot's end and are in memory until then, on every replica. A batch of
/// 1,024 calls that return 128 KiB each fits.
pub const SLOT_OUTCOMES_BYTES_MAX: usize = 128 << 20;

/// Outcomes below this size are sent however many there are: 65,536 of them are as much as the above.
pub const SMALL_OUTCOME_BYTES: usize = 2 << 10;

/// Bytes read of a host process before the node's other work gets its turn.
pub const READ_PER_POLL: usize = 4 << 20;

/// Space offered to one read of a host process's replies.
pub const READ_BYTES: usize = 256 << 10;

/// Work kept for a new host process before the host makes an image of its own, however long it took.
pub const WORK_LOG_BYTES_MAX: usize = 64 << 20;

/// What calls may have taken since the last image where they are executed ahead of decisions: a process that is replaced because
/// they are undone repeats them, and all nodes may have to at once. About as long as the next process takes to start.
pub const CATCHING_UP_MAX: Duration = Duration::from_millis(500);

/// A process that has not undone calls by then is replaced: the next one is there sooner.
pub const UNDO_PATIENCE: Duration = Duration::from_secs(2);

/// What runs of an undo before a call takes no longer, or its process is replaced by one that does without it. Less than
/// [`CALL_TIMEOUT`], and enough to encode a state twice that is encoded for a comparison.
pub const KEEP_PATIENCE: Duration = Duration::from_secs(5);

/// An image is made for that only after calls of so many times as long as the last one took, so that it costs a tenth at most.
pub const IMAGE_SHARE: u32 = 10;

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

/// A value of this size or more may share the memory of the call that brought it: frames of this size are read into memory of
/// their own, so a value that is kept for long holds little else.
pub(crate) const SHARED_VALUE_BYTES_MIN: usize = 32 << 10;
