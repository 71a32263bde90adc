//! A client without a thread of its own: its caller polls, it reads, decides and writes.

use crate::connection::Connection;
use crate::{ConnectError, Endpoint};
use bytes::Bytes;
use mio::event::Event;
use mio::{Registry, Token};
use quorate_session::{
    Answer, ClientSession, Failure, Input, Operation, Output, SessionConfig, Ticket,
};
use quorate_types::{Duration, GroupId, ObjectId, ReadLevel, Time, Value};
use quorate_wire::{Frame, Kind, ObjectEntry, Reject, Welcome, answers};

/// What a driver may be told.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Retries, silence and preference.
    pub session: SessionConfig,
    /// The group meant at the endpoint's addresses.
    pub group: GroupId,
    /// How long an operation may take before it ends without an answer.
    pub timeout: std::time::Duration,
}

impl Default for DriverOptions {
    fn default() -> DriverOptions {
        DriverOptions {
            session: SessionConfig::default(),
            group: GroupId(1),
            timeout: std::time::Duration::from_secs(30),
        }
    }
}

/// An operation that ended.
pub type Finished = (Ticket, Result<Answer, Failure>);

/// One client on somebody else's event loop.
pub struct Driver {
    session: ClientSession,
    registry: Registry,
    token: Token,
    options: DriverOptions,
    connection: Option<Connection>,
    objects: Vec<ObjectEntry>,
    status: Option<Bytes>,
    outputs: Vec<Output>,
    finished: Vec<Finished>,
    rejected: Option<(String, Reject)>,
    last_error: Option<String>,
}

impl Driver {
    /// A client of `endpoint` whose socket is registered under `token`.
    ///
    /// # Errors
    /// When the registry cannot be shared.
    pub fn new(
        endpoint: &Endpoint,
        options: DriverOptions,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<Driver> {
        let seed = seed();
        let addresses = endpoint.addresses.clone();
        let session = ClientSession::new(options.session, addresses, seed, boot_time());
        Ok(Driver {
            session,
            registry: registry.try_clone()?,
            token,
            options,
            connection: None,
            objects: Vec::new(),
            status: None,
            outputs: Vec::new(),
            finished: Vec::new(),
            rejected: None,
            last_error: None,
        })
    }

    /// Says whether a session is open on a connection that stands.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Operations without an answer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// The node that turned this client away for good, if one did.
    #[must_use]
    pub fn rejection(&self) -> Option<ConnectError> {
        self.rejected
            .as_ref()
            .map(|(address, reject)| ConnectError::Rejected {
                address: address.clone(),
                reason: reject.text.clone(),
            })
    }

    /// The last thing that went wrong with a connection.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The object of that name; `None` names the only one there is.
    ///
    /// # Errors
    /// [`ConnectError::NoSuchObject`] with the names there are.
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
        if self.connection.as_ref().is_some_and(Connection::is_full) {
            return None;
        }
        let now = boot_time();
        let timeout = u64::try_from(self.options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = now + Duration(timeout);
        self.session
            .begin(now, operation, deadline, &mut self.outputs)
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

    /// How long the caller may sleep before [`Driver::turn`] is due without an event.
    #[must_use]
    pub fn sleep_max(&self) -> std::time::Duration {
        let span = self.session.next_wake().since(boot_time());
        std::time::Duration::from_nanos(span.0)
    }

    /// Takes a readiness event of this driver's token.
    pub fn ready(&mut self, event: &Event) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if event.is_writable() {
            let made = connection.on_connected();
            connection.on_writable();
            if let Err(error) = made {
                self.fail(&error.to_string());
                return;
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read_all();
        }
    }

    /// Performs what is due: timers, requests, writes. Call after events and after new operations.
    pub fn turn(&mut self, finished: &mut Vec<Finished>) {
        if self.session.next_wake() <= boot_time() {
            self.session
                .handle(boot_time(), Input::Wake, &mut self.outputs);
        }
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
                Err(error) => return self.fail(&error.to_string()),
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
                for message in answers(frame.body) {
                    match message {
                        Ok(message) => {
                            let input = Input::Received(message);
                            self.session.handle(boot_time(), input, &mut self.outputs);
                        }
                        Err(error) => return self.fail(&error.to_string()),
                    }
                }
            }
            Kind::Welcome => match Welcome::take(&frame.body) {
                Ok(welcome) => {
                    self.objects = welcome.objects;
                    let input = Input::Connected {
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
                    let text = reject.text.clone();
                    self.rejected = Some((address.unwrap_or_default(), reject));
                    self.fail(&text);
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
                    Output::Send(message) => {
                        if let Some(connection) = &mut self.connection {
                            connection.queue(&message);
                        }
                    }
                    Output::Done { ticket, result } => self.finished.push((ticket, result)),
                    Output::Dial { address } => self.dial(&address),
                }
            }
        }
        if let Some(Err(error)) = self.connection.as_mut().map(Connection::flush) {
            self.fail(&error.to_string());
        }
    }

    fn dial(&mut self, address: &str) {
        self.hang_up();
        match Connection::dial(address, self.options.group, &self.registry, self.token) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fail(&format!("{address}: {error}")),
        }
    }

    fn fail(&mut self, error: &str) {
        self.last_error = Some(error.to_string());
        self.hang_up();
        self.session
            .handle(boot_time(), Input::Disconnected, &mut self.outputs);
    }

    fn hang_up(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.leave(&self.registry);
        }
    }
}

/// Boot time: goes on while the machine is suspended.
pub(crate) fn boot_time() -> Time {
    let now = rustix::time::clock_gettime(clock());
    Time(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Boottime
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Monotonic
}

/// A number that no other client shares: random by the hasher's keys, which the system seeds.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(boot_time().0);
    hasher.finish() >> 1
}
