//! The write-ahead log of a node: records of all its groups, one after another, in segment files.
//!
//! Plain logic over a `Disk`, without threads: `GroupCommit` drives it, on a thread or in the simulator. It knows no
//! protocol: a record is bytes with a group and a slot, the highest slot that the record concerns (0 for a record of no slot).
//! It never guesses: damage is reported, never cut. Byte layout: docs/storage.md.

use std::collections::BTreeMap;
use std::io;

use quorate_types::zoo::{Plant, planted};
use quorate_types::{ClusterId, GroupId, NodeId, Slot};

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, is_full};
use crate::identity::IdentityFile;
use crate::limits::{RECYCLED_MAX, StorageLimits};
use crate::opening::{FirstSegment, publish, write_header};
use crate::pledge;
use crate::record::{PendingCommit, RecordKind};
use crate::recovered::{Append, Position, RecoveredRecord, Room};
use crate::remover::remove_segment;
use crate::replay::{Replay, replay};
use crate::sector::{Owner, round_up};
use crate::segment::{self, Contents, Header, SegmentOrigin};
use crate::spare::{self, Prepared, Spare, SpareJob, Upcoming};

/// Who prepares the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// The log itself, when it needs it.
    Inline,
    /// Who takes `Log::spare_job`, and brings the result.
    ByJobs,
}

/// The log. See the module.
#[derive(Debug)]
pub struct Log<D: Disk> {
    disk: D,
    /// Knows how far this log has come; a log that stands alone has none.
    identity: Option<IdentityFile<D>>,
    cluster: ClusterId,
    node: NodeId,
    limits: StorageLimits,
    owner: Owner,
    /// Segments that exist, the one being written included. Invariant: never empty, `current` is its last.
    segments: BTreeMap<u32, Contents>,
    current: u32,
    file: D::File,
    /// Where the next commit goes. Invariant: a multiple of the block size, and all behind is unwritten or abandoned.
    end: u64,
    next_commit: u64,
    /// The newest commit that is durable, 0 for none.
    durable_commit: u64,
    upcoming: Upcoming<D::File>,
    preparation: Preparation,
    /// The last try to prepare the next segment found no room.
    is_refused: bool,
    /// Trimmed segments whose files become the next ones. No durable list names them. At most `RECYCLED_MAX`.
    recyclable: Vec<u32>,
    pending: PendingCommit,
    buffer: Vec<u8>,
    bases: BTreeMap<u32, (u64, u32)>,
    failed: Option<StorageError>,
}

impl<D: Disk> Log<D> {
    /// Opens a log that stands alone, or makes it: nobody notices when its newest records are missing. All that was committed
    /// is given back, or reported as faulty.
    pub fn open(
        disk: D,
        cluster: ClusterId,
        node: NodeId,
        limits: StorageLimits,
    ) -> Result<(Log<D>, Vec<RecoveredRecord>), StorageError> {
        Log::open_with(disk, None, (cluster, node), limits)
    }

    /// Opens the log of the node `identity`, or makes it. What the identity knows to be missing is noted there as a loss.
    pub fn open_of(
        disk: D,
        identity: &IdentityFile<D>,
        limits: StorageLimits,
    ) -> Result<(Log<D>, Vec<RecoveredRecord>), StorageError> {
        let names = list(&disk)?;
        pledge::judge_files(identity, &names)?;
        let of = identity.get();
        let (log, recovered) =
            Log::open_with(disk, Some(identity.clone()), (of.cluster, of.node), limits)?;
        let is_damaged = recovered
            .iter()
            .any(|found| matches!(found, RecoveredRecord::Faulty { .. }));
        if !is_damaged {
            pledge::judge_commits(identity, log.newest_commit())?;
        }
        Ok((log, recovered))
    }

    fn open_with(
        disk: D,
        identity: Option<IdentityFile<D>>,
        (cluster, node): (ClusterId, NodeId),
        limits: StorageLimits,
    ) -> Result<(Log<D>, Vec<RecoveredRecord>), StorageError> {
        limits.check()?;
        let found = replay(&disk, cluster, node, &limits)?;
        for leftover in &found.leftovers {
            let name = segment::name(*leftover);
            disk.remove(&name).map_err(|error| {
                StorageError::io(format!("remove {}", disk.place(&name)), &error)
            })?;
        }
        let next = found.last.map_or(1, |(number, _, _)| number + 1);
        let spare = spare::reuse(
            &disk,
            Owner::new(cluster, node),
            &list(&disk)?,
            next,
            &limits,
        )?;
        let mut opening = FirstSegment {
            disk,
            identity,
            cluster,
            node,
            limits,
            spare,
            next_commit: found.next_commit,
        };
        let Replay {
            recovered,
            mut segments,
            bases,
            last,
            ..
        } = found;
        let (current, file, end) = opening.begin(last)?;
        segments.entry(current).or_default();
        let log = Log {
            owner: Owner::new(cluster, node),
            pending: PendingCommit::default(),
            buffer: Vec::new(),
            failed: None,
            disk: opening.disk,
            identity: opening.identity,
            cluster,
            node,
            limits,
            segments,
            current,
            file,
            end,
            next_commit: opening.next_commit,
            durable_commit: opening.next_commit - 1,
            upcoming: opening.spare.map_or(Upcoming::Missing, Upcoming::Made),
            preparation: Preparation::Inline,
            is_refused: false,
            recyclable: Vec::new(),
            bases,
        };
        Ok((log, recovered))
    }

    /// Buffers a record for the next commit. `Full` means that it was not taken; what was taken before will still fit.
    pub fn append(
        &mut self,
        group: GroupId,
        slot: Slot,
        record: &[u8],
    ) -> Result<(), StorageError> {
        self.take(
            RecordKind::Record,
            group.0,
            slot.0,
            record,
            self.limits.discard_reserve_bytes,
        )
    }

    /// Buffers all of `records` or refuses all of them. Of refused ones that exceed a segment a part may have been written;
    /// appending them again is harmless.
    pub fn append_all(&mut self, records: &[Append]) -> Result<(), StorageError> {
        for (taken, append) in records.iter().enumerate() {
            if let Err(error) = self.append(append.group, append.slot, &append.record) {
                for _ in 0..taken.min(self.pending.entries().len()) {
                    self.pending.pop();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes what is buffered and makes it durable, with one sync. `Full` leaves it buffered: call again later.
    pub fn commit(&mut self) -> Result<(), StorageError> {
        self.alive()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let bytes = self.pending.commit_bytes(0, 0, self.limits.block_bytes);
        if self.end + bytes > self.limits.segment_bytes {
            self.roll(bytes)?;
        }
        // The number is used up even if the write fails: two tries at one place must never look alike.
        let number = self.next_commit;
        self.next_commit += 1;
        self.pending.encode(
            self.owner,
            self.current,
            number,
            self.end,
            self.limits.block_bytes,
            &mut self.buffer,
        );
        debug_assert_eq!(self.buffer.len() as u64, bytes);
        let page_end = round_up(self.end + bytes, self.limits.page_bytes);
        self.buffer.resize((page_end - self.end) as usize, 0);
        let written = self.file.write_at(self.end, &self.buffer);
        self.settle(bytes, written)?;
        let synced = self.file.sync();
        self.must(synced)?;
        self.end += bytes;
        self.durable_commit = number;
        let contents = self.segments.entry(self.current).or_default();
        for entry in self.pending.entries() {
            segment::note(contents, &mut self.bases, self.current, entry);
        }
        self.pending.clear();
        Ok(())
    }

    /// Makes `base` durable, with everything buffered: it restates what the node must remember of `group` without its records
    /// up to `upto`, which never falls. Then removes segments of which nothing is needed. After `Full` the base is not buffered.
    pub fn discard(&mut self, group: GroupId, upto: Slot, base: &[u8]) -> Result<(), StorageError> {
        let gone = self.replace(group, upto, base)?;
        if !gone.is_empty() {
            let removed = gone
                .iter()
                .try_for_each(|number| remove_segment(&self.disk, *number))
                .and_then(|()| self.disk.sync_dir());
            self.must(removed)?;
        }
        self.make_room().map(|_| ())
    }

    /// `discard` but for the removal: gives the segments whose files may go at any time, since the list that is durable now
    /// names them no more. They are older than the segment being written, and their names never come back. Some are kept back to
    /// become the next segments.
    pub(crate) fn replace(
        &mut self,
        group: GroupId,
        upto: Slot,
        base: &[u8],
    ) -> Result<Vec<u32>, StorageError> {
        self.take(RecordKind::Base, group.0, upto.0, base, 0)?;
        self.commit_or_pop()?;
        let mut gone = segment::unneeded(&self.segments, self.current, &self.bases);
        if gone.is_empty() || planted(Plant::SegmentsKept) {
            return Ok(Vec::new());
        }
        // The list may itself begin a new segment, so this one is in it, with the end that it has in that case.
        self.segments.entry(self.current).or_default().end = self.end;
        let stay = self
            .segments
            .iter()
            .filter(|(number, _)| !gone.contains(number));
        let list = segment::live_list(stay);
        let listed = self.take(RecordKind::Live, 0, 0, &list, 0);
        match listed.and_then(|()| self.commit()) {
            // The base is durable; the next discard removes what this one could not.
            Err(StorageError::Full { .. }) => return Ok(Vec::new()),
            other => other?,
        }
        gone.retain(|number| {
            let contents = self.segments.remove(number);
            let is_kept = self.recyclable.len() < RECYCLED_MAX
                && contents.is_some_and(|contents| contents.origin == SegmentOrigin::This);
            if is_kept {
                self.recyclable.push(*number);
            }
            !is_kept
        });
        Ok(gone)
    }

    /// From here on the next segment is prepared by whoever takes `spare_job`.
    pub(crate) fn prepare_by_jobs(&mut self) {
        self.preparation = Preparation::ByJobs;
    }

    /// What is to be done for the next segment, if it is missing and nobody is at it.
    pub(crate) fn spare_job(&mut self) -> Option<SpareJob<D>> {
        let made = match std::mem::replace(&mut self.upcoming, Upcoming::Asked) {
            Upcoming::Missing => None,
            Upcoming::Made(spare) if !spare.is_announced => Some(spare),
            other @ (Upcoming::Asked | Upcoming::Made(_)) => {
                self.upcoming = other;
                return None;
            }
        };
        let recycled = if made.is_none() {
            self.recyclable.pop()
        } else {
            None
        };
        Some(SpareJob {
            disk: self.disk.clone(),
            identity: self.identity.clone(),
            limits: self.limits,
            number: self.current + 1,
            commit: self.durable_commit,
            recycled,
            made,
        })
    }

    /// Takes what a job has prepared.
    pub(crate) fn prepared(&mut self, done: Prepared<D::File>) -> Result<(), StorageError> {
        match done.0 {
            Ok(spare) => {
                self.upcoming = spare.map_or(Upcoming::Missing, Upcoming::Made);
                self.is_refused = !self.has_spare();
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Gives up the trimmed segments that were kept to become the next ones: their files may be removed.
    pub(crate) fn release_recyclable(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.recyclable)
    }

    /// Whether the next segment is missing only because it is not prepared yet.
    pub(crate) fn awaits_segment(&self) -> bool {
        !self.has_spare() && !self.is_refused
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// Notes durably that the caller has restored what was lost at `position`, so that it is reported no more.
    pub fn repaired(&mut self, position: Position) -> Result<(), StorageError> {
        self.take(
            RecordKind::Repaired,
            position.segment,
            position.offset,
            &[],
            0,
        )?;
        self.commit_or_pop()?;
        if let Some(contents) = self.segments.get_mut(&position.segment) {
            contents.unknown.remove(&position.offset);
        }
        Ok(())
    }

    /// Reserves the next segment if that is not done, and says how much room there is. The caller asks again from time to time
    /// while the answer is not `Plenty`: that is how a log notices that space has returned.
    pub fn make_room(&mut self) -> Result<Room, StorageError> {
        self.alive()?;
        match self.preparation {
            Preparation::Inline => self.ensure_spare()?,
            Preparation::ByJobs => {}
        }
        let least = self.limits.discard_reserve_bytes + self.limits.block_bytes;
        let left = self.limits.segment_bytes - self.end;
        let free = self.disk.free_bytes();
        let is_scarce = free.is_ok_and(|free| free < self.limits.scarce_bytes);
        Ok(if !self.is_refused && !is_scarce {
            Room::Plenty
        } else if !self.is_refused || left >= self.limits.reserve_bytes {
            Room::Scarce
        } else if left >= least {
            Room::Low
        } else {
            Room::Full
        })
    }

    /// The number of the newest durable commit, 0 for none. It never falls while the disk keeps what it synced, so it tells an
    /// old copy of the log from the log.
    pub fn newest_commit(&self) -> u64 {
        self.durable_commit
    }

    /// Notes in the identity how far the log has come. Called when nothing more will be written: what is missing at the next
    /// opening is then noticed to the last commit.
    pub fn seal(&mut self) -> Result<(), StorageError> {
        self.alive()?;
        let commit = self.durable_commit;
        match &self.identity {
            Some(identity) => identity.change(|identity| identity.log.commit = commit),
            None => Ok(()),
        }
    }

    /// Segment files that exist, the one being written included.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of all segment files of this size: what the log takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        let spare = match &self.upcoming {
            Upcoming::Made(_) | Upcoming::Asked => 1,
            Upcoming::Missing => 0,
        };
        let files = self.segments.len() + self.recyclable.len() + spare;
        files as u64 * self.limits.segment_bytes
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        assert_eq!(
            self.segments.last_key_value().map(|(number, _)| *number),
            Some(self.current),
            "the current segment is last"
        );
        assert_eq!(
            self.end % self.limits.block_bytes,
            0,
            "commits start at blocks"
        );
        assert!(
            self.end <= self.limits.segment_bytes,
            "the log ends inside its segment"
        );
        assert!(
            self.bases
                .values()
                .all(|(_, number)| self.segments.contains_key(number)),
            "a base keeps its segment"
        );
    }

    /// The file that is being written, for messages.
    fn place(&self) -> String {
        self.disk.place(&segment::name(self.current))
    }

    fn full(&self, wanted: u64) -> StorageError {
        StorageError::Full {
            place: self.place(),
            wanted,
        }
    }

    fn alive(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Any failure that leaves the state of the disk unknown ends this log.
    fn must<T>(&mut self, outcome: io::Result<T>) -> Result<T, StorageError> {
        outcome.map_err(|error| {
            let error = StorageError::sync_failed(&self.place(), &error);
            self.failed = Some(error.clone());
            error
        })
    }

    /// A write that found no room may be tried again; any other failure is fatal.
    fn settle(&mut self, wanted: u64, written: io::Result<()>) -> Result<(), StorageError> {
        match written {
            Err(error) if is_full(&error) => Err(self.full(wanted)),
            other => self.must(other),
        }
    }

    fn take(
        &mut self,
        kind: RecordKind,
        group: u32,
        slot: u64,
        bytes: &[u8],
        keep: u64,
    ) -> Result<(), StorageError> {
        self.alive()?;
        if bytes.len() > self.limits.record_bytes_max {
            return Err(StorageError::TooLarge {
                bytes: bytes.len() as u64,
                limit: self.limits.record_bytes_max as u64,
            });
        }
        let block = self.limits.block_bytes;
        let capacity = segment::capacity(&self.limits);
        let mut need = self.pending.commit_bytes(1, bytes.len(), block);
        if need + keep > capacity && !self.pending.is_empty() {
            self.commit()?;
            need = self.pending.commit_bytes(1, bytes.len(), block);
        }
        if self.end + need + keep > self.limits.segment_bytes {
            // Nobody is at it when records of one request need two segments: they would be written again and again.
            self.ensure_spare()?;
            if !self.has_spare() {
                return Err(self.full(need));
            }
        }
        self.pending.push(kind, group, slot, bytes);
        Ok(())
    }

    /// Commits, or takes the newest record back: a refused discard must not be done later without its caller's knowledge.
    fn commit_or_pop(&mut self) -> Result<(), StorageError> {
        let committed = self.commit();
        if matches!(committed, Err(StorageError::Full { .. })) {
            self.pending.pop();
        }
        committed
    }

    fn has_spare(&self) -> bool {
        matches!(&self.upcoming, Upcoming::Made(spare) if spare.is_announced)
    }

    /// Makes the next segment ahead and has the identity know of it, as far as there is room; unless somebody else is at it.
    fn ensure_spare(&mut self) -> Result<(), StorageError> {
        match self.spare_job() {
            Some(job) => self.prepared(job.run()),
            None => Ok(()),
        }
    }

    /// Goes on in the next segment. `wanted` bytes are for the error.
    fn roll(&mut self, wanted: u64) -> Result<(), StorageError> {
        self.ensure_spare()?;
        if !self.has_spare() {
            return Err(self.full(wanted));
        }
        let Upcoming::Made(Spare {
            mut file, number, ..
        }) = std::mem::replace(&mut self.upcoming, Upcoming::Missing)
        else {
            unreachable!("looked at above")
        };
        let header = self.header(self.current + 1, self.end);
        match write_header(&mut file, &header) {
            Err(error) if is_full(&error) => {
                self.upcoming = Upcoming::Made(Spare {
                    number,
                    file,
                    is_announced: true,
                });
                return Err(self.full(wanted));
            }
            other => self.must(other)?,
        }
        let published = publish(&self.disk, &mut file, header.segment);
        self.must(published)?;
        self.file = file;
        self.segments.entry(self.current).or_default().end = header.previous_end;
        self.current = header.segment;
        let contents = Contents {
            origin: SegmentOrigin::This,
            ..Contents::default()
        };
        self.segments.insert(self.current, contents);
        self.end = segment::data_start(self.limits.page_bytes);
        Ok(())
    }

    fn header(&self, segment: u32, previous_end: u64) -> Header {
        Header {
            cluster: self.cluster,
            node: self.node,
            segment,
            segment_bytes: self.limits.segment_bytes,
            block_bytes: self.limits.block_bytes,
            page_bytes: self.limits.page_bytes,
            first_commit: self.next_commit,
            previous_end,
        }
    }
}

fn list<D: Disk>(disk: &D) -> Result<Vec<String>, StorageError> {
    disk.list()
        .map_err(|error| StorageError::io(format!("list {}", disk.place("")), &error))
}
