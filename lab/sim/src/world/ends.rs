//! Connections of clients end: one side closes them, a process dies, or nothing passes any more.
//!
//! A node is told who ended one, as its system would: a client whose process ends closes its connections, as one does that goes to
//! another node.

use super::World;
use super::events::Event;
use super::life::Death;
use super::serve::BROKEN_AFTER;
use quorate_replica::Input as ToReplica;
use quorate_session::SessionInput;
use quorate_types::{ClosedBy, ConnectionId, NodeId};

impl World {
    /// A client's end is closed: the node hears of it if it can, and else notices after a while that nothing comes any more.
    pub(super) fn closed(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let is_told = !connection.is_broken && self.reaches(connection.client, connection.node);
        let by = if is_told {
            ClosedBy::Client
        } else {
            ClosedBy::Node
        };
        self.ended(id, by);
    }

    fn ended(&mut self, connection: ConnectionId, by: ClosedBy) {
        let Some(ended) = self.connections.remove(&connection) else {
            return;
        };
        if ended.is_open && self.nodes[&ended.node].life == ended.life {
            self.hand_in(ended.node, ToReplica::Disconnected { connection, by });
        }
    }

    pub(super) fn broke(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id).copied() else {
            return;
        };
        let node = &self.nodes[&connection.node];
        let is_dead = node.running.is_none() || node.life != connection.life;
        self.ended(id, ClosedBy::Node);
        if let Some(number) = connection.client
            && self.clients[&number].connection == Some(id)
        {
            self.clients
                .get_mut(&number)
                .expect("clients stay")
                .connection = None;
            // What ends the connection of a node that lives, the client's own system has given up.
            let by = if is_dead {
                ClosedBy::Node
            } else {
                ClosedBy::Client
            };
            self.tell_client(number, SessionInput::Disconnected { by });
        }
    }

    /// An answer never comes to its client. The connection goes with it: no client waits on one that works for what the node
    /// has sent already.
    pub(super) fn loses_answer(&mut self, to: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&to) {
            connection.is_broken = true;
            let at = self.now + self.network.latency();
            self.events.push(at, Event::Broken { connection: to });
        }
    }

    /// A process that ends closes its connections; a machine without power does not.
    pub(super) fn connections_of_the_dead(&mut self, dead: NodeId, death: Death) {
        let ids: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.node == dead && connection.is_open)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let is_heard = death == Death::Killed;
            let after = if is_heard {
                self.network.latency()
            } else {
                BROKEN_AFTER
            };
            self.connections
                .get_mut(&id)
                .expect("listed a moment ago")
                .is_broken = true;
            self.events
                .push(self.now + after, Event::Broken { connection: id });
        }
    }
}
