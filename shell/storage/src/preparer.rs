//! Prepares the next segment on a separate thread, so that no commit waits for new files, new names or the identity.
//!
//! The log has at most one job under way. It decides nothing. Called by `LogWriter`; the simulator runs jobs without a thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::disk::Disk;
use crate::limits::PREPARATIONS_MAX;
use crate::spare::{Prepared, SpareJob};

/// The log thread's end. Dropping it ends the thread after the job at hand, and waits for that.
#[derive(Debug)]
pub(crate) struct Preparer<D: Disk> {
    jobs: Option<SyncSender<SpareJob<D>>>,
    results: Receiver<Prepared<D::File>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Disk> Preparer<D> {
    /// `report` is called on the thread after each job that lets the log go on. After one that found no room, the log's next
    /// try finds the result.
    pub(crate) fn spawn(report: impl Fn() + Send + 'static) -> Preparer<D>
    where
        D: Send + 'static,
        D::File: Send,
    {
        let (jobs, taken) = sync_channel::<SpareJob<D>>(PREPARATIONS_MAX);
        let (done, results) = sync_channel(PREPARATIONS_MAX);
        let work = move || {
            while let Ok(job) = taken.recv() {
                let prepared = job.run();
                let is_news = prepared.is_news();
                if done.send(prepared).is_err() {
                    return;
                }
                if is_news {
                    report();
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("log-segments".into())
            .spawn(work);
        Preparer {
            jobs: Some(jobs),
            results,
            thread: Some(thread.expect("a process can start a thread while it begins")),
        }
    }

    /// Hands a job over.
    pub(crate) fn prepare(&self, job: SpareJob<D>) {
        let jobs = self.jobs.as_ref().expect("present until dropped");
        jobs.try_send(job)
            .expect("a log has one job under way, and its thread lives as long");
    }

    /// A finished job.
    pub(crate) fn finished(&self) -> Option<Prepared<D::File>> {
        self.results.try_recv().ok()
    }
}

impl<D: Disk> Drop for Preparer<D> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the next opening takes or replaces what it left.
            let _ = thread.join();
        }
    }
}
