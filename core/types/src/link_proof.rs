//! How two nodes show each other who they are where no certificate does: by what both know and neither says.
//!
//! Members know the incarnations of all members, 64 random bits each, and send them to nobody. The key of a pair follows from
//! both incarnations. Each side proves that it knows the key with a hash over a nonce of either side, so a proof that was
//! heard before, or that was made for another pair or the other direction, proves nothing.

use crate::{ClusterId, Incarnation, NodeId};
use std::fmt;

/// Separates the keys of pairs from every other hash.
const PAIRED: &str = "quorate link: key of two nodes";

/// What two nodes know and nobody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkKey([u8; 32]);

/// Separates the keys of datagrams from every other hash.
const MULTICAST: &str = "quorate multicast: key of a leader";

/// What the members of a group know of a leader that multicasts, and nobody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DatagramKey([u8; 32]);

/// Random bytes, used once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce(pub [u8; Nonce::BYTES]);

/// What shows that its sender knows a [`LinkKey`]. Comparing two takes the same time whatever they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkProof(blake3::Hash);

/// Which end of a connection proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkSide {
    /// The node that has connected.
    Dials,
    /// The node that was connected to.
    Accepts,
}

impl LinkKey {
    /// The key of two nodes, whichever is named first.
    #[must_use]
    pub fn of(
        cluster: ClusterId,
        one: (NodeId, Incarnation),
        other: (NodeId, Incarnation),
    ) -> LinkKey {
        let (low, high) = if one.0 < other.0 {
            (one, other)
        } else {
            (other, one)
        };
        let mut hasher = blake3::Hasher::new_derive_key(PAIRED);
        hasher.update(&cluster.0.to_le_bytes());
        for (node, incarnation) in [low, high] {
            hasher.update(&node.0.to_le_bytes());
            hasher.update(&incarnation.0.to_le_bytes());
        }
        LinkKey(*hasher.finalize().as_bytes())
    }

    /// The proof of one side, for these nonces of both.
    #[must_use]
    pub fn proof(&self, side: LinkSide, dials: Nonce, accepts: Nonce) -> LinkProof {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(match side {
            LinkSide::Dials => b"dials",
            LinkSide::Accepts => b"accepts",
        });
        hasher.update(&dials.0);
        hasher.update(&accepts.0);
        LinkProof(hasher.finalize())
    }
}

impl DatagramKey {
    /// Bytes of what [`DatagramKey::seal`] returns.
    pub const SEAL_BYTES: usize = 16;

    /// The key of what a node multicasts.
    #[must_use]
    pub fn of(cluster: ClusterId, (node, incarnation): (NodeId, Incarnation)) -> DatagramKey {
        let mut hasher = blake3::Hasher::new_derive_key(MULTICAST);
        hasher.update(&cluster.0.to_le_bytes());
        hasher.update(&node.0.to_le_bytes());
        hasher.update(&incarnation.0.to_le_bytes());
        DatagramKey(*hasher.finalize().as_bytes())
    }

    /// What shows that a datagram is whole, and of somebody who knows the key.
    #[must_use]
    pub fn seal(&self, datagram: &[u8]) -> [u8; DatagramKey::SEAL_BYTES] {
        let whole = blake3::keyed_hash(&self.0, datagram);
        let first = whole.as_bytes().first_chunk();
        *first.expect("32 bytes begin with 16")
    }

    /// Whether that is so of this seal; takes the same time whatever it is.
    #[must_use]
    pub fn has_sealed(&self, datagram: &[u8], seal: &[u8; DatagramKey::SEAL_BYTES]) -> bool {
        let own = self.seal(datagram);
        let pairs = own.iter().zip(seal);
        pairs.fold(0, |found, (one, other)| found | (one ^ other)) == 0
    }
}

impl fmt::Debug for DatagramKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatagramKey(..)")
    }
}

impl Nonce {
    /// Bytes of a nonce.
    pub const BYTES: usize = 16;

    /// The next nonce of a node that has drawn `seed` and tells it to nobody.
    #[must_use]
    pub fn drawn(seed: &[u8; 32], number: u64) -> Nonce {
        let whole = blake3::keyed_hash(seed, &number.to_le_bytes());
        Nonce(
            *whole
                .as_bytes()
                .first_chunk()
                .expect("32 bytes begin with 16"),
        )
    }
}

impl LinkProof {
    /// Bytes of a proof.
    pub const BYTES: usize = 32;

    /// The proof of these bytes, as a peer sent it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LinkProof::BYTES]) -> LinkProof {
        LinkProof(blake3::Hash::from_bytes(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; LinkProof::BYTES] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey(..)")
    }
}

impl fmt::Debug for LinkProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkProof(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_cluster_its_pair_its_side_and_its_nonces_only() {
        let life = |node, incarnation| (NodeId(node), Incarnation(incarnation));
        let key = |one, other| LinkKey::of(ClusterId(7), one, other);
        let (dials, accepts) = (Nonce([1; 16]), Nonce([2; 16]));
        let own = key(life(1, 101), life(2, 102));
        assert_eq!(own, key(life(2, 102), life(1, 101)), "both ends compute it");
        let good = own.proof(LinkSide::Dials, dials, accepts);
        let others = [
            own.proof(LinkSide::Accepts, dials, accepts),
            own.proof(LinkSide::Dials, accepts, dials),
            own.proof(LinkSide::Dials, dials, Nonce([3; 16])),
            key(life(1, 101), life(3, 102)).proof(LinkSide::Dials, dials, accepts),
            key(life(1, 101), life(2, 103)).proof(LinkSide::Dials, dials, accepts),
            key(life(1, 102), life(2, 101)).proof(LinkSide::Dials, dials, accepts),
            LinkKey::of(ClusterId(8), life(1, 101), life(2, 102)).proof(
                LinkSide::Dials,
                dials,
                accepts,
            ),
        ];
        assert!(others.iter().all(|other| *other != good));
        assert_eq!(LinkProof::from_bytes(*good.bytes()), good);
    }

    #[test]
    fn no_nonce_is_drawn_twice() {
        let seed = [9; 32];
        assert_ne!(Nonce::drawn(&seed, 1), Nonce::drawn(&seed, 2));
        assert_ne!(Nonce::drawn(&seed, 1), Nonce::drawn(&[8; 32], 1));
    }
}
