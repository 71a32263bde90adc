//! The outputs of a replica.

use crate::{ClockOffset, OutcomeDifference, PeerMessage, Quarantine, SnapshotCore};
use quorate_ordering::{ConflictingDecisions, Lane, Mark, ReadId, Record, Role};
use quorate_types::{
    ConnectionId, Digest, Level, NodeId, NodeSet, ObjectId, Slot, SlotSteps, Stamp, ToClient,
    Value, ViewNumber,
};

/// One output of a replica. Outputs must be performed in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Output<M> {
    /// Send `message` to each node of `to`, encoded once.
    Send {
        /// Receivers, never this node.
        to: NodeSet,
        /// Queue of the link.
        lane: Lane,
        /// The message.
        message: PeerMessage<M>,
    },
    /// Send an answer to a client; it is dropped if the connection has ended.
    Reply {
        /// The client's connection.
        to: ConnectionId,
        /// The message.
        message: ToClient,
    },
    /// This node takes part in a view for the first time: make that durable at once, before anything that follows, so that the next
    /// start knows that it may have voted in it.
    BeginView {
        /// The number of the view.
        number: ViewNumber,
        /// The view with which this start came back as its own incarnation, [`crate::ReplicaConfig::fresh`]: from then on it lacks
        /// nothing that it promised or voted.
        back: Option<ViewNumber>,
    },
    /// Append `record` to the log; [`crate::Input::Persisted`] tells when it is durable.
    Persist {
        /// Number of this write.
        mark: Mark,
        /// The record.
        record: Record,
    },
    /// Two values are decided for one slot: stop at once, perform nothing that follows, and do not vote again.
    Conflict(ConflictingDecisions),
    /// A view is in force whose level this node's build does not speak: stop at once, perform nothing that follows. A build that
    /// speaks it goes on from here.
    LevelNotSpoken {
        /// The level.
        level: Level,
        /// The view.
        view: ViewNumber,
    },
    /// Everything that was lost from a damaged log is written again: the next start need not report the damage.
    Repaired,
    /// Write `base`, then remove records of slots up to `upto`.
    Discard {
        /// The last slot whose records may be removed.
        upto: Slot,
        /// The records that must be durable first.
        base: Vec<Record>,
    },
    /// Execute these steps after everything sent out before; answer with [`crate::Input::Executed`]. There
    /// is one only for slots that have steps.
    Execute {
        /// The slot of the steps.
        slot: Slot,
        /// The environment all replicas agree on.
        stamp: Stamp,
        /// The steps, in this order.
        steps: SlotSteps,
    },
    /// Like [`Output::Execute`], for a slot that is not decided: [`Output::Confirm`] or [`Output::Undo`] follows. Nothing that
    /// comes of it may be seen outside of the objects until then.
    Speculate {
        /// The slot of the steps.
        slot: Slot,
        /// The environment all replicas agree on, if it is decided so.
        stamp: Stamp,
        /// The steps, in this order.
        steps: SlotSteps,
    },
    /// The slot of an [`Output::Speculate`] is decided as it was sent, as are all before.
    Confirm {
        /// The slot.
        slot: Slot,
    },
    /// Give the objects the state back that they had after `after`: as if what was sent out for later slots had never been. Answer
    /// with [`crate::Input::Undone`].
    Undo {
        /// The last slot that stays executed.
        after: Slot,
    },
    /// The group decided to skip this call: unless its outcome was reported already, it is not executed and
    /// its outcome is [`quorate_types::Outcome::Skipped`]. This comes just before the slot's
    /// [`Output::Execute`], or any time after it.
    Skip {
        /// The call's slot.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// Execute a call that changes nothing, after everything sent out before; answer with
    /// [`crate::Input::Queried`].
    Query {
        /// The read.
        read: ReadId,
        /// The object.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// Freeze the objects' state after everything sent out before. Calls must not wait for its
    /// encoding. Large states are encoded once the replica's own part follows with [`Output::FinishSnapshot`]: replicas take turns.
    TakeSnapshot {
        /// The slot of the state.
        slot: Slot,
    },
    /// The replica's part of the snapshot at `core.slot`: join it with the objects' image, make both
    /// durable, answer with [`crate::Input::SnapshotTaken`].
    FinishSnapshot {
        /// Sessions, replies, view and digests at the slot.
        core: Box<SnapshotCore>,
        /// The newest agreed snapshot of this node: keep it beside the newest two, because peers may take no other.
        agreed: Slot,
    },
    /// Send a piece of the snapshot at `slot` to `to` as [`crate::ReplicaMessage::Chunk`].
    SendChunk {
        /// The peer that asked.
        to: NodeId,
        /// The slot of the snapshot.
        slot: Slot,
        /// The offset at which the piece begins.
        offset: u64,
        /// The most bytes to send.
        length: u32,
    },
    /// Keep this piece of a snapshot that is being fetched. Pieces come in ascending order.
    StoreChunk {
        /// The slot of the snapshot.
        slot: Slot,
        /// The offset at which the piece begins; 0 starts again.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The piece.
        data: Value,
    },
    /// All pieces are there: verify, make durable, restore the objects; answer with
    /// [`crate::Input::Installed`] or [`crate::Input::InstallFailed`].
    Install {
        /// The slot of the snapshot.
        slot: Slot,
        /// The digest that it must have; any other is refused before the objects see it.
        digest: Digest,
    },
    /// The node's role changed.
    Role(Role),
    /// This node's objects answer no calls any more: make that durable at once, so that it survives a restart.
    Quarantined(Quarantine),
    /// Outcomes of a replica differ from those of others: name the call.
    OutcomesDiffer(OutcomeDifference),
    /// The own clock or agreed time differs from a majority's clocks by more than the bound, or no longer
    /// does.
    ClocksDiffer(ClockOffset),
    /// The objects have an agreed state again: remove the quarantine.
    Healed {
        /// The slot of the snapshot with that state.
        slot: Slot,
    },
}
