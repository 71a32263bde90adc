//! Bytes of proposals by names, and of the names. Called by [`super::paxos`] only.

use super::claims::put_claim;
use crate::WireError;
use crate::codec::{Reader, put_list};
use crate::words::{put_value_id, take_ballot, take_slot, take_value_id};
use bytes::{BufMut, BytesMut};
use quorate_any::paxos::message::Named;
use quorate_types::{Batch, Stamp, ValueId, Wall};

/// Bytes of the shortest name.
const VALUE_BYTES: usize = 18;

pub(crate) fn put_values(buf: &mut BytesMut, values: &[ValueId]) {
    put_list(buf, values, |buf, value| put_value_id(buf, *value));
}

pub(crate) fn take_values(r: &mut Reader<'_>) -> Result<Vec<ValueId>, WireError> {
    r.list("values", Batch::COMMANDS_MAX, VALUE_BYTES, take_value_id)
}

pub(crate) fn put_named(buf: &mut BytesMut, named: &Named) {
    put_claim(buf, named.ballot, &[named.slot, named.decided]);
    buf.put_u64_le(named.stamp.wall.0);
    buf.put_u64_le(named.stamp.entropy);
    put_values(buf, &named.values);
}

pub(crate) fn take_named(r: &mut Reader<'_>) -> Result<Named, WireError> {
    Ok(Named {
        ballot: take_ballot(r)?,
        slot: take_slot(r)?,
        decided: take_slot(r)?,
        stamp: Stamp {
            wall: Wall(r.u64("wall time")?),
            entropy: r.u64("entropy")?,
        },
        values: take_values(r)?,
    })
}
