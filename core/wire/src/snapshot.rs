//! Bytes of a snapshot: a head, the replica's own part, the names of the objects that the group began with, a list of parts, then one
//! image per object.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | `QSNP` |
//! | 4..6 | version of the layout, little-endian |
//! | 6..8 | reserved, zero |
//! | 8..12 | length of the core, little-endian |
//! | 12..16 | number of names, little-endian |
//! | … | the core |
//! | … | per object that the group began with: name behind its length (2 bytes) |
//! | … | [list](quorate_types::PartsList) of the parts of what follows |
//! | … | per object, ascending: its number (4 bytes, big-endian), length of the image (8 bytes, big-endian), image |
//!
//! Objects that were created while the group ran follow those with names; what they are is in the image of the directory, which is the
//! last of them.
//!
//! The digest of the objects' state is that of the list behind the *front* (all up to the names), which has the hash of each part,
//! so that whoever keeps a snapshot need not hash the images again. There is no checksum: a file is covered by its hash and this
//! digest, a message by its frame, and a fetched snapshot is compared with the agreed digest. Knows nothing of what an image holds, and of
//! no file: the storage performs.

use crate::WireError;
use crate::codec::{Reader, put_flag, put_list, put_name};
use crate::groups::{put_group_entry, take_group_entry};
use crate::limits::{NAME_BYTES_MAX, OBJECTS_MAX, REPLIES_MAX, SESSIONS_MAX};
use crate::outcome::{put_outcome, take_outcome};
use crate::view::{put_view, take_view};
use crate::words::{
    put_ballot, put_secret_hash, put_session, put_slot, put_terms, take_ballot, take_secret_hash,
    take_session, take_slot, take_terms,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_replica::limits::{GROUPS_MAX, INVITATIONS_MAX};
use quorate_replica::{Invitation, ReplyImage, ReplyState, SessionImage, SnapshotCore};
use quorate_types::{ObjectId, PART_ENTRY_BYTES, PARTS_HEAD_BYTES, PartsWriter, Stamp, View, Wall};

/// The version of the layout that this build writes.
pub const SNAPSHOT_VERSION: u16 = 13;

/// Bytes of a snapshot's head.
pub const SNAPSHOT_HEAD_BYTES: usize = 16;

/// Bytes before each image: the object's number and the image's length.
pub const IMAGE_HEAD_BYTES: usize = 12;

const MAGIC: [u8; 4] = *b"QSNP";

/// What the first bytes of a snapshot say about the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHead {
    /// Bytes of the replica's own part, which follows.
    pub core_bytes: u32,
    /// Names of objects, which follow that.
    pub names: u32,
}

impl SnapshotHead {
    /// Reads the head.
    ///
    /// # Errors
    /// When these are not the first bytes of a snapshot of a version this build reads.
    pub fn take(head: &[u8; SNAPSHOT_HEAD_BYTES]) -> Result<SnapshotHead, WireError> {
        let half =
            |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("inside the head"));
        let version = u16::from_le_bytes([head[4], head[5]]);
        if head[..4] != MAGIC {
            return Err(WireError::Inconsistent {
                what: "not a snapshot",
            });
        }
        if version != SNAPSHOT_VERSION || head[6..8] != [0; 2] {
            return Err(WireError::UnknownVersion {
                what: "snapshots",
                version,
            });
        }
        let names = half(12);
        if names as usize > OBJECTS_MAX {
            return Err(WireError::TooMany {
                what: "objects",
                count: names as usize,
                limit: OBJECTS_MAX,
            });
        }
        Ok(SnapshotHead {
            core_bytes: half(8),
            names,
        })
    }
}

/// An object's state in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredImage {
    /// The object's number.
    pub object: ObjectId,
    /// Its state, as its host encodes it.
    pub image: Bytes,
}

/// A snapshot, read whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The replica's own part.
    pub core: SnapshotCore,
    /// The objects that the group began with; their numbers count from 0.
    pub names: Vec<String>,
    /// The objects' states, by ascending number: one for each name, and those of objects that were created later.
    pub images: Vec<StoredImage>,
}

impl Snapshot {
    /// Reads a whole snapshot. Images are slices of `bytes`. Bytes that were changed may go unnoticed: who holds them checks the
    /// parts, and compares their digest.
    ///
    /// # Errors
    /// When the bytes are not a snapshot.
    pub fn take(bytes: &Bytes) -> Result<Snapshot, WireError> {
        let mut r = Reader::new(bytes);
        let head = SnapshotHead::take(r.array("snapshot head")?)?;
        let core = take_snapshot_core(&r.slice("snapshot core", head.core_bytes as usize)?)?;
        let names = take_names(&mut r, head.names)?;
        pass_parts(&mut r)?;
        let mut images: Vec<StoredImage> = Vec::new();
        while !r.is_at_end() {
            let object = ObjectId(u32::from_be_bytes(*r.array("object number")?));
            let is_next = match images.last() {
                _ if images.len() < names.len() => object.0 as usize == images.len(),
                last => {
                    object >= ObjectId::CREATED_MIN && last.is_none_or(|last| last.object < object)
                }
            };
            if !is_next {
                return Err(WireError::Inconsistent {
                    what: "images of a snapshot are not in the order of its objects",
                });
            }
            let length = u64::from_be_bytes(*r.array("image length")?);
            let length = usize::try_from(length).map_err(|_| WireError::OutOfRange {
                what: "image length",
                value: length,
            })?;
            let image = r.slice("image", length)?;
            images.push(StoredImage { object, image });
        }
        if images.len() < names.len() {
            return Err(WireError::Inconsistent {
                what: "a snapshot has no image of an object",
            });
        }
        Ok(Snapshot {
            core,
            names,
            images,
        })
    }
}

/// All of a snapshot before its list of parts.
#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotFront {
    /// The replica's own part.
    pub core: SnapshotCore,
    /// The objects that the group began with; their numbers count from 0.
    pub names: Vec<String>,
}

impl SnapshotFront {
    /// Reads a front, which fills `bytes`.
    ///
    /// # Errors
    /// When it is not one, whole.
    pub fn take(bytes: &Bytes) -> Result<SnapshotFront, WireError> {
        let mut r = Reader::new(bytes);
        let head = SnapshotHead::take(r.array("snapshot head")?)?;
        let core = take_snapshot_core(&r.slice("snapshot core", head.core_bytes as usize)?)?;
        let names = take_names(&mut r, head.names)?;
        r.end("snapshot front")?;
        Ok(SnapshotFront { core, names })
    }
}

fn take_names(r: &mut Reader<'_>, count: u32) -> Result<Vec<String>, WireError> {
    (0..count)
        .map(|_| r.text("object name", NAME_BYTES_MAX))
        .collect()
}

/// Passes over the list of parts, which is for who checks them.
fn pass_parts(r: &mut Reader<'_>) -> Result<(), WireError> {
    let count = u64::from_be_bytes(*r.array::<PARTS_HEAD_BYTES>("number of parts")?);
    let bytes = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(PART_ENTRY_BYTES))
        .ok_or(WireError::OutOfRange {
            what: "number of parts",
            value: count,
        })?;
    r.slice("list of parts", bytes)?;
    Ok(())
}

/// The front of a snapshot: everything before the list of parts. The images follow that by ascending number, each behind its
/// [`image_head`].
///
/// ```
/// # use quorate_types::*;
/// # use quorate_replica::SnapshotCore;
/// # let core = SnapshotCore {
/// #     slot: Slot(1), stamp: Stamp::default(), replies_digest: 0,
/// #     view: View {
/// #         number: ViewNumber(1), first_slot: Slot(1),
/// #         members: vec![Member { node: NodeId(1), incarnation: Incarnation(1), address: "h:1".into() }],
/// #         replicas: NodeSet::only(NodeId(1)), acceptors: NodeSet::only(NodeId(1)),
/// #         quorums: Quorums::majority(1).unwrap(), window: 8, rejoined: Default::default(),
/// #         level: Level::UNNAMED, ordering: OrderingName::Paxos, first_ballot: None, limits: GroupLimits::default(),
/// #         persistence: Persistence::Memory,
/// #         objects: vec![],
/// #     },
/// #     lead_ballot: Ballot::ZERO, lead_slot: Slot::ZERO, reset: Slot::ZERO,
/// #     invitations: Vec::new(), groups: Vec::new(), previous: None, next: None, sessions: vec![],
/// # };
/// use quorate_wire::{Snapshot, image_head, snapshot_front};
/// let front = snapshot_front(&core, ["account"]);
/// let images = [&image_head(ObjectId(0), 5)[..], b"st", b"ate"].concat();
/// let mut parts = PartsWriter::default();
/// parts.loose(&images);
/// let file = [&front[..], parts.finish().bytes(), &images].concat();
/// let read = Snapshot::take(&file.into())?;
/// assert_eq!(read.core, core);
/// assert_eq!(&read.images[0].image[..], b"state");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn snapshot_front<'a>(core: &SnapshotCore, names: impl IntoIterator<Item = &'a str>) -> Bytes {
    let mut buf = BytesMut::new();
    buf.put_slice(&MAGIC);
    buf.put_u16_le(SNAPSHOT_VERSION);
    buf.put_u16_le(0);
    buf.put_u64_le(0);
    put_snapshot_core(&mut buf, core);
    let core_bytes = u32::try_from(buf.len() - SNAPSHOT_HEAD_BYTES)
        .expect("the session table is bounded far below 4 GiB");
    buf[8..12].copy_from_slice(&core_bytes.to_le_bytes());
    let mut count: u32 = 0;
    for name in names {
        put_name(&mut buf, name, NAME_BYTES_MAX);
        count += 1;
    }
    buf[12..16].copy_from_slice(&count.to_le_bytes());
    buf.freeze()
}

/// How many of a snapshot's bytes are its front.
///
/// # Errors
/// When the bytes do not begin as a snapshot does.
pub fn snapshot_front_bytes(bytes: &Bytes) -> Result<usize, WireError> {
    let mut r = Reader::new(bytes);
    let head = SnapshotHead::take(r.array("snapshot head")?)?;
    r.slice("snapshot core", head.core_bytes as usize)?;
    take_names(&mut r, head.names)?;
    Ok(r.at())
}

/// What stands before the image of `length` bytes of the object `number`.
#[must_use]
pub fn image_head(number: ObjectId, length: u64) -> [u8; IMAGE_HEAD_BYTES] {
    let mut head = [0; IMAGE_HEAD_BYTES];
    head[..4].copy_from_slice(&number.0.to_be_bytes());
    head[4..].copy_from_slice(&length.to_be_bytes());
    head
}

/// A whole snapshot of small images, which are one part.
#[must_use]
pub fn small_snapshot<'a>(
    core: &SnapshotCore,
    names: impl IntoIterator<Item = &'a str>,
    stored: &[StoredImage],
) -> Bytes {
    let mut images = BytesMut::new();
    for StoredImage { object, image } in stored {
        images.put_slice(&image_head(*object, image.len() as u64));
        images.put_slice(image);
    }
    let mut parts = PartsWriter::default();
    parts.loose(&images);
    let mut whole = BytesMut::new();
    whole.put_slice(&snapshot_front(core, names));
    whole.put_slice(parts.finish().bytes());
    whole.put_slice(&images);
    whole.freeze()
}

/// Appends the replica's own part of a snapshot.
pub fn put_snapshot_core(buf: &mut BytesMut, core: &SnapshotCore) {
    put_slot(buf, core.slot);
    buf.put_u64_le(core.stamp.wall.0);
    buf.put_u64_le(core.stamp.entropy);
    buf.put_u64_le(core.replies_digest);
    put_view(buf, &core.view);
    put_ballot(buf, core.lead_ballot);
    put_slot(buf, core.lead_slot);
    put_slot(buf, core.reset);
    put_list(buf, &core.invitations, |buf, open| {
        put_secret_hash(buf, open.hash);
        buf.put_u64_le(open.until.0);
        put_flag(buf, open.is_used);
    });
    put_list(buf, &core.groups, put_group_entry);
    for view in [&core.previous, &core.next] {
        put_flag(buf, view.is_some());
        if let Some(view) = view {
            put_view(buf, view);
        }
    }
    put_list(buf, &core.sessions, put_image);
}

/// Reads the replica's own part of a snapshot, which fills `bytes`.
///
/// # Errors
/// When it is not one, whole.
pub fn take_snapshot_core(bytes: &Bytes) -> Result<SnapshotCore, WireError> {
    const SESSION_BYTES_MIN: usize = 60;
    let mut r = Reader::new(bytes);
    let core = SnapshotCore {
        slot: take_slot(&mut r)?,
        stamp: Stamp {
            wall: Wall(r.u64("wall time")?),
            entropy: r.u64("entropy")?,
        },
        replies_digest: r.u64("digest of replies")?,
        view: take_view(&mut r)?,
        lead_ballot: take_ballot(&mut r)?,
        lead_slot: take_slot(&mut r)?,
        reset: take_slot(&mut r)?,
        invitations: r.list("invitations", INVITATIONS_MAX, 24, |r| {
            Ok(Invitation {
                hash: take_secret_hash(r)?,
                until: Wall(r.u64("end of an invitation")?),
                is_used: r.flag("used invitation")?,
            })
        })?,
        groups: r.list("groups", GROUPS_MAX, 20, take_group_entry)?,
        previous: take_other_view(&mut r)?,
        next: take_other_view(&mut r)?,
        sessions: r.list("sessions", SESSIONS_MAX, SESSION_BYTES_MIN, take_image)?,
    };
    r.end("snapshot core")?;
    if !core.sessions.windows(2).all(|pair| pair[0].id < pair[1].id) {
        return Err(WireError::Inconsistent {
            what: "sessions of a snapshot are not in order",
        });
    }
    Ok(core)
}

fn take_other_view(r: &mut Reader<'_>) -> Result<Option<View>, WireError> {
    let is_there = r.flag("another view")?;
    is_there.then(|| take_view(r)).transpose()
}

const REPLY_GONE: u8 = 0;
const REPLY_KEPT: u8 = 1;
const REPLY_PARKED: u8 = 2;
const REPLY_WOKEN: u8 = 3;

fn put_image(buf: &mut BytesMut, session: &SessionImage) {
    put_session(buf, session.id);
    put_secret_hash(buf, session.hash);
    put_secret_hash(buf, session.tenant);
    put_terms(buf, session.terms);
    put_slot(buf, session.active);
    buf.put_u64_le(session.active_wall);
    buf.put_u64_le(session.floor);
    put_list(buf, &session.replies, |buf, reply| {
        buf.put_u64_le(reply.sequence);
        buf.put_u64_le(reply.fingerprint);
        let (tag, outcome) = match &reply.state {
            ReplyState::Gone => (REPLY_GONE, None),
            ReplyState::Kept(outcome) => (REPLY_KEPT, Some(outcome)),
            ReplyState::Parked => (REPLY_PARKED, None),
            ReplyState::Woken(outcome) => (REPLY_WOKEN, Some(outcome)),
        };
        buf.put_u8(tag);
        if let Some(outcome) = outcome {
            put_outcome(buf, outcome);
        }
    });
}

fn take_image(r: &mut Reader<'_>) -> Result<SessionImage, WireError> {
    const REPLY_BYTES_MIN: usize = 17;
    let image = SessionImage {
        id: take_session(r)?,
        hash: take_secret_hash(r)?,
        tenant: take_secret_hash(r)?,
        terms: take_terms(r)?,
        active: take_slot(r)?,
        active_wall: r.u64("wall time")?,
        floor: r.counter("floor")?,
        replies: r.list("replies", REPLIES_MAX, REPLY_BYTES_MIN, |r| {
            Ok(ReplyImage {
                sequence: r.counter("sequence")?,
                fingerprint: r.u64("fingerprint")?,
                state: take_reply_state(r)?,
            })
        })?,
    };
    let mut last = 0;
    for reply in &image.replies {
        let stands_apart = match &reply.state {
            ReplyState::Parked | ReplyState::Woken(_) => true,
            ReplyState::Gone | ReplyState::Kept(_) => false,
        };
        if reply.sequence <= last || reply.sequence <= image.floor && !stands_apart {
            return Err(WireError::Inconsistent {
                what: "replies of a session are not in order",
            });
        }
        last = reply.sequence;
    }
    Ok(image)
}

fn take_reply_state(r: &mut Reader<'_>) -> Result<ReplyState, WireError> {
    match r.u8("reply")? {
        REPLY_GONE => Ok(ReplyState::Gone),
        REPLY_KEPT => Ok(ReplyState::Kept(take_outcome(r)?)),
        REPLY_PARKED => Ok(ReplyState::Parked),
        REPLY_WOKEN => Ok(ReplyState::Woken(take_outcome(r)?)),
        tag => Err(WireError::UnknownTag { what: "reply", tag }),
    }
}
