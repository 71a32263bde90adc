//! The log of one life as its thread drives it: what waits, what is being committed, what is removed.
//!
//! The thread's decisions are `GroupCommit`'s, of the storage; here is only the calling, which a node's journal and its log
//! thread do. The world says when a step ends.

use super::durable::GROUP;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_ordering::{Mark, Record};
use quorate_replica::DiskRoom;
use quorate_storage::{
    Append, GroupCommit, LogInbox, LogRequest, Position, Removals, Room, SimDisk, SpareJob,
    StorageError,
};
use quorate_types::Duration;
use quorate_types::Slot;
use quorate_types::zoo::{Plant, planted};
use quorate_wire::put_record;
use std::collections::VecDeque;

/// A log and what is on its way there.
#[derive(Debug)]
pub(super) struct LogThread {
    commits: GroupCommit<SimDisk>,
    disk: SimDisk,
    inbox: LogInbox,
    /// What the inbox does not take, in order.
    backlog: VecDeque<LogRequest>,
    removals: Removals,
    /// What is to be done for the next segment.
    job: Option<SpareJob<SimDisk>>,
    /// Where the log is damaged, until that is repaired.
    damaged: Vec<Position>,
    /// The records of each request that is not durable, for the checkers.
    appended: VecDeque<(Mark, Record)>,
    bases: VecDeque<Vec<Record>>,
    room: Room,
}

/// What is durable since the step before.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// The mark up to which all is durable, if it rose.
    pub mark: Option<Mark>,
    /// The records that are durable now.
    pub records: Vec<Record>,
    /// How much room there is, if that changed.
    pub room: Option<DiskRoom>,
    /// Files wait for their removal, or the next segment for its preparation.
    pub removes: bool,
}

impl LogThread {
    /// Drives a log that was opened on `disk` and found `damaged`.
    pub(super) fn new(
        commits: GroupCommit<SimDisk>,
        disk: SimDisk,
        damaged: Vec<Position>,
    ) -> LogThread {
        LogThread {
            commits,
            disk,
            inbox: LogInbox::default(),
            backlog: VecDeque::new(),
            removals: Removals::default(),
            job: None,
            damaged,
            appended: VecDeque::new(),
            bases: VecDeque::new(),
            room: Room::Plenty,
        }
    }

    /// The number of the newest durable commit.
    pub(super) fn newest_commit(&self) -> u64 {
        self.commits.log().newest_commit()
    }

    /// Queues one record.
    pub(super) fn append(&mut self, mark: Mark, record: Record) {
        let mut bytes = BytesMut::new();
        put_record(&mut bytes, &record);
        let append = Append {
            group: GROUP,
            slot: record.slot().unwrap_or(Slot::ZERO),
            record: bytes.freeze(),
        };
        self.appended.push_back((mark, record));
        if let Some(LogRequest::Append {
            mark: last,
            records,
        }) = self.backlog.back_mut()
        {
            *last = mark.0;
            records.push(append);
            return;
        }
        self.backlog.push_back(LogRequest::Append {
            mark: mark.0,
            records: vec![append],
        });
    }

    /// Queues a base, and the removal of what it replaces.
    pub(super) fn discard(&mut self, upto: Slot, base: Vec<Record>) {
        self.backlog.push_back(LogRequest::Discard {
            group: GROUP,
            upto,
            base: base_of(&base),
        });
        self.bases.push_back(base);
    }

    /// Whether something that was lost is not written again.
    pub(super) fn is_damaged(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// Queues the notes that what damage has taken is written again.
    pub(super) fn repaired(&mut self) {
        let notes = self.damaged.drain(..).map(LogRequest::Repaired);
        self.backlog.extend(notes);
    }

    /// Hands over what waits, and says whether the thread has something to do.
    pub(super) fn is_due(&mut self) -> bool {
        while let Some(request) = self.backlog.pop_front() {
            if let Err(request) = self.inbox.offer(request) {
                self.backlog.push_front(request);
                break;
            }
        }
        let is_blind = planted(Plant::SyncErrorIgnored) && !self.appended.is_empty();
        self.commits.is_due(&self.inbox) || is_blind
    }

    /// The thread wakes and takes what it is going to do. Says whether a base is among that.
    pub(super) fn begin(&mut self) -> bool {
        self.commits.gather(&mut self.inbox);
        self.commits
            .held()
            .any(|request| matches!(request, LogRequest::Discard { .. }))
    }

    /// When the thread tries again although nothing is due.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.commits.retry_ms().map(Duration::from_millis)
    }

    /// The thread has done what it took.
    ///
    /// # Errors
    /// What ended the log.
    pub(super) fn commit(&mut self) -> Result<Committed, StorageError> {
        let progress = self.commits.step();
        let mut done = Committed {
            mark: progress.mark().map(Mark),
            ..Committed::default()
        };
        for request in &progress.finished {
            match request {
                LogRequest::Append { mark, .. } => self.take_appended(Mark(*mark), &mut done),
                LogRequest::Discard { .. } => {
                    done.records
                        .extend(self.bases.pop_front().expect("queued before"));
                }
                LogRequest::Repaired(_) => {}
            }
        }
        self.removals.extend(progress.gone);
        self.job = progress.job.or(self.job.take());
        done.removes = !self.removals.is_done() || self.job.is_some();
        match progress.outcome {
            Err(error) if error.is_fatal() && planted(Plant::SyncErrorIgnored) => {
                let newest = self.appended.back().map(|(mark, _)| *mark);
                done.mark = newest.or(done.mark);
                self.take_appended(newest.unwrap_or_default(), &mut done);
                return Ok(done);
            }
            outcome => {
                let room = outcome?;
                let (before, now) = (disk_room(self.room), disk_room(room));
                done.room = (now != before).then_some(now);
                self.room = room;
            }
        }
        self.commits.log().check();
        Ok(done)
    }

    fn take_appended(&mut self, upto: Mark, done: &mut Committed) {
        while self.appended.front().is_some_and(|(mark, _)| *mark <= upto) {
            done.records
                .extend(self.appended.pop_front().map(|(_, record)| record));
        }
    }

    /// A thread that prepares or removes files has done one thing. Says whether more is to be done.
    ///
    /// # Errors
    /// What ends the log.
    pub(super) fn remove(&mut self) -> Result<bool, StorageError> {
        if let Some(job) = self.job.take() {
            let prepared = job.run();
            if prepared.is_news() {
                self.inbox.freed();
            }
            self.commits.prepared(prepared)?;
            return Ok(!self.removals.is_done());
        }
        self.removals.step(&self.disk)?;
        self.inbox.freed();
        Ok(!self.removals.is_done())
    }

    /// Bytes that the log takes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.commits.log().disk_bytes()
    }
}

/// What the replica is told of the log's room, as a node's journal tells it.
fn disk_room(room: Room) -> DiskRoom {
    match room {
        Room::Plenty => DiskRoom::Plenty,
        Room::Scarce => DiskRoom::Scarce,
        Room::Low | Room::Full => DiskRoom::Full,
    }
}

/// A base is its records, each behind its length.
fn base_of(records: &[Record]) -> Bytes {
    let mut base = BytesMut::new();
    for record in records {
        let mut bytes = BytesMut::new();
        put_record(&mut bytes, record);
        base.put_u32_le(bytes.len() as u32);
        base.extend_from_slice(&bytes);
    }
    base.freeze()
}
