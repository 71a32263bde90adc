//! The table of open sessions: bounded, ordered, cheap to freeze at a slot.
//!
//! The current table and a frozen copy share sessions until one of them changes, so a checkpoint costs one
//! pointer per session. Only decided commands change the table.

use crate::replicated::window::Session;
use crate::{ReplyState, SessionImage};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Outcome, SecretHash, SessionId, SessionTerms, Slot, Tenancy};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Sessions by id, shared between tables.
pub(crate) type Table = BTreeMap<SessionId, Arc<Session>>;

/// The result of opening a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// The session for this secret: a new one, or the one that an earlier copy of the request opened.
    Opened(SessionId),
    /// The table is full.
    Full,
}

/// What a resume has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resumption {
    /// Another tenancy has begun.
    Begun(Tenancy),
    /// The client has had it before: this is a copy.
    Had(Tenancy),
    /// Nothing has changed: another client came first, or there can be no more tenancies.
    Late,
    /// There is no such session.
    Gone,
}

/// All open sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Table,
    /// Invariant: has each session of the table exactly once.
    hashes: BTreeMap<SecretHash, SessionId>,
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions {
            table: Table::new(),
            hashes: BTreeMap::new(),
        }
    }

    pub(crate) fn restored(images: &[SessionImage]) -> Sessions {
        let mut sessions = Sessions::new();
        for image in images {
            let session = Session::restored(image);
            sessions.hashes.insert(image.hash, image.id);
            sessions.table.insert(image.id, Arc::new(session));
        }
        sessions
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<&Session> {
        self.table.get(&id).map(Arc::as_ref)
    }

    pub(crate) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.table.get_mut(&id).map(Arc::make_mut)
    }

    /// Opens a session as `id`, unless `capacity` are open. No other session is evicted: each open one may have been
    /// promised the whole expiry time, so that more of them are open where fewer are to be than before. A client that asks again with its secret, perhaps elsewhere, gets one session.
    pub(crate) fn open(
        &mut self,
        (hash, tenant): (SecretHash, SecretHash),
        terms: SessionTerms,
        (id, capacity): (SessionId, usize),
        slot: Slot,
        wall: u64,
    ) -> Opening {
        if let Some(opened) = self.hashes.get(&hash).copied()
            && let Some(session) = self.session_mut(opened)
        {
            // A late copy of a client that has lost the session is no sign of life of the one that has it.
            if session.tenant == tenant {
                session.active = slot;
                session.active_wall = wall;
            }
            return Opening::Opened(opened);
        }
        assert!(capacity > 0, "a group without sessions serves nobody");
        let is_full = self.table.len() >= capacity;
        if is_full && !planted(Plant::FullTableEvicts) {
            return Opening::Full;
        } else if is_full && let Some((first, _)) = self.table.first_key_value() {
            self.close(*first);
        }
        let session = Session::opened((hash, tenant), terms, slot, wall);
        self.table.insert(id, Arc::new(session));
        self.hashes.insert(hash, id);
        Opening::Opened(id)
    }

    /// Gives a session to another client.
    pub(crate) fn resume(
        &mut self,
        id: SessionId,
        tenant: SecretHash,
        after: Tenancy,
        (slot, wall): (Slot, u64),
    ) -> Resumption {
        let Some(session) = self.session_mut(id) else {
            return Resumption::Gone;
        };
        let had = session.tenant == tenant;
        if had && !planted(Plant::CopyResumes) {
            session.active = slot;
            session.active_wall = wall;
            return Resumption::Had(session.tenancy());
        }
        let is_next = session.tenancy() == after;
        if !is_next || !session.resume(tenant) {
            return Resumption::Late;
        }
        session.active = slot;
        session.active_wall = wall;
        Resumption::Begun(session.tenancy())
    }

    /// The session for this secret.
    pub(crate) fn of_hash(&self, hash: SecretHash) -> Option<(SessionId, &Session)> {
        let id = *self.hashes.get(&hash)?;
        Some((id, self.session(id)?))
    }

    /// Says whether the client with this secret has a session.
    pub(crate) fn knows(&self, hash: SecretHash) -> bool {
        self.hashes.contains_key(&hash)
    }

    /// Ends a session; returns whether it was open.
    pub(crate) fn close(&mut self, id: SessionId) -> bool {
        let ended = self.table.remove(&id);
        if let Some(session) = &ended {
            self.hashes.remove(&session.hash);
        }
        ended.is_some()
    }

    /// All open sessions, ascending.
    pub(crate) fn all(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.table
            .iter()
            .map(|(id, session)| (*id, session.as_ref()))
    }

    /// Open sessions that were opened after this one, in the order in which they were.
    pub(crate) fn opened_after(&self, id: SessionId) -> impl Iterator<Item = SessionId> + '_ {
        let later = (Bound::Excluded(id), Bound::Unbounded);
        self.table.range(later).map(|(id, _)| *id)
    }

    /// A copy of the current table that shares its sessions.
    pub(crate) fn freeze(&self) -> Table {
        self.table.clone()
    }

    /// The objects have the state of a snapshot of earlier slots.
    pub(crate) fn merge(&mut self, images: &[SessionImage]) {
        merge(&mut self.table, images);
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.hashes.len(), self.table.len());
        self.table.values().for_each(|session| session.check());
    }
}

/// Makes what `table` says of executed commands that of a snapshot of earlier slots.
pub(crate) fn merge(table: &mut Table, images: &[SessionImage]) {
    for image in images {
        if let Some(session) = table.get_mut(&image.id) {
            Arc::make_mut(session).merge(image);
        }
    }
}

/// Records in a frozen table what came of a command.
pub(crate) fn record(table: &mut Table, id: CommandId, state: ReplyState) {
    if let Some(session) = table.get_mut(&id.session) {
        Arc::make_mut(session).record(id.sequence, state);
    }
}

/// A parked command of a frozen table has its answer.
pub(crate) fn wake(table: &mut Table, id: CommandId, outcome: Outcome) {
    if let Some(session) = table.get_mut(&id.session) {
        Arc::make_mut(session).wake(id.sequence, outcome);
    }
}

/// Drops a kept reply of a frozen table.
pub(crate) fn drop_reply(table: &mut Table, id: CommandId) {
    if let Some(session) = table.get_mut(&id.session) {
        Arc::make_mut(session).drop_reply(id.sequence);
    }
}

/// A frozen table as a snapshot keeps it.
pub(crate) fn images(table: &Table) -> Vec<SessionImage> {
    table
        .iter()
        .map(|(id, session)| {
            assert_eq!(session.pending(), 0, "a snapshot waits for all outcomes");
            session.image(*id)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Secret;

    const TERMS: SessionTerms = SessionTerms::expiring_after(SessionTerms::EXPIRY_MIN);

    fn hash(number: u64) -> SecretHash {
        Secret::new(u128::from(number).to_le_bytes()).hash()
    }

    fn known_by(number: u64) -> (SecretHash, SecretHash) {
        (hash(number), SecretHash::default())
    }

    #[test]
    fn one_client_of_several_resumes_a_session_and_copies_change_nothing() {
        let mut sessions = Sessions::new();
        sessions.open(known_by(1), TERMS, (SessionId(1), 2), Slot(1), 0);
        let (first, second) = (Tenancy::FIRST, Tenancy::FIRST.next().unwrap());
        let mut resume =
            |tenant, after, slot| sessions.resume(SessionId(1), tenant, after, (Slot(slot), 0));
        assert_eq!(resume(hash(8), first, 2), Resumption::Begun(second));
        assert_eq!(resume(hash(9), first, 3), Resumption::Late);
        assert_eq!(resume(hash(8), first, 4), Resumption::Had(second));
        assert_eq!(
            resume(hash(9), second, 5),
            Resumption::Begun(second.next().unwrap())
        );
        // A copy of an earlier resume that was ordered late.
        assert_eq!(resume(hash(8), first, 6), Resumption::Late);
        sessions.open(known_by(1), TERMS, (SessionId(2), 2), Slot(7), 0);
        let active = sessions.session(SessionId(1)).map(|known| known.active);
        assert_eq!(active, Some(Slot(5)));
        sessions.close(SessionId(1));
        let gone = sessions.resume(SessionId(1), hash(9), second, (Slot(8), 0));
        assert_eq!(gone, Resumption::Gone);
        sessions.check();
    }

    #[test]
    fn a_full_table_takes_no_session_until_one_ends() {
        let mut sessions = Sessions::new();
        for id in 1..=2 {
            let opening = sessions.open(known_by(id), TERMS, (SessionId(id), 2), Slot(id), 0);
            assert_eq!(opening, Opening::Opened(SessionId(id)));
        }
        let refused = sessions.open(known_by(3), TERMS, (SessionId(3), 2), Slot(3), 0);
        assert_eq!(refused, Opening::Full);
        assert!(sessions.session(SessionId(1)).is_some());
        sessions.close(SessionId(2));
        let opening = sessions.open(known_by(3), TERMS, (SessionId(4), 2), Slot(4), 0);
        assert_eq!(opening, Opening::Opened(SessionId(4)));
        sessions.check();
    }

    #[test]
    fn who_asks_twice_has_one_session_and_keeps_it_active() {
        let mut sessions = Sessions::new();
        sessions.open(known_by(7), TERMS, (SessionId(1), 2), Slot(1), 0);
        let opening = sessions.open(known_by(7), TERMS, (SessionId(2), 2), Slot(5), 3);
        assert_eq!(opening, Opening::Opened(SessionId(1)));
        assert_eq!(sessions.len(), 1);
        let active = sessions.session(SessionId(1)).map(|known| known.active);
        assert_eq!(active, Some(Slot(5)));
        let images = images(&sessions.freeze());
        let mut sessions = Sessions::restored(&images);
        let opening = sessions.open(known_by(7), TERMS, (SessionId(3), 2), Slot(6), 4);
        assert_eq!(opening, Opening::Opened(SessionId(1)));
        sessions.close(SessionId(1));
        let opening = sessions.open(known_by(7), TERMS, (SessionId(4), 2), Slot(7), 5);
        assert_eq!(opening, Opening::Opened(SessionId(4)));
        sessions.check();
    }

    #[test]
    fn a_frozen_table_does_not_see_later_commands() {
        let mut sessions = Sessions::new();
        sessions.open(known_by(1), TERMS, (SessionId(1), 2), Slot(1), 0);
        let frozen = sessions.freeze();
        sessions.session_mut(SessionId(1)).unwrap().admit(1, 0, 7);
        assert_eq!(frozen[&SessionId(1)].pending(), 0);
        assert_eq!(images(&frozen)[0].replies.len(), 0);
    }
}
