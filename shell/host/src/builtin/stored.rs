//! Values as maps keep them: large ones are shared with images, and hashed once.

use crate::image::{Image, SharedPiece};
use bytes::{BufMut, Bytes, BytesMut};

/// Values from this size on are shared with the image instead of copied into it. Replicas must agree on it, because each is a
/// part of its own in the digest.
pub(super) const SHARE_MIN: usize = 4 << 10;

/// Bytes of a piece of the image that holds smaller ones.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A value, and for a large one its hash.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    Small(Bytes),
    Large(SharedPiece),
}

impl Stored {
    /// As it came.
    pub(super) fn bytes(&self) -> &Bytes {
        match self {
            Stored::Small(bytes) => bytes,
            Stored::Large(piece) => piece.bytes(),
        }
    }

    /// Adds it to an image whose last piece is being written.
    pub(super) fn put(&self, out: &mut BytesMut, image: &mut Image) {
        match self {
            Stored::Large(piece) => {
                image.push(out.split().freeze());
                image.push_shared(piece);
            }
            Stored::Small(bytes) => {
                out.put_slice(bytes);
                if out.len() >= PIECE_BYTES {
                    image.push(out.split().freeze());
                }
            }
        }
    }
}

impl From<Bytes> for Stored {
    fn from(bytes: Bytes) -> Stored {
        match bytes.len() >= SHARE_MIN {
            true => Stored::Large(SharedPiece::new(bytes)),
            false => Stored::Small(bytes),
        }
    }
}
