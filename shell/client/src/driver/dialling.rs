//! How a driver comes to a connection and loses it: dialling, looking names up, who watches the socket.

use super::{Driver, boot_time};
use crate::connection::NodeConnection;
use crate::limits::NOTES_MAX;
use crate::resolving::Resolving;
use crate::{ClientNote, ConnectError, TlsProblem};
use quorate_session::SessionInput;
use quorate_types::{ClosedBy, ClusterId, NodeId};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Driver {
    pub(super) fn dial(&mut self, address: &str) {
        if let Some(left) = self.connection.as_ref().filter(|c| c.is_welcomed) {
            let (address, next) = (left.address.clone(), address.to_string());
            self.note(ClientNote::Left { address, next });
        }
        self.hang_up();
        if let Ok(resolved) = address.parse() {
            return self.connect(address, resolved);
        }
        match Resolving::start(address, &self.registry, self.token) {
            Ok(resolving) => self.resolving = Some(resolving),
            Err(error) => self.fail(&format!("{address}: {error}")),
        }
    }

    /// Connects once the address is known that was looked up.
    pub(super) fn take_address(&mut self) {
        let Some(found) = self.resolving.as_ref().and_then(Resolving::answer) else {
            return;
        };
        let Some(mut resolving) = self.resolving.take() else {
            return;
        };
        resolving.leave(&self.registry);
        match found {
            Ok(resolved) => self.connect(&resolving.address, resolved),
            Err(error) => {
                self.note_unreached(&resolving.address, &error);
                self.fail(&format!("{}: {error}", resolving.address));
            }
        }
    }

    fn connect(&mut self, address: &str, resolved: SocketAddr) {
        let tls = self.options.tls.as_deref();
        let (group, registry) = (self.group, &self.registry);
        match NodeConnection::dial(address, resolved, group, registry, self.token, tls) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.is_watched = true;
            }
            Err(error) => {
                self.note_unreached(address, &error.to_string());
                self.fail(&format!("{address}: {error}"));
            }
        }
    }

    /// The connection failed; what is wrong with certificates is kept by address.
    pub(super) fn fail_by(&mut self, error: &Error) {
        if let Some(connection) = &self.connection {
            let address = connection.address.clone();
            match TlsProblem::of(error) {
                Some(problem) => drop(self.problems.insert(address, problem.clone())),
                None => drop(self.problems.remove(&address)),
            }
        }
        self.lose(&error.to_string(), closed_by(error));
    }

    /// This client leaves the connection, for what is wrong with it.
    pub(super) fn fail(&mut self, error: &str) {
        self.lose(error, ClosedBy::Client);
    }

    pub(super) fn lose(&mut self, error: &str, by: ClosedBy) {
        self.last_error = Some(error.to_string());
        if let Some((address, was_up)) = self
            .connection
            .as_ref()
            .map(|c| (c.address.clone(), c.is_welcomed))
        {
            if was_up {
                let in_flight = self.in_flight();
                let error = error.to_string();
                self.note(ClientNote::Lost {
                    address,
                    error,
                    in_flight,
                });
            } else {
                self.note_unreached(&address, error);
            }
        }
        // The time before the node can be told: this process may be stopped in between.
        let now = boot_time();
        self.hang_up();
        let input = SessionInput::Disconnected { by };
        self.session.handle(now, input, &mut self.outputs);
    }

    /// Another cluster answers: it is left before anything is sent to it.
    pub(super) fn leave_foreign(&mut self, pinned: ClusterId, found: ClusterId) {
        let address = self.connection.as_ref().map(|c| c.address.clone());
        let address = address.unwrap_or_default();
        let error = ConnectError::OtherCluster {
            address: address.clone(),
            pinned,
            found,
        };
        self.note_unreached(&address, &error.to_string());
        self.foreign_at.insert(address);
        self.foreign = Some(error);
        self.hang_up();
        let input = SessionInput::OtherCluster { pinned, found };
        self.session.handle(boot_time(), input, &mut self.outputs);
    }

    /// Drops the connection, and the lookup for one.
    pub(crate) fn hang_up(&mut self) {
        if let Some(mut resolving) = self.resolving.take() {
            resolving.leave(&self.registry);
        }
        if let Some(mut connection) = self.connection.take() {
            connection.leave(&self.registry);
        }
    }

    /// The client is closed for good: says what its node should know.
    pub(crate) fn say_farewell(&mut self) {
        if let Some(farewell) = self.session.farewell()
            && let Some(connection) = &mut self.connection
        {
            connection.queue(&farewell);
            // What does not go now is not waited for: the session expires.
            let _ = connection.flush();
            connection.drain();
        }
    }

    /// Whether the loop watches the socket; else the caller that lent it does.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Takes the socket out of the loop until [`Driver::watch`]: the caller waits for [`Driver::socket`] itself.
    pub(crate) fn lend(&mut self) {
        if std::mem::replace(&mut self.is_watched, false)
            && let Some(connection) = &mut self.connection
        {
            connection.leave(&self.registry);
        }
    }

    /// Lets the loop watch the socket. What is due at it is told anew.
    pub(crate) fn watch(&mut self) {
        let was_watched = std::mem::replace(&mut self.is_watched, true);
        if let Some(connection) = &mut self.connection {
            connection.watch(&self.registry, self.token, was_watched);
        }
    }

    /// A copy of the descriptor to wait for, and whether it is awaited to take bytes.
    pub(crate) fn socket(&self) -> Option<(Arc<OwnedFd>, bool)> {
        match (&self.resolving, &self.connection) {
            (Some(resolving), _) => Some((resolving.copy(), false)),
            (None, Some(connection)) => Some(connection.copy()),
            (None, None) => None,
        }
    }

    pub(super) fn note_welcome(&mut self, node: NodeId) {
        self.unreached.clear();
        let sent = self.in_flight();
        if let Some(connection) = &mut self.connection {
            connection.is_welcomed = true;
            let address = connection.address.clone();
            self.note(ClientNote::Connected {
                address,
                node,
                sent,
            });
        }
    }

    fn note_unreached(&mut self, address: &str, error: &str) {
        // An endpoint and a view have few addresses; each is told once.
        if self.unreached.len() < NOTES_MAX && self.unreached.insert(address.to_string()) {
            let (address, error) = (address.to_string(), error.to_string());
            self.note(ClientNote::Unreached { address, error });
        }
    }

    fn note(&mut self, note: ClientNote) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }
}

/// Whether the system says that the node has ended the connection. What else ends it, this client did.
fn closed_by(error: &Error) -> ClosedBy {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            ClosedBy::Node
        }
        _ => ClosedBy::Client,
    }
}
