//! Removes segment files that nothing needs any more, one after the other, on a separate thread.
//!
//! Removing a large file takes a file system many milliseconds, and a trim leaves dozens of files, so the thread that commits
//! must not wait for it. The newest durable list does not name these files, so the next start removes those that a crash or the
//! end of the process left. It decides nothing. Called by `LogWriter`; the simulator steps `Removals` without a thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::REMOVALS_MAX;
use crate::segment;

/// Segments that wait for their removal.
#[derive(Debug, Default)]
pub struct Removals {
    numbers: VecDeque<u32>,
    /// Files are removed, and the directory does not say so durably.
    is_unsynced: bool,
}

/// What a step of `Removals` has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalStep {
    /// A file is gone, which has freed space.
    Removed,
    /// All removals so far are durable.
    Synced,
}

impl Removals {
    /// Adds segments that the newest durable list does not name.
    pub fn extend(&mut self, gone: Vec<u32>) {
        self.numbers.extend(gone);
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.numbers.is_empty() && !self.is_unsynced
    }

    /// Removes one file; when none is left, makes the removals durable.
    pub fn step<D: Disk>(&mut self, disk: &D) -> Result<RemovalStep, StorageError> {
        let failed = |error: io::Error| StorageError::sync_failed(&disk.place(""), &error);
        match self.numbers.pop_front() {
            Some(number) => {
                self.is_unsynced = true;
                remove_segment(disk, number).map_err(failed)?;
                Ok(RemovalStep::Removed)
            }
            None => {
                disk.sync_dir().map_err(failed)?;
                self.is_unsynced = false;
                Ok(RemovalStep::Synced)
            }
        }
    }
}

/// The log thread's end. Dropping it ends the thread after the file at hand, and waits for that.
#[derive(Debug)]
pub(crate) struct Remover {
    numbers: Option<SyncSender<u32>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Remover {
    /// `report` is called on the thread after each removal, which has freed space, and with the failure that ends the thread.
    pub(crate) fn spawn<D: Disk + Send + 'static>(
        disk: D,
        report: impl Fn(Result<(), StorageError>) + Send + 'static,
    ) -> Remover {
        let (numbers, taken) = sync_channel(REMOVALS_MAX);
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = is_ending.clone();
        let work = move || {
            if let Err(error) = run(&disk, &taken, &ending, &|| report(Ok(()))) {
                report(Err(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name("log-removal".into())
            .spawn(work);
        Remover {
            numbers: Some(numbers),
            is_ending,
            thread: Some(thread.expect("a process can start a thread while it begins")),
        }
    }

    /// Hands over segments that the newest durable list does not name. Waits while too many are before them.
    pub(crate) fn remove(&self, gone: Vec<u32>) {
        let numbers = self.numbers.as_ref().expect("present until dropped");
        for number in gone {
            if numbers.send(number).is_err() {
                // The thread has ended and has reported why; the next opening removes the rest.
                return;
            }
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.numbers = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; what it left is removed at the next opening.
            let _ = thread.join();
        }
    }
}

fn run<D: Disk>(
    disk: &D,
    numbers: &Receiver<u32>,
    is_ending: &AtomicBool,
    removed: &impl Fn(),
) -> Result<(), StorageError> {
    let mut removals = Removals::default();
    while let Ok(first) = numbers.recv() {
        removals.extend(vec![first]);
        while !removals.is_done() {
            if is_ending.load(Ordering::Acquire) {
                return Ok(());
            }
            removals.extend(numbers.try_iter().take(REMOVALS_MAX).collect());
            if removals.step(disk)? == RemovalStep::Removed {
                removed();
            }
        }
    }
    Ok(())
}

/// Removes the file of a segment, if it is there. Survives a crash after `sync_dir`.
pub(crate) fn remove_segment<D: Disk>(disk: &D, number: u32) -> io::Result<()> {
    match disk.remove(&segment::name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
