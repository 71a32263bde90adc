//! The digest of a snapshot, which replicas compare.

/// Two hashes that cover everything in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Digest {
    /// Hash of the replicated state after a slot.
    pub replicated: u64,
    /// Hash of the objects' state by value after that slot.
    pub state: [u8; 32],
}
