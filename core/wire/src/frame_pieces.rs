//! Frames whose large values are not copied: a list of pieces, written one behind the other.
//!
//! Only writing differs: the bytes on the stream are those of [`crate::put_frame`]. The transport sends peers' messages and
//! clients' answers this way; a value that came in one frame leaves in others from where it lies.

use crate::frame::{HEADER_BYTES, Kind, OpenFrame, begin_frame, end_frame};
use crate::limits::SHARE_BYTES_MIN;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::GroupId;

/// The body of a frame that is being written.
pub struct SharedBody<'a> {
    buf: &'a mut BytesMut,
    /// Values, each with its place in `buf`, ascending.
    shared: &'a mut Vec<(usize, Bytes)>,
}

/// Whole frames as pieces: to be written one behind the other, with nothing in between.
#[derive(Clone, Debug)]
pub struct FramePieces {
    first: Bytes,
    /// Takes no memory where nothing is shared, which is nearly always.
    rest: Vec<Bytes>,
}

impl<'a> SharedBody<'a> {
    /// The body of the frame that is open in `buf`; what it shares goes to `shared`.
    pub fn new(buf: &'a mut BytesMut, shared: &'a mut Vec<(usize, Bytes)>) -> SharedBody<'a> {
        SharedBody { buf, shared }
    }

    /// Where what is not shared is appended.
    pub fn buf(&mut self) -> &mut BytesMut {
        self.buf
    }

    /// Appends a value: a large one as it lies, a small one as a copy.
    pub fn put_value(&mut self, value: &Bytes) {
        if value.len() >= SHARE_BYTES_MIN {
            self.shared.push((self.buf.len(), value.clone()));
        } else {
            self.buf.put_slice(value);
        }
    }

    /// Bytes so far, with whatever else is in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.buf.len() + shared_bytes(self.shared)
    }
}

impl FramePieces {
    /// The pieces in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The frame, if it is one piece.
    #[must_use]
    pub fn whole(&self) -> Option<&Bytes> {
        self.rest.is_empty().then_some(&self.first)
    }
}

/// Writes one frame into the empty `buf`, and takes it out as pieces.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use quorate_types::GroupId;
/// use quorate_wire::{FrameReader, Kind, put_frame_shared};
///
/// let value = Bytes::from(vec![7; 10_000]);
/// let pieces = put_frame_shared(&mut BytesMut::new(), Kind::Peer, GroupId(7), |body| {
///     body.buf().extend_from_slice(b"a value:");
///     body.put_value(&value);
/// });
/// let mut reader = FrameReader::new(1 << 20);
/// pieces.iter().for_each(|piece| reader.push(piece));
/// let frame = reader.next_frame()?.expect("the frame is whole");
/// assert_eq!(frame.body, [&b"a value:"[..], &value[..]].concat());
/// # Ok::<(), quorate_wire::FrameError>(())
/// ```
pub fn put_frame_shared(
    buf: &mut BytesMut,
    kind: Kind,
    group: GroupId,
    body: impl FnOnce(&mut SharedBody<'_>),
) -> FramePieces {
    assert!(buf.is_empty(), "the pieces are all that is in the buffer");
    let open = begin_frame(buf, kind, group);
    let mut shared = Vec::new();
    body(&mut SharedBody::new(buf, &mut shared));
    end_frame_shared(buf, open, shared)
}

/// Completes the frame begun in the same `buf`, and takes it out with all that is before it.
pub fn end_frame_shared(
    buf: &mut BytesMut,
    open: OpenFrame,
    shared: Vec<(usize, Bytes)>,
) -> FramePieces {
    if shared.is_empty() {
        end_frame(buf, open);
        return FramePieces {
            first: buf.split().freeze(),
            rest: Vec::new(),
        };
    }
    let at = open.at();
    let length = open.body_len(buf) + shared_bytes(&shared);
    let length = u32::try_from(length).expect("no body has 4 GiB");
    buf[at..at + 4].copy_from_slice(&length.to_le_bytes());
    let mut checksum = crc32c::crc32c(&buf[at..at + 12]);
    let mut from = at + HEADER_BYTES;
    for (place, value) in &shared {
        checksum = crc32c::crc32c_append(checksum, &buf[from..*place]);
        checksum = crc32c::crc32c_append(checksum, value);
        from = *place;
    }
    checksum = crc32c::crc32c_append(checksum, &buf[from..]);
    buf[at + 12..at + HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    cut(&buf.split().freeze(), shared)
}

fn cut(written: &Bytes, shared: Vec<(usize, Bytes)>) -> FramePieces {
    let mut rest = Vec::with_capacity(2 * shared.len());
    let mut from = shared[0].0;
    let first = written.slice(..from);
    for (place, value) in shared {
        if place > from {
            rest.push(written.slice(from..place));
        }
        from = place;
        rest.push(value);
    }
    if from < written.len() {
        rest.push(written.slice(from..));
    }
    FramePieces { first, rest }
}

fn shared_bytes(shared: &[(usize, Bytes)]) -> usize {
    shared.iter().map(|(_, value)| value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put_frame;
    use quorate_types::{CommandId, Outcome, ToClient};

    #[test]
    fn the_bytes_are_those_of_a_frame_that_was_copied_together() {
        let values: Vec<Bytes> = [5_000, 100, 4_096, 70_000]
            .iter()
            .map(|length| Bytes::from(vec![*length as u8; *length]))
            .collect();
        let mut copied = BytesMut::new();
        put_frame(&mut copied, Kind::ToClient, GroupId(3), |body| {
            for value in &values {
                body.put_slice(b"next");
                body.put_slice(value);
            }
        });
        let pieces = put_frame_shared(&mut BytesMut::new(), Kind::ToClient, GroupId(3), |body| {
            for value in &values {
                body.buf().put_slice(b"next");
                body.put_value(value);
            }
        });
        let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        assert_eq!(joined, copied);
        let is_shared = |value: &&Bytes| pieces.iter().any(|p| p.as_ptr() == value.as_ptr());
        assert_eq!(values.iter().filter(is_shared).count(), 3, "large ones");
    }

    #[test]
    fn a_large_reply_that_is_shared_has_the_bytes_of_one_that_is_copied() {
        for length in [10, 70_000] {
            for outcome in [Outcome::Returned, Outcome::Raised] {
                let id = CommandId::default();
                let outcome = outcome(Bytes::from(vec![3; length]));
                let message = ToClient::Replied { id, outcome };
                let mut copied = BytesMut::new();
                put_frame(&mut copied, Kind::ToClient, GroupId(3), |body| {
                    crate::put_answer(body, &message)
                });
                let buf = &mut BytesMut::new();
                let pieces = put_frame_shared(buf, Kind::ToClient, GroupId(3), |body| {
                    crate::put_answer_shared(body, &message)
                });
                let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
                assert_eq!(joined, copied);
                assert_eq!(pieces.whole().is_none(), length > 4_096);
            }
        }
    }
}
