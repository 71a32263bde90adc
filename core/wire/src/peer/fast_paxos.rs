//! Bytes of what Fast Paxos instances say to each other. Called through [`crate::put_peer`] only.

use super::claims::{
    put_ballots, put_claim, put_current, put_numbered, put_promise, put_round, take_batches,
    take_current, take_promise,
};
use crate::WireError;
use crate::batch::{put_batch, put_batch_shared, put_command, take_batch, take_commands};
use crate::codec::{Reader, put_flag, put_list, put_option};
use crate::frame_pieces::SharedBody;
use crate::words::{put_ballot, put_slot, put_value_id, take_ballot, take_slot, take_value_id};
use bytes::{BufMut, BytesMut};
use quorate_any::fast_paxos::Message;
use quorate_any::fast_paxos::message::{
    Accept, Any, AskBarrier, Barrier, Confirm, Confirmed, Decided, Forward, Heard, Heartbeat,
    Learn, Learned, Nack, PreVote, PreVoted, Prepare, Propose, Seen, Survey, Surveyed, TakeOver,
    Trimmed, Voted,
};
use quorate_types::VoteKind;

const PRE_VOTE: u8 = 1;
const PRE_VOTED: u8 = 2;
const PREPARE: u8 = 3;
const PROMISE: u8 = 4;
const NACK: u8 = 5;
const ANY: u8 = 6;
const PROPOSE: u8 = 7;
const ACCEPT: u8 = 8;
const VOTED: u8 = 9;
const SEEN: u8 = 10;
const DECIDED: u8 = 11;
const HEARTBEAT: u8 = 12;
const HEARD: u8 = 13;
const LEARN: u8 = 14;
const LEARNED: u8 = 15;
const TRIMMED: u8 = 16;
const FORWARD: u8 = 17;
const CONFIRM: u8 = 18;
const CONFIRMED: u8 = 19;
const ASK_BARRIER: u8 = 20;
const BARRIER: u8 = 21;
const TAKE_OVER: u8 = 22;
const SURVEY: u8 = 23;
const SURVEYED: u8 = 24;

const CLASSIC: u8 = 0;
const FAST: u8 = 1;

/// A table rather than a program: one arm a message, fields in the order of `docs/wire.md`.
// Longer than a screen: one arm a message.
pub(crate) fn put_message(buf: &mut BytesMut, message: &Message) {
    buf.put_u8(tag(message));
    match message {
        Message::PreVote(m) => {
            buf.put_u64_le(m.attempt);
            put_slot(buf, m.decided);
        }
        Message::PreVoted(m) => {
            buf.put_u64_le(m.attempt);
            put_flag(buf, m.is_granted);
            put_ballot(buf, m.promised);
            put_slot(buf, m.decided);
        }
        Message::Prepare(m) => put_claim(buf, m.ballot, &[m.from]),
        Message::Promise(page) => put_promise(buf, page, put_kind),
        Message::Nack(m) => put_ballots(buf, [m.ballot, m.promised]),
        Message::Any(m) => put_claim(buf, m.ballot, &[m.from]),
        Message::Propose(m) => {
            put_ballot(buf, m.ballot);
            put_value_id(buf, m.value);
            put_batch(buf, &m.batch);
        }
        Message::Accept(m) => {
            put_claim(buf, m.ballot, &[m.slot, m.decided]);
            put_batch(buf, &m.batch);
        }
        Message::Voted(m) => {
            put_claim(buf, m.ballot, &[m.slot]);
            put_kind(buf, m.kind);
        }
        Message::Seen(m) => put_claim(buf, m.ballot, &[m.slot]),
        Message::Decided(m) => put_claim(buf, m.ballot, &[m.upto]),
        Message::Heartbeat(m) => {
            put_round(buf, m.ballot, m.beat, m.decided);
            for slot in [&m.any, &m.recovered] {
                put_option(buf, slot.as_ref(), |buf, slot| put_slot(buf, *slot));
            }
            put_option(buf, m.current.as_deref(), put_current);
        }
        Message::Heard(m) => {
            put_round(buf, m.ballot, m.beat, m.decided);
            buf.put_u64_le(m.number);
            put_slot(buf, m.voted);
            put_flag(buf, m.is_voter);
        }
        Message::Learn(m) => put_slot(buf, m.from),
        Message::Learned(m) => {
            put_slot(buf, m.from);
            put_slot(buf, m.decided);
            put_list(buf, &m.batches, put_batch);
        }
        Message::Trimmed(m) => put_slot(buf, m.upto),
        Message::Forward(m) => {
            put_ballot(buf, m.ballot);
            put_list(buf, &m.commands, put_command);
        }
        Message::Confirm(m) => put_numbered(buf, m.ballot, m.epoch),
        Message::Confirmed(m) => put_round(buf, m.ballot, m.epoch, m.voted),
        Message::AskBarrier(m) => buf.put_u64_le(m.request),
        Message::Barrier(m) => {
            buf.put_u64_le(m.request);
            put_option(buf, m.barrier.as_ref(), |buf, slot| put_slot(buf, *slot));
        }
        Message::TakeOver(m) => put_ballot(buf, m.ballot),
        Message::Survey(m) => {
            buf.put_u64_le(m.request);
            put_ballot(buf, m.above);
        }
        Message::Surveyed(m) => {
            buf.put_u64_le(m.request);
            put_claim(buf, m.promised, &[m.voted]);
        }
    }
}

/// As [`put_message`]; large payloads of a proposed batch stay where they lie.
pub(crate) fn put_message_shared(body: &mut SharedBody<'_>, message: &Message) {
    let buf = body.buf();
    let batch = match message {
        Message::Propose(m) => {
            buf.put_u8(PROPOSE);
            put_ballot(buf, m.ballot);
            put_value_id(buf, m.value);
            &m.batch
        }
        Message::Accept(m) => {
            buf.put_u8(ACCEPT);
            put_claim(buf, m.ballot, &[m.slot, m.decided]);
            &m.batch
        }
        _ => return put_message(buf, message),
    };
    put_batch_shared(body, batch);
}

fn put_kind(buf: &mut BytesMut, kind: VoteKind) {
    match kind {
        VoteKind::Classic => buf.put_u8(CLASSIC),
        VoteKind::Fast(value) => {
            buf.put_u8(FAST);
            put_value_id(buf, value);
        }
    }
}

fn take_kind(r: &mut Reader<'_>) -> Result<VoteKind, WireError> {
    match r.u8("kind of a vote")? {
        CLASSIC => Ok(VoteKind::Classic),
        FAST => Ok(VoteKind::Fast(take_value_id(r)?)),
        tag => Err(WireError::UnknownTag {
            what: "kind of a vote",
            tag,
        }),
    }
}

fn tag(message: &Message) -> u8 {
    match message {
        Message::PreVote(_) => PRE_VOTE,
        Message::PreVoted(_) => PRE_VOTED,
        Message::Prepare(_) => PREPARE,
        Message::Promise(_) => PROMISE,
        Message::Nack(_) => NACK,
        Message::Any(_) => ANY,
        Message::Propose(_) => PROPOSE,
        Message::Accept(_) => ACCEPT,
        Message::Voted(_) => VOTED,
        Message::Seen(_) => SEEN,
        Message::Decided(_) => DECIDED,
        Message::Heartbeat(_) => HEARTBEAT,
        Message::Heard(_) => HEARD,
        Message::Learn(_) => LEARN,
        Message::Learned(_) => LEARNED,
        Message::Trimmed(_) => TRIMMED,
        Message::Forward(_) => FORWARD,
        Message::Confirm(_) => CONFIRM,
        Message::Confirmed(_) => CONFIRMED,
        Message::AskBarrier(_) => ASK_BARRIER,
        Message::Barrier(_) => BARRIER,
        Message::TakeOver(_) => TAKE_OVER,
        Message::Survey(_) => SURVEY,
        Message::Surveyed(_) => SURVEYED,
    }
}

/// Fields of a struct expression are read in the order in which they are written.
pub(crate) fn take_message(r: &mut Reader<'_>) -> Result<Message, WireError> {
    Ok(match r.u8("ordering message")? {
        PRE_VOTE => Message::PreVote(PreVote {
            attempt: r.counter("attempt")?,
            decided: take_slot(r)?,
        }),
        PRE_VOTED => Message::PreVoted(PreVoted {
            attempt: r.counter("attempt")?,
            is_granted: r.flag("grant")?,
            promised: take_ballot(r)?,
            decided: take_slot(r)?,
        }),
        PREPARE => Message::Prepare(Prepare {
            ballot: take_ballot(r)?,
            from: take_slot(r)?,
        }),
        PROMISE => Message::Promise(Box::new(take_promise(r, take_kind)?)),
        NACK => Message::Nack(Nack {
            ballot: take_ballot(r)?,
            promised: take_ballot(r)?,
        }),
        ANY => Message::Any(Any {
            ballot: take_ballot(r)?,
            from: take_slot(r)?,
        }),
        PROPOSE => Message::Propose(Propose {
            ballot: take_ballot(r)?,
            value: take_value_id(r)?,
            batch: take_batch(r)?,
        }),
        ACCEPT => Message::Accept(Accept {
            ballot: take_ballot(r)?,
            slot: take_slot(r)?,
            decided: take_slot(r)?,
            batch: take_batch(r)?,
        }),
        VOTED => Message::Voted(Voted {
            ballot: take_ballot(r)?,
            slot: take_slot(r)?,
            kind: take_kind(r)?,
        }),
        SEEN => Message::Seen(Seen {
            ballot: take_ballot(r)?,
            slot: take_slot(r)?,
        }),
        DECIDED => Message::Decided(Decided {
            ballot: take_ballot(r)?,
            upto: take_slot(r)?,
        }),
        HEARTBEAT => Message::Heartbeat(Heartbeat {
            ballot: take_ballot(r)?,
            beat: r.counter("beat")?,
            decided: take_slot(r)?,
            any: r.option("first open slot", take_slot)?,
            recovered: r.option("end of what phase 1 found", take_slot)?,
            current: r.option("current state", |r| take_current(r).map(Box::new))?,
        }),
        HEARD => Message::Heard(Heard {
            ballot: take_ballot(r)?,
            beat: r.counter("beat")?,
            decided: take_slot(r)?,
            number: r.counter("answer number")?,
            voted: take_slot(r)?,
            is_voter: r.flag("vote")?,
        }),
        tag => return take_rest(r, tag),
    })
}

/// The messages beside elections and agreement.
fn take_rest(r: &mut Reader<'_>, tag: u8) -> Result<Message, WireError> {
    Ok(match tag {
        LEARN => Message::Learn(Learn {
            from: take_slot(r)?,
        }),
        LEARNED => Message::Learned(Learned {
            from: take_slot(r)?,
            decided: take_slot(r)?,
            batches: take_batches(r)?,
        }),
        TRIMMED => Message::Trimmed(Trimmed {
            upto: take_slot(r)?,
        }),
        FORWARD => Message::Forward(Forward {
            ballot: take_ballot(r)?,
            commands: take_commands(r)?,
        }),
        CONFIRM => Message::Confirm(Confirm {
            ballot: take_ballot(r)?,
            epoch: r.counter("epoch")?,
        }),
        CONFIRMED => Message::Confirmed(Confirmed {
            ballot: take_ballot(r)?,
            epoch: r.counter("epoch")?,
            voted: take_slot(r)?,
        }),
        ASK_BARRIER => Message::AskBarrier(AskBarrier {
            request: r.counter("request number")?,
        }),
        BARRIER => Message::Barrier(Barrier {
            request: r.counter("request number")?,
            barrier: r.option("barrier", take_slot)?,
        }),
        TAKE_OVER => Message::TakeOver(TakeOver {
            ballot: take_ballot(r)?,
        }),
        SURVEY => Message::Survey(Survey {
            request: r.counter("request number")?,
            above: take_ballot(r)?,
        }),
        SURVEYED => Message::Surveyed(Surveyed {
            request: r.counter("request number")?,
            promised: take_ballot(r)?,
            voted: take_slot(r)?,
        }),
        tag => {
            return Err(WireError::UnknownTag {
                what: "ordering message",
                tag,
            });
        }
    })
}
