//! A number in a file that outlives its process, set as often as one likes.
//!
//! A store into memory that is mapped from a file is the kernel's as soon as it is made: the death of the process takes it away
//! as little as it takes what was written. A node notes so before each answer how far its objects have executed; a system call
//! for it was a twentieth of a call's time. Nothing is synced: a restart of the machine may lose the number, and what stands
//! before it in the file says whose it is.

use rustix::fs::fstatfs;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that stand before the number.
pub const OWNER_BYTES: usize = 40;
const FILE_BYTES: usize = OWNER_BYTES + 8;

/// File systems that write a block over where it stands: ext4, XFS and tmpfs. Others find new room for each writing; on a full
/// disk a store into their mapped files ends the process, where a failed write is an error.
const OVERWRITING: [u64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];

/// The number in its file.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use quorate_lasting::{LastingNumber, OWNER_BYTES, read};
/// let path = directory.path().join("number");
/// let mut number = LastingNumber::create(&path, &[b'm'; OWNER_BYTES], 1)?;
/// number.set(7)?;
/// assert_eq!(read(&path)?, Some(([b'm'; OWNER_BYTES], 7)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LastingNumber {
    file: File,
    mapped: Option<Mapped>,
}

impl LastingNumber {
    /// Writes `owner` and `number` into the file at `path`, which is made where there is none.
    ///
    /// # Errors
    /// What the file system says. A file that cannot be mapped is written instead.
    pub fn create(
        path: &Path,
        owner: &[u8; OWNER_BYTES],
        number: u64,
    ) -> io::Result<LastingNumber> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        let mut bytes = [0; FILE_BYTES];
        bytes[..OWNER_BYTES].copy_from_slice(owner);
        bytes[OWNER_BYTES..].copy_from_slice(&number.to_ne_bytes());
        file.write_all_at(&bytes, 0)?;
        file.set_len(FILE_BYTES as u64)?;
        let is_overwritten =
            fstatfs(&file).is_ok_and(|of| OVERWRITING.contains(&(of.f_type as u64)));
        let mapped = if is_overwritten {
            Mapped::of(&file).ok()
        } else {
            None
        };
        Ok(LastingNumber { file, mapped })
    }

    /// Replaces the number; whoever reads the file from now on finds this one or a later one.
    ///
    /// # Errors
    /// What the file system says where the file is not mapped. The number is then the one before or this one.
    pub fn set(&mut self, number: u64) -> io::Result<()> {
        match &self.mapped {
            Some(mapped) => mapped.number().store(number, Ordering::Release),
            None => self
                .file
                .write_all_at(&number.to_ne_bytes(), OWNER_BYTES as u64)?,
        }
        Ok(())
    }
}

/// Owner and number of the file at `path`; `None` when it is no such file.
///
/// # Errors
/// What the file system says, also when there is no file.
pub fn read(path: &Path) -> io::Result<Option<([u8; OWNER_BYTES], u64)>> {
    let bytes = std::fs::read(path)?;
    let Ok(bytes) = <[u8; FILE_BYTES]>::try_from(bytes) else {
        return Ok(None);
    };
    let (owner, number) = bytes.split_at(OWNER_BYTES);
    let owner = owner.try_into().expect("split there");
    let number = number.try_into().expect("the rest is eight bytes");
    Ok(Some((owner, u64::from_ne_bytes(number))))
}

/// The first page of the file, in memory.
#[derive(Debug)]
struct Mapped(*mut c_void);

// SAFETY: the mapping belongs to the process, and what lies behind it is reached through an atomic only.
unsafe impl Send for Mapped {}

impl Mapped {
    fn of(file: &File) -> io::Result<Mapped> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe { mmap(null_mut(), FILE_BYTES, access, flags, file, 0)? };
        Ok(Mapped(start))
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins at a page and lives as long as `self`; `OWNER_BYTES` is a multiple of eight, and the file
        // holds the eight bytes behind it. Whoever cuts the file ends the process by a signal and breaks no memory.
        unsafe { AtomicU64::from_ptr(self.0.cast::<u8>().add(OWNER_BYTES).cast()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.0, FILE_BYTES) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: [u8; OWNER_BYTES] = [7; OWNER_BYTES];

    #[test]
    fn what_was_set_is_read_without_a_word_from_who_set_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let mut number = LastingNumber::create(&path, &OWNER, 3).unwrap();
        assert_eq!(read(&path).unwrap(), Some((OWNER, 3)));
        number.set(u64::MAX - 1).unwrap();
        assert_eq!(read(&path).unwrap(), Some((OWNER, u64::MAX - 1)));
        std::mem::forget(number);
        assert_eq!(read(&path).unwrap(), Some((OWNER, u64::MAX - 1)));
    }

    #[test]
    fn a_file_that_is_not_mapped_says_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let mut number = LastingNumber::create(&path, &OWNER, 3).unwrap();
        number.mapped = None;
        number.set(9).unwrap();
        assert_eq!(read(&path).unwrap(), Some((OWNER, 9)));
    }

    #[test]
    fn a_file_of_another_length_is_none_of_these_and_becomes_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        std::fs::write(
            &path,
            "a line of an earlier build that is longer than the number",
        )
        .unwrap();
        assert_eq!(read(&path).unwrap(), None);
        LastingNumber::create(&path, &OWNER, 5).unwrap();
        assert_eq!(read(&path).unwrap(), Some((OWNER, 5)));
    }
}
