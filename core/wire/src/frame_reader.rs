//! Frames out of the bytes of a connection, in memory that follows what arrives.
//!
//! It does not interpret bodies and reads no socket: the streams of `shell/transport` and `shell/client` append to it.

use crate::frame::{Frame, FrameError, HEADER_BYTES, Kind, checksum};
use crate::limits::{LARGE_FRAME_BYTES, READ_BYTES_MAX, READ_BYTES_MIN};
use bytes::{Bytes, BytesMut};
use quorate_types::GroupId;
use std::collections::VecDeque;

/// Less space than this is not offered to a read where more can be had without copying much.
const SPACE_BYTES_MIN: usize = 1 << 10;

/// Cuts a byte stream into frames. Bodies are slices of the buffer they were read into: one
/// allocation serves all frames of a read, and a large frame gets one of its own, of its size.
///
/// Memory follows what has arrived, never what a header announces: a frame's buffer at most doubles
/// each time it is full.
#[derive(Debug)]
pub struct FrameReader {
    /// Large frames, in order, ahead of what is in `buffer`; only the last may lack bytes.
    large: VecDeque<Vec<u8>>,
    /// Bytes before `filled` have arrived and are not yet framed; those between it and the length were written once.
    buffer: BytesMut,
    /// Bytes of memory of which `buffer` is the rest: all of it stays as long as one frame cut from it.
    allocated: usize,
    filled: usize,
    /// What the next new buffer holds, between the two limits.
    read_bytes: usize,
    limit: usize,
}

impl FrameReader {
    /// A reader that refuses bodies of more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> FrameReader {
        FrameReader {
            large: VecDeque::new(),
            buffer: BytesMut::new(),
            allocated: 0,
            filled: 0,
            read_bytes: READ_BYTES_MIN,
            limit,
        }
    }

    /// Allows bodies of up to `limit` bytes from now on: who was welcomed may say more.
    pub fn raise_limit(&mut self, limit: usize) {
        self.limit = self.limit.max(limit);
    }

    /// Bytes that arrived and belong to a frame that is not whole yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.filled + self.large.iter().map(Vec::len).sum::<usize>()
    }

    /// Bytes of memory that the reader holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffer.capacity() + self.large.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Gives its memory back, unless a frame has begun: for a connection that is quiet.
    pub fn rest(&mut self) {
        if self.pending() == 0 {
            self.buffer = BytesMut::new();
            self.read_bytes = READ_BYTES_MIN;
        }
    }

    /// The large frame that lacks bytes, with room for more of them: what is read next is appended to it, and never
    /// beyond its capacity. `None` when the next bytes go to [`FrameReader::room`].
    ///
    /// Who reads into it saves the zeros that a slice needs, and the frame has memory of its own, of its size, however
    /// long its parts are kept. Who has only slices to read into never calls it.
    pub fn large_frame(&mut self) -> Option<&mut Vec<u8>> {
        if self.large.back().is_none_or(|last| is_whole(last)) {
            let whole = self.large_begun()?;
            let mut frame = Vec::with_capacity(whole.min(READ_BYTES_MAX.max(2 * self.filled)));
            frame.extend_from_slice(&self.buffer[..self.filled]);
            self.large.push_back(frame);
            self.filled = 0;
            // The next read brings the header of another frame, and of a large one little more.
            self.read_bytes = READ_BYTES_MIN;
            if self.buffer.capacity() > READ_BYTES_MIN {
                self.buffer = BytesMut::new();
            }
        }
        let frame = self.large.back_mut()?;
        if frame.len() == frame.capacity() {
            let lacking = whole_length(frame) - frame.len();
            frame.reserve_exact(lacking.min(frame.len()));
        }
        Some(frame)
    }

    /// Whether a large frame has begun that lacks bytes.
    #[must_use]
    pub fn lacks_of_large(&self) -> bool {
        self.large.back().is_some_and(|last| !is_whole(last)) || self.large_begun().is_some()
    }

    /// The length of the large frame that `buffer` begins with and does not hold to its end.
    fn large_begun(&self) -> Option<usize> {
        let header = self.buffer[..self.filled].first_chunk::<HEADER_BYTES>()?;
        let whole = HEADER_BYTES + body_length(header);
        let is_known = Kind::of(header[4]).is_some() && header[5..8] == [0; 3];
        let is_allowed = is_known && body_length(header) <= self.limit;
        (whole >= LARGE_FRAME_BYTES && whole > self.filled && is_allowed).then_some(whole)
    }

    /// Where the next bytes of the stream go: append some of them, never beyond its capacity, then call
    /// [`FrameReader::appended`]. Never full.
    pub fn room(&mut self) -> &mut BytesMut {
        self.make_room();
        self.buffer.truncate(self.filled);
        &mut self.buffer
    }

    /// [`FrameReader::room`], which had place for `offered` bytes, was appended to.
    pub fn appended(&mut self, offered: usize) {
        let count = self.buffer.len() - self.filled;
        assert!(count <= offered, "more bytes than there was room for");
        self.note(count, offered);
    }

    /// As [`FrameReader::room`], for callers that have only slices to read into: read into it, then say how many by
    /// [`FrameReader::filled`]. Never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.make_room();
        self.buffer.resize(self.buffer.capacity(), 0);
        &mut self.buffer[self.filled..]
    }

    /// `count` bytes were read into the front of [`FrameReader::space`].
    pub fn filled(&mut self, count: usize) {
        let space = self.buffer.len() - self.filled;
        assert!(count <= space, "more bytes than there was space for");
        self.note(count, space);
    }

    fn make_room(&mut self) {
        assert!(
            self.large.back().is_none_or(|last| is_whole(last)),
            "the bytes that come next belong to a large frame"
        );
        let space = self.buffer.capacity() - self.filled;
        // A rest too small to be worth a read of its own is given up, unless leaving it costs a copy.
        let is_rest = space < SPACE_BYTES_MIN && self.filled < SPACE_BYTES_MIN;
        if space == 0 || is_rest {
            self.grow();
        }
    }

    /// Counts what a read has brought, and judges how much the next one may bring. One that brought nothing tells nothing.
    fn note(&mut self, count: usize, offered: usize) {
        if count == 0 {
            return;
        }
        self.filled += count;
        if count == offered {
            // Filling the small rest of a buffer says nothing about how much was waiting.
            if count * 2 >= self.read_bytes {
                self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
            }
        } else if count < self.read_bytes / 8 {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
    }

    /// Copies `bytes` in, for callers that have them already.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let offered = room.capacity() - room.len();
            let (taken, rest) = bytes.split_at(offered.min(bytes.len()));
            room.extend_from_slice(taken);
            self.appended(offered);
            bytes = rest;
        }
    }

    /// The next whole frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// When the stream carries no frames any more; every later call says so too.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if !self.large.is_empty() {
            return self.next_large();
        }
        let Some(header) = self.buffer[..self.filled].first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = body_length(header);
        if length > self.limit {
            return Err(FrameError::TooLong {
                length,
                limit: self.limit,
            });
        }
        // Refused before the body arrives: a stranger's stream is not worth waiting for.
        let kind = Kind::of(header[4]).ok_or(FrameError::UnknownKind { kind: header[4] })?;
        if header[5..8] != [0; 3] {
            return Err(FrameError::UnknownFlags);
        }
        let whole = HEADER_BYTES + length;
        if self.filled < whole {
            return Ok(None);
        }
        is_unharmed(&self.buffer[..whole])?;
        self.filled -= whole;
        let is_small_part = whole >= LARGE_FRAME_BYTES && 2 * whole < self.allocated;
        let frame = if is_small_part {
            // What one read brought whole, with others: a value kept of it would keep the memory of all.
            let own = Bytes::copy_from_slice(&self.buffer[..whole]);
            bytes::Buf::advance(&mut self.buffer, whole);
            own
        } else {
            self.buffer.split_to(whole).freeze()
        };
        Ok(Some(framed(kind, frame)))
    }

    /// The front of the large frames, once it is whole. Its header was judged when it began.
    fn next_large(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(frame) = self.large.front().filter(|frame| is_whole(frame)) else {
            return Ok(None);
        };
        is_unharmed(frame)?;
        let frame = self.large.pop_front().expect("looked at above");
        let kind = Kind::of(frame[4]).expect("a large frame begins with a header that is known");
        Ok(Some(framed(kind, frame.into())))
    }

    /// A new buffer that begins with the unframed bytes. The old one stays with the frames cut from it.
    fn grow(&mut self) {
        let wanted = match self.buffer[..self.filled].first_chunk::<HEADER_BYTES>() {
            Some(header) => HEADER_BYTES + body_length(header).min(self.limit),
            None => HEADER_BYTES,
        };
        let bytes = self.read_bytes.max(wanted.min(self.filled * 2));
        // Where whole frames fill the buffer the next read gets as much room again: a caller that
        // reads several times before it takes frames copies each byte once on average.
        let bytes = bytes.max(self.filled + self.filled.max(HEADER_BYTES));
        let mut buffer = BytesMut::with_capacity(bytes);
        buffer.extend_from_slice(&self.buffer[..self.filled]);
        self.buffer = buffer;
        self.allocated = bytes;
    }
}

fn is_unharmed(frame: &[u8]) -> Result<(), FrameError> {
    if checksum(frame).to_le_bytes() == frame[12..16] {
        Ok(())
    } else {
        Err(FrameError::BadChecksum)
    }
}

fn framed(kind: Kind, mut frame: Bytes) -> Frame {
    let [g0, g1, g2, g3] = [frame[8], frame[9], frame[10], frame[11]];
    bytes::Buf::advance(&mut frame, HEADER_BYTES);
    Frame {
        kind,
        group: GroupId(u32::from_le_bytes([g0, g1, g2, g3])),
        body: frame,
    }
}

fn body_length(header: &[u8; HEADER_BYTES]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize
}

/// Bytes of a frame whose header has arrived.
fn whole_length(frame: &[u8]) -> usize {
    let header = frame.first_chunk::<HEADER_BYTES>();
    HEADER_BYTES + body_length(header.expect("a large frame begins with its header"))
}

fn is_whole(frame: &[u8]) -> bool {
    frame.len() == whole_length(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_frame;
    use bytes::BufMut;

    /// Reads `stream` in parts of at most `part` bytes, as a connection does, and takes the frames every `often` reads. Each read
    /// appends to the room, or only some do and the others get a slice.
    fn read_all(stream: &[u8], part: usize, often: usize, has_slices: bool) -> Vec<usize> {
        let mut reader = FrameReader::new(1 << 20);
        let mut rest = stream;
        let mut taken = Vec::new();
        let mut reads = 0;
        while !rest.is_empty() {
            let count;
            if let Some(frame) = reader.large_frame() {
                let room = frame.capacity() - frame.len();
                count = room.min(part).min(rest.len());
                assert!(count > 0, "there is room");
                frame.extend_from_slice(&rest[..count]);
            } else if has_slices && reads % 2 == 0 {
                let space = reader.space();
                count = space.len().min(part).min(rest.len());
                space[..count].copy_from_slice(&rest[..count]);
                reader.filled(count);
            } else {
                let room = reader.room();
                let offered = room.capacity() - room.len();
                count = offered.min(part).min(rest.len());
                room.extend_from_slice(&rest[..count]);
                reader.appended(offered);
            }
            rest = &rest[count..];
            reads += 1;
            let is_due = reads % often == 0 || rest.is_empty();
            while is_due && let Some(frame) = reader.next_frame().expect("the stream is whole") {
                assert!(
                    frame
                        .body
                        .iter()
                        .all(|byte| *byte == frame.body.len() as u8)
                );
                taken.push(stream.len() - rest.len() - reader.pending());
            }
        }
        assert_eq!(reader.pending(), 0, "every byte belongs to a frame");
        taken
    }

    #[test]
    fn large_frames_among_small_ones_come_in_order_whatever_a_read_brings() {
        let lengths = [100, 70_000, 0, 40_000, 300_000, 7, 65_536, 65_536, 3_000];
        let mut stream = BytesMut::new();
        let mut ends = Vec::new();
        for length in lengths {
            put_frame(&mut stream, Kind::Peer, GroupId(1), |body| {
                body.put_bytes(length as u8, length)
            });
            ends.push(stream.len());
        }
        for part in [1, 15, 4_000, 65_536, usize::MAX] {
            for often in [1, 3] {
                for has_slices in [false, true] {
                    let taken = read_all(&stream, part, often, has_slices);
                    assert_eq!(taken, ends, "parts of {part}, taken every {often} reads");
                }
            }
        }
    }

    #[test]
    fn a_read_that_brings_nothing_changes_nothing() {
        let mut reader = FrameReader::new(1 << 20);
        reader.push(&[0; READ_BYTES_MIN]);
        let next = reader.read_bytes;
        assert!(next > READ_BYTES_MIN, "a full read makes the next larger");
        for _ in 0..10 {
            let room = reader.room();
            let offered = room.capacity() - room.len();
            reader.appended(offered);
            assert_eq!(
                (reader.read_bytes, reader.pending()),
                (next, READ_BYTES_MIN)
            );
        }
    }

    #[test]
    fn a_large_frame_has_memory_of_its_own_size() {
        let mut stream = BytesMut::new();
        put_frame(&mut stream, Kind::Peer, GroupId(1), |body| {
            body.put_bytes(0, 65_536)
        });
        let mut reader = FrameReader::new(1 << 20);
        reader.push(&stream[..1000]);
        let frame = reader.large_frame().expect("its header is there");
        assert_eq!((frame.len(), frame.capacity()), (1000, stream.len()));
        frame.extend_from_slice(&stream[1000..]);
        assert!(reader.large_frame().is_none(), "it is whole");
        assert_eq!(reader.next_frame().unwrap().unwrap().body.len(), 65_536);
    }

    /// A frame moved without anything lacking would offer a read no room, and what reads nothing is taken for the end.
    #[test]
    fn a_large_frame_of_which_nothing_lacks_stays_in_the_buffer() {
        let mut stream = BytesMut::new();
        put_frame(&mut stream, Kind::Peer, GroupId(1), |body| {
            body.put_bytes(0, LARGE_FRAME_BYTES)
        });
        let mut reader = FrameReader::new(1 << 20);
        reader.push(&stream);
        assert!(reader.large_frame().is_none(), "it is whole");
        assert!(reader.next_frame().unwrap().is_some());
    }

    /// The memory of a body is free to be changed only if nobody else holds a part of it.
    #[test]
    fn a_large_frame_has_memory_of_its_own_wherever_in_a_read_it_lies() {
        for before in [100, READ_BYTES_MAX - 2 * LARGE_FRAME_BYTES] {
            let mut stream = BytesMut::new();
            for length in [before, LARGE_FRAME_BYTES, 100] {
                put_frame(&mut stream, Kind::Peer, GroupId(1), |body| {
                    body.put_bytes(length as u8, length)
                });
            }
            let mut reader = FrameReader::new(1 << 20);
            reader.read_bytes = READ_BYTES_MAX;
            reader.space()[..stream.len()].copy_from_slice(&stream);
            reader.filled(stream.len());
            let mut frames = Vec::new();
            while let Some(frame) = reader.next_frame().expect("the stream is whole") {
                frames.push(frame.body);
            }
            let lengths: Vec<usize> = frames.iter().map(Bytes::len).collect();
            assert_eq!(lengths, [before, LARGE_FRAME_BYTES, 100]);
            let large = frames.swap_remove(1);
            assert!(large.iter().all(|byte| *byte == LARGE_FRAME_BYTES as u8));
            assert!(large.is_unique(), "it holds no buffer of 256 KiB in memory");
        }
    }

    #[test]
    fn the_memory_of_a_large_frame_follows_what_has_arrived() {
        let mut stream = BytesMut::new();
        put_frame(&mut stream, Kind::Peer, GroupId(1), |body| {
            body.put_bytes(0, 4 << 20)
        });
        let mut reader = FrameReader::new(8 << 20);
        reader.push(&stream[..100]);
        let mut at = 100;
        while let Some(frame) = reader.large_frame() {
            assert!(frame.capacity() <= (2 * at).max(READ_BYTES_MAX));
            let end = stream
                .len()
                .min(at + 10_000.min(frame.capacity() - frame.len()));
            frame.extend_from_slice(&stream[at..end]);
            at = end;
        }
        assert!(reader.next_frame().unwrap().is_some());
    }

    #[test]
    fn reading_on_without_taking_frames_needs_few_reads() {
        let mut small = BytesMut::new();
        put_frame(&mut small, Kind::Peer, GroupId(1), |body| {
            body.put_slice(&[7; 100])
        });
        let stream = small.repeat(10_000);
        let mut reader = FrameReader::new(1024);
        let mut rest = &stream[..];
        let mut reads = 0;
        while !rest.is_empty() {
            let space = reader.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            reader.filled(count);
            rest = &rest[count..];
            reads += 1;
        }
        assert!(reads < 64, "{reads} reads for {} bytes", stream.len());
    }

    /// Reads into the room as much as `wanted`, or as it has.
    fn read_room(reader: &mut FrameReader, stream: &[u8], wanted: usize) -> (usize, usize) {
        let room = reader.room();
        let offered = room.capacity() - room.len();
        let count = offered.min(wanted);
        room.extend_from_slice(&stream[..count]);
        reader.appended(offered);
        (offered, count)
    }

    fn small_frames(length: usize, count: usize) -> Vec<u8> {
        let mut small = BytesMut::new();
        put_frame(&mut small, Kind::Peer, GroupId(1), |body| {
            body.put_bytes(7, length - HEADER_BYTES)
        });
        small.repeat(count)
    }

    fn take_all(reader: &mut FrameReader) {
        while reader.next_frame().expect("the stream is whole").is_some() {}
    }

    #[test]
    fn a_rest_that_is_small_is_given_up_unless_that_costs_a_copy() {
        let mut reader = FrameReader::new(1 << 20);
        read_room(&mut reader, &small_frames(500, 8), 4_000);
        take_all(&mut reader);
        assert_eq!(
            read_room(&mut reader, &[], 0).0,
            READ_BYTES_MIN,
            "96 bytes are not worth a read"
        );

        let mut reader = FrameReader::new(1 << 20);
        read_room(&mut reader, &small_frames(500, 8), 4_000);
        assert_eq!(
            read_room(&mut reader, &[], 0).0,
            READ_BYTES_MIN - 4_000,
            "4,000 bytes are not copied"
        );
    }

    #[test]
    fn a_small_rest_that_is_filled_does_not_make_the_next_read_larger() {
        let mut reader = FrameReader::new(1 << 20);
        read_room(&mut reader, &small_frames(1_500, 2), 3_000);
        take_all(&mut reader);
        let rest = READ_BYTES_MIN - 3_000;
        assert_eq!(
            read_room(&mut reader, &small_frames(rest, 1), rest),
            (rest, rest)
        );
        take_all(&mut reader);
        assert_eq!(read_room(&mut reader, &[], 0).0, READ_BYTES_MIN);
    }

    #[test]
    fn what_is_held_is_the_memory_and_not_what_has_arrived() {
        let mut reader = FrameReader::new(1 << 20);
        reader.push(&[1]);
        assert_eq!((reader.pending(), reader.held()), (1, READ_BYTES_MIN));
    }

    #[test]
    fn a_large_frame_leaves_no_large_buffer_behind() {
        let mut reader = FrameReader::new(1 << 20);
        while reader.read_bytes < READ_BYTES_MAX {
            reader.push(&small_frames(reader.read_bytes, 1));
            take_all(&mut reader);
        }
        let mut large = BytesMut::new();
        put_frame(&mut large, Kind::Peer, GroupId(1), |body| {
            body.put_bytes(0, LARGE_FRAME_BYTES)
        });
        read_room(&mut reader, &large, HEADER_BYTES);
        assert!(reader.held() >= READ_BYTES_MAX);
        let frame = reader
            .large_frame()
            .expect("its header is there")
            .capacity();
        assert_eq!(reader.held(), frame);
    }

    #[test]
    #[should_panic(expected = "more bytes than there was room for")]
    fn more_than_there_was_room_for_is_no_read() {
        let mut reader = FrameReader::new(100);
        let room = reader.room();
        let offered = room.capacity() - room.len();
        room.extend_from_slice(&vec![0; offered + 1]);
        reader.appended(offered);
    }
}
