//! Bytes of log records. Framing, checksums and positions are the storage's; this is what lies inside.

use crate::WireError;
use crate::batch::{put_batch, take_batch};
use crate::codec::Reader;
use crate::words::{put_ballot, put_slot, take_ballot, take_slot};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_ordering::Record;

const PROMISE: u8 = 1;
const VOTE: u8 = 2;
const CHOSEN: u8 = 3;
const DECIDED: u8 = 4;
const TRIMMED: u8 = 5;

/// Appends one record. A batch that came from a frame is copied as the block it came as.
///
/// ```
/// use bytes::BytesMut;
/// use quorate_ordering::Record;
/// use quorate_types::{Ballot, Batch, Slot};
/// use quorate_wire::{put_record, take_record};
///
/// let record = Record::Vote { slot: Slot(1), ballot: Ballot::ZERO, batch: Batch::noop() };
/// let mut bytes = BytesMut::new();
/// put_record(&mut bytes, &record);
/// assert_eq!(take_record(&bytes.freeze())?, record);
/// # Ok::<(), quorate_wire::WireError>(())
/// ```
pub fn put_record(buf: &mut BytesMut, record: &Record) {
    match record {
        Record::Promise { ballot } => {
            buf.put_u8(PROMISE);
            put_ballot(buf, *ballot);
        }
        Record::Vote {
            slot,
            ballot,
            batch,
        } => {
            buf.put_u8(VOTE);
            put_slot(buf, *slot);
            put_ballot(buf, *ballot);
            put_batch(buf, batch);
        }
        Record::Chosen { slot, batch } => {
            buf.put_u8(CHOSEN);
            put_slot(buf, *slot);
            put_batch(buf, batch);
        }
        Record::Decided { upto } => {
            buf.put_u8(DECIDED);
            put_slot(buf, *upto);
        }
        Record::Trimmed { upto } => {
            buf.put_u8(TRIMMED);
            put_slot(buf, *upto);
        }
    }
}

/// Reads one record that fills `bytes`. Payloads and the encoded batch are slices of it.
///
/// # Errors
/// When it is not one record, whole.
pub fn take_record(bytes: &Bytes) -> Result<Record, WireError> {
    let mut r = Reader::new(bytes);
    let record = match r.u8("record")? {
        PROMISE => Record::Promise {
            ballot: take_ballot(&mut r)?,
        },
        VOTE => Record::Vote {
            slot: take_slot(&mut r)?,
            ballot: take_ballot(&mut r)?,
            batch: take_batch(&mut r)?,
        },
        CHOSEN => Record::Chosen {
            slot: take_slot(&mut r)?,
            batch: take_batch(&mut r)?,
        },
        DECIDED => Record::Decided {
            upto: take_slot(&mut r)?,
        },
        TRIMMED => Record::Trimmed {
            upto: take_slot(&mut r)?,
        },
        tag => {
            return Err(WireError::UnknownTag {
                what: "record",
                tag,
            });
        }
    };
    r.end("record")?;
    Ok(record)
}
