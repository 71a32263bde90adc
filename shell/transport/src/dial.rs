//! Going out: dialling peers with higher ids, our Hello, and their Welcome.

use crate::connection::{Connection, Phase};
use crate::limits::DIAL_MAX;
use crate::names::LookedUp;
use crate::peers::PeerState;
use crate::proving::Proving;
use crate::stream::SocketStream;
use crate::transport::{Arrival, Transport};
use mio::net::TcpStream;
use quorate_types::{Incarnation, LinkEpoch, NodeId, Time};
use quorate_wire::{Frame, Hello, HelloRole, Kind, Reject, RejectReason, Welcome, greeting};
use std::net::SocketAddr;

impl Transport {
    /// Of two nodes the one with the lower id dials, and one that is no member any more.
    pub(crate) fn dials(&self, peer: NodeId) -> bool {
        self.is_leaving || self.settings.own.node < peer
    }

    /// Dials every peer whose pause is over.
    pub(crate) fn dial_due(&mut self, now: Time) {
        let is_due = |way: PeerState| matches!(way, PeerState::Idle { at } if at <= now);
        let due: Vec<NodeId> = self
            .peers
            .values()
            .filter(|peer| is_due(peer.way) && self.dials(peer.address.node))
            .map(|peer| peer.address.node)
            .collect();
        for node in due {
            let peer = self.peers.get_mut(&node).expect("listed above");
            match self.names.resolve(node, &peer.address.address) {
                Ok(Some(address)) => self.dial(node, address, now),
                Ok(None) => peer.way = PeerState::Resolving,
                Err(error) => {
                    tracing::warn!(peer = %node, %error, "cannot start a look-up");
                    peer.lost(now);
                }
            }
        }
    }

    /// A look-up ended.
    pub(crate) fn resolved(&mut self, (node, answer): LookedUp, now: Time) {
        // It may have left meanwhile, and have come back as another one.
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if peer.way != PeerState::Resolving {
            return;
        }
        match answer {
            Ok(address) => self.dial(node, address, now),
            Err(error) => {
                tracing::debug!(peer = %node, error, "address not found");
                peer.lost(now);
            }
        }
    }

    fn dial(&mut self, node: NodeId, address: SocketAddr, now: Time) {
        let opened = TcpStream::connect(address).and_then(|socket| {
            let stream = match &self.settings.tls {
                None => SocketStream::Plain(socket),
                Some(tls) => SocketStream::Tls(Box::new(tls.dial(socket, node)?)),
            };
            let phase = Phase::Connecting(node);
            let group = self.settings.own.group;
            self.take_slot(Connection::new(stream, phase, group, now + DIAL_MAX, None))
        });
        let peer = self.peers.get_mut(&node).expect("only members are dialled");
        match opened {
            Ok(slot) => peer.way = PeerState::Dialling { slot },
            Err(error) => {
                tracing::debug!(peer = %node, %error, "cannot dial");
                peer.lost(now);
            }
        }
    }

    /// The socket of a dialled peer became ready: connected, or failed.
    pub(crate) fn connected(&mut self, slot: usize, node: NodeId, now: Time) {
        let connection = self.slots[slot].as_mut().expect("its event just came");
        let socket = connection.stream.socket();
        if let Ok(Some(_)) | Err(_) = socket.take_error() {
            return self.close(slot, now);
        }
        if socket.peer_addr().is_err() {
            // Not connected yet: another event follows, or the deadline.
            return;
        }
        let own = self.settings.own;
        let nonce = self.draw_nonce();
        let hello = Hello {
            version_min: self.settings.speaks.oldest().0,
            version_max: self.settings.speaks.newest().0,
            cluster: Some(own.cluster),
            role: HelloRole::Node {
                node: own.node,
                // Whoever listens there could say it to others.
                incarnation: Incarnation(0),
                boot: own.reach.boot,
                groups: vec![own.group],
            },
            software: concat!("quorate ", env!("CARGO_PKG_VERSION")).to_owned(),
            extra: greeting(nonce, self.began()),
        };
        let connection = self.slots[slot].as_mut().expect("it has just connected");
        connection.phase = Phase::Greeting(node);
        connection.proving = Proving::Dialled(nonce);
        connection.expect_welcome();
        connection.greet(Kind::Hello, |body| hello.put(body));
        self.list(slot);
    }

    /// A dialled peer answered.
    pub(crate) fn welcomed(&mut self, slot: usize, node: NodeId, frame: &Frame, now: Time) {
        if frame.kind == Kind::Challenge {
            return self.challenged(slot, node, frame, now);
        }
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        let (is_known, speaks) = match connection.proving {
            Proving::Done(speaks) => (true, Some(speaks)),
            Proving::NotBegun | Proving::Dialled(_) | Proving::Asked(_) => (false, None),
        };
        if frame.kind == Kind::Sighting && is_known {
            return self.sighted(node, frame);
        }
        let is_refusal = frame.kind == Kind::Reject;
        self.note_dismissal(node, frame);
        if !is_known && !is_refusal {
            return self.leave(slot, node, "it does not prove to be a node", now);
        }
        if let Err(text) = self.check_welcome(slot, node, frame) {
            return self.leave(slot, node, &text, now);
        }
        let speaks = speaks.expect("who answers has said what it speaks");
        if let Err(text) = self.check_level(speaks) {
            // It knows now who says so.
            return self.refuse_level(slot, node, text, now);
        }
        let welcome = Welcome::take(&frame.body).expect("just checked");
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.settle(Phase::Peer(node, LinkEpoch(self.epochs + 1)));
        self.set_deadline(slot, None);
        self.link_up(slot, (node, speaks), welcome.boot, now);
    }

    /// A peer refuses this node: perhaps because it is no member for it, or does not speak what it must.
    pub(crate) fn note_dismissal(&mut self, peer: NodeId, frame: &Frame) {
        let refused = (frame.kind == Kind::Reject).then(|| Reject::take(&frame.body));
        let Some(Ok(reject)) = refused else {
            return;
        };
        if let Some(view) = reject.without_you() {
            self.arrivals.push(Arrival::Dismissed { peer, view });
        }
        if matches!(
            reject.reason,
            RejectReason::Version | RejectReason::Unreadable
        ) && let Some(peer) = self.peers.get_mut(&peer)
        {
            peer.rest();
        }
        if reject.reason == RejectReason::Version {
            let text = reject.text;
            self.arrivals.push(Arrival::Unspoken { peer, text });
        }
    }

    /// Who answers is not the peer, or does not want this node.
    pub(crate) fn leave(&mut self, slot: usize, node: NodeId, text: &str, now: Time) {
        let peer = self.peers.get_mut(&node).expect("only members are dialled");
        self.counters.refused += 1;
        if peer.may_log_refusal(now) {
            tracing::warn!(peer = %node, text, "no link");
        }
        self.close(slot, now);
    }

    fn check_welcome(&self, slot: usize, node: NodeId, frame: &Frame) -> Result<(), String> {
        match frame.kind {
            Kind::Welcome => {}
            Kind::Reject => {
                let text = Reject::take(&frame.body).map_or_else(|e| e.to_string(), |r| r.text);
                return Err(format!("refused: {text}"));
            }
            Kind::Hello
            | Kind::Peer
            | Kind::FromClient
            | Kind::ToClient
            | Kind::StatusRequest
            | Kind::StatusReply
            | Kind::AdminRequest
            | Kind::AdminReply
            | Kind::Reach
            | Kind::Sighting
            | Kind::Challenge
            | Kind::Proof => return Err("no welcome came".to_owned()),
        }
        let own = self.settings.own;
        let welcome = Welcome::take(&frame.body).map_err(|error| error.to_string())?;
        if welcome.cluster != own.cluster || welcome.group != own.group {
            return Err(format!(
                "{} of {} answers there",
                welcome.group, welcome.cluster
            ));
        }
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        if welcome.version != connection.level.0 {
            let (said, level) = (welcome.version, connection.level);
            return Err(format!("it speaks version {said} where {level} is common"));
        }
        if welcome.node != node {
            return Err(format!("{} answers there", welcome.node));
        }
        Ok(())
    }
}
