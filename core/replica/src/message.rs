//! What replicas say to each other, beside what their ordering protocols say.

use quorate_types::{Digest, SessionId, Slot, Value, ViewId, Wall};

/// A message from node to node inside one group.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerMessage<M> {
    /// Between the ordering instances of one view.
    Ordering {
        /// The view they order.
        view: ViewId,
        /// What it says.
        message: M,
    },
    /// Between replicas.
    Replica(ReplicaMessage),
}

/// A message from replica to replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaMessage {
    /// To the leader: the client of `session`, connected here, is alive.
    KeepAlive {
        /// Whose session.
        session: SessionId,
    },
    /// From the leader: the keepalive counts.
    KeptAlive {
        /// Whose session.
        session: SessionId,
        /// Whether the session lives; if not it is expired or about to be.
        is_alive: bool,
    },
    /// A durable snapshot stands here, with these digests.
    Durable {
        /// Its slot.
        slot: Slot,
        /// What stands in it.
        digest: Digest,
        /// Bytes of the image.
        bytes: u64,
    },
    /// A majority of the view's replicas took this digest: the snapshots that have it are right.
    Agreed {
        /// Their slot.
        slot: Slot,
        /// What stands in them.
        digest: Digest,
    },
    /// The sender's wall clock shows this.
    Clock {
        /// What it shows.
        wall: Wall,
    },
    /// Send a piece of your newest agreed snapshot at or above `slot`, or of exactly `slot` when `offset`
    /// is not 0.
    Fetch {
        /// The lowest useful slot, or the one being fetched.
        slot: Slot,
        /// Where the piece shall begin.
        offset: u64,
    },
    /// A piece of a snapshot.
    Chunk {
        /// Which snapshot.
        slot: Slot,
        /// Where the piece begins.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The piece.
        data: Value,
    },
    /// No agreed snapshot at or above the slot asked for is held here.
    NoSnapshot {
        /// The slot asked for.
        slot: Slot,
    },
}
