//! The trait `Disk`: what the log, the snapshots and the identity need of a disk.
//!
//! Two implementations: `DirectoryDisk` (files of one directory) and `SimDisk` (memory that crashes, tears, lies and fills up).
//! Names are flat: one `Disk` is one directory.

use std::{fmt, io};

/// One directory of files. A handle is cheap to clone; all clones see the same files.
pub trait Disk: Clone {
    /// An open file.
    type File: DiskFile + fmt::Debug;

    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file of `bytes` zeros whose space is reserved. Fails if the name exists; leaves nothing behind if it fails.
    /// The file survives a crash after `DiskFile::sync` and `sync_dir`.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name, replacing what had it. Survives a crash after `sync_dir`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Survives a crash after `sync_dir`.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Bytes that new files may take before the disk is full.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Where the file `name` is, for messages to people.
    fn place(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Makes names durable: what was created, renamed and removed.
    fn sync_dir(&self) -> io::Result<()>;
}

/// One open file of a `Disk`. It stays open under whatever name the file is given.
pub trait DiskFile {
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Writes all of `data` at `offset`. Not durable before `sync`; on an error any part may have been written.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Fills `data` from `offset`; fails if the file is shorter.
    fn read_at(&self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Makes all written data durable (`fdatasync`). After an error nothing is known about what was written since the last
    /// success, and a second call proves nothing.
    fn sync(&mut self) -> io::Result<()>;

    /// Writes a part of a large file so that syncs of other files wait for it as little as possible. Otherwise as `write_at`.
    fn write_aside(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)
    }

    /// Makes later overwriting of reserved bytes cheaper. They read as zeros before and after.
    fn prefill(&mut self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Drops cached content, so that what is read next comes from the device.
    fn distrust_cache(&mut self) -> io::Result<()>;
}

/// Reads a whole file, from the device where the system allows.
pub(crate) fn read_whole<F: DiskFile>(file: &mut F) -> io::Result<Vec<u8>> {
    file.distrust_cache()?;
    let mut content = vec![0; file.bytes()? as usize];
    file.read_at(0, &mut content)?;
    Ok(content)
}
