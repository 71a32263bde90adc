//! Bytes of what replicas tell each other of signs of life.

use crate::WireError;
use crate::codec::{Reader, put_flag, put_list, put_option};
use crate::limits::{ENTRIES_MAX, SESSIONS_MAX};
use crate::words::{
    put_attachment, put_session, put_slot, take_attachment, take_session, take_slot,
};
use bytes::{BufMut, BytesMut};
use quorate_replica::{KnownSign, KnownSigns, SignsMessage};
use quorate_types::Duration;

const NOTE: u8 = 1;
const NOTED: u8 = 2;
const ASK: u8 = 3;
const ANSWER: u8 = 4;
const CLOSED: u8 = 5;

pub(super) fn put_signs(buf: &mut BytesMut, message: &SignsMessage) {
    match message {
        SignsMessage::Note { number, sessions } => {
            buf.put_u8(NOTE);
            buf.put_u64_le(*number);
            put_list(buf, sessions, |buf, (session, attachment)| {
                put_session(buf, *session);
                put_attachment(buf, *attachment);
            });
        }
        SignsMessage::Noted { number } => {
            buf.put_u8(NOTED);
            buf.put_u64_le(*number);
        }
        SignsMessage::Ask { number } => {
            buf.put_u8(ASK);
            buf.put_u64_le(*number);
        }
        SignsMessage::Answer {
            number,
            is_all,
            known,
        } => {
            buf.put_u8(ANSWER);
            buf.put_u64_le(*number);
            put_flag(buf, *is_all);
            put_known_signs(buf, known);
        }
        SignsMessage::Closed { closes } => {
            buf.put_u8(CLOSED);
            put_list(buf, closes, |buf, (session, attachment, age)| {
                put_session(buf, *session);
                put_attachment(buf, *attachment);
                buf.put_u64_le(age.0);
            });
        }
    }
}

pub(super) fn take_signs(r: &mut Reader<'_>) -> Result<SignsMessage, WireError> {
    match r.u8("message about signs of life")? {
        NOTE => Ok(SignsMessage::Note {
            number: r.counter("number of a note")?,
            sessions: r.list("noted sessions", ENTRIES_MAX, 16, |r| {
                Ok((take_session(r)?, take_attachment(r)?))
            })?,
        }),
        NOTED => Ok(SignsMessage::Noted {
            number: r.counter("number of a note")?,
        }),
        ASK => Ok(SignsMessage::Ask {
            number: r.counter("number of a question")?,
        }),
        ANSWER => Ok(SignsMessage::Answer {
            number: r.counter("number of a question")?,
            is_all: r.flag("all signs of life")?,
            known: Box::new(take_known_signs(r)?),
        }),
        CLOSED => Ok(SignsMessage::Closed {
            closes: r.list("closed connections", ENTRIES_MAX, 24, |r| {
                let (session, attachment) = (take_session(r)?, take_attachment(r)?);
                Ok((session, attachment, Duration(r.u64("age")?)))
            })?,
        }),
        tag => Err(WireError::UnknownTag {
            what: "message about signs of life",
            tag,
        }),
    }
}

fn put_known_signs(buf: &mut BytesMut, known: &KnownSigns) {
    put_slot(buf, known.applied);
    put_option(buf, known.others.as_ref(), |buf, age| buf.put_u64_le(age.0));
    put_option(buf, known.sees_after.as_ref(), |buf, slot| {
        put_slot(buf, *slot);
    });
    put_list(buf, &known.ages, |buf, sign| {
        put_session(buf, sign.session);
        buf.put_u64_le(sign.age.0);
        put_attachment(buf, sign.attachment);
    });
}

fn take_known_signs(r: &mut Reader<'_>) -> Result<KnownSigns, WireError> {
    Ok(KnownSigns {
        applied: take_slot(r)?,
        others: r.option("age", |r| r.u64("age").map(Duration))?,
        sees_after: r.option("slot", take_slot)?,
        ages: r.list("ages", SESSIONS_MAX, 24, |r| {
            Ok(KnownSign {
                session: take_session(r)?,
                age: Duration(r.u64("age")?),
                attachment: take_attachment(r)?,
            })
        })?,
    })
}
