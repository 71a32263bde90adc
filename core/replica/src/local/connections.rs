//! The clients connected to this node, as far as the replica must know them.

use crate::limits::{OPENS_PER_CONNECTION, SESSIONS_PER_CONNECTION};
use quorate_types::{ConnectionId, NodeId, SessionId, Slot};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: BTreeMap<ConnectionId, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Sessions that its client has proven to be its own, in the order of the proofs.
    sessions: Vec<SessionId>,
    /// Opens that came on it and wait for their slot.
    opens: usize,
    /// The highest slot in which a session was opened whose proof came before this replica had applied that slot.
    unjudged: Slot,
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
            opens: 0,
            unjudged: Slot::ZERO,
            told: Some(own),
        });
        known.tell(leader)
    }

    /// Lets `connection` use a session, unless it uses too many that are open.
    pub(crate) fn attach(
        &mut self,
        connection: ConnectionId,
        session: SessionId,
        is_open: impl Fn(SessionId) -> bool,
    ) {
        let Some(known) = self.table.get_mut(&connection) else {
            return;
        };
        if known.has(session) {
            return;
        }
        if known.sessions.len() >= SESSIONS_PER_CONNECTION {
            known.sessions.retain(|session| is_open(*session));
        }
        if known.sessions.len() < SESSIONS_PER_CONNECTION {
            known.sessions.push(session);
        }
    }

    /// Counts one more open of `connection` under way; `false` if it has too many.
    pub(crate) fn begin_open(&mut self, connection: ConnectionId) -> bool {
        let Some(known) = self.table.get_mut(&connection) else {
            return false;
        };
        let is_room = known.opens < OPENS_PER_CONNECTION;
        known.opens += usize::from(is_room);
        is_room
    }

    /// An open of `connection` is answered.
    pub(crate) fn end_open(&mut self, connection: ConnectionId) {
        if let Some(known) = self.table.get_mut(&connection) {
            known.opens = known.opens.saturating_sub(1);
        }
    }

    /// Whether the client of `connection` has proven that the session is its own.
    pub(crate) fn is_attached(&self, connection: ConnectionId, session: SessionId) -> bool {
        let known = self.table.get(&connection);
        known.is_some_and(|known| known.has(session))
    }

    /// The client of `connection` has shown a secret of a session opened in this slot, which is not applied here yet.
    pub(crate) fn not_judged(&mut self, connection: ConnectionId, opened: Slot) {
        if let Some(known) = self.table.get_mut(&connection) {
            known.unjudged = known.unjudged.max(opened);
        }
    }

    /// Whether the client may have proven that a session opened in this slot is its own before that could be judged.
    pub(crate) fn is_unjudged(&self, connection: ConnectionId, opened: Slot) -> bool {
        let known = self.table.get(&connection);
        known.is_some_and(|known| opened <= known.unjudged)
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
    fn has(&self, session: SessionId) -> bool {
        self.sessions.last() == Some(&session) || self.sessions.contains(&session)
    }

    fn tell(&mut self, leader: Option<NodeId>) -> bool {
        std::mem::replace(&mut self.told, leader) != leader
    }
}
