//! Callers that wait here for an outcome: local, lost with the node, never in a snapshot.
//!
//! Waits are kept per session in a queue indexed by sequence, in step with the replicated window, so that
//! a run of replies costs one look-up. When a connection ends while its command is being ordered, the
//! wait is kept: a second submission could be refused although the first is not.

use crate::limits::{CALLS_IN_FLIGHT, SESSION_WINDOW, WAITERS_PER_CALL};
use quorate_types::{ConnectionId, SessionId};
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
}

#[derive(Debug, Default)]
struct Wait {
    fingerprint: u64,
    /// Nearly always the only one: a wait costs no allocation.
    connection: Option<ConnectionId>,
    /// Retries on other connections.
    others: Vec<ConnectionId>,
    is_submitted: bool,
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
        let Some(wait) = line.place(sequence) else {
            return Joined::Full;
        };
        let joined = if wait.is_idle() {
            if is_full {
                Joined::Full
            } else {
                wait.fingerprint = fingerprint;
                Joined::First
            }
        } else if wait.fingerprint != fingerprint {
            Joined::Reused
        } else if wait.has(connection) {
            return Joined::Later;
        } else if 1 + wait.others.len() < WAITERS_PER_CALL {
            Joined::Later
        } else {
            Joined::Full
        };
        if matches!(joined, Joined::First | Joined::Later) {
            wait.add(connection);
        } else {
            self.tidy(session);
        }
        joined
    }

    /// Notes that the call of a [`Joined::First`] is submitted.
    pub(crate) fn submitted(&mut self, session: SessionId, sequence: u64) {
        let line = self.lines.get_mut(&session).expect("somebody waits");
        let wait = line.wait_mut(sequence).expect("somebody waits");
        wait.is_submitted = true;
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
        if line.waits.is_empty() {
            self.lines.remove(&session);
        }
    }

    /// Takes all waits of a session that has ended, for refusals.
    pub(crate) fn take_line(&mut self, session: SessionId) -> Vec<(u64, ConnectionId)> {
        let Some(mut line) = self.lines.remove(&session) else {
            return Vec::new();
        };
        self.in_flight -= line.waits.iter().filter(|wait| wait.is_submitted).count();
        line.take_all()
    }

    /// Sessions with a wait.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.lines.keys().copied().collect()
    }

    /// The connection ended: it needs no answer any more.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId, sessions: &[SessionId]) {
        for &session in sessions {
            if let Some(line) = self.lines.get_mut(&session) {
                for wait in &mut line.waits {
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
            .map(|line| line.waits.iter().filter(|wait| !wait.is_idle()).count())
            .sum()
    }

    /// Calls that are being ordered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn check(&self) {
        let lines = self.lines.values();
        let submitted: usize = lines
            .map(|line| line.waits.iter().filter(|wait| wait.is_submitted).count())
            .sum();
        assert_eq!(submitted, self.in_flight);
        for line in self.lines.values() {
            assert!(line.waits.front().is_some_and(|wait| !wait.is_idle()));
        }
    }
}

impl Line {
    /// The wait of `sequence`, made if it fits.
    fn place(&mut self, sequence: u64) -> Option<&mut Wait> {
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

    fn wait_mut(&mut self, sequence: u64) -> Option<&mut Wait> {
        let offset = sequence.checked_sub(self.first)?;
        self.waits.get_mut(usize::try_from(offset).ok()?)
    }

    /// The command is decided: returns whether this node had submitted it.
    pub(crate) fn decided(&mut self, sequence: u64, fingerprint: u64) -> bool {
        self.wait_mut(sequence)
            .filter(|wait| wait.fingerprint == fingerprint)
            .is_some_and(|wait| std::mem::take(&mut wait.is_submitted))
    }

    /// Ordering refused the command: returns whether this node had submitted it.
    pub(crate) fn refused(&mut self, sequence: u64) -> bool {
        self.wait_mut(sequence)
            .is_some_and(|wait| std::mem::take(&mut wait.is_submitted))
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

    /// Every wait: sequence and fingerprint.
    pub(crate) fn all(&self) -> Vec<(u64, u64)> {
        let waits = self.waits.iter().zip(self.first..);
        waits
            .filter(|(wait, _)| !wait.is_idle())
            .map(|(wait, sequence)| (sequence, wait.fingerprint))
            .collect()
    }

    fn take_all(&mut self) -> Vec<(u64, ConnectionId)> {
        let waits = self.waits.drain(..).zip(self.first..);
        waits
            .flat_map(|(mut wait, sequence)| {
                let connections: Vec<_> = wait.take().collect();
                connections.into_iter().map(move |to| (sequence, to))
            })
            .collect()
    }

    fn shrink(&mut self) {
        while self.waits.front().is_some_and(Wait::is_idle) {
            self.waits.pop_front();
            self.first += 1;
        }
    }
}

impl Wait {
    fn is_idle(&self) -> bool {
        self.connection.is_none() && !self.is_submitted
    }

    fn has(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection) || self.others.contains(&connection)
    }

    fn add(&mut self, connection: ConnectionId) {
        match self.connection {
            None => self.connection = Some(connection),
            Some(_) => self.others.push(connection),
        }
    }

    fn forget(&mut self, connection: ConnectionId) {
        self.others.retain(|other| *other != connection);
        if self.connection == Some(connection) {
            self.connection = self.others.pop();
        }
    }

    fn take(&mut self) -> impl Iterator<Item = ConnectionId> {
        self.connection
            .take()
            .into_iter()
            .chain(self.others.drain(..))
    }
}
