//! Bytes of what Multi-Paxos instances say to each other. Called through [`crate::put_peer`] only.

use super::claims::{
    put_ballots, put_claim, put_current, put_numbered, put_promise, put_round, take_batches,
    take_current, take_promise,
};
use super::spread::{put_named, put_values, take_named, take_values};
use crate::WireError;
use crate::batch::{put_batch, put_batch_shared, put_command, take_batch, take_commands};
use crate::codec::{Reader, put_flag, put_list, put_option};
use crate::frame_pieces::SharedBody;
use crate::refusal::{put_refusal, take_refusal};
use crate::words::{
    put_ballot, put_broadcast_id, put_command_id, put_node, put_nodes, put_slot, put_value_id,
    take_ballot, take_broadcast_id, take_command_id, take_node, take_nodes, take_slot,
    take_value_id,
};
use bytes::{BufMut, BytesMut};
use quorate_any::paxos::Message;
use quorate_any::paxos::message::{
    Accept, Accepted, AskBarrier, Attested, Barrier, Carried, Confirm, Confirmed, Decided, Forward,
    Gathered, Heard, Hears, Heartbeat, Holds, Learn, Learned, Nack, Pass, PassId, PreVote,
    PreVoted, Prepare, Returned, RingWay, Seen, Spread, Survey, Surveyed, TakeOver, Trimmed, Want,
};
use quorate_types::{Ballot, Batch, VoteKind};

const PRE_VOTE: u8 = 1;
const PRE_VOTED: u8 = 2;
const PREPARE: u8 = 3;
const PROMISE: u8 = 4;
const NACK: u8 = 5;
const ACCEPT: u8 = 6;
const ACCEPTED: u8 = 7;
const SEEN: u8 = 8;
const DECIDED: u8 = 9;
const HEARTBEAT: u8 = 10;
const HEARD: u8 = 11;
const LEARN: u8 = 12;
const LEARNED: u8 = 13;
const TRIMMED: u8 = 14;
const FORWARD: u8 = 15;
const RETURNED: u8 = 16;
const CONFIRM: u8 = 17;
const CONFIRMED: u8 = 18;
const ASK_BARRIER: u8 = 19;
const BARRIER: u8 = 20;
const TAKE_OVER: u8 = 21;
const SURVEY: u8 = 22;
const SURVEYED: u8 = 23;
const PASS: u8 = 24;
const GATHERED: u8 = 25;
const SPREAD: u8 = 26;
const HOLDS: u8 = 27;
const NAMED: u8 = 28;
const WANT: u8 = 29;
const ATTESTED: u8 = 30;
const MULTICAST: u8 = 31;
const FETCHED: u8 = 32;
const PASS_ID: u8 = 33;
const HEARS: u8 = 34;

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
        Message::Promise(page) => put_promise(buf, page, |_, _| {}),
        Message::Nack(m) => put_ballots(buf, [m.ballot, m.promised]),
        Message::Accept(m) => {
            put_claim(buf, m.ballot, &[m.slot, m.decided]);
            put_batch(buf, &m.batch);
        }
        Message::Accepted(m) => put_claim(buf, m.ballot, &[m.first, m.last]),
        Message::Seen(m) => put_claim(buf, m.ballot, &[m.first, m.last]),
        Message::Decided(m) => put_claim(buf, m.ballot, &[m.upto]),
        Message::Heartbeat(m) => {
            put_round(buf, m.ballot, m.beat, m.decided);
            put_flag(buf, m.wants_lease);
            put_option(buf, m.current.as_deref(), put_current);
        }
        Message::Heard(m) => {
            put_round(buf, m.ballot, m.beat, m.decided);
            buf.put_u64_le(m.number);
            put_flag(buf, m.is_voter);
            put_flag(buf, m.is_granted);
        }
        Message::Learn(m) => put_slot(buf, m.from),
        Message::Learned(m) => {
            put_slot(buf, m.from);
            put_slot(buf, m.decided);
            put_list(buf, &m.batches, put_batch);
        }
        Message::Trimmed(m) => put_slot(buf, m.upto),
        Message::Forward(m) => {
            put_numbered(buf, m.ballot, m.number);
            put_list(buf, &m.commands, put_command);
        }
        Message::Returned(m) => {
            buf.put_u64_le(m.number);
            put_refusal(buf, m.refusal);
            put_list(buf, &m.commands, |buf, id| put_command_id(buf, *id));
        }
        Message::Confirm(m) => put_numbered(buf, m.ballot, m.epoch),
        Message::Confirmed(m) => put_round(buf, m.ballot, m.epoch, m.voted),
        Message::Attested(m) => {
            put_claim(buf, m.ballot, &[m.voted]);
            put_broadcast_id(buf, m.read);
        }
        Message::AskBarrier(m) => buf.put_u64_le(m.request),
        Message::Barrier(m) => {
            buf.put_u64_le(m.request);
            put_option(buf, m.barrier.as_ref(), |buf, slot| put_slot(buf, *slot));
        }
        Message::TakeOver(m) => put_ballot(buf, m.ballot),
        Message::Survey(m) => buf.put_u64_le(m.request),
        Message::Surveyed(m) => {
            buf.put_u64_le(m.request);
            put_claim(buf, m.promised, &[m.voted]);
        }
        Message::Pass(m) => {
            put_pass_head(buf, m);
            put_batch(buf, &m.batch);
        }
        Message::Gathered(m) => {
            put_claim(buf, m.ballot, &[m.first, m.last]);
            put_nodes(buf, m.voters);
        }
        Message::Spread(m) => {
            put_value_id(buf, m.value);
            put_list(buf, &m.commands, put_command);
        }
        Message::Holds(m) => put_values(buf, &m.values),
        Message::Named(m) => put_named(buf, m),
        Message::Want(m) => put_claim(buf, m.ballot, &[m.slot]),
        Message::Multicast(m) | Message::Fetched(m) => {
            put_claim(buf, m.ballot, &[m.slot]);
            put_batch(buf, &m.batch);
        }
        Message::PassId(m) => {
            put_claim(buf, m.ballot, &[m.slot, m.decided]);
            put_way(buf, &m.way);
            let hearing = u8::try_from(m.hearing);
            buf.put_u8(hearing.expect("a view has at most 64 nodes"));
        }
        Message::Hears(m) => {
            put_ballot(buf, m.ballot);
            put_option(buf, m.slot.as_ref(), |buf, slot| put_slot(buf, *slot));
        }
    }
}

/// As [`put_message`]; large payloads of a proposed batch stay where they lie.
pub(crate) fn put_message_shared(body: &mut SharedBody<'_>, message: &Message) {
    let batch = match message {
        Message::Accept(m) => {
            let buf = body.buf();
            buf.put_u8(ACCEPT);
            put_claim(buf, m.ballot, &[m.slot, m.decided]);
            &m.batch
        }
        Message::Pass(m) => {
            let buf = body.buf();
            buf.put_u8(PASS);
            put_pass_head(buf, m);
            &m.batch
        }
        Message::Fetched(m) => {
            let buf = body.buf();
            buf.put_u8(FETCHED);
            put_claim(buf, m.ballot, &[m.slot]);
            &m.batch
        }
        other => return put_message(body.buf(), other),
    };
    put_batch_shared(body, batch);
}

/// What comes before the batch.
fn put_pass_head(buf: &mut BytesMut, pass: &Pass) {
    put_claim(buf, pass.ballot, &[pass.slot, pass.decided]);
    put_way(buf, &pass.way);
}

fn put_way(buf: &mut BytesMut, way: &RingWay) {
    put_list(buf, way.nodes(), |buf, node| put_node(buf, *node));
    let gathering = u8::try_from(way.gathering());
    buf.put_u8(gathering.expect("a view has at most 64 nodes"));
}

fn tag(message: &Message) -> u8 {
    match message {
        Message::PreVote(_) => PRE_VOTE,
        Message::PreVoted(_) => PRE_VOTED,
        Message::Prepare(_) => PREPARE,
        Message::Promise(_) => PROMISE,
        Message::Nack(_) => NACK,
        Message::Accept(_) => ACCEPT,
        Message::Accepted(_) => ACCEPTED,
        Message::Seen(_) => SEEN,
        Message::Decided(_) => DECIDED,
        Message::Heartbeat(_) => HEARTBEAT,
        Message::Heard(_) => HEARD,
        Message::Learn(_) => LEARN,
        Message::Learned(_) => LEARNED,
        Message::Trimmed(_) => TRIMMED,
        Message::Forward(_) => FORWARD,
        Message::Returned(_) => RETURNED,
        Message::Confirm(_) => CONFIRM,
        Message::Confirmed(_) => CONFIRMED,
        Message::Attested(_) => ATTESTED,
        Message::AskBarrier(_) => ASK_BARRIER,
        Message::Barrier(_) => BARRIER,
        Message::TakeOver(_) => TAKE_OVER,
        Message::Survey(_) => SURVEY,
        Message::Surveyed(_) => SURVEYED,
        Message::Pass(_) => PASS,
        Message::Gathered(_) => GATHERED,
        Message::Spread(_) => SPREAD,
        Message::Holds(_) => HOLDS,
        Message::Named(_) => NAMED,
        Message::Want(_) => WANT,
        Message::Multicast(_) => MULTICAST,
        Message::Fetched(_) => FETCHED,
        Message::PassId(_) => PASS_ID,
        Message::Hears(_) => HEARS,
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
        PROMISE => Message::Promise(Box::new(take_promise(r, |_| Ok(VoteKind::Classic))?)),
        NACK => Message::Nack(Nack {
            ballot: take_ballot(r)?,
            promised: take_ballot(r)?,
        }),
        ACCEPT => Message::Accept(Accept {
            ballot: take_ballot(r)?,
            slot: take_slot(r)?,
            decided: take_slot(r)?,
            batch: take_batch(r)?,
        }),
        ACCEPTED => Message::Accepted(Accepted {
            ballot: take_ballot(r)?,
            first: take_slot(r)?,
            last: take_slot(r)?,
        }),
        SEEN => Message::Seen(Seen {
            ballot: take_ballot(r)?,
            first: take_slot(r)?,
            last: take_slot(r)?,
        }),
        DECIDED => Message::Decided(Decided {
            ballot: take_ballot(r)?,
            upto: take_slot(r)?,
        }),
        HEARTBEAT => Message::Heartbeat(Heartbeat {
            ballot: take_ballot(r)?,
            beat: r.counter("beat")?,
            decided: take_slot(r)?,
            wants_lease: r.flag("wish for a lease")?,
            current: r.option("current state", |r| take_current(r).map(Box::new))?,
        }),
        HEARD => Message::Heard(Heard {
            ballot: take_ballot(r)?,
            beat: r.counter("beat")?,
            decided: take_slot(r)?,
            number: r.counter("answer number")?,
            is_voter: r.flag("vote")?,
            is_granted: r.flag("grant")?,
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
            number: r.counter("forward number")?,
            commands: take_commands(r)?,
        }),
        RETURNED => Message::Returned(Returned {
            number: r.counter("forward number")?,
            refusal: take_refusal(r)?,
            commands: r.list("command ids", Batch::COMMANDS_MAX, 16, take_command_id)?,
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
        ATTESTED => Message::Attested(Attested {
            ballot: take_ballot(r)?,
            voted: take_slot(r)?,
            read: take_broadcast_id(r)?,
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
        }),
        SURVEYED => Message::Surveyed(Surveyed {
            request: r.counter("request number")?,
            promised: take_ballot(r)?,
            voted: take_slot(r)?,
        }),
        PASS => Message::Pass(take_pass(r)?),
        GATHERED => Message::Gathered(Gathered {
            ballot: take_ballot(r)?,
            first: take_slot(r)?,
            last: take_slot(r)?,
            voters: take_nodes(r)?,
        }),
        tag => return take_spread(r, tag),
    })
}

/// The messages of values that travel apart from proposals.
fn take_spread(r: &mut Reader<'_>, tag: u8) -> Result<Message, WireError> {
    Ok(match tag {
        SPREAD => Message::Spread(Spread {
            value: take_value_id(r)?,
            commands: take_commands(r)?,
        }),
        HOLDS => Message::Holds(Holds {
            values: take_values(r)?,
        }),
        NAMED => Message::Named(take_named(r)?),
        WANT => Message::Want(Want {
            ballot: take_ballot(r)?,
            slot: take_slot(r)?,
        }),
        MULTICAST => Message::Multicast(take_carried(r)?),
        FETCHED => Message::Fetched(take_carried(r)?),
        PASS_ID => Message::PassId(take_pass_id(r)?),
        HEARS => Message::Hears(Hears {
            ballot: take_ballot(r)?,
            slot: r.option("slot heard", take_slot)?,
        }),
        tag => {
            return Err(WireError::UnknownTag {
                what: "ordering message",
                tag,
            });
        }
    })
}

/// Nodes of a view.
const NODES_MAX: usize = 64;

/// A proposal on a way that names nobody twice, and not the leader.
fn take_pass(r: &mut Reader<'_>) -> Result<Pass, WireError> {
    let ballot = take_ballot(r)?;
    let (slot, decided) = (take_slot(r)?, take_slot(r)?);
    Ok(Pass {
        ballot,
        slot,
        decided,
        way: take_way(r, ballot)?,
        batch: take_batch(r)?,
    })
}

fn take_way(r: &mut Reader<'_>, ballot: Ballot) -> Result<RingWay, WireError> {
    let nodes = r.list("way", NODES_MAX, 2, take_node)?;
    let gathering = usize::from(r.u8("gathering")?);
    let way = RingWay::new(nodes, gathering).filter(|way| way.place(ballot.node).is_none());
    way.ok_or(WireError::Inconsistent { what: "way" })
}

/// The same without its value, which reaches no more nodes than there are.
fn take_pass_id(r: &mut Reader<'_>) -> Result<PassId, WireError> {
    let ballot = take_ballot(r)?;
    let (slot, decided) = (take_slot(r)?, take_slot(r)?);
    let way = take_way(r, ballot)?;
    let hearing = usize::from(r.u8("hearing")?);
    if !(1..=way.nodes().len()).contains(&hearing) {
        return Err(WireError::Inconsistent { what: "hearing" });
    }
    Ok(PassId {
        ballot,
        slot,
        decided,
        way,
        hearing,
    })
}

fn take_carried(r: &mut Reader<'_>) -> Result<Carried, WireError> {
    Ok(Carried {
        ballot: take_ballot(r)?,
        slot: take_slot(r)?,
        batch: take_batch(r)?,
    })
}
