//! The real `Disk`: the files of one directory, by plain system calls. Interrupted calls are taken up again by std.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::aside::Aside;
use crate::disk::{Disk, DiskFile};

/// Nobody else reads what clients sent, or writes what the node promised.
pub(crate) const OWNER_ONLY: u32 = 0o700;

/// Zeros for `prefill`, and the size of its writes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The files of one existing directory. Who opens one makes sure (by `DataDirectory`) that no other process does.
#[derive(Clone, Debug)]
pub struct DirectoryDisk {
    path: Arc<PathBuf>,
    /// Held open: a process that has run out of descriptors can still sync the directory.
    directory: Arc<File>,
}

impl DirectoryDisk {
    /// Whether the directory was removed since it was opened, or its file `name`, which is always there: what is written there is
    /// lost with the next start.
    pub fn is_removed(&self, name: &str) -> bool {
        let metadata = self.directory.metadata();
        let is_absent = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        metadata.is_ok_and(|metadata| metadata.nlink() == 0)
            || (self.path.join(name).symlink_metadata()).is_err_and(is_absent)
    }

    /// Uses `path`, and makes it if it is absent (durably, as an entry of its parent).
    pub fn open(path: &Path) -> io::Result<DirectoryDisk> {
        if !path.is_dir() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(OWNER_ONLY)
                .create(path)?;
            if let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
            {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(DirectoryDisk {
            path: Arc::new(path.to_path_buf()),
            directory: Arc::new(File::open(path)?),
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for DirectoryDisk {
    type File = DirectoryFile;

    fn list(&self) -> io::Result<Vec<String>> {
        list_files(&self.path)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<DirectoryFile> {
        let path = self.path.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        if let Err(error) = reserve(&file, bytes) {
            drop(file);
            // A file without its space must not be taken for one that has it.
            std::fs::remove_file(&path)?;
            return Err(error);
        }
        Ok(DirectoryFile::new(file))
    }

    fn open(&self, name: &str) -> io::Result<DirectoryFile> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(DirectoryFile::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let room = rustix::fs::statvfs(&*self.path)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    fn place(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

/// Names of the files in a directory.
pub(crate) fn list_files(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(names)
}

/// Reserves space; a file system that cannot promise it gets real zeros.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::OPNOTSUPP) => return write_zeros(file, 0, bytes),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn write_zeros(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..part as usize], offset + done)?;
        done += part;
    }
    Ok(())
}

/// A file of a `DirectoryDisk`.
#[derive(Debug)]
pub struct DirectoryFile {
    file: File,
    aside: Aside,
}

impl DirectoryFile {
    fn new(file: File) -> DirectoryFile {
        let aside = Aside::Unopened;
        DirectoryFile { file, aside }
    }
}

impl DiskFile for DirectoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn read_at(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_aside(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.aside.write(&self.file, offset, data)
    }

    fn prefill(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(ZEROS.len() as u64);
            self.write_aside(offset + done, &ZEROS[..part as usize])?;
            done += part;
        }
        self.file.sync_data()
    }

    fn distrust_cache(&mut self) -> io::Result<()> {
        // Only clean pages are dropped, so the caller syncs first; those that a failed sync has marked clean are gone after this.
        rustix::fs::fadvise(
            &self.file,
            0,
            None::<NonZeroU64>,
            rustix::fs::Advice::DontNeed,
        )?;
        Ok(())
    }
}
