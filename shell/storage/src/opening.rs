//! Begins segments: the first one of an opening, and the steps that make a spare a segment.
//!
//! Called by `Log`.

use std::io;

use quorate_types::{ClusterId, NodeId};

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, is_full};
use crate::identity::IdentityFile;
use crate::limits::StorageLimits;
use crate::segment::{self, Header};
use crate::spare::{self, Spare};

/// What `Log::open` needs to begin a segment before there is a log.
pub(crate) struct FirstSegment<D: Disk> {
    pub(crate) disk: D,
    pub(crate) identity: Option<IdentityFile<D>>,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) limits: StorageLimits,
    pub(crate) spare: Option<Spare<D::File>>,
    pub(crate) next_commit: u64,
}

impl<D: Disk> FirstSegment<D> {
    /// Goes on where the log ends, or in a new segment. `last` has the newest one, its end, and whether the log may go on there.
    pub(crate) fn begin(
        &mut self,
        last: Option<(u32, u64, bool)>,
    ) -> Result<(u32, D::File, u64), StorageError> {
        match last {
            Some((number, end, true)) => {
                let name = segment::name(number);
                let file = self.disk.open(&name).map_err(|error| {
                    StorageError::io(format!("open {}", self.disk.place(&name)), &error)
                })?;
                Ok((number, file, end))
            }
            Some((number, end, false)) => self.start_segment(number + 1, end),
            None => self.start_segment(1, 0),
        }
    }

    fn start_segment(
        &mut self,
        number: u32,
        previous_end: u64,
    ) -> Result<(u32, D::File, u64), StorageError> {
        let place = self.disk.place(&segment::name(number));
        let sync_failed = |error: io::Error| StorageError::sync_failed(&place, &error);
        let full = || StorageError::Full {
            place: place.clone(),
            wanted: self.limits.segment_bytes,
        };
        let spare = match self.spare.take() {
            Some(spare) => Some(spare),
            None => spare::reserve(&self.disk, number, &self.limits).map_err(sync_failed)?,
        };
        let mut file = spare.ok_or_else(full)?.file;
        spare::announce(&self.identity, number, self.next_commit - 1)?;
        let header = Header {
            cluster: self.cluster,
            node: self.node,
            segment: number,
            segment_bytes: self.limits.segment_bytes,
            block_bytes: self.limits.block_bytes,
            page_bytes: self.limits.page_bytes,
            first_commit: self.next_commit,
            previous_end,
        };
        match write_header(&mut file, &header) {
            Err(error) if is_full(&error) => return Err(full()),
            other => other.map_err(sync_failed)?,
        }
        publish(&self.disk, &mut file, number).map_err(sync_failed)?;
        Ok((number, file, segment::data_start(self.limits.page_bytes)))
    }
}

/// Writes both copies of a header.
pub(crate) fn write_header<F: DiskFile>(file: &mut F, header: &Header) -> io::Result<()> {
    file.write_at(0, &header.encode(0))?;
    file.write_at(header.page_bytes, &header.encode(header.page_bytes))
}

/// Makes the spare a segment: first its content durable, then its name.
pub(crate) fn publish<D: Disk>(disk: &D, file: &mut D::File, number: u32) -> io::Result<()> {
    file.sync()?;
    disk.rename(&spare::name(number), &segment::name(number))?;
    disk.sync_dir()
}
