//! The head of a snapshot file: one sector that names what follows, with the hashes of it.

use quorate_types::{ClusterId, GroupId, Slot};

use crate::limits::SECTOR_BYTES;
use crate::sector::{u32_at, u64_at};
use crate::snapshot_body::BodySize;

const MAGIC: &[u8; 8] = b"QUORSNP3";

/// What heads of layout 1, in which one hash covered the whole body, and of layout 2, without lists of parts, began with.
const MAGICS_BEFORE: [&[u8; 8]; 2] = [b"QUORSNP1", b"QUORSNP2"];

/// What a snapshot file says of itself. The body follows at `SECTOR_BYTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    pub(crate) slot: Slot,
    /// The caller's digest of the state: that of the parts behind the front, if there are any.
    pub(crate) digest: [u8; 32],
    /// BLAKE3 of the front.
    pub(crate) hash: [u8; 32],
    /// Bytes of the body.
    pub(crate) size: BodySize,
    /// Bytes of it that are durable: all in a snapshot, fewer in one that is being received.
    pub(crate) received: u64,
}

impl FileHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; SECTOR_BYTES];
        out[4..12].copy_from_slice(MAGIC);
        out[12..16].copy_from_slice(&self.group.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.cluster.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.slot.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.size.whole.to_le_bytes());
        out[40..48].copy_from_slice(&self.received.to_le_bytes());
        out[48..80].copy_from_slice(&self.digest);
        out[80..112].copy_from_slice(&self.hash);
        out[112..120].copy_from_slice(&self.size.front.to_le_bytes());
        let checksum = crc32c::crc32c(&out[4..]);
        out[0..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(sector: &[u8]) -> Option<FileHead> {
        if sector.len() < SECTOR_BYTES || !sector[4..].starts_with(MAGIC) {
            return None;
        }
        let sector = &sector[..SECTOR_BYTES];
        let size = BodySize {
            front: u64_at(sector, 112),
            whole: u64_at(sector, 32),
        };
        let is_right = u32_at(sector, 0) == crc32c::crc32c(&sector[4..]);
        (is_right && size.front <= size.whole).then(|| FileHead {
            group: GroupId(u32_at(sector, 12)),
            cluster: ClusterId(u64_at(sector, 16)),
            slot: Slot(u64_at(sector, 24)),
            size,
            received: u64_at(sector, 40),
            digest: sector[48..80].try_into().expect("32 bytes"),
            hash: sector[80..112].try_into().expect("32 bytes"),
        })
    }
}

/// Whether a file with this first sector was written by a build that knew only a layout before.
pub(crate) fn is_of_layout_before(sector: &[u8]) -> bool {
    let is_of = |magic: &[u8; 8]| sector[4..].starts_with(magic);
    MAGICS_BEFORE.into_iter().any(is_of)
}

pub(crate) fn name(group: GroupId, slot: Slot) -> String {
    format!("snap-{:08x}-{:016x}", group.0, slot.0)
}

pub(crate) fn part_name(group: GroupId, slot: Slot) -> String {
    format!("part-{:08x}-{:016x}", group.0, slot.0)
}

/// Group and slot in the name of a snapshot, or of a part.
pub(crate) fn parse(name: &str, prefix: &str) -> Option<(GroupId, Slot)> {
    let (group, slot) = name.strip_prefix(prefix)?.split_once('-')?;
    let whole = group.len() == 8 && slot.len() == 16;
    whole
        .then(|| {
            Some((
                GroupId(u32::from_str_radix(group, 16).ok()?),
                Slot(u64::from_str_radix(slot, 16).ok()?),
            ))
        })
        .flatten()
}
