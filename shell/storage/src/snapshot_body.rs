//! The body of a snapshot file, written front to back from pieces of any size and hashed on the way.
//!
//! It gathers the pieces into parts of whole pages, which pass the system's cache. Called by `SnapshotStore` only; it knows
//! no head and makes nothing durable.

use crate::disk::DiskFile;
use crate::limits::{SECTOR_BYTES, SNAPSHOT_CHUNK_BYTES};
use std::io;

/// Where the body begins in the file.
pub(crate) const BODY: u64 = SECTOR_BYTES as u64;

const PAGE_BYTES: usize = 4096;

pub(crate) struct BodyWriter<'a, F> {
    file: &'a mut F,
    size: u64,
    hasher: blake3::Hasher,
    /// Bytes of the body that are in the file.
    written: u64,
    /// Those that follow, less than a part.
    part: Vec<u8>,
}

impl<F: DiskFile> BodyWriter<'_, F> {
    /// The body of `size` bytes of `file`.
    pub(crate) fn new(file: &mut F, size: u64) -> BodyWriter<'_, F> {
        BodyWriter {
            file,
            size,
            hasher: blake3::Hasher::new(),
            written: 0,
            part: Vec::new(),
        }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, mut piece: &[u8]) -> io::Result<()> {
        let taken = self.written + self.part.len() as u64;
        assert!(
            piece.len() as u64 <= self.size - taken,
            "a snapshot is longer than was said"
        );
        self.hasher.update(piece);
        while !piece.is_empty() {
            let room = self.part_bytes() - self.part.len();
            let (now, later) = piece.split_at(piece.len().min(room));
            self.part.extend_from_slice(now);
            piece = later;
            if self.part.len() == self.part_bytes() {
                self.write_part()?;
            }
        }
        Ok(())
    }

    /// The hash of the body, all of which is in the file.
    pub(crate) fn finish(self) -> io::Result<[u8; 32]> {
        assert!(self.part.is_empty(), "a snapshot is shorter than was said");
        assert_eq!(self.written, self.size, "every byte is written");
        Ok(*self.hasher.finalize().as_bytes())
    }

    /// Bytes of the part that comes next: up to the end of a page first, then whole pages, then what is left.
    fn part_bytes(&self) -> usize {
        let left = usize::try_from(self.size - self.written).unwrap_or(usize::MAX);
        if self.written == 0 {
            left.min(PAGE_BYTES - SECTOR_BYTES)
        } else if left < PAGE_BYTES {
            left
        } else {
            left.min(SNAPSHOT_CHUNK_BYTES) / PAGE_BYTES * PAGE_BYTES
        }
    }

    fn write_part(&mut self) -> io::Result<()> {
        let at = BODY + self.written;
        if self.part.len().is_multiple_of(PAGE_BYTES) {
            self.file.write_aside(at, &self.part)?;
        } else {
            self.file.write_at(at, &self.part)?;
        }
        self.written += self.part.len() as u64;
        self.part.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, SimDisk};

    #[test]
    fn pieces_of_any_size_make_the_same_file() {
        let content: Vec<u8> = (0..3 * SNAPSHOT_CHUNK_BYTES + 777)
            .map(|i| i as u8)
            .collect();
        for size in [0, 1, 3583, 3584, 3585, 7680, 9000, content.len()] {
            for piece in [1000, 4096, 2 * SNAPSHOT_CHUNK_BYTES] {
                let content = &content[..size];
                let disk = SimDisk::new();
                let mut file = disk.create("a", BODY + size as u64).expect("room");
                let mut body = BodyWriter::new(&mut file, size as u64);
                for piece in content.chunks(piece) {
                    body.take(piece).expect("room");
                }
                let hash = body.finish().expect("room");
                assert_eq!(hash, *blake3::hash(content).as_bytes());
                let mut read = vec![0; size];
                file.read_at(BODY, &mut read).expect("it is there");
                assert_eq!(read, content);
            }
        }
    }
}
