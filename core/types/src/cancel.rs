//! The call by which a client says of calls that wait in the group that nobody waits for them any more.
//!
//! It is ordered, executed at most once and answered like any other. Its payload can be that of no method: objects do not see it,
//! whoever executes their calls does.

use crate::image_bytes::number8;
use crate::{CommandId, SessionId, Value};
use bytes::BufMut;

/// No payload of a method begins so.
const CANCEL: u8 = 0;

/// Calls of one session that a payload can name: it stays within a few pages.
pub const CANCELLED_AT_ONCE: usize = 1024;

/// The payload that has parked calls of `session` end, by their sequences; beyond [`CANCELLED_AT_ONCE`] none is named.
///
/// ```
/// use quorate_types::{CommandId, SessionId, cancel_payload, cancelled};
///
/// let session = SessionId(7);
/// let payload = cancel_payload(session, &[3, 5]);
/// let named: Vec<u64> = cancelled(&payload).unwrap().map(|id| id.sequence).collect();
/// assert_eq!(named, [3, 5]);
/// assert!(cancelled(b"\x83\x63add").is_none(), "a method");
/// ```
#[must_use]
pub fn cancel_payload(session: SessionId, sequences: &[u64]) -> Value {
    let sequences = &sequences[..sequences.len().min(CANCELLED_AT_ONCE)];
    let mut payload = Vec::with_capacity(9 + 8 * sequences.len());
    payload.put_u8(CANCEL);
    payload.put_u64_le(session.0);
    for sequence in sequences {
        payload.put_u64_le(*sequence);
    }
    payload.into()
}

/// The calls that such a payload names, in its order; `None` of any other payload. Bytes after the last whole sequence say nothing.
#[must_use]
#[inline]
pub fn cancelled(payload: &[u8]) -> Option<impl Iterator<Item = CommandId>> {
    let (&CANCEL, mut rest) = payload.split_first()? else {
        return None;
    };
    let session = SessionId(number8(&mut rest).unwrap_or(0));
    let sequences = std::iter::from_fn(move || number8(&mut rest).ok());
    let ids = sequences.map(move |sequence| CommandId { session, sequence });
    Some(ids.take(CANCELLED_AT_ONCE))
}
