//! The segment that is prepared ahead: its space is reserved, and the identity announces it before the log needs it.
//!
//! Called by `Log`. It decides nothing about the log's content: a spare has zeros and at most a header.

use std::io;

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, is_full};
use crate::limits::StorageLimits;
use crate::segment;

/// A spare under construction; it gets its name when it is whole.
const NEW: &str = "next-new";
const PREFIX: &str = "next-";

/// The next segment, before it holds anything.
#[derive(Debug)]
pub(crate) struct Spare<F> {
    pub(crate) number: u32,
    pub(crate) file: F,
    /// Bytes from the start that need no prefill any more.
    pub(crate) filled: u64,
    /// The identity says durably that this segment exists. Invariant: only then a record may go there.
    pub(crate) is_announced: bool,
}

/// The name of the segment `number` while it is a spare.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

/// The number of a spare's name.
pub(crate) fn number(name: &str) -> Option<u32> {
    segment::hexadecimal(name.strip_prefix(PREFIX)?)
}

/// Reserves the segment `number`. `None` if there is no room for it.
pub(crate) fn make<D: Disk>(
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
    Ok(Some(Spare {
        number,
        file,
        filled: 0,
        is_announced: false,
    }))
}

/// The spare `number` of an earlier run, if it is whole and holds nothing but a header. Other spares are removed; a bad one
/// with this number stays until another takes its name, because the identity may know of it.
pub(crate) fn reuse<D: Disk>(
    disk: &D,
    names: &[String],
    wanted: u32,
    limits: &StorageLimits,
) -> Result<Option<Spare<D::File>>, StorageError> {
    let failed = |error: io::Error| StorageError::io("look at the next segment", &error);
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
    let start = segment::data_start(limits.block_bytes) as usize;
    let is_empty = content[start..].iter().all(|byte| *byte == 0);
    Ok(is_empty.then_some(Spare {
        number: wanted,
        file,
        filled: limits.segment_bytes,
        is_announced: false,
    }))
}

fn remove<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
