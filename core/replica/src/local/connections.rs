//! The clients connected to this node, as far as the replica must know them.

use crate::limits::{LEFT_OUT_UNTIL_LOOKED, OPENS_PER_CONNECTION, SESSIONS_PER_CONNECTION};
use crate::local::clients::reply;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::{Attachment, ConnectionId, NodeId, SessionId, Slot, ToClient};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: BTreeMap<ConnectionId, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Sessions that its client has proven to be its own, in the order of the proofs, and the number that this connection
    /// has among those of the session.
    sessions: Vec<(SessionId, Attachment)>,
    /// Sessions that found no place since it was looked last which of the others are over, and none was.
    left_out: usize,
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
            left_out: 0,
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
        attachment: Attachment,
        is_open: impl Fn(SessionId) -> bool,
    ) {
        let Some(known) = self.table.get_mut(&connection) else {
            return;
        };
        let mut sessions = known.sessions.iter_mut().rev();
        if let Some((_, number)) = sessions.find(|(attached, _)| *attached == session) {
            *number = attachment.max(*number);
            return;
        }
        if known.sessions.len() >= SESSIONS_PER_CONNECTION {
            // A flood of opens must not cost a look-up of all sessions each.
            if known.left_out.is_multiple_of(LEFT_OUT_UNTIL_LOOKED) {
                known.sessions.retain(|(session, _)| is_open(*session));
            }
            known.left_out += 1;
        }
        if known.sessions.len() < SESSIONS_PER_CONNECTION {
            known.sessions.push((session, attachment));
            known.left_out = 0;
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
        self.attachment(connection, session).is_some()
    }

    /// The number that `connection` has among those of the session, if its client has proven that the session is its own.
    pub(crate) fn attachment(
        &self,
        connection: ConnectionId,
        session: SessionId,
    ) -> Option<Attachment> {
        // Mostly the newest one is asked for.
        let mut sessions = self.table.get(&connection)?.sessions.iter().rev();
        let found = sessions.find(|(attached, _)| *attached == session)?;
        Some(found.1)
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

    /// Removes a connection; returns its sessions, and the number that it has among those of each.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> Vec<(SessionId, Attachment)> {
        let known = self.table.remove(&connection);
        known.map(|known| known.sessions).unwrap_or_default()
    }

    /// The connections on which a session is used, and the number of each among those of the session.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<(ConnectionId, Attachment)> {
        let connections = self.table.keys();
        let attached = |id: &ConnectionId| Some((*id, self.attachment(*id, session)?));
        connections.filter_map(attached).collect()
    }

    /// What all connections are used for.
    pub(crate) fn sessions(&self) -> Vec<(SessionId, Attachment)> {
        let known = self.table.values().flat_map(|known| &known.sessions);
        known.copied().collect()
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

impl<O: Ordering> Replica<O> {
    /// Whom clients are to call: the leader, or this node where whoever is called proposes. Who is no member any more hears of no leader,
    /// and names who leads first.
    pub(crate) fn named_leader(&self) -> Option<NodeId> {
        let (view, own) = (self.view(), self.config.own);
        let Some(leader) = self.leader() else {
            let first = view.first_ballot.map(|first| first.node);
            return first.filter(|_| !view.nodes().contains(own));
        };
        let proposes = view.ordering.proposes_where_called() && self.serves_objects().is_ok();
        Some(if proposes { own } else { leader })
    }

    /// Tells every client the new leader.
    pub(crate) fn tell_leader(&mut self, out: &mut Vec<Output<O::Message>>) {
        let leader = self.named_leader();
        for connection in self.connections.take_untold(leader) {
            reply(out, connection, ToClient::Leader { leader });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const CLIENT: ConnectionId = ConnectionId(1);

    fn connected() -> Connections {
        let mut connections = Connections::default();
        connections.heard(CLIENT, NodeId(1), None);
        connections
    }

    #[test]
    fn a_flood_of_opens_on_one_connection_costs_few_look_ups_each() {
        let (mut connections, looked) = (connected(), Cell::new(0));
        let opens = 10 * SESSIONS_PER_CONNECTION;
        for number in 0..opens as u64 {
            connections.attach(CLIENT, SessionId(number), Attachment::NONE, |_| {
                looked.set(looked.get() + 1);
                true
            });
        }
        let each = looked.get() / opens;
        assert!(each <= 16, "{each} look-ups for each open");
        assert_eq!(connections.sessions().len(), SESSIONS_PER_CONNECTION);
    }

    #[test]
    fn a_session_takes_the_place_of_one_that_is_over() {
        let mut connections = connected();
        for number in 0..4 * SESSIONS_PER_CONNECTION as u64 {
            let session = SessionId(number);
            let oldest = number.saturating_sub(SESSIONS_PER_CONNECTION as u64 - 1);
            let is_open = |session: SessionId| session.0 >= oldest;
            connections.attach(CLIENT, session, Attachment::NONE, is_open);
            assert!(connections.is_attached(CLIENT, session), "at {number}");
        }
    }
}
