//! Bytes of batches and commands: the same in messages and in the log.
//!
//! A batch is encoded once, kept inside it, and copied as a block into every frame and record after
//! that. A decoded batch keeps the slice it came from, so a follower logs the leader's bytes. Only of large calls no encoded
//! form is kept: it would hold their payloads in memory a second time, and costs no less to copy than to make.

use crate::WireError;
use crate::client::{CALL_BYTES, put_call_fields, put_call_head, take_call_fields};
use crate::codec::{Reader, detach, put_bytes, put_count, put_flag};
use crate::frame_pieces::SharedBody;
use crate::groups::{put_group_change, take_group_change};
use crate::limits::{LARGE_FRAME_BYTES, SHARE_BYTES_MIN};
use crate::view::{
    put_first_ballot, put_member_change, put_view_change, take_first_ballot, take_member_change,
    take_view_change,
};
use crate::words::{
    put_ballot, put_command_id, put_digest, put_node, put_secret_hash, put_session, put_slot,
    put_tenancy, put_terms, take_ballot, take_command_id, take_digest, take_node, take_secret_hash,
    take_session, take_slot, take_tenancy, take_terms,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{Batch, Body, Command, Duration, Stamp, Wall};

/// Bytes of a batch before its commands: stamp and count.
const HEAD_BYTES: usize = 20;

/// Bytes of the shortest command: tag, id, acknowledged sequence.
const COMMAND_BYTES_MIN: usize = 25;

/// The encoded form of `batch`, made the first time it is asked for and shared after.
pub fn encoded(batch: &Batch) -> &Bytes {
    batch.encoded_with(encode)
}

fn encode(batch: &Batch) -> Bytes {
    let commands = batch.commands();
    // Exact for calls, which are nearly all: the memory stays as long as the batch.
    let calls = commands.iter().map(|command| match &command.body {
        Body::Call { payload, .. } => 1 + CALL_BYTES + payload.len(),
        Body::Open { .. }
        | Body::Resume { .. }
        | Body::Close
        | Body::Expire { .. }
        | Body::Lead { .. }
        | Body::Tick
        | Body::Read { .. }
        | Body::Checkpoint
        | Body::Died { .. }
        | Body::Survived { .. }
        | Body::Retry { .. }
        | Body::Keep { .. }
        | Body::Skip { .. }
        | Body::Reset { .. }
        | Body::Thaw { .. }
        | Body::Collect { .. }
        | Body::Invite { .. }
        | Body::ChangeGroups { .. }
        | Body::ChangeView { .. } => COMMAND_BYTES_MIN,
    });
    let mut buf = BytesMut::with_capacity(HEAD_BYTES + calls.sum::<usize>());
    put_head(&mut buf, batch);
    for command in commands {
        put_command(&mut buf, command);
    }
    buf.freeze()
}

fn put_head(buf: &mut BytesMut, batch: &Batch) {
    buf.put_u64_le(batch.stamp().wall.0);
    buf.put_u64_le(batch.stamp().entropy);
    put_count(buf, batch.commands().len());
}

/// Whether the batch's bytes are nearly all payloads that are worth sharing.
fn is_large(batch: &Batch) -> bool {
    batch.weight() >= SHARE_BYTES_MIN * batch.commands().len().max(1)
}

/// Writes the batch's encoded form behind its length.
pub(crate) fn put_batch(buf: &mut BytesMut, batch: &Batch) {
    if batch.encoded().is_some() || !is_large(batch) {
        put_bytes(buf, encoded(batch));
        return;
    }
    buf.reserve(4 + HEAD_BYTES + batch.weight());
    let at = buf.len();
    put_count(buf, 0);
    put_head(buf, batch);
    for command in batch.commands() {
        put_command(buf, command);
    }
    let length = u32::try_from(buf.len() - at - 4).expect("a batch fits a frame");
    buf[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// As [`put_batch`]; large payloads stay where they lie.
pub(crate) fn put_batch_shared(body: &mut SharedBody<'_>, batch: &Batch) {
    if !is_large(batch) {
        return put_batch(body.buf(), batch);
    }
    let at = body.buf().len();
    put_count(body.buf(), 0);
    let before = body.len();
    put_head(body.buf(), batch);
    for command in batch.commands() {
        if let Body::Call { object, payload } = &command.body
            && payload.len() >= SHARE_BYTES_MIN
        {
            let (id, acknowledged) = (command.id, command.acknowledged);
            put_call_head(body.buf(), CALL, id, acknowledged, *object, payload);
            body.put_value(payload);
        } else {
            put_command(body.buf(), command);
        }
    }
    let length = u32::try_from(body.len() - before).expect("a batch fits a frame");
    body.buf()[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Bytes of the shortest batch behind its length.
pub(crate) const BATCH_BYTES_MIN: usize = 4 + HEAD_BYTES;

pub(crate) fn take_batch(r: &mut Reader<'_>) -> Result<Batch, WireError> {
    let encoded = r.bytes("batch")?;
    let body_bytes = r.body_len();
    let mut r = Reader::new(&encoded);
    let stamp = Stamp {
        wall: Wall(r.u64("wall time")?),
        entropy: r.u64("entropy")?,
    };
    let commands = r.list(
        "commands",
        Batch::COMMANDS_MAX,
        COMMAND_BYTES_MIN,
        take_command,
    )?;
    r.end("batch")?;
    if encoded.len() >= LARGE_FRAME_BYTES && commands.iter().any(has_large_payload) {
        return Ok(Batch::new(stamp, detached(commands, body_bytes)));
    }
    Ok(Batch::decoded(stamp, commands, encoded))
}

/// Reads commands that are in no batch yet.
pub(crate) fn take_commands(r: &mut Reader<'_>) -> Result<Vec<Command>, WireError> {
    let most = Batch::COMMANDS_MAX;
    let commands = r.list("commands", most, COMMAND_BYTES_MIN, take_command)?;
    if commands.iter().any(has_large_payload) {
        return Ok(detached(commands, r.body_len()));
    }
    Ok(commands)
}

fn has_large_payload(command: &Command) -> bool {
    matches!(&command.body, Body::Call { payload, .. } if payload.len() >= LARGE_FRAME_BYTES)
}

/// Payloads among which are large ones: none holds the others in memory.
fn detached(mut commands: Vec<Command>, body_bytes: usize) -> Vec<Command> {
    for command in &mut commands {
        if let Body::Call { payload, .. } = &mut command.body {
            detach(payload, body_bytes);
        }
    }
    commands
}

const CALL: u8 = 1;
const OPEN: u8 = 2;
const CLOSE: u8 = 3;
const EXPIRE: u8 = 4;
const LEAD: u8 = 5;
const READ: u8 = 6;
const CHECKPOINT: u8 = 7;
const SKIP: u8 = 8;
const DIED: u8 = 9;
const SURVIVED: u8 = 10;
const RETRY: u8 = 11;
const KEEP: u8 = 12;
const RESET: u8 = 13;
const THAW: u8 = 14;
const TICK: u8 = 15;
const CHANGE_VIEW: u8 = 16;
const RESUME: u8 = 17;
const INVITE: u8 = 18;
const CHANGE_GROUPS: u8 = 19;
const COLLECT: u8 = 20;
const CHANGE_VIEW_BEGUN: u8 = 21;

#[inline]
pub(crate) fn put_command(buf: &mut BytesMut, command: &Command) {
    let tag = match &command.body {
        Body::Call { object, payload } => {
            put_call_fields(
                buf,
                CALL,
                command.id,
                command.acknowledged,
                *object,
                payload,
            );
            return;
        }
        Body::Open { .. } => OPEN,
        Body::Resume { .. } => RESUME,
        Body::Close => CLOSE,
        Body::Expire { .. } => EXPIRE,
        Body::Lead { .. } => LEAD,
        Body::Tick => TICK,
        Body::Read { .. } => READ,
        Body::Checkpoint => CHECKPOINT,
        Body::Skip { .. } => SKIP,
        Body::Died { .. } => DIED,
        Body::Survived { .. } => SURVIVED,
        Body::Retry { .. } => RETRY,
        Body::Keep { .. } => KEEP,
        Body::Reset { .. } => RESET,
        Body::Thaw { .. } => THAW,
        Body::Collect { .. } => COLLECT,
        Body::Invite { .. } => INVITE,
        Body::ChangeGroups { .. } => CHANGE_GROUPS,
        Body::ChangeView { first: None, .. } => CHANGE_VIEW,
        Body::ChangeView { first: Some(_), .. } => CHANGE_VIEW_BEGUN,
    };
    buf.put_u8(tag);
    put_command_id(buf, command.id);
    buf.put_u64_le(command.acknowledged);
    put_fields(buf, &command.body);
}

/// What follows the head of a command that is no call.
// Longer than a screen: one arm a command.
fn put_fields(buf: &mut BytesMut, body: &Body) {
    match body {
        Body::Call { .. } | Body::Close | Body::Tick | Body::Checkpoint => {}
        Body::Open {
            hash,
            terms,
            tenant,
        } => {
            put_secret_hash(buf, *hash);
            put_terms(buf, *terms);
            put_secret_hash(buf, *tenant);
        }
        Body::Resume {
            session,
            tenant,
            after,
        } => {
            put_session(buf, *session);
            put_secret_hash(buf, *tenant);
            put_tenancy(buf, *after);
        }
        Body::Expire { session, judged_by } => {
            put_session(buf, *session);
            put_slot(buf, *judged_by);
        }
        Body::Lead { ballot } => put_ballot(buf, *ballot),
        Body::Read { reader, boot } => {
            put_node(buf, *reader);
            buf.put_u64_le(*boot);
        }
        Body::Died {
            reporter,
            slot,
            index,
            may_have_answered,
        } => {
            put_node(buf, *reporter);
            put_slot(buf, *slot);
            buf.put_u32_le(*index);
            put_flag(buf, *may_have_answered);
        }
        Body::Survived {
            reporter,
            slot,
            index,
        }
        | Body::Retry {
            reporter,
            slot,
            index,
        } => {
            put_node(buf, *reporter);
            put_slot(buf, *slot);
            buf.put_u32_le(*index);
        }
        Body::Keep { reporter } => put_node(buf, *reporter),
        Body::Skip {
            slot,
            index,
            is_unsafe,
        } => {
            put_slot(buf, *slot);
            buf.put_u32_le(*index);
            put_flag(buf, *is_unsafe);
        }
        Body::Reset {
            node,
            boot,
            slot,
            digest,
        } => {
            put_node(buf, *node);
            buf.put_u64_le(*boot);
            put_slot(buf, *slot);
            put_digest(buf, digest);
        }
        Body::Thaw { slot, digest } | Body::Collect { slot, digest } => {
            put_slot(buf, *slot);
            put_digest(buf, digest);
        }
        Body::Invite { invitation, lasts } => {
            put_secret_hash(buf, *invitation);
            buf.put_u64_le(lasts.0);
        }
        Body::ChangeGroups { change } => put_group_change(buf, change),
        Body::ChangeView { change, who, first } => {
            put_view_change(buf, *change);
            put_member_change(buf, who);
            first.iter().for_each(|first| put_first_ballot(buf, *first));
        }
    }
}

#[inline]
fn take_command(r: &mut Reader<'_>) -> Result<Command, WireError> {
    match r.u8("command")? {
        CALL => {
            let call = take_call_fields(r)?;
            Ok(Command {
                id: call.id,
                acknowledged: call.acknowledged,
                body: Body::Call {
                    object: call.object,
                    payload: call.payload,
                },
            })
        }
        tag => take_other(r, tag),
    }
}

// Longer than a screen: one arm a command.
fn take_other(r: &mut Reader<'_>, tag: u8) -> Result<Command, WireError> {
    let id = take_command_id(r)?;
    let acknowledged = r.counter("acknowledged sequence")?;
    let body = match tag {
        OPEN => Body::Open {
            hash: take_secret_hash(r)?,
            terms: take_terms(r)?,
            tenant: take_secret_hash(r)?,
        },
        RESUME => Body::Resume {
            session: take_session(r)?,
            tenant: take_secret_hash(r)?,
            after: take_tenancy(r)?,
        },
        CLOSE => Body::Close,
        EXPIRE => Body::Expire {
            session: take_session(r)?,
            judged_by: take_slot(r)?,
        },
        LEAD => Body::Lead {
            ballot: take_ballot(r)?,
        },
        READ => Body::Read {
            reader: take_node(r)?,
            boot: r.counter("boot")?,
        },
        CHECKPOINT => Body::Checkpoint,
        TICK => Body::Tick,
        DIED => Body::Died {
            reporter: take_node(r)?,
            slot: take_slot(r)?,
            index: r.u32("index")?,
            may_have_answered: r.flag("earlier life")?,
        },
        SURVIVED => Body::Survived {
            reporter: take_node(r)?,
            slot: take_slot(r)?,
            index: r.u32("index")?,
        },
        RETRY => Body::Retry {
            reporter: take_node(r)?,
            slot: take_slot(r)?,
            index: r.u32("index")?,
        },
        KEEP => Body::Keep {
            reporter: take_node(r)?,
        },
        SKIP => Body::Skip {
            slot: take_slot(r)?,
            index: r.u32("index")?,
            is_unsafe: r.flag("unsafe skip")?,
        },
        RESET => Body::Reset {
            node: take_node(r)?,
            boot: r.counter("boot")?,
            slot: take_slot(r)?,
            digest: take_digest(r)?,
        },
        THAW => Body::Thaw {
            slot: take_slot(r)?,
            digest: take_digest(r)?,
        },
        COLLECT => Body::Collect {
            slot: take_slot(r)?,
            digest: take_digest(r)?,
        },
        tag @ (CHANGE_VIEW | CHANGE_VIEW_BEGUN) => Body::ChangeView {
            change: take_view_change(r)?,
            who: Box::new(take_member_change(r)?),
            first: match tag {
                CHANGE_VIEW => None,
                _ => Some(take_first_ballot(r)?),
            },
        },
        INVITE => Body::Invite {
            invitation: take_secret_hash(r)?,
            lasts: Duration(r.u64("time of an invitation")?),
        },
        CHANGE_GROUPS => Body::ChangeGroups {
            change: take_group_change(r)?,
        },
        tag => {
            return Err(WireError::UnknownTag {
                what: "command",
                tag,
            });
        }
    };
    Ok(Command {
        id,
        acknowledged,
        body,
    })
}
