//! What a replica wants done.

use crate::{ClockOffset, PeerMessage, Quarantine, SnapshotCore};
use quorate_ordering::{Lane, Mark, ReadId, Record, Role};
use quorate_types::{
    Call, ConnectionId, Digest, NodeId, NodeSet, ObjectId, Slot, Stamp, ToClient, Value,
};

/// One consequence, to be performed in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Output<M> {
    /// Send `message` to each node of `to`, encoded once.
    Send {
        /// Receivers, never this node.
        to: NodeSet,
        /// Queue of the link.
        lane: Lane,
        /// What to say.
        message: PeerMessage<M>,
    },
    /// Tell a client; a connection that has ended swallows it.
    Reply {
        /// Its connection.
        to: ConnectionId,
        /// What to say.
        message: ToClient,
    },
    /// Append `record` to the log; [`crate::Input::Persisted`] tells when it is durable.
    Persist {
        /// Number of this write.
        mark: Mark,
        /// What to write.
        record: Record,
    },
    /// What the log's damage has taken is written again: it need not be reported at the next start.
    Repaired,
    /// Write `base`, then remove records of slots up to `upto`.
    Discard {
        /// The last slot whose records may go.
        upto: Slot,
        /// What must be durable first.
        base: Vec<Record>,
    },
    /// Execute these calls after everything handed out before; answer with [`crate::Input::Executed`].
    /// Handed out only for slots that have calls.
    Execute {
        /// Their slot.
        slot: Slot,
        /// The environment all replicas agree on.
        stamp: Stamp,
        /// What to call, in this order.
        calls: Vec<Call>,
    },
    /// The group decided to skip this call: unless its outcome was told already, it is not executed and
    /// its outcome is [`quorate_types::Outcome::Skipped`]. Comes just before the slot's
    /// [`Output::Execute`], or any time after it.
    Skip {
        /// The call's slot.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// Answer a call that changes nothing, after everything handed out before; answer with
    /// [`crate::Input::Queried`].
    Query {
        /// Which read.
        read: ReadId,
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// Freeze the objects' state after everything handed out before. Calls must not wait for its
    /// encoding. The replica's own part follows with [`Output::FinishSnapshot`].
    TakeSnapshot {
        /// The slot whose state it is.
        slot: Slot,
    },
    /// The replica's part of the snapshot at `core.slot`: join it with the objects' image, make both
    /// durable, answer with [`crate::Input::SnapshotTaken`].
    FinishSnapshot {
        /// Sessions, replies, view and digests at the slot.
        core: Box<SnapshotCore>,
    },
    /// Send a piece of the snapshot at `slot` to `to` as [`crate::ReplicaMessage::Chunk`].
    SendChunk {
        /// Who asked.
        to: NodeId,
        /// Which snapshot.
        slot: Slot,
        /// Where the piece begins.
        offset: u64,
        /// How many bytes at most.
        length: u32,
    },
    /// Keep this piece of a snapshot that is being fetched. Pieces come in ascending order.
    StoreChunk {
        /// Which snapshot.
        slot: Slot,
        /// Where the piece begins; 0 begins anew.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The piece.
        data: Value,
    },
    /// All pieces are there: verify, make durable, restore the objects; answer with
    /// [`crate::Input::Installed`] or [`crate::Input::InstallFailed`].
    Install {
        /// Which snapshot.
        slot: Slot,
        /// What it must hold; anything else is refused before the objects see it.
        digest: Digest,
    },
    /// The node's role changed.
    Role(Role),
    /// This node's objects answer nobody any more: make that durable at once, so that a restart knows it.
    Quarantined(Quarantine),
    /// The own clock or agreed time differs from a majority's clocks by more than the bound, or all agree
    /// again.
    ClocksDiffer(ClockOffset),
    /// The objects hold an agreed state again: forget the quarantine.
    Healed {
        /// The slot of the snapshot that brought it.
        slot: Slot,
    },
}
