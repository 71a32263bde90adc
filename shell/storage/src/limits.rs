//! Every bound of this crate with its reason. `StorageLimits` are those a node may choose; the rest are constants.

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

/// Smallest slice of the next segment that is filled with zeros beside a commit.
pub(crate) const PREFILL_BYTES_MIN: u64 = 64 << 10;

/// Sizes of a log that a node may choose. A log is opened with the sizes it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageLimits {
    /// Bytes of a segment file. Recovery holds one segment in memory; a multiple of `block_bytes`.
    pub segment_bytes: u64,
    /// Commits start at multiples of this, so that no write ever touches a block with acknowledged records. A multiple of 512;
    /// the page and physical sector size of common machines, 4096, is the default.
    pub block_bytes: u64,
    /// Largest record or base, in bytes.
    pub record_bytes_max: usize,
    /// When the next segment cannot be made and less than this is left, `room` says `Low`: the node takes no votes and no
    /// commands any more, and what is left is for promises.
    pub reserve_bytes: u64,
    /// Bytes that only a discard may use: it is what makes room again.
    pub discard_reserve_bytes: u64,
}

impl Default for StorageLimits {
    fn default() -> StorageLimits {
        StorageLimits {
            segment_bytes: 16 << 20,
            block_bytes: 4096,
            record_bytes_max: 8 << 20,
            reserve_bytes: 4 << 20,
            discard_reserve_bytes: 64 << 10,
        }
    }
}

impl StorageLimits {
    /// Small segments for tests and simulations, in which every sector is its own block.
    pub fn small() -> StorageLimits {
        StorageLimits {
            segment_bytes: 16 << 10,
            block_bytes: SECTOR_BYTES as u64,
            record_bytes_max: 4 << 10,
            reserve_bytes: 8 << 10,
            discard_reserve_bytes: 2 << 10,
        }
    }

    /// Refuses sizes that cannot work together.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        let block = self.block_bytes;
        let whole = block > 0
            && block.is_multiple_of(512)
            && block <= 64 << 10
            && self.segment_bytes.is_multiple_of(block);
        if !whole || self.segment_bytes > 1 << 30 {
            return Err(StorageError::Layout(
                "blocks of 512 bytes to 64 KiB, segments of whole blocks up to 1 GiB".into(),
            ));
        }
        let largest = PendingCommit::default().commit_bytes(1, self.record_bytes_max, block)
            + self.discard_reserve_bytes;
        if largest + segment::data_start(block) > self.segment_bytes {
            return Err(StorageError::Layout(
                "the largest record does not fit a segment".into(),
            ));
        }
        Ok(())
    }
}
