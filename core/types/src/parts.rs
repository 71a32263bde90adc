//! Bytes that are hashed in parts, so that a part that has not changed is not hashed again.
//!
//! A *list* says of each part, front to back, how long it is and what its BLAKE3 is: the number of parts (8 bytes, big-endian), then for
//! each its length (8 bytes, big-endian) and its hash (32). The digest of all parts is the BLAKE3 of the list. The hosts of objects make
//! lists, and whoever reads a snapshot checks it. Equal bytes cut into other parts have another digest.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes that say how many parts follow.
pub const PARTS_HEAD_BYTES: usize = 8;

/// Bytes that a list has for each part.
pub const PART_ENTRY_BYTES: usize = 40;

/// The parts of something, with the digest of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartsList {
    bytes: Bytes,
    digest: [u8; 32],
}

impl PartsList {
    /// The bytes of the list.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The digest of all parts.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

/// Makes a list, part by part.
#[derive(Clone, Default, Debug)]
pub struct PartsWriter {
    entries: BytesMut,
    /// Of the bytes since the last part that came with its hash; they become one part, however they were cut.
    loose: blake3::Hasher,
    loose_bytes: u64,
}

impl PartsWriter {
    /// Takes bytes that are hashed here, in one part with what comes before and after them.
    pub fn loose(&mut self, bytes: &[u8]) {
        self.loose.update(bytes);
        self.loose_bytes += bytes.len() as u64;
    }

    /// Takes a part of `bytes` bytes whose hash is known.
    pub fn part(&mut self, bytes: u64, hash: &[u8; 32]) {
        self.end_loose();
        self.entry(bytes, hash);
    }

    /// The list of all that came.
    #[must_use]
    pub fn finish(mut self) -> PartsList {
        self.end_loose();
        let count = self.entries.len() / PART_ENTRY_BYTES;
        let mut bytes = BytesMut::with_capacity(PARTS_HEAD_BYTES + self.entries.len());
        bytes.put_u64(count as u64);
        bytes.put_slice(&self.entries);
        PartsList {
            digest: *blake3::hash(&bytes).as_bytes(),
            bytes: bytes.freeze(),
        }
    }

    fn end_loose(&mut self) {
        if self.loose_bytes > 0 {
            let hash = *self.loose.finalize().as_bytes();
            self.entry(self.loose_bytes, &hash);
            self.loose.reset();
            self.loose_bytes = 0;
        }
    }

    fn entry(&mut self, bytes: u64, hash: &[u8; 32]) {
        self.entries.put_u64(bytes);
        self.entries.put_slice(hash);
    }
}

/// Reads a list and its parts, in pieces of any size, and compares each part with its hash.
#[derive(Clone, Default, Debug)]
pub struct PartsCheck {
    /// As much of the list as has come. It never has more bytes than came.
    list: Vec<u8>,
    /// Parts that were found right.
    right: u64,
    /// The part that comes, and how many of its bytes came.
    part: blake3::Hasher,
    part_bytes: u64,
    /// Where the part that comes begins, behind the list.
    part_begins: u64,
    is_wrong: bool,
}

impl PartsCheck {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut rest = self.take_list(bytes);
        while !rest.is_empty() && !self.is_wrong {
            let Some((length, hash)) = self.entry() else {
                // More bytes than the list has parts for.
                self.is_wrong = true;
                return;
            };
            let left = usize::try_from(length - self.part_bytes).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(left));
            self.part.update(now);
            self.part_bytes += now.len() as u64;
            rest = later;
            if self.part_bytes == length {
                self.is_wrong = length == 0 || self.part.finalize() != hash;
                self.part.reset();
                self.part_bytes = 0;
                if self.is_wrong {
                    return;
                }
                self.part_begins += length;
                self.right += 1;
            }
        }
    }

    /// Where the first part begins that is not as the list says, counted from the begin of the list.
    #[must_use]
    pub fn wrong_at(&self) -> Option<u64> {
        self.is_wrong
            .then(|| self.list.len() as u64 + self.part_begins)
    }

    /// The digest of all parts, if they are as the list says and nothing lacks.
    #[must_use]
    pub fn digest(&self) -> Option<[u8; 32]> {
        let is_whole = self.list_bytes()? == self.list.len() && self.count()? == self.right;
        (is_whole && !self.is_wrong && self.part_bytes == 0)
            .then(|| *blake3::hash(&self.list).as_bytes())
    }

    /// Takes of the next bytes those of the list, and returns the others.
    fn take_list<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let lacking = PARTS_HEAD_BYTES.saturating_sub(self.list.len());
        let (head, bytes) = bytes.split_at(bytes.len().min(lacking));
        self.list.extend_from_slice(head);
        let Some(whole) = self.list_bytes() else {
            // Unless only the head lacks bytes, it announces what no memory holds.
            self.is_wrong |= self.list.len() >= PARTS_HEAD_BYTES;
            return &[];
        };
        let (entries, rest) = bytes.split_at(bytes.len().min(whole - self.list.len()));
        self.list.extend_from_slice(entries);
        rest
    }

    fn count(&self) -> Option<u64> {
        let head = self.list.first_chunk::<PARTS_HEAD_BYTES>()?;
        Some(u64::from_be_bytes(*head))
    }

    /// Bytes of the whole list, once its head has come.
    fn list_bytes(&self) -> Option<usize> {
        let count = usize::try_from(self.count()?).ok()?;
        count
            .checked_mul(PART_ENTRY_BYTES)?
            .checked_add(PARTS_HEAD_BYTES)
    }

    /// Length and hash of the part that comes. The list is whole.
    fn entry(&self) -> Option<(u64, [u8; 32])> {
        let at = PARTS_HEAD_BYTES + usize::try_from(self.right).ok()? * PART_ENTRY_BYTES;
        let entry = self.list.get(at..at + PART_ENTRY_BYTES)?;
        let (length, hash) = entry.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*length), hash.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of three parts and its parts: bytes that were taken loosely around one with a hash of its own.
    fn written() -> (Vec<u8>, PartsList) {
        let mut writer = PartsWriter::default();
        let part = vec![7; 3000];
        writer.loose(b"be");
        writer.loose(b"fore");
        writer.part(3000, blake3::hash(&part).as_bytes());
        writer.loose(b"after");
        let list = writer.finish();
        let whole = [list.bytes(), &b"before"[..], &part, b"after"].concat();
        (whole, list)
    }

    fn digest_of(whole: &[u8], piece: usize) -> Option<[u8; 32]> {
        let mut check = PartsCheck::default();
        whole.chunks(piece).for_each(|bytes| check.update(bytes));
        check.digest()
    }

    #[test]
    fn what_was_written_has_its_digest_in_pieces_of_any_size() {
        let (whole, list) = written();
        assert_eq!(list.bytes().len(), PARTS_HEAD_BYTES + 3 * PART_ENTRY_BYTES);
        for piece in [1, 7, 40, 1000, whole.len()] {
            assert_eq!(digest_of(&whole, piece), Some(list.digest()), "{piece}");
        }
        let none = PartsWriter::default().finish();
        assert_eq!(digest_of(none.bytes(), 8), Some(none.digest()));
    }

    #[test]
    fn loose_bytes_are_one_part_however_they_were_cut() {
        let list = |cuts: &[&[u8]]| {
            let mut writer = PartsWriter::default();
            cuts.iter().for_each(|cut| writer.loose(cut));
            writer.finish()
        };
        assert_eq!(list(&[b"ab", b"", b"c"]), list(&[b"abc"]));
        assert_ne!(list(&[b"abd"]), list(&[b"abc"]));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        let (whole, list) = written();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_ne!(digest_of(&changed, 500), Some(list.digest()), "byte {at}");
            let part = at.checked_sub(list.bytes().len()).map(|at| match at {
                0..6 => 0,
                6..3006 => 6,
                _ => 3006,
            });
            if let Some(part) = part {
                let mut check = PartsCheck::default();
                check.update(&changed);
                let begins = list.bytes().len() as u64 + part;
                assert_eq!(check.wrong_at(), Some(begins), "byte {at}");
            }
            assert_eq!(digest_of(&whole[..at], 500), None, "cut at {at}");
        }
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(digest_of(&longer, 500), None);
        assert_eq!(digest_of(&[0xff; 100], 100), None, "no memory holds it");
    }
}
