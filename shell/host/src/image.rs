//! The encoded state of an object, and the digest by value of all of them.

use bytes::Bytes;
use quorate_types::ObjectId;
use quorate_wire::image_head;

/// An encoded state: pieces, front to back. They may be shared with the state itself, so that a large state is not in memory
/// twice while it is written.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// Invariant: none is empty.
    pieces: Vec<Bytes>,
    /// Invariant: the sum over `pieces`.
    len: usize,
    /// Bytes of the pieces that are shared with the state. Invariant: at most `len`.
    shared: usize,
}

impl Image {
    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Appends a piece that is a part of the state itself: holding it takes memory only once the state has let go of it.
    pub fn push_shared(&mut self, piece: Bytes) {
        self.shared += piece.len();
        self.push(piece);
    }

    /// Bytes of all pieces that are shared with the state.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.shared
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the state takes no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, front to back.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// The image in one piece: copied, unless it is one already.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        match &self.pieces[..] {
            [] => Bytes::new(),
            [piece] => piece.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl<B: Into<Bytes>> From<B> for Image {
    fn from(bytes: B) -> Image {
        let mut image = Image::default();
        image.push(bytes.into());
        image
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        self.len == other.len && self.whole() == other.whole()
    }
}
impl Eq for Image {}

/// The encoded state of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectImage {
    /// The object that it belongs to.
    pub object: ObjectId,
    /// Its state; equal states have equal images.
    pub image: Image,
}

/// The digest by value of all objects, as [`crate::HostEvent::Imaged`] tells it: equal states give equal
/// digests on every replica. `images` ascend by object. It is the BLAKE3 of what follows the front of a snapshot, which is so
/// hashed once.
#[must_use]
pub fn images_digest(images: &[ObjectImage]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for ObjectImage { object, image } in images {
        hasher.update(&image_head(*object, image.len() as u64));
        for piece in image.pieces() {
            hasher.update(piece);
        }
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_does_not_depend_on_how_an_image_is_cut() {
        let mut cut = Image::default();
        for piece in ["", "st", "a", "te"] {
            cut.push(Bytes::from_static(piece.as_bytes()));
        }
        let whole = Image::from(&b"state"[..]);
        assert_eq!(cut, whole);
        assert_eq!((cut.len(), cut.whole()), (5, whole.whole()));
        let digest = |image| {
            let object = ObjectId(3);
            images_digest(&[ObjectImage { object, image }])
        };
        assert_eq!(digest(cut), digest(whole));
    }
}
