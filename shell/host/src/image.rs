//! The encoded state of an object, and the digest by value of all of them.

use bytes::Bytes;
use quorate_types::{ObjectId, PartsList, PartsWriter};
use quorate_wire::image_head;
use std::sync::{Arc, OnceLock};

/// Bytes of a state that its images share, hashed once at most for all of them.
#[derive(Clone, Debug)]
pub struct SharedPiece(Arc<Hashed>);

#[derive(Debug)]
struct Hashed {
    bytes: Bytes,
    hash: OnceLock<[u8; 32]>,
}

impl SharedPiece {
    /// Shares these bytes. They are hashed when an image needs it.
    #[must_use]
    pub fn new(bytes: Bytes) -> SharedPiece {
        let hash = OnceLock::new();
        SharedPiece(Arc::new(Hashed { bytes, hash }))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    fn hash(&self) -> &[u8; 32] {
        let hashed = || *blake3::hash(&self.0.bytes).as_bytes();
        self.0.hash.get_or_init(hashed)
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Own(Bytes),
    Shared(SharedPiece),
}

impl Piece {
    fn bytes(&self) -> &Bytes {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(piece) => piece.bytes(),
        }
    }
}

/// An encoded state: pieces, front to back. They may be shared with the state itself, so that a large state is not in memory
/// twice while it is written.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// Invariant: none is empty.
    pieces: Vec<Piece>,
    /// Invariant: the sum over `pieces`.
    len: usize,
    /// Bytes of the pieces that are shared with the state. Invariant: at most `len`.
    shared: usize,
}

impl Image {
    /// Appends a piece. How such pieces are cut shows in no digest.
    pub fn push(&mut self, piece: Bytes) {
        self.append(Piece::Own(piece));
    }

    /// Appends a piece that is a part of the state itself: holding it takes memory only once the state has let go of it. It has
    /// a place of its own in the digest, so equal states share equal pieces.
    pub fn push_shared(&mut self, piece: &SharedPiece) {
        self.shared += piece.bytes().len();
        self.append(Piece::Shared(piece.clone()));
    }

    fn append(&mut self, piece: Piece) {
        if !piece.bytes().is_empty() {
            self.len += piece.bytes().len();
            self.pieces.push(piece);
        }
    }

    /// Appends all pieces of another image.
    pub(crate) fn append_all(&mut self, other: Image) {
        self.len += other.len;
        self.shared += other.shared;
        self.pieces.extend(other.pieces);
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
        self.pieces.iter().map(Piece::bytes)
    }

    /// The image in one piece: copied, unless it is one already.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        match &self.pieces[..] {
            [] => Bytes::new(),
            [piece] => piece.bytes().clone(),
            _ => self
                .pieces()
                .fold(Vec::with_capacity(self.len), joined)
                .into(),
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

fn joined(mut all: Vec<u8>, piece: &Bytes) -> Vec<u8> {
    all.extend_from_slice(piece);
    all
}

/// The list of the images' parts, as [`crate::HostEvent::Imaged`] tells it. Its digest is that by value of all objects: equal
/// states give equal digests on every replica. `images` ascend by object. What is shared with a state is a part of its own,
/// and hashed here only if it was in no image before.
#[must_use]
pub fn images_list(images: &[ObjectImage]) -> PartsList {
    let mut list = PartsWriter::default();
    for ObjectImage { object, image } in images {
        list.loose(&image_head(*object, image.len() as u64));
        for piece in &image.pieces {
            match piece {
                Piece::Own(bytes) => list.loose(bytes),
                Piece::Shared(piece) => list.part(piece.bytes().len() as u64, piece.hash()),
            }
        }
    }
    list.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(image: Image) -> [u8; 32] {
        let object = ObjectId(3);
        images_list(&[ObjectImage { object, image }]).digest()
    }

    #[test]
    fn the_digest_does_not_depend_on_how_an_image_is_cut() {
        let mut cut = Image::default();
        for piece in ["", "st", "a", "te"] {
            cut.push(Bytes::from_static(piece.as_bytes()));
        }
        let whole = Image::from(&b"state"[..]);
        assert_eq!(cut, whole);
        assert_eq!((cut.len(), cut.whole()), (5, whole.whole()));
        assert_eq!(digest(cut), digest(whole));
    }

    #[test]
    fn a_shared_piece_is_hashed_once_and_for_its_bytes() {
        let image = |piece: &SharedPiece| {
            let mut image = Image::default();
            image.push(Bytes::from_static(b"before"));
            image.push_shared(piece);
            image
        };
        let piece = SharedPiece::new(Bytes::from_static(b"state"));
        assert_eq!(image(&piece).whole(), b"beforestate"[..]);
        assert_eq!(piece.0.hash.get(), None, "an image alone hashes nothing");
        let first = digest(image(&piece));
        assert_eq!(piece.0.hash.get(), Some(blake3::hash(b"state").as_bytes()));
        assert_eq!(digest(image(&piece)), first);
        let equal = SharedPiece::new(Bytes::from_static(b"state"));
        assert_eq!(digest(image(&equal)), first);
        let other = SharedPiece::new(Bytes::from_static(b"stale"));
        assert_ne!(digest(image(&other)), first);
    }
}
