//! The thread that owns a log: it takes all requests that wait, commits once, and says how far the log is durable.
//!
//! Marks are the caller's and grow; `durable_mark` is the highest whose request, like all before it, is durable. On a full disk
//! the thread holds the first request that does not fit and those behind it, lets discards pass (they make room), and
//! goes on when space returns. Segments that a discard leaves are removed by another thread. After a failed sync or removal it
//! does nothing more. It decides nothing else. Called by the node.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::{FULL_RETRY_MS, WRITER_BYTES_MAX, WRITER_REQUESTS_MAX};
use crate::log::Log;
use crate::recovered::{Append, Position, Room};
use crate::remover::Remover;

/// Why a request was not queued; it is given back to be offered again.
#[derive(Debug)]
pub enum Refused<T> {
    /// The queue is full: offer it again after the next `notify`.
    Busy(T),
    /// The thread has ended, or a sync has failed.
    Ended(T, StorageError),
}

/// The caller's end of the log thread. Dropping it lets the thread finish what is queued, and waits for that.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    durable: AtomicU64,
    /// The newest durable commit.
    commit: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: usize,
    /// No more requests will come.
    closing: bool,
    room: Room,
    /// A segment has been removed since the thread last looked for room.
    has_freed: bool,
    failure: Option<StorageError>,
}

#[derive(Debug)]
enum Request {
    Append { mark: u64, records: Vec<Append> },
    Discard { group: u32, upto: u64, base: Bytes },
    Repaired(Position),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Append { records, .. } => {
                records.iter().map(|append| append.record.len()).sum()
            }
            Request::Discard { base, .. } => base.len(),
            Request::Repaired(_) => 0,
        }
    }
}

impl LogWriter {
    /// Gives `log` to a thread of its own. `notify` is called on that thread whenever `durable_mark`, `room` or `failure` may
    /// have changed, and when the queue has room again; it must not block.
    pub fn spawn<D>(log: Log<D>, notify: impl Fn() + Send + 'static) -> LogWriter
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let queue = Queue {
            requests: VecDeque::new(),
            bytes: 0,
            closing: false,
            room: Room::Plenty,
            has_freed: false,
            failure: None,
        };
        let shared = Arc::new(Shared {
            durable: AtomicU64::new(0),
            commit: AtomicU64::new(log.newest_commit()),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        });
        let told = shared.clone();
        let remover = Remover::spawn(log.disk().clone(), move |removed| told.removed(removed));
        let worker = Worker {
            log,
            remover,
            shared: shared.clone(),
            notify,
            held: VecDeque::new(),
        };
        let thread = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || worker.run());
        LogWriter {
            shared,
            thread: Some(thread.expect("a process can start a thread while it begins")),
        }
    }

    /// Queues records; when they are durable, `durable_mark` reaches `mark`. Marks grow.
    pub fn append(&self, mark: u64, records: Vec<Append>) -> Result<(), Refused<Vec<Append>>> {
        self.offer(Request::Append { mark, records })
            .map_err(|refused| refused.map(Request::into_records))
    }

    /// Queues `Log::discard`.
    pub fn discard(&self, group: u32, upto: u64, base: Bytes) -> Result<(), Refused<()>> {
        self.offer(Request::Discard { group, upto, base })
            .map_err(|refused| refused.map(|_| ()))
    }

    /// Queues `Log::repaired`.
    pub fn repaired(&self, position: Position) -> Result<(), Refused<()>> {
        self.offer(Request::Repaired(position))
            .map_err(|refused| refused.map(|_| ()))
    }

    /// The highest mark that is durable, 0 at first.
    pub fn durable_mark(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// The newest durable commit, see `Log::newest_commit`.
    pub fn newest_commit(&self) -> u64 {
        self.shared.commit.load(Ordering::Acquire)
    }

    /// How much the log can take. While it is not `Plenty`, take no votes and no commands.
    pub fn room(&self) -> Room {
        self.shared.lock().room
    }

    /// Why the log has ended, if it has. The process must stop: nothing that waits will become durable.
    pub fn failure(&self) -> Option<StorageError> {
        self.shared.lock().failure.clone()
    }

    /// Writes what is queued and ends the thread. On a full disk, what does not fit is dropped; it was never acknowledged.
    pub fn close(mut self) -> Result<(), StorageError> {
        self.finish();
        self.failure().map_or(Ok(()), Err)
    }

    fn offer(&self, request: Request) -> Result<(), Refused<Request>> {
        let mut queue = self.shared.lock();
        if let Some(failure) = &queue.failure {
            return Err(Refused::Ended(request, failure.clone()));
        }
        let bytes = request.bytes();
        // One request of any size passes an empty queue, or it would never pass.
        let fits = queue.requests.is_empty() || queue.bytes + bytes <= WRITER_BYTES_MAX;
        if queue.requests.len() >= WRITER_REQUESTS_MAX || !fits {
            return Err(Refused::Busy(request));
        }
        queue.bytes += bytes;
        queue.requests.push_back(request);
        self.shared.changed.notify_one();
        Ok(())
    }

    fn finish(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the failure says that the thread is gone.
            if thread.join().is_err() {
                self.shared
                    .lock()
                    .failure
                    .get_or_insert(StorageError::Closed);
            }
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl<T> Refused<T> {
    fn map<U>(self, convert: impl FnOnce(T) -> U) -> Refused<U> {
        match self {
            Refused::Busy(request) => Refused::Busy(convert(request)),
            Refused::Ended(request, error) => Refused::Ended(convert(request), error),
        }
    }
}

impl Request {
    fn into_records(self) -> Vec<Append> {
        match self {
            Request::Append { records, .. } => records,
            Request::Discard { .. } | Request::Repaired(_) => Vec::new(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("no one panics while holding the queue")
    }

    /// Wakes the log thread: there may be room, or it has to end. Called by the thread that removes.
    fn removed(&self, outcome: Result<(), StorageError>) {
        let mut queue = self.lock();
        match outcome {
            Ok(()) => queue.has_freed = true,
            Err(error) => {
                queue.failure.get_or_insert(error);
            }
        }
        self.changed.notify_one();
    }
}

/// The thread's end.
struct Worker<D: Disk, N> {
    log: Log<D>,
    remover: Remover,
    shared: Arc<Shared>,
    notify: N,
    /// Taken from the queue and not done: what a full disk holds up. Bounded by the queue, which is not drained meanwhile
    /// except for discards.
    held: VecDeque<Request>,
}

impl<D: Disk, N: Fn()> Worker<D, N> {
    fn run(mut self) {
        loop {
            let closing = self.gather();
            let failure = self.shared.lock().failure.clone();
            let outcome = failure.map_or_else(|| self.work(), Err);
            let stuck = !self.held.is_empty();
            let ended = match outcome {
                Ok(()) => {
                    let ended = closing && (stuck || self.shared.lock().requests.is_empty());
                    if ended {
                        self.seal();
                    }
                    ended
                }
                Err(error) => {
                    self.shared.lock().failure.get_or_insert(error);
                    true
                }
            };
            (self.notify)();
            if ended {
                return;
            }
        }
    }

    /// Notes how far the log has come. On a full disk an older note stays, which only says less.
    fn seal(&mut self) {
        match self.log.seal() {
            Ok(()) | Err(StorageError::Full { .. }) => {}
            Err(error) => {
                self.shared.lock().failure.get_or_insert(error);
            }
        }
    }

    /// Waits for requests, and takes them; while the disk is full, waits for the next try. True if the end is asked for.
    fn gather(&mut self) -> bool {
        let mut queue = self.shared.lock();
        let stuck = !self.held.is_empty();
        let is_short = stuck || queue.room != Room::Plenty;
        let idle = |queue: &mut Queue| {
            let discards = queue
                .requests
                .iter()
                .any(|request| matches!(request, Request::Discard { .. }));
            !queue.closing
                && queue.failure.is_none()
                && !(is_short && queue.has_freed)
                && if stuck {
                    !discards
                } else {
                    queue.requests.is_empty()
                }
        };
        if is_short {
            let retry = Duration::from_millis(FULL_RETRY_MS);
            queue = self
                .shared
                .changed
                .wait_timeout_while(queue, retry, idle)
                .expect("not poisoned")
                .0;
        } else {
            queue = self
                .shared
                .changed
                .wait_while(queue, idle)
                .expect("not poisoned");
        }
        queue.has_freed = false;
        if stuck {
            // Discards pass what is held: they restate, and what they make room for comes after them.
            let is_discard = |request: &Request| matches!(request, Request::Discard { .. });
            let (mut first, held): (VecDeque<_>, VecDeque<_>) =
                self.held.drain(..).partition(is_discard);
            let (new, rest): (Vec<_>, Vec<_>) = queue.requests.drain(..).partition(is_discard);
            queue.bytes -= new.iter().map(Request::bytes).sum::<usize>();
            queue.requests = rest.into();
            first.extend(new);
            first.extend(held);
            self.held = first;
        } else {
            self.held.append(&mut queue.requests);
            queue.bytes = 0;
        }
        queue.closing
    }

    /// Does what it can, in order, with one commit for all appends. What finds no room stays held.
    fn work(&mut self) -> Result<(), StorageError> {
        let mut mark = None;
        let outcome = loop {
            let Some(request) = self.held.front() else {
                break Ok(());
            };
            let done = match request {
                Request::Append { records, .. } => self.log.append_all(records),
                Request::Discard { group, upto, base } => self
                    .log
                    .replace(*group, *upto, base)
                    .map(|gone| self.remover.remove(gone)),
                Request::Repaired(position) => self.log.repaired(*position),
            };
            match done {
                Ok(()) => {
                    if let Some(Request::Append { mark: done, .. }) = self.held.pop_front() {
                        mark = Some(done);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let committed = self.log.commit();
        let commit = self.log.newest_commit();
        self.shared.commit.store(commit, Ordering::Release);
        if let (Ok(()), Some(mark)) = (&committed, mark) {
            self.shared.durable.fetch_max(mark, Ordering::AcqRel);
        }
        let room = match committed.and(outcome) {
            Ok(()) => self.log.make_room()?,
            Err(StorageError::Full { .. }) => {
                self.log.make_room()?;
                Room::Full
            }
            Err(error) => return Err(error),
        };
        self.shared.lock().room = room;
        Ok(())
    }
}
