//! Bytes of the requests of operators about views and groups, and of nodes that join.

use crate::WireError;
use crate::codec::{Reader, put_flag};
use crate::groups::{put_group_change, take_group_change};
use crate::view::{
    put_limit, put_member, put_ordering, put_quorum_rule, put_view_change, take_limit, take_member,
    take_ordering, take_quorum_rule, take_view_change,
};
use crate::words::{
    put_levels, put_node, put_secret_hash, take_named_levels, take_node, take_secret,
    take_secret_hash,
};
use bytes::{BufMut, BytesMut};
use quorate_types::{Duration, FromClient, Level, Levels, MemberRole};

const CHANGE_VIEW: u8 = 10;
const INVITE: u8 = 12;
const JOIN: u8 = 13;
const MOVE_LEADER: u8 = 14;
const CHANGE_GROUPS: u8 = 15;
const SET_LEVEL: u8 = 16;
const JOIN_SPEAKING: u8 = 17;
const SWITCH_ORDERING: u8 = 18;
const JOIN_AS_WITNESS: u8 = 19;
const SET_QUORUMS: u8 = 20;
const SET_LIMIT: u8 = 21;

/// The requests of this file.
pub(crate) const VIEW_REQUESTS: [u8; 11] = [
    CHANGE_VIEW,
    INVITE,
    JOIN,
    MOVE_LEADER,
    CHANGE_GROUPS,
    SET_LEVEL,
    JOIN_SPEAKING,
    SWITCH_ORDERING,
    JOIN_AS_WITNESS,
    SET_QUORUMS,
    SET_LIMIT,
];

// Longer than a screen: one arm a message.
pub(crate) fn put_view_request(buf: &mut BytesMut, message: &FromClient) {
    match message {
        FromClient::ChangeView {
            request,
            change,
            leaves,
        } => {
            buf.put_u8(CHANGE_VIEW);
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            put_flag(buf, leaves.is_some());
            leaves.iter().for_each(|node| put_node(buf, *node));
        }
        FromClient::Invite {
            request,
            invitation,
            lasts,
        } => {
            buf.put_u8(INVITE);
            buf.put_u64_le(*request);
            put_secret_hash(buf, *invitation);
            buf.put_u64_le(lasts.0);
        }
        FromClient::Join {
            request,
            change,
            member,
            secret,
            speaks,
            role,
        } => {
            // Who says nothing of levels says it in the form that was before them.
            let is_unnamed = *role == MemberRole::Replica && speaks.newest() < Level::NAMED;
            buf.put_u8(match role {
                MemberRole::Replica if is_unnamed => JOIN,
                MemberRole::Replica => JOIN_SPEAKING,
                MemberRole::Witness => JOIN_AS_WITNESS,
            });
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            put_member(buf, member);
            buf.put_slice(secret.bytes());
            if !is_unnamed {
                put_levels(buf, *speaks);
            }
        }
        FromClient::SetLevel {
            request,
            change,
            level,
        } => {
            buf.put_u8(SET_LEVEL);
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            buf.put_u16_le(level.0);
        }
        FromClient::SwitchOrdering {
            request,
            change,
            ordering,
        } => {
            buf.put_u8(SWITCH_ORDERING);
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            put_ordering(buf, *ordering);
        }
        FromClient::SetQuorums {
            request,
            change,
            rule,
        } => {
            buf.put_u8(SET_QUORUMS);
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            put_quorum_rule(buf, *rule);
        }
        FromClient::SetLimit {
            request,
            change,
            limit,
        } => {
            buf.put_u8(SET_LIMIT);
            buf.put_u64_le(*request);
            put_view_change(buf, *change);
            put_limit(buf, *limit);
        }
        FromClient::MoveLeader { request, node } => {
            buf.put_u8(MOVE_LEADER);
            buf.put_u64_le(*request);
            put_node(buf, *node);
        }
        FromClient::ChangeGroups { request, change } => {
            buf.put_u8(CHANGE_GROUPS);
            buf.put_u64_le(*request);
            put_group_change(buf, change);
        }
        _ => unreachable!("called for these requests"),
    }
}

pub(crate) fn take_view_request(tag: u8, r: &mut Reader<'_>) -> Result<FromClient, WireError> {
    match tag {
        CHANGE_VIEW => Ok(FromClient::ChangeView {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            leaves: match r.flag("who leaves")? {
                true => Some(take_node(r)?),
                false => None,
            },
        }),
        INVITE => Ok(FromClient::Invite {
            request: r.u64("request number")?,
            invitation: take_secret_hash(r)?,
            lasts: Duration(r.u64("time of an invitation")?),
        }),
        JOIN | JOIN_SPEAKING | JOIN_AS_WITNESS => Ok(FromClient::Join {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            member: take_member(r)?,
            secret: take_secret(r)?,
            speaks: match tag {
                JOIN => Levels::UNNAMED,
                _ => take_named_levels(r)?,
            },
            role: match tag {
                JOIN_AS_WITNESS => MemberRole::Witness,
                _ => MemberRole::Replica,
            },
        }),
        SET_LEVEL => Ok(FromClient::SetLevel {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            level: Level(r.u16("level")?),
        }),
        SWITCH_ORDERING => Ok(FromClient::SwitchOrdering {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            ordering: take_ordering(r)?,
        }),
        SET_QUORUMS => Ok(FromClient::SetQuorums {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            rule: take_quorum_rule(r)?,
        }),
        SET_LIMIT => Ok(FromClient::SetLimit {
            request: r.u64("request number")?,
            change: take_view_change(r)?,
            limit: take_limit(r)?,
        }),
        MOVE_LEADER => Ok(FromClient::MoveLeader {
            request: r.u64("request number")?,
            node: take_node(r)?,
        }),
        CHANGE_GROUPS => Ok(FromClient::ChangeGroups {
            request: r.u64("request number")?,
            change: take_group_change(r)?,
        }),
        tag => Err(WireError::UnknownTag {
            what: "request",
            tag,
        }),
    }
}
