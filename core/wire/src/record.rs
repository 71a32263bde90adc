//! Bytes of log records. Framing, checksums and positions are the storage's; this is what lies inside.

use crate::WireError;
use crate::batch::{put_batch, take_batch};
use crate::codec::Reader;
use crate::words::{
    put_ballot, put_digest, put_slot, put_value_id, put_view_id, take_ballot, take_digest,
    take_slot, take_value_id, take_view_id,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_ordering::{Entry, Record};
use quorate_types::VoteKind;

/// First byte of every record: the layout of the rest. Its high bit tells it from layout 1, which began with the
/// tag; a log of another layout is refused, never misread.
const LAYOUT: u8 = 0x84;

const PROMISE: u8 = 1;
const VOTE: u8 = 2;
const CHOSEN: u8 = 3;
const DECIDED: u8 = 4;
const TRIMMED: u8 = 5;
const AGREED: u8 = 6;
/// A vote in a fast round: as [`VOTE`], with the value's id before the batch.
const FAST_VOTE: u8 = 7;

/// Appends one record. A batch that came from a frame is copied as the block it came as.
///
/// ```
/// use bytes::BytesMut;
/// use quorate_ordering::{Entry, Record};
/// use quorate_types::{Ballot, Batch, Slot, ViewId, VoteKind};
/// use quorate_wire::{put_record, take_record};
///
/// let kind = VoteKind::Classic;
/// let entry = Entry::Vote { slot: Slot(1), ballot: Ballot::ZERO, kind, batch: Batch::noop() };
/// let record = Record { view: ViewId::default(), entry };
/// let mut bytes = BytesMut::new();
/// put_record(&mut bytes, &record);
/// assert_eq!(take_record(&bytes.freeze())?, record);
/// # Ok::<(), quorate_wire::WireError>(())
/// ```
pub fn put_record(buf: &mut BytesMut, record: &Record) {
    buf.put_u8(LAYOUT);
    put_view_id(buf, record.view);
    match &record.entry {
        Entry::Promise { ballot } => {
            buf.put_u8(PROMISE);
            put_ballot(buf, *ballot);
        }
        Entry::Vote {
            slot,
            ballot,
            kind,
            batch,
        } => {
            buf.put_u8(if kind.is_fast() { FAST_VOTE } else { VOTE });
            put_slot(buf, *slot);
            put_ballot(buf, *ballot);
            if let VoteKind::Fast(value) = kind {
                put_value_id(buf, *value);
            }
            put_batch(buf, batch);
        }
        Entry::Chosen { slot, batch } => {
            buf.put_u8(CHOSEN);
            put_slot(buf, *slot);
            put_batch(buf, batch);
        }
        Entry::Decided { upto } => {
            buf.put_u8(DECIDED);
            put_slot(buf, *upto);
        }
        Entry::Trimmed { upto } => {
            buf.put_u8(TRIMMED);
            put_slot(buf, *upto);
        }
        Entry::Agreed { slot, digest } => {
            buf.put_u8(AGREED);
            put_slot(buf, *slot);
            put_digest(buf, digest);
        }
    }
}

/// Reads one record that fills `bytes`. Payloads and the encoded batch are slices of it.
///
/// # Errors
/// When it is not one record, whole.
pub fn take_record(bytes: &Bytes) -> Result<Record, WireError> {
    let mut r = Reader::new(bytes);
    let layout = r.u8("layout of records")?;
    if layout != LAYOUT {
        return Err(WireError::UnknownTag {
            what: "layout of records",
            tag: layout,
        });
    }
    let view = take_view_id(&mut r)?;
    let entry = match r.u8("record")? {
        PROMISE => Entry::Promise {
            ballot: take_ballot(&mut r)?,
        },
        VOTE => Entry::Vote {
            slot: take_slot(&mut r)?,
            ballot: take_ballot(&mut r)?,
            kind: VoteKind::Classic,
            batch: take_batch(&mut r)?,
        },
        FAST_VOTE => Entry::Vote {
            slot: take_slot(&mut r)?,
            ballot: take_ballot(&mut r)?,
            kind: VoteKind::Fast(take_value_id(&mut r)?),
            batch: take_batch(&mut r)?,
        },
        CHOSEN => Entry::Chosen {
            slot: take_slot(&mut r)?,
            batch: take_batch(&mut r)?,
        },
        DECIDED => Entry::Decided {
            upto: take_slot(&mut r)?,
        },
        TRIMMED => Entry::Trimmed {
            upto: take_slot(&mut r)?,
        },
        AGREED => Entry::Agreed {
            slot: take_slot(&mut r)?,
            digest: take_digest(&mut r)?,
        },
        tag => {
            return Err(WireError::UnknownTag {
                what: "record",
                tag,
            });
        }
    };
    r.end("record")?;
    Ok(Record { view, entry })
}
