//! Snapshots: whole states of a group at a slot, each in a file that appears at once or not at all.
//!
//! A snapshot is written under a temporary name, synced, renamed, and the directory synced; it is chosen only if its hashes are
//! right. It never chooses a part or a damaged file. Called by the node, on a thread of its own, and by the simulator.

use std::io;

use bytes::Bytes;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{ClusterId, GroupId, Slot};

use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::{StorageError, is_full};
use crate::kept_snapshot::KeptSnapshot;
use crate::limits::{RECEIVED_NOTE_BYTES, SECTOR_BYTES, SNAPSHOTS_KEPT};
use crate::snapshot_body::{BODY, BodyHash, BodySize, BodyWriter};
use crate::snapshot_file::{FileHead, is_of_layout_before, name, parse, part_name};

pub(crate) const TEMPORARY: &str = "temp-";

/// Takes the next piece of a snapshot.
pub type PieceSink<'a> = dyn FnMut(&[u8]) -> Result<(), StorageError> + 'a;

/// A snapshot whose hashes have been found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// The digest of the state, as it was given to `save`.
    pub digest: [u8; 32],
    /// The state.
    pub bytes: Bytes,
}

/// A snapshot that another node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its group.
    pub group: GroupId,
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// The digest of the state.
    pub digest: [u8; 32],
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
    /// How many bytes it has.
    pub bytes: u64,
}

/// The snapshots of all groups of a node, on one disk of their own.
#[derive(Clone, Debug)]
pub struct SnapshotStore<D> {
    disk: D,
    cluster: ClusterId,
}

impl<D: Disk> SnapshotStore<D> {
    /// Opens the store and removes what a crash has left half written. Parts of received snapshots stay. Snapshots of an earlier
    /// layout are refused, not taken for damaged ones.
    pub fn open(disk: D, cluster: ClusterId) -> Result<SnapshotStore<D>, StorageError> {
        let store = SnapshotStore { disk, cluster };
        for name in store.names()? {
            if name.starts_with(TEMPORARY) {
                store.remove(&name)?;
            } else if parse(&name, "snap-").is_some() && store.is_of_layout_before(&name) {
                return Err(StorageError::Layout(format!(
                    "{} is a snapshot of a layout before 3, which this build reads",
                    store.disk.place(&name)
                )));
            }
        }
        Ok(store)
    }

    /// Writes a snapshot durably, then removes older ones of its group but the one before and `agreed`, which others may still
    /// need. Newer ones are of an earlier start and may be of another state: they stay until this start has passed them. After
    /// `Full` nothing is left behind.
    pub fn save(
        &self,
        group: GroupId,
        slot: Slot,
        digest: [u8; 32],
        bytes: &[u8],
        agreed: Slot,
    ) -> Result<(), StorageError> {
        let size = BodySize {
            front: bytes.len() as u64,
            whole: bytes.len() as u64,
        };
        self.save_from(group, slot, digest, size, agreed, |sink| sink(bytes))
    }

    /// As `save`, of bytes that `pieces` hands over front to back: they are in memory a part at a time. Those behind the front
    /// are not hashed: they begin with the list of parts of which `digest` is the digest.
    pub fn save_from(
        &self,
        group: GroupId,
        slot: Slot,
        digest: [u8; 32],
        size: BodySize,
        agreed: Slot,
        pieces: impl FnOnce(&mut PieceSink<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let head = FileHead {
            cluster: self.cluster,
            group,
            slot,
            digest,
            hash: [0; 32],
            size,
            received: size.whole,
        };
        let temporary = format!("{TEMPORARY}{}", name(group, slot));
        self.remove_if_there(&temporary)?;
        let written = self.write(&temporary, head, pieces);
        if let Err(error) = written {
            self.remove_if_there(&temporary)?;
            return Err(error);
        }
        self.publish(&temporary, group, slot, agreed)
    }

    /// The newest snapshot of `group` that is whole. Damaged ones are removed; one that cannot be read is passed over.
    pub fn newest(&self, group: GroupId) -> Result<Option<Verified>, StorageError> {
        for slot in self.slots(group)?.into_iter().rev() {
            let name = name(group, slot);
            let Ok(content) = self
                .disk
                .open(&name)
                .and_then(|mut file| read_whole(&mut file))
            else {
                continue;
            };
            match self.verify(group, slot, content) {
                Some(verified) => return Ok(Some(verified)),
                None => self.remove(&name)?,
            }
        }
        Ok(None)
    }

    /// The snapshot of `group` to start from. A log that is whole after `whole_after` is trimmed for a
    /// snapshot that many nodes hold, so its node starts from the oldest one that the log continues: a newer one
    /// may be held by no other, and what lies before it would be missing to the others. Without such a log it is
    /// the newest. Those that are `refuted` are removed.
    pub fn to_start_from(
        &self,
        group: GroupId,
        whole_after: Option<Slot>,
        refuted: impl Fn(&Verified) -> bool,
    ) -> Result<Option<Verified>, StorageError> {
        loop {
            match self.first_to_start_from(group, whole_after)? {
                Some(found) if refuted(&found) => self.let_go(group, found.slot)?,
                other => return Ok(other),
            }
        }
    }

    fn first_to_start_from(
        &self,
        group: GroupId,
        whole_after: Option<Slot>,
    ) -> Result<Option<Verified>, StorageError> {
        match whole_after {
            Some(Slot::ZERO) => return Ok(None),
            Some(trimmed) => {
                for slot in self
                    .slots(group)?
                    .into_iter()
                    .filter(|slot| *slot >= trimmed)
                {
                    if let Some(found) = self.at(group, slot)? {
                        return Ok(Some(found));
                    }
                }
            }
            None => {}
        }
        self.newest(group)
    }

    /// The whole snapshots of `group` except the one at `started`, rising; each is read when it is asked for. One that cannot be
    /// read is passed over, as by `newest`.
    pub fn others(
        &self,
        group: GroupId,
        started: Option<Slot>,
    ) -> Result<impl Iterator<Item = Verified>, StorageError> {
        let slots = self.slots(group)?.into_iter();
        let others = slots.filter(move |slot| Some(*slot) != started);
        Ok(others.filter_map(move |slot| self.at(group, slot).ok().flatten()))
    }

    /// The snapshot of `group` at exactly `slot`, if it is here and whole.
    pub fn at(&self, group: GroupId, slot: Slot) -> Result<Option<Verified>, StorageError> {
        if !self.slots(group)?.contains(&slot) {
            return Ok(None);
        }
        let name = name(group, slot);
        let content = self
            .disk
            .open(&name)
            .and_then(|mut file| read_whole(&mut file));
        let content = content.map_err(|error| {
            StorageError::io(format!("read {}", self.disk.place(&name)), &error)
        })?;
        Ok(self.verify(group, slot, content))
    }

    /// As `at`, to be read in parts: of a large one little is in memory.
    pub fn open_at(
        &self,
        group: GroupId,
        slot: Slot,
    ) -> Result<Option<KeptSnapshot<D::File>>, StorageError> {
        let name = name(group, slot);
        let file = match self.disk.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other,
        };
        let is_right = |head: &FileHead| self.is_right_place(head, group, slot);
        let kept = file.and_then(|file| KeptSnapshot::open(file, is_right));
        kept.map_err(|error| StorageError::io(format!("read {}", self.disk.place(&name)), &error))
    }

    /// Removes the snapshot of `group` at `slot`, if it is here.
    pub fn let_go(&self, group: GroupId, slot: Slot) -> Result<(), StorageError> {
        self.remove_if_there(&name(group, slot))
    }

    /// Slots of the snapshots of `group`, rising, without a look at their content.
    pub fn slots(&self, group: GroupId) -> Result<Vec<Slot>, StorageError> {
        let names = self.names()?;
        let found = names.iter().filter_map(|name| parse(name, "snap-"));
        let mut slots: Vec<Slot> = found
            .filter(|(of, _)| *of == group)
            .map(|(_, slot)| slot)
            .collect();
        slots.sort_unstable();
        Ok(slots)
    }

    /// Begins to receive a snapshot, or goes on with a part of the same one. Parts of older ones of the group are removed.
    pub fn receive(&self, offer: Offer) -> Result<Receiving<D>, StorageError> {
        if self
            .slots(offer.group)?
            .last()
            .is_some_and(|newest| *newest > offer.slot)
        {
            return Err(StorageError::BadSnapshot(format!(
                "slot {} is older than what is here",
                offer.slot.0
            )));
        }
        let part = part_name(offer.group, offer.slot);
        for name in self.names()? {
            if parse(&name, "part-").is_some_and(|(group, _)| group == offer.group) && name != part
            {
                self.remove(&name)?;
            }
        }
        let fresh = FileHead {
            cluster: self.cluster,
            group: offer.group,
            slot: offer.slot,
            digest: offer.digest,
            hash: offer.hash,
            size: BodySize {
                front: offer.bytes,
                whole: offer.bytes,
            },
            received: 0,
        };
        let (file, head) = match self.resume(&part, &fresh) {
            Some(found) => found,
            None => {
                self.remove_if_there(&part)?;
                let mut file = self
                    .disk
                    .create(&part, BODY + offer.bytes)
                    .map_err(|error| failed(&self.disk.place(&part), offer.bytes, &error))?;
                file.write_at(0, &fresh.encode())
                    .map_err(|error| failed(&self.disk.place(&part), offer.bytes, &error))?;
                file.sync().map_err(sync_failed)?;
                self.disk.sync_dir().map_err(sync_failed)?;
                (file, fresh)
            }
        };
        Ok(Receiving {
            store: SnapshotStore {
                disk: self.disk.clone(),
                cluster: self.cluster,
            },
            file,
            head,
            offset: head.received,
        })
    }

    fn resume(&self, part: &str, fresh: &FileHead) -> Option<(D::File, FileHead)> {
        let mut file = self.disk.open(part).ok()?;
        file.distrust_cache().ok()?;
        let mut sector = vec![0; SECTOR_BYTES];
        file.read_at(0, &mut sector).ok()?;
        let head = FileHead::decode(&sector)?;
        let same = FileHead {
            received: 0,
            ..head
        } == *fresh
            && head.received <= head.size.whole;
        (same && file.bytes().ok()? == BODY + head.size.whole).then_some((file, head))
    }

    fn write(
        &self,
        temporary: &str,
        mut head: FileHead,
        pieces: impl FnOnce(&mut PieceSink<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let whole = head.size.whole;
        let wrap = |error: io::Error| failed(&self.disk.place(temporary), whole, &error);
        let mut file = self.disk.create(temporary, BODY + whole).map_err(wrap)?;
        let mut body = BodyWriter::new(&mut file, head.size);
        pieces(&mut |piece: &[u8]| body.take(piece).map_err(wrap))?;
        head.hash = body.finish().map_err(wrap)?;
        file.write_at(0, &head.encode()).map_err(wrap)?;
        let synced = file.sync();
        synced.map_err(|error| StorageError::sync_failed(&self.disk.place(temporary), &error))
    }

    fn publish(
        &self,
        from: &str,
        group: GroupId,
        slot: Slot,
        agreed: Slot,
    ) -> Result<(), StorageError> {
        let to = name(group, slot);
        self.disk.rename(from, &to).map_err(|error| {
            StorageError::io(format!("rename {}", self.disk.place(from)), &error)
        })?;
        self.disk.sync_dir().map_err(sync_failed)?;
        let slots = self.slots(group)?;
        let passed = slots.iter().rev().filter(|other| **other <= slot);
        let older = passed.skip(SNAPSHOTS_KEPT);
        for old in older.filter(|old| **old != agreed && !planted(Plant::SnapshotsKept)) {
            self.remove(&name(group, *old))?;
        }
        Ok(())
    }

    fn is_right_place(&self, head: &FileHead, group: GroupId, slot: Slot) -> bool {
        (head.cluster, head.group, head.slot) == (self.cluster, group, slot)
    }

    fn verify(&self, group: GroupId, slot: Slot, content: Vec<u8>) -> Option<Verified> {
        let head = FileHead::decode(&content)?;
        let whole = head.size.whole;
        let is_whole = head.received == whole && content.len() as u64 == BODY + whole;
        if !is_whole || !self.is_right_place(&head, group, slot) {
            return None;
        }
        let bytes = Bytes::from(content).slice(SECTOR_BYTES..);
        let mut hash = BodyHash::new(head.size.front);
        hash.update(&bytes);
        hash.is_of(head.size, &head.hash, &head.digest)
            .then_some(Verified {
                slot,
                digest: head.digest,
                bytes,
            })
    }

    /// A file that cannot be read is judged when its content is asked for.
    fn is_of_layout_before(&self, name: &str) -> bool {
        let mut sector = vec![0; SECTOR_BYTES];
        let file = self.disk.open(name);
        let read = file.and_then(|file| file.read_at(0, &mut sector));
        read.is_ok() && is_of_layout_before(&sector)
    }

    fn names(&self) -> Result<Vec<String>, StorageError> {
        self.disk
            .list()
            .map_err(|error| StorageError::io(format!("list {}", self.disk.place("")), &error))
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.disk
            .remove(name)
            .map_err(|error| StorageError::io(format!("remove {}", self.disk.place(name)), &error))
    }

    fn remove_if_there(&self, name: &str) -> Result<(), StorageError> {
        match self.disk.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| {
                StorageError::io(format!("remove {}", self.disk.place(name)), &error)
            }),
        }
    }
}

fn failed(place: &str, wanted: u64, error: &io::Error) -> StorageError {
    if is_full(error) {
        StorageError::Full {
            place: place.to_owned(),
            wanted,
        }
    } else {
        StorageError::io(format!("write {place}"), error)
    }
}

fn sync_failed(error: io::Error) -> StorageError {
    StorageError::SyncFailed(error.to_string())
}

/// A snapshot on its way in. Dropped before `finish`, it is resumed by the next `receive` of the same offer.
#[derive(Debug)]
pub struct Receiving<D: Disk> {
    store: SnapshotStore<D>,
    file: D::File,
    head: FileHead,
    offset: u64,
}

impl<D: Disk> Receiving<D> {
    fn place(&self) -> String {
        let part = part_name(self.head.group, self.head.slot);
        self.store.disk.place(&part)
    }

    /// The byte to ask for next. Equal to the size of the offer when all is here.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the bytes at `offset()`.
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        let size = chunk.len() as u64;
        if self.offset + size > self.head.size.whole {
            return Err(StorageError::BadSnapshot(
                "more bytes than were offered".into(),
            ));
        }
        let place = self.place();
        self.file
            .write_at(BODY + self.offset, chunk)
            .map_err(|error| failed(&place, size, &error))?;
        self.offset += size;
        if self.offset - self.head.received >= RECEIVED_NOTE_BYTES {
            self.note()?;
        }
        Ok(())
    }

    /// Makes what has come durable, so that a restart goes on from here.
    pub fn note(&mut self) -> Result<(), StorageError> {
        let place = self.place();
        self.file.sync().map_err(sync_failed)?;
        self.head.received = self.offset;
        self.file
            .write_at(0, &self.head.encode())
            .map_err(|error| failed(&place, BODY, &error))?;
        self.file.sync().map_err(sync_failed)
    }

    /// Checks the hash and makes the snapshot one of the store. A wrong one is removed: fetch it from another node.
    pub fn finish(mut self) -> Result<Verified, StorageError> {
        if self.offset < self.head.size.whole {
            return Err(StorageError::BadSnapshot(format!(
                "{} of {} bytes",
                self.offset, self.head.size.whole
            )));
        }
        self.note()?;
        let part = part_name(self.head.group, self.head.slot);
        let content = read_whole(&mut self.file).map_err(|error| {
            StorageError::io(format!("read {}", self.store.disk.place(&part)), &error)
        })?;
        let Some(verified) = self.store.verify(self.head.group, self.head.slot, content) else {
            self.store.remove(&part)?;
            return Err(StorageError::BadSnapshot(
                "its hash is not the one that was offered".into(),
            ));
        };
        let slot = self.head.slot;
        self.store.publish(&part, self.head.group, slot, slot)?;
        Ok(verified)
    }
}
