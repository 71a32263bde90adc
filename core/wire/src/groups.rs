//! Bytes of what the first group decides about others, and of those that it has.

use crate::WireError;
use crate::codec::{Reader, put_bytes, put_list, put_name};
use crate::limits::ADDRESS_BYTES_MAX;
use crate::words::{put_node, put_nodes, put_slot, take_node, take_nodes, take_slot};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{GroupChange, GroupEntry, GroupMember, Incarnation, NodeSet};

const CREATE: u8 = 1;
const DROP: u8 = 2;

pub(crate) fn put_group_change(buf: &mut BytesMut, change: &GroupChange) {
    match change {
        GroupChange::Create { name, nodes, setup } => {
            buf.put_u8(CREATE);
            put_name(buf, name, GroupChange::NAME_BYTES_MAX);
            put_nodes(buf, *nodes);
            put_bytes(buf, setup);
        }
        GroupChange::Drop { name } => {
            buf.put_u8(DROP);
            put_name(buf, name, GroupChange::NAME_BYTES_MAX);
        }
    }
}

pub(crate) fn take_group_change(r: &mut Reader<'_>) -> Result<GroupChange, WireError> {
    match r.u8("change of groups")? {
        CREATE => Ok(GroupChange::Create {
            name: r.text("group name", GroupChange::NAME_BYTES_MAX)?,
            nodes: take_nodes(r)?,
            setup: take_setup(r)?,
        }),
        DROP => Ok(GroupChange::Drop {
            name: r.text("group name", GroupChange::NAME_BYTES_MAX)?,
        }),
        tag => Err(WireError::UnknownTag {
            what: "change of groups",
            tag,
        }),
    }
}

pub(crate) fn put_group_entry(buf: &mut BytesMut, group: &GroupEntry) {
    put_name(buf, &group.name, GroupChange::NAME_BYTES_MAX);
    put_slot(buf, group.created);
    put_list(buf, &group.members, |buf, member| {
        put_node(buf, member.node);
        put_name(buf, &member.address, ADDRESS_BYTES_MAX);
        buf.put_u64_le(member.voted_as.0);
        buf.put_u64_le(member.incarnation.0);
    });
    put_bytes(buf, &group.setup);
}

pub(crate) fn take_group_entry(r: &mut Reader<'_>) -> Result<GroupEntry, WireError> {
    Ok(GroupEntry {
        name: r.text("group name", GroupChange::NAME_BYTES_MAX)?,
        created: take_slot(r)?,
        members: r.list("members", usize::from(NodeSet::CAPACITY), 20, |r| {
            Ok(GroupMember {
                node: take_node(r)?,
                address: r.text("address", ADDRESS_BYTES_MAX)?,
                voted_as: Incarnation(r.u64("incarnation")?),
                incarnation: Incarnation(r.u64("incarnation")?),
            })
        })?,
        setup: take_setup(r)?,
    })
}

/// It is kept: the rest of the message is not.
fn take_setup(r: &mut Reader<'_>) -> Result<Bytes, WireError> {
    let setup = r.bytes("setup of a group")?;
    Ok(Bytes::copy_from_slice(&setup))
}
