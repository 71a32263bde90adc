//! What a snapshot says, once its bytes are known to be as they were written.

use super::VerifiedSnapshot;
use bytes::Bytes;
use quorate_replica::SnapshotCore;
use quorate_storage::{FlawKind, ScrubbedFile, SnapshotScrub};
use quorate_types::{Digest, ObjectId, PART_ENTRY_BYTES, PARTS_HEAD_BYTES};
use quorate_wire::{IMAGE_HEAD_BYTES, SnapshotFront};

/// What a snapshot holds.
#[derive(Debug)]
pub struct BodyContent {
    /// The replica's part, and the names of the objects that the group began with.
    pub front: SnapshotFront,
    /// The objects, by number.
    pub objects: Vec<ObjectId>,
}

/// Reads what a body of `bytes` bytes with this front says; `read` fills a buffer from a byte of the body.
///
/// # Errors
/// What is wrong with it, and at which byte.
pub fn content_of(
    front: &Bytes,
    bytes: u64,
    read: impl Fn(u64, &mut [u8]) -> std::io::Result<()>,
) -> Result<BodyContent, (u64, String)> {
    let parsed = SnapshotFront::take(front).map_err(|error| (0, error.to_string()))?;
    let unreadable = |at: u64| move |error: std::io::Error| (at, error.to_string());
    let mut at = front.len() as u64;
    let mut count = [0; PARTS_HEAD_BYTES];
    read(at, &mut count).map_err(unreadable(at))?;
    at += PARTS_HEAD_BYTES as u64 + u64::from_be_bytes(count) * PART_ENTRY_BYTES as u64;
    let mut objects: Vec<ObjectId> = Vec::new();
    while at < bytes {
        let mut head = [0; IMAGE_HEAD_BYTES];
        read(at, &mut head).map_err(unreadable(at))?;
        let (number, length) = head
            .split_first_chunk::<4>()
            .expect("an image's head is longer");
        let object = ObjectId(u32::from_be_bytes(*number));
        let length = u64::from_be_bytes(length.try_into().expect("the rest of the head"));
        let is_next = match objects.len() < parsed.names.len() {
            true => object.0 as usize == objects.len(),
            false => objects.last().is_none_or(|last| *last < object),
        };
        let end = (at + IMAGE_HEAD_BYTES as u64).checked_add(length);
        match end.filter(|end| is_next && *end <= bytes) {
            Some(end) => at = end,
            None => return Err((at, "the images of its objects are not in order".to_owned())),
        }
        objects.push(object);
    }
    if objects.len() < parsed.names.len() {
        return Err((bytes, "it has no image of an object".to_owned()));
    }
    Ok(BodyContent {
        front: parsed,
        objects,
    })
}

/// The file with what its content adds, and the snapshot if it can be read.
pub(super) fn verified(scrubbed: SnapshotScrub) -> (ScrubbedFile, Option<VerifiedSnapshot>) {
    let SnapshotScrub { mut file, whole } = scrubbed;
    let Some(whole) = whole else {
        return (file, None);
    };
    let content = content_of(&whole.front, whole.bytes, |at, data| whole.read(at, data));
    match content {
        Ok(content) if content.front.core.slot == whole.slot => {
            let digest = digest_of(&content.front.core, whole.digest);
            file.holds = format!(
                "slot {}, {} objects, {} sessions, digest {}",
                whole.slot.0,
                content.objects.len(),
                content.front.core.sessions.len(),
                crate::quarantine_file::hex(&digest)
            );
            let snapshot = VerifiedSnapshot {
                name: file.name.clone(),
                group: whole.group,
                slot: whole.slot,
                digest,
            };
            (file, Some(snapshot))
        }
        Ok(content) => {
            let what = format!("its state is of slot {}", content.front.core.slot.0);
            file.find(FlawKind::Damaged, 512, what, UNREAD);
            (file, None)
        }
        Err((offset, what)) => {
            file.find(FlawKind::Damaged, 512 + offset, what, UNREAD);
            (file, None)
        }
    }
}

const UNREAD: &str =
    "its bytes are as they were written, and no start of this version can read them";

fn digest_of(core: &SnapshotCore, state: [u8; 32]) -> Digest {
    Digest {
        replicated: core.digest(),
        state,
    }
}
