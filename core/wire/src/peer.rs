//! Bytes of what nodes of a group say to each other: the body of a frame of kind `Peer` is one message.

use crate::WireError;
use crate::codec::{Reader, put_bytes, put_flag, put_option};
use crate::frame_pieces::SharedBody;
use crate::refusal::{put_refusal, take_refusal};
use crate::words::{
    put_attachment, put_digest, put_session, put_slot, put_view_id, take_attachment, take_digest,
    take_session, take_slot, take_view_id,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_any::AnyMessage;
use quorate_replica::{DiskRoom, PeerMessage, ReplicaMessage};
use quorate_types::Wall;

mod claims;
mod fast_paxos;
mod paxos;
mod signs;
mod spread;
mod trail;

const ORDERING: u8 = 1;
const REPLICA: u8 = 2;

/// Appends the body of a frame of kind `Peer`. Batches in it are copied as blocks.
///
/// ```
/// use bytes::BytesMut;
/// use quorate_replica::{PeerMessage, ReplicaMessage};
/// use quorate_types::Slot;
/// use quorate_wire::{put_peer, take_peer};
///
/// let message = PeerMessage::Replica(ReplicaMessage::NoSnapshot { slot: Slot(9) });
/// let mut body = BytesMut::new();
/// put_peer(&mut body, &message);
/// assert_eq!(take_peer(&body.freeze())?, message);
/// # Ok::<(), quorate_wire::WireError>(())
/// ```
pub fn put_peer(buf: &mut BytesMut, message: &PeerMessage<AnyMessage>) {
    match message {
        PeerMessage::Ordering { view, message } => {
            buf.put_u8(ORDERING);
            put_view_id(buf, *view);
            put_ordering(buf, message);
        }
        PeerMessage::Replica(message) => {
            buf.put_u8(REPLICA);
            put_replica(buf, message);
        }
    }
}

/// As [`put_peer`]; large payloads of proposed batches stay where they lie.
pub fn put_peer_shared(body: &mut SharedBody<'_>, message: &PeerMessage<AnyMessage>) {
    match message {
        PeerMessage::Ordering { view, message } => {
            let buf = body.buf();
            buf.put_u8(ORDERING);
            put_view_id(buf, *view);
            match message {
                AnyMessage::Paxos(message) => {
                    buf.put_u8(PAXOS);
                    paxos::put_message_shared(body, message);
                }
                AnyMessage::FastPaxos(message) => {
                    buf.put_u8(FAST_PAXOS);
                    fast_paxos::put_message_shared(body, message);
                }
            }
        }
        PeerMessage::Replica(_) => put_peer(body.buf(), message),
    }
}

/// Reads the body of a frame of kind `Peer`. Payloads and encoded batches are slices of it.
///
/// # Errors
/// When it is not one message, whole.
pub fn take_peer(body: &Bytes) -> Result<PeerMessage<AnyMessage>, WireError> {
    let mut r = Reader::new(body);
    let message = match r.u8("peer message")? {
        ORDERING => PeerMessage::Ordering {
            view: take_view_id(&mut r)?,
            message: take_ordering(&mut r)?,
        },
        REPLICA => PeerMessage::Replica(take_replica(&mut r)?),
        tag => {
            return Err(WireError::UnknownTag {
                what: "peer message",
                tag,
            });
        }
    };
    r.end("peer message")?;
    Ok(message)
}

const PAXOS: u8 = 1;
const FAST_PAXOS: u8 = 2;

fn put_ordering(buf: &mut BytesMut, message: &AnyMessage) {
    match message {
        AnyMessage::Paxos(message) => {
            buf.put_u8(PAXOS);
            paxos::put_message(buf, message);
        }
        AnyMessage::FastPaxos(message) => {
            buf.put_u8(FAST_PAXOS);
            fast_paxos::put_message(buf, message);
        }
    }
}

fn take_ordering(r: &mut Reader<'_>) -> Result<AnyMessage, WireError> {
    match r.u8("protocol")? {
        PAXOS => paxos::take_message(r).map(AnyMessage::Paxos),
        FAST_PAXOS => fast_paxos::take_message(r).map(AnyMessage::FastPaxos),
        tag => Err(WireError::UnknownTag {
            what: "protocol",
            tag,
        }),
    }
}

const KEEP_ALIVE: u8 = 1;
const KEPT_ALIVE: u8 = 2;
const DURABLE: u8 = 3;
const FETCH: u8 = 4;
const CHUNK: u8 = 5;
const NO_SNAPSHOT: u8 = 6;
const AGREED: u8 = 7;
const CLOCK: u8 = 8;
const ROOM: u8 = 9;
const OUTCOMES: u8 = 10;
const TRAIL: u8 = 11;
const NO_SAY: u8 = 12;
const SIGNS: u8 = 13;

// Longer than a screen: one arm a message.
fn put_replica(buf: &mut BytesMut, message: &ReplicaMessage) {
    match message {
        ReplicaMessage::KeepAlive {
            session,
            number,
            attachment,
        } => {
            buf.put_u8(KEEP_ALIVE);
            put_session(buf, *session);
            buf.put_u64_le(*number);
            put_attachment(buf, *attachment);
        }
        ReplicaMessage::KeptAlive {
            session,
            number,
            refused,
        } => {
            buf.put_u8(KEPT_ALIVE);
            put_session(buf, *session);
            buf.put_u64_le(*number);
            put_option(buf, refused.as_ref(), |buf, refusal| {
                put_refusal(buf, *refusal)
            });
        }
        ReplicaMessage::Durable {
            slot,
            digest,
            bytes,
        } => {
            buf.put_u8(DURABLE);
            put_slot(buf, *slot);
            put_digest(buf, digest);
            buf.put_u64_le(*bytes);
        }
        ReplicaMessage::Clock { wall, votes } => {
            buf.put_u8(CLOCK);
            buf.put_u64_le(wall.0);
            put_flag(buf, *votes);
        }
        ReplicaMessage::Room { room } => {
            buf.put_u8(ROOM);
            buf.put_u8(match room {
                DiskRoom::Plenty => 0,
                DiskRoom::Scarce => 1,
                DiskRoom::Full => 2,
            });
        }
        ReplicaMessage::Agreed { slot, digest } => {
            buf.put_u8(AGREED);
            put_slot(buf, *slot);
            put_digest(buf, digest);
        }
        ReplicaMessage::Fetch { slot, offset } => {
            buf.put_u8(FETCH);
            put_slot(buf, *slot);
            buf.put_u64_le(*offset);
        }
        ReplicaMessage::Chunk {
            slot,
            offset,
            total,
            data,
        } => {
            buf.put_u8(CHUNK);
            put_slot(buf, *slot);
            buf.put_u64_le(*offset);
            buf.put_u64_le(*total);
            put_bytes(buf, data);
        }
        ReplicaMessage::Outcomes { slot, digest } => {
            buf.put_u8(OUTCOMES);
            put_slot(buf, *slot);
            buf.put_u64_le(*digest);
        }
        ReplicaMessage::Trail { asks, trail } => {
            buf.put_u8(TRAIL);
            put_flag(buf, *asks);
            trail::put_trail(buf, trail);
        }
        ReplicaMessage::NoSnapshot { slot } => {
            buf.put_u8(NO_SNAPSHOT);
            put_slot(buf, *slot);
        }
        ReplicaMessage::Signs(message) => {
            buf.put_u8(SIGNS);
            signs::put_signs(buf, message);
        }
        ReplicaMessage::NoSay { after, upto } => {
            buf.put_u8(NO_SAY);
            put_slot(buf, *after);
            put_slot(buf, *upto);
        }
    }
}

fn take_replica(r: &mut Reader<'_>) -> Result<ReplicaMessage, WireError> {
    match r.u8("replica message")? {
        KEEP_ALIVE => Ok(ReplicaMessage::KeepAlive {
            session: take_session(r)?,
            number: r.counter("keepalive number")?,
            attachment: take_attachment(r)?,
        }),
        KEPT_ALIVE => Ok(ReplicaMessage::KeptAlive {
            session: take_session(r)?,
            number: r.counter("keepalive number")?,
            refused: r.option("refusal", take_refusal)?,
        }),
        DURABLE => Ok(ReplicaMessage::Durable {
            slot: take_slot(r)?,
            digest: take_digest(r)?,
            bytes: r.counter("snapshot bytes")?,
        }),
        CLOCK => Ok(ReplicaMessage::Clock {
            wall: Wall(r.u64("wall time")?),
            votes: r.flag("votes")?,
        }),
        ROOM => Ok(ReplicaMessage::Room {
            room: match r.u8("room")? {
                0 => DiskRoom::Plenty,
                1 => DiskRoom::Scarce,
                2 => DiskRoom::Full,
                tag => return Err(WireError::UnknownTag { what: "room", tag }),
            },
        }),
        AGREED => Ok(ReplicaMessage::Agreed {
            slot: take_slot(r)?,
            digest: take_digest(r)?,
        }),
        FETCH => Ok(ReplicaMessage::Fetch {
            slot: take_slot(r)?,
            offset: r.counter("offset")?,
        }),
        OUTCOMES => Ok(ReplicaMessage::Outcomes {
            slot: take_slot(r)?,
            digest: r.u64("digest of outcomes")?,
        }),
        TRAIL => Ok(ReplicaMessage::Trail {
            asks: r.flag("asks")?,
            trail: Box::new(trail::take_trail(r)?),
        }),
        CHUNK => take_chunk(r),
        NO_SNAPSHOT => Ok(ReplicaMessage::NoSnapshot {
            slot: take_slot(r)?,
        }),
        SIGNS => signs::take_signs(r).map(ReplicaMessage::Signs),
        NO_SAY => Ok(ReplicaMessage::NoSay {
            after: take_slot(r)?,
            upto: take_slot(r)?,
        }),
        tag => Err(WireError::UnknownTag {
            what: "replica message",
            tag,
        }),
    }
}

/// A piece must lie inside the whole it names: whoever stores it need not ask again.
fn take_chunk(r: &mut Reader<'_>) -> Result<ReplicaMessage, WireError> {
    let slot = take_slot(r)?;
    let offset = r.counter("offset")?;
    let total = r.counter("snapshot bytes")?;
    let data = r.bytes("chunk")?;
    if offset > total || data.len() as u64 > total - offset {
        return Err(WireError::Inconsistent {
            what: "a chunk reaches past the end of its snapshot",
        });
    }
    Ok(ReplicaMessage::Chunk {
        slot,
        offset,
        total,
        data,
    })
}
