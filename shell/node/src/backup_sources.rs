//! The snapshots that are being read for backups, as the snapshot thread keeps them open.
//!
//! A backup takes as long as its reader likes, and the group takes new snapshots meanwhile. So one that is being read stays readable
//! after its file is gone, until nobody has asked for a piece for a while. The incarnations of the members, which prove to a node
//! that a peer is one, are left out of what is told: whoever takes a backup is a client.

use crate::held_snapshots::HeldSnapshot;
use crate::limits::{BACKUP_PACE_LEAST, BACKUPS_OPEN_MAX, HELD_FOR_READERS};
use bytes::{Bytes, BytesMut};
use quorate_storage::{DirectoryFile, KeptSnapshot};
use quorate_types::{Digest, Incarnation, Slot};
use quorate_wire::{SnapshotFront, snapshot_front};
use std::time::{Duration, Instant};

/// Where the bytes of a snapshot are.
#[derive(Debug)]
pub(crate) enum SnapshotBytes {
    File(KeptSnapshot<DirectoryFile>),
    Held(HeldSnapshot),
}

/// What came of a wish for a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It can be read: bytes of the whole, and of its front.
    Ready { bytes: u64, front: u64 },
    /// It is not here, or not what was agreed.
    Absent,
    /// As many as may be are being read.
    Busy,
}

/// The snapshots that are open, at most `BACKUPS_OPEN_MAX`.
#[derive(Debug, Default)]
pub(crate) struct BackupSources(Vec<BackupSource>);

#[derive(Debug)]
struct BackupSource {
    slot: Slot,
    front: Bytes,
    bytes: SnapshotBytes,
    opened: Instant,
    /// When somebody asked for it, or was given bytes of it, last.
    read: Instant,
    /// Bytes that were given so far.
    given: u64,
}

impl BackupSources {
    /// Opens the snapshot at `slot`, which must have this digest; `find` looks for it.
    pub(crate) fn open(
        &mut self,
        (slot, agreed): (Slot, Digest),
        now: Instant,
        find: impl FnOnce() -> Option<SnapshotBytes>,
    ) -> Opened {
        self.close_idle(now);
        if let Some(source) = self.0.iter_mut().find(|source| source.slot == slot) {
            source.read = now;
            return source.ready();
        }
        if self.0.len() == BACKUPS_OPEN_MAX {
            let slow = self.0.iter().position(|source| source.is_slow(now));
            let Some(slow) = slow else {
                return Opened::Busy;
            };
            self.0.remove(slow);
        }
        let source = find().and_then(|bytes| BackupSource::of((slot, agreed), bytes, now));
        match source {
            Some(source) => {
                let ready = source.ready();
                self.0.push(source);
                ready
            }
            None => Opened::Absent,
        }
    }

    /// At most `length` bytes from `offset` on of the snapshot at `slot`, if it is open.
    pub(crate) fn piece(
        &mut self,
        slot: Slot,
        (offset, length): (u64, u32),
        now: Instant,
    ) -> Option<Bytes> {
        let source = self.0.iter_mut().find(|source| source.slot == slot)?;
        let piece = source.piece(offset, length)?;
        if !piece.is_empty() {
            source.read = now;
            source.given += piece.len() as u64;
        }
        Some(piece)
    }

    /// Lets go of those that nobody has read for a while.
    pub(crate) fn close_idle(&mut self, now: Instant) {
        self.0
            .retain(|source| now.duration_since(source.read) < HELD_FOR_READERS);
    }

    /// How long until one may be let go of.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let oldest = self.0.iter().map(|source| source.read).min()?;
        Some(HELD_FOR_READERS.saturating_sub(oldest.elapsed()))
    }
}

impl BackupSource {
    fn of(
        (slot, agreed): (Slot, Digest),
        bytes: SnapshotBytes,
        now: Instant,
    ) -> Option<BackupSource> {
        let own = bytes.read(0, bytes.front())?;
        let SnapshotFront { mut core, names } = SnapshotFront::take(&own).ok()?;
        if core.slot != slot || core.digest() != agreed.replicated {
            return None;
        }
        let others = [&mut core.previous, &mut core.next].into_iter().flatten();
        for view in others.chain([&mut core.view]) {
            for member in &mut view.members {
                member.incarnation = Incarnation(0);
            }
        }
        let front = snapshot_front(&core, names.iter().map(String::as_str));
        assert_eq!(front.len(), own.len(), "an incarnation has a fixed size");
        Some(BackupSource {
            slot,
            front,
            bytes,
            opened: now,
            read: now,
            given: 0,
        })
    }

    /// Whether nobody reads it as who takes a backup does: then it gives way to who would.
    fn is_slow(&self, now: Instant) -> bool {
        let open = now.duration_since(self.opened);
        open >= HELD_FOR_READERS && self.given / open.as_secs().max(1) < BACKUP_PACE_LEAST
    }

    fn ready(&self) -> Opened {
        Opened::Ready {
            bytes: self.bytes.whole(),
            front: self.front.len() as u64,
        }
    }

    fn piece(&self, offset: u64, length: u32) -> Option<Bytes> {
        let front = self.front.len() as u64;
        let left = self.bytes.whole().saturating_sub(offset);
        let wanted = left.min(u64::from(length));
        if offset >= front {
            return self.bytes.read(offset, wanted);
        }
        let of_front = wanted.min(front - offset);
        let mut piece = BytesMut::with_capacity(wanted as usize);
        let from = offset as usize;
        piece.extend_from_slice(&self.front[from..from + of_front as usize]);
        if wanted > of_front {
            piece.extend_from_slice(&self.bytes.read(front, wanted - of_front)?);
        }
        Some(piece.freeze())
    }
}

impl SnapshotBytes {
    fn whole(&self) -> u64 {
        match self {
            SnapshotBytes::File(kept) => kept.bytes(),
            SnapshotBytes::Held(held) => held.bytes(),
        }
    }

    fn front(&self) -> u64 {
        match self {
            SnapshotBytes::File(kept) => kept.front_bytes(),
            SnapshotBytes::Held(held) => held.front_bytes(),
        }
    }

    fn read(&self, offset: u64, length: u64) -> Option<Bytes> {
        match self {
            SnapshotBytes::File(kept) => kept.read(offset, u32::try_from(length).ok()?).ok(),
            SnapshotBytes::Held(held) => Some(held.piece(offset, length as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_snapshots::HeldSnapshots;
    use crate::snapshot_thread::tests::core;
    use quorate_host::{Image, ObjectImage};
    use quorate_types::{ObjectId, PartsWriter};
    use quorate_wire::Snapshot;

    fn held(slot: u64) -> (HeldSnapshots, Digest) {
        let core = core(Slot(slot));
        let mut parts = PartsWriter::default();
        parts.part(5, blake3_of(b"state"));
        let parts = parts.finish();
        let mut image = Image::default();
        image.push(Bytes::from_static(b"state"));
        let object = ObjectId(0);
        let agreed = Digest {
            replicated: core.digest(),
            state: parts.digest(),
        };
        let mut held = HeldSnapshots::default();
        let front = snapshot_front(&core, ["kv"]);
        held.hold(
            Slot(slot),
            front,
            parts.bytes().clone(),
            vec![ObjectImage { object, image }],
        );
        (held, agreed)
    }

    /// The parts are not checked here.
    fn blake3_of(_: &[u8]) -> &'static [u8; 32] {
        &[7; 32]
    }

    fn open(sources: &mut BackupSources, slot: u64, now: Instant) -> Opened {
        let (held, agreed) = held(slot);
        sources.open((Slot(slot), agreed), now, || {
            held.copy(Slot(slot)).map(SnapshotBytes::Held)
        })
    }

    #[test]
    fn a_snapshot_is_given_whole_in_pieces_of_any_size_but_for_the_incarnations() {
        let now = Instant::now();
        let mut sources = BackupSources::default();
        let Opened::Ready { bytes, front } = open(&mut sources, 9, now) else {
            panic!("it is there");
        };
        assert!(front < bytes);
        for length in [1, 7, 100, 10_000] {
            let mut whole = Vec::new();
            while (whole.len() as u64) < bytes {
                let place = (whole.len() as u64, length);
                whole.extend_from_slice(&sources.piece(Slot(9), place, now).expect("it is open"));
            }
            let read = Snapshot::take(&whole.into()).expect("it is a snapshot");
            assert_eq!(read.core.digest(), core(Slot(9)).digest());
            assert_eq!(&read.images[0].image[..], b"state");
            let members = read.core.view.members.iter();
            assert!(
                members
                    .into_iter()
                    .all(|member| member.incarnation == Incarnation(0))
            );
        }
        assert!(sources.piece(Slot(8), (0, 1), now).is_none());
    }

    #[test]
    fn a_snapshot_that_is_not_the_agreed_one_is_not_given() {
        let (held, agreed) = held(9);
        let other = Digest {
            replicated: agreed.replicated ^ 1,
            ..agreed
        };
        let find = || held.copy(Slot(9)).map(SnapshotBytes::Held);
        let opened = BackupSources::default().open((Slot(9), other), Instant::now(), find);
        assert_eq!(opened, Opened::Absent);
    }

    #[test]
    fn few_are_open_at_once_and_those_that_nobody_reads_are_let_go() {
        let now = Instant::now();
        let mut sources = BackupSources::default();
        for slot in 0..BACKUPS_OPEN_MAX as u64 {
            assert!(matches!(
                open(&mut sources, slot + 1, now),
                Opened::Ready { .. }
            ));
        }
        assert_eq!(open(&mut sources, 99, now), Opened::Busy);
        assert!(
            matches!(open(&mut sources, 1, now), Opened::Ready { .. }),
            "it is open"
        );
        let later = now + HELD_FOR_READERS;
        assert!(matches!(
            open(&mut sources, 99, later),
            Opened::Ready { .. }
        ));
        assert!(sources.piece(Slot(1), (0, 1), later).is_none());
    }

    #[test]
    fn whoever_asks_and_reads_nothing_makes_room_for_who_would_read() {
        let mut now = Instant::now();
        let mut sources = BackupSources::default();
        for slot in 0..BACKUPS_OPEN_MAX as u64 {
            open(&mut sources, slot + 1, now);
        }
        let end = now + 2 * HELD_FOR_READERS;
        while now < end {
            now += HELD_FOR_READERS / 4;
            // The first is read, the second is only asked for, and its last bytes again and again.
            sources.0[0].given += BACKUP_PACE_LEAST * HELD_FOR_READERS.as_secs();
            for (slot, offset) in [(1, 0), (2, 5)] {
                sources.piece(Slot(slot), (offset, 1), now);
            }
        }
        assert!(matches!(open(&mut sources, 99, now), Opened::Ready { .. }));
        assert!(sources.piece(Slot(2), (0, 1), now).is_none());
        assert!(sources.piece(Slot(1), (0, 1), now).is_some());
        assert_eq!(open(&mut sources, 100, now), Opened::Busy);
    }

    #[test]
    fn pieces_of_no_length_keep_nothing_open() {
        let now = Instant::now();
        let mut sources = BackupSources::default();
        open(&mut sources, 1, now);
        let later = now + HELD_FOR_READERS / 2;
        for place in [(0, 0), (u64::MAX, 9)] {
            assert!(
                sources
                    .piece(Slot(1), place, later)
                    .is_some_and(|piece| piece.is_empty())
            );
        }
        sources.close_idle(now + HELD_FOR_READERS);
        assert!(sources.piece(Slot(1), (0, 1), later).is_none());
    }
}
