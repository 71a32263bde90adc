//! A session's secret: what a client must know to use the session.
//!
//! The secret leaves the client only in an open or an attach, and the node that receives it keeps nothing but its hash. The
//! replicated table, the log and every snapshot hold the hash, which opens nothing. Neither type shows its bytes.

use std::fmt;

/// Separates hashes of secrets from every other hash.
const HASHED: &str = "quorate session secret: hash";

/// Separates the secret that follows from the hash of the one before.
const FOLLOWING: &str = "quorate session secret: next";

/// 128 random bits that a client draws for its session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; Secret::BYTES]);

/// What the group keeps of a [`Secret`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SecretHash([u8; Secret::BYTES]);

impl Secret {
    /// Bytes of a secret, and of its hash.
    pub const BYTES: usize = 16;

    /// The secret of these bytes, which must be random and known to one client only.
    #[must_use]
    pub const fn new(bytes: [u8; Secret::BYTES]) -> Secret {
        Secret(bytes)
    }

    /// Its bytes, for the frame that carries it.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Secret::BYTES] {
        &self.0
    }

    /// What the group keeps of it. The secret cannot be computed from its hash.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash(self.derived(HASHED))
    }

    /// The secret for the client's next session: nobody else can compute it, not even from the hash of this one.
    #[must_use]
    pub fn next(&self) -> Secret {
        Secret(self.derived(FOLLOWING))
    }

    fn derived(&self, context: &str) -> [u8; Secret::BYTES] {
        let whole = blake3::derive_key(context, &self.0);
        *whole.first_chunk().expect("32 bytes begin with 16")
    }
}

impl SecretHash {
    /// The hash of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Secret::BYTES]) -> SecretHash {
        SecretHash(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Secret::BYTES] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to tell sessions apart in a trace.
        write!(f, "secret hash {:02x}{:02x}..", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_hash_nor_the_next_secret_is_the_secret() {
        let secret = Secret::new([7; Secret::BYTES]);
        assert_ne!(secret.hash().bytes(), secret.bytes());
        assert_ne!(secret.next(), secret);
        assert_ne!(secret.next().bytes(), secret.hash().bytes());
        assert_eq!(secret.hash(), Secret::new([7; Secret::BYTES]).hash());
    }

    #[test]
    fn no_secret_is_printed() {
        let secret = Secret::new([0xab; Secret::BYTES]);
        let text = format!("{secret:?}");
        assert!(!text.contains("ab") && !text.contains("171"), "{text}");
    }
}
