//! Bytes of what messages of several protocols have: claims about slots of a ballot, votes in promises, the age of state.

use crate::WireError;
use crate::batch::{BATCH_BYTES_MIN, put_batch, take_batch};
use crate::codec::{Reader, put_list, put_option};
use crate::limits::ENTRIES_MAX;
use crate::words::{
    BALLOT_BYTES, put_ballot, put_node, put_slot, take_ballot, take_node, take_slot,
};
use bytes::{BufMut, BytesMut};
use quorate_any::paxos::message::Current;
use quorate_any::paxos::{Promise, Vote};
use quorate_types::{Ballot, Batch, Slot, VoteKind, Wall};

/// Nodes of a view.
const NODES_MAX: usize = 64;

pub(super) fn put_ballots(buf: &mut BytesMut, ballots: [Ballot; 2]) {
    for ballot in ballots {
        put_ballot(buf, ballot);
    }
}

/// Something that its sender numbers within a ballot.
pub(super) fn put_numbered(buf: &mut BytesMut, ballot: Ballot, number: u64) {
    put_ballot(buf, ballot);
    buf.put_u64_le(number);
}

/// What is claimed in a ballot about slots.
pub(super) fn put_claim(buf: &mut BytesMut, ballot: Ballot, slots: &[Slot]) {
    put_ballot(buf, ballot);
    for slot in slots {
        put_slot(buf, *slot);
    }
}

/// One numbered exchange of a ballot.
pub(super) fn put_round(buf: &mut BytesMut, ballot: Ballot, number: u64, slot: Slot) {
    put_ballot(buf, ballot);
    buf.put_u64_le(number);
    put_slot(buf, slot);
}

pub(super) fn take_batches(r: &mut Reader<'_>) -> Result<Vec<Batch>, WireError> {
    r.list("batches", ENTRIES_MAX, BATCH_BYTES_MIN, take_batch)
}

pub(super) fn put_current(buf: &mut BytesMut, current: &Current) {
    put_slot(buf, current.decided);
    put_list(buf, &current.heard, |buf, (node, number)| {
        put_node(buf, *node);
        buf.put_u64_le(*number);
    });
}

pub(super) fn take_current(r: &mut Reader<'_>) -> Result<Current, WireError> {
    Ok(Current {
        decided: take_slot(r)?,
        heard: r.list("answers", NODES_MAX, 10, |r| {
            Ok((take_node(r)?, r.counter("answer number")?))
        })?,
    })
}

/// What a vote says of its kind is the protocol's: where all are of one kind, nothing.
pub(super) fn put_promise(
    buf: &mut BytesMut,
    promise: &Promise,
    put_kind: impl Fn(&mut BytesMut, VoteKind),
) {
    put_ballot(buf, promise.ballot);
    put_slot(buf, promise.from);
    put_option(buf, promise.next.as_ref(), |buf, slot| put_slot(buf, *slot));
    put_slot(buf, promise.decided);
    put_slot(buf, promise.trimmed);
    buf.put_u64_le(promise.wall.0);
    put_list(buf, &promise.unknown, |buf, slot| put_slot(buf, *slot));
    put_list(buf, &promise.votes, |buf, vote| {
        put_slot(buf, vote.slot);
        put_ballot(buf, vote.ballot);
        put_kind(buf, vote.kind);
        put_batch(buf, &vote.batch);
    });
}

pub(super) fn take_promise(
    r: &mut Reader<'_>,
    take_kind: impl Fn(&mut Reader<'_>) -> Result<VoteKind, WireError>,
) -> Result<Promise, WireError> {
    const VOTE_BYTES_MIN: usize = 8 + BALLOT_BYTES + BATCH_BYTES_MIN;
    Ok(Promise {
        ballot: take_ballot(r)?,
        from: take_slot(r)?,
        next: r.option("next page", take_slot)?,
        decided: take_slot(r)?,
        trimmed: take_slot(r)?,
        wall: Wall(r.u64("wall time")?),
        unknown: r.list("unknown slots", ENTRIES_MAX, 8, take_slot)?,
        votes: r.list("votes", ENTRIES_MAX, VOTE_BYTES_MIN, |r| {
            Ok(Vote {
                slot: take_slot(r)?,
                ballot: take_ballot(r)?,
                kind: take_kind(r)?,
                batch: take_batch(r)?,
            })
        })?,
    })
}
