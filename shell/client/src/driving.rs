//! One client's connection, shared by its callers and the background thread.
//!
//! Whoever waits for an answer reads and writes the socket itself while no other thread does (it *drives*): no thread is woken for
//! a call. Everything else is watched by the poller: operations that nobody waits for, timers, connections that are being made.

use crate::cell::CallCell;
use crate::driver::{Driver, DriverOptions, OperationOptions, after, boot_time};
use crate::era::era;
use crate::limits::{LENT_IDLE_MAX, LENT_MAX, LINGER, WAIT_SLICE};
use crate::news::Announced;
use crate::poller::Poller;
use crate::unbegun::{Done, HandedOver, OperationId, Unbegun};
use crate::{CallCause, CallError, ClientNote, ConnectError, Endpoint, Operation, Ticket};
use mio::Token;
use mio::event::Event;
use quorate_types::Time;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the owner of a client wants to hear. Both are called without any lock, by whichever thread reads the socket.
#[derive(Clone, Copy, Debug)]
pub struct ClientHooks {
    /// Operations have ended.
    pub ended: fn(),
    /// Something has happened to the connection.
    pub noted: fn(&[ClientNote]),
}

impl Default for ClientHooks {
    fn default() -> ClientHooks {
        ClientHooks {
            ended: || {},
            noted: |_| {},
        }
    }
}

type Opened = Box<dyn FnOnce(Result<(), ConnectError>) + Send>;

pub(crate) struct SharedDriver {
    token: Token,
    poller: &'static Poller,
    /// The era in which it was opened: another one is that of a process that was forked off.
    era: u32,
    hooks: ClientHooks,
    /// How long an operation may take that says nothing else.
    timeout: Duration,
    queue: Mutex<Unbegun>,
    room: Condvar,
    pub(crate) changed: Condvar,
    core: Mutex<Core>,
    /// When the poller has to look after it at the latest, in nanoseconds of boot time.
    due: AtomicU64,
}

pub(crate) struct Core {
    pub(crate) driver: Driver,
    pub(crate) news: Announced,
    begun: BTreeMap<Ticket, (OperationId, Done)>,
    finished: Vec<crate::Finished>,
    /// A caller waits for the socket, without holding the lock.
    is_driven: bool,
    /// When a caller last drove.
    lent_at: Time,
    opening: Option<(Instant, Duration, Opened)>,
    has_ended_some: bool,
    pub(crate) is_closed: bool,
}

impl SharedDriver {
    /// A client that begins to connect; `opened` hears what came of it, within `timeout`.
    pub(crate) fn open(
        endpoint: &Endpoint,
        options: DriverOptions,
        hooks: ClientHooks,
        timeout: Duration,
        opened: Opened,
    ) -> std::io::Result<Arc<SharedDriver>> {
        let poller = Poller::current()?;
        let era = era();
        let usual = options.timeout;
        poller.add(|token| {
            let driver = Driver::new(endpoint, options, poller.registry(), token)?;
            Ok(Arc::new(SharedDriver {
                token,
                poller,
                era,
                hooks,
                timeout: usual,
                queue: Mutex::default(),
                room: Condvar::new(),
                changed: Condvar::new(),
                core: Mutex::new(Core {
                    driver,
                    news: Announced::default(),
                    begun: BTreeMap::new(),
                    finished: Vec::new(),
                    is_driven: false,
                    lent_at: Time(0),
                    opening: Some((Instant::now() + timeout, timeout, opened)),
                    has_ended_some: false,
                    is_closed: false,
                }),
                due: AtomicU64::new(u64::MAX),
            }))
        })
    }

    /// Whether this process was forked off since the client was opened: its socket and its locks are the parent's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.era != era()
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Driver) -> T) -> T {
        look(&mut self.core().driver)
    }

    /// How long an operation may take.
    pub(crate) fn timeout_of(&self, options: OperationOptions) -> Duration {
        options.timeout.unwrap_or(self.timeout)
    }

    /// Takes an operation to be begun. Threads ask for room before, and as many as there are may come above the bound.
    pub(crate) fn enqueue(
        &self,
        operation: Operation,
        options: OperationOptions,
        done: Done,
    ) -> OperationId {
        let deadline = after(boot_time(), self.timeout_of(options));
        let mut queue = self.queue();
        let id = queue.next_id();
        if queue.is_closed() {
            drop(queue);
            done.end(Err(CallError::Closed));
            return id;
        }
        queue.push(HandedOver {
            id,
            operation,
            attempts: options.attempts,
            deadline,
            done,
        });
        id
    }

    /// Whether the queue has room.
    pub(crate) fn has_room(&self) -> bool {
        self.queue().has_room()
    }

    /// Has the poller send what waits, soon.
    pub(crate) fn linger(&self) {
        let at = boot_time().0 + LINGER.as_nanos() as u64;
        if at < self.due.fetch_min(at, Ordering::SeqCst) {
            self.poller.expect(at);
        }
    }

    /// Sends what waits at once. With `is_watched` nobody will wait for the answers here: the poller watches for them.
    pub(crate) fn flush(&self, is_watched: bool) {
        let mut core = self.core();
        core.catch_up();
        if !core.is_driven && !core.driver.is_watched() {
            core.lent_at = boot_time();
            if is_watched {
                core.driver.watch();
            }
        }
        self.turn(&mut core);
        self.plan(&core);
        self.tell(core);
    }

    /// Waits until the queue has room, at most for `slice`.
    pub(crate) fn await_room(&self, slice: Duration) {
        let until = Instant::now() + slice;
        if self.drive(until, true, &mut |driver| driver.has_room()) || self.has_room() {
            return;
        }
        let mut queue = self.queue();
        queue.waiters += 1;
        let left = self.patience(until);
        let (mut queue, _) = self
            .room
            .wait_timeout(queue, left)
            .unwrap_or_else(PoisonError::into_inner);
        queue.waiters -= 1;
    }

    /// Waits until every cell from `first` on is filled, at most for `slice` or until a signal comes; moves `first` to the first
    /// that is not, and says whether all are.
    pub(crate) fn wait(&self, cells: &[Arc<CallCell>], first: &mut usize, slice: Duration) -> bool {
        let mut is_over = |_: &SharedDriver| {
            while cells.get(*first).is_some_and(|cell| cell.is_filled()) {
                *first += 1;
            }
            *first == cells.len()
        };
        if is_over(self) {
            return true;
        }
        let until = Instant::now() + slice;
        if self.drive(until, cells.len() > 1, &mut is_over) {
            return is_over(self);
        }
        while !is_over(self) && Instant::now() < until {
            // The cells are filled in nearly the order in which they were begun.
            let next = cells.iter().find(|cell| !cell.is_filled());
            let patience = self.patience(until);
            if let Some(cell) = next {
                cell.wait(Instant::now() + patience);
            }
            if self.poller.is_own_thread() {
                break;
            }
        }
        is_over(self)
    }

    /// Waits until the connection is open or cannot be.
    pub(crate) fn await_open(&self, slice: Duration, is_over: &mut dyn FnMut() -> bool) {
        self.drive(Instant::now() + slice, true, &mut |_| is_over());
    }

    /// How long to wait for what another thread drives. The poller's own thread looks again soon: the other one may leave the
    /// socket to it.
    fn patience(&self, until: Instant) -> Duration {
        let left = until.saturating_duration_since(Instant::now());
        match self.poller.is_own_thread() {
            true => left.min(LINGER),
            false => left,
        }
    }

    /// Reads and writes until `is_over`, until the time or until a signal comes. False, and nothing but what waits is sent, where
    /// another thread drives. The eager drive also where the poller watches for other operations.
    fn drive(
        &self,
        until: Instant,
        is_eager: bool,
        is_over: &mut dyn FnMut(&SharedDriver) -> bool,
    ) -> bool {
        let mut core = self.core();
        core.catch_up();
        self.turn(&mut core);
        let has_others = core.driver.is_watched() && core.driver.in_flight() > 1;
        let is_own = is_eager || !has_others || self.poller.is_own_thread();
        if core.is_driven || !is_own || core.is_closed {
            self.plan(&core);
            self.tell(core);
            return false;
        }
        core.is_driven = true;
        core.driver.lend();
        while !is_over(self) && !core.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Others may begin meanwhile what is due earlier.
            let sleep = left.min(core.driver.sleep_max()).min(WAIT_SLICE);
            let socket = core.driver.socket();
            drop(core);
            let ready = until_ready(socket, sleep);
            core = self.core();
            if let Some((is_readable, is_writable)) = ready {
                core.driver.ready_to(is_readable, is_writable);
            }
            self.turn(&mut core);
            if ready.is_none() {
                break;
            }
        }
        core.is_driven = false;
        core.lent_at = boot_time();
        if core.driver.in_flight() > 0
            || core.opening.is_some()
            || self.queue().late_from().is_some()
        {
            core.driver.watch();
        }
        self.plan(&core);
        self.tell(core);
        true
    }

    /// Takes an operation back that no replica has executed or will; says whether it did. It ends as if the client were closed.
    pub(crate) fn withdraw(&self, id: OperationId) -> bool {
        self.take_back(id, |driver, ticket| driver.withdraw(ticket))
    }

    /// Nobody waits for an operation any more. It ends as if the client were closed; a call that waits in the group is cancelled
    /// there.
    pub(crate) fn give_up(&self, id: OperationId) {
        let is_begun = self.take_back(id, |driver, ticket| {
            driver.give_up(ticket);
            true
        });
        if is_begun {
            self.flush(true);
        }
    }

    /// Ends an operation that waits to be begun, or that the driver lets go. Says whether it did.
    fn take_back(
        &self,
        id: OperationId,
        lets_go: impl FnOnce(&mut Driver, Ticket) -> bool,
    ) -> bool {
        let mut core = self.core();
        let waiting = self.queue().take(id);
        if let Some(waiting) = waiting {
            waiting.done.end(Err(CallError::Closed));
            return true;
        }
        let begun = core.begun.iter().find(|(_, (begun, _))| *begun == id);
        let Some(ticket) = begun.map(|(ticket, _)| *ticket) else {
            return false;
        };
        if !lets_go(&mut core.driver, ticket) {
            return false;
        }
        if let Some((_, done)) = core.begun.remove(&ticket) {
            done.end(Err(CallError::Closed));
        }
        true
    }

    /// Ends everything unfinished: operations that were begun as unknown, the others as closed.
    pub(crate) fn close(&self) {
        self.poller.remove(self.token);
        let waiting = self.queue().close();
        let (begun, opening) = {
            let mut core = self.core();
            core.is_closed = true;
            self.changed.notify_all();
            core.driver.say_farewell();
            core.driver.hang_up();
            core.driver.release_session();
            (std::mem::take(&mut core.begun), core.opening.take())
        };
        for (_, done) in begun.into_values() {
            done.end(Err(CallError::OutcomeUnknown(CallCause::ClientClosed)));
        }
        for waiting in waiting {
            waiting.done.end(Err(CallError::Closed));
        }
        if let Some((_, _, opened)) = opening {
            opened(Err(ConnectError::System("the client was closed".into())));
        }
        (self.hooks.ended)();
    }

    /// When the poller has to look after it.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::SeqCst)
    }

    /// The poller saw an event of the socket.
    pub(crate) fn on_event(&self, event: &Event) {
        let mut core = self.core();
        if core.is_driven || core.is_closed {
            // Whoever drives waits for the socket itself.
            return;
        }
        core.driver.ready(event);
        self.turn(&mut core);
        self.plan(&core);
        self.tell(core);
    }

    /// Something is due.
    pub(crate) fn visit(&self, now: Time) {
        let mut core = self.core();
        core.catch_up();
        if !core.is_driven && core.lent_until().is_some_and(|until| until <= now) {
            core.driver.watch();
        }
        self.turn(&mut core);
        self.plan(&core);
        self.tell(core);
    }

    /// Begins what waits, performs what is due, and ends what was answered.
    fn turn(&self, core: &mut Core) {
        if core.is_closed {
            return;
        }
        loop {
            core.has_ended_some |= self.begin_waiting(core);
            core.driver.turn(&mut core.finished);
            for (ticket, value) in core.driver.take_tentative() {
                if let Some((_, done)) = core.begun.get_mut(&ticket) {
                    core.has_ended_some = true;
                    done.tell_early(value);
                }
            }
            if core.finished.is_empty() {
                break;
            }
            core.has_ended_some = true;
            for (ticket, result) in core.finished.drain(..) {
                if let Some((_, done)) = core.begun.remove(&ticket) {
                    done.end(result.map_err(CallError::from));
                }
            }
        }
        if core.opening.is_some() {
            core.open();
        }
        self.note_life(core);
    }

    /// Begins what there is room for, and ends what found none by its deadline; says whether any ended.
    fn begin_waiting(&self, core: &mut Core) -> bool {
        let now = boot_time();
        let mut queue = self.queue();
        let late = queue.take_late(now);
        while core.driver.has_room()
            && let Some(waiting) = queue.pop()
        {
            let (attempts, deadline) = (waiting.attempts, waiting.deadline);
            let begun = core
                .driver
                .begin_by(now, waiting.operation, attempts, deadline);
            let ticket = begun.expect("the driver has room");
            core.begun.insert(ticket, (waiting.id, waiting.done));
        }
        if queue.waiters > 0 {
            self.room.notify_all();
        }
        drop(queue);
        let has_ended_some = !late.is_empty();
        for done in late {
            done.end(Err(CallError::NotExecuted(CallCause::DeadlinePassed)));
        }
        has_ended_some
    }

    /// Says when the poller has to look again. Callers that drive keep the timers themselves.
    fn plan(&self, core: &Core) {
        self.due.store(u64::MAX, Ordering::SeqCst);
        if core.is_driven || core.is_closed {
            return;
        }
        let mut next = core.driver.next_wake().0;
        if let Some(until) = core.lent_until() {
            next = next.min(until.0);
        }
        let late_from = self.queue().late_from();
        if let Some(late_from) = late_from {
            next = next.min(late_from.0);
            if core.driver.has_room() {
                next = next.min(boot_time().0 + LINGER.as_nanos() as u64);
            }
        }
        if let Some((until, _, _)) = &core.opening {
            let left = until.saturating_duration_since(Instant::now());
            next = next.min(boot_time().0.saturating_add(left.as_nanos() as u64));
        }
        self.due.fetch_min(next, Ordering::SeqCst);
        self.poller.expect(next);
    }

    /// Lets go of the core, and tells the owner what happened.
    fn tell(&self, mut core: MutexGuard<'_, Core>) {
        let has_ended_some = std::mem::replace(&mut core.has_ended_some, false);
        let notes = core.driver.take_notes();
        drop(core);
        if has_ended_some {
            (self.hooks.ended)();
        }
        if !notes.is_empty() {
            (self.hooks.noted)(&notes);
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Unbegun> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Until when the callers keep the connection that was lent to them.
    fn lent_until(&self) -> Option<Time> {
        let longest = match self.begun.is_empty() {
            true => LENT_IDLE_MAX,
            false => LENT_MAX,
        };
        (!self.driver.is_watched()).then(|| Time(self.lent_at.0 + longest.as_nanos() as u64))
    }

    /// Reads what came while nobody looked at a connection that was lent, before anything is sent: a node that has stopped
    /// meanwhile must get nothing whose outcome would be unknown.
    fn catch_up(&mut self) {
        let lingers = Time(self.lent_at.0 + LINGER.as_nanos() as u64);
        if self.is_driven || self.is_closed || self.driver.is_watched() || boot_time() < lingers {
            return;
        }
        if let Some((is_readable, _)) = until_ready(self.driver.socket(), Duration::ZERO) {
            self.driver.ready_to(is_readable, false);
        }
    }

    /// Tells who opened the client what came of it, once that is known.
    fn open(&mut self) {
        let Some((until, timeout, opened)) = self.opening.take() else {
            return;
        };
        let rejected = self.driver.rejection();
        if self.driver.is_usable() {
            opened(Ok(()));
        } else if let Some(rejected) = rejected {
            opened(Err(rejected));
        } else if Instant::now() >= until {
            opened(Err(self.driver.gave_up(timeout)));
        } else {
            self.opening = Some((until, timeout, opened));
        }
    }
}

/// Waits for the socket: whether it can be read, and written; `None` when a signal came.
fn until_ready(socket: Option<(Arc<OwnedFd>, bool)>, longest: Duration) -> Option<(bool, bool)> {
    let timeout = Timespec {
        tv_sec: longest.as_secs().cast_signed(),
        tv_nsec: longest.subsec_nanos().into(),
    };
    let mut fds = Vec::new();
    if let Some((socket, awaits_room)) = &socket {
        let wanted = match awaits_room {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        fds.push(PollFd::new(socket, wanted));
    }
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) => {
            let seen = fds
                .first()
                .map_or(PollFlags::empty(), |polled| polled.revents());
            let is_writable = seen.contains(PollFlags::OUT);
            Some((
                seen.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
                is_writable,
            ))
        }
        Err(_) => None,
    }
}
