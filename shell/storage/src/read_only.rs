//! A data directory that is read and never changed: its files, and a lock that keeps its node from starting meanwhile.
//!
//! Called by the scrub. It refuses every write, so what stands on the trait `Disk` can be run on it without harm. It works where
//! the file system is mounted read-only, and makes no file, not even one for the lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::directory::LOCK;
use crate::directory_disk::list_files;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// The data directory of a node that does not run. Its node cannot start as long as this lives.
#[derive(Debug)]
pub struct StoppedDirectory {
    path: PathBuf,
    _lock: File,
}

impl StoppedDirectory {
    /// Locks `path` against a node that would start, and shares it with others that only read.
    ///
    /// # Errors
    /// `Locked` while a node runs there.
    pub fn open(path: &Path) -> Result<StoppedDirectory, StorageError> {
        let failed =
            |error: io::Error| StorageError::io(format!("lock {}", path.display()), &error);
        let directory = File::open(path).map_err(failed)?;
        match flock(&directory, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(StoppedDirectory {
                path: path.to_owned(),
                _lock: directory,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StorageError::Locked {
                dir: path.display().to_string(),
                pid: std::fs::read_to_string(path.join(LOCK))
                    .ok()
                    .and_then(|pid| pid.trim().parse().ok()),
            }),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its own files.
    pub fn home(&self) -> ReadOnlyDirectory {
        ReadOnlyDirectory::new(&self.path)
    }

    /// The files of the log, if it has any.
    pub fn log(&self) -> Option<ReadOnlyDirectory> {
        self.below("log")
    }

    /// The files of the snapshots, if there are any.
    pub fn snapshots(&self) -> Option<ReadOnlyDirectory> {
        self.below("snapshots")
    }

    fn below(&self, name: &str) -> Option<ReadOnlyDirectory> {
        let path = self.path.join(name);
        path.is_dir().then(|| ReadOnlyDirectory::new(&path))
    }
}

/// The files of one directory.
#[derive(Clone, Debug)]
pub struct ReadOnlyDirectory {
    path: Arc<PathBuf>,
    /// Files that are not listed.
    hidden: Arc<Vec<String>>,
}

impl ReadOnlyDirectory {
    fn new(path: &Path) -> ReadOnlyDirectory {
        ReadOnlyDirectory {
            path: Arc::new(path.to_owned()),
            hidden: Arc::default(),
        }
    }

    /// The same files but for `hidden`.
    pub(crate) fn without(&self, hidden: Vec<String>) -> ReadOnlyDirectory {
        ReadOnlyDirectory {
            path: self.path.clone(),
            hidden: Arc::new(hidden),
        }
    }

    /// Opens one file.
    pub(crate) fn file(&self, name: &str) -> io::Result<ReadOnlyFile> {
        ReadOnlyFile::open(&self.path.join(name))
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyDirectory {
    type File = ReadOnlyFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = list_files(&self.path)?;
        names.retain(|name| !self.hidden.contains(name));
        Ok(names)
    }

    fn create(&self, _name: &str, _bytes: u64) -> io::Result<ReadOnlyFile> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<ReadOnlyFile> {
        self.file(name)
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        refused()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn place(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of a `ReadOnlyDirectory`.
#[derive(Debug)]
pub struct ReadOnlyFile(File);

impl ReadOnlyFile {
    /// The file at `path`, which may lie anywhere. A pipe or a device is refused, and not waited for.
    pub fn open(path: &Path) -> io::Result<ReadOnlyFile> {
        let no_wait = rustix::fs::OFlags::NONBLOCK.bits();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(no_wait as i32)
            .open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(ReadOnlyFile(file)),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no regular file",
            )),
        }
    }
}

impl DiskFile for ReadOnlyFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write_at(&mut self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        refused()
    }

    fn read_at(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(data, offset)
    }

    /// There is nothing to make durable: nobody writes here.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn prefill(&mut self, _offset: u64, _bytes: u64) -> io::Result<()> {
        refused()
    }

    fn distrust_cache(&mut self) -> io::Result<()> {
        let whole = (0, None::<NonZeroU64>);
        // Where the system cannot drop its cache, what it has cached is scrubbed.
        let _ = rustix::fs::fadvise(&self.0, whole.0, whole.1, rustix::fs::Advice::DontNeed);
        Ok(())
    }
}
