//! Group commit: writes all waiting requests of a log in one commit, and waits while the disk is full.
//!
//! Plain logic without a thread or a clock: `LogWriter` runs it on a thread, the simulator steps it in virtual time. On a full
//! disk it holds the first request that does not fit and all later ones, lets discards pass because they make room, and
//! continues when space returns. It removes no file; it returns the segments that nothing needs any more.

use std::collections::VecDeque;
use std::fmt;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::FULL_RETRY_MS;
use crate::log::Log;
use crate::recovered::Room;
use crate::requests::{LogInbox, LogRequest};
use crate::spare::{Prepared, SpareJob};

/// A log with what it has taken from its inbox. See the module.
pub struct GroupCommit<D: Disk> {
    log: Log<D>,
    /// Taken and not done: what a full disk holds up. Bounded by the inbox, of which only discards are taken meanwhile.
    held: VecDeque<LogRequest>,
    /// In the log's buffer, or durable since the last step. Invariant: empty after a step that found room.
    buffered: Vec<LogRequest>,
    room: Room,
}

impl<D: Disk> fmt::Debug for GroupCommit<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit")
            .field("held", &self.held)
            .field("buffered", &self.buffered)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

/// What one step has done.
#[derive(Debug)]
pub struct Progress<D: Disk> {
    /// Requests that are durable now, in the order in which they were done.
    pub finished: Vec<LogRequest>,
    /// Segments whose files may be removed, at any time.
    pub gone: Vec<u32>,
    /// What is to be done for the next segment, on another thread; `GroupCommit::prepared` takes the result.
    pub job: Option<SpareJob<D>>,
    /// How much the log can take from here on; after an error, the log has ended.
    pub outcome: Result<Room, StorageError>,
}

impl<D: Disk> Progress<D> {
    /// The highest mark among what is durable now.
    pub fn mark(&self) -> Option<u64> {
        let marks = self.finished.iter().filter_map(|request| match request {
            LogRequest::Append { mark, .. } => Some(*mark),
            LogRequest::Discard { .. } | LogRequest::Repaired(_) => None,
        });
        marks.max()
    }
}

impl<D: Disk> GroupCommit<D> {
    /// Drives `log`.
    pub fn new(mut log: Log<D>) -> GroupCommit<D> {
        log.prepare_by_jobs();
        GroupCommit {
            log,
            held: VecDeque::new(),
            buffered: Vec::new(),
            room: Room::Plenty,
        }
    }

    /// The log.
    pub fn log(&self) -> &Log<D> {
        &self.log
    }

    /// Whether a step would find something to do that is not merely another try.
    pub fn is_due(&self, inbox: &LogInbox) -> bool {
        let has_requests = if self.is_stuck() {
            inbox.has_discard()
        } else {
            !inbox.is_empty()
        };
        has_requests || (self.retry_ms().is_some() && inbox.has_freed())
    }

    /// After how many milliseconds a step is to be tried although nothing is due: a disk does not say when it has room again.
    pub fn retry_ms(&self) -> Option<u64> {
        let is_short = self.is_stuck() || self.room != Room::Plenty;
        is_short.then_some(FULL_RETRY_MS)
    }

    /// Whether requests are held because they find no room.
    pub fn is_stuck(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether they are held only until the next segment is prepared, which is under way.
    pub(crate) fn awaits_segment(&self) -> bool {
        self.is_stuck() && self.log.awaits_segment()
    }

    /// What the next step is to do.
    pub fn held(&self) -> impl Iterator<Item = &LogRequest> {
        self.held.iter()
    }

    /// Takes from the inbox what the next step is to do.
    pub fn gather(&mut self, inbox: &mut LogInbox) {
        inbox.forget_freed();
        if !self.is_stuck() {
            self.held = inbox.take();
            return;
        }
        // Discards pass what is held: they restate, and what they make room for comes after them.
        let (mut first, rest): (VecDeque<_>, VecDeque<_>) =
            self.held.drain(..).partition(LogRequest::is_discard);
        first.extend(inbox.take_discards());
        first.extend(rest);
        self.held = first;
    }

    /// Does what it can, in order, with one commit for all appends. What finds no room stays held.
    pub fn step(&mut self) -> Progress<D> {
        let mut gone = Vec::new();
        let outcome = self.take_held(&mut gone);
        let committed = self.log.commit();
        // A commit that found no room keeps its records buffered, and their marks wait with them.
        let finished = match &committed {
            Ok(()) => std::mem::take(&mut self.buffered),
            Err(_) => Vec::new(),
        };
        let outcome = self.look_for_room(committed, outcome);
        let job = self.log.spare_job();
        if matches!(outcome, Ok(Room::Scarce | Room::Low | Room::Full)) {
            gone.extend(self.log.release_recyclable());
        }
        if let Ok(room) = outcome {
            self.room = room;
        }
        Progress {
            finished,
            gone,
            job,
            outcome,
        }
    }

    /// Takes what came of a job. Tell the inbox as well (`LogInbox::freed`): what waits for the next segment is tried again.
    pub fn prepared(&mut self, done: Prepared<D::File>) -> Result<(), StorageError> {
        self.log.prepared(done)
    }

    /// Notes how far the log has come, see `Log::seal`. On a full disk an older note stays, which only says less.
    pub fn seal(&mut self) -> Result<(), StorageError> {
        match self.log.seal() {
            Ok(()) | Err(StorageError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take_held(&mut self, gone: &mut Vec<u32>) -> Result<(), StorageError> {
        while let Some(request) = self.held.front() {
            match request {
                LogRequest::Append { records, .. } => self.log.append_all(records)?,
                LogRequest::Discard { group, upto, base } => {
                    gone.extend(self.log.replace(*group, *upto, base)?);
                }
                LogRequest::Repaired(position) => self.log.repaired(*position)?,
            }
            self.buffered.extend(self.held.pop_front());
        }
        Ok(())
    }

    /// What finds no place only because the next segment is not prepared yet is held, and the disk is not full.
    fn look_for_room(
        &mut self,
        committed: Result<(), StorageError>,
        taken: Result<(), StorageError>,
    ) -> Result<Room, StorageError> {
        match (committed, taken) {
            (Ok(()), Ok(())) => self.log.make_room(),
            (Ok(()), Err(StorageError::Full { .. })) if self.log.awaits_segment() => {
                self.log.make_room()
            }
            (Ok(()) | Err(StorageError::Full { .. }), Err(StorageError::Full { .. }))
            | (Err(StorageError::Full { .. }), Ok(())) => self.log.make_room().map(|_| Room::Full),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}
