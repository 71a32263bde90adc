//! A blocking client that threads may share: its own thread drives the connection.

use crate::driver::{Driver, DriverOptions};
use crate::limits::{CONNECT_TIMEOUT, QUEUE_MAX};
use crate::{Answer, CallCause, CallError, ConnectError, Endpoint, Operation, Ticket};
use mio::{Events, Poll, Token, Waker};
use quorate_types::ObjectId;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CONNECTION: Token = Token(0);
const WAKE: Token = Token(1);

type Done = Box<dyn FnOnce(Result<Answer, CallError>) + Send>;
type Looking = Box<dyn FnOnce(&mut Driver) + Send>;

enum Order {
    Begin(Operation, Done),
    Look(Looking),
    Stop,
}

/// A pipelined client; cheap to share by reference, closed when dropped.
pub struct Client {
    orders: SyncSender<Order>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// An operation under way; [`PendingCall::wait`] has its end.
pub struct PendingCall(Arc<Cell>);

#[derive(Default)]
struct Cell {
    result: Mutex<Option<Result<Answer, CallError>>>,
    filled: Condvar,
}

impl Client {
    /// Connects and opens a session, within `timeout` (ten seconds when `None`).
    ///
    /// # Errors
    /// [`ConnectError::NoQuorum`] when no node could open a session in time,
    /// [`ConnectError::Rejected`] when a node rejected the client, [`ConnectError::Tls`] when the
    /// certificates fit no address.
    pub fn connect(
        endpoint: &Endpoint,
        options: DriverOptions,
        timeout: Option<Duration>,
    ) -> Result<Client, ConnectError> {
        let timeout = timeout.unwrap_or(CONNECT_TIMEOUT);
        let system = |error: std::io::Error| ConnectError::System(error.to_string());
        let poll = Poll::new().map_err(system)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(system)?);
        let driver = Driver::new(endpoint, options, poll.registry(), CONNECTION).map_err(system)?;
        let mut turns = Turns {
            poll,
            driver,
            begun: BTreeMap::new(),
            finished: Vec::new(),
        };
        turns.open(timeout)?;
        let (orders, queue) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("quorate-client".into())
            .spawn(move || turns.run(&queue))
            .map_err(system)?;
        Ok(Client {
            orders,
            waker,
            thread: Some(thread),
        })
    }

    /// The object of that name; `None` names the only one.
    ///
    /// # Errors
    /// [`ConnectError::NoSuchObject`] with the names that exist.
    pub fn object(&self, name: Option<&str>) -> Result<ObjectId, ConnectError> {
        let name = name.map(str::to_string);
        let closed = || ConnectError::System("this client is closed".into());
        self.look(move |driver| driver.object(name.as_deref()))
            .ok_or_else(closed)?
    }

    /// Begins an operation and returns at once, unless thousands wait already.
    #[must_use]
    pub fn begin(&self, operation: Operation) -> PendingCall {
        let cell = Arc::new(Cell::default());
        let filled = Arc::clone(&cell);
        self.begin_with(operation, move |result| filled.fill(result));
        PendingCall(cell)
    }

    /// Begins an operation; `done` gets its end, on the client's thread, and must not block.
    pub fn begin_with(
        &self,
        operation: Operation,
        done: impl FnOnce(Result<Answer, CallError>) + Send + 'static,
    ) {
        self.order(Order::Begin(operation, Box::new(done)));
    }

    /// Runs an operation and waits for its end.
    ///
    /// # Errors
    /// As [`CallError`] says; its class tells whether it may have been executed.
    pub fn perform(&self, operation: Operation) -> Result<Answer, CallError> {
        self.begin(operation).wait()
    }

    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Driver) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        self.order(Order::Look(Box::new(move |driver| {
            // The caller waits for this answer, or has gone and needs none.
            drop(answer.send(look(driver)));
        })));
        answered.recv().ok()
    }

    fn order(&self, order: Order) {
        if let Err(refused) = self.orders.send(order) {
            refuse(refused.0);
        }
        // A waker fails only when its loop is gone, and then the order was refused above.
        drop(self.waker.wake());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            drop(thread.join());
        }
    }
}

impl PendingCall {
    /// Waits for the end.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub fn wait(self) -> Result<Answer, CallError> {
        let mut result = self.0.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self
                .0
                .filled
                .wait(result)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Cell {
    fn fill(&self, result: Result<Answer, CallError>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.filled.notify_all();
    }
}

/// The loop of the client's thread.
struct Turns {
    poll: Poll,
    driver: Driver,
    begun: BTreeMap<Ticket, Done>,
    finished: Vec<crate::Finished>,
}

impl Turns {
    /// Turns until a session is open.
    fn open(&mut self, timeout: Duration) -> Result<(), ConnectError> {
        let end = Instant::now() + timeout;
        let mut events = Events::with_capacity(16);
        while !self.driver.is_usable() {
            if let Some(rejected) = self.driver.rejection() {
                return Err(rejected);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.driver.gave_up(timeout));
            }
            self.turn(&mut events, left);
        }
        Ok(())
    }

    fn run(mut self, queue: &Receiver<Order>) {
        let mut events = Events::with_capacity(16);
        let mut held = None;
        loop {
            loop {
                match held.take().map_or_else(|| queue.try_recv(), Ok) {
                    Ok(Order::Begin(operation, done)) => {
                        match self.driver.begin(operation.clone()) {
                            Some(ticket) => drop(self.begun.insert(ticket, done)),
                            None => {
                                held = Some(Order::Begin(operation, done));
                                break;
                            }
                        }
                    }
                    Ok(Order::Look(look)) => look(&mut self.driver),
                    Err(TryRecvError::Empty) => break,
                    Ok(Order::Stop) | Err(TryRecvError::Disconnected) => {
                        return self.stop(held, queue);
                    }
                }
            }
            self.turn(&mut events, Duration::from_secs(1));
        }
    }

    fn turn(&mut self, events: &mut Events, longest: Duration) {
        self.finish();
        // An interrupted wait is a turn without events.
        drop(
            self.poll
                .poll(events, Some(self.driver.sleep_max().min(longest))),
        );
        for event in events.iter() {
            if event.token() == CONNECTION {
                self.driver.ready(event);
            }
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.driver.turn(&mut self.finished);
        for (ticket, result) in self.finished.drain(..) {
            if let Some(done) = self.begun.remove(&ticket) {
                done(result.map_err(CallError::from));
            }
        }
    }

    /// Ends everything unfinished: operations that were begun as unknown, the others as closed.
    fn stop(self, held: Option<Order>, queue: &Receiver<Order>) {
        for done in self.begun.into_values() {
            done(Err(CallError::OutcomeUnknown(CallCause::ClientClosed)));
        }
        for order in held.into_iter().chain(queue.try_iter()) {
            refuse(order);
        }
    }
}

fn refuse(order: Order) {
    match order {
        Order::Begin(_, done) => done(Err(CallError::Closed)),
        Order::Look(_) | Order::Stop => {}
    }
}
