//! The encoded state of an object, and the digest by value of all of them.

use bytes::Bytes;
use quorate_types::ObjectId;

/// The encoded state of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectImage {
    /// The object that it belongs to.
    pub object: ObjectId,
    /// Its state; equal states have equal images.
    pub image: Bytes,
}

/// The digest by value of all objects, as [`crate::HostEvent::Imaged`] tells it: equal states give equal
/// digests on every replica. `images` ascend by object.
#[must_use]
pub fn images_digest(images: &[ObjectImage]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for ObjectImage { object, image } in images {
        hasher.update(&object.0.to_be_bytes());
        hasher.update(&(image.len() as u64).to_be_bytes());
        hasher.update(image);
    }
    *hasher.finalize().as_bytes()
}
