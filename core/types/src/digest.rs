//! What replicas compare of their snapshots.

/// Everything that a snapshot holds, as two hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Digest {
    /// Hash of the replicated state after a slot.
    pub replicated: u64,
    /// Hash of the objects' state by value after that slot.
    pub state: [u8; 32],
}
