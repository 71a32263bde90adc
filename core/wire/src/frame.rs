//! Frames: the layout of messages on a byte stream. A header of 16 bytes, then the body.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | length of the body, little-endian |
//! | 4 | kind |
//! | 5 | flags, zero |
//! | 6..8 | reserved, zero |
//! | 8..12 | group, little-endian |
//! | 12..16 | crc32c of bytes 0..12 and the body, little-endian |
//!
//! It does not interpret bodies. The transport reads with [`crate::FrameReader`]; every sender writes with
//! [`put_frame`].

use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::GroupId;
use std::fmt;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;

/// What a frame's body is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First frame of the side that connects: [`crate::Hello`].
    Hello = 1,
    /// The answer that accepts: [`crate::Welcome`].
    Welcome = 2,
    /// The answer that refuses, or the reason before closing: [`crate::Reject`].
    Reject = 3,
    /// One message between nodes of a group: `PeerMessage`.
    Peer = 4,
    /// Messages of a client, one or more back to back: `FromClient`.
    FromClient = 5,
    /// Messages to a client, one or more back to back: `ToClient`.
    ToClient = 6,
    /// Asks for a node's status; the body is empty.
    StatusRequest = 7,
    /// A node's status, as JSON text.
    StatusReply = 8,
    /// An operator's request, as a call payload. Reserved: nodes reject it.
    AdminRequest = 9,
    /// The answer to it, as a value. Reserved.
    AdminReply = 10,
    /// How far a node has come: the first frame of a link after Hello and Welcome.
    Reach = 11,
    /// The answer to a node that comes with less than was seen of it.
    Sighting = 12,
    /// The answer to the Hello of a node: the accepting node proves itself and asks for the other's proof.
    Challenge = 13,
    /// The answer to that, before the Welcome.
    Proof = 14,
}

impl Kind {
    /// Every kind, ascending by number.
    pub const ALL: [Kind; 14] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Reject,
        Kind::Peer,
        Kind::FromClient,
        Kind::ToClient,
        Kind::StatusRequest,
        Kind::StatusReply,
        Kind::AdminRequest,
        Kind::AdminReply,
        Kind::Reach,
        Kind::Sighting,
        Kind::Challenge,
        Kind::Proof,
    ];

    pub(crate) fn of(number: u8) -> Option<Kind> {
        let index = usize::from(number).checked_sub(1)?;
        Kind::ALL.get(index).copied()
    }
}

/// One frame that arrived whole and unharmed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What the body is.
    pub kind: Kind,
    /// Which group it concerns.
    pub group: GroupId,
    /// A slice of the read buffer. Who keeps a small part of it for long copies that part: the whole
    /// buffer lives as long as any slice of it.
    pub body: Bytes,
}

/// Why a byte stream carries no frames any more: the connection is to be closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The body would be longer than allowed here. No memory was taken for it.
    TooLong {
        /// Body bytes announced.
        length: usize,
        /// Body bytes allowed.
        limit: usize,
    },
    /// Header or body changed on the way.
    BadChecksum,
    /// The kind names nothing this version knows.
    UnknownKind {
        /// Its number.
        kind: u8,
    },
    /// Flags or reserved bytes are set that this version does not know.
    UnknownFlags,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { length, limit } => {
                write!(f, "a frame of {length} bytes, at most {limit} are allowed")
            }
            FrameError::BadChecksum => f.write_str("a frame's checksum does not match"),
            FrameError::UnknownKind { kind } => write!(f, "unknown kind of frame {kind}"),
            FrameError::UnknownFlags => f.write_str("a frame's flags are not known here"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A frame that is being written; [`end_frame`] completes it.
#[derive(Debug)]
#[must_use = "a frame without its length and checksum cannot be read"]
pub struct OpenFrame {
    at: usize,
}

/// Appends one frame to `buf`; `body` appends the body in place.
///
/// ```
/// use bytes::{BufMut, BytesMut};
/// use quorate_types::GroupId;
/// use quorate_wire::{FrameReader, Kind, put_frame};
///
/// let mut sent = BytesMut::new();
/// put_frame(&mut sent, Kind::StatusReply, GroupId(7), |body| body.put_slice(b"{}"));
///
/// let mut reader = FrameReader::new(1024);
/// reader.push(&sent);
/// let frame = reader.next_frame()?.expect("the frame is whole");
/// assert_eq!((frame.kind, frame.group, &frame.body[..]), (Kind::StatusReply, GroupId(7), &b"{}"[..]));
/// # Ok::<(), quorate_wire::FrameError>(())
/// ```
#[inline]
pub fn put_frame(buf: &mut BytesMut, kind: Kind, group: GroupId, body: impl FnOnce(&mut BytesMut)) {
    let open = begin_frame(buf, kind, group);
    body(buf);
    end_frame(buf, open);
}

/// Appends a header to `buf`; what is appended next, up to [`end_frame`], is the body. Lets replies
/// that come one by one share a frame.
#[inline]
pub fn begin_frame(buf: &mut BytesMut, kind: Kind, group: GroupId) -> OpenFrame {
    let at = buf.len();
    let mut header = [0; HEADER_BYTES];
    header[4] = kind as u8;
    header[8..12].copy_from_slice(&group.0.to_le_bytes());
    buf.put_slice(&header);
    OpenFrame { at }
}

/// Completes the frame begun in the same `buf`: fills in its length and checksum.
#[inline]
pub fn end_frame(buf: &mut BytesMut, open: OpenFrame) {
    let frame = &mut buf[open.at..];
    let length = u32::try_from(frame.len() - HEADER_BYTES).expect("no body has 4 GiB");
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(frame);
    frame[12..16].copy_from_slice(&checksum.to_le_bytes());
}

impl OpenFrame {
    /// Where the frame begins in its buffer.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes of the body so far.
    #[must_use]
    pub fn body_len(&self, buf: &BytesMut) -> usize {
        buf.len() - self.at - HEADER_BYTES
    }
}

#[inline]
pub(crate) fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[HEADER_BYTES..])
}
