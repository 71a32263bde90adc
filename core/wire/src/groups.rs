//! Bytes of what the first group decides about others, and of those that it has.

use crate::WireError;
use crate::codec::{Reader, put_bytes, put_list, put_name};
use crate::limits::ADDRESS_BYTES_MAX;
use crate::words::{put_node, put_nodes, put_slot, take_node, take_nodes, take_slot};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{GroupChange, GroupEntry, GroupMember, Incarnation, NodeSet};

const CREATE: u8 = 1;
const DROP: u8 = 2;
const SERVE: u8 = 3;

/// Set in the number of members where others follow the setup: builds that do not read those refuse so many members.
const HAS_LATER: u32 = 1 << 31;

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
        GroupChange::Serve {
            name,
            node,
            incarnation,
        } => {
            buf.put_u8(SERVE);
            put_name(buf, name, GroupChange::NAME_BYTES_MAX);
            put_node(buf, *node);
            buf.put_u64_le(incarnation.0);
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
        SERVE => Ok(GroupChange::Serve {
            name: r.text("group name", GroupChange::NAME_BYTES_MAX)?,
            node: take_node(r)?,
            incarnation: Incarnation(r.u64("incarnation")?),
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
    let members = u32::try_from(group.members.len()).expect("a group has few members");
    buf.put_u32_le(match group.later.is_empty() {
        true => members,
        false => members | HAS_LATER,
    });
    for member in &group.members {
        put_group_member(buf, member);
    }
    put_bytes(buf, &group.setup);
    if !group.later.is_empty() {
        put_list(buf, &group.later, |buf, (since, member)| {
            put_slot(buf, *since);
            put_group_member(buf, member);
        });
    }
}

fn put_group_member(buf: &mut BytesMut, member: &GroupMember) {
    put_node(buf, member.node);
    put_name(buf, &member.address, ADDRESS_BYTES_MAX);
    buf.put_u64_le(member.voted_as.0);
    buf.put_u64_le(member.incarnation.0);
}

pub(crate) fn take_group_entry(r: &mut Reader<'_>) -> Result<GroupEntry, WireError> {
    const MEMBERS_MAX: usize = NodeSet::CAPACITY as usize;
    let name = r.text("group name", GroupChange::NAME_BYTES_MAX)?;
    let created = take_slot(r)?;
    let count = r.u32("members")?;
    let (members, has_later) = ((count & !HAS_LATER) as usize, count & HAS_LATER != 0);
    if members > MEMBERS_MAX {
        return Err(WireError::TooMany {
            what: "members",
            count: members,
            limit: MEMBERS_MAX,
        });
    }
    let members: Result<Vec<GroupMember>, WireError> =
        (0..members).map(|_| take_group_member(r)).collect();
    let (members, setup) = (members?, take_setup(r)?);
    let later = match has_later {
        true => r.list("later members", MEMBERS_MAX, 28, |r| {
            Ok((take_slot(r)?, take_group_member(r)?))
        })?,
        false => Vec::new(),
    };
    if has_later && later.is_empty() {
        return Err(WireError::Inconsistent {
            what: "a group says that nodes were named later, and names none",
        });
    }
    Ok(GroupEntry {
        name,
        created,
        members,
        setup,
        later,
    })
}

fn take_group_member(r: &mut Reader<'_>) -> Result<GroupMember, WireError> {
    Ok(GroupMember {
        node: take_node(r)?,
        address: r.text("address", ADDRESS_BYTES_MAX)?,
        voted_as: Incarnation(r.u64("incarnation")?),
        incarnation: Incarnation(r.u64("incarnation")?),
    })
}

/// It is kept: the rest of the message is not.
fn take_setup(r: &mut Reader<'_>) -> Result<Bytes, WireError> {
    let setup = r.bytes("setup of a group")?;
    Ok(Bytes::copy_from_slice(&setup))
}
