//! Every bound of this crate with its reason. `StorageLimits` are those a node may choose; the rest are constants.

use quorate_types::NodeId;

use crate::error::StorageError;
use crate::record::PendingCommit;
use crate::segment;

/// Bytes of a sector: the unit that a disk writes wholly or not at all, and the unit that carries a checksum.
pub const SECTOR_BYTES: usize = 512;

/// Snapshots kept for each group besides the agreed one: the newest, and the one before in case the newest is damaged.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Bytes of one snapshot write: large enough to be cheap, small enough that commits get their turn at the device.
pub const SNAPSHOT_CHUNK_BYTES: usize = 1 << 20;

/// Received bytes after which a partial snapshot notes how far it is: what a restart downloads again at most.
pub const RECEIVED_NOTE_BYTES: u64 = 4 << 20;

/// Requests that may wait for the log thread: far above what one commit gathers; beyond it the node is told to wait.
pub const WRITER_REQUESTS_MAX: usize = 4096;

/// Bytes that may wait for the log thread: bounds memory when the disk is slow.
pub const WRITER_BYTES_MAX: usize = 64 << 20;

/// Commit numbers that an opening leaves out when anything in the log is damaged: more than damage can take, as this many tries to
/// write take days; few enough that a log can be opened so millions of times.
pub(crate) const COMMITS_OVER_DAMAGE: u64 = 1 << 40;

/// Segments that may wait for their removal: far more than one trim leaves. Beyond it the log thread waits, so that a file system
/// that removes more slowly than the log grows is not filled by what nobody needs.
pub(crate) const REMOVALS_MAX: usize = 1024;

/// Milliseconds between two tries to find room on a full disk: quick for a person, nothing for a processor.
pub const FULL_RETRY_MS: u64 = 200;

/// Bytes of the next segment that are filled with zeros at once: few enough that a commit finds the device free soon.
pub(crate) const PREFILL_BYTES: u64 = 1 << 20;

/// Jobs for the next segment that are under way: there is one next segment.
pub(crate) const PREPARATIONS_MAX: usize = 1;

/// Trimmed segments that are kept to become the next ones: what a group writes between two trims, so that it neither makes nor
/// removes files. 128 MiB.
pub(crate) const RECYCLED_MAX: usize = 8;

/// Bytes that a backup says about its group: names, classes and arguments of its first objects.
pub(crate) const BACKUP_ABOUT_MAX: usize = 16 << 20;

/// Bytes of a backup before its list of parts, which are in memory: sessions with the replies that are kept for clients, whose bytes
/// are bounded far below.
pub(crate) const BACKUP_FRONT_MAX: u64 = 1 << 30;

/// Lost records of one file that a scrub names: enough to see what was hit. The rest is counted.
pub(crate) const FINDINGS_MAX: usize = 16;

/// Sizes of a log that a node may choose. A log is opened with the sizes it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageLimits {
    /// Bytes of a segment file. Recovery holds one segment in memory; a multiple of `page_bytes`.
    pub segment_bytes: u64,
    /// Commits start at multiples of this. A multiple of 512, which is the default: a sector with acknowledged records is never
    /// part of a later commit. 4096 for a disk that may lose a whole physical sector when power fails during a write.
    pub block_bytes: u64,
    /// The unit in which the system caches files; a multiple of `block_bytes`. The two copies of a header are in separate pages,
    /// and a commit fills its last page with zeros, so that the system never reads a page before it writes it.
    pub page_bytes: u64,
    /// Largest record or base, in bytes.
    pub record_bytes_max: usize,
    /// When the next segment cannot be made and less than this is left, `room` says `Low`: the node takes no votes and no
    /// commands any more, and what is left is for promises.
    pub reserve_bytes: u64,
    /// Below this many free bytes on the disk, `room` says `Scarce`, and trimmed segments are not kept: enough for the next segments
    /// and a snapshot until a trim has made room.
    pub scarce_bytes: u64,
    /// Bytes that only a discard may use: it is what makes room again.
    pub discard_reserve_bytes: u64,
}

impl Default for StorageLimits {
    fn default() -> StorageLimits {
        StorageLimits {
            segment_bytes: 16 << 20,
            block_bytes: SECTOR_BYTES as u64,
            page_bytes: 4096,
            record_bytes_max: 8 << 20,
            reserve_bytes: 4 << 20,
            scarce_bytes: 40 << 20,
            discard_reserve_bytes: 64 << 10,
        }
    }
}

impl StorageLimits {
    /// Small segments for tests and simulations, in which every sector is a page.
    pub fn small() -> StorageLimits {
        StorageLimits {
            segment_bytes: 16 << 10,
            block_bytes: SECTOR_BYTES as u64,
            page_bytes: SECTOR_BYTES as u64,
            record_bytes_max: 4 << 10,
            reserve_bytes: 8 << 10,
            scarce_bytes: 40 << 10,
            discard_reserve_bytes: 2 << 10,
        }
    }

    /// The sizes of node `node`. Logs of one group grow alike; with segments of different sizes their nodes begin new ones at
    /// different times, so that no call waits for all of them.
    pub fn of_node(node: NodeId) -> StorageLimits {
        let limits = StorageLimits::default();
        let shorter = u64::from(node.0 % 8) * (limits.segment_bytes / 32);
        StorageLimits {
            segment_bytes: limits.segment_bytes - shorter,
            ..limits
        }
    }

    /// Bytes that the smallest commit takes in the log: one sector of records and one of their index, in whole blocks.
    pub fn commit_bytes_min(&self) -> u64 {
        PendingCommit::default().commit_bytes(1, 0, self.block_bytes)
    }

    /// Refuses sizes that cannot work together.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        let (block, page) = (self.block_bytes, self.page_bytes);
        let whole = block > 0
            && block.is_multiple_of(512)
            && page.is_multiple_of(block)
            && (1..=64 << 10).contains(&page)
            && self.segment_bytes.is_multiple_of(page);
        if !whole || self.segment_bytes > 1 << 30 {
            return Err(StorageError::Layout(
                "blocks of whole sectors of 512 bytes, pages of whole blocks up to 64 KiB, segments of whole pages up to 1 GiB"
                    .into(),
            ));
        }
        let largest = PendingCommit::default().commit_bytes(1, self.record_bytes_max, block)
            + self.discard_reserve_bytes;
        if largest + segment::data_start(page) > self.segment_bytes {
            return Err(StorageError::Layout(
                "the largest record does not fit a segment".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_begin_their_segments_at_different_times() {
        for first in 0..100 {
            let sizes: Vec<u64> = (first..first + 3)
                .map(|node| {
                    let limits = StorageLimits::of_node(NodeId(node));
                    limits.check().expect("sizes that work together");
                    limits.segment_bytes - segment::data_start(limits.page_bytes)
                })
                .collect();
            for rolls in 1..8 {
                let ends: Vec<u64> = sizes.iter().map(|bytes| bytes * rolls).collect();
                let apart = |a: u64, b: u64| a.abs_diff(b) >= 512 << 10;
                assert!(
                    apart(ends[0], ends[1]) && apart(ends[1], ends[2]) && apart(ends[0], ends[2]),
                    "node {first}, segment {rolls}"
                );
            }
        }
    }
}
