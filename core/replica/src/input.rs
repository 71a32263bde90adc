//! The inputs of a replica.

use crate::{DiskRoom, PeerMessage, SnapshotCore};
use quorate_ordering::{LinkState, Mark, ReadId};
use quorate_types::{
    ClosedBy, ConnectionId, FromClient, Levels, LinkEpoch, NodeId, Outcome, Slot, SlotResults, Wall,
};

/// One input of a replica. In each turn the node passes everything that has arrived, then one
/// [`Input::TurnEnd`], and then performs the outputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Input<M> {
    /// A client sent this.
    Client {
        /// The client's connection.
        from: ConnectionId,
        /// The request.
        message: FromClient,
    },
    /// A client's connection ended: its requests need no answer any more.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// Who closed it, as the system says.
        by: ClosedBy,
    },
    /// A peer sent this.
    Peer {
        /// The peer.
        from: NodeId,
        /// The epoch of the link on which it came.
        link: LinkEpoch,
        /// The message.
        message: PeerMessage<M>,
    },
    /// What a peer says of itself. Comes before the [`Input::Link`] of a link that stands; of a peer that said nothing, nothing is known.
    Greeted {
        /// The peer.
        peer: NodeId,
        /// Which start of it this is.
        boot: u64,
        /// What it speaks.
        levels: Levels,
    },
    /// A link changed.
    Link {
        /// The peer.
        peer: NodeId,
        /// The new state.
        state: LinkState,
    },
    /// Every write up to and including `mark` is durable.
    Persisted {
        /// The highest durable write.
        mark: Mark,
    },
    /// The objects executed the steps of [`crate::Output::Execute`] or [`crate::Output::Speculate`] for `slot`, in that order.
    Executed {
        /// The slot; slots come back in the order in which they were sent out.
        slot: Slot,
        /// What came of them.
        results: SlotResults,
    },
    /// The objects have the state that [`crate::Output::Undo`] asked for: what they tell from here on follows from it.
    Undone {
        /// The last slot that is executed in it.
        after: Slot,
    },
    /// The objects have something to do at an agreed time, first of all at this one, or at none. Comes before the
    /// [`Input::Executed`] of the slot that changed it.
    Due {
        /// That time.
        at: Option<Wall>,
    },
    /// The objects answered a query.
    Queried {
        /// The read.
        read: ReadId,
        /// The value returned or the exception raised.
        outcome: Outcome,
    },
    /// The image asked for by [`crate::Output::TakeSnapshot`] is encoded and durable.
    SnapshotTaken {
        /// The slot whose state it has.
        slot: Slot,
        /// Digest of the objects' state by value.
        digest: [u8; 32],
        /// Bytes of the whole image.
        bytes: u64,
    },
    /// The image of `slot` could not be taken (disk full, state that cannot be encoded).
    SnapshotFailed {
        /// The slot.
        slot: Slot,
    },
    /// A fetched snapshot was verified, is durable, and the objects have its state.
    Installed {
        /// The replica's part of it.
        core: Box<SnapshotCore>,
        /// Digest of the objects' state by value.
        digest: [u8; 32],
        /// Bytes of the whole image.
        bytes: u64,
    },
    /// A fetched snapshot was damaged or could not be restored; nothing changed.
    InstallFailed {
        /// The slot.
        slot: Slot,
    },
    /// The objects' host works again or stopped working (crashed, hangs). While it does not work, the host
    /// keeps calls and queries; none is lost.
    Host {
        /// Whether it works.
        is_up: bool,
    },
    /// The objects' host died at this call repeatedly and is not started again until the group skips the
    /// call ([`crate::Output::Skip`]).
    HostDied {
        /// The call's slot.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// The room on the log's disk has changed.
    Storage {
        /// How much there is.
        room: DiskRoom,
    },
    /// An operator asks for a snapshot on every replica at one slot (clients have their own message).
    Checkpoint,
    /// The node is about to stop: transfer leadership and refuse new work.
    Drain,
    /// The end of a turn, with this node's wall clock and fresh entropy.
    TurnEnd {
        /// Wall clock of this node.
        wall: Wall,
        /// Fresh randomness of this node.
        entropy: u64,
    },
    /// The time asked for by `next_wake` has come.
    Wake,
}
