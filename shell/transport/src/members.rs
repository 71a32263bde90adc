//! The members change while the node runs: who is new is reached, who is gone loses its link, and clients are told.

use crate::connection::Phase;
use crate::peers::{PeerAddress, PeerState, RemotePeer};
use crate::proving::Proving;
use crate::transport::Transport;
use quorate_types::{Level, LinkEpoch, NodeId, Time, ViewNumber};
use quorate_wire::{Kind, Reject, Welcome};

impl Transport {
    /// The link to a peer, if it stands.
    #[must_use]
    pub fn link(&self, peer: NodeId) -> Option<LinkEpoch> {
        match self.peers.get(&peer)?.way {
            PeerState::Linked { epoch, .. } => Some(epoch),
            PeerState::Idle { .. } | PeerState::Resolving | PeerState::Dialling { .. } => None,
        }
    }

    /// Another view is in force: these are its members, this node perhaps among them. Whoever is none any more, or is another life
    /// of its directory, loses its link. Clients are told where the members are.
    pub fn set_members(&mut self, view: ViewNumber, members: Vec<PeerAddress>, now: Time) {
        let own = self.settings.own.node;
        let stays = |known: &PeerAddress| {
            let mut same = members.iter().filter(|peer| peer.node == known.node);
            same.any(|peer| peer.incarnation == known.incarnation)
        };
        let gone: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| !stays(&peer.address))
            .map(|(node, _)| *node)
            .collect();
        for node in gone {
            self.forget_peer(node, view, now);
        }
        for peer in members.iter().filter(|peer| peer.node != own) {
            let known = self.peers.entry(peer.node);
            let known = known.or_insert_with(|| RemotePeer::new(peer.clone(), None, now));
            known.address.address.clone_from(&peer.address);
        }
        self.settings.view = view;
        self.settings.members = members;
        self.tell_clients_members();
    }

    /// This node is no member any more. It stays linked to those who have not turned to the view that says so, and dials the others
    /// until they say that it is none for them: [`crate::Arrival::Dismissed`].
    pub fn leave_members(&mut self) {
        self.is_leaving = true;
    }

    /// Ends every connection that is with `node`, or may become one.
    fn forget_peer(&mut self, node: NodeId, view: ViewNumber, now: Time) {
        tracing::info!(peer = %node, "no member any more: its link ends");
        for slot in 0..self.slots.len() {
            let is_with = self.slots[slot].as_ref().is_some_and(|connection| {
                let is_asked =
                    matches!(connection.proving, Proving::Asked(asked) if asked.is(node));
                is_asked
                    || match connection.phase {
                        Phase::Connecting(with) | Phase::Greeting(with) | Phase::Peer(with, _) => {
                            with == node
                        }
                        Phase::Stranger | Phase::Client(_) | Phase::Closing => false,
                    }
            });
            let connection = self.slots[slot].as_ref();
            match connection.map(|connection| connection.phase) {
                Some(Phase::Peer(..)) if is_with => {
                    let Reject { reason, text } = Reject::not_a_member(view);
                    self.reject(slot, reason, text, now);
                }
                Some(_) if is_with => self.close(slot, now),
                Some(_) | None => {}
            }
        }
        self.peers.remove(&node);
    }

    fn tell_clients_members(&mut self) {
        // The members are the same for all: only the level is each connection's own.
        let told = self.welcome(Level::UNNAMED);
        for slot in 0..self.slots.len() {
            if let Some(connection) = self.slots[slot].as_mut()
                && matches!(connection.phase, Phase::Client(_))
            {
                let welcome = Welcome {
                    version: connection.level.0,
                    ..told.clone()
                };
                connection.put(Kind::Welcome, |body| welcome.put(body));
                self.list(slot);
            }
        }
    }
}
