//! Passes the ordering's records to the log, and durable marks back.
//!
//! The records of a turn go to the log's thread together, at the end of the turn; the thread commits
//! everything that waits with one sync. Requests that the thread's queue does not accept wait here, in
//! order. The core's window and credits bound them, because nothing new is voted for before marks come back.

use crate::NodeError;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use mio::Waker;
use quorate_ordering::{Entry, LostRecord, Mark, Past, Record};
use quorate_replica::DiskRoom;
use quorate_storage::{
    Append, CommitTook, Disk, Log, LogRequest, LogWriter, Lost, Position, RecoveredRecord, Refused,
    Room,
};
use quorate_types::{GroupId, NodeId, Slot};
use quorate_wire::{WireError, put_record, take_record};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The log's end at the loop.
pub(crate) struct Journal {
    writer: LogWriter,
    /// Where the log is, for messages.
    dir: PathBuf,
    group: GroupId,
    queue: VecDeque<LogRequest>,
    /// Where the log is damaged, until that is repaired.
    damaged: Vec<Position>,
    scratch: BytesMut,
    told: u64,
    room: Room,
    /// What changed about the room and was not told yet.
    room_news: Option<DiskRoom>,
    /// Set by the log's thread: something about it may have changed.
    is_news: Arc<AtomicBool>,
}

/// What an earlier life left in the log.
#[derive(Default)]
pub(crate) struct LogContent {
    /// The records in their order, and what is missing.
    pub(crate) past: Past,
    /// Where records are missing.
    pub(crate) damaged: Vec<Position>,
}

impl LogContent {
    /// The newest start of `node` that made a ballot that these records know of.
    pub(crate) fn newest_boot(&self, node: NodeId) -> Option<u64> {
        let ballots = self
            .past
            .records
            .iter()
            .filter_map(|record| match &record.entry {
                Entry::Promise { ballot } | Entry::Vote { ballot, .. } => Some(ballot),
                Entry::Chosen { .. }
                | Entry::Decided { .. }
                | Entry::Trimmed { .. }
                | Entry::Agreed { .. } => None,
            });
        let own = ballots.filter(|ballot| ballot.node == node);
        own.map(|ballot| ballot.boot).max()
    }
}

impl Journal {
    /// Gives the log to its thread, which wakes the loop.
    pub(crate) fn start<D>(
        log: Log<D>,
        dir: &Path,
        group: GroupId,
        damaged: Vec<Position>,
        waker: Arc<Waker>,
        watch: impl Fn(CommitTook) + Send + 'static,
    ) -> Journal
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let is_news = Arc::new(AtomicBool::new(false));
        let noted = is_news.clone();
        let notify = move || {
            noted.store(true, Ordering::Release);
            // A loop that cannot be woken has ended.
            let _ = waker.wake();
        };
        let writer = LogWriter::spawn_watched(log, notify, watch);
        Journal {
            writer,
            dir: dir.to_path_buf(),
            group,
            queue: VecDeque::new(),
            damaged,
            scratch: BytesMut::new(),
            told: 0,
            room: Room::Plenty,
            room_news: None,
            is_news,
        }
    }

    /// Queues one record for the end of the turn.
    pub(crate) fn append(&mut self, mark: Mark, record: &Record) {
        put_record(&mut self.scratch, record);
        let append = Append {
            group: self.group,
            slot: record.slot().unwrap_or(Slot::ZERO),
            record: self.scratch.split().freeze(),
        };
        if let Some(LogRequest::Append {
            mark: last,
            records,
        }) = self.queue.back_mut()
        {
            *last = mark.0;
            records.push(append);
        } else {
            self.queue.push_back(LogRequest::Append {
                mark: mark.0,
                records: vec![append],
            });
        }
    }

    /// Notes, behind everything appended before, that what was lost at these places need not be told of any more.
    pub(crate) fn repaired(&mut self) {
        let noted = self.damaged.drain(..).map(LogRequest::Repaired);
        self.queue.extend(noted);
    }

    /// Queues a discard behind everything appended before.
    pub(crate) fn discard(&mut self, upto: Slot, base: &[Record]) {
        self.queue.push_back(LogRequest::Discard {
            group: self.group,
            upto,
            base: put_base(base),
        });
    }

    /// Hands over what waits, as far as the thread's queue takes it.
    pub(crate) fn flush(&mut self) -> Result<(), NodeError> {
        while let Some(request) = self.queue.pop_front() {
            match self.writer.offer(request) {
                Ok(()) => {}
                Err(Refused::Busy(request)) => {
                    self.queue.push_front(request);
                    return Ok(());
                }
                Err(Refused::Ended(_, error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The highest durable mark if it rose since it was asked for last.
    pub(crate) fn durable(&mut self) -> Result<Option<Mark>, NodeError> {
        if self.is_news.swap(false, Ordering::AcqRel) {
            if let Some(failure) = self.writer.failure() {
                return Err(failure.into());
            }
            self.note_room();
            self.flush()?;
        }
        let mark = self.writer.durable_mark();
        let is_new = mark > self.told;
        self.told = mark;
        Ok(is_new.then_some(Mark(mark)))
    }

    /// Requests that wait for the disk.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.writer.waiting()
    }

    /// Bytes of the log's files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.writer.disk_bytes()
    }

    /// How short the disk is of room: 0 plenty, 1 scarce, 2 only the reserve, 3 full.
    pub(crate) fn shortage(&self) -> u64 {
        match self.room {
            Room::Plenty => 0,
            Room::Scarce => 1,
            Room::Low => 2,
            Room::Full => 3,
        }
    }

    /// The newest durable commit of the log.
    pub(crate) fn newest_commit(&self) -> u64 {
        self.writer.newest_commit()
    }

    /// How much room the disk has, if that changed since it was asked for last.
    pub(crate) fn room(&mut self) -> Option<DiskRoom> {
        self.room_news.take()
    }

    /// What the disk can still take, said when it changes: a full disk holds votes back, so that calls
    /// are refused, and goes on by itself when space returns.
    fn note_room(&mut self) {
        let room = self.writer.room();
        if room != self.room {
            self.room = room;
            let dir = self.dir.display();
            let news = match room {
                Room::Plenty => {
                    tracing::info!(%dir, "the disk has room again");
                    DiskRoom::Plenty
                }
                Room::Scarce => {
                    tracing::warn!(%dir, "the disk has little room: taking snapshots more often, to trim the log");
                    DiskRoom::Scarce
                }
                Room::Low => {
                    tracing::warn!(%dir, "the disk is almost full: only the log's reserve is left");
                    DiskRoom::Full
                }
                Room::Full => {
                    tracing::warn!(%dir, "the disk is full: this node does not vote until there is room");
                    DiskRoom::Full
                }
            };
            self.room_news = Some(news);
        }
    }

    /// Writes what waits and ends the thread.
    pub(crate) fn close(mut self) -> Result<(), NodeError> {
        self.flush()?;
        Ok(self.writer.close()?)
    }
}

/// The records of `group` that a log gave back.
pub(crate) fn past(
    recovered: Vec<RecoveredRecord>,
    group: GroupId,
) -> Result<LogContent, NodeError> {
    let mut found = LogContent::default();
    let past = &mut found.past;
    let unreadable =
        |error: WireError| NodeError::Unreadable(format!("a log record cannot be read: {error}"));
    for entry in recovered {
        match entry {
            RecoveredRecord::Record {
                group: of, bytes, ..
            } if of == group => {
                past.read(take_record(&bytes).map_err(unreadable)?);
            }
            RecoveredRecord::Base {
                group: of, bytes, ..
            } if of == group => {
                let base = take_base(bytes).map_err(unreadable)?;
                base.into_iter().for_each(|record| past.read(record));
            }
            RecoveredRecord::Record { .. } | RecoveredRecord::Base { .. } => {}
            RecoveredRecord::Faulty { position, lost } => {
                tracing::warn!(
                    segment = position.segment,
                    offset = position.offset,
                    ?lost,
                    "the log is damaged here"
                );
                let is_ours = match lost {
                    Lost::Record { group: of, .. } | Lost::Base { group: of, .. } => of == group,
                    Lost::Unknown => true,
                };
                if is_ours {
                    past.lost(core_loss(lost));
                    found.damaged.push(position);
                }
            }
        }
    }
    Ok(found)
}

/// What a loss means to an acceptor. Only promises are records of no slot; what a base stood for may have been anything.
fn core_loss(lost: Lost) -> LostRecord {
    match lost {
        Lost::Record {
            slot: Slot::ZERO, ..
        } => LostRecord::Promise,
        Lost::Record { slot, .. } => LostRecord::Slot(slot),
        Lost::Base { .. } | Lost::Unknown => LostRecord::Anything,
    }
}

/// Each record behind its length in 32 bits.
pub(crate) fn put_base(records: &[Record]) -> Bytes {
    let mut base = BytesMut::new();
    let mut scratch = BytesMut::new();
    for record in records {
        scratch.clear();
        put_record(&mut scratch, record);
        base.put_u32_le(u32::try_from(scratch.len()).expect("a record is no file"));
        base.put_slice(&scratch);
    }
    base.freeze()
}

fn take_base(mut base: Bytes) -> Result<Vec<Record>, WireError> {
    let mut records = Vec::new();
    while !base.is_empty() {
        let short = |needed, left| WireError::Short {
            what: "base record",
            needed,
            left,
        };
        if base.len() < 4 {
            return Err(short(4, base.len()));
        }
        let length = base.get_u32_le() as usize;
        if base.len() < length {
            return Err(short(length, base.len()));
        }
        records.push(take_record(&base.split_to(length))?);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{Ballot, Batch, ClusterId, ViewId, ViewNumber};

    fn record(entry: Entry) -> Record {
        let view = ViewId::default();
        Record { view, entry }
    }

    #[test]
    fn a_base_gives_its_records_back_and_a_cut_one_is_refused() {
        let ballot = Ballot::ZERO.next(ViewNumber(1), NodeId(2), 1);
        let entries = [
            Entry::Promise { ballot },
            Entry::Decided { upto: Slot(9) },
            Entry::Vote {
                slot: Slot(10),
                ballot,
                kind: quorate_types::VoteKind::Classic,
                batch: Batch::noop(),
            },
        ];
        let records: Vec<Record> = entries.into_iter().map(record).collect();
        let base = put_base(&records);
        assert_eq!(take_base(base.clone()), Ok(records));
        assert!(take_base(base.slice(..base.len() - 1)).is_err());
    }

    /// Waits until the log's thread wakes the loop, and takes what it has to tell.
    fn news_of(journal: &mut Journal, poll: &mut mio::Poll) -> Option<DiskRoom> {
        let mut events = mio::Events::with_capacity(4);
        loop {
            journal.durable().expect("a full disk is no failure");
            if let Some(room) = journal.room() {
                return Some(room);
            }
            let patience = Some(std::time::Duration::from_secs(20));
            poll.poll(&mut events, patience).unwrap();
            if events.is_empty() {
                return None;
            }
        }
    }

    #[test]
    fn a_full_disk_and_its_return_are_told_once_each() {
        let disk = quorate_storage::SimDisk::new();
        let limits = quorate_storage::StorageLimits::default();
        let (log, _) = Log::open(disk.clone(), ClusterId(7), NodeId(1), limits).unwrap();
        let mut poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let mut journal =
            Journal::start(log, Path::new("log"), GroupId(0), Vec::new(), waker, |_| ());
        disk.set_capacity(Some(disk.used()));
        let payload = Bytes::from(vec![7; 4 << 20]);
        for slot in 1..=12 {
            let command = quorate_types::Command {
                id: quorate_types::CommandId::default(),
                acknowledged: 0,
                body: quorate_types::Body::Call {
                    object: quorate_types::ObjectId(0),
                    payload: payload.clone(),
                },
            };
            let record = record(Entry::Vote {
                slot: Slot(slot),
                ballot: Ballot::ZERO.next(ViewNumber(1), NodeId(2), 1),
                kind: quorate_types::VoteKind::Classic,
                batch: Batch::new(quorate_types::Stamp::default(), vec![command]),
            });
            journal.append(Mark(slot), &record);
            journal.flush().unwrap();
        }
        let mut news = news_of(&mut journal, &mut poll);
        if news == Some(DiskRoom::Scarce) {
            news = news_of(&mut journal, &mut poll);
        }
        assert_eq!(news, Some(DiskRoom::Full));
        assert_eq!(journal.room(), None, "told once");
        disk.set_capacity(None);
        assert_eq!(news_of(&mut journal, &mut poll), Some(DiskRoom::Plenty));
        journal.close().unwrap();
    }
}
