//! Bytes of refusals: one number each, to clients and between nodes.

use crate::WireError;
use crate::codec::Reader;
use crate::words::{
    put_command_id, put_secret_hash, put_session, take_command_id, take_secret_hash, take_session,
};
use bytes::{BufMut, BytesMut};
use quorate_types::{Ask, Refusal};

const REFUSALS: [Refusal; 27] = [
    Refusal::NotOrdered,
    Refusal::Unknown,
    Refusal::Overloaded,
    Refusal::SessionExpired,
    Refusal::ReplyGone,
    Refusal::SequenceReused,
    Refusal::NoSuchObject,
    Refusal::NotServing,
    Refusal::NoLeader,
    Refusal::TooLarge,
    Refusal::NoSnapshots,
    Refusal::StorageFull,
    Refusal::Behind,
    Refusal::NotFrozen,
    Refusal::NoSuchSnapshot,
    Refusal::NoStuckCall,
    Refusal::NotSkipped,
    Refusal::Frozen,
    Refusal::ViewConflict,
    Refusal::NoSuchView,
    Refusal::ViewNotReady,
    Refusal::Superseded,
    Refusal::NotInvited,
    Refusal::GroupExists,
    Refusal::UnknownGroup,
    Refusal::ImpossibleGroup,
    Refusal::LevelNotSpoken,
];

pub(crate) fn put_refusal(buf: &mut BytesMut, refusal: Refusal) {
    buf.put_u8(refusal_number(refusal));
}

fn refusal_number(refusal: Refusal) -> u8 {
    match refusal {
        Refusal::NotOrdered => 1,
        Refusal::Unknown => 2,
        Refusal::Overloaded => 3,
        Refusal::SessionExpired => 4,
        Refusal::ReplyGone => 5,
        Refusal::SequenceReused => 6,
        Refusal::NoSuchObject => 7,
        Refusal::NotServing => 8,
        Refusal::NoLeader => 9,
        Refusal::TooLarge => 10,
        Refusal::NoSnapshots => 11,
        Refusal::StorageFull => 12,
        Refusal::Behind => 13,
        Refusal::NotFrozen => 14,
        Refusal::NoSuchSnapshot => 15,
        Refusal::NoStuckCall => 16,
        Refusal::NotSkipped => 17,
        Refusal::Frozen => 18,
        Refusal::ViewConflict => 19,
        Refusal::NoSuchView => 20,
        Refusal::ViewNotReady => 21,
        Refusal::Superseded => 22,
        Refusal::NotInvited => 23,
        Refusal::GroupExists => 24,
        Refusal::UnknownGroup => 25,
        Refusal::ImpossibleGroup => 26,
        Refusal::LevelNotSpoken => 27,
    }
}

pub(crate) fn take_refusal(r: &mut Reader<'_>) -> Result<Refusal, WireError> {
    let tag = r.u8("refusal")?;
    usize::from(tag)
        .checked_sub(1)
        .and_then(|index| REFUSALS.get(index).copied())
        .ok_or(WireError::UnknownTag {
            what: "refusal",
            tag,
        })
}

/// Which request is refused.
pub(crate) fn put_ask(buf: &mut BytesMut, ask: Ask) {
    match ask {
        Ask::Open(hash) => {
            buf.put_u8(1);
            put_secret_hash(buf, hash);
        }
        Ask::Call(id) => {
            buf.put_u8(2);
            put_command_id(buf, id);
        }
        Ask::Request(request) => {
            buf.put_u8(3);
            buf.put_u64_le(request);
        }
        Ask::Session(session) => {
            buf.put_u8(4);
            put_session(buf, session);
        }
    }
}

pub(crate) fn take_ask(r: &mut Reader<'_>) -> Result<Ask, WireError> {
    match r.u8("ask")? {
        1 => Ok(Ask::Open(take_secret_hash(r)?)),
        2 => Ok(Ask::Call(take_command_id(r)?)),
        3 => Ok(Ask::Request(r.u64("request number")?)),
        4 => Ok(Ask::Session(take_session(r)?)),
        tag => Err(WireError::UnknownTag { what: "ask", tag }),
    }
}
