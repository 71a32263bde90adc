//! Bytes of what clients and replicas say to each other. A frame of kind `FromClient` or `ToClient`
//! holds one or more of these messages back to back; the frame's group says which group is meant.
//!
//! The hot path of a node: a call and its reply cost one copy of the payload each way.

use crate::WireError;
use crate::codec::{Reader, detach, in_range, put_bytes, put_count, put_flag};
use crate::frame_pieces::SharedBody;
use crate::limits::{COUNTER_LIMIT, LARGE_FRAME_BYTES, SHARE_BYTES_MIN};
use crate::outcome::{outcome_parts, put_outcome, take_outcome};
use crate::read_level::{level_number, take_level};
use crate::refusal::{put_ask, put_refusal, take_ask, take_refusal};
use crate::view_request::{VIEW_REQUESTS, put_view_request, take_view_request};
use crate::words::{
    put_attachment, put_broadcast_id, put_command_id, put_digest, put_node, put_secret_hash,
    put_session, put_slot, put_tenancy, put_terms, take_attachment, take_broadcast_id,
    take_command_id, take_digest, take_node, take_secret, take_secret_hash, take_session,
    take_slot, take_tenancy, take_terms,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{CommandId, Duration, FromClient, ObjectId, Outcome, SessionId, ToClient};

const OPEN: u8 = 1;
const CALL: u8 = 2;
const READ: u8 = 3;
const KEEP_ALIVE: u8 = 4;
const CLOSE: u8 = 5;
const CHECKPOINT: u8 = 6;
const ATTACH: u8 = 7;
const RESET: u8 = 8;
const SKIP: u8 = 9;
const RESUME: u8 = 11;
const BROADCAST: u8 = 30;
const ANNOUNCE: u8 = 31;
const EARLY: u8 = 32;

/// Bytes of a call behind its tag, without the payload.
pub(crate) const CALL_BYTES: usize = 32;

/// Appends one message of a client to the body of a frame of kind `FromClient`.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use quorate_types::{CommandId, FromClient, ObjectId, SessionId};
/// use quorate_wire::{put_request, requests};
///
/// let call = FromClient::Call {
///     id: CommandId { session: SessionId(65536), sequence: 1 },
///     acknowledged: 0,
///     object: ObjectId(0),
///     payload: Bytes::from_static(b"add 1"),
/// };
/// let mut body = BytesMut::new();
/// put_request(&mut body, &call);
/// put_request(&mut body, &FromClient::KeepAlive { session: SessionId(65536) });
///
/// let read: Vec<_> = requests(body.freeze()).collect::<Result<_, _>>()?;
/// assert_eq!(read[0], call);
/// assert_eq!(read.len(), 2);
/// # Ok::<(), quorate_wire::WireError>(())
/// ```
// Longer than a screen: one arm a request.
#[inline]
pub fn put_request(buf: &mut BytesMut, message: &FromClient) {
    match message {
        FromClient::Call {
            id,
            acknowledged,
            object,
            payload,
        } => put_call(buf, *id, *acknowledged, *object, payload),
        FromClient::Open { secret, terms } => {
            buf.put_u8(OPEN);
            buf.put_slice(secret.bytes());
            put_terms(buf, *terms);
        }
        FromClient::Resume {
            secret,
            tenant,
            terms,
        } => {
            buf.put_u8(RESUME);
            buf.put_slice(secret.bytes());
            put_secret_hash(buf, *tenant);
            put_terms(buf, *terms);
        }
        FromClient::Attach {
            session,
            secret,
            attachment,
        } => {
            buf.put_u8(ATTACH);
            put_session(buf, *session);
            buf.put_slice(secret.bytes());
            put_attachment(buf, *attachment);
        }
        FromClient::Early { id } => put_of_call(buf, EARLY, *id),
        FromClient::Read {
            request,
            object,
            payload,
            level,
            after,
        } => {
            buf.put_u8(READ);
            buf.put_u64_le(*request);
            buf.put_u32_le(object.0);
            buf.put_u8(level_number(*level));
            put_slot(buf, *after);
            put_bytes(buf, payload);
        }
        FromClient::Broadcast {
            read,
            object,
            payload,
        } => {
            buf.put_u8(BROADCAST);
            put_broadcast_id(buf, *read);
            buf.put_u32_le(object.0);
            put_bytes(buf, payload);
        }
        FromClient::Announce { read } => {
            buf.put_u8(ANNOUNCE);
            put_broadcast_id(buf, *read);
        }
        FromClient::KeepAlive { session } => {
            buf.put_u8(KEEP_ALIVE);
            put_session(buf, *session);
        }
        FromClient::Close { session } => {
            buf.put_u8(CLOSE);
            put_session(buf, *session);
        }
        FromClient::Checkpoint { request } => {
            buf.put_u8(CHECKPOINT);
            buf.put_u64_le(*request);
        }
        FromClient::Reset {
            request,
            node,
            boot,
            slot,
            digest,
        } => {
            buf.put_u8(RESET);
            buf.put_u64_le(*request);
            put_node(buf, *node);
            buf.put_u64_le(*boot);
            put_slot(buf, *slot);
            put_digest(buf, digest);
        }
        FromClient::Skip {
            request,
            slot,
            index,
            is_unsafe,
        } => {
            buf.put_u8(SKIP);
            buf.put_u64_le(*request);
            put_slot(buf, *slot);
            buf.put_u32_le(*index);
            put_flag(buf, *is_unsafe);
        }
        FromClient::ChangeView { .. }
        | FromClient::Invite { .. }
        | FromClient::ChangeGroups { .. }
        | FromClient::Join { .. }
        | FromClient::SetLevel { .. }
        | FromClient::SwitchOrdering { .. }
        | FromClient::SetQuorums { .. }
        | FromClient::SetLimit { .. }
        | FromClient::MoveLeader { .. } => {
            put_view_request(buf, message);
        }
    }
}

/// Appends a `FromClient::Call` without building one first.
#[inline]
pub fn put_call(
    buf: &mut BytesMut,
    id: CommandId,
    acknowledged: u64,
    object: ObjectId,
    payload: &[u8],
) {
    put_call_fields(buf, CALL, id, acknowledged, object, payload);
}

/// A call behind its tag, in two pieces only: the hot path of every node.
#[inline]
pub(crate) fn put_call_fields(
    buf: &mut BytesMut,
    tag: u8,
    id: CommandId,
    acknowledged: u64,
    object: ObjectId,
    payload: &[u8],
) {
    put_call_head(buf, tag, id, acknowledged, object, payload);
    buf.put_slice(payload);
}

/// The fields of a call before its payload, which must follow.
#[inline]
pub(crate) fn put_call_head(
    buf: &mut BytesMut,
    tag: u8,
    id: CommandId,
    acknowledged: u64,
    object: ObjectId,
    payload: &[u8],
) {
    let length = u32::try_from(payload.len()).expect("a payload fits a frame");
    let mut head = [tag; 1 + CALL_BYTES];
    head[1..9].copy_from_slice(&id.session.0.to_le_bytes());
    head[9..17].copy_from_slice(&id.sequence.to_le_bytes());
    head[17..25].copy_from_slice(&acknowledged.to_le_bytes());
    head[25..29].copy_from_slice(&object.0.to_le_bytes());
    head[29..].copy_from_slice(&length.to_le_bytes());
    buf.put_slice(&head);
}

/// What a call carries on every layout: to a replica and inside a batch.
pub(crate) struct CallFields {
    pub(crate) id: CommandId,
    pub(crate) acknowledged: u64,
    pub(crate) object: ObjectId,
    pub(crate) payload: Bytes,
}

#[inline]
pub(crate) fn take_call_fields(r: &mut Reader<'_>) -> Result<CallFields, WireError> {
    let head: &[u8; CALL_BYTES] = r.array("call")?;
    let number =
        |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("inside the head"));
    let half = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("inside the head"));
    Ok(CallFields {
        id: CommandId {
            session: SessionId(in_range("session", number(0), COUNTER_LIMIT)?),
            sequence: in_range("sequence", number(8), COUNTER_LIMIT)?,
        },
        acknowledged: in_range("acknowledged sequence", number(16), COUNTER_LIMIT)?,
        object: ObjectId(half(24)),
        payload: r.slice("payload", half(28) as usize)?,
    })
}

/// Reads the messages in the body of a frame of kind `FromClient`, in order. Payloads are slices of
/// `body`, except large ones of calls that share it with others. Nothing follows an error.
#[must_use]
pub fn requests(body: Bytes) -> Requests {
    let whole = body.len();
    Requests { rest: body, whole }
}

/// What is left to read of a frame of requests.
#[derive(Debug)]
pub struct Requests {
    rest: Bytes,
    /// Bytes of the frame's body.
    whole: usize,
}

impl Requests {
    /// Bytes that are not read yet.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.rest.len()
    }
}

impl Iterator for Requests {
    type Item = Result<FromClient, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut request = next_of(&mut self.rest, take_request);
        if let Some(Ok(FromClient::Call { payload, .. })) = &mut request
            && payload.len() >= LARGE_FRAME_BYTES
        {
            detach(payload, self.whole);
        }
        request
    }
}

/// Reads the messages in the body of a frame of kind `ToClient`, in order; as [`requests`] does.
pub fn answers(body: Bytes) -> impl Iterator<Item = Result<ToClient, WireError>> {
    Messages {
        rest: body,
        take: take_answer,
    }
}

struct Messages<F> {
    rest: Bytes,
    take: F,
}

impl<T, F: Fn(&mut Reader<'_>) -> Result<T, WireError>> Iterator for Messages<F> {
    type Item = Result<T, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        next_of(&mut self.rest, &self.take)
    }
}

#[inline]
fn next_of<T>(
    rest: &mut Bytes,
    take: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Option<Result<T, WireError>> {
    if rest.is_empty() {
        return None;
    }
    let mut reader = Reader::new(rest);
    let message = take(&mut reader);
    let used = reader.at();
    match &message {
        Ok(_) => bytes::Buf::advance(rest, used),
        Err(_) => rest.clear(),
    }
    Some(message)
}

#[inline]
// Longer than a screen: one arm a request.
fn take_request(r: &mut Reader<'_>) -> Result<FromClient, WireError> {
    match r.u8("request")? {
        CALL => {
            let call = take_call_fields(r)?;
            Ok(FromClient::Call {
                id: call.id,
                acknowledged: call.acknowledged,
                object: call.object,
                payload: call.payload,
            })
        }
        OPEN => Ok(FromClient::Open {
            secret: take_secret(r)?,
            terms: take_terms(r)?,
        }),
        RESUME => Ok(FromClient::Resume {
            secret: take_secret(r)?,
            tenant: take_secret_hash(r)?,
            terms: take_terms(r)?,
        }),
        ATTACH => Ok(FromClient::Attach {
            session: take_session(r)?,
            secret: take_secret(r)?,
            attachment: take_attachment(r)?,
        }),
        READ => {
            let request = r.u64("request number")?;
            let object = ObjectId(r.u32("object")?);
            let level = take_level(r)?;
            let after = take_slot(r)?;
            let payload = r.bytes("payload")?;
            Ok(FromClient::Read {
                request,
                object,
                payload,
                level,
                after,
            })
        }
        BROADCAST => Ok(FromClient::Broadcast {
            read: take_broadcast_id(r)?,
            object: ObjectId(r.u32("object")?),
            payload: r.bytes("payload")?,
        }),
        EARLY => Ok(FromClient::Early {
            id: take_command_id(r)?,
        }),
        ANNOUNCE => Ok(FromClient::Announce {
            read: take_broadcast_id(r)?,
        }),
        KEEP_ALIVE => Ok(FromClient::KeepAlive {
            session: take_session(r)?,
        }),
        CLOSE => Ok(FromClient::Close {
            session: take_session(r)?,
        }),
        CHECKPOINT => Ok(FromClient::Checkpoint {
            request: r.u64("request number")?,
        }),
        RESET => Ok(FromClient::Reset {
            request: r.u64("request number")?,
            node: take_node(r)?,
            boot: r.counter("boot")?,
            slot: take_slot(r)?,
            digest: take_digest(r)?,
        }),
        SKIP => Ok(FromClient::Skip {
            request: r.u64("request number")?,
            slot: take_slot(r)?,
            index: r.u32("index")?,
            is_unsafe: r.flag("unsafe skip")?,
        }),
        tag if VIEW_REQUESTS.contains(&tag) => take_view_request(tag, r),
        tag => Err(WireError::UnknownTag {
            what: "request",
            tag,
        }),
    }
}

const OPENED: u8 = 1;
const REPLIED: u8 = 2;
const READ_ANSWER: u8 = 3;
const REFUSED: u8 = 4;
const KEPT_ALIVE: u8 = 5;
const CHECKPOINTED: u8 = 6;
const LEADER: u8 = 7;
const FULL: u8 = 8;
const PARKED: u8 = 9;
const RESUMED: u8 = 10;
const TENTATIVE: u8 = 11;
const CONFIRMED: u8 = 12;

/// Appends one message to a client to the body of a frame of kind `ToClient`.
#[inline]
pub fn put_answer(buf: &mut BytesMut, message: &ToClient) {
    match message {
        ToClient::Replied { id, outcome } => {
            put_reply(buf, *id, outcome);
        }
        ToClient::Opened {
            hash,
            session,
            expiry,
        } => {
            buf.put_u8(OPENED);
            put_secret_hash(buf, *hash);
            put_session(buf, *session);
            buf.put_u64_le(expiry.0);
        }
        ToClient::Resumed {
            hash,
            session,
            terms,
            tenancy,
        } => {
            buf.put_u8(RESUMED);
            put_secret_hash(buf, *hash);
            put_session(buf, *session);
            put_terms(buf, *terms);
            put_tenancy(buf, *tenancy);
        }
        ToClient::Read {
            request,
            slot,
            age,
            outcome,
        } => {
            buf.put_u8(READ_ANSWER);
            buf.put_u64_le(*request);
            put_slot(buf, *slot);
            buf.put_u64_le(age.0);
            put_outcome(buf, outcome);
        }
        ToClient::Parked { id } => put_of_call(buf, PARKED, *id),
        ToClient::Tentative { id, value } => {
            put_of_call(buf, TENTATIVE, *id);
            put_bytes(buf, value);
        }
        ToClient::Confirmed { id } => put_of_call(buf, CONFIRMED, *id),
        ToClient::Full { hash, retry_after } => {
            buf.put_u8(FULL);
            put_secret_hash(buf, *hash);
            buf.put_u64_le(retry_after.0);
        }
        ToClient::Refused { ask, refusal } => {
            buf.put_u8(REFUSED);
            put_ask(buf, *ask);
            put_refusal(buf, *refusal);
        }
        ToClient::KeptAlive { session } => {
            buf.put_u8(KEPT_ALIVE);
            put_session(buf, *session);
        }
        ToClient::Checkpointed { request, slot } => {
            buf.put_u8(CHECKPOINTED);
            buf.put_u64_le(*request);
            put_slot(buf, *slot);
        }
        ToClient::Leader { leader } => {
            buf.put_u8(LEADER);
            crate::codec::put_option(buf, leader.as_ref(), |buf, node| put_node(buf, *node));
        }
    }
}

/// Appends one answer as [`put_answer`] does; a large value stays where it lies.
#[inline]
pub fn put_answer_shared(body: &mut SharedBody<'_>, message: &ToClient) {
    if let ToClient::Replied { id, outcome } = message
        && let Outcome::Returned(value) | Outcome::Raised(value) = outcome
        && value.len() >= SHARE_BYTES_MIN
    {
        let buf = body.buf();
        buf.put_u8(REPLIED);
        put_command_id(buf, *id);
        buf.put_u8(outcome_parts(outcome).0);
        put_count(buf, value.len());
        body.put_value(value);
    } else {
        put_answer(body.buf(), message);
    }
}

fn put_of_call(buf: &mut BytesMut, tag: u8, id: CommandId) {
    buf.put_u8(tag);
    put_command_id(buf, id);
}

/// A reply, in two pieces only: the hot path of every node.
#[inline]
fn put_reply(buf: &mut BytesMut, id: CommandId, outcome: &Outcome) {
    let (tag, value) = outcome_parts(outcome);
    let length = u32::try_from(value.len()).expect("a value fits a frame");
    let mut head = [REPLIED; 22];
    head[1..9].copy_from_slice(&id.session.0.to_le_bytes());
    head[9..17].copy_from_slice(&id.sequence.to_le_bytes());
    head[17] = tag;
    head[18..].copy_from_slice(&length.to_le_bytes());
    match outcome {
        Outcome::Returned(_) | Outcome::Raised(_) => {
            buf.put_slice(&head);
            buf.put_slice(value);
        }
        Outcome::Skipped => buf.put_slice(&head[..18]),
    }
}

#[inline]
fn take_answer(r: &mut Reader<'_>) -> Result<ToClient, WireError> {
    match r.u8("answer")? {
        REPLIED => Ok(ToClient::Replied {
            id: take_command_id(r)?,
            outcome: take_outcome(r)?,
        }),
        RESUMED => Ok(ToClient::Resumed {
            hash: take_secret_hash(r)?,
            session: take_session(r)?,
            terms: take_terms(r)?,
            tenancy: take_tenancy(r)?,
        }),
        OPENED => Ok(ToClient::Opened {
            hash: take_secret_hash(r)?,
            session: take_session(r)?,
            expiry: Duration(r.u64("expiry")?),
        }),
        READ_ANSWER => Ok(ToClient::Read {
            request: r.u64("request number")?,
            slot: take_slot(r)?,
            age: Duration(r.u64("age")?),
            outcome: take_outcome(r)?,
        }),
        PARKED => Ok(ToClient::Parked {
            id: take_command_id(r)?,
        }),
        TENTATIVE => Ok(ToClient::Tentative {
            id: take_command_id(r)?,
            value: r.bytes("tentative value")?,
        }),
        CONFIRMED => Ok(ToClient::Confirmed {
            id: take_command_id(r)?,
        }),
        FULL => Ok(ToClient::Full {
            hash: take_secret_hash(r)?,
            retry_after: Duration(r.u64("pause")?),
        }),
        REFUSED => Ok(ToClient::Refused {
            ask: take_ask(r)?,
            refusal: take_refusal(r)?,
        }),
        KEPT_ALIVE => Ok(ToClient::KeptAlive {
            session: take_session(r)?,
        }),
        CHECKPOINTED => Ok(ToClient::Checkpointed {
            request: r.u64("request number")?,
            slot: take_slot(r)?,
        }),
        LEADER => Ok(ToClient::Leader {
            leader: r.option("leader", take_node)?,
        }),
        tag => Err(WireError::UnknownTag {
            what: "answer",
            tag,
        }),
    }
}
