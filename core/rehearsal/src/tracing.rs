//! What is sent while a rehearsal is traced: who sends what to whom, how large it is, and when it arrives.

use crate::limits::TRACED_MAX;
use crate::rehearsal::Rehearsal;
use bytes::BytesMut;
use quorate_any::AnyMessage;
use quorate_ordering::Lane;
use quorate_replica::PeerMessage;
use quorate_types::{ConnectionId, Duration, FromClient, NodeId, Time, ToClient};
use std::fmt::Debug;

/// Who sends or gets a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// A client, by its number from 0.
    Client(usize),
    /// A node.
    Node(NodeId),
}

/// One message of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedMessage {
    /// Its sender.
    pub from: Party,
    /// Its receiver.
    pub to: Party,
    /// What it is, by its name in the protocol that sends it.
    pub name: String,
    /// Bytes of its body on the wire, without the head of the frame.
    pub bytes: usize,
    /// Since the trace began.
    pub sent: Duration,
    /// Since the trace began.
    pub arrives: Duration,
    /// Whether it is sent whether or not there are commands: a sign of life, or a step of an election.
    pub is_upkeep: bool,
}

/// A trace under way.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Time,
    /// How long each message takes: the same for all, so that a picture shows message delays.
    pub(crate) link: Duration,
    /// How long each write takes.
    pub(crate) write: Duration,
    messages: Vec<TracedMessage>,
}

impl Rehearsal {
    /// From now on every message takes `link`, every write `write`, and what is sent is noted; at most [`TRACED_MAX`] messages.
    pub fn trace(&mut self, link: Duration, write: Duration) {
        self.trace = Some(Trace {
            began: self.now,
            link,
            write,
            messages: Vec::new(),
        });
    }

    /// Ends the trace and returns its messages in the order in which they were sent; none if nothing is traced.
    pub fn take_trace(&mut self) -> Vec<TracedMessage> {
        let trace = self.trace.take();
        trace.map_or_else(Vec::new, |trace| trace.messages)
    }

    /// A node sends a message to a peer.
    pub(crate) fn trace_peer(
        &mut self,
        (from, to): (NodeId, NodeId),
        lane: Lane,
        message: &PeerMessage<AnyMessage>,
        arrives: Time,
    ) {
        let name = match message {
            PeerMessage::Ordering {
                message: AnyMessage::Paxos(message),
                ..
            } => variant(message),
            PeerMessage::Ordering {
                message: AnyMessage::FastPaxos(message),
                ..
            } => variant(message),
            PeerMessage::Replica(message) => variant(message),
        };
        let is_upkeep = lane == Lane::Urgent || matches!(message, PeerMessage::Replica(_));
        let bytes = || {
            let mut buf = BytesMut::new();
            quorate_wire::put_peer(&mut buf, message);
            buf.len()
        };
        let parties = (Party::Node(from), Party::Node(to));
        self.note(parties, (name, is_upkeep), bytes, arrives);
    }

    /// A client sends a request.
    pub(crate) fn trace_request(
        &mut self,
        (caller, node): (usize, NodeId),
        message: &FromClient,
        arrives: Time,
    ) {
        let bytes = || {
            let mut buf = BytesMut::new();
            quorate_wire::put_request(&mut buf, message);
            buf.len()
        };
        let is_upkeep = !matches!(
            message,
            FromClient::Call { .. }
                | FromClient::Read { .. }
                | FromClient::Broadcast { .. }
                | FromClient::Announce { .. }
                | FromClient::Early { .. }
        );
        let parties = (Party::Client(caller), Party::Node(node));
        self.note(parties, (variant(message), is_upkeep), bytes, arrives);
    }

    /// A node answers a client.
    pub(crate) fn trace_answer(&mut self, to: ConnectionId, message: &ToClient, arrives: Time) {
        let link = self.connections.get(&to);
        let Some((node, caller)) = link.and_then(|link| Some((link.node, link.caller?))) else {
            return;
        };
        let bytes = || {
            let mut buf = BytesMut::new();
            quorate_wire::put_answer(&mut buf, message);
            buf.len()
        };
        let is_upkeep = matches!(message, ToClient::KeptAlive { .. });
        let parties = (Party::Node(node), Party::Client(caller));
        self.note(parties, (variant(message), is_upkeep), bytes, arrives);
    }

    fn note(
        &mut self,
        (from, to): (Party, Party),
        (name, is_upkeep): (String, bool),
        bytes: impl FnOnce() -> usize,
        arrives: Time,
    ) {
        let now = self.now;
        let Some(trace) = &mut self.trace else {
            return;
        };
        if trace.messages.len() < TRACED_MAX {
            trace.messages.push(TracedMessage {
                from,
                to,
                name,
                bytes: bytes(),
                sent: now.since(trace.began),
                arrives: arrives.since(trace.began),
                is_upkeep,
            });
        }
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }
}

/// The name of a message: protocols call their messages what the papers do.
fn variant(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}
