//! Bytes of what a call ended with.

use crate::WireError;
use crate::codec::{Reader, put_bytes};
use bytes::{BufMut, BytesMut};
use quorate_types::Outcome;

#[inline]
pub(crate) fn put_outcome(buf: &mut BytesMut, outcome: &Outcome) {
    let (tag, value) = outcome_parts(outcome);
    buf.put_u8(tag);
    match outcome {
        Outcome::Returned(_) | Outcome::Raised(_) => put_bytes(buf, value),
        Outcome::Skipped => {}
    }
}

/// The tag of an outcome, and its value if it has one.
#[inline]
pub(crate) fn outcome_parts(outcome: &Outcome) -> (u8, &[u8]) {
    match outcome {
        Outcome::Returned(value) => (1, value),
        Outcome::Raised(value) => (2, value),
        Outcome::Skipped => (3, &[]),
    }
}

#[inline]
pub(crate) fn take_outcome(r: &mut Reader<'_>) -> Result<Outcome, WireError> {
    match r.u8("outcome")? {
        1 => Ok(Outcome::Returned(r.bytes("returned value")?)),
        2 => Ok(Outcome::Raised(r.bytes("raised value")?)),
        3 => Ok(Outcome::Skipped),
        tag => Err(WireError::UnknownTag {
            what: "outcome",
            tag,
        }),
    }
}
