//! A blocking client that threads may share: whoever waits drives the connection, and one thread of the process the others.

use crate::cell::{CallCell, CallEnd};
use crate::driver::{DriverOptions, OperationOptions};
use crate::driving::{ClientHooks, SharedDriver};
use crate::early::{EarlyDone, FirstWord, WordState};
use crate::limits::{CONNECT_TIMEOUT, WAIT_SLICE};
use crate::unbegun::{Done, OperationId};
use crate::{Answer, CallCause, CallError, ConnectError, Endpoint, Operation, SessionNews};
use bytes::Bytes;
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Value, call};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A pipelined client; cheap to share by reference, closed when dropped.
pub struct Client {
    shared: Arc<SharedDriver>,
}

/// An object of the group, and how it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundObject {
    /// Its number.
    pub object: ObjectId,
    /// The level of its reads where a client asks for no other one.
    pub reads: ReadLevel,
}

/// An operation under way; [`PendingCall::wait`] has its end.
pub struct PendingCall {
    shared: Arc<SharedDriver>,
    cell: Arc<CallCell>,
}

/// A call under way of which a first word may come before its end.
pub struct EarlyCall {
    shared: Arc<SharedDriver>,
    word: Arc<FirstWord>,
    first: Arc<CallCell>,
    last: Arc<CallCell>,
}

impl Client {
    /// Connects and opens a session, within `timeout` (ten seconds when `None`).
    ///
    /// # Errors
    /// [`ConnectError::BadExpiry`] when the options ask for an expiry time out of bounds,
    /// [`ConnectError::NoQuorum`] when no node could open a session in time,
    /// [`ConnectError::Rejected`] when a node rejected the client, [`ConnectError::Tls`] when the
    /// certificates fit no address.
    pub fn connect(
        endpoint: &Endpoint,
        options: DriverOptions,
        timeout: Option<Duration>,
    ) -> Result<Client, ConnectError> {
        let timeout = timeout.unwrap_or(CONNECT_TIMEOUT);
        let (client, opening) = Client::open(endpoint, options, ClientHooks::default(), timeout)?;
        loop {
            if let Some(opened) = client.await_open(&opening, WAIT_SLICE) {
                return opened.map(|()| client);
            }
        }
    }

    /// Begins to connect; [`Client::await_open`] waits for what comes of it.
    ///
    /// # Errors
    /// [`ConnectError::System`] when the system refuses what every client needs, [`ConnectError::BadExpiry`] when the options ask
    /// for an expiry time out of bounds.
    pub fn open(
        endpoint: &Endpoint,
        options: DriverOptions,
        hooks: ClientHooks,
        timeout: Duration,
    ) -> Result<(Client, ClientOpening), ConnectError> {
        let opening = ClientOpening::default();
        let found = Arc::clone(&opening.0);
        let client = Client::open_with(endpoint, options, hooks, timeout, move |opened| {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        })?;
        Ok((client, opening))
    }

    /// Begins to connect; `opened` hears what came of it, on another thread, and must not block.
    ///
    /// # Errors
    /// [`ConnectError::System`] when the system refuses what every client needs, [`ConnectError::BadExpiry`] when the options ask
    /// for an expiry time out of bounds.
    pub fn open_with(
        endpoint: &Endpoint,
        options: DriverOptions,
        hooks: ClientHooks,
        timeout: Duration,
        opened: impl FnOnce(Result<(), ConnectError>) + Send + 'static,
    ) -> Result<Client, ConnectError> {
        options.check()?;
        let name = endpoint.group.clone();
        let opened = move |found: Result<(), ConnectError>| {
            opened(found.map_err(|error| error.of_group(name.as_ref())));
        };
        let shared = SharedDriver::open(endpoint, options, hooks, timeout, Box::new(opened))
            .map_err(|error| ConnectError::System(error.to_string()))?;
        let client = Client { shared };
        client.shared.flush(true);
        Ok(client)
    }

    /// Waits for the connection, at most for `slice` or until a signal comes; `None` when it is still being made.
    #[must_use]
    pub fn await_open(
        &self,
        opening: &ClientOpening,
        slice: Duration,
    ) -> Option<Result<(), ConnectError>> {
        let opened = || opening.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.await_open(slice, &mut || opened().is_some());
        opened().take()
    }

    /// The object of that name; `None` names the only one.
    ///
    /// # Errors
    /// [`ConnectError::NoSuchObject`] with the names that exist.
    pub fn object(&self, name: Option<&str>) -> Result<ObjectId, ConnectError> {
        self.find(name).map(|found| found.object)
    }

    /// The object of that name, and the level of its reads.
    ///
    /// # Errors
    /// As [`Client::object`].
    pub fn find(&self, name: Option<&str>) -> Result<FoundObject, ConnectError> {
        self.find_reading(name, ReadLevel::Confirmed)
    }

    /// As [`Client::find`], and asks the directory at this level.
    ///
    /// # Errors
    /// As `find` has.
    pub fn find_reading(
        &self,
        name: Option<&str>,
        level: ReadLevel,
    ) -> Result<FoundObject, ConnectError> {
        let first = self.shared.look(|driver| driver.object(name));
        match (first, name) {
            (Err(none @ ConnectError::NoSuchObject { .. }), Some(name)) => {
                self.created_object(name, level)?.ok_or(none)
            }
            (found, _) => found.map(|object| {
                let reads = ReadLevel::Confirmed;
                FoundObject { object, reads }
            }),
        }
    }

    /// An object that was created while the group ran: the directory knows it. `None` where there is none, or no directory.
    fn created_object(
        &self,
        name: &str,
        level: ReadLevel,
    ) -> Result<Option<FoundObject>, ConnectError> {
        let Ok(payload) = call::encode("find", &[Value::Text(name.to_owned())], &[]) else {
            return Ok(None);
        };
        let operation = Operation::Read {
            object: ObjectId::DIRECTORY,
            payload,
            level,
        };
        let outcome = match self.perform(operation) {
            Ok(Answer::Read { outcome, .. } | Answer::Called(outcome)) => outcome,
            Ok(Answer::Checkpointed(_)) => return Ok(None),
            Err(error) => {
                return Err(ConnectError::Unanswered {
                    address: format!("the directory of the group, asked for '{name}',"),
                    reason: error.to_string(),
                });
            }
        };
        Ok(place_in(&outcome))
    }

    /// Begins an operation and returns at once, unless thousands wait already. It is sent within a millisecond, and at once when
    /// somebody waits for it.
    #[must_use]
    pub fn begin(&self, operation: Operation) -> PendingCall {
        let cell = Arc::new(CallCell::default());
        let done = Done::Cell(Arc::clone(&cell));
        self.hand_over(operation, done);
        PendingCall {
            shared: Arc::clone(&self.shared),
            cell,
        }
    }

    /// Begins a call and returns at once; the first word of it may be what objects returned that executed it ahead of its decision. Ask
    /// for it if something useful can be done with a value that may yet be replaced.
    #[must_use]
    pub fn begin_early(&self, object: ObjectId, payload: Bytes) -> EarlyCall {
        let call = EarlyCall {
            shared: Arc::clone(&self.shared),
            word: Arc::default(),
            first: Arc::default(),
            last: Arc::default(),
        };
        let (first, last) = (Arc::clone(&call.first), Arc::clone(&call.last));
        let done = EarlyDone::new(Arc::clone(&call.word), Done::Cell(first), Done::Cell(last));
        let operation = Operation::EarlyCall { object, payload };
        self.hand_over(operation, Done::Early(Box::new(done)));
        call
    }

    /// Begins an operation; `done` gets its end, on another thread, and must not block.
    pub fn begin_with(&self, operation: Operation, done: impl FnOnce(CallEnd) + Send + 'static) {
        self.hand_over(operation, Done::Told(Box::new(done)));
        self.shared.flush(true);
    }

    /// Runs an operation and waits for its end.
    ///
    /// # Errors
    /// As [`CallError`] says; its class tells whether it may have been executed.
    pub fn perform(&self, operation: Operation) -> Result<Answer, CallError> {
        self.begin(operation).wait()
    }

    fn hand_over(&self, operation: Operation, done: Done) {
        let mut options = OperationOptions::default();
        if !self.shared.has_room() {
            let until = Instant::now() + self.timeout_of(options);
            while !self.shared.has_room() && Instant::now() < until {
                self.shared.await_room(WAIT_SLICE);
            }
            options.timeout = Some(until.saturating_duration_since(Instant::now()));
            if !self.shared.has_room() {
                return done.end(Err(CallError::NotExecuted(CallCause::DeadlinePassed)));
            }
        }
        self.shared.enqueue(operation, options, done);
        self.shared.linger();
    }

    /// How long an operation with these options may take.
    #[must_use]
    pub fn timeout_of(&self, options: OperationOptions) -> Duration {
        self.shared.timeout_of(options)
    }

    /// Begins an operation whose end comes to a cell. It is sent at [`Client::flush`], when somebody waits, or a millisecond after
    /// [`Client::linger`]. Ask for room before.
    pub fn begin_to(
        &self,
        operation: Operation,
        options: OperationOptions,
        cell: &Arc<CallCell>,
    ) -> OperationId {
        let done = Done::Cell(Arc::clone(cell));
        self.shared.enqueue(operation, options, done)
    }

    /// Begins an operation like [`Client::begin_to`]; `done` gets its end, on another thread, and must not block.
    pub fn begin_told(
        &self,
        operation: Operation,
        options: OperationOptions,
        done: impl FnOnce(CallEnd) + Send + 'static,
    ) -> OperationId {
        let done = Done::Told(Box::new(done));
        self.shared.enqueue(operation, options, done)
    }

    /// Begins an operation like [`Client::begin_to`]; `first` gets the first word of it and `last` its end, which may be the same.
    pub fn begin_early_to(
        &self,
        operation: Operation,
        options: OperationOptions,
        word: &Arc<FirstWord>,
        [first, last]: [&Arc<CallCell>; 2],
    ) -> OperationId {
        let [first, last] = [first, last].map(|cell| Done::Cell(Arc::clone(cell)));
        let done = EarlyDone::new(Arc::clone(word), first, last);
        let done = Done::Early(Box::new(done));
        self.shared.enqueue(operation, options, done)
    }

    /// Begins an operation like [`Client::begin_told`]; `first` gets the first word of it and `last` its end, which may be the same.
    pub fn begin_early_told(
        &self,
        operation: Operation,
        options: OperationOptions,
        word: &Arc<FirstWord>,
        [first, last]: [Box<dyn FnOnce(CallEnd) + Send>; 2],
    ) -> OperationId {
        let done = EarlyDone::new(Arc::clone(word), Done::Told(first), Done::Told(last));
        let done = Done::Early(Box::new(done));
        self.shared.enqueue(operation, options, done)
    }

    /// Whether another operation may be begun: not while thousands wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.has_room()
    }

    /// Has what waits sent within a millisecond.
    pub fn linger(&self) {
        self.shared.linger();
    }

    /// Sends what waits.
    pub fn flush(&self, reader: AnswerReader) {
        self.shared.flush(reader == AnswerReader::Background);
    }

    /// Waits until more operations can begin, at most for `slice` or until a signal comes.
    pub fn await_room(&self, slice: Duration) {
        self.shared.await_room(slice);
    }

    /// Waits until all cells from `first` on are filled, at most for `slice` or until a signal comes. Moves `first` to the first that
    /// is not, and says whether all are.
    pub fn wait(&self, cells: &[Arc<CallCell>], first: &mut usize, slice: Duration) -> bool {
        self.shared.wait(cells, first, slice)
    }

    /// Takes an operation back that no replica has executed or will; says whether it did. Then nobody hears of it again.
    #[must_use]
    pub fn withdraw(&self, id: OperationId) -> bool {
        !self.shared.is_foreign() && self.shared.withdraw(id)
    }

    /// Says that nobody waits for an operation any more. One that was not sent is taken back. A call that waits in the group, or
    /// turns out to, is cancelled there; of any other one that was sent, the outcome stays unknown.
    pub fn give_up(&self, id: OperationId) {
        if !self.shared.is_foreign() {
            self.shared.give_up(id);
        }
    }

    /// What the client may count on; `None` when it is closed.
    #[must_use]
    pub fn news(&self) -> Option<SessionNews> {
        self.shared.news()
    }

    /// Waits until there is other news than the caller knows, at most for `slice`; `None` when the client is
    /// closed.
    #[must_use]
    pub fn await_news(&self, known: SessionNews, slice: Duration) -> Option<SessionNews> {
        self.shared.await_news(known, slice)
    }

    /// Has those who wait for news look at once.
    pub fn stir(&self) {
        self.shared.stir();
    }

    /// Whether this process was forked off after the client was opened, and must leave it alone.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.shared.is_foreign()
    }

    /// Ends the client; operations without an answer end with an error.
    pub fn close(&self) {
        if !self.shared.is_foreign() {
            self.shared.close();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
        if self.shared.is_foreign() {
            // To drop it would take the parent's socket out of the parent's loop.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

/// Number and level in what the directory says of an object.
fn place_in(outcome: &Outcome) -> Option<FoundObject> {
    let Outcome::Returned(bytes) = outcome else {
        return None;
    };
    let Ok(Value::List(found)) = value::decode(bytes) else {
        return None;
    };
    match &found[..] {
        [Value::Int(number), _, _, Value::Text(reads)] => Some(FoundObject {
            object: ObjectId(u32::try_from(*number).ok()?),
            reads: ReadLevel::of_name(reads)?,
        }),
        _ => None,
    }
}

/// What came of connecting, once that is known.
#[derive(Default)]
pub struct ClientOpening(Arc<Mutex<Option<Result<(), ConnectError>>>>);

/// Who reads the answers to what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerReader {
    /// The caller, soon: it waits for them.
    Caller,
    /// The background thread.
    Background,
}

impl PendingCall {
    /// Waits for the end.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub fn wait(self) -> Result<Answer, CallError> {
        await_cell(&self.shared, &self.cell)
    }
}

impl EarlyCall {
    /// Waits for the first word. [`EarlyCall::state`] says whether it is tentative: what that returned may be undone, and is no answer.
    ///
    /// # Errors
    /// As [`CallError`] says, where the call ended before anything was told. Only the first caller gets it.
    pub fn first(&self) -> Result<Answer, CallError> {
        await_cell(&self.shared, &self.first)
    }

    /// What the first word is worth, as far as that is known.
    #[must_use]
    pub fn state(&self) -> WordState {
        self.word.state()
    }

    /// Waits for the end of the call: the answer that counts.
    ///
    /// # Errors
    /// As [`CallError`] says. Only the first caller gets it.
    pub fn confirmed(&self) -> Result<Answer, CallError> {
        await_cell(&self.shared, &self.last)
    }
}

fn await_cell(shared: &SharedDriver, cell: &Arc<CallCell>) -> Result<Answer, CallError> {
    let cells = [Arc::clone(cell)];
    while !shared.wait(&cells, &mut 0, WAIT_SLICE) {}
    cell.take().unwrap_or(Err(CallError::Closed))
}
