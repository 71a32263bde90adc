//! The log file of a node, of a bounded size: a full file becomes `.1`, and what was there before `.2`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of one file. A node at level info writes some kilobytes a day, and objects may print 8 KiB a second: half an hour.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files that are kept beside the newest one.
const FILES_KEPT: u32 = 2;

/// A file that is replaced when it is full.
pub(super) struct RotatingLog {
    path: PathBuf,
    file: File,
    length: u64,
    limit: u64,
}

impl RotatingLog {
    /// Goes on with the file at `path`.
    pub(super) fn open(path: &Path) -> io::Result<RotatingLog> {
        RotatingLog::of_size(path, FILE_BYTES_MAX)
    }

    fn of_size(path: &Path, limit: u64) -> io::Result<RotatingLog> {
        let file = open(path)?;
        Ok(RotatingLog {
            length: file.metadata()?.len(),
            file,
            path: path.to_owned(),
            limit,
        })
    }

    /// Writes everything that comes from a node until it ends. A full disk loses lines and does not stop the node.
    pub(super) fn copy(&mut self, mut from: impl Read) {
        let mut chunk = [0; 8192];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return,
                Ok(read) => {
                    let _ = self.write(&chunk[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.length >= self.limit {
            self.rotate()?;
        }
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..FILES_KEPT).rev() {
            // There may be none of that number yet.
            let _ = std::fs::rename(self.numbered(number), self.numbered(number + 1));
        }
        std::fs::rename(&self.path, self.numbered(1))?;
        self.file = open(&self.path)?;
        self.length = 0;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_kept_in_order_and_the_oldest_goes() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("node-1.log");
        let mut log = RotatingLog::of_size(&path, 4).unwrap();
        for text in ["one\n", "two\n", "three\n", "four\n"] {
            log.copy(text.as_bytes());
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "four\n");
        assert_eq!(read(&log.numbered(1)), "three\n");
        assert_eq!(read(&log.numbered(2)), "two\n");
        assert!(!log.numbered(3).exists());
        let mut log = RotatingLog::of_size(&path, 4).unwrap();
        log.copy("five\n".as_bytes());
        assert_eq!(read(&log.numbered(1)), "four\n");
    }
}
