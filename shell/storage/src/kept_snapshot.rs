//! A whole snapshot that is read in parts, for peers that fetch it: no part of it stays in memory.
//!
//! Made by `SnapshotStore::open_at`. The file stays readable after its name is gone; whoever holds one lets go of it then, because
//! its space is free only after that.

use std::io;

use bytes::Bytes;

use crate::disk::DiskFile;
use crate::limits::{SECTOR_BYTES, SNAPSHOT_CHUNK_BYTES};
use crate::snapshot_body::{BODY, BodyHash};
use crate::snapshot_file::FileHead;

/// A snapshot whose hashes were right when it was opened.
#[derive(Debug)]
pub struct KeptSnapshot<F> {
    file: F,
    bytes: u64,
    front: u64,
}

impl<F: DiskFile> KeptSnapshot<F> {
    /// Reads the file through once; `None` if it is not whole, or `is_right` does not know its head.
    pub(crate) fn open(
        mut file: F,
        is_right: impl FnOnce(&FileHead) -> bool,
    ) -> io::Result<Option<KeptSnapshot<F>>> {
        file.distrust_cache()?;
        let length = file.bytes()?;
        let mut part = vec![0; SECTOR_BYTES];
        if length < BODY {
            return Ok(None);
        }
        file.read_at(0, &mut part)?;
        let Some(head) = FileHead::decode(&part) else {
            return Ok(None);
        };
        let bytes = head.size.whole;
        if !is_right(&head) || head.received != bytes || length != BODY + bytes {
            return Ok(None);
        }
        let mut hash = BodyHash::new(head.size.front);
        let mut at = BODY;
        while at < length {
            part.resize((length - at).min(SNAPSHOT_CHUNK_BYTES as u64) as usize, 0);
            file.read_at(at, &mut part)?;
            hash.update(&part);
            at += part.len() as u64;
        }
        let is_whole = hash.is_of(head.size, &head.hash, &head.digest);
        let front = head.size.front;
        Ok(is_whole.then_some(KeptSnapshot { file, bytes, front }))
    }

    /// Bytes of the whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes before the list of parts; all of it where there is no such list.
    pub fn front_bytes(&self) -> u64 {
        self.front
    }

    /// The part from `offset` on, of `length` bytes or as many as there are: none from the end on.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Bytes> {
        let left = self.bytes.saturating_sub(offset);
        if left == 0 {
            return Ok(Bytes::new());
        }
        let mut part = vec![0; left.min(u64::from(length)) as usize];
        self.file.read_at(BODY + offset, &mut part)?;
        Ok(part.into())
    }
}
