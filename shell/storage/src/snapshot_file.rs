//! The head of a snapshot file: one sector that names what follows, with the hash of it.

use quorate_types::{ClusterId, GroupId, Slot};

use crate::limits::SECTOR_BYTES;
use crate::sector::{u32_at, u64_at};

const MAGIC: &[u8; 8] = b"QUORSNP1";

/// What a snapshot file says of itself. The body follows at `SECTOR_BYTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
    pub(crate) slot: Slot,
    /// The caller's digest of the state.
    pub(crate) digest: [u8; 32],
    /// BLAKE3 of the body.
    pub(crate) hash: [u8; 32],
    /// Bytes of the whole body.
    pub(crate) bytes: u64,
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
        out[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        out[40..48].copy_from_slice(&self.received.to_le_bytes());
        out[48..80].copy_from_slice(&self.digest);
        out[80..112].copy_from_slice(&self.hash);
        let checksum = crc32c::crc32c(&out[4..]);
        out[0..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(sector: &[u8]) -> Option<FileHead> {
        if sector.len() < SECTOR_BYTES || !sector[4..].starts_with(MAGIC) {
            return None;
        }
        let sector = &sector[..SECTOR_BYTES];
        (u32_at(sector, 0) == crc32c::crc32c(&sector[4..])).then(|| FileHead {
            group: GroupId(u32_at(sector, 12)),
            cluster: ClusterId(u64_at(sector, 16)),
            slot: Slot(u64_at(sector, 24)),
            bytes: u64_at(sector, 32),
            received: u64_at(sector, 40),
            digest: sector[48..80].try_into().expect("32 bytes"),
            hash: sector[80..112].try_into().expect("32 bytes"),
        })
    }
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
