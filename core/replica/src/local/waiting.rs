//! Callers that wait here for an outcome: local, lost with the node, never in a snapshot.
//!
//! Waits are kept per session in a queue indexed by sequence, in step with the replicated window, so that
//! a run of replies costs one look-up. When a connection ends while its command is being ordered, the
//! wait is kept: a second submission could be refused although the first is not.

use crate::limits::{CALLS_IN_FLIGHT, SESSION_WINDOW, WAITERS_PER_CALL};
use crate::local::early::Early;
use quorate_types::{CommandId, ConnectionId, ObjectId, SessionId, Value};
use std::collections::{BTreeMap, VecDeque};

/// All calls of this node's clients that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    lines: BTreeMap<SessionId, Line>,
    /// Calls submitted and neither decided nor refused.
    in_flight: usize,
}

/// The calls of one session.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Sequence of the first wait.
    first: u64,
    waits: VecDeque<Wait>,
    /// Waits for calls that are parked: the calls after them do not wait for these. Invariant: none of them is submitted.
    parked: BTreeMap<u64, Wait>,
}

#[derive(Debug, Default)]
struct Wait {
    fingerprint: u64,
    /// Nearly always the only one: a wait costs no allocation.
    connection: Option<ConnectionId>,
    /// Retries on other connections.
    others: Vec<ConnectionId>,
    /// The call, if it was submitted here and is neither decided nor refused. The fingerprint is its own.
    submitted: Option<(ObjectId, Value)>,
    /// One of the connections wants a tentative reply, or has it: nearly always none.
    early: Option<Box<Early>>,
}

/// The result of adding a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// It is the first wait: the caller must submit the call if it has to be ordered.
    First,
    /// The call is being ordered; its answer goes to this connection too.
    Later,
    /// The sequence is being ordered with another payload.
    Reused,
    /// There are too many waits.
    Full,
}

impl Waiting {
    /// Lets `connection` wait for a call.
    pub(crate) fn join(
        &mut self,
        session: SessionId,
        sequence: u64,
        fingerprint: u64,
        connection: ConnectionId,
    ) -> Joined {
        let is_full = self.in_flight >= CALLS_IN_FLIGHT;
        let line = self.lines.entry(session).or_default();
        let wait = line.place(sequence);
        let joined = match wait.filter(|wait| !is_full || !wait.is_idle()) {
            Some(wait) => wait.join(fingerprint, connection),
            None => Joined::Full,
        };
        if !matches!(joined, Joined::First | Joined::Later) {
            self.tidy(session);
        }
        joined
    }

    /// Lets `connection` wait for a call that is parked, however far that is below the others.
    pub(crate) fn join_parked(
        &mut self,
        session: SessionId,
        sequence: u64,
        fingerprint: u64,
        connection: ConnectionId,
    ) -> Joined {
        let line = self.lines.entry(session).or_default();
        let joined = line.place_parked(sequence).join(fingerprint, connection);
        self.tidy(session);
        joined
    }

    /// Notes that the call of a [`Joined::First`] is submitted.
    pub(crate) fn submitted(&mut self, id: CommandId, object: ObjectId, payload: Value) {
        let line = self.lines.get_mut(&id.session).expect("somebody waits");
        let wait = line.wait_mut(id.sequence).expect("somebody waits");
        wait.submitted = Some((object, payload));
        self.in_flight += 1;
    }

    /// The waits of one session, for a run of its commands; [`Waiting::tidy`] must follow.
    pub(crate) fn line(&mut self, session: SessionId) -> Option<&mut Line> {
        self.lines.get_mut(&session)
    }

    /// Removes answered waits of a session, and counts `landed` submissions as no longer in flight.
    pub(crate) fn landed(&mut self, session: SessionId, landed: usize) {
        self.in_flight -= landed;
        self.tidy(session);
    }

    fn tidy(&mut self, session: SessionId) {
        let Some(line) = self.lines.get_mut(&session) else {
            return;
        };
        line.shrink();
        if line.waits.is_empty() && line.parked.is_empty() {
            self.lines.remove(&session);
        }
    }

    /// Takes all waits of a session that has ended, for refusals.
    pub(crate) fn take_line(&mut self, session: SessionId) -> Vec<(u64, ConnectionId)> {
        let Some(mut line) = self.lines.remove(&session) else {
            return Vec::new();
        };
        self.in_flight -= line.submitted();
        line.take_all()
    }

    /// Takes all waits for calls that are parked.
    pub(crate) fn take_parked(&mut self) -> Vec<(CommandId, ConnectionId)> {
        let mut taken = Vec::new();
        for (&session, line) in &mut self.lines {
            for (sequence, mut wait) in std::mem::take(&mut line.parked) {
                let id = CommandId { session, sequence };
                taken.extend(wait.take().map(|to| (id, to)));
            }
        }
        if !taken.is_empty() {
            self.lines
                .retain(|_, line| !line.waits.is_empty() || !line.parked.is_empty());
        }
        taken
    }

    /// Sessions with a wait.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.lines.keys().copied().collect()
    }

    /// The connection ended: it needs no answer any more.
    pub(crate) fn disconnected(
        &mut self,
        connection: ConnectionId,
        sessions: impl Iterator<Item = SessionId>,
    ) {
        for session in sessions {
            if let Some(line) = self.lines.get_mut(&session) {
                for wait in line.waits.iter_mut().chain(line.parked.values_mut()) {
                    wait.forget(connection);
                }
            }
            self.tidy(session);
        }
    }

    /// Calls that have no answer yet.
    pub(crate) fn len(&self) -> usize {
        let lines = self.lines.values();
        lines
            .map(|line| {
                let waits = line.waits.iter().chain(line.parked.values());
                waits.filter(|wait| !wait.is_idle()).count()
            })
            .sum()
    }

    /// Calls that are being ordered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn check(&self) {
        let lines = self.lines.values();
        let submitted: usize = lines.map(Line::submitted).sum();
        assert_eq!(submitted, self.in_flight);
        for line in self.lines.values() {
            let first = line.waits.front();
            assert!(first.is_some_and(|wait| !wait.is_idle()) || !line.parked.is_empty());
            assert!(first.is_none_or(|wait| !wait.is_idle()));
            assert!(line.parked.values().all(|wait| !wait.is_idle()));
            assert!(line.parked.values().all(|wait| wait.submitted.is_none()));
        }
    }
}

impl Line {
    /// The call with this fingerprint is parked: tells who waits for it, and keeps them apart.
    pub(crate) fn park(
        &mut self,
        sequence: u64,
        fingerprint: u64,
        mut tell: impl FnMut(ConnectionId),
    ) {
        let wait = self.wait_mut(sequence);
        let Some(wait) = wait.filter(|wait| wait.fingerprint == fingerprint) else {
            return;
        };
        wait.connections().for_each(&mut tell);
        wait.early = None;
        let wait = std::mem::take(wait);
        if !wait.is_idle() {
            self.parked.insert(sequence, wait);
        }
    }

    /// The wait of `sequence`, made if it fits.
    fn place(&mut self, sequence: u64) -> Option<&mut Wait> {
        if self.parked.contains_key(&sequence) {
            return self.parked.get_mut(&sequence);
        }
        if self.waits.is_empty() {
            self.first = sequence;
        }
        let last = self.first + self.waits.len() as u64;
        let span = last.max(sequence + 1) - self.first.min(sequence);
        if span > SESSION_WINDOW {
            return None;
        }
        while self.first > sequence {
            self.waits.push_front(Wait::default());
            self.first -= 1;
        }
        let offset = (sequence - self.first) as usize;
        while self.waits.len() <= offset {
            self.waits.push_back(Wait::default());
        }
        Some(&mut self.waits[offset])
    }

    /// The wait of `sequence`, whose call is parked. One that is in line stays there until it is told so.
    fn place_parked(&mut self, sequence: u64) -> &mut Wait {
        let offset = sequence.checked_sub(self.first);
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let in_line = offset.and_then(|offset| self.waits.get_mut(offset));
        match in_line.filter(|wait| !wait.is_idle()) {
            Some(wait) => wait,
            None => self.parked.entry(sequence).or_default(),
        }
    }

    fn wait_mut(&mut self, sequence: u64) -> Option<&mut Wait> {
        if self.parked.contains_key(&sequence) {
            return self.parked.get_mut(&sequence);
        }
        let offset = sequence.checked_sub(self.first)?;
        self.waits.get_mut(usize::try_from(offset).ok()?)
    }

    /// Submissions that are neither decided nor refused.
    fn submitted(&self) -> usize {
        let waits = self.waits.iter().chain(self.parked.values());
        waits.filter(|wait| wait.submitted.is_some()).count()
    }

    /// The fingerprint of a decided call that is this node's own submission, by the memory of its payload: it is not read again.
    pub(crate) fn fingerprint(
        &self,
        sequence: u64,
        object: ObjectId,
        payload: &Value,
    ) -> Option<u64> {
        let offset = sequence.checked_sub(self.first)?;
        let wait = self.waits.get(usize::try_from(offset).ok()?)?;
        let (to, own) = wait.submitted.as_ref()?;
        let is_same = *to == object && own.as_ptr_range() == payload.as_ptr_range();
        is_same.then_some(wait.fingerprint)
    }

    /// The command is decided: returns whether this node had submitted it.
    pub(crate) fn decided(&mut self, sequence: u64, fingerprint: u64) -> bool {
        self.wait_mut(sequence)
            .filter(|wait| wait.fingerprint == fingerprint)
            .is_some_and(|wait| wait.submitted.take().is_some())
    }

    /// Ordering refused the command: returns whether this node had submitted it.
    pub(crate) fn refused(&mut self, sequence: u64) -> bool {
        self.wait_mut(sequence)
            .is_some_and(|wait| wait.submitted.take().is_some())
    }

    /// Ends the wait for a command with this fingerprint; tells each connection.
    pub(crate) fn answer(
        &mut self,
        sequence: u64,
        fingerprint: u64,
        mut tell: impl FnMut(ConnectionId),
    ) {
        let Some(wait) = self.wait_mut(sequence) else {
            return;
        };
        if wait.fingerprint == fingerprint {
            wait.take().for_each(&mut tell);
        }
    }

    /// Ends the wait for `sequence`, whatever its payload; tells each connection.
    pub(crate) fn give_up(&mut self, sequence: u64, mut tell: impl FnMut(ConnectionId)) {
        if let Some(wait) = self.wait_mut(sequence) {
            wait.take().for_each(&mut tell);
        }
    }

    /// This connection wants a tentative reply, in the place of an older one: two that ask in turn are told once each. Nothing is done
    /// where it does not wait, or has one.
    pub(crate) fn want_early(&mut self, sequence: u64, connection: ConnectionId) {
        if self.parked.contains_key(&sequence) {
            return;
        }
        let wait = self.wait_mut(sequence);
        let Some(wait) = wait.filter(|wait| wait.has(connection)) else {
            return;
        };
        if wait
            .early
            .as_ref()
            .is_none_or(|early| early.to < connection)
        {
            wait.early = Some(Box::new(Early::wanted_by(connection)));
        }
    }

    /// The fingerprint of the call that is waited for, and who wants a tentative reply to it, or has it.
    pub(crate) fn early(&mut self, sequence: u64) -> Option<(u64, &mut Early)> {
        let wait = self.wait_mut(sequence)?;
        Some((wait.fingerprint, wait.early.as_mut()?))
    }

    /// Every wait: sequence and fingerprint.
    pub(crate) fn all(&self) -> Vec<(u64, u64)> {
        let waits = self.waits.iter().zip(self.first..);
        let parked = self.parked.iter().map(|(sequence, wait)| (wait, *sequence));
        waits
            .chain(parked)
            .filter(|(wait, _)| !wait.is_idle())
            .map(|(wait, sequence)| (sequence, wait.fingerprint))
            .collect()
    }

    fn take_all(&mut self) -> Vec<(u64, ConnectionId)> {
        let parked = std::mem::take(&mut self.parked);
        let parked = parked.into_iter().map(|(sequence, wait)| (wait, sequence));
        let waits = self.waits.drain(..).zip(self.first..);
        waits
            .chain(parked)
            .flat_map(|(mut wait, sequence)| {
                let connections: Vec<_> = wait.take().collect();
                connections.into_iter().map(move |to| (sequence, to))
            })
            .collect()
    }

    fn shrink(&mut self) {
        self.parked.retain(|_, wait| !wait.is_idle());
        while self.waits.front().is_some_and(Wait::is_idle) {
            self.waits.pop_front();
            self.first += 1;
        }
    }
}

impl Wait {
    fn is_idle(&self) -> bool {
        self.connection.is_none() && self.submitted.is_none()
    }

    fn has(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection) || self.others.contains(&connection)
    }

    /// Adds a connection that waits for the call with this fingerprint.
    fn join(&mut self, fingerprint: u64, connection: ConnectionId) -> Joined {
        if self.is_idle() {
            self.fingerprint = fingerprint;
            self.connection = Some(connection);
            return Joined::First;
        }
        if self.fingerprint != fingerprint {
            return Joined::Reused;
        }
        if !self.has(connection) {
            if 1 + self.others.len() >= WAITERS_PER_CALL {
                return Joined::Full;
            }
            match self.connection {
                None => self.connection = Some(connection),
                Some(_) => self.others.push(connection),
            }
        }
        Joined::Later
    }

    fn forget(&mut self, connection: ConnectionId) {
        self.others.retain(|other| *other != connection);
        if let Some(early) = self.early.as_mut().filter(|early| early.to == connection) {
            early.forget();
        }
        if self.connection == Some(connection) {
            self.connection = self.others.pop();
        }
    }

    fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.connection.iter().chain(&self.others).copied()
    }

    fn take(&mut self) -> impl Iterator<Item = ConnectionId> {
        self.early = None;
        self.connection
            .take()
            .into_iter()
            .chain(self.others.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_memory_that_was_submitted_has_the_known_fingerprint() {
        let (session, object) = (SessionId(1), ObjectId(0));
        let id = CommandId {
            session,
            sequence: 7,
        };
        let payload = Value::from(vec![1; 100]);
        let mut waiting = Waiting::default();
        waiting.join(session, 7, 42, ConnectionId(1));
        waiting.submitted(id, object, payload.clone());
        let line = waiting.line(session).expect("somebody waits");
        assert_eq!(line.fingerprint(7, object, &payload), Some(42));
        assert_eq!(line.fingerprint(7, ObjectId(1), &payload), None);
        assert_eq!(line.fingerprint(7, object, &payload.slice(1..)), None);
        assert_eq!(line.fingerprint(8, object, &payload), None);
        let copy = Value::copy_from_slice(&payload);
        assert_eq!(line.fingerprint(7, object, &copy), None);
        assert!(line.decided(7, 42), "it was submitted here");
        assert_eq!(line.fingerprint(7, object, &payload), None);
    }
}
