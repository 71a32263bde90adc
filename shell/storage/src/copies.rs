//! Two checksummed copies of a small file, written one after the other, so that one is always whole.
//!
//! Where both are, a copy is written over in place: that takes a tenth of a new file's time, which names and their directory take,
//! and a node changes its identity between two views. A copy that is damaged, missing, or has another length is replaced by a whole file.
//!
//! Called by the identity and by what is remembered of peers. It knows neither's content, only where its version stands.

use std::io;

use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::{StorageError, is_full};

/// The names of a file that stands twice.
pub(crate) struct Copies {
    pub(crate) names: [&'static str; 2],
    /// A copy under construction.
    pub(crate) new: &'static str,
    /// The version of a copy, if it is whole.
    pub(crate) version: fn(&[u8]) -> Option<u64>,
}

impl Copies {
    /// Whether any copy is there.
    pub(crate) fn exist<D: Disk>(&self, disk: &D) -> Result<bool, StorageError> {
        let names = disk
            .list()
            .map_err(|error| StorageError::io(format!("list {}", disk.place("")), &error))?;
        Ok(names.iter().any(|name| self.names.contains(&name.as_str())))
    }

    /// Every copy that can be read, whole or not.
    pub(crate) fn read<D: Disk>(&self, disk: &D) -> Vec<Vec<u8>> {
        let read = |name: &str| {
            disk.open(name)
                .and_then(|mut file| read_whole(&mut file))
                .ok()
        };
        self.names.into_iter().filter_map(read).collect()
    }

    /// The newest whole copy.
    pub(crate) fn newest(&self, contents: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        contents
            .into_iter()
            .filter_map(|content| Some(((self.version)(&content)?, content)))
            .max_by_key(|(version, _)| *version)
            .map(|(_, content)| content)
    }

    /// Writes what `encode` makes of the next version to both copies.
    pub(crate) fn store<D: Disk>(
        &self,
        disk: &D,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<(), StorageError> {
        let version_of = |name: &str| {
            disk.open(name)
                .and_then(|mut file| read_whole(&mut file))
                .ok()
                .and_then(|content| (self.version)(&content))
                .unwrap_or(0)
        };
        let versions = self.names.map(version_of);
        let content = encode(versions[0].max(versions[1]) + 1);
        // The older copy goes first, so that the newest stays until another is whole.
        let order = if versions[0] <= versions[1] {
            [0, 1]
        } else {
            [1, 0]
        };
        let mut is_whole = versions.map(|version| version > 0);
        for place in order {
            let name = self.names[place];
            let is_other_whole = is_whole[1 - place];
            let stored = match is_whole[place] && is_other_whole {
                true => match overwrite(disk, name, &content) {
                    Err(error) if is_full(&error) => self.replace(disk, name, &content),
                    other => other,
                },
                false => match self.replace(disk, name, &content) {
                    Err(error) if is_full(&error) && is_other_whole => {
                        overwrite(disk, name, &content)
                    }
                    other => other,
                },
            };
            stored.map_err(|error| match error {
                error if is_full(&error) => StorageError::Full {
                    place: disk.place(name),
                    wanted: content.len() as u64,
                },
                error => StorageError::sync_failed(&disk.place(name), &error),
            })?;
            is_whole[place] = true;
        }
        Ok(())
    }

    /// First the content durable, then the name.
    fn replace<D: Disk>(&self, disk: &D, name: &str, content: &[u8]) -> io::Result<()> {
        match disk.remove(self.new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = disk.create(self.new, content.len() as u64)?;
        file.write_at(0, content)?;
        file.sync()?;
        disk.rename(self.new, name)?;
        disk.sync_dir()
    }
}

/// Writes over a copy, which takes no space: on a full disk a node starts so. If that is cut short, the other copy is whole.
fn overwrite<D: Disk>(disk: &D, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = disk.open(name)?;
    if file.bytes()? != content.len() as u64 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_at(0, content)?;
    file.sync()
}
