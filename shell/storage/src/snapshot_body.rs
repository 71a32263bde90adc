//! The body of a snapshot file, written front to back from pieces of any size, its front hashed on the way.
//!
//! It gathers the pieces into aligned parts of whole pages, which pass the system's cache. Called by `SnapshotStore` only; it knows
//! no head and makes nothing durable.

use crate::aligned::{ALIGNMENT, AlignedMemory};
use crate::disk::DiskFile;
use crate::limits::{SECTOR_BYTES, SNAPSHOT_CHUNK_BYTES};
use quorate_types::PartsCheck;
use std::io;

/// Where the body begins in the file.
pub(crate) const BODY: u64 = SECTOR_BYTES as u64;

/// How many bytes a body has, and which hash covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodySize {
    /// Bytes at its begin that the file's own hash covers.
    pub front: u64,
    /// All bytes. Those behind the front, if there are any, are a list of parts, whose digest is that of the state, and its parts.
    pub whole: u64,
}

/// BLAKE3 of the front of a body, and a check of the parts behind it.
pub(crate) struct BodyHash {
    front_left: u64,
    front: blake3::Hasher,
    rest: PartsCheck,
}

impl BodyHash {
    pub(crate) fn new(front: u64) -> BodyHash {
        BodyHash {
            front_left: front,
            front: blake3::Hasher::new(),
            rest: PartsCheck::default(),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let rest = self.update_front(bytes);
        self.rest.update(rest);
    }

    /// Takes of the next bytes those of the front, and returns the others.
    fn update_front<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let now = usize::try_from(self.front_left).unwrap_or(usize::MAX);
        let (front, rest) = bytes.split_at(bytes.len().min(now));
        self.front.update(front);
        self.front_left -= front.len() as u64;
        rest
    }

    fn front(&self) -> [u8; 32] {
        *self.front.finalize().as_bytes()
    }

    /// Whether a body of this size is the one with this hash and this digest, once all of it was taken.
    pub(crate) fn is_of(&self, size: BodySize, hash: &[u8; 32], digest: &[u8; 32]) -> bool {
        let is_rest_right = size.front == size.whole || self.rest.digest() == Some(*digest);
        self.front_left == 0 && self.front() == *hash && is_rest_right
    }
}

pub(crate) struct BodyWriter<'a, F> {
    file: &'a mut F,
    size: u64,
    hash: BodyHash,
    /// Bytes of the body that are in the file.
    written: u64,
    /// Those that follow, less than a part.
    part: AlignedMemory,
}

impl<F: DiskFile> BodyWriter<'_, F> {
    /// The body of `file`.
    pub(crate) fn new(file: &mut F, size: BodySize) -> BodyWriter<'_, F> {
        assert!(size.front <= size.whole, "the front is a part of the body");
        let room = size.whole.min(SNAPSHOT_CHUNK_BYTES as u64) as usize;
        BodyWriter {
            file,
            size: size.whole,
            hash: BodyHash::new(size.front),
            written: 0,
            part: AlignedMemory::new(room),
        }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, mut piece: &[u8]) -> io::Result<()> {
        let taken = self.written + self.part.len() as u64;
        assert!(
            piece.len() as u64 <= self.size - taken,
            "a snapshot is longer than was said"
        );
        self.hash.update_front(piece);
        while !piece.is_empty() {
            let room = self.part_bytes() - self.part.len();
            let (now, later) = piece.split_at(piece.len().min(room));
            self.part.extend(now);
            piece = later;
            if self.part.len() == self.part_bytes() {
                self.write_part()?;
            }
        }
        Ok(())
    }

    /// The hash of the front of the body, all of which is in the file.
    pub(crate) fn finish(self) -> io::Result<[u8; 32]> {
        assert!(self.part.is_empty(), "a snapshot is shorter than was said");
        assert_eq!(self.written, self.size, "every byte is written");
        Ok(self.hash.front())
    }

    /// Bytes of the part that comes next: up to the end of a page first, then whole pages, then what is left.
    fn part_bytes(&self) -> usize {
        let left = usize::try_from(self.size - self.written).unwrap_or(usize::MAX);
        if self.written == 0 {
            left.min(ALIGNMENT - SECTOR_BYTES)
        } else if left < ALIGNMENT {
            left
        } else {
            left.min(SNAPSHOT_CHUNK_BYTES) / ALIGNMENT * ALIGNMENT
        }
    }

    fn write_part(&mut self) -> io::Result<()> {
        let at = BODY + self.written;
        if self.part.len().is_multiple_of(ALIGNMENT) {
            self.file.write_aside(at, self.part.bytes())?;
        } else {
            self.file.write_at(at, self.part.bytes())?;
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
    use quorate_types::{PART_ENTRY_BYTES, PARTS_HEAD_BYTES, PartsWriter};

    /// A body of `size` bytes, how many of them are its front, and the digest of the rest, which is one part behind its list.
    fn body(size: usize) -> (Vec<u8>, usize, [u8; 32]) {
        let content: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let mut parts = PartsWriter::default();
        let front = size / 3;
        let Some(part) = (size - front).checked_sub(PARTS_HEAD_BYTES + PART_ENTRY_BYTES) else {
            return (content, size, [0; 32]);
        };
        parts.loose(&content[size - part..]);
        let parts = parts.finish();
        let whole = [&content[..front], parts.bytes(), &content[size - part..]].concat();
        (whole, front, parts.digest())
    }

    #[test]
    fn pieces_of_any_size_make_the_same_file() {
        let most = 3 * SNAPSHOT_CHUNK_BYTES + 777;
        for size in [0, 1, 3583, 3584, 3585, 7680, 9000, most] {
            for piece in [1000, 4096, 2 * SNAPSHOT_CHUNK_BYTES] {
                let (content, front, digest) = body(size);
                let disk = SimDisk::new();
                let mut file = disk.create("a", BODY + size as u64).expect("room");
                let body_size = BodySize {
                    front: front as u64,
                    whole: size as u64,
                };
                let mut body = BodyWriter::new(&mut file, body_size);
                let mut read_back = BodyHash::new(body_size.front);
                for piece in content.chunks(piece) {
                    body.take(piece).expect("room");
                    read_back.update(piece);
                }
                let hash = body.finish().expect("room");
                assert_eq!(hash, *blake3::hash(&content[..front]).as_bytes());
                assert!(read_back.is_of(body_size, &hash, &digest));
                let mut read = vec![0; size];
                file.read_at(BODY, &mut read).expect("it is there");
                assert_eq!(read, content);
            }
        }
    }
}
