//! Frames between node and host process; docs/host-protocol.md is their description for people.
//!
//! All numbers are little-endian. A frame is its length (4 bytes, counting kind and body), its kind
//! (1 byte) and its body.

use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

/// What the node sends.
pub(crate) mod request {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const EXECUTE: u8 = 2;
    pub(crate) const QUERY: u8 = 3;
    pub(crate) const SNAPSHOT: u8 = 4;
    pub(crate) const RESTORE: u8 = 5;
    pub(crate) const EXECUTE_AHEAD: u8 = 6;
    pub(crate) const UNDO: u8 = 7;
}

/// What the host sends.
pub(crate) mod reply {
    pub(crate) const READY: u8 = 0x81;
    pub(crate) const OUTCOMES: u8 = 0x82;
    pub(crate) const EXECUTED: u8 = 0x83;
    pub(crate) const QUERIED: u8 = 0x84;
    pub(crate) const IMAGED: u8 = 0x85;
    pub(crate) const IMAGE_FAILED: u8 = 0x86;
    pub(crate) const RESTORED: u8 = 0x87;
    pub(crate) const RESTORE_FAILED: u8 = 0x88;
    pub(crate) const READ_WROTE: u8 = 0x89;
    pub(crate) const SPENT: u8 = 0x8a;
    pub(crate) const DUE: u8 = 0x8b;
    pub(crate) const OUTSIDE: u8 = 0x8c;
    pub(crate) const EXECUTED_UNDOABLE: u8 = 0x8d;
    pub(crate) const UNDONE: u8 = 0x8e;
    pub(crate) const UNDO_FAILED: u8 = 0x8f;
}

/// How a call ended.
pub(crate) const RETURNED: u8 = 0;
/// It raised.
pub(crate) const RAISED: u8 = 1;
/// It waits: a later step answers it.
pub(crate) const PARKED: u8 = 2;
/// A step that is no call was done.
pub(crate) const DONE: u8 = 3;
/// The answer to a parked call, which belongs to the step before it.
pub(crate) const ANSWER: u8 = 4;

/// The value `None`.
pub(crate) const NONE: &[u8] = &[0xf6];

/// A step: a call.
pub(crate) const STEP_CALL: u8 = 0;
/// The end of a session.
pub(crate) const STEP_END: u8 = 1;
/// The same, of which no object is told.
pub(crate) const STEP_END_UNTOLD: u8 = 2;
/// What is due happens.
pub(crate) const STEP_TICK: u8 = 3;
/// The same, and no timer runs.
pub(crate) const STEP_TICK_UNTOLD: u8 = 4;
/// A call that the group skips.
pub(crate) const STEP_SKIPPED: u8 = 5;
/// Another client has a session: what the one before had parked ends.
pub(crate) const STEP_RESUME: u8 = 6;

/// Outcomes of one slot are sent on when they are this large, so that neither side holds all of them.
const PART_BYTES: usize = 1 << 20;

/// Longest text that says why something failed.
const NOTE_BYTES_MAX: usize = 4 << 10;

/// Space offered to one read.
const READ_BYTES: usize = 256 << 10;

/// Bytes that have arrived and are not handled yet.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// The next whole frame as a range of [`Inbox::slice`], if it is there.
    pub(crate) fn next(&mut self) -> Option<(u8, std::ops::Range<usize>)> {
        let waiting = &self.bytes[self.start..];
        let (length, rest) = waiting.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || rest.len() < length {
            return None;
        }
        let kind = rest[0];
        let body = self.start + 5..self.start + 4 + length;
        self.start = body.end;
        Some((kind, body))
    }

    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Reads once more; `false` at the end of the stream.
    pub(crate) fn read(&mut self, stream: &mut impl std::io::Read) -> std::io::Result<bool> {
        self.bytes.drain(..self.start);
        self.start = 0;
        let length = self.bytes.len();
        let missing = self.bytes.split_first_chunk::<4>().map_or(0, |(l, _)| {
            (u32::from_le_bytes(*l) as usize + 4).saturating_sub(length)
        });
        self.bytes.resize(length + missing.max(READ_BYTES), 0);
        let got = stream.read(&mut self.bytes[length..]);
        self.bytes
            .truncate(length + got.as_ref().map_or(0, |got| *got));
        Ok(got? > 0)
    }
}

/// Reads a frame's body from the front.
pub(crate) struct FrameBody<'a>(pub(crate) &'a [u8]);

impl<'a> FrameBody<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> PyResult<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| PyConnectionError::new_err("the node sent a frame that is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> PyResult<u32> {
        let bytes = self.bytes(4)?.try_into().expect("four bytes were taken");
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self) -> PyResult<u64> {
        let bytes = self.bytes(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A frame with outcomes of one slot, whose kind and count are known when it ends.
pub(crate) struct OpenOutcomes {
    start: usize,
    count: u32,
}

/// Frames that are to be written.
#[derive(Default)]
pub(crate) struct Outbox(pub(crate) Vec<u8>);

impl Outbox {
    /// Begins a frame; [`Outbox::end`] completes it.
    pub(crate) fn begin(&mut self, kind: u8) -> usize {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        self.0.push(kind);
        start
    }

    pub(crate) fn end(&mut self, start: usize) {
        let length = (self.0.len() - start - 4) as u32;
        self.0[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Begins a frame with outcomes of `slot`.
    pub(crate) fn begin_part(&mut self, slot: u64) -> OpenOutcomes {
        let start = self.begin(reply::OUTCOMES);
        self.u64(slot);
        self.u32(0);
        OpenOutcomes { start, count: 0 }
    }

    /// Takes back a frame with outcomes, and with it what was appended after `end`; returns that.
    pub(crate) fn drop_part(&mut self, part: &OpenOutcomes, end: usize) -> Vec<u8> {
        let last = self.0.split_off(end);
        self.0.truncate(part.start);
        last
    }

    /// One more entry was appended. Returns whether the part is large enough to be sent.
    pub(crate) fn is_large_with_one_more(&self, part: &mut OpenOutcomes) -> bool {
        part.count += 1;
        self.0.len() - part.start > PART_BYTES
    }

    /// Puts a frame before the part that is open.
    pub(crate) fn put_before(&mut self, part: &mut OpenOutcomes, frame: &Outbox) {
        self.0
            .splice(part.start..part.start, frame.0.iter().copied());
        part.start += frame.0.len();
    }

    pub(crate) fn end_part(&mut self, part: &OpenOutcomes, kind: u8) {
        let OpenOutcomes { start, count } = *part;
        self.0[start + 4] = kind;
        self.0[start + 13..start + 17].copy_from_slice(&count.to_le_bytes());
        self.end(start);
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A whole frame of a slot and a text, which is cut where it is too long to be read.
    pub(crate) fn note(&mut self, kind: u8, slot: u64, text: &str) {
        let start = self.begin(kind);
        self.u64(slot);
        let text = text.as_bytes();
        self.0
            .extend_from_slice(&text[..text.len().min(NOTE_BYTES_MAX)]);
        self.end(start);
    }
}
