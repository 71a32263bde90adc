//! Bytes of a replica's trail: digests of outcomes after its newest slots.

use crate::WireError;
use crate::codec::{Reader, put_list};
use crate::words::{put_slot, take_slot};
use bytes::{BufMut, BytesMut};
use quorate_replica::limits::{OUTCOME_CALLS, OUTCOME_SLOTS};
use quorate_replica::{OutcomeHash, OutcomeStep, OutcomeTrail};

const STEP_BYTES: usize = 20;
const HASH_BYTES: usize = 8;

pub(super) fn put_trail(buf: &mut BytesMut, trail: &OutcomeTrail) {
    put_slot(buf, trail.after);
    buf.put_u64_le(trail.digest);
    put_slot(buf, trail.upto);
    put_list(buf, &trail.steps, |buf, step| {
        put_slot(buf, step.slot);
        buf.put_u64_le(step.digest);
        buf.put_u32_le(step.calls);
    });
    put_list(buf, &trail.calls, |buf, call| {
        buf.put_u32_le(call.index);
        buf.put_u32_le(call.hash);
    });
}

/// The steps must ascend between the two ends, and have as many calls as there are: whoever compares trails need not ask again.
pub(super) fn take_trail(r: &mut Reader<'_>) -> Result<OutcomeTrail, WireError> {
    let trail = OutcomeTrail {
        after: take_slot(r)?,
        digest: r.u64("digest of outcomes")?,
        upto: take_slot(r)?,
        steps: r.list("steps", OUTCOME_SLOTS, STEP_BYTES, |r| {
            Ok(OutcomeStep {
                slot: take_slot(r)?,
                digest: r.u64("digest of outcomes")?,
                calls: r.u32("calls")?,
            })
        })?,
        calls: r.list("outcomes", OUTCOME_CALLS, HASH_BYTES, |r| {
            Ok(OutcomeHash {
                index: r.u32("index")?,
                hash: r.u32("hash")?,
            })
        })?,
    };
    let is_rising = trail.steps.is_sorted_by(|one, next| one.slot < next.slot);
    let mut ends = trail.steps.first().into_iter().chain(trail.steps.last());
    let is_within = ends.all(|step| trail.after < step.slot && step.slot <= trail.upto);
    let calls: u64 = trail.steps.iter().map(|step| u64::from(step.calls)).sum();
    if trail.after > trail.upto || !is_rising || !is_within || calls != trail.calls.len() as u64 {
        return Err(WireError::Inconsistent {
            what: "a trail of outcomes contradicts itself",
        });
    }
    Ok(trail)
}
