//! The real `Disk`: the files of one directory, by plain system calls. Interrupted calls are taken up again by std.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};

/// Zeros for `prefill`, and the size of its writes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Zeros that are synced together. The first sync of a segment's records would otherwise write all of its zeros and hold up
/// that commit for 10 to 32 ms. With syncs of a mebibyte beside earlier commits it takes 0.7 to 0.8 ms.
const PREFILL_SYNC_BYTES: u64 = 1 << 20;

/// The files of one existing directory. Who opens one makes sure (by `DataDirectory`) that no other process does.
#[derive(Clone, Debug)]
pub struct DirectoryDisk {
    path: Arc<PathBuf>,
}

impl DirectoryDisk {
    /// Uses `path`, and makes it if it is absent (durably, as an entry of its parent).
    pub fn open(path: &Path) -> io::Result<DirectoryDisk> {
        if !path.is_dir() {
            std::fs::create_dir_all(path)?;
            if let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
            {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(DirectoryDisk {
            path: Arc::new(path.to_path_buf()),
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
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&*self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
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
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        Ok(DirectoryFile::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&*self.path)?.sync_all()
    }
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
    /// Bytes that `prefill` has written since it synced last.
    prefilled: u64,
}

impl DirectoryFile {
    fn new(file: File) -> DirectoryFile {
        DirectoryFile { file, prefilled: 0 }
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

    fn prefill(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        write_zeros(&self.file, offset, bytes)?;
        self.prefilled += bytes;
        if self.prefilled >= PREFILL_SYNC_BYTES {
            self.prefilled = 0;
            self.file.sync_data()?;
        }
        Ok(())
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
