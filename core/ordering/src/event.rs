//! The inputs of an ordering protocol.

use quorate_types::{BroadcastId, Command, Digest, LinkEpoch, NodeId, NodeSet, Slot, ViewId, Wall};

/// The number of a write of one node. It rises with each [`crate::Effect::Persist`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mark(pub u64);

/// The id of a read of the replica; local to the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ReadId(pub u64);

/// One input of an ordering protocol.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<M> {
    /// The local replica submits commands. The node that orders them stamps their batch.
    Submit {
        /// The commands, in the order in which they arrived.
        commands: Vec<Command>,
    },
    /// The local replica asks up to which slot it must execute before it may answer a read.
    /// Answered by [`crate::Effect::Confirmed`] or [`crate::Effect::Unconfirmed`].
    Read {
        /// The id of the read.
        id: ReadId,
        /// Whether the leader's lease is enough.
        lease: bool,
    },
    /// The same for a read that its client announces to every node, so that acceptors confirm it unasked.
    /// Answered as [`Event::Read`] is.
    ReadAnnounced {
        /// The id of the read.
        id: ReadId,
        /// Its name at the other nodes.
        read: BroadcastId,
    },
    /// A client announces a read that it has sent to the leader.
    Announced {
        /// Its name.
        read: BroadcastId,
    },
    /// A message of another node's instance arrived.
    Receive {
        /// The sender.
        from: NodeId,
        /// The epoch of the link on which it came.
        link: LinkEpoch,
        /// The view that its sender orders.
        view: ViewId,
        /// The message.
        message: M,
    },
    /// Every write up to and including `mark` is durable.
    Persisted {
        /// The highest durable write.
        mark: Mark,
    },
    /// A link changed.
    Link {
        /// The peer.
        peer: NodeId,
        /// The new state.
        state: LinkState,
    },
    /// The replica core has applied the meta part of all slots up to `slot`, or installed a
    /// snapshot that contains them.
    Executed {
        /// The highest applied slot.
        slot: Slot,
    },
    /// A majority of the view's replicas holds a durable snapshot at `slot` with equal digests: the
    /// log up to it may be trimmed.
    Trimmable {
        /// The slot of the snapshot.
        slot: Slot,
        /// What they agree on, restated by the log's base.
        digest: Digest,
    },
    /// The end of a turn: everything that had arrived was handled. Waiting commands are batched now; if
    /// this node orders them, it stamps them with this clock and entropy.
    TurnEnd {
        /// The time to stamp with, as this node's replica judges it; while it is [`Wall::UNKNOWN`], commands wait.
        wall: Wall,
        /// Fresh randomness of this node.
        entropy: u64,
    },
    /// The view ends with the slot `last`: the replica has applied the command that says so. Nothing is proposed above it, and
    /// what waits for a slot, or else NOOPs, fill the slots up to it.
    Close {
        /// The last slot of the view.
        last: Slot,
    },
    /// A peer orders a later view: every slot of this one is decided.
    Passed,
    /// The replica has applied every slot of the view: nothing is ordered here any more. The instance still votes and teaches,
    /// for the nodes that lack some of its slots. Answered by [`crate::Effect::Unordered`].
    Over,
    /// The local replica submits commands that an earlier view left unordered, and that may have been forwarded there.
    Resubmit {
        /// The commands.
        commands: Vec<Command>,
    },
    /// Give up leadership in favour of a peer that is caught up, if this node leads.
    TransferLeadership {
        /// Who may lead next: of these, whoever is nearest.
        to: NodeSet,
    },
    /// Whether clients have sessions, whose times run by what a leader's heartbeats tell: while nobody has, a leader may send fewer.
    Attended(bool),
    /// The time asked for by `next_wake` has come.
    Wake,
}

impl<M> Event<M> {
    /// Converts the message of the event, if it has one, with `open`. `None` if `open` returns `None`.
    pub fn try_map<N>(self, open: impl FnOnce(M) -> Option<N>) -> Option<Event<N>> {
        Some(match self {
            Event::Receive {
                from,
                link,
                view,
                message,
            } => Event::Receive {
                from,
                link,
                view,
                message: open(message)?,
            },
            Event::Submit { commands } => Event::Submit { commands },
            Event::Read { id, lease } => Event::Read { id, lease },
            Event::ReadAnnounced { id, read } => Event::ReadAnnounced { id, read },
            Event::Announced { read } => Event::Announced { read },
            Event::Persisted { mark } => Event::Persisted { mark },
            Event::Link { peer, state } => Event::Link { peer, state },
            Event::Executed { slot } => Event::Executed { slot },
            Event::Trimmable { slot, digest } => Event::Trimmable { slot, digest },
            Event::TurnEnd { wall, entropy } => Event::TurnEnd { wall, entropy },
            Event::Close { last } => Event::Close { last },
            Event::Passed => Event::Passed,
            Event::Over => Event::Over,
            Event::Resubmit { commands } => Event::Resubmit { commands },
            Event::TransferLeadership { to } => Event::TransferLeadership { to },
            Event::Attended(is_attended) => Event::Attended(is_attended),
            Event::Wake => Event::Wake,
        })
    }
}

/// The state of a link to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Connected, in this epoch.
    Up(LinkEpoch),
    /// Not connected. An exit or crash of the peer shows at once; silence does not.
    Down,
}
