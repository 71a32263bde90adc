//! The layout of records in a commit: one after another in the data sectors, and listed again in index sectors at its end.
//!
//! The index costs one sector for 20 records. It names what damage took: the group and slot of a record are known even if its
//! data sector is damaged. Called by `Log` (writing) and `recovery` (reading).

use crate::limits::SECTOR_BYTES;
use crate::sector::{HEAD_BYTES, Owner, PAYLOAD_BYTES, Place, round_up, u32_at, u64_at};

/// Bytes of an entry: before each record, and in the index.
pub(crate) const ENTRY_BYTES: usize = 24;
const ENTRIES_PER_SECTOR: usize = PAYLOAD_BYTES / ENTRY_BYTES;

/// What a record is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// The caller's.
    Record,
    /// The caller's, and it stands for all before it of its group up to its slot.
    Base,
    /// The log's: the segments that exist before this one.
    Live,
    /// The log's: the caller has repaired a fault at a position.
    Repaired,
}

/// One record of a commit, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitEntry {
    /// Where in the commit's stream of records it begins (with its own entry).
    pub(crate) offset: u32,
    /// Bytes of the record after the entry.
    pub(crate) bytes: u32,
    pub(crate) group: u32,
    pub(crate) kind: RecordKind,
    pub(crate) slot: u64,
}

impl CommitEntry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let kind = match self.kind {
            RecordKind::Record => 1u32,
            RecordKind::Base => 2,
            RecordKind::Live => 3,
            RecordKind::Repaired => 4,
        };
        let mut out = [0; ENTRY_BYTES];
        out[0..4].copy_from_slice(&self.offset.to_le_bytes());
        out[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.group.to_le_bytes());
        out[12..16].copy_from_slice(&kind.to_le_bytes());
        out[16..24].copy_from_slice(&self.slot.to_le_bytes());
        out
    }

    /// `None` where the padding begins.
    fn decode(from: &[u8]) -> Option<CommitEntry> {
        let kind = match u32_at(from, 12) {
            1 => RecordKind::Record,
            2 => RecordKind::Base,
            3 => RecordKind::Live,
            4 => RecordKind::Repaired,
            _ => return None,
        };
        Some(CommitEntry {
            offset: u32_at(from, 0),
            bytes: u32_at(from, 4),
            group: u32_at(from, 8),
            kind,
            slot: u64_at(from, 16),
        })
    }

    fn end(&self) -> usize {
        self.offset as usize + ENTRY_BYTES + self.bytes as usize
    }
}

/// Records that wait for the next commit.
#[derive(Debug, Default)]
pub(crate) struct PendingCommit {
    stream: Vec<u8>,
    entries: Vec<CommitEntry>,
}

impl PendingCommit {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entries(&self) -> &[CommitEntry] {
        &self.entries
    }

    pub(crate) fn push(&mut self, kind: RecordKind, group: u32, slot: u64, bytes: &[u8]) {
        let entry = CommitEntry {
            offset: self.stream.len() as u32,
            bytes: bytes.len() as u32,
            group,
            kind,
            slot,
        };
        self.stream.extend_from_slice(&entry.encode());
        self.stream.extend_from_slice(bytes);
        self.entries.push(entry);
    }

    /// Drops the last record, which `push` has just added.
    pub(crate) fn pop(&mut self) {
        let entry = self.entries.pop().expect("called after `push`");
        self.stream.truncate(entry.offset as usize);
    }

    pub(crate) fn clear(&mut self) {
        self.stream.clear();
        self.entries.clear();
    }

    /// Bytes of a commit of what waits plus `more` records of `bytes` in all, in whole blocks.
    pub(crate) fn commit_bytes(&self, more: usize, bytes: usize, block: u64) -> u64 {
        let stream = self.stream.len() + bytes + more * ENTRY_BYTES;
        let (data, total) = sectors(stream, self.entries.len() + more);
        debug_assert!(data < total);
        round_up((total * SECTOR_BYTES) as u64, block)
    }

    /// Writes the commit into `out`, for `offset` of the segment.
    pub(crate) fn encode(
        &self,
        owner: Owner,
        segment: u32,
        commit: u64,
        offset: u64,
        block: u64,
        out: &mut Vec<u8>,
    ) {
        let (data, total) = sectors(self.stream.len(), self.entries.len());
        out.clear();
        out.resize(round_up((total * SECTOR_BYTES) as u64, block) as usize, 0);
        let (records, rest) = out.split_at_mut(data * SECTOR_BYTES);
        for (sector, part) in records
            .chunks_exact_mut(SECTOR_BYTES)
            .zip(self.stream.chunks(PAYLOAD_BYTES))
        {
            sector[HEAD_BYTES..HEAD_BYTES + part.len()].copy_from_slice(part);
        }
        for (sector, part) in rest
            .chunks_exact_mut(SECTOR_BYTES)
            .zip(self.entries.chunks(ENTRIES_PER_SECTOR))
        {
            for (entry, space) in part
                .iter()
                .zip(sector[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES))
            {
                space.copy_from_slice(&entry.encode());
            }
        }
        for (index, sector) in out.chunks_exact_mut(SECTOR_BYTES).take(total).enumerate() {
            let place = Place {
                segment,
                commit,
                index: index as u32,
                data: data as u32,
                total: total as u32,
            };
            owner.seal(sector, place, offset + (index * SECTOR_BYTES) as u64);
        }
    }
}

/// Data sectors and all sectors of a commit.
fn sectors(stream: usize, entries: usize) -> (usize, usize) {
    let data = stream.div_ceil(PAYLOAD_BYTES);
    (data, data + entries.div_ceil(ENTRIES_PER_SECTOR))
}

/// One thing read from a commit. `at` is its first byte, counted from the start of the commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A record as it was written.
    Whole {
        at: u64,
        entry: CommitEntry,
        bytes: Vec<u8>,
    },
    /// A damaged record, or, without an entry, an unknown number of them.
    Damaged { at: u64, entry: Option<CommitEntry> },
}

/// A commit of which some sectors may be damaged.
pub(crate) struct CommitReader<'a> {
    /// All sectors of the commit.
    pub(crate) content: &'a [u8],
    /// For each sector, whether it is as written.
    pub(crate) good: &'a [bool],
    /// How many sectors hold records; the others hold the index.
    pub(crate) data: usize,
}

impl CommitReader<'_> {
    /// Everything in the commit, in the order in which it was appended.
    pub(crate) fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        let mut at = 0;
        let mut sector = self.data;
        while sector < self.good.len() {
            if self.good[sector] {
                for entry in self.index_entries(sector) {
                    at = entry.end();
                    items.push(self.item(entry));
                }
                sector += 1;
                continue;
            }
            while sector < self.good.len() && !self.good[sector] {
                sector += 1;
            }
            let stop =
                (sector < self.good.len()).then(|| self.index_entries(sector)[0].offset as usize);
            self.walk(at, stop, &mut items);
        }
        items
    }

    /// Goes from record to record without the index, from `at` to `stop` or the end.
    fn walk(&self, mut at: usize, stop: Option<usize>, items: &mut Vec<Item>) {
        let end = stop.unwrap_or(self.data * PAYLOAD_BYTES);
        while at + ENTRY_BYTES <= end {
            let Some(head) = self.read(at, ENTRY_BYTES) else {
                items.push(Item::Damaged {
                    at: position(at),
                    entry: None,
                });
                return;
            };
            let Some(entry) = CommitEntry::decode(&head) else {
                return;
            };
            items.push(self.item(entry));
            at = entry.end();
        }
    }

    fn item(&self, entry: CommitEntry) -> Item {
        let at = position(entry.offset as usize);
        match self.read(entry.offset as usize, ENTRY_BYTES + entry.bytes as usize) {
            Some(mut bytes) if CommitEntry::decode(&bytes) == Some(entry) => {
                bytes.drain(..ENTRY_BYTES);
                Item::Whole { at, entry, bytes }
            }
            _ => Item::Damaged {
                at,
                entry: Some(entry),
            },
        }
    }

    /// Bytes of the stream, if all sectors they lie in are good.
    fn read(&self, at: usize, bytes: usize) -> Option<Vec<u8>> {
        let (first, end) = (at / PAYLOAD_BYTES, (at + bytes).div_ceil(PAYLOAD_BYTES));
        if end > self.data || !self.good[first..end].iter().all(|good| *good) {
            return None;
        }
        let mut out = Vec::with_capacity((end - first) * PAYLOAD_BYTES);
        for sector in first..end {
            out.extend_from_slice(
                &self.content[sector * SECTOR_BYTES + HEAD_BYTES..(sector + 1) * SECTOR_BYTES],
            );
        }
        let skip = at - first * PAYLOAD_BYTES;
        out.drain(..skip);
        out.truncate(bytes);
        Some(out)
    }

    fn index_entries(&self, sector: usize) -> Vec<CommitEntry> {
        let payload =
            &self.content[sector * SECTOR_BYTES + HEAD_BYTES..(sector + 1) * SECTOR_BYTES];
        payload
            .chunks_exact(ENTRY_BYTES)
            .map_while(CommitEntry::decode)
            .collect()
    }
}

/// Where byte `at` of the stream lies, from the start of the commit.
fn position(at: usize) -> u64 {
    (at / PAYLOAD_BYTES * SECTOR_BYTES + HEAD_BYTES + at % PAYLOAD_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use quorate_types::{ClusterId, NodeId};

    use super::*;

    fn commit(records: usize) -> (PendingCommit, Vec<u8>) {
        let mut pending = PendingCommit::default();
        for number in 0..records {
            pending.push(
                RecordKind::Record,
                1,
                number as u64,
                &vec![number as u8; 60 + number * 13],
            );
        }
        let mut out = Vec::new();
        pending.encode(Owner::new(ClusterId(1), NodeId(2)), 1, 1, 0, 512, &mut out);
        (pending, out)
    }

    fn read(pending: &PendingCommit, content: &[u8], bad: &[usize]) -> Vec<Item> {
        let (data, total) = sectors(pending.stream.len(), pending.entries.len());
        let good: Vec<bool> = (0..total).map(|sector| !bad.contains(&sector)).collect();
        CommitReader {
            content,
            good: &good,
            data,
        }
        .items()
    }

    #[test]
    fn a_commit_gives_back_its_records_in_order_with_or_without_its_index() {
        let (pending, content) = commit(45);
        let (data, total) = sectors(pending.stream.len(), pending.entries.len());
        assert_eq!(total - data, 3);
        for bad in [
            vec![],
            vec![data],
            vec![data + 1],
            vec![data + 2],
            vec![data, data + 1, data + 2],
        ] {
            let items = read(&pending, &content, &bad);
            assert_eq!(items.len(), 45, "bad {bad:?}");
            for (number, item) in items.iter().enumerate() {
                let Item::Whole { entry, bytes, .. } = item else {
                    panic!("{item:?}")
                };
                assert_eq!(
                    (entry.slot, bytes),
                    (number as u64, &vec![number as u8; 60 + number * 13])
                );
            }
        }
    }

    #[test]
    fn a_damaged_data_sector_names_its_records_by_the_index() {
        let (pending, content) = commit(45);
        let (data, _) = sectors(pending.stream.len(), pending.entries.len());
        for bad in 0..data {
            let items = read(&pending, &content, &[bad]);
            assert_eq!(items.len(), 45);
            for (number, item) in items.iter().enumerate() {
                let entry = pending.entries[number];
                let touched = entry.offset as usize / PAYLOAD_BYTES <= bad
                    && bad <= (entry.end() - 1) / PAYLOAD_BYTES;
                match item {
                    Item::Whole { entry: found, .. } => assert!(!touched && *found == entry),
                    Item::Damaged { entry: found, .. } => assert!(touched && *found == Some(entry)),
                }
            }
        }
    }

    #[test]
    fn damage_to_index_and_data_leaves_an_unknown_stretch_and_never_a_wrong_record() {
        let (pending, content) = commit(45);
        let (data, _) = sectors(pending.stream.len(), pending.entries.len());
        for bad in 0..data {
            let items = read(&pending, &content, &[bad, data + 1]);
            let mut lost = [false; 45];
            let mut seen = 0;
            for item in &items {
                match item {
                    Item::Whole { entry, bytes, .. } => {
                        assert_eq!(
                            *bytes,
                            vec![entry.slot as u8; 60 + entry.slot as usize * 13]
                        );
                        seen += 1;
                    }
                    Item::Damaged {
                        entry: Some(entry), ..
                    } => lost[entry.slot as usize] = true,
                    Item::Damaged { entry: None, .. } => seen += 0,
                }
            }
            let unknown = items
                .iter()
                .any(|item| matches!(item, Item::Damaged { entry: None, .. }));
            assert!(unknown || seen + lost.iter().filter(|lost| **lost).count() == 45);
        }
    }
}
