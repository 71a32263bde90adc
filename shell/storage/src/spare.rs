//! The segment that is prepared ahead: its space is reserved, and the identity announces it before the log needs it.
//!
//! A `SpareJob` does that, on a thread of its own or in place: it takes the file of a segment that was trimmed, or makes a new
//! one and fills it with zeros. Called by `Log`, `Preparer` and the simulator. It decides nothing about the log's content: all
//! that a spare holds was written for earlier segments, and recovery takes that for absent.

use std::io;

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, is_full};
use crate::identity::IdentityFile;
use crate::limits::{PREFILL_BYTES, SECTOR_BYTES, StorageLimits};
use crate::sector::{Owner, SectorFound};
use crate::segment;

/// A spare under construction; it gets its name when it is whole.
const NEW: &str = "next-new";
const PREFIX: &str = "next-";

/// The next segment, before it holds anything.
#[derive(Debug)]
pub(crate) struct Spare<F> {
    pub(crate) number: u32,
    pub(crate) file: F,
    /// The identity says durably that this segment exists. Invariant: only then a record may go there.
    pub(crate) is_announced: bool,
}

/// How far the next segment is prepared.
#[derive(Debug)]
pub(crate) enum Upcoming<F> {
    /// Not at all, and nobody is at it.
    Missing,
    /// A job for it is on its way.
    Asked,
    /// Its file is there.
    Made(Spare<F>),
}

/// What is to be done for the next segment. It touches no file of the log that the log still needs.
#[derive(Debug)]
pub struct SpareJob<D: Disk> {
    pub(crate) disk: D,
    pub(crate) identity: Option<IdentityFile<D>>,
    pub(crate) limits: StorageLimits,
    pub(crate) number: u32,
    /// A commit that is durable, for the identity.
    pub(crate) commit: u64,
    /// A trimmed segment whose file may become this one.
    pub(crate) recycled: Option<u32>,
    /// The file, if only the announcement is missing.
    pub(crate) made: Option<Spare<D::File>>,
}

/// What came of a `SpareJob`, for `GroupCommit::prepared`.
#[derive(Debug)]
pub struct Prepared<F>(pub(crate) Result<Option<Spare<F>>, StorageError>);

impl<F> Prepared<F> {
    /// Whether the log may go on because of it, or has to end.
    pub fn is_news(&self) -> bool {
        match &self.0 {
            Ok(spare) => spare.as_ref().is_some_and(|spare| spare.is_announced),
            Err(_) => true,
        }
    }
}

impl<D: Disk> SpareJob<D> {
    /// Does it.
    pub fn run(self) -> Prepared<D::File> {
        Prepared(self.prepare())
    }

    fn prepare(mut self) -> Result<Option<Spare<D::File>>, StorageError> {
        let made = match (self.made.take(), self.recycled) {
            (Some(made), _) => Ok(Some(made)),
            (None, Some(old)) => recycle(&self.disk, old, self.number).map(Some),
            (None, None) => make(&self.disk, self.number, &self.limits),
        };
        let made = made.map_err(|error| {
            StorageError::sync_failed(&self.disk.place(&name(self.number)), &error)
        })?;
        let Some(mut spare) = made else {
            return Ok(None);
        };
        match announce(&self.identity, spare.number, self.commit) {
            Ok(()) => spare.is_announced = true,
            Err(StorageError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(Some(spare))
    }
}

/// Has the identity know durably that the segment `number` exists and that `commit` is durable. The segment's file must be
/// there before, and no record goes into it before this has returned.
pub(crate) fn announce<D: Disk>(
    identity: &Option<IdentityFile<D>>,
    number: u32,
    commit: u64,
) -> Result<(), StorageError> {
    match identity {
        Some(identity) => identity.change(|identity| {
            identity.log.segment = number;
            identity.log.commit = commit.max(identity.log.commit);
        }),
        None => Ok(()),
    }
}

/// The name of the segment `number` while it is a spare.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

/// The number of a spare's name.
pub(crate) fn number(name: &str) -> Option<u32> {
    segment::hexadecimal(name.strip_prefix(PREFIX)?)
}

/// Whether a file of this name was still being made.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name == NEW
}

/// Makes the segment `number` with zeros in it. `None` if there is no room for it.
fn make<D: Disk>(
    disk: &D,
    number: u32,
    limits: &StorageLimits,
) -> io::Result<Option<Spare<D::File>>> {
    let Some(mut spare) = reserve(disk, number, limits)? else {
        return Ok(None);
    };
    let mut filled = 0;
    while filled < limits.segment_bytes {
        let part = PREFILL_BYTES.min(limits.segment_bytes - filled);
        match spare.file.prefill(filled, part) {
            // It only costs speed.
            Err(error) if is_full(&error) => break,
            other => other?,
        }
        filled += part;
    }
    Ok(Some(spare))
}

/// Reserves the space of the segment `number`. `None` if there is no room for it.
pub(crate) fn reserve<D: Disk>(
    disk: &D,
    number: u32,
    limits: &StorageLimits,
) -> io::Result<Option<Spare<D::File>>> {
    remove(disk, NEW)?;
    let file = match disk.create(NEW, limits.segment_bytes) {
        Ok(file) => file,
        Err(error) if is_full(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    disk.rename(NEW, &name(number))?;
    disk.sync_dir()?;
    Ok(Some(unannounced(number, file)))
}

/// Makes the file of the trimmed segment `old` the segment `number`. Its space is there and its blocks are written, so it costs
/// a new name only. The newest durable list does not name `old` any more.
fn recycle<D: Disk>(disk: &D, old: u32, number: u32) -> io::Result<Spare<D::File>> {
    disk.rename(&segment::name(old), &name(number))?;
    disk.sync_dir()?;
    Ok(unannounced(number, disk.open(&name(number))?))
}

fn unannounced<F>(number: u32, file: F) -> Spare<F> {
    Spare {
        number,
        file,
        is_announced: false,
    }
}

/// The spare `wanted` of an earlier run, if it is whole and holds nothing that could be taken for its own. Other spares are
/// removed; a bad one with this number stays until another takes its name, because the identity may know of it.
pub(crate) fn reuse<D: Disk>(
    disk: &D,
    owner: Owner,
    names: &[String],
    wanted: u32,
    limits: &StorageLimits,
) -> Result<Option<Spare<D::File>>, StorageError> {
    let failed = |error: io::Error| {
        StorageError::io(format!("look at {}", disk.place(&name(wanted))), &error)
    };
    for other in names {
        if number(other).is_some_and(|number| number != wanted) {
            remove(disk, other).map_err(failed)?;
        }
    }
    let file = match disk.open(&name(wanted)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    if file.bytes().map_err(failed)? != limits.segment_bytes {
        return Ok(None);
    }
    let mut content = vec![0; limits.segment_bytes as usize];
    file.read_at(0, &mut content).map_err(failed)?;
    let start = segment::data_start(limits.page_bytes) as usize;
    let mut sectors = (start..)
        .step_by(SECTOR_BYTES)
        .zip(content[start..].chunks_exact(SECTOR_BYTES));
    let is_empty = sectors.all(|(at, sector)| match owner.examine(sector, at as u64) {
        SectorFound::Absent => true,
        SectorFound::Valid(place) => place.segment < wanted,
        SectorFound::Wrong => false,
    });
    Ok(is_empty.then(|| unannounced(wanted, file)))
}

fn remove<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
