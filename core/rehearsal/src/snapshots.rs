//! Snapshots of a rehearsed node: joined, kept, sent in pieces, fetched and installed.

use crate::disk::KeptImage;
use crate::objects::RehearsedObjects;
use crate::rehearsal::Rehearsal;
use crate::running::digest_of;
use bytes::Bytes;
use quorate_any::AnyMessage;
use quorate_ordering::Lane;
use quorate_replica::{Input, PeerMessage, ReplicaMessage};
use quorate_types::{Digest, NodeId, NodeSet, ObjectId, Slot, Value};
use quorate_wire::{Snapshot, StoredImage, small_snapshot};
use std::collections::VecDeque;

impl Rehearsal {
    /// Keeps the snapshot once both of its parts are there.
    pub(crate) fn save(&mut self, id: NodeId, slot: Slot, inbox: &mut VecDeque<Input<AnyMessage>>) {
        let name = self.view.objects[0].name.clone();
        let live = self.live(id);
        let parts = (live.cores.contains_key(&slot), live.images.remove(&slot));
        let (true, Some(image)) = parts else {
            live.images.extend(parts.1.map(|image| (slot, image)));
            return;
        };
        let (core, agreed) = live.cores.remove(&slot).expect("looked a moment ago");
        let digest = digest_of(&core, &image);
        let object = ObjectId(0);
        let bytes = small_snapshot(&core, [name.as_str()], &[StoredImage { object, image }]);
        let size = bytes.len() as u64;
        self.node(id)
            .disk
            .keep(slot, KeptImage { bytes, digest }, agreed);
        inbox.push_back(Input::SnapshotTaken {
            slot,
            digest: digest.state,
            bytes: size,
        });
    }

    pub(crate) fn send_chunk(
        &mut self,
        id: NodeId,
        to: NodeId,
        slot: Slot,
        offset: u64,
        length: u32,
    ) {
        let kept = self.node(id).disk.snapshot(slot);
        let message = match kept.map(|kept| kept.bytes.clone()) {
            Some(bytes) if offset < bytes.len() as u64 => {
                let total = bytes.len() as u64;
                let end = total.min(offset + u64::from(length));
                ReplicaMessage::Chunk {
                    slot,
                    offset,
                    total,
                    data: bytes.slice(offset as usize..end as usize),
                }
            }
            Some(_) | None => ReplicaMessage::NoSnapshot { slot },
        };
        self.send(
            id,
            NodeSet::only(to),
            Lane::Bulk,
            &PeerMessage::Replica(message),
        );
    }

    pub(crate) fn store_chunk(&mut self, id: NodeId, slot: Slot, offset: u64, data: &Value) {
        let live = self.live(id);
        if offset == 0 {
            live.fetched = Some((slot, Vec::new()));
        }
        if let Some((_, pieces)) = &mut live.fetched {
            pieces.extend_from_slice(data);
        }
    }

    pub(crate) fn install(
        &mut self,
        id: NodeId,
        slot: Slot,
        agreed: Digest,
        objects: &mut dyn RehearsedObjects,
        inbox: &mut VecDeque<Input<AnyMessage>>,
    ) {
        let fetched = self.live(id).fetched.take();
        let bytes = Bytes::from(fetched.map(|(_, pieces)| pieces).unwrap_or_default());
        let read = Snapshot::take(&bytes)
            .ok()
            .filter(|read| read.core.slot == slot);
        let whole = read.and_then(|mut read| Some((read.core, read.images.pop()?.image)));
        let Some((core, image)) = whole.filter(|(core, image)| digest_of(core, image) == agreed)
        else {
            inbox.push_back(Input::InstallFailed { slot });
            return;
        };
        let size = bytes.len() as u64;
        let kept = KeptImage {
            bytes,
            digest: agreed,
        };
        self.node(id).disk.keep(slot, kept, slot);
        let input = match objects.restore(id, &image) {
            Ok(()) => Input::Installed {
                core: Box::new(core),
                digest: agreed.state,
                bytes: size,
            },
            Err(reason) => {
                self.node(id).failure = Some(reason);
                Input::InstallFailed { slot }
            }
        };
        inbox.push_back(input);
    }
}
