//! What happens to a replica.

use crate::{PeerMessage, SnapshotCore};
use quorate_ordering::{LinkState, Mark, ReadId};
use quorate_types::{ConnectionId, FromClient, LinkEpoch, NodeId, Outcome, Slot, Wall};

/// One thing that happened. The node hands in everything that has arrived, then one
/// [`Input::TurnEnd`], then performs the outputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Input<M> {
    /// A client sent this.
    Client {
        /// Its connection.
        from: ConnectionId,
        /// What it asks.
        message: FromClient,
    },
    /// A client's connection ended: nobody waits there any more.
    Disconnected {
        /// Which connection.
        connection: ConnectionId,
    },
    /// A peer sent this.
    Peer {
        /// Who.
        from: NodeId,
        /// The life of the link on which it came.
        link: LinkEpoch,
        /// What it says.
        message: PeerMessage<M>,
    },
    /// A link changed.
    Link {
        /// To whom.
        peer: NodeId,
        /// How it is now.
        state: LinkState,
    },
    /// Every write up to and including `mark` is durable.
    Persisted {
        /// The highest durable write.
        mark: Mark,
    },
    /// The objects executed the calls of [`crate::Output::Execute`] for `slot`, in that order.
    Executed {
        /// Which slot; slots come back in the order in which they were handed out.
        slot: Slot,
        /// One outcome per call, in the calls' order.
        outcomes: Vec<Outcome>,
    },
    /// The objects answered a query.
    Queried {
        /// Which read.
        read: ReadId,
        /// What it returned or raised.
        outcome: Outcome,
    },
    /// The image asked for by [`crate::Output::TakeSnapshot`] is encoded and durable.
    SnapshotTaken {
        /// The slot whose state it holds.
        slot: Slot,
        /// Digest of the objects' state by value.
        digest: [u8; 32],
        /// Bytes of the whole image.
        bytes: u64,
    },
    /// The image of `slot` could not be taken (disk full, state that cannot be encoded).
    SnapshotFailed {
        /// Which slot.
        slot: Slot,
    },
    /// A fetched snapshot was verified, is durable, and the objects hold its state.
    Installed {
        /// The replica's own part of it.
        core: SnapshotCore,
        /// Digest of the objects' state by value.
        digest: [u8; 32],
        /// Bytes of the whole image.
        bytes: u64,
    },
    /// A fetched snapshot was damaged or could not be restored; nothing changed.
    InstallFailed {
        /// Which slot.
        slot: Slot,
    },
    /// The objects' host works again or stopped working (crashed, hangs): while it does not, calls
    /// and queries are kept back by the host, not lost.
    Host {
        /// Whether it works.
        is_up: bool,
    },
    /// The objects' host died for good at this call, again and again: it takes part again only once the
    /// group skips the call ([`crate::Output::Skip`]).
    HostDied {
        /// The call's slot.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// The log's storage has room again, or has none: while it has none nothing new is taken in here.
    Storage {
        /// Whether it takes new votes.
        has_room: bool,
    },
    /// Take a snapshot everywhere at one agreed slot (operator's wish; clients use their own message).
    Checkpoint,
    /// Give leadership away and refuse new work: the node is about to leave.
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
