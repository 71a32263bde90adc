//! Future events, in the order of time.

use super::World;
use super::clock::Moment;
use super::network::Packet;
use bytes::Bytes;
use quorate_types::{BroadcastId, ConnectionId, Duration, FromClient, LinkEpoch, NodeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a moment.
#[derive(Debug)]
pub(super) enum Event {
    /// A node that is down starts.
    Start { node: NodeId },
    /// The end of a node's log is damaged, as far back as it has records of the newest view.
    ViewLost { node: NodeId, down: Duration },
    /// A node that was to die after some outputs dies whatever it did.
    Doom { node: NodeId, life: u64 },
    /// All machines lose their power.
    AllLosePower,
    /// A node hands in what has arrived.
    Turn { node: NodeId, life: u64 },
    /// A node's replica wants to be woken.
    Alarm { node: NodeId, life: u64 },
    /// A commit ends.
    Committed { node: NodeId, life: u64 },
    /// The log's thread tries a full disk again.
    LogRetried { node: NodeId, life: u64 },
    /// A file of the log is removed.
    SegmentRemoved { node: NodeId, life: u64 },
    /// The objects have done a piece of work.
    Worked { node: NodeId, life: u64 },
    /// Another process of a node's objects starts.
    HostStarts { node: NodeId, life: u64 },
    /// A message between nodes arrives.
    Arrives(Packet),
    /// A datagram arrives at a node.
    Datagram {
        /// Who sent it.
        from: NodeId,
        /// The node.
        to: NodeId,
        /// What it says.
        bytes: Bytes,
    },
    /// Two nodes try to connect.
    Connect { one: NodeId, other: NodeId },
    /// A link has been silent in one direction for long.
    Silent {
        one: NodeId,
        other: NodeId,
        epoch: LinkEpoch,
    },
    /// A node notices that a link has ended.
    LinkEnds {
        node: NodeId,
        life: u64,
        peer: NodeId,
        epoch: LinkEpoch,
    },
    /// A client's message arrives at its node.
    ToNode {
        connection: ConnectionId,
        bytes: Bytes,
    },
    /// A node's message arrives at a client.
    ToClient {
        connection: ConnectionId,
        bytes: Bytes,
    },
    /// A client's dialling ends.
    Dialled { connection: ConnectionId },
    /// A client closed its connection.
    Closed { connection: ConnectionId },
    /// A connection is found broken by both ends.
    Broken { connection: ConnectionId },
    /// A client may begin an operation.
    ClientThinks { client: u64 },
    /// A client's process that stood still goes on.
    ClientThaws { client: u64 },
    /// A client's session wants to be woken.
    ClientAlarm { client: u64 },
    /// Somebody sends a copy of a call.
    Ghost {
        node: NodeId,
        /// What the client says first on a connection of its own.
        introduction: Box<FromClient>,
        message: Box<FromClient>,
    },
    /// A client's word of a read arrives at a node.
    Announced {
        client: u64,
        node: NodeId,
        read: BroadcastId,
    },
    /// A fault begins.
    FaultBegins(usize),
    /// A fault ends.
    FaultEnds(usize),
    /// The world looks at how far it is.
    Tick,
}

/// When an event comes, and the how many-th made it is: one number, which is compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u128);

/// Events by moment, and by the order of their making within one.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// When each comes, and where it is kept.
    queue: BinaryHeap<Reverse<(Due, usize)>>,
    /// Events are large: they stay where they are while the queue is sorted.
    kept: Vec<Option<Event>>,
    free: Vec<usize>,
    made: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: Moment, event: Event) {
        self.made += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        self.kept[place] = Some(event);
        let due = Due(u128::from(at.0) << 64 | u128::from(self.made));
        self.queue.push(Reverse((due, place)));
    }

    pub(super) fn pop(&mut self) -> Option<(Moment, Event)> {
        let Reverse((Due(due), place)) = self.queue.pop()?;
        let at = Moment((due >> 64) as u64);
        self.free.push(place);
        let event = self.kept[place].take();
        Some((at, event.expect("each place in the queue has its event")))
    }
}

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        let event = match self.client_met(&event) {
            Some(client) => self.puts_off(client, event),
            None => Some(event),
        };
        if let Some(event) = event {
            self.happens(event);
        }
    }

    /// The client whose process an event meets.
    fn client_met(&self, event: &Event) -> Option<u64> {
        match event {
            Event::ToClient { connection, .. }
            | Event::Dialled { connection }
            | Event::Broken { connection } => self.connections.get(connection)?.client,
            Event::ClientAlarm { client } => Some(*client),
            _ => None,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Start { node } => self.start(node),
            Event::ViewLost { node, down } => self.lose_view(node, down),
            Event::Doom { node, life } => self.doomed(node, life),
            Event::AllLosePower => self.all_lose_power(),
            Event::Turn { node, life } => self.turn(node, life),
            Event::Alarm { node, life } => self.alarm(node, life),
            Event::Committed { node, life } => self.committed(node, life),
            Event::LogRetried { node, life } => self.log_retried(node, life),
            Event::SegmentRemoved { node, life } => self.segment_removed(node, life),
            Event::Worked { node, life } => self.worked(node, life),
            Event::HostStarts { node, life } => self.host_starts(node, life),
            Event::Arrives(packet) => self.arrives(packet),
            Event::Datagram { from, to, bytes } => self.datagram_arrives(from, to, &bytes),
            Event::Connect { one, other } => self.connect(one, other),
            Event::Silent { one, other, epoch } => self.silent(one, other, epoch),
            Event::LinkEnds {
                node,
                life,
                peer,
                epoch,
            } => self.link_ends(node, life, peer, epoch),
            Event::ToNode { connection, bytes } => self.reach_node(connection, &bytes),
            Event::ToClient { connection, bytes } => self.reach_client(connection, &bytes),
            Event::Dialled { connection } => self.dialled(connection),
            Event::Closed { connection } => self.closed(connection),
            Event::Broken { connection } => self.broke(connection),
            Event::ClientThinks { client } => self.client_thinks(client),
            Event::ClientThaws { client } => self.thaw(client),
            Event::ClientAlarm { client } => self.client_alarm(client),
            Event::Ghost {
                node,
                introduction,
                message,
            } => self.ghost(node, *introduction, *message),
            Event::Announced { client, node, read } => self.hear_announced(client, node, read),
            Event::FaultBegins(index) => self.fault_begins(index),
            Event::FaultEnds(index) => self.fault_ends(index),
            Event::Tick => self.tick(),
        }
    }
}
