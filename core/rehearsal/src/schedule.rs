//! What is going to happen, in the order of its time.

use quorate_any::AnyMessage;
use quorate_ordering::Mark;
use quorate_replica::PeerMessage;
use quorate_types::{ConnectionId, FromClient, LinkEpoch, NodeId, Time, ToClient};
use std::collections::BTreeMap;

/// One thing that is going to happen.
#[derive(Debug)]
pub(crate) enum Occurrence {
    /// A message reaches a node.
    Arrives {
        from: NodeId,
        to: NodeId,
        epoch: LinkEpoch,
        message: Box<PeerMessage<AnyMessage>>,
    },
    /// A life's writes up to the mark are durable.
    Durable { node: NodeId, life: u64, mark: Mark },
    /// A life wants to be woken.
    Wakes { node: NodeId, life: u64 },
    /// Two nodes try to connect.
    Connects { one: NodeId, other: NodeId },
    /// A link that was cut is given up, unless it was healed.
    Silent {
        one: NodeId,
        other: NodeId,
        epoch: LinkEpoch,
    },
    /// A node notices that the process of a peer has ended.
    Notices { node: NodeId, peer: NodeId },
    /// A client's dial arrives; void if it has dialled again.
    Dialled {
        caller: usize,
        dial: u64,
        node: NodeId,
    },
    /// A request reaches a node.
    Asked {
        connection: ConnectionId,
        message: FromClient,
    },
    /// An answer reaches a client.
    Answered {
        connection: ConnectionId,
        message: ToClient,
    },
    /// Both ends notice that a connection has ended.
    Ends { connection: ConnectionId },
    /// A client's session wants to be woken.
    CallerWakes { caller: usize },
    /// A copy of a call reaches a node on a connection of its own.
    Copied {
        node: NodeId,
        attach: FromClient,
        call: FromClient,
    },
}

/// The queue: by time, and in the order of coming where times are equal.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: BTreeMap<(Time, u64), Occurrence>,
    pushed: u64,
}

impl Schedule {
    pub(crate) fn push(&mut self, at: Time, occurrence: Occurrence) {
        self.pushed += 1;
        self.due.insert((at, self.pushed), occurrence);
    }

    /// The time of the next one.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Occurrence)> {
        self.due
            .pop_first()
            .map(|((at, _), occurrence)| (at, occurrence))
    }
}
