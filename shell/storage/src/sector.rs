//! The sector: 512 bytes that contain their own position. Everything that the log writes consists of sectors.
//!
//! The checksum covers the cluster, the node and the position in the file too, so a sector that a disk wrote to or read from a
//! wrong place, or that was copied from another node, is wrong, not merely old. Layout: docs/storage.md.

use quorate_types::{ClusterId, NodeId};

use crate::limits::SECTOR_BYTES;

/// Bytes of a sector before its payload.
pub(crate) const HEAD_BYTES: usize = 32;
/// Bytes of payload in a sector.
pub(crate) const PAYLOAD_BYTES: usize = SECTOR_BYTES - HEAD_BYTES;
/// Layout version 1; never zero, so that a written sector is never taken for an absent one.
const MARK: u32 = 0x5130_0001;

/// Where a sector belongs: its place in its commit, and the commit's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) commit: u64,
    /// Position among the sectors of the commit: first those with records, then those with the index.
    pub(crate) index: u32,
    /// Sectors with records; none in the header of a segment.
    pub(crate) data: u32,
    /// Sectors of the commit.
    pub(crate) total: u32,
}

/// What is found where a sector should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectorFound {
    /// Never written.
    Absent,
    /// Written, and not as it was: damage.
    Wrong,
    /// As written.
    Valid(Place),
}

/// Whose sectors these are; mixed into every checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    seed: u32,
}

impl Owner {
    pub(crate) fn new(cluster: ClusterId, node: NodeId) -> Owner {
        let seed = crc32c::crc32c(&cluster.0.to_le_bytes());
        Owner {
            seed: crc32c::crc32c_append(seed, &node.0.to_le_bytes()),
        }
    }

    /// No one in particular: for headers, which name their owner and must be readable by others to be refused.
    pub(crate) fn anyone() -> Owner {
        Owner { seed: 0 }
    }

    fn checksum(self, offset: u64, sector: &[u8]) -> u32 {
        let seed = crc32c::crc32c_append(self.seed, &offset.to_le_bytes());
        crc32c::crc32c_append(seed, &sector[4..])
    }

    /// Writes the head of `sector`, whose payload is complete, for `offset` of its file.
    pub(crate) fn seal(self, sector: &mut [u8], place: Place, offset: u64) {
        assert_eq!(sector.len(), SECTOR_BYTES, "sectors have one size");
        sector[4..8].copy_from_slice(&MARK.to_le_bytes());
        sector[8..12].copy_from_slice(&place.segment.to_le_bytes());
        sector[12..20].copy_from_slice(&place.commit.to_le_bytes());
        sector[20..24].copy_from_slice(&place.index.to_le_bytes());
        sector[24..28].copy_from_slice(&place.data.to_le_bytes());
        sector[28..32].copy_from_slice(&place.total.to_le_bytes());
        let checksum = self.checksum(offset, sector);
        sector[0..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Says what `sector`, read from `offset` of a segment file, is.
    pub(crate) fn examine(self, sector: &[u8], offset: u64) -> SectorFound {
        assert_eq!(sector.len(), SECTOR_BYTES, "sectors have one size");
        if sector.iter().all(|byte| *byte == 0) {
            return SectorFound::Absent;
        }
        if u32_at(sector, 0) != self.checksum(offset, sector) || u32_at(sector, 4) != MARK {
            return SectorFound::Wrong;
        }
        let place = Place {
            segment: u32_at(sector, 8),
            commit: u64_at(sector, 12),
            index: u32_at(sector, 20),
            data: u32_at(sector, 24),
            total: u32_at(sector, 28),
        };
        if place.index < place.total && place.data < place.total {
            SectorFound::Valid(place)
        } else {
            SectorFound::Wrong
        }
    }
}

/// Rounds `bytes` up to a multiple of `unit`.
pub(crate) fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.div_ceil(unit) * unit
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        segment: 3,
        commit: 9,
        index: 1,
        data: 3,
        total: 4,
    };

    fn sealed() -> Vec<u8> {
        let mut sector = vec![7; SECTOR_BYTES];
        Owner::new(ClusterId(1), NodeId(2)).seal(&mut sector, PLACE, 1024);
        sector
    }

    #[test]
    fn a_sealed_sector_is_valid_at_its_place_for_its_owner_only() {
        let sector = sealed();
        assert_eq!(
            Owner::new(ClusterId(1), NodeId(2)).examine(&sector, 1024),
            SectorFound::Valid(PLACE)
        );
        assert_eq!(
            Owner::new(ClusterId(1), NodeId(2)).examine(&sector, 1536),
            SectorFound::Wrong
        );
        assert_eq!(
            Owner::new(ClusterId(1), NodeId(3)).examine(&sector, 1024),
            SectorFound::Wrong
        );
        assert_eq!(
            Owner::new(ClusterId(5), NodeId(2)).examine(&sector, 1024),
            SectorFound::Wrong
        );
    }

    #[test]
    fn any_single_flipped_bit_makes_a_sector_wrong() {
        for bit in 0..SECTOR_BYTES * 8 {
            let mut sector = sealed();
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Owner::new(ClusterId(1), NodeId(2)).examine(&sector, 1024),
                SectorFound::Wrong,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn zeros_are_absent() {
        assert_eq!(
            Owner::new(ClusterId(1), NodeId(2)).examine(&[0; SECTOR_BYTES], 0),
            SectorFound::Absent
        );
    }
}
