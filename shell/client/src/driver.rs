//! A client without its own thread: the caller polls; it reads, feeds the session and writes.

mod announcing;
mod dialling;
mod session_keeping;

use self::announcing::Announcers;
use crate::connection::NodeConnection;
use crate::resolving::Resolving;
use crate::{ClientNote, ConnectError, Endpoint, SessionFile, TlsClient, TlsProblem};
use bytes::Bytes;
use mio::event::Event;
use mio::{Registry, Token};
use quorate_session::{
    Answer, Attempts, ClientSession, Failure, Operation, SessionConfig, SessionInput, SessionLife,
    SessionOutput, Ticket,
};
use quorate_types::{
    ClosedBy, ClusterId, Duration, GroupId, Level, ObjectId, ReadLevel, Secret, SessionTerms, Time,
    Value,
};
use quorate_wire::{Frame, Kind, ObjectEntry, Reject, RejectReason, Welcome, answers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The options of a driver.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Retries, silence and preference.
    pub session: SessionConfig,
    /// How long an operation may take before it ends without an answer.
    pub timeout: std::time::Duration,
    /// Certificates for nodes that speak TLS; `None` for plain connections.
    pub tls: Option<Arc<TlsClient>>,
    /// Where the secret of its session is kept, for a process after this one; `None`: nobody resumes it.
    pub session_file: Option<Arc<SessionFile>>,
    /// Whether a client counts as connected before it has a session, which a majority decides. For reads of any state, which one node
    /// answers; calls wait for the session.
    pub is_for_any_state: bool,
}

impl Default for DriverOptions {
    fn default() -> DriverOptions {
        DriverOptions {
            session: SessionConfig::default(),
            timeout: std::time::Duration::from_secs(30),
            tls: None,
            session_file: None,
            is_for_any_state: false,
        }
    }
}

impl DriverOptions {
    /// Has sessions end after so long without a sign of life.
    #[must_use]
    pub fn expiring_after(mut self, expiry: std::time::Duration) -> DriverOptions {
        let expiry = u64::try_from(expiry.as_nanos()).unwrap_or(u64::MAX);
        self.session.terms.expiry = Duration(expiry);
        self
    }

    /// Has sessions end so long after a node's system reports that this client's process has closed its connection, unless the
    /// client is heard on another one.
    #[must_use]
    pub fn ending_on_disconnect(mut self, after: std::time::Duration) -> DriverOptions {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.session.terms.on_disconnect = Some(Duration(after));
        self
    }

    /// Refuses what no node grants.
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let SessionTerms {
            expiry: asked,
            on_disconnect,
        } = self.session.terms;
        if !(SessionTerms::EXPIRY_MIN..=SessionTerms::EXPIRY_MAX).contains(&asked) {
            return Err(ConnectError::BadExpiry {
                asked: std::time::Duration::from_nanos(asked.0),
            });
        }
        match on_disconnect {
            Some(short) if !(SessionTerms::EXPIRY_MIN..=asked).contains(&short) => {
                Err(ConnectError::BadDisconnect {
                    asked: std::time::Duration::from_nanos(short.0),
                    expiry: std::time::Duration::from_nanos(asked.0),
                })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The options of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationOptions {
    /// How long it may take; `None` for the driver's own time.
    pub timeout: Option<std::time::Duration>,
    /// How often it may be sent.
    pub attempts: Attempts,
}

/// An operation that ended.
pub type Finished = (Ticket, Result<Answer, Failure>);

/// One client on its caller's event loop.
pub struct Driver {
    session: ClientSession,
    registry: Registry,
    token: Token,
    options: DriverOptions,
    group: GroupId,
    connection: Option<NodeConnection>,
    /// The address is being looked up: there is no connection meanwhile.
    resolving: Option<Resolving>,
    /// Whether the loop watches the connection; else a caller waits for its socket.
    is_watched: bool,
    /// Where reads are announced.
    announcers: Announcers,
    notes: Vec<ClientNote>,
    /// Addresses that could not be reached since a node welcomed this client.
    unreached: BTreeSet<String>,
    objects: Vec<ObjectEntry>,
    status: Option<Bytes>,
    outputs: Vec<SessionOutput>,
    tentative: Vec<(Ticket, Value)>,
    finished: Vec<Finished>,
    rejected: Option<(String, Reject)>,
    last_error: Option<String>,
    addresses: Vec<String>,
    /// The cluster that this client first spoke to: no other one is sent anything.
    cluster: Option<ClusterId>,
    /// The newest address at which another cluster answered since the own one did.
    foreign: Option<ConnectError>,
    /// At which addresses that was. At most one for each member.
    foreign_at: BTreeSet<String>,
    /// Where the nodes of the group are: as the endpoint says, then as the newest welcome did.
    members: Vec<String>,
    /// What was wrong with the certificates of an address when it was last dialled. Bounded by the
    /// members of the group and the endpoint's addresses.
    problems: BTreeMap<String, TlsProblem>,
}

impl Driver {
    /// A client of `endpoint` whose socket is registered under `token`.
    ///
    /// # Errors
    /// When the registry cannot be shared, or the system gives no randomness.
    pub fn new(
        endpoint: &Endpoint,
        options: DriverOptions,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<Driver> {
        let addresses = endpoint.addresses.clone();
        let (config, first) = (options.session, u64::from_le_bytes(random()?));
        let (drawn, now) = (Secret::new(random()?), boot_time());
        let kept = options.session_file.as_ref().and_then(|file| file.secret());
        let session = match kept {
            Some(kept) => ClientSession::resuming(config, addresses, first, (kept, drawn), now),
            None => ClientSession::new(config, addresses, first, drawn, now),
        };
        Ok(Driver {
            session,
            registry: registry.try_clone()?,
            token,
            options,
            group: endpoint.group_id(),
            connection: None,
            resolving: None,
            is_watched: true,
            announcers: Announcers::default(),
            notes: Vec::new(),
            unreached: BTreeSet::new(),
            objects: Vec::new(),
            status: None,
            outputs: Vec::new(),
            tentative: Vec::new(),
            finished: Vec::new(),
            rejected: None,
            last_error: None,
            addresses: endpoint.addresses.clone(),
            cluster: None,
            foreign: None,
            foreign_at: BTreeSet::new(),
            members: endpoint.addresses.clone(),
            problems: BTreeMap::new(),
        })
    }

    /// Whether a session is open on a working connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Whether operations can begin: a session is open, or every node is up to answer reads and has no room for a session; or there is a
    /// connection, where that is enough.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.session.is_usable() || (self.options.is_for_any_state && self.session.is_connected())
    }

    /// What the client may count on.
    #[must_use]
    pub fn session_life(&self) -> SessionLife {
        self.session.session_life(boot_time())
    }

    /// Operations without an answer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// Why no session can open: a node rejected this client, the certificates fit no address of the
    /// endpoint, or another cluster answers at all of them.
    #[must_use]
    pub fn rejection(&self) -> Option<ConnectError> {
        if let Some((address, reject)) = &self.rejected {
            let (address, reason) = (address.clone(), reject.text.clone());
            return Some(match reject.reason {
                RejectReason::Group => ConnectError::no_group(address, reason),
                _ => ConnectError::Rejected { address, reason },
            });
        }
        if self
            .members
            .iter()
            .all(|address| self.foreign_at.contains(address))
        {
            return self.foreign.clone();
        }
        let is_hopeless = |address| self.problems.get(address).is_some_and(TlsProblem::is_final);
        self.addresses
            .iter()
            .all(is_hopeless)
            .then(|| self.tls_error())
            .flatten()
    }

    /// Why no session opened within `timeout`.
    #[must_use]
    pub fn gave_up(&self, timeout: std::time::Duration) -> ConnectError {
        let known = self.tls_error().or_else(|| self.foreign.clone());
        let addresses = self.addresses.join(", ");
        known.unwrap_or_else(|| match self.session.is_in_line() {
            true => ConnectError::NoPlace { addresses, timeout },
            false => ConnectError::NoQuorum {
                addresses,
                timeout,
                last: self.last_error.clone(),
            },
        })
    }

    fn tls_error(&self) -> Option<ConnectError> {
        let (address, problem) = self.problems.first_key_value()?;
        Some(ConnectError::Tls {
            address: address.clone(),
            problem: problem.clone(),
        })
    }

    /// The object of that name; `None` names the only one.
    ///
    /// # Errors
    /// [`ConnectError::NoSuchObject`] with the names that exist.
    pub fn object(&self, name: Option<&str>) -> Result<ObjectId, ConnectError> {
        let found = match name {
            Some(name) => self.objects.iter().find(|object| object.name == name),
            None if self.objects.len() == 1 => self.objects.first(),
            None => None,
        };
        found.map(|object| object.id).ok_or_else(|| {
            let known: Vec<&str> = self.objects.iter().map(|o| o.name.as_str()).collect();
            ConnectError::NoSuchObject {
                name: name.unwrap_or_default().to_string(),
                known: known.join(", "),
            }
        })
    }

    /// Begins a call; `None` when as many operations are in flight as the session allows.
    pub fn call(&mut self, object: ObjectId, payload: Value) -> Option<Ticket> {
        self.begin(Operation::Call { object, payload })
    }

    /// Begins a read; `None` when as many operations are in flight as the session allows.
    pub fn read(&mut self, object: ObjectId, payload: Value, level: ReadLevel) -> Option<Ticket> {
        self.begin(Operation::Read {
            object,
            payload,
            level,
        })
    }

    /// Begins any operation.
    pub fn begin(&mut self, operation: Operation) -> Option<Ticket> {
        self.begin_as(operation, OperationOptions::default())
    }

    /// Begins any operation, with options of its own.
    pub fn begin_as(&mut self, operation: Operation, options: OperationOptions) -> Option<Ticket> {
        let timeout = options.timeout.unwrap_or(self.options.timeout);
        let now = boot_time();
        let deadline = after(now, timeout);
        self.begin_by(now, operation, options.attempts, deadline)
    }

    /// Begins any operation, which has to end by a deadline.
    pub(crate) fn begin_by(
        &mut self,
        now: Time,
        operation: Operation,
        attempts: Attempts,
        deadline: Time,
    ) -> Option<Ticket> {
        if !self.has_room() {
            return None;
        }
        if let Operation::Read {
            level: ReadLevel::Broadcast,
            ..
        } = operation
        {
            self.announcers.want();
        }
        self.session
            .attempt(now, operation, deadline, attempts, &mut self.outputs)
    }

    /// Whether one more operation can begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let is_full = |connection: &NodeConnection| connection.is_full();
        self.session.has_room() && !self.connection.as_ref().is_some_and(is_full)
    }

    /// Takes an operation back that no replica has executed or will; says whether it did.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.session.withdraw(ticket)
    }

    /// Nobody waits for an operation any more: how it ends is not told. A call that waits in the group, or turns out to, is
    /// cancelled there.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.session.give_up(ticket);
    }

    /// What calls that were wanted early returned where they were executed ahead of their decisions, since the last time. Each comes
    /// before the call is among what [`Driver::turn`] has finished.
    pub fn take_tentative(&mut self) -> Vec<(Ticket, Value)> {
        std::mem::take(&mut self.tentative)
    }

    /// What happened to the connections since the last time.
    pub fn take_notes(&mut self) -> Vec<ClientNote> {
        std::mem::take(&mut self.notes)
    }

    /// Asks the connected node for its status document; [`Driver::take_status`] has it later.
    pub fn ask_status(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.queue_empty(Kind::StatusRequest);
        }
    }

    /// The newest status document that arrived, JSON.
    pub fn take_status(&mut self) -> Option<Bytes> {
        self.status.take()
    }

    /// When [`Driver::turn`] is due without an event.
    pub(crate) fn next_wake(&self) -> Time {
        self.session.next_wake()
    }

    /// How long the caller may sleep before [`Driver::turn`] is due without an event.
    #[must_use]
    pub fn sleep_max(&self) -> std::time::Duration {
        let span = self.session.next_wake().since(boot_time());
        std::time::Duration::from_nanos(span.0)
    }

    /// Takes a readiness event of this driver's token.
    pub fn ready(&mut self, event: &Event) {
        let is_readable = event.is_readable() || event.is_read_closed() || event.is_error();
        self.ready_to(is_readable, event.is_writable());
    }

    /// The socket can be read, or written.
    pub(crate) fn ready_to(&mut self, is_readable: bool, is_writable: bool) {
        self.take_address();
        let Some(connection) = &mut self.connection else {
            return;
        };
        if is_writable {
            connection.on_writable();
            // Once the node has welcomed the client, reads and writes tell what is wrong with the socket.
            if !connection.is_welcomed
                && let Err(error) = connection.on_connected()
            {
                self.fail_by(&error);
                return;
            }
        }
        if is_readable {
            self.read_all();
        }
    }

    /// Performs what is due: timers, requests, writes. Call after events and after new operations.
    pub fn turn(&mut self, finished: &mut Vec<Finished>) {
        if self.session.next_wake() <= boot_time() {
            self.session
                .handle(boot_time(), SessionInput::Wake, &mut self.outputs);
        }
        self.tend_announcers();
        self.perform();
        finished.append(&mut self.finished);
    }

    fn read_all(&mut self) {
        loop {
            let Some(connection) = &mut self.connection else {
                return;
            };
            let more = match connection.fill() {
                Ok(more) => more,
                Err(error) => return self.fail_by(&error),
            };
            while let Some(connection) = &mut self.connection {
                match connection.next_frame() {
                    Ok(Some(frame)) => self.on_frame(frame),
                    Ok(None) => break,
                    Err(error) => return self.fail(&error.to_string()),
                }
            }
            if !more {
                return;
            }
        }
    }

    fn on_frame(&mut self, frame: Frame) {
        match frame.kind {
            Kind::ToClient => {
                let now = boot_time();
                for message in answers(frame.body) {
                    match message {
                        Ok(message) => {
                            let input = SessionInput::Received(message);
                            self.session.handle(now, input, &mut self.outputs);
                        }
                        Err(error) => return self.fail(&error.to_string()),
                    }
                }
            }
            Kind::Welcome => match Welcome::take(&frame.body) {
                Ok(welcome) => {
                    if let Some(connection) = &self.connection {
                        if let Err(error) = connection.check_node(welcome.node) {
                            return self.fail_by(&error);
                        }
                        self.problems.remove(&connection.address);
                    }
                    let pinned = *self.cluster.get_or_insert(welcome.cluster);
                    if pinned != welcome.cluster {
                        return self.leave_foreign(pinned, welcome.cluster);
                    }
                    self.foreign = None;
                    self.foreign_at.clear();
                    if !welcome.members.is_empty() {
                        let addresses = welcome.members.iter().map(|(_, address)| address.clone());
                        self.members = addresses.collect();
                    }
                    self.announcers.welcomed(&welcome);
                    let tells_early = Level(welcome.version) >= Level::EARLY;
                    self.session.set_early(tells_early);
                    self.objects = welcome.objects;
                    let is_welcomed = self.connection.as_ref().is_some_and(|c| c.is_welcomed);
                    if is_welcomed {
                        let members = welcome.members;
                        let input = SessionInput::Members { members };
                        return self.session.handle(boot_time(), input, &mut self.outputs);
                    }
                    self.note_welcome(welcome.node);
                    let input = SessionInput::Connected {
                        node: welcome.node,
                        members: welcome.members,
                    };
                    self.session.handle(boot_time(), input, &mut self.outputs);
                }
                Err(error) => self.fail(&error.to_string()),
            },
            Kind::Reject => match Reject::take(&frame.body) {
                Ok(reject) => {
                    let address = self.connection.as_ref().map(|c| c.address.clone());
                    let address = address.unwrap_or_default();
                    // The node has left the connection before it says why.
                    if is_passing(reject.reason) {
                        let text = format!("{address}: {}", reject.text);
                        return self.lose(&text, ClosedBy::Node);
                    }
                    let text = reject.text.clone();
                    self.rejected = Some((address, reject));
                    self.lose(&text, ClosedBy::Node);
                }
                Err(error) => self.fail(&error.to_string()),
            },
            Kind::StatusReply => self.status = Some(frame.body),
            _ => self.fail("the node sent a frame that is not for clients"),
        }
    }

    fn perform(&mut self) {
        // Each pass performs what the last one caused; dialling may fail at once and cause more.
        for _ in 0..16 {
            if self.outputs.is_empty() {
                break;
            }
            for output in std::mem::take(&mut self.outputs) {
                match output {
                    SessionOutput::Send(message) => {
                        if self.is_kept(&message)
                            && let Some(connection) = &mut self.connection
                        {
                            connection.queue(&message);
                        }
                    }
                    SessionOutput::Announce(read) => self.announcers.announce(read),
                    SessionOutput::Tentative { ticket, value } => {
                        self.tentative.push((ticket, value));
                    }
                    SessionOutput::Done { ticket, result } => self.finished.push((ticket, result)),
                    SessionOutput::Dial { address } => self.dial(&address),
                }
            }
        }
        self.announcers.flush();
        if let Some(Err(error)) = self.connection.as_mut().map(NodeConnection::flush) {
            self.fail_by(&error);
        }
    }
}

/// Whether a node rejects for what it is itself and not for who asks: another node may answer, or the same one later.
pub(crate) fn is_passing(reason: RejectReason) -> bool {
    match reason {
        RejectReason::Full | RejectReason::Stopping | RejectReason::Elsewhere => true,
        RejectReason::Version
        | RejectReason::Cluster
        | RejectReason::Group
        | RejectReason::Identity
        | RejectReason::StaleBoot
        | RejectReason::Malformed
        | RejectReason::Forbidden
        | RejectReason::NotAMember
        | RejectReason::Unreadable
        | RejectReason::Other(_) => false,
    }
}

/// Boot time: goes on while the machine is suspended.
pub(crate) fn boot_time() -> Time {
    let now = rustix::time::clock_gettime(clock());
    Time(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

/// The time so long after another one.
pub(crate) fn after(now: Time, span: std::time::Duration) -> Time {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Time(now.0.saturating_add(span))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Boottime
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Monotonic
}

/// Random bytes of the system, which nobody can guess.
pub(crate) fn random<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
