//! What happens to an ordering protocol.

use quorate_types::{Command, LinkEpoch, NodeId, Slot, ViewId, Wall};

/// Numbers the writes of one node; rises with each [`crate::Effect::Persist`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mark(pub u64);

/// Names a read of the replica above; local to the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ReadId(pub u64);

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<M> {
    /// The local replica wants these commands ordered. Whoever orders them stamps the batch.
    Submit {
        /// The commands, in the order in which they arrived.
        commands: Vec<Command>,
    },
    /// The local replica wants to know up to which slot it must execute before it may answer.
    /// Answered by [`crate::Effect::Confirmed`] or [`crate::Effect::Unconfirmed`].
    Read {
        /// The read's name.
        id: ReadId,
        /// Whether the leader's lease is enough.
        lease: bool,
    },
    /// A message of another node's instance arrived.
    Receive {
        /// Who sent it.
        from: NodeId,
        /// The life of the link on which it came.
        link: LinkEpoch,
        /// The view that its sender orders.
        view: ViewId,
        /// What it says.
        message: M,
    },
    /// Every write up to and including `mark` is durable.
    Persisted {
        /// The highest durable write.
        mark: Mark,
    },
    /// A link changed.
    Link {
        /// To whom.
        peer: NodeId,
        /// How it is now.
        state: LinkState,
    },
    /// The replica core has applied the meta part of all slots up to `slot`, or installed a
    /// snapshot that holds them.
    Executed {
        /// The highest applied slot.
        slot: Slot,
    },
    /// A majority of the view's replicas hold a durable snapshot at `slot` with equal digests: the
    /// log up to it may be trimmed.
    Trimmable {
        /// The slot of the snapshot.
        slot: Slot,
    },
    /// The end of a turn: everything that had arrived was handed in. What waits is batched now, under
    /// this stamp's clock and entropy if this node orders it.
    TurnEnd {
        /// Wall clock of this node.
        wall: Wall,
        /// Fresh randomness of this node.
        entropy: u64,
    },
    /// Give up leadership in favour of a peer that is caught up, if this node leads.
    TransferLeadership,
    /// The time asked for by `next_wake` has come.
    Wake,
}

impl<M> Event<M> {
    /// The same event with its message, if it brings one, as `open` has it; `None` where `open` refuses.
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
            Event::Persisted { mark } => Event::Persisted { mark },
            Event::Link { peer, state } => Event::Link { peer, state },
            Event::Executed { slot } => Event::Executed { slot },
            Event::Trimmable { slot } => Event::Trimmable { slot },
            Event::TurnEnd { wall, entropy } => Event::TurnEnd { wall, entropy },
            Event::TransferLeadership => Event::TransferLeadership,
            Event::Wake => Event::Wake,
        })
    }
}

/// How a link to a peer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Connected, in this life.
    Up(LinkEpoch),
    /// Not connected. A peer that exits or crashes shows so at once; a silent one does not.
    Down,
}
