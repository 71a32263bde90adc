//! Snapshots of a node that persists to memory, as pieces that the objects' state shares: taking one writes and copies nothing
//! but what is small.
//!
//! They end with the process, as the log does. Called by the snapshot thread, which keeps all other snapshots in files.

use crate::limits::{HELD_COPIED_MAX, HELD_FOR_READERS};
use bytes::{Bytes, BytesMut};
use quorate_host::ObjectImage;
use quorate_types::Slot;
use quorate_wire::image_head;
use std::time::Instant;

/// Ascending by slot.
#[derive(Debug, Default)]
pub(crate) struct HeldSnapshots(Vec<HeldSnapshot>);

#[derive(Clone, Debug)]
pub(crate) struct HeldSnapshot {
    slot: Slot,
    pieces: Vec<Bytes>,
    /// Where each of `pieces` ends; as many as they are.
    ends: Vec<u64>,
    /// When a peer asked for a piece last.
    read: Option<Instant>,
}

/// Whether a snapshot with so many bytes before its images is held: most of it is shared with the objects, and what is not is
/// small.
pub(crate) fn is_worth_holding(before: usize, images: &[ObjectImage]) -> bool {
    let shared: usize = images.iter().map(|image| image.image.shared()).sum();
    let whole: usize = images.iter().map(|image| image.image.len()).sum();
    let copied = before + whole - shared;
    copied <= shared.min(HELD_COPIED_MAX)
}

impl HeldSnapshots {
    /// The slots of all that are held.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().map(|held| held.slot)
    }

    /// Holds a snapshot, in place of another one of the same slot.
    pub(crate) fn hold(
        &mut self,
        slot: Slot,
        front: Bytes,
        parts: Bytes,
        images: Vec<ObjectImage>,
    ) {
        let mut pieces = vec![front, parts];
        for ObjectImage { object, image } in images {
            let head = image_head(object, image.len() as u64);
            pieces.push(Bytes::copy_from_slice(&head));
            pieces.extend(image.pieces().cloned());
        }
        let mut end = 0;
        let ends = pieces.iter().map(|piece| {
            end += piece.len() as u64;
            end
        });
        let held = HeldSnapshot {
            slot,
            ends: ends.collect(),
            pieces,
            read: None,
        };
        self.let_go(slot);
        let place = self.0.partition_point(|other| other.slot < slot);
        self.0.insert(place, held);
    }

    /// The snapshot at `slot`, for a reader that keeps its pieces: they are shared with this one.
    pub(crate) fn copy(&self, slot: Slot) -> Option<HeldSnapshot> {
        self.0.iter().find(|held| held.slot == slot).cloned()
    }

    pub(crate) fn let_go(&mut self, slot: Slot) {
        self.0.retain(|held| held.slot != slot);
    }

    /// The snapshot at `slot` is agreed: older ones serve nobody but the peers that are reading them.
    pub(crate) fn agreed(&mut self, slot: Slot, now: Instant) {
        self.0.retain(|held| {
            let is_read = |at: Instant| now.duration_since(at) < HELD_FOR_READERS;
            held.slot >= slot || held.read.is_some_and(is_read)
        });
    }

    /// At most `length` bytes from `offset` of the snapshot at `slot`, and how many bytes it has.
    pub(crate) fn read(
        &mut self,
        slot: Slot,
        (offset, length): (u64, u32),
        now: Instant,
    ) -> Option<(Bytes, u64)> {
        let held = self.0.iter_mut().find(|held| held.slot == slot)?;
        held.read = Some(now);
        Some((held.piece(offset, length as usize), held.bytes()))
    }
}

impl HeldSnapshot {
    /// Bytes of the first piece, which is all before the list of parts.
    pub(crate) fn front_bytes(&self) -> u64 {
        self.ends.first().copied().unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(crate) fn piece(&self, offset: u64, length: usize) -> Bytes {
        let length = length.min(self.bytes().saturating_sub(offset) as usize);
        let mut piece = BytesMut::with_capacity(length);
        let first = self.ends.partition_point(|end| *end <= offset);
        let mut at = offset;
        for (part, end) in self.pieces.iter().zip(&self.ends).skip(first) {
            let begin = end - part.len() as u64;
            let part = &part[(at - begin) as usize..];
            piece.extend_from_slice(&part[..part.len().min(length - piece.len())]);
            if piece.len() == length {
                break;
            }
            at = *end;
        }
        piece.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::{Image, SharedPiece};
    use quorate_types::ObjectId;

    fn images(shared: usize, copied: usize) -> Vec<ObjectImage> {
        let mut image = Image::default();
        image.push(vec![1; copied].into());
        image.push_shared(&SharedPiece::new(vec![2; shared / 2].into()));
        image.push(vec![3; 10].into());
        image.push_shared(&SharedPiece::new(vec![4; shared - shared / 2].into()));
        let object = ObjectId(0);
        vec![ObjectImage { object, image }]
    }

    fn held(slots: &[u64]) -> HeldSnapshots {
        let mut held = HeldSnapshots::default();
        for slot in slots {
            held.hold(
                Slot(*slot),
                Bytes::from_static(b"front"),
                Bytes::from_static(b"list"),
                images(20_000, 50),
            );
        }
        held
    }

    fn slots(held: &HeldSnapshots) -> Vec<u64> {
        held.slots().map(|slot| slot.0).collect()
    }

    #[test]
    fn pieces_of_any_size_make_the_whole() {
        let mut whole = b"frontlist".to_vec();
        let image = &images(20_000, 50)[0];
        whole.extend_from_slice(&image_head(image.object, image.image.len() as u64));
        whole.extend_from_slice(&image.image.whole());
        let now = Instant::now();
        for length in [1, 3, 12, 5_000, 30_000] {
            let (mut snapshots, mut read) = (held(&[7]), Vec::new());
            loop {
                let place = (read.len() as u64, length);
                let (piece, bytes) = snapshots.read(Slot(7), place, now).unwrap();
                assert_eq!(bytes, whole.len() as u64);
                if piece.is_empty() {
                    break;
                }
                read.extend_from_slice(&piece);
            }
            assert!(read == whole, "pieces of {length} bytes");
        }
        assert!(held(&[7]).read(Slot(8), (0, 10), now).is_none());
    }

    #[test]
    fn an_agreed_snapshot_replaces_older_ones_that_no_peer_reads() {
        let mut snapshots = held(&[10, 30, 20, 20]);
        assert_eq!(slots(&snapshots), [10, 20, 30]);
        let now = Instant::now();
        snapshots.read(Slot(10), (0, 1), now);
        snapshots.agreed(Slot(30), now + HELD_FOR_READERS / 2);
        assert_eq!(slots(&snapshots), [10, 30]);
        snapshots.agreed(Slot(20), now + HELD_FOR_READERS);
        assert_eq!(slots(&snapshots), [30]);
    }

    #[test]
    fn only_what_is_mostly_shared_is_held() {
        assert!(is_worth_holding(100, &images(20_000, 50)));
        assert!(!is_worth_holding(100, &images(20_000, 30_000)));
        assert!(!is_worth_holding(100, &images(0, 0)));
        let shared = 2 * HELD_COPIED_MAX;
        assert!(!is_worth_holding(100, &images(shared, HELD_COPIED_MAX)));
    }
}
