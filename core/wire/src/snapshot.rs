//! Bytes of a snapshot: a head, the replica's own part, one image per object, a checksum.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | `QSNP` |
//! | 4..6 | version of the layout, little-endian |
//! | 6..8 | reserved, zero |
//! | 8..12 | length of the core, little-endian |
//! | 12..16 | number of objects, little-endian |
//! | … | the core |
//! | … | per object: name behind its length (2 bytes), length of the image (8 bytes), image |
//! | last 4 | crc32c of everything before, little-endian |
//!
//! Written front to back by a [`SnapshotEncoder`], so that no image need be in memory whole; the
//! replica's part is readable from the front alone ([`SnapshotHead`]). Knows nothing of what an
//! image holds, and of no file: the storage performs.

use crate::WireError;
use crate::client::{put_outcome, take_outcome};
use crate::codec::{Reader, put_list, put_name, put_option};
use crate::limits::{NAME_BYTES_MAX, OBJECTS_MAX, REPLIES_MAX, SESSIONS_MAX};
use crate::view::{put_view, take_view};
use crate::words::{
    put_ballot, put_secret_hash, put_session, put_slot, take_ballot, take_secret_hash,
    take_session, take_slot,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_replica::{ReplyImage, SessionImage, SnapshotCore};
use quorate_types::{Stamp, Wall};

/// The version of the layout that this build writes.
pub const SNAPSHOT_VERSION: u16 = 4;

/// Bytes of a snapshot's head.
pub const SNAPSHOT_HEAD_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"QSNP";
const CHECKSUM_BYTES: usize = 4;

/// What the first bytes of a snapshot say about the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHead {
    /// Bytes of the replica's own part, which follows.
    pub core_bytes: u32,
    /// Objects whose images follow that.
    pub objects: u32,
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
        let objects = half(12);
        if objects as usize > OBJECTS_MAX {
            return Err(WireError::TooMany {
                what: "objects",
                count: objects as usize,
                limit: OBJECTS_MAX,
            });
        }
        Ok(SnapshotHead {
            core_bytes: half(8),
            objects,
        })
    }
}

/// An object's state in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedImage {
    /// The object's name.
    pub name: String,
    /// Its state, as its host encodes it.
    pub image: Bytes,
}

/// A snapshot, read whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The replica's own part.
    pub core: SnapshotCore,
    /// The objects' states in the order of the view's objects.
    pub objects: Vec<NamedImage>,
}

impl Snapshot {
    /// Reads a whole snapshot. Images are slices of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not a snapshot, or were changed.
    pub fn take(bytes: &Bytes) -> Result<Snapshot, WireError> {
        let mut r = Reader::new(bytes);
        let head = SnapshotHead::take(r.array("snapshot head")?)?;
        // The head alone is longer than a checksum.
        let summed = bytes.len() - CHECKSUM_BYTES;
        if crc32c::crc32c(&bytes[..summed]).to_le_bytes() != bytes[summed..] {
            return Err(WireError::Inconsistent {
                what: "a snapshot's checksum does not match",
            });
        }
        let core = take_snapshot_core(&r.slice("snapshot core", head.core_bytes as usize)?)?;
        let mut objects = Vec::new();
        for _ in 0..head.objects {
            let name = r.text("object name", NAME_BYTES_MAX)?;
            let length = r.u64("image length")?;
            let length = usize::try_from(length).map_err(|_| WireError::OutOfRange {
                what: "image length",
                value: length,
            })?;
            let image = r.slice("image", length)?;
            objects.push(NamedImage { name, image });
        }
        let _: &[u8; CHECKSUM_BYTES] = r.array("checksum")?;
        r.end("snapshot")?;
        Ok(Snapshot { core, objects })
    }
}

/// Writes a snapshot front to back into `sink`, piece by piece, and sums it up on the way.
///
/// The pieces must keep what was announced: the writer panics when they do not, because what it has
/// written by then is no snapshot.
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
/// #         quorums: Quorums::majority(1).unwrap(), window: 8, persistence: Persistence::Memory,
/// #         objects: vec![],
/// #     },
/// #     lead_ballot: Ballot::ZERO, lead_slot: Slot::ZERO, sessions: vec![],
/// # };
/// use quorate_wire::{Snapshot, SnapshotEncoder};
/// let mut file = Vec::new();
/// let sink = |piece: &[u8]| { file.extend_from_slice(piece); Ok::<(), std::io::Error>(()) };
/// let mut writer = SnapshotEncoder::begin(sink, &core, 1)?;
/// writer.object("account", 5)?;
/// writer.image(b"st")?;
/// writer.image(b"ate")?;
/// writer.finish()?;
/// let read = Snapshot::take(&file.into())?;
/// assert_eq!(read.core, core);
/// assert_eq!(&read.objects[0].image[..], b"state");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SnapshotEncoder<S> {
    sink: S,
    checksum: u32,
    objects_left: u32,
    image_left: u64,
    bytes: u64,
}

impl<E, S: FnMut(&[u8]) -> Result<(), E>> SnapshotEncoder<S> {
    /// Writes the head and the replica's own part; `objects` images must follow.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn begin(sink: S, core: &SnapshotCore, objects: u32) -> Result<SnapshotEncoder<S>, E> {
        let mut buf = BytesMut::new();
        buf.put_slice(&MAGIC);
        buf.put_u16_le(SNAPSHOT_VERSION);
        buf.put_u16_le(0);
        buf.put_u32_le(0);
        buf.put_u32_le(objects);
        put_snapshot_core(&mut buf, core);
        let core_bytes = u32::try_from(buf.len() - SNAPSHOT_HEAD_BYTES)
            .expect("the session table is bounded far below 4 GiB");
        buf[8..12].copy_from_slice(&core_bytes.to_le_bytes());
        let mut writer = SnapshotEncoder {
            sink,
            checksum: 0,
            objects_left: objects,
            image_left: 0,
            bytes: 0,
        };
        writer.write(&buf)?;
        Ok(writer)
    }

    /// Begins the image of the next object, of `length` bytes.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn object(&mut self, name: &str, length: u64) -> Result<(), E> {
        assert_eq!(self.image_left, 0, "the image before is not whole");
        assert!(self.objects_left > 0, "more objects than announced");
        self.objects_left -= 1;
        self.image_left = length;
        let mut buf = BytesMut::new();
        put_name(&mut buf, name, NAME_BYTES_MAX);
        buf.put_u64_le(length);
        self.write(&buf)
    }

    /// Writes a piece of the image begun last.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn image(&mut self, piece: &[u8]) -> Result<(), E> {
        let left = self.image_left.checked_sub(piece.len() as u64);
        self.image_left = left.expect("an image is longer than announced");
        self.write(piece)
    }

    /// Writes the checksum; says how many bytes the snapshot has.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn finish(mut self) -> Result<u64, E> {
        assert_eq!(self.image_left, 0, "the last image is not whole");
        assert_eq!(self.objects_left, 0, "fewer objects than announced");
        let checksum = self.checksum.to_le_bytes();
        self.write(&checksum)?;
        Ok(self.bytes)
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), E> {
        self.checksum = crc32c::crc32c_append(self.checksum, piece);
        self.bytes += piece.len() as u64;
        (self.sink)(piece)
    }
}

/// Bytes of the snapshot of this core and of objects with these names and lengths of images.
#[must_use]
pub fn snapshot_bytes<'a>(
    core: &SnapshotCore,
    objects: impl Iterator<Item = (&'a str, u64)>,
) -> u64 {
    let mut encoded = BytesMut::new();
    put_snapshot_core(&mut encoded, core);
    let ends = SNAPSHOT_HEAD_BYTES + encoded.len() + CHECKSUM_BYTES;
    let images = objects.map(|(name, length)| (2 + name.len() + 8) as u64 + length);
    ends as u64 + images.sum::<u64>()
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
    put_list(buf, &core.sessions, put_image);
}

/// Reads the replica's own part of a snapshot, which fills `bytes`.
///
/// # Errors
/// When it is not one, whole.
pub fn take_snapshot_core(bytes: &Bytes) -> Result<SnapshotCore, WireError> {
    const SESSION_BYTES_MIN: usize = 52;
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

fn put_image(buf: &mut BytesMut, session: &SessionImage) {
    put_session(buf, session.id);
    put_secret_hash(buf, session.hash);
    put_slot(buf, session.active);
    buf.put_u64_le(session.active_wall);
    buf.put_u64_le(session.floor);
    put_list(buf, &session.replies, |buf, reply| {
        buf.put_u64_le(reply.sequence);
        buf.put_u64_le(reply.fingerprint);
        put_option(buf, reply.outcome.as_ref(), put_outcome);
    });
}

fn take_image(r: &mut Reader<'_>) -> Result<SessionImage, WireError> {
    const REPLY_BYTES_MIN: usize = 17;
    let image = SessionImage {
        id: take_session(r)?,
        hash: take_secret_hash(r)?,
        active: take_slot(r)?,
        active_wall: r.u64("wall time")?,
        floor: r.counter("floor")?,
        replies: r.list("replies", REPLIES_MAX, REPLY_BYTES_MIN, |r| {
            Ok(ReplyImage {
                sequence: r.counter("sequence")?,
                fingerprint: r.u64("fingerprint")?,
                outcome: r.option("outcome", take_outcome)?,
            })
        })?,
    };
    let mut floor = image.floor;
    for reply in &image.replies {
        if reply.sequence <= floor {
            return Err(WireError::Inconsistent {
                what: "replies of a session are not in order",
            });
        }
        floor = reply.sequence;
    }
    Ok(image)
}
