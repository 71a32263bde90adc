//! What a node remembers of its peers over restarts: the starts it has seen, and how far their logs had come.
//!
//! There are two checksummed copies, like those of the identity. If both are damaged or missing, only other nodes detect old
//! copies of the peers' directories. Called by `DataDirectory` and the thread that writes snapshots.

use quorate_types::{Incarnation, NodeId, ViewNumber};

use crate::copies::Copies;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::SECTOR_BYTES;
use crate::sector::{round_up, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"QUORPEE2";
const HEAD_BYTES: usize = 24;
const ENTRY_BYTES: usize = 64;
pub(crate) const COPIES: Copies = Copies {
    names: ["peers-a", "peers-b"],
    new: "peers-new",
    version,
};

/// One peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// Which node.
    pub node: NodeId,
    /// The incarnation that the rest is about.
    pub incarnation: Incarnation,
    /// The newest start seen: its boot, and a number that this start drew.
    pub newest: (u64, u64),
    /// The newest start seen that could vote.
    pub voting: (u64, u64),
    /// The highest commit seen of a start that could vote.
    pub commit: u64,
    /// The newest view seen from which on it remembers its votes.
    pub since: ViewNumber,
}

impl PeerMemory {
    /// What is remembered of each peer; empty when nothing can be read.
    pub fn load<D: Disk>(disk: &D) -> Vec<PeerMemory> {
        let newest = COPIES.newest(COPIES.read(disk));
        newest.map_or(Vec::new(), |content| decode(&content))
    }

    /// Replaces what is remembered.
    pub fn store<D: Disk>(peers: &[PeerMemory], disk: &D) -> Result<(), StorageError> {
        COPIES.store(disk, |version| encode(peers, version))
    }
}

/// What a whole copy says.
pub(crate) fn read(content: &[u8]) -> Option<Vec<PeerMemory>> {
    version(content).map(|_| decode(content))
}

fn encode(peers: &[PeerMemory], version: u64) -> Vec<u8> {
    let bytes = round_up(
        (HEAD_BYTES + ENTRY_BYTES * peers.len()) as u64,
        SECTOR_BYTES as u64,
    );
    let mut out = vec![0; bytes as usize];
    out[4..12].copy_from_slice(MAGIC);
    out[12..14].copy_from_slice(&(peers.len() as u16).to_le_bytes());
    out[16..24].copy_from_slice(&version.to_le_bytes());
    for (peer, entry) in peers
        .iter()
        .zip(out[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES))
    {
        let numbers = [
            u64::from(peer.node.0),
            peer.incarnation.0,
            peer.newest.0,
            peer.newest.1,
            peer.voting.0,
            peer.voting.1,
            peer.commit,
            peer.since.0,
        ];
        for (number, field) in numbers.into_iter().zip(entry.chunks_exact_mut(8)) {
            field.copy_from_slice(&number.to_le_bytes());
        }
    }
    let checksum = crc32c::crc32c(&out[4..]);
    out[0..4].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn version(content: &[u8]) -> Option<u64> {
    let is_whole = content.len() >= SECTOR_BYTES
        && content[4..].starts_with(MAGIC)
        && u32_at(content, 0) == crc32c::crc32c(&content[4..])
        && HEAD_BYTES + ENTRY_BYTES * usize::from(u16_at(content, 12)) <= content.len();
    is_whole.then(|| u64_at(content, 16))
}

fn decode(content: &[u8]) -> Vec<PeerMemory> {
    let count = usize::from(u16_at(content, 12));
    let entries = content[HEAD_BYTES..].chunks_exact(ENTRY_BYTES).take(count);
    entries
        .map(|entry| PeerMemory {
            node: NodeId(u16_at(entry, 0)),
            incarnation: Incarnation(u64_at(entry, 8)),
            newest: (u64_at(entry, 16), u64_at(entry, 24)),
            voting: (u64_at(entry, 32), u64_at(entry, 40)),
            commit: u64_at(entry, 48),
            since: ViewNumber(u64_at(entry, 56)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn what_is_remembered_of_many_peers_comes_back_and_survives_one_damaged_copy() {
        let peers: Vec<PeerMemory> = (0..40)
            .map(|node| PeerMemory {
                node: NodeId(node),
                incarnation: Incarnation(1 << 60),
                newest: (u64::from(node) + 3, 7),
                voting: (2, 6),
                commit: 9_000,
                since: ViewNumber(4),
            })
            .collect();
        let disk = SimDisk::new();
        assert_eq!(PeerMemory::load(&disk), []);
        PeerMemory::store(&peers[..3], &disk).unwrap();
        PeerMemory::store(&peers, &disk).unwrap();
        assert_eq!(PeerMemory::load(&disk), peers);
        disk.flip("peers-a", 100, 1);
        assert_eq!(PeerMemory::load(&disk), peers);
        disk.flip("peers-b", 100, 1);
        assert_eq!(PeerMemory::load(&disk), []);
    }
}
