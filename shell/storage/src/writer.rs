//! The thread that owns a log: it takes all waiting requests, commits once, and reports how far the log is durable.
//!
//! The caller chooses marks, which rise; `durable_mark` is the highest mark up to which all requests are durable. `GroupCommit`
//! performs the requests; this file has the lock, the waiting and the wake-ups. Other threads prepare the next segment and
//! remove those that a discard leaves. After a failed sync or removal it does nothing more. Called by the node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_types::{GroupId, Slot};

use crate::disk::Disk;
use crate::error::StorageError;
use crate::group_commit::GroupCommit;
use crate::log::Log;
use crate::preparer::Preparer;
use crate::recovered::{Append, Room};
use crate::remover::Remover;
use crate::requests::{LogInbox, LogRequest};

/// Why a request was not queued; it is given back to be offered again.
#[derive(Debug)]
pub enum Refused {
    /// The queue is full: offer it again after the next `notify`.
    Busy(LogRequest),
    /// The thread has ended, or a sync has failed.
    Ended(LogRequest, StorageError),
}

/// One commit, for who watches the disk.
#[derive(Clone, Copy, Debug)]
pub struct CommitTook {
    /// From the first byte written to the end of the sync.
    pub span: Duration,
    /// Requests that it made durable.
    pub requests: usize,
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
    /// See `Log::disk_bytes`.
    disk_bytes: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    inbox: LogInbox,
    /// No more requests will come.
    closing: bool,
    room: Room,
    failure: Option<StorageError>,
}

impl LogWriter {
    /// Gives `log` to a thread of its own. `notify` is called on that thread whenever `durable_mark`, `room` or `failure` may
    /// have changed, and when the queue has room again; it must not block.
    pub fn spawn<D>(log: Log<D>, notify: impl Fn() + Send + 'static) -> LogWriter
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        LogWriter::spawn_watched(log, notify, |_| ())
    }

    /// `spawn`; `watch` is called on the log's thread after each commit. It must not block.
    pub fn spawn_watched<D>(
        log: Log<D>,
        notify: impl Fn() + Send + 'static,
        watch: impl Fn(CommitTook) + Send + 'static,
    ) -> LogWriter
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let queue = Queue {
            inbox: LogInbox::default(),
            closing: false,
            room: Room::Plenty,
            failure: None,
        };
        let shared = Arc::new(Shared {
            durable: AtomicU64::new(0),
            commit: AtomicU64::new(log.newest_commit()),
            disk_bytes: AtomicU64::new(log.disk_bytes()),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        });
        let told = shared.clone();
        let remover = Remover::spawn(log.disk().clone(), move |removed| told.removed(removed));
        let told = shared.clone();
        let preparer = Preparer::spawn(move || told.removed(Ok(())));
        let worker = Worker {
            commits: GroupCommit::new(log),
            remover,
            preparer,
            shared: shared.clone(),
            notify,
            watch,
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
    pub fn append(&self, mark: u64, records: Vec<Append>) -> Result<(), Refused> {
        self.offer(LogRequest::Append { mark, records })
    }

    /// Queues `Log::discard`.
    pub fn discard(&self, group: GroupId, upto: Slot, base: Bytes) -> Result<(), Refused> {
        self.offer(LogRequest::Discard { group, upto, base })
    }

    /// Queues `request`.
    pub fn offer(&self, request: LogRequest) -> Result<(), Refused> {
        let mut queue = self.shared.lock();
        if let Some(failure) = &queue.failure {
            return Err(Refused::Ended(request, failure.clone()));
        }
        queue.inbox.offer(request).map_err(Refused::Busy)?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// The highest mark that is durable, 0 at first.
    pub fn durable_mark(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// The newest durable commit, see `Log::newest_commit`.
    pub fn newest_commit(&self) -> u64 {
        self.shared.commit.load(Ordering::Acquire)
    }

    /// Bytes of the log's files.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Acquire)
    }

    /// Requests that wait for the log's thread.
    pub fn waiting(&self) -> usize {
        self.shared.lock().inbox.len()
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("no one panics while holding the queue")
    }

    /// Wakes the log thread: there may be room, or it has to end. Called by the threads that remove and prepare.
    fn removed(&self, outcome: Result<(), StorageError>) {
        let mut queue = self.lock();
        match outcome {
            Ok(()) => queue.inbox.freed(),
            Err(error) => {
                queue.failure.get_or_insert(error);
            }
        }
        self.changed.notify_one();
    }
}

/// The thread's end.
struct Worker<D: Disk, N, W> {
    commits: GroupCommit<D>,
    remover: Remover,
    preparer: Preparer<D>,
    shared: Arc<Shared>,
    notify: N,
    watch: W,
}

impl<D: Disk, N: Fn(), W: Fn(CommitTook)> Worker<D, N, W> {
    fn run(mut self) {
        loop {
            let closing = self.wait();
            let failure = self.shared.lock().failure.clone();
            let outcome = failure.map_or_else(|| self.work(), Err);
            let ended = match outcome {
                Ok(()) => {
                    let idle = if self.commits.is_stuck() {
                        !self.commits.awaits_segment()
                    } else {
                        self.shared.lock().inbox.is_empty()
                    };
                    if closing && idle {
                        self.seal();
                    }
                    closing && idle
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

    fn seal(&mut self) {
        if let Err(error) = self.commits.seal() {
            self.shared.lock().failure.get_or_insert(error);
        }
    }

    /// Waits for requests, and takes them; while the disk is full, waits for the next try. True if the end is asked for.
    fn wait(&mut self) -> bool {
        let commits = &self.commits;
        let idle = |queue: &mut Queue| {
            let ends = queue.closing && !commits.awaits_segment();
            !ends && queue.failure.is_none() && !commits.is_due(&queue.inbox)
        };
        let queue = self.shared.lock();
        let changed = &self.shared.changed;
        let mut queue = match commits.retry_ms() {
            Some(ms) => {
                let waited = changed.wait_timeout_while(queue, Duration::from_millis(ms), idle);
                waited.expect("not poisoned").0
            }
            None => changed.wait_while(queue, idle).expect("not poisoned"),
        };
        self.commits.gather(&mut queue.inbox);
        queue.closing
    }

    fn work(&mut self) -> Result<(), StorageError> {
        if let Some(done) = self.preparer.finished() {
            self.commits.prepared(done)?;
        }
        let begun = Instant::now();
        let progress = self.commits.step();
        let log = self.commits.log();
        let commit = log.newest_commit();
        let before = self.shared.commit.swap(commit, Ordering::AcqRel);
        self.shared
            .disk_bytes
            .store(log.disk_bytes(), Ordering::Release);
        if commit > before {
            (self.watch)(CommitTook {
                span: begun.elapsed(),
                requests: progress.finished.len(),
            });
        }
        if let Some(mark) = progress.mark() {
            self.shared.durable.fetch_max(mark, Ordering::AcqRel);
        }
        self.remover.remove(progress.gone);
        if let Some(job) = progress.job {
            self.preparer.prepare(job);
        }
        self.shared.lock().room = progress.outcome?;
        Ok(())
    }
}
