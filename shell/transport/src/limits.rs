//! Every bound of the transport, each with its reason.

use quorate_types::Duration;

/// What a connection may cost. Defaults suit one group on ordinary machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportLimits {
    /// Connections at once, so that file descriptors are left for the log and for peers.
    pub connections: usize,
    /// Clients at once from one address: one machine leaves places for the others.
    pub connections_per_address: usize,
    /// Bytes that wait for a client that does not read; it is closed above.
    pub client_queue: usize,
    /// Bytes that all clients together hold in buffers, received or to be sent, those of the process's other groups among them. Above
    /// it the client that holds most is closed: half frames and unread answers never cost the node its memory.
    pub clients_bytes: usize,
    /// Bytes that wait for a peer; the link is dropped above, which costs the peer a catch-up and
    /// never this node its memory.
    pub peer_queue: usize,
}

impl Default for TransportLimits {
    fn default() -> TransportLimits {
        TransportLimits {
            connections: 12_288,
            connections_per_address: 10_000,
            client_queue: 16 << 20,
            clients_bytes: 256 << 20,
            peer_queue: 64 << 20,
        }
    }
}

/// A connection that has not said who it is after this time is closed.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_millis(5_000);

/// A client that has sent nothing for this long is closed. A session's keepalives come six times as often.
pub(crate) const IDLE_MAX: Duration = Duration::from_millis(60_000);

/// A client's frame that is not whole after this time ends the connection: the largest frame arrives at 2.2 Mbit/s.
pub(crate) const HALF_FRAME_MAX: Duration = Duration::from_millis(30_000);

/// Connections that have not said who they are: above it the one that is silent for longest is closed.
pub(crate) const STRANGERS_MAX: usize = 1024;

/// Steps of TLS handshakes of strangers in one turn of the loop: some milliseconds, so that a flood of them delays requests by
/// no more.
pub(crate) const GREETINGS_PER_TURN: usize = 16;

/// Connections of the total that only peers may take: clients never lock a peer out.
pub(crate) const RESERVED_FOR_PEERS: usize = 64;

/// A dialled peer that has not answered after this time is dialled again: a lost SYN or a stopped
/// process must not hold the link down once the fault is over.
pub(crate) const DIAL_MAX: Duration = Duration::from_millis(1_000);

/// Written bytes that a peer's kernel does not take for this long end the link.
pub(crate) const UNTAKEN_MAX: Duration = Duration::from_millis(5_000);

/// Connections over all: what an id keeps of the slot in its low bits.
pub(crate) const SLOTS_MAX: usize = 1 << 16;

/// Replies share a frame up to this size.
pub(crate) const REPLY_FRAME: usize = 64 << 10;

/// Bytes read from one socket before the others get their turn.
pub(crate) const READ_PER_TURN: usize = 256 << 10;

/// Bytes read from one client before the others get their turn: some thousand requests, so that a flood of one does not make
/// a turn long for all.
pub(crate) const CLIENT_READ_PER_TURN: usize = 64 << 10;

/// Bytes of clients' large frames read in one turn: a tenth of a millisecond of new memory and copies, so that hundreds of clients
/// whose large frames come at once delay the requests of others by no more. Longer steps carry no more calls of 64 KiB.
pub(crate) const LARGE_READ_PER_TURN: usize = 128 << 10;

/// A client that has sent less than `STALLED_BYTES` of its large frame for this long sends too slowly to be waited for while such frames
/// take an eighth of `clients_bytes`: at a megabit a second it sends as much.
pub(crate) const STALLED_AFTER: Duration = Duration::from_millis(250);
pub(crate) const STALLED_BYTES: usize = 32 << 10;

/// How often such clients are looked for.
pub(crate) const STALLED_LOOKED_FOR_EVERY: Duration = Duration::from_millis(25);

/// Frames below this size are copied together, larger ones are shared between links: a small copy
/// is cheaper than one more piece in a vectored write.
pub(crate) const SHARE_MIN: usize = 4 << 10;

/// Small frames are copied together up to this size.
pub(crate) const JOIN_MAX: usize = 64 << 10;

/// Pieces of one vectored write; the kernel takes 1024 at most.
pub(crate) const PIECES_MAX: usize = 64;

/// First pause before a peer is dialled again.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(10);

/// Longest pause before a peer is dialled again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// Connections accepted before other sockets get their turn.
pub(crate) const ACCEPT_PER_TURN: usize = 64;

/// How long accepting pauses after the process ran out of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often one peer's refusal is logged at most.
pub(crate) const REFUSAL_LOGGED_EVERY: Duration = Duration::from_millis(60_000);

/// How often a peer that is sent nothing else is told at most how far the log has come.
pub(crate) const REACH_TOLD_EVERY: Duration = Duration::from_millis(50);

/// How often commits seen of peers are written down at most; two small files each time.
pub(crate) const PASTS_NOTED_EVERY: Duration = Duration::from_millis(10_000);
