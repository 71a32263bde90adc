//! The frames that wait to be written to one connection: three lanes, the urgent one first.
//!
//! Small frames are copied together, large ones are shared. A piece that is partly written is
//! finished before another lane gets its turn, so frames never mix. Refuses nothing: the owner
//! compares [`Lanes::len`] with its limit.

use crate::limits::{JOIN_MAX, PIECES_MAX, SHARE_MIN};
use bytes::{Buf, Bytes, BytesMut};
use quorate_wire::FramePieces;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Which queue of a connection a frame takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameLane {
    /// Small and never behind bulk.
    Urgent,
    /// Agreement, calls and replies.
    Normal,
    /// Catch-up and snapshots.
    Bulk,
}

/// The queues of one connection.
#[derive(Default)]
pub(crate) struct Lanes {
    /// What a write left of a frame, or of frames that are one piece.
    started: VecDeque<Bytes>,
    lanes: [Queue; 3],
    /// Invariant: the bytes of `started` and of all lanes.
    len: usize,
}

/// What is written in one go, unless the receiver is full.
struct Piece {
    bytes: Bytes,
    /// Whether a frame goes on in the next piece, so that no other lane may come in between.
    is_continued: bool,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Small frames, not yet a piece.
    tail: BytesMut,
}

impl Lanes {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Queues a whole frame.
    pub(crate) fn push(&mut self, lane: FrameLane, frame: &Bytes) {
        self.len += frame.len();
        let queue = &mut self.lanes[lane as usize];
        if frame.len() >= SHARE_MIN {
            queue.seal();
            queue.pieces.push_back(Piece::whole(frame.clone()));
        } else {
            queue.room().extend_from_slice(frame);
        }
    }

    /// Queues whole frames that are one or more pieces.
    pub(crate) fn push_pieces(&mut self, lane: FrameLane, frames: &FramePieces) {
        if let Some(frame) = frames.whole() {
            return self.push(lane, frame);
        }
        let queue = &mut self.lanes[lane as usize];
        queue.seal();
        for bytes in frames.iter() {
            self.len += bytes.len();
            queue.pieces.push_back(Piece {
                bytes: bytes.clone(),
                is_continued: true,
            });
        }
        let last = queue.pieces.back_mut().expect("a frame has a header");
        last.is_continued = false;
    }

    /// Queues whole frames that have no other owner.
    pub(crate) fn adopt(&mut self, lane: FrameLane, frames: Bytes) {
        self.len += frames.len();
        let queue = &mut self.lanes[lane as usize];
        queue.seal();
        queue.pieces.push_back(Piece::whole(frames));
    }

    /// Hands as much to `write` as it takes. `Ok(true)` when nothing is left, `Ok(false)` when the
    /// receiver is full.
    pub(crate) fn flush(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        for queue in &mut self.lanes {
            queue.seal();
        }
        while self.len > 0 {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = self.gather(&mut pieces);
            match write(&pieces[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.consume(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn gather<'a>(&'a self, into: &mut [IoSlice<'a>; PIECES_MAX]) -> usize {
        let queued = self.lanes.iter().flat_map(|queue| &queue.pieces);
        let queued = queued.map(|piece| &piece.bytes);
        let mut count = 0;
        for (slot, piece) in into.iter_mut().zip(self.started.iter().chain(queued)) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn consume(&mut self, mut written: usize) {
        assert!(
            written <= self.len,
            "no more is written than was handed over"
        );
        self.len -= written;
        while written > 0
            && let Some(mut piece) = self.started.pop_front()
        {
            let taken = written.min(piece.len());
            written -= taken;
            piece.advance(taken);
            if !piece.is_empty() {
                self.started.push_front(piece);
            }
        }
        for queue in &mut self.lanes {
            while written > 0
                && let Some(mut piece) = queue.pieces.pop_front()
            {
                let taken = written.min(piece.bytes.len());
                written -= taken;
                piece.bytes.advance(taken);
                if !piece.bytes.is_empty() {
                    self.started.push_back(piece.bytes);
                }
                if written == 0 && piece.is_continued {
                    queue.take_frame(&mut self.started);
                }
            }
        }
        assert!(written == 0, "every written byte was queued");
    }
}

impl Piece {
    fn whole(bytes: Bytes) -> Piece {
        Piece {
            bytes,
            is_continued: false,
        }
    }
}

impl Queue {
    /// Takes the pieces of the frame that has begun.
    fn take_frame(&mut self, into: &mut VecDeque<Bytes>) {
        loop {
            let piece = self.pieces.pop_front();
            let piece = piece.expect("all pieces of a frame are queued together");
            into.push_back(piece.bytes);
            if !piece.is_continued {
                break;
            }
        }
    }

    fn room(&mut self) -> &mut BytesMut {
        if self.tail.len() >= JOIN_MAX {
            self.seal();
        }
        &mut self.tail
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let frames = self.tail.split().freeze();
            self.pieces.push_back(Piece::whole(frames));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::GroupId;
    use quorate_wire::{Kind, put_frame_shared};

    fn bounded(
        sink: &mut Vec<u8>,
        mut room: usize,
    ) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> {
        move |pieces| {
            if room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut taken = 0;
            for piece in pieces {
                let part = piece.len().min(room);
                sink.extend_from_slice(&piece[..part]);
                room -= part;
                taken += part;
            }
            Ok(taken)
        }
    }

    #[test]
    fn a_frame_of_several_pieces_is_cut_by_no_other_lane_wherever_a_write_ends() {
        let value = Bytes::from(vec![b'v'; SHARE_MIN]);
        let frame = put_frame_shared(&mut BytesMut::new(), Kind::Peer, GroupId(1), |body| {
            body.put_value(&value);
            body.buf().extend_from_slice(b"and");
            body.put_value(&value);
        });
        let whole: Vec<u8> = frame.iter().flat_map(|piece| piece.to_vec()).collect();
        for written in (1..whole.len()).step_by(7).chain([16, 16 + SHARE_MIN]) {
            let mut lanes = Lanes::default();
            lanes.push_pieces(FrameLane::Normal, &frame);
            let mut sink = Vec::new();
            assert!(!lanes.flush(bounded(&mut sink, written)).unwrap());
            lanes.push(FrameLane::Urgent, &Bytes::from_static(b"urgent"));
            assert!(lanes.flush(bounded(&mut sink, usize::MAX)).unwrap());
            assert_eq!(sink, [&whole[..], b"urgent"].concat(), "after {written}");
            assert_eq!(lanes.len(), 0);
        }
    }

    #[test]
    fn the_urgent_lane_overtakes_but_never_cuts_a_started_frame() {
        let mut lanes = Lanes::default();
        lanes.push(FrameLane::Bulk, &Bytes::from(vec![b'b'; SHARE_MIN]));
        let mut sink = Vec::new();
        assert!(!lanes.flush(bounded(&mut sink, 10)).unwrap());
        lanes.push(FrameLane::Normal, &Bytes::from_static(b"n"));
        lanes.push(FrameLane::Urgent, &Bytes::from_static(b"u"));
        assert!(lanes.flush(bounded(&mut sink, usize::MAX)).unwrap());
        let mut expected = vec![b'b'; SHARE_MIN];
        expected.extend_from_slice(b"un");
        assert_eq!(sink, expected);
        assert_eq!(lanes.len(), 0);
    }

    #[test]
    fn a_frame_that_was_written_in_pieces_is_freed() {
        let mut lanes = Lanes::default();
        let frame = Bytes::from(vec![b'r'; SHARE_MIN]);
        lanes.push(FrameLane::Normal, &frame);
        let mut sink = Vec::new();
        assert!(!lanes.flush(bounded(&mut sink, 10)).unwrap());
        assert!(!frame.is_unique());
        assert!(lanes.flush(bounded(&mut sink, usize::MAX)).unwrap());
        assert!(frame.is_unique());
    }

    #[test]
    fn every_split_of_a_write_keeps_order_and_length() {
        for step in 1..40 {
            let mut lanes = Lanes::default();
            for number in 0..20u8 {
                lanes.push(FrameLane::Normal, &Bytes::from(vec![number; 3]));
            }
            let mut sink = Vec::new();
            while !lanes.flush(bounded(&mut sink, step)).unwrap() {
                assert_eq!(sink.len() + lanes.len(), 60);
            }
            let expected: Vec<u8> = (0..20u8).flat_map(|number| [number; 3]).collect();
            assert_eq!(sink, expected);
        }
    }
}
