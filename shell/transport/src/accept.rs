//! Incoming connections: accepting, checking the Hello, and closing those that send none.

use crate::connection::{Connection, Phase};
use crate::limits::{
    ACCEPT_PAUSE, ACCEPT_PER_TURN, HALF_FRAME_MAX, HANDSHAKE_MAX, SLOTS_MAX, STRANGERS_MAX,
    UNTAKEN_MAX,
};
use crate::proving::Proving;
use crate::stream::SocketStream;
use crate::transport::{Arrival, Transport, TransportError};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use quorate_types::{
    BeganWith, ConnectionId, Incarnation, Level, Levels, LinkEpoch, NodeId, Reach, Time, ViewNumber,
};
use quorate_wire::{Frame, Hello, HelloRole, Kind, RejectReason, Welcome, take_began, take_nonce};
use std::io;
use std::net::{IpAddr, SocketAddr};

impl Transport {
    /// Accepts who waits, up to a bound per turn.
    pub(crate) fn accept(&mut self, now: Time) {
        for _ in 0..ACCEPT_PER_TURN {
            let Some(listener) = &self.listener else {
                return;
            };
            match listener.accept() {
                Ok((socket, from)) => {
                    self.counters.accepted += 1;
                    self.admit(socket, from.ip(), now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections: pausing");
                    self.accept_again = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
        // Readiness is told by edges: who still waits is accepted in the next turn.
        self.accept_again = Some(now);
    }

    fn admit(&mut self, socket: TcpStream, from: IpAddr, now: Time) {
        if (self.is_full() || self.strangers >= STRANGERS_MAX) && !self.evict_stranger(now) {
            self.counters.refused += 1;
            return;
        }
        let deadline = now + HANDSHAKE_MAX;
        let stream = match &self.settings.tls {
            None => SocketStream::Plain(socket),
            Some(tls) => match tls.accept(socket) {
                Ok(tls) => SocketStream::Tls(Box::new(tls)),
                Err(error) => return tracing::warn!(%error, "cannot begin a TLS session"),
            },
        };
        let group = self.settings.own.group;
        let connection = Connection::new(stream, Phase::Stranger, group, deadline, Some(from));
        match self.take_slot(connection) {
            Ok(_) => self.strangers += 1,
            Err(error) => tracing::warn!(%error, "cannot watch a connection"),
        }
    }

    /// Puts a connection into a free slot and watches its socket.
    pub(crate) fn take_slot(&mut self, mut connection: Connection) -> io::Result<usize> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        let token = Token(self.settings.first_token + 1 + slot);
        // A refused option costs speed, not correctness.
        let _ = connection.stream.socket().set_nodelay(true);
        connection.stream.watch(&self.registry, token)?;
        if self.free.pop().is_none() {
            self.slots.push(None);
        }
        if let Some(at) = connection.deadline {
            self.deadlines.insert((at, slot));
        }
        self.slots[slot] = Some(connection);
        self.settings.places.take();
        Ok(slot)
    }

    /// A stranger's first frame, or the proof of one that said to be a node.
    pub(crate) fn greeted(&mut self, slot: usize, frame: &Frame, now: Time) {
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        if let Proving::Asked(asked) = connection.proving {
            return self.proved(slot, asked, frame, now);
        }
        let own = self.settings.own;
        let hello = match (frame.kind, Hello::take(&frame.body)) {
            (Kind::Hello, Ok(hello)) => hello,
            (_, Ok(_)) => {
                return self.turn_away(slot, RejectReason::Malformed, "say hello first", now);
            }
            (_, Err(error)) => {
                return self.turn_away(slot, RejectReason::Malformed, &error.to_string(), now);
            }
        };
        let (level, speaks) = match self.agree(hello.speaks()) {
            Ok(agreed) => agreed,
            Err(text) => return self.level_unspoken(slot, &hello, text, now),
        };
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.level = level;
        if hello.cluster.is_some_and(|cluster| cluster != own.cluster) {
            let text = format!("this is {}, not the cluster you mean", own.cluster);
            return self.turn_away(slot, RejectReason::Cluster, &text, now);
        }
        match hello.role {
            HelloRole::Client { group } if group == own.group => self.let_client_in(slot, now),
            HelloRole::Client { group } => self.asked_elsewhere(slot, group, (frame, true), now),
            HelloRole::Node {
                node,
                incarnation: _,
                boot: _,
                groups,
            } => {
                if hello.cluster.is_none() || !groups.contains(&own.group) {
                    let group = groups.first().copied().unwrap_or_default();
                    return self.asked_elsewhere(slot, group, (frame, false), now);
                }
                if let Err(text) = self.check_level(speaks) {
                    return self.refuse_level(slot, node, text, now);
                }
                let began = take_began(&hello.extra);
                if let (Some(own), Some(other)) = (self.began(), began)
                    && own != other
                {
                    return self.began_otherwise(slot, node, now);
                }
                match take_nonce(&hello.extra) {
                    Ok(nonce) => self.challenge(slot, (node, speaks), nonce, now),
                    Err(error) => {
                        self.turn_away(slot, RejectReason::Malformed, &error.to_string(), now);
                    }
                }
            }
        }
    }

    /// What somebody speaks who has just said hello is not what it must.
    fn level_unspoken(&mut self, slot: usize, hello: &Hello, text: String, now: Time) {
        match hello.role {
            HelloRole::Node { node, .. } => self.refuse_level(slot, node, text, now),
            HelloRole::Client { .. } => self.turn_away(slot, RejectReason::Version, &text, now),
        }
    }

    /// With what the group began, while no later view is known.
    pub(crate) fn began(&self) -> Option<BeganWith> {
        (self.settings.view <= ViewNumber(1)).then_some(self.settings.began)
    }

    /// A node was configured with another first view.
    fn began_otherwise(&mut self, slot: usize, node: NodeId, now: Time) {
        let text = "its node.toml has another first view than the other node's: make level, window, ordering, quorums, persist \
                    and [[members]] the same in all of them";
        if let Some(peer) = self.peers.get_mut(&node)
            && peer.may_log_refusal(now)
        {
            tracing::warn!(peer = %node, text, "peer refused: it did not begin with the same group");
        }
        self.turn_away(slot, RejectReason::Cluster, text, now);
    }

    pub(crate) fn turn_away(&mut self, slot: usize, reason: RejectReason, text: &str, now: Time) {
        tracing::debug!(slot, ?reason, text, "connection refused");
        self.reject(slot, reason, text.to_owned(), now);
    }

    fn let_client_in(&mut self, slot: usize, now: Time) {
        if let Err(text) = self.admit_client(slot) {
            return self.turn_away(slot, RejectReason::Full, &text, now);
        }
        self.numbered += 1;
        let id = ConnectionId(self.numbered * SLOTS_MAX as u64 + slot as u64);
        self.settle(slot, Phase::Client(id), Some(now + HALF_FRAME_MAX));
    }

    /// The stranger has proved to be `node`.
    pub(crate) fn let_peer_in(
        &mut self,
        slot: usize,
        (node, speaks): (NodeId, Levels),
        reach: Reach,
        now: Time,
    ) {
        if !self.reached(slot, node, reach, now) {
            return;
        }
        self.settle(slot, Phase::Peer(node, LinkEpoch(self.epochs + 1)), None);
        self.uncount(slot);
        self.greet_with_reach(slot);
        self.link_up(slot, (node, speaks), reach.boot, now);
    }

    /// Greets an accepted connection and lets it speak.
    fn settle(&mut self, slot: usize, phase: Phase, deadline: Option<Time>) {
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        let welcome = self.welcome(connection.level);
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.greet(Kind::Welcome, |body| welcome.put(body));
        connection.settle(phase);
        self.strangers -= 1;
        self.set_deadline(slot, deadline);
        self.list(slot);
    }

    /// The link in `slot` stands; one that stood before is over.
    pub(crate) fn link_up(
        &mut self,
        slot: usize,
        (node, speaks): (NodeId, Levels),
        boot: u64,
        now: Time,
    ) {
        self.epochs += 1;
        let link = LinkEpoch(self.epochs);
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        assert_eq!(
            connection.phase,
            Phase::Peer(node, link),
            "settled as this life"
        );
        // A refused option makes a lost link show later.
        let socket = socket2::SockRef::from(&*connection.stream.socket());
        let _ = socket.set_tcp_user_timeout(Some(std::time::Duration::from_nanos(UNTAKEN_MAX.0)));
        let peer = self.peers.get_mut(&node).expect("checked to be a member");
        if let Some(old) = peer.link() {
            self.close(old, now);
        }
        let peer = self.peers.get_mut(&node).expect("checked to be a member");
        peer.linked(slot, link);
        peer.speaks = Some(speaks);
        self.note_lower_peers();
        tracing::info!(peer = %node, %link, boot, %speaks, "link up");
        self.arrivals.push(Arrival::Up {
            peer: node,
            link,
            boot,
            speaks,
        });
    }

    /// What who is let in with a connection of this level is told.
    pub(crate) fn welcome(&self, level: Level) -> Welcome {
        let own = self.settings.own;
        let members = self.settings.members.iter();
        Welcome {
            version: level.0,
            cluster: own.cluster,
            node: own.node,
            // Who knows it can speak as this node where TLS does not tell who speaks.
            incarnation: Incarnation(0),
            boot: own.reach.boot,
            group: own.group,
            view: self.settings.view,
            members: members.map(|m| (m.node, m.address.clone())).collect(),
            objects: self.settings.objects.clone(),
            leader: self.leader,
        }
    }
}

/// Begins to listen.
pub(crate) fn bind(
    address: SocketAddr,
    registry: &Registry,
    token: Token,
) -> Result<TcpListener, TransportError> {
    let mut listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => TransportError::InUse(address),
        _ => TransportError::Listen(address, error),
    })?;
    registry
        .register(&mut listener, token, Interest::READABLE)
        .map_err(|error| TransportError::Listen(address, error))?;
    Ok(listener)
}
