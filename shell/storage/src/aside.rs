//! Writes large files past the system's cache, in steps, so that the log's next sync finds a short queue at the device.
//!
//! Cached writes reach the device together, when the file is synced or when the system likes: a snapshot of 100 MB then holds up
//! a commit for as long as the device takes for all of it. A direct write waits for its own part, so at most one part is queued.
//! Where the file system or the alignment does not allow it, each part is written through the cache and synced.
//! Called by `DirectoryFile`. Nothing is durable before the file is synced.

use crate::aligned::{ALIGNMENT, AlignedMemory, is_aligned};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Bytes of one direct write: cheap enough, and a third of a millisecond at a common device.
const PART_BYTES: usize = 256 << 10;

/// The second way into a file.
#[derive(Debug)]
pub(crate) enum Aside {
    /// Not needed so far.
    Unopened,
    /// Direct writes; those of data that is not aligned come from this memory.
    Direct(File, Option<AlignedMemory>),
    /// The file system refuses direct writes.
    Cached,
}

impl Aside {
    /// Writes `data` at `offset` of `file`.
    pub(crate) fn write(&mut self, file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        for (index, part) in data.chunks(PART_BYTES).enumerate() {
            let at = offset + (index * PART_BYTES) as u64;
            if !self.try_direct(file, at, part)? {
                file.write_all_at(part, at)?;
                file.sync_data()?;
            }
        }
        Ok(())
    }

    /// Writes `part` directly; false where that is not possible.
    fn try_direct(&mut self, file: &File, at: u64, part: &[u8]) -> io::Result<bool> {
        if !at.is_multiple_of(ALIGNMENT as u64) || !part.len().is_multiple_of(ALIGNMENT) {
            return Ok(false);
        }
        if let Aside::Unopened = self {
            let opened = open_direct(file);
            *self = opened.map_or(Aside::Cached, |file| Aside::Direct(file, None));
        }
        let Aside::Direct(file, memory) = self else {
            return Ok(false);
        };
        let aligned = if is_aligned(part) {
            part
        } else {
            let memory = memory.get_or_insert_with(|| AlignedMemory::new(PART_BYTES));
            memory.clear();
            memory.extend(part);
            memory.bytes()
        };
        match file.write_all_at(aligned, at) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                *self = Aside::Cached;
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }
}

/// Opens the same file once more, whatever name it has by now.
fn open_direct(file: &File) -> io::Result<File> {
    let direct = rustix::fs::OFlags::DIRECT.bits();
    OpenOptions::new()
        .write(true)
        .custom_flags(direct as i32)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_renamed_is_written_past_the_cache_like_any_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut is_direct = Vec::new();
        for renamed in [None, Some("other")] {
            let path = directory.path().join("file");
            let file = File::create(&path).expect("a file");
            if let Some(name) = renamed {
                std::fs::rename(&path, directory.path().join(name)).expect("a new name");
            }
            let mut aside = Aside::Unopened;
            aside.write(&file, 0, &[7; ALIGNMENT]).expect("room");
            is_direct.push(matches!(aside, Aside::Direct(..)));
            assert_eq!(file.metadata().expect("it is open").len(), ALIGNMENT as u64);
        }
        assert_eq!(is_direct[1], is_direct[0]);
    }
}
