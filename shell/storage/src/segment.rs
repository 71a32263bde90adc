//! Segment files: their names, their headers, and what the log remembers of each.
//!
//! There are two copies of a header, in two pages. Any node can read it, so that another node's directory is refused and not
//! treated as damaged. It also says where the previous segment ends: anything after that end was torn, and anything missing
//! before it is damage.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{ClusterId, NodeId};

use crate::error::StorageError;
use crate::limits::{SECTOR_BYTES, StorageLimits};
use crate::record::{CommitEntry, RecordKind};
use crate::sector::{HEAD_BYTES, Owner, Place, SectorFound, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"QUORLOG2";
/// The layout in which each commit began a page.
const MAGIC_BEFORE: &[u8; 8] = b"QUORLOG1";

pub(crate) fn name(segment: u32) -> String {
    format!("log-{segment:08x}")
}

/// The number in a segment's name.
pub(crate) fn number(name: &str) -> Option<u32> {
    hexadecimal(name.strip_prefix("log-")?)
}

/// Eight hexadecimal digits, as names of segments and spares end.
pub(crate) fn hexadecimal(digits: &str) -> Option<u32> {
    (digits.len() == 8)
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) segment: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) page_bytes: u64,
    /// Commits here have this number or higher.
    pub(crate) first_commit: u64,
    /// Where the log ends in the segment before.
    pub(crate) previous_end: u64,
}

impl Header {
    /// One copy, for `offset` of the file.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut sector = vec![0; SECTOR_BYTES];
        let body = &mut sector[HEAD_BYTES..];
        body[0..8].copy_from_slice(MAGIC);
        body[8..16].copy_from_slice(&self.cluster.0.to_le_bytes());
        body[16..18].copy_from_slice(&self.node.0.to_le_bytes());
        body[20..24].copy_from_slice(&self.segment.to_le_bytes());
        body[24..32].copy_from_slice(&self.segment_bytes.to_le_bytes());
        body[32..40].copy_from_slice(&self.block_bytes.to_le_bytes());
        body[40..48].copy_from_slice(&self.first_commit.to_le_bytes());
        body[48..56].copy_from_slice(&self.previous_end.to_le_bytes());
        body[56..64].copy_from_slice(&self.page_bytes.to_le_bytes());
        let place = Place {
            segment: self.segment,
            commit: self.first_commit,
            index: 0,
            data: 0,
            total: 1,
        };
        Owner::anyone().seal(&mut sector, place, offset);
        sector
    }

    /// The first good copy. The second is looked for at every sector, because the page size stands in the header.
    pub(crate) fn find(content: &[u8]) -> Result<Option<Header>, StorageError> {
        let sectors = content
            .chunks_exact(SECTOR_BYTES)
            .take(HEADER_SEARCH_SECTORS);
        for (index, sector) in sectors.enumerate() {
            let found = Owner::anyone().examine(sector, (index * SECTOR_BYTES) as u64);
            let SectorFound::Valid(Place { data: 0, .. }) = found else {
                continue;
            };
            let body = &sector[HEAD_BYTES..];
            if body.starts_with(MAGIC_BEFORE) {
                return Err(StorageError::Layout(
                    "a log of layout 1, in which every commit filled whole pages: start with the program that wrote it".into(),
                ));
            }
            if body.starts_with(MAGIC) {
                return Ok(Some(Header::decode(body)));
            }
        }
        Ok(None)
    }

    /// The copy at `offset` of the file, if it is as it was written.
    pub(crate) fn at(content: &[u8], offset: u64) -> Option<Header> {
        let from = usize::try_from(offset).ok()?;
        let sector = content.get(from..from + SECTOR_BYTES)?;
        let found = Owner::anyone().examine(sector, offset);
        let is_header = matches!(found, SectorFound::Valid(Place { data: 0, .. }));
        let body = &sector[HEAD_BYTES..];
        (is_header && body.starts_with(MAGIC)).then(|| Header::decode(body))
    }

    fn decode(body: &[u8]) -> Header {
        Header {
            cluster: ClusterId(u64_at(body, 8)),
            node: NodeId(u16_at(body, 16)),
            segment: u32_at(body, 20),
            segment_bytes: u64_at(body, 24),
            block_bytes: u64_at(body, 32),
            first_commit: u64_at(body, 40),
            previous_end: u64_at(body, 48),
            page_bytes: u64_at(body, 56),
        }
    }
}

/// The second copy lies one page behind the first; pages are not larger than 64 KiB.
pub(crate) const HEADER_SEARCH_SECTORS: usize = 129;

/// Where commits begin: behind the two pages of the header.
pub(crate) fn data_start(page_bytes: u64) -> u64 {
    2 * page_bytes
}

/// Bytes that one commit can have at most.
pub(crate) fn capacity(limits: &StorageLimits) -> u64 {
    limits.segment_bytes - data_start(limits.page_bytes)
}

/// Content of the list that a discard leaves: segments that exist and where the log ends in each. Without it, the end of a
/// segment whose successor is removed would be forgotten, and its torn tail taken for damage.
pub(crate) fn live_list<'a>(segments: impl Iterator<Item = (&'a u32, &'a Contents)>) -> Vec<u8> {
    let encode = |(number, contents): (&u32, &Contents)| {
        [&number.to_le_bytes()[..], &contents.end.to_le_bytes()].concat()
    };
    segments.flat_map(encode).collect()
}

/// Reads what `live_list` made.
pub(crate) fn live_from(bytes: &[u8]) -> BTreeMap<u32, u64> {
    bytes
        .chunks_exact(12)
        .map(|part| (u32_at(part, 0), u64_at(part, 4)))
        .collect()
}

/// Segments before `current` that nothing needs: every record is replaced by a base in a later one. `bases` has the slot and the
/// segment of the newest base of each group.
pub(crate) fn unneeded(
    segments: &BTreeMap<u32, Contents>,
    current: u32,
    bases: &BTreeMap<u32, (u64, u32)>,
) -> Vec<u32> {
    let mut gone = Vec::new();
    for (number, contents) in segments.range(..current) {
        let replaced = contents.slots.iter().all(|(group, slot)| {
            bases
                .get(group)
                .is_some_and(|(upto, segment)| slot <= upto && segment > number)
        });
        let noted = contents
            .repairs
            .iter()
            .all(|segment| !segments.contains_key(segment) || gone.contains(segment));
        if replaced && noted && contents.unknown.is_empty() {
            gone.push(*number);
        }
    }
    gone
}

/// Which life of the node began a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SegmentOrigin {
    /// An earlier one, with sizes of its own and perhaps with damage: its file is never written again.
    #[default]
    Earlier,
    /// This one: its file may become another segment once nothing of it is needed.
    This,
}

/// What the log remembers of a segment, to know when it is not needed any more.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Where the log ends in it; not kept for the segment being written.
    pub(crate) end: u64,
    /// Highest slot of each group.
    pub(crate) slots: BTreeMap<u32, u64>,
    /// Damage that names no record, and has not been repaired. Keeps the segment for ever.
    pub(crate) unknown: BTreeSet<u64>,
    /// Segments whose repairs are noted here.
    pub(crate) repairs: BTreeSet<u32>,
    /// Where its file came from decides what may become of it.
    pub(crate) origin: SegmentOrigin,
}

impl Contents {
    pub(crate) fn note(&mut self, group: u32, slot: u64) {
        let highest = self.slots.entry(group).or_insert(slot);
        *highest = slot.max(*highest);
    }
}

/// Adds a record that was committed in `segment`.
pub(crate) fn note(
    contents: &mut Contents,
    bases: &mut BTreeMap<u32, (u64, u32)>,
    segment: u32,
    entry: &CommitEntry,
) {
    match entry.kind {
        RecordKind::Record => contents.note(entry.group, entry.slot),
        RecordKind::Base => {
            contents.note(entry.group, entry.slot);
            let upto = bases
                .get(&entry.group)
                .map_or(entry.slot, |(upto, _)| entry.slot.max(*upto));
            bases.insert(entry.group, (upto, segment));
        }
        RecordKind::Live => {}
        RecordKind::Repaired => {
            contents.repairs.insert(entry.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        cluster: ClusterId(7),
        node: NodeId(1),
        segment: 3,
        segment_bytes: 16 << 10,
        block_bytes: 512,
        page_bytes: 4096,
        first_commit: 9,
        previous_end: 8192,
    };

    #[test]
    fn either_copy_of_a_header_gives_it_back() {
        let mut content = vec![0; 16 << 10];
        content[4096..4608].copy_from_slice(&HEADER.encode(4096));
        assert_eq!(Header::find(&content), Ok(Some(HEADER)));
        content[4100] ^= 1;
        assert_eq!(Header::find(&content), Ok(None));
    }

    #[test]
    fn a_header_of_the_layout_before_is_refused_and_says_so() {
        let mut sector = HEADER.encode(0);
        sector[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(MAGIC_BEFORE);
        let place = Place {
            segment: 3,
            commit: 9,
            index: 0,
            data: 0,
            total: 1,
        };
        Owner::anyone().seal(&mut sector, place, 0);
        let refused = Header::find(&sector).unwrap_err().to_string();
        assert!(refused.contains("layout 1"), "{refused}");
    }
}
