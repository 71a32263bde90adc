//! Bounds and times of the client, each with its reason.

use std::time::Duration;

/// Body bytes after which a frame of calls is closed and the next begun: a quarter of what a node
/// takes, so that one more payload of the usual sizes always fits.
pub(crate) const FRAME_BYTES: usize = 2 << 20;

/// Bytes that may wait to be written: beyond it the node does not read, and calls are held back.
pub(crate) const WAITING_BYTES_MAX: usize = 32 << 20;

/// Bytes read from a connection before others get a turn.
pub(crate) const READ_TURN_BYTES: usize = 1 << 20;

/// Operations handed to a client and not begun yet; more callers wait, except event loops, whose futures bound what they hand over.
pub(crate) const QUEUE_MAX: usize = 4096;

/// Names that a process looks up at once, each on a thread: more than a group has members.
pub(crate) const LOOKUPS_MAX: usize = 16;

/// Dials that wait for the address of one name; older ones have given up.
pub(crate) const LOOKUP_WAITERS_MAX: usize = 64;

/// Connections on which a client announces its reads: a majority of the largest useful group and more.
pub(crate) const ANNOUNCERS_MAX: usize = 15;

/// Announcements that may wait for one of them: a node that does not read loses the rest, which delays nobody else.
pub(crate) const ANNOUNCED_WAITING_MAX: usize = 64 << 10;

/// After so long those that failed are tried again.
pub(crate) const ANNOUNCERS_RETRIED: quorate_types::Duration =
    quorate_types::Duration::from_millis(1_000);

/// How often what has come on them is read: hints to the leader, at most one for each change.
pub(crate) const ANNOUNCERS_DRAINED: quorate_types::Duration =
    quorate_types::Duration::from_millis(500);

/// Notes that are kept until the owner of the client hears them; more are dropped.
pub(crate) const NOTES_MAX: usize = 64;

/// How long begun operations that nobody waits for may lie before they are sent: what is begun meanwhile shares their frame.
pub(crate) const LINGER: Duration = Duration::from_millis(1);

/// How long answers may lie in a socket that callers watch, while none of them waits: then the background thread watches it.
pub(crate) const LENT_MAX: Duration = Duration::from_millis(10);

/// How long callers keep a connection without anything in flight: while they call more often no thread is woken for them.
pub(crate) const LENT_IDLE_MAX: Duration = Duration::from_millis(100);

/// How long a first connection may take when the caller sets no time.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Events that the background thread takes at once; others come with its next turn.
pub(crate) const EVENTS_MAX: usize = 256;

/// How long a waiting thread leaves signals unseen that another thread took, and a closed client unnoticed.
pub(crate) const WAIT_SLICE: Duration = Duration::from_millis(50);

/// Reads of 4 KiB that a client that is closed spends on what has arrived: what comes later is not waited for.
pub(crate) const DRAINED_MAX: usize = 256;
