//! The transport: slots of connections, arrivals, sending, and the flush at the end of a turn.
//!
//! Tokens from [`Settings::first_token`] on are its own: the listener first, then one per slot.

use crate::accept::bind;
use crate::connection::{Connection, Ended, Phase};
use crate::lanes::FrameLane;
use crate::levels::GroupLevel;
use crate::limits::{ACCEPT_PAUSE, SLOTS_MAX, TransportLimits};
use crate::names::Names;
use crate::passing::{OtherGroup, Passed};
use crate::peers::{PeerAddress, PeerState, RemotePeer};
use crate::places::Places;
use crate::reaching::Reaching;
use crate::tls::Tls;
use crate::unfinished::UnfinishedFrames;
use bytes::BytesMut;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Registry, Token, Waker};
use quorate_types::{
    BeganWith, ClosedBy, ClusterId, ConnectionId, GroupId, Incarnation, Levels, LinkEpoch, NodeId,
    NodeSet, PeerPast, Reach, Sighting, Time, ViewNumber,
};
use quorate_wire::{
    Frame, FramePieces, Kind, ObjectEntry, Reject, RejectReason, SharedBody, put_frame_shared,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// This node, as it introduces itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its cluster.
    pub cluster: ClusterId,
    /// The group it serves.
    pub group: GroupId,
    /// Itself.
    pub node: NodeId,
    /// The life of its data directory.
    pub incarnation: Incarnation,
    /// Which start of that directory this is, and how far its log had come at that start.
    pub reach: Reach,
}

/// What a transport is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node.
    pub own: Own,
    /// Where to listen; `None`: another transport of this node passes connections on.
    pub listen: Option<SocketAddr>,
    /// All members, this node among them.
    pub members: Vec<PeerAddress>,
    /// What an earlier life remembered of the others.
    pub pasts: BTreeMap<NodeId, PeerPast>,
    /// The view that clients are told of.
    pub view: ViewNumber,
    /// With what the group began: who began with something else is given no link while that view is in force at both.
    pub began: BeganWith,
    /// What this node speaks.
    pub speaks: Levels,
    /// What its group asks of members.
    pub level: GroupLevel,
    /// The group's objects, for clients.
    pub objects: Vec<ObjectEntry>,
    /// Certificates; without them everything is readable on its way.
    pub tls: Option<Tls>,
    /// What connections may cost.
    pub limits: TransportLimits,
    /// Connections that all transports of the process may have together.
    pub places: Places,
    /// Random bytes that nobody else knows.
    pub seed: [u8; 32],
    /// The first token that belongs to the transport; all above do.
    pub first_token: usize,
}

/// Why a transport cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Somebody else listens there: stop them or choose another port.
    #[error("{0} is in use by another process")]
    InUse(SocketAddr),
    /// The system refuses: check the address and the limits of the process.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
}

/// What came in.
#[derive(Debug)]
pub enum Arrival {
    /// A link to a peer stands. A link that stood before is over.
    Up {
        /// To whom.
        peer: NodeId,
        /// Its life.
        link: LinkEpoch,
        /// Which start of the peer it is.
        boot: u64,
        /// What the peer speaks.
        speaks: Levels,
    },
    /// The link to a peer is over.
    Down {
        /// To whom.
        peer: NodeId,
    },
    /// A frame of a peer.
    Peer {
        /// Who sent it.
        from: NodeId,
        /// On which life of the link.
        link: LinkEpoch,
        /// What arrived.
        frame: Frame,
    },
    /// A frame of a client.
    Client {
        /// Its connection.
        from: ConnectionId,
        /// Its address, or the network of one machine: who connects from one place shares its turns with the others there.
        place: Option<IpAddr>,
        /// What arrived.
        frame: Frame,
    },
    /// A peer has seen more of this node than it comes with: it must not go on as it is.
    Sighted {
        /// Who said so.
        peer: NodeId,
        /// What it has seen.
        sighting: Sighting,
    },
    /// A peer says that this node is no member for it.
    Dismissed {
        /// Who said so.
        peer: NodeId,
        /// The view in which it is none.
        view: ViewNumber,
    },
    /// A peer says that this node does not speak what it must.
    Unspoken {
        /// Who said so.
        peer: NodeId,
        /// What it says, for people.
        text: String,
    },
    /// Somebody asks for another group that this node serves.
    Elsewhere {
        /// Which one.
        group: GroupId,
        /// For [`Transport::adopt`] of its transport.
        passed: Box<Passed>,
    },
    /// A client's connection is over.
    Gone {
        /// The connection.
        connection: ConnectionId,
        /// Who ended it, as the system says: the client, unless this node did or the network gave it up.
        by: ClosedBy,
    },
}

/// What the transport counted since the node started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Frames of peers and clients read.
    pub frames_in: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused with a reason.
    pub refused: u64,
    /// Strangers that said nothing in time, and slots taken back from them.
    pub silent: u64,
    /// Clients closed because they did not read.
    pub slow_clients: u64,
    /// Clients closed because they held most while all held too much.
    pub heavy_clients: u64,
    /// Links dropped because their queue was over its bound.
    pub slow_peers: u64,
    /// Streams that could not be read (damage, foreign protocols, frames over the bound).
    pub unreadable: u64,
}

/// All connections of a node.
pub struct Transport {
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) listener: Option<TcpListener>,
    /// The groups beside the own one that this node knows.
    pub(crate) others: BTreeMap<GroupId, OtherGroup>,
    pub(crate) names: Names,
    pub(crate) slots: Vec<Option<Connection>>,
    pub(crate) free: Vec<usize>,
    pub(crate) peers: BTreeMap<NodeId, RemotePeer>,
    pub(crate) leader: Option<NodeId>,
    /// This node is no member any more: it dials whomever it knows.
    pub(crate) is_leaving: bool,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) counters: Counters,
    pub(crate) accept_again: Option<Time>,
    /// Connections accepted so far: the high part of their ids.
    pub(crate) numbered: u64,
    /// Nonces drawn so far.
    pub(crate) nonces: u64,
    /// Links made so far: their epochs.
    pub(crate) epochs: u64,
    /// When each connection with a deadline is looked at.
    pub(crate) deadlines: BTreeSet<(Time, usize)>,
    /// Connections that have not said who they are.
    pub(crate) strangers: usize,
    /// Handshakes of strangers that were furthered in this turn.
    pub(crate) greeted: usize,
    /// Clients by address. Invariant: no address has 0.
    pub(crate) clients: BTreeMap<IpAddr, usize>,
    /// Bytes counted for connections that are no links.
    pub(crate) held: usize,
    /// Whether a linked peer speaks less than this node: then what is sent is looked at.
    pub(crate) has_lower_peers: bool,
    /// What is told of this node's reach, and what is remembered of the others'.
    pub(crate) reaching: Reaching,
    /// Slots with something to write, each listed once.
    listed: Vec<usize>,
    /// Slots with more to read, each connection once, here or in `put_off`.
    pub(crate) unread: Vec<usize>,
    /// Slots whose large frames had no room in this turn, who waits for longest first.
    pub(crate) put_off: Vec<usize>,
    /// Bytes of clients' large frames read in this turn, and what earlier turns read too much.
    pub(crate) large_read: usize,
    pub(crate) unfinished: UnfinishedFrames,
    scratch: BytesMut,
}

impl Transport {
    /// Listens; dials no peer before the first [`Transport::tick`].
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(
        settings: Settings,
        registry: Registry,
        waker: Arc<Waker>,
        now: Time,
    ) -> Result<Transport, TransportError> {
        let token = Token(settings.first_token);
        let bind = |address| bind(address, &registry, token);
        let listener = settings.listen.map(bind).transpose()?;
        let own = settings.own.node;
        let others = settings.members.iter().filter(|peer| peer.node != own);
        let peers = others
            .map(|peer| {
                let past = settings.pasts.get(&peer.node).copied();
                (peer.node, RemotePeer::new(peer.clone(), past, now))
            })
            .collect();
        assert!(
            settings.limits.connections < SLOTS_MAX,
            "ids keep the slot in 16 bits"
        );
        settings.places.join();
        Ok(Transport {
            registry,
            listener,
            others: BTreeMap::new(),
            names: Names::new(waker),
            slots: Vec::new(),
            free: Vec::new(),
            peers,
            leader: None,
            is_leaving: false,
            arrivals: Vec::new(),
            counters: Counters::default(),
            accept_again: None,
            numbered: 0,
            nonces: 0,
            epochs: 0,
            deadlines: BTreeSet::new(),
            strangers: 0,
            greeted: 0,
            clients: BTreeMap::new(),
            held: 0,
            has_lower_peers: false,
            reaching: Reaching::new(now),
            listed: Vec::new(),
            unread: Vec::new(),
            put_off: Vec::new(),
            large_read: 0,
            unfinished: UnfinishedFrames::default(),
            scratch: BytesMut::new(),
            settings,
        })
    }

    /// Where it listens: tells the port that the system chose.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let bound = self.listener.as_ref()?.local_addr();
        bound.ok().or(self.settings.listen)
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether no further connection is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.connections() >= self.settings.limits.connections || self.settings.places.is_full()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes that strangers and clients hold in buffers.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Who leads, for the Welcome of clients.
    pub fn set_leader(&mut self, leader: Option<NodeId>) {
        self.leader = leader;
    }

    /// Takes one event of the poll.
    pub fn ready(&mut self, event: &Event, now: Time) {
        let Some(slot) = event.token().0.checked_sub(self.settings.first_token + 1) else {
            self.accept(now);
            return;
        };
        if let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut) {
            if let Phase::Connecting(peer) = connection.phase {
                self.connected(slot, peer, now);
            } else if event.is_writable() {
                connection.has_room();
                if connection.waiting() > 0 {
                    self.list(slot);
                }
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.receive(slot, event.is_read_closed() || event.is_error(), now);
        }
    }

    /// Whether something waits that no event will tell of: the next poll must not wait.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let is_unread = !self.unread.is_empty() || !self.put_off.is_empty();
        is_unread || !self.arrivals.is_empty() || self.may_unblock()
    }

    /// Hands over what has arrived.
    pub fn take_arrivals(&mut self, into: &mut Vec<Arrival>) {
        into.append(&mut self.arrivals);
    }

    /// Does what is due: dials peers, closes silent connections.
    pub fn tick(&mut self, now: Time) {
        while let Some(found) = self.names.next() {
            self.resolved(found, now);
        }
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            self.accept(now);
        }
        self.look_at_due(now);
        self.dial_due(now);
        self.greeted = 0;
    }

    /// When [`Transport::tick`] is due at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let dials = self.peers.values().filter_map(|peer| match peer.way {
            PeerState::Idle { at } if self.dials(peer.address.node) => Some(at),
            PeerState::Idle { .. }
            | PeerState::Resolving
            | PeerState::Dialling { .. }
            | PeerState::Linked { .. } => None,
        });
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let timers = [deadline, self.accept_again, self.stalled_due()];
        dials.chain(timers.into_iter().flatten()).min()
    }

    /// Encodes one frame and queues it for each linked peer of `to`. A peer whose queue is over its
    /// bound loses its link.
    pub fn send(
        &mut self,
        to: NodeSet,
        lane: FrameLane,
        now: Time,
        body: impl FnOnce(&mut SharedBody<'_>),
    ) {
        let (mut frame, mut body) = (None::<FramePieces>, Some(body));
        for node in to.iter() {
            let Some(slot) = self.peers.get(&node).and_then(RemotePeer::link) else {
                continue;
            };
            let frame = frame.get_or_insert_with(|| {
                let body = body.take().expect("encoded once");
                put_frame_shared(&mut self.scratch, Kind::Peer, self.settings.own.group, body)
            });
            let connection = self.slots[slot].as_mut().expect("a linked slot is taken");
            connection.push(lane, frame);
            if connection.waiting() > self.settings.limits.peer_queue {
                self.counters.slow_peers += 1;
                tracing::warn!(peer = %node, waiting = connection.waiting(), "peer is too slow: link dropped");
                self.close(slot, now);
            } else {
                self.list(slot);
            }
        }
    }

    /// Queues an answer for a client; one that has left swallows it.
    pub fn answer(&mut self, to: ConnectionId, put: impl FnOnce(&mut SharedBody<'_>)) {
        if let Some(slot) = self.slot_of(to) {
            let connection = self.slots[slot].as_mut().expect("found by its id");
            connection.answer(put);
            self.list(slot);
        }
    }

    /// Queues one frame of its own for a client.
    pub fn answer_frame(&mut self, to: ConnectionId, kind: Kind, body: impl FnOnce(&mut BytesMut)) {
        if let Some(slot) = self.slot_of(to) {
            let connection = self.slots[slot].as_mut().expect("found by its id");
            connection.put(kind, body);
            self.list(slot);
        }
    }

    /// Ends a client's connection for a reason that it is told.
    pub fn refuse(&mut self, client: ConnectionId, reason: RejectReason, text: &str, now: Time) {
        if let Some(slot) = self.slot_of(client) {
            self.reject(slot, reason, text.to_owned(), now);
        }
    }

    /// Ends the link to a peer that sent what cannot be read.
    pub fn drop_link(&mut self, peer: NodeId, now: Time) {
        self.counters.unreadable += 1;
        if let Some(slot) = self.peers.get(&peer).and_then(RemotePeer::link) {
            self.close(slot, now);
        }
    }

    /// Writes everything queued in this turn, as far as the sockets take it.
    pub fn flush(&mut self, now: Time) {
        self.tell_reach(now);
        let mut listed = std::mem::take(&mut self.listed);
        for slot in listed.drain(..) {
            let Some(connection) = self.slots[slot].as_mut() else {
                continue;
            };
            connection.is_listed = false;
            match connection.flush(&mut self.counters.bytes_out) {
                Ok(true) if connection.phase == Phase::Closing => self.close(slot, now),
                Ok(true) => self.weigh(slot, now),
                Ok(false) => self.bound_client(slot, now),
                Err(error) => {
                    tracing::debug!(slot, %error, "write failed");
                    self.close_after(slot, &Ended::Io(error), now);
                }
            }
        }
        // Closing lists nothing, so the emptied list keeps its memory.
        if self.listed.is_empty() {
            self.listed = listed;
        }
    }

    /// Tells every client that this node stops, as far as the sockets take it.
    pub fn say_goodbye(&mut self, now: Time) {
        for slot in 0..self.slots.len() {
            let phase = self.slots[slot].as_ref().map(|connection| connection.phase);
            if matches!(phase, Some(Phase::Client(_))) {
                let text = "this node stops".to_owned();
                self.reject(slot, RejectReason::Stopping, text, now);
            }
        }
        self.flush(now);
    }

    /// Whether every client's answers have left for the kernel.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.slots
            .iter()
            .flatten()
            .all(|c| !matches!(c.phase, Phase::Client(_)) || c.waiting() == 0)
    }

    /// Tells why and closes once it is written.
    pub(crate) fn reject(&mut self, slot: usize, reason: RejectReason, text: String, now: Time) {
        self.counters.refused += 1;
        let Some(connection) = self.slots[slot].as_mut() else {
            return;
        };
        connection.put(Kind::Reject, |body| Reject { reason, text }.put(body));
        let before = connection.phase;
        connection.phase = Phase::Closing;
        let address = connection.address;
        let soon = now + ACCEPT_PAUSE;
        let deadline = connection.deadline.map_or(soon, |at| at.min(soon));
        self.set_deadline(slot, Some(deadline));
        self.ended(slot, before, (address, ClosedBy::Node), now);
        self.list(slot);
    }

    /// Forgets a connection and tells who relied on it.
    pub(crate) fn close(&mut self, slot: usize, now: Time) {
        self.close_as(slot, ClosedBy::Node, now);
    }

    /// The system says that a connection is over, or has failed.
    pub(crate) fn close_after(&mut self, slot: usize, ended: &Ended, now: Time) {
        self.close_as(slot, ended.by(), now);
    }

    fn close_as(&mut self, slot: usize, by: ClosedBy, now: Time) {
        self.forget_unfinished(slot);
        let Some(mut connection) = self.slots[slot].take() else {
            return;
        };
        self.free.push(slot);
        self.settings.places.give_back(1);
        if let Some(at) = connection.deadline {
            self.deadlines.remove(&(at, slot));
        }
        self.recount(connection.counted, 0);
        // Closing the descriptor ends its registration as well.
        let _ = self.registry.deregister(connection.stream.socket());
        self.ended(slot, connection.phase, (connection.address, by), now);
    }

    fn ended(
        &mut self,
        slot: usize,
        phase: Phase,
        (address, by): (Option<IpAddr>, ClosedBy),
        now: Time,
    ) {
        match phase {
            Phase::Client(connection) => {
                self.client_left(address);
                self.arrivals.push(Arrival::Gone { connection, by });
            }
            Phase::Peer(node, _) => {
                let peer = self.peers.get_mut(&node).expect("links are to members");
                if peer.link() == Some(slot) {
                    peer.lost(now);
                    self.note_lower_peers();
                    self.arrivals.push(Arrival::Down { peer: node });
                }
            }
            Phase::Connecting(node) | Phase::Greeting(node) => {
                let peer = self.peers.get_mut(&node).expect("only members are dialled");
                if peer.way == (PeerState::Dialling { slot }) {
                    peer.lost(now);
                }
            }
            Phase::Stranger => self.strangers -= 1,
            Phase::Closing => {}
        }
    }

    pub(crate) fn list(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].as_mut()
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.listed.push(slot);
        }
    }

    pub(crate) fn slot_of(&self, id: ConnectionId) -> Option<usize> {
        let slot = (id.0 as usize) & (SLOTS_MAX - 1);
        let connection = self.slots.get(slot)?.as_ref()?;
        (connection.phase == Phase::Client(id)).then_some(slot)
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.settings.places.leave(self.connections(), self.held);
    }
}
