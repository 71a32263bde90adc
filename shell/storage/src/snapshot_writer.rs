//! The thread that writes snapshots, so that a large one never delays a commit.
//!
//! It does one job at a time, in order; the node takes the outcomes after `notify`. It decides nothing. Called by the node.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use bytes::Bytes;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::SNAPSHOT_JOBS_MAX;
use crate::snapshot::SnapshotStore;

/// A snapshot to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotJob {
    /// Its group.
    pub group: u32,
    /// The last slot whose effects it holds.
    pub slot: u64,
    /// The digest of the state.
    pub digest: [u8; 32],
    /// The state.
    pub bytes: Bytes,
    /// The newest agreed one, which stays.
    pub agreed: u64,
}

/// What became of a job: its group and slot, durable or not.
pub type SnapshotOutcome = (u32, u64, Result<(), StorageError>);

/// The caller's end of the snapshot thread. Dropping it finishes the job that runs and drops those that wait.
#[derive(Debug)]
pub struct SnapshotWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// Invariant: `waiting`, `running` and `finished` together hold at most `SNAPSHOT_JOBS_MAX` jobs.
#[derive(Debug, Default)]
struct Desk {
    waiting: VecDeque<SnapshotJob>,
    running: usize,
    finished: Vec<SnapshotOutcome>,
    closing: bool,
}

impl SnapshotWriter {
    /// Gives `store` to a thread of its own; `notify` is called there after each job and must not block.
    pub fn spawn<D: Disk + Send + 'static>(
        store: SnapshotStore<D>,
        notify: impl Fn() + Send + 'static,
    ) -> SnapshotWriter {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let work = move || {
            while let Some(job) = theirs.next() {
                let outcome = store.save(job.group, job.slot, job.digest, &job.bytes, job.agreed);
                let mut desk = theirs.lock();
                desk.running = 0;
                desk.finished.push((job.group, job.slot, outcome));
                drop(desk);
                notify();
            }
        };
        let thread = std::thread::Builder::new()
            .name("snapshot".into())
            .spawn(work);
        SnapshotWriter {
            shared,
            thread: Some(thread.expect("a process can start a thread while it begins")),
        }
    }

    /// Queues a snapshot. It is given back if too many wait, or wait to be picked up: a newer one comes soon.
    pub fn save(&self, job: SnapshotJob) -> Result<(), SnapshotJob> {
        let mut desk = self.shared.lock();
        if desk.waiting.len() + desk.running + desk.finished.len() >= SNAPSHOT_JOBS_MAX {
            return Err(job);
        }
        desk.waiting.push_back(job);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Outcomes since the last call, oldest first.
    pub fn take_finished(&self) -> Vec<SnapshotOutcome> {
        std::mem::take(&mut self.shared.lock().finished)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed, and a snapshot that is not reported does not count.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk
            .lock()
            .expect("no one panics while holding the desk")
    }

    fn next(&self) -> Option<SnapshotJob> {
        let idle = |desk: &mut Desk| desk.waiting.is_empty() && !desk.closing;
        let mut desk = self
            .changed
            .wait_while(self.lock(), idle)
            .expect("not poisoned");
        if desk.closing {
            return None;
        }
        desk.running = 1;
        desk.waiting.pop_front()
    }
}
