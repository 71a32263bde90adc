//! The clients connected to this node, as far as the replica must know them.

use crate::limits::SESSIONS_PER_CONNECTION;
use quorate_types::{ConnectionId, NodeId, SessionId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: BTreeMap<ConnectionId, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Sessions for which calls came on it, in the order of their first.
    sessions: Vec<SessionId>,
    /// The leader it was last told; at first this node, because the client chose it.
    told: Option<NodeId>,
}

impl Connections {
    /// Records a message on `connection`; returns whether its client must be told the leader.
    pub(crate) fn heard(
        &mut self,
        connection: ConnectionId,
        own: NodeId,
        leader: Option<NodeId>,
    ) -> bool {
        let known = self.table.entry(connection).or_insert(Connection {
            sessions: Vec::new(),
            told: Some(own),
        });
        known.tell(leader)
    }

    /// Records that `connection` carries calls of a session; `false` if it carries too many sessions.
    pub(crate) fn speaks_for(&mut self, connection: ConnectionId, session: SessionId) -> bool {
        let Some(known) = self.table.get_mut(&connection) else {
            return false;
        };
        if known.sessions.last() == Some(&session) || known.sessions.contains(&session) {
            return true;
        }
        let is_room = known.sessions.len() < SESSIONS_PER_CONNECTION;
        if is_room {
            known.sessions.push(session);
        }
        is_room
    }

    /// Removes a connection; returns its sessions.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> Vec<SessionId> {
        let known = self.table.remove(&connection);
        known.map(|known| known.sessions).unwrap_or_default()
    }

    /// Every connection whose client must be told that `leader` leads.
    pub(crate) fn take_untold(&mut self, leader: Option<NodeId>) -> Vec<ConnectionId> {
        let table = self.table.iter_mut();
        table
            .filter_map(|(id, known)| known.tell(leader).then_some(*id))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

impl Connection {
    fn tell(&mut self, leader: Option<NodeId>) -> bool {
        std::mem::replace(&mut self.told, leader) != leader
    }
}
