//! Bytes of views, as snapshots hold them. A view that decodes is one that can be used: quorums that
//! meet, members in order, roles given to members only.

use crate::WireError;
use crate::codec::{Reader, put_bytes, put_list, put_name};
use crate::limits::{ADDRESS_BYTES_MAX, NAME_BYTES_MAX, OBJECTS_MAX};
use crate::words::{
    put_node, put_nodes, put_secret_hash, put_slot, take_node, take_nodes, take_secret_hash,
    take_slot,
};
use bytes::{BufMut, BytesMut};
use quorate_types::{
    FirstBallot, GroupLimits, Incarnation, Level, LimitChange, Member, MemberChange, MemberRole,
    NodeId, NodeSet, ObjectSpec, OrderingName, Persistence, QuorumRule, QuorumSizes, Quorums,
    Rejoin, View, ViewChange, ViewNumber,
};

/// The bit beside the persistence that says that a level follows: a view of [`Level::UNNAMED`] has the bytes that it had before there
/// were levels, and one of another level is refused by builds that do not know them.
const NAMES_LEVEL: u8 = 0x80;

/// The bit beside it that says that an ordering follows the level: builds that know only one refuse the view.
const NAMES_ORDERING: u8 = 0x40;

/// The bit beside it that says that the quorums were asked for, and with how many votes in fast rounds, behind level and ordering.
const QUORUMS_ASKED: u8 = 0x20;

/// The bit beside it that says that who leads it first follows these.
const NAMES_FIRST: u8 = 0x10;

/// The bit beside it that says that limits other than the defaults follow these.
const NAMES_LIMITS: u8 = 0x08;

pub(crate) fn put_view(buf: &mut BytesMut, view: &View) {
    buf.put_u64_le(view.number.0);
    put_slot(buf, view.first_slot);
    put_list(buf, &view.members, put_member);
    put_nodes(buf, view.replicas);
    put_nodes(buf, view.acceptors);
    for size in [
        view.quorums.acceptors(),
        view.quorums.phase1(),
        view.quorums.phase2(),
    ] {
        put_size(buf, size);
    }
    buf.put_u64_le(view.window);
    let rejoined: Vec<_> = view.rejoined.iter().collect();
    put_list(buf, &rejoined, |buf, (node, incarnation)| {
        put_node(buf, **node);
        buf.put_u64_le(incarnation.0);
    });
    let persistence = match view.persistence {
        Persistence::Disk => 1,
        Persistence::Memory => 2,
    };
    check_level(view);
    let names_level = view.level != Level::UNNAMED;
    let names_ordering = view.ordering != OrderingName::Paxos;
    let is_asked = view.quorums.is_asked();
    let bit = |is_named: bool, bit: u8| if is_named { bit } else { 0 };
    buf.put_u8(
        persistence
            | bit(names_level, NAMES_LEVEL)
            | bit(names_ordering, NAMES_ORDERING)
            | bit(is_asked, QUORUMS_ASKED)
            | bit(view.first_ballot.is_some(), NAMES_FIRST)
            | bit(!view.limits.are_default(), NAMES_LIMITS),
    );
    if names_level {
        buf.put_u16_le(view.level.0);
    }
    if names_ordering {
        put_ordering(buf, view.ordering);
    }
    if is_asked {
        put_size(buf, view.quorums.fast().unwrap_or(0));
    }
    let first = view.first_ballot.iter();
    first.for_each(|first| put_first_ballot(buf, *first));
    if !view.limits.are_default() {
        put_limits(buf, view.limits);
    }
    put_list(buf, &view.objects, |buf, object| {
        put_name(buf, &object.name, NAME_BYTES_MAX);
        put_name(buf, &object.class, NAME_BYTES_MAX);
        put_bytes(buf, &object.arguments);
    });
}

/// Whoever speaks the level of a view reads all that it has.
fn check_level(view: &View) {
    assert!(
        view.level >= view.ordering.level(),
        "a view is at the level of its ordering"
    );
    assert!(
        view.level >= Level::QUORUMS || !view.quorums.is_asked(),
        "a view is at the level of its quorums"
    );
    assert!(
        view.first_ballot.is_none() || view.level >= Level::FIRST_BALLOT,
        "a view names who leads it first where all read that"
    );
    assert!(
        view.level >= view.limits.level(),
        "a view is at the level of its limits"
    );
}

pub(crate) fn put_first_ballot(buf: &mut BytesMut, first: FirstBallot) {
    put_node(buf, first.node);
    buf.put_u64_le(first.boot);
}

pub(crate) fn take_first_ballot(r: &mut Reader<'_>) -> Result<FirstBallot, WireError> {
    Ok(FirstBallot {
        node: take_node(r)?,
        boot: r.u64("start of who leads first")?,
    })
}

/// Both limits; 0 stands for the default.
fn put_limits(buf: &mut BytesMut, limits: GroupLimits) {
    buf.put_u64_le(limits.named_sessions().unwrap_or(0));
    buf.put_u64_le(limits.named_replies().unwrap_or(0));
}

fn take_limits(r: &mut Reader<'_>) -> Result<GroupLimits, WireError> {
    let (sessions, replies) = (r.u64("sessions")?, r.u64("bytes of replies")?);
    let named = |limit: u64| (limit > 0).then_some(limit);
    let limits = GroupLimits::named(named(sessions), named(replies));
    limits
        .filter(|limits| !limits.are_default())
        .ok_or(WireError::Inconsistent {
            what: "limits of a view that no group has, or that need no name",
        })
}

pub(crate) fn put_view_change(buf: &mut BytesMut, change: ViewChange) {
    buf.put_u64_le(change.after.0);
    put_nodes(buf, change.acceptors);
    buf.put_u64_le(change.window);
}

pub(crate) fn take_view_change(r: &mut Reader<'_>) -> Result<ViewChange, WireError> {
    Ok(ViewChange {
        after: ViewNumber(r.counter("view")?),
        acceptors: take_nodes(r)?,
        window: r.counter("window")?,
    })
}

const SAME: u8 = 0;
const RETURNS: u8 = 1;
const JOINS: u8 = 2;
const LEAVES: u8 = 3;
const LEVEL: u8 = 4;
const ORDERING: u8 = 5;
const JOINS_AS_WITNESS: u8 = 6;
const QUORUMS: u8 = 7;
const LIMIT: u8 = 8;

pub(crate) fn put_member_change(buf: &mut BytesMut, who: &MemberChange) {
    match who {
        MemberChange::Same => buf.put_u8(SAME),
        MemberChange::Returns(Rejoin { node, incarnation }) => {
            buf.put_u8(RETURNS);
            put_node(buf, *node);
            buf.put_u64_le(incarnation.0);
        }
        MemberChange::Joins {
            member,
            invitation,
            role,
        } => {
            buf.put_u8(match role {
                MemberRole::Replica => JOINS,
                MemberRole::Witness => JOINS_AS_WITNESS,
            });
            put_member(buf, member);
            put_secret_hash(buf, *invitation);
        }
        MemberChange::Leaves(node) => {
            buf.put_u8(LEAVES);
            put_node(buf, *node);
        }
        MemberChange::Level(level) => {
            buf.put_u8(LEVEL);
            buf.put_u16_le(level.0);
        }
        MemberChange::Ordering(ordering) => {
            buf.put_u8(ORDERING);
            put_ordering(buf, *ordering);
        }
        MemberChange::Quorums(rule) => {
            buf.put_u8(QUORUMS);
            put_quorum_rule(buf, *rule);
        }
        MemberChange::Limit(limit) => {
            buf.put_u8(LIMIT);
            put_limit(buf, *limit);
        }
    }
}

fn put_size(buf: &mut BytesMut, size: usize) {
    buf.put_u8(u8::try_from(size).expect("a group has at most 64 acceptors"));
}

/// A size that somebody asks for may be anything: one that no group has stays one that no group has.
fn put_wish(buf: &mut BytesMut, size: usize) {
    buf.put_u8(u8::try_from(size).unwrap_or(u8::MAX));
}

/// Three sizes: no phase-1 quorums mean majorities, no fast ones as few votes as are safe.
pub(crate) fn put_quorum_rule(buf: &mut BytesMut, rule: QuorumRule) {
    let sizes = match rule {
        QuorumRule::Majority => [0, 0, 0],
        QuorumRule::Sizes(sizes) => [sizes.phase1, sizes.phase2, sizes.fast.unwrap_or(0)],
    };
    for size in sizes {
        put_wish(buf, size);
    }
}

pub(crate) fn take_quorum_rule(r: &mut Reader<'_>) -> Result<QuorumRule, WireError> {
    let [phase1, phase2, fast] = r.array("quorums")?.map(usize::from);
    match (phase1, phase2, fast) {
        (0, 0, 0) => Ok(QuorumRule::Majority),
        (0, ..) | (_, 0, _) => Err(WireError::OutOfRange {
            what: "quorums",
            value: 0,
        }),
        (phase1, phase2, fast) => Ok(QuorumRule::Sizes(QuorumSizes {
            phase1,
            phase2,
            fast: (fast > 0).then_some(fast),
        })),
    }
}

const SESSIONS: u8 = 1;
const REPLIES: u8 = 2;

/// Which limit, and how much it is to be: one that no group has stays one that no group has.
pub(crate) fn put_limit(buf: &mut BytesMut, limit: LimitChange) {
    let (tag, much) = match limit {
        LimitChange::Sessions(count) => (SESSIONS, count),
        LimitChange::Replies(bytes) => (REPLIES, bytes),
    };
    buf.put_u8(tag);
    buf.put_u64_le(much);
}

pub(crate) fn take_limit(r: &mut Reader<'_>) -> Result<LimitChange, WireError> {
    match r.u8("limit")? {
        SESSIONS => Ok(LimitChange::Sessions(r.u64("sessions")?)),
        REPLIES => Ok(LimitChange::Replies(r.u64("bytes of replies")?)),
        tag => Err(WireError::UnknownTag { what: "limit", tag }),
    }
}

pub(crate) fn put_ordering(buf: &mut BytesMut, ordering: OrderingName) {
    buf.put_u8(match ordering {
        OrderingName::Paxos => 1,
        OrderingName::Libpaxos => 2,
        OrderingName::LibpaxosPlus => 3,
        OrderingName::FastPaxos => 4,
        OrderingName::RingPaxos => 5,
        OrderingName::SPaxos => 6,
    });
}

pub(crate) fn take_ordering(r: &mut Reader<'_>) -> Result<OrderingName, WireError> {
    match r.u8("ordering")? {
        1 => Ok(OrderingName::Paxos),
        2 => Ok(OrderingName::Libpaxos),
        3 => Ok(OrderingName::LibpaxosPlus),
        4 => Ok(OrderingName::FastPaxos),
        5 => Ok(OrderingName::RingPaxos),
        6 => Ok(OrderingName::SPaxos),
        tag => Err(WireError::UnknownTag {
            what: "ordering",
            tag,
        }),
    }
}

pub(crate) fn take_member_change(r: &mut Reader<'_>) -> Result<MemberChange, WireError> {
    Ok(match r.u8("member change")? {
        SAME => MemberChange::Same,
        RETURNS => {
            let (node, incarnation) = take_incarnation(r)?;
            MemberChange::Returns(Rejoin { node, incarnation })
        }
        tag @ (JOINS | JOINS_AS_WITNESS) => MemberChange::Joins {
            member: take_member(r)?,
            invitation: take_secret_hash(r)?,
            role: match tag {
                JOINS => MemberRole::Replica,
                _ => MemberRole::Witness,
            },
        },
        LEAVES => MemberChange::Leaves(take_node(r)?),
        LEVEL => MemberChange::Level(Level(r.u16("level")?)),
        ORDERING => MemberChange::Ordering(take_ordering(r)?),
        QUORUMS => MemberChange::Quorums(take_quorum_rule(r)?),
        LIMIT => MemberChange::Limit(take_limit(r)?),
        tag => {
            return Err(WireError::UnknownTag {
                what: "member change",
                tag,
            });
        }
    })
}

pub(crate) fn put_member(buf: &mut BytesMut, member: &Member) {
    put_node(buf, member.node);
    buf.put_u64_le(member.incarnation.0);
    put_name(buf, &member.address, ADDRESS_BYTES_MAX);
}

pub(crate) fn take_member(r: &mut Reader<'_>) -> Result<Member, WireError> {
    Ok(Member {
        node: take_node(r)?,
        incarnation: Incarnation(r.u64("incarnation")?),
        address: r.text("address", ADDRESS_BYTES_MAX)?,
    })
}

fn take_incarnation(r: &mut Reader<'_>) -> Result<(NodeId, Incarnation), WireError> {
    Ok((take_node(r)?, Incarnation(r.u64("incarnation")?)))
}

/// What the bits beside a view's persistence say that follows.
struct Named {
    persistence: Persistence,
    level: Level,
    ordering: OrderingName,
    /// Quorums were asked for, with so many votes in fast rounds; 0 for the fewest.
    asked: Option<u8>,
    first_ballot: Option<FirstBallot>,
    limits: GroupLimits,
}

fn take_named(r: &mut Reader<'_>) -> Result<Named, WireError> {
    let tag = r.u8("persistence")?;
    let has = |bit| tag & bit != 0;
    let level = match has(NAMES_LEVEL) {
        true => take_level(r)?,
        false => Level::UNNAMED,
    };
    let ordering = match has(NAMES_ORDERING) {
        true => take_ordering(r)?,
        false => OrderingName::Paxos,
    };
    let is_named = ordering != OrderingName::Paxos;
    if is_named != has(NAMES_ORDERING) || ordering.level() > level {
        return Err(WireError::Inconsistent {
            what: "ordering of a view that does not name it so",
        });
    }
    if has(QUORUMS_ASKED) && level < Level::QUORUMS {
        return Err(WireError::Inconsistent {
            what: "quorums of a view that is not at their level",
        });
    }
    if has(NAMES_FIRST) && level < Level::FIRST_BALLOT {
        return Err(WireError::Inconsistent {
            what: "first leader of a view of a level that names none",
        });
    }
    if has(NAMES_LIMITS) && level < Level::LIMITS {
        return Err(WireError::Inconsistent {
            what: "limits of a view that is not at their level",
        });
    }
    let asked = has(QUORUMS_ASKED).then(|| r.u8("votes in fast rounds"));
    let asked = asked.transpose()?;
    let first_ballot = has(NAMES_FIRST).then(|| take_first_ballot(r));
    let first_ballot = first_ballot.transpose()?;
    let limits = has(NAMES_LIMITS).then(|| take_limits(r));
    let limits = limits.transpose()?.unwrap_or_default();
    let bits = NAMES_LEVEL | NAMES_ORDERING | QUORUMS_ASKED | NAMES_FIRST | NAMES_LIMITS;
    let persistence = match tag & !bits {
        1 => Persistence::Disk,
        2 => Persistence::Memory,
        _ => {
            let what = "persistence";
            return Err(WireError::UnknownTag { what, tag });
        }
    };
    Ok(Named {
        persistence,
        level,
        ordering,
        asked,
        first_ballot,
        limits,
    })
}

pub(crate) fn take_view(r: &mut Reader<'_>) -> Result<View, WireError> {
    let number = ViewNumber(r.counter("view")?);
    let first_slot = take_slot(r)?;
    let members = r.list("members", usize::from(NodeSet::CAPACITY), 12, take_member)?;
    let (replicas, acceptors) = (take_nodes(r)?, take_nodes(r)?);
    let quorums = take_quorums(r)?;
    let window = r.counter("window")?;
    let most = usize::from(NodeSet::CAPACITY);
    let rejoined = r.list("rejoined", most, 10, take_incarnation)?;
    let named = take_named(r)?;
    let objects = r.list("objects", OBJECTS_MAX, 8, |r| {
        Ok(ObjectSpec {
            name: r.text("object name", NAME_BYTES_MAX)?,
            class: r.text("object class", NAME_BYTES_MAX)?,
            arguments: r.bytes("constructor arguments")?,
        })
    })?;
    let view = View {
        number,
        first_slot,
        members,
        replicas,
        acceptors,
        quorums: match named.asked {
            Some(fast) => asked_quorums(quorums, fast.into())?,
            None => quorums,
        },
        window,
        rejoined: rejoined.into_iter().collect(),
        level: named.level,
        ordering: named.ordering,
        first_ballot: named.first_ballot,
        limits: named.limits,
        persistence: named.persistence,
        objects,
    };
    check(&view)?;
    Ok(view)
}

/// A level that a view names. The lowest has no name: one view has one form.
fn take_level(r: &mut Reader<'_>) -> Result<Level, WireError> {
    let level = Level(r.u16("level")?);
    match level >= Level::NAMED {
        true => Ok(level),
        false => Err(WireError::OutOfRange {
            what: "level of a view",
            value: level.0.into(),
        }),
    }
}

fn take_quorums(r: &mut Reader<'_>) -> Result<Quorums, WireError> {
    let [acceptors, phase1, phase2] = r.array("quorums")?.map(usize::from);
    Quorums::flexible(acceptors, phase1, phase2).map_err(|_| WireError::Inconsistent {
        what: "quorums of a view can miss each other",
    })
}

fn asked_quorums(sizes: Quorums, fast: usize) -> Result<Quorums, WireError> {
    let asked = QuorumSizes {
        phase1: sizes.phase1(),
        phase2: sizes.phase2(),
        fast: (fast > 0).then_some(fast),
    };
    Quorums::asked(sizes.acceptors(), asked).map_err(|_| WireError::Inconsistent {
        what: "fast quorums of a view can miss each other",
    })
}

fn check(view: &View) -> Result<(), WireError> {
    let rises = |pair: &[Member]| pair[0].node < pair[1].node;
    if !view.members.windows(2).all(rises) {
        return Err(WireError::Inconsistent {
            what: "members of a view are not in order",
        });
    }
    let nodes = view.nodes();
    let roles = view.replicas.iter().chain(view.acceptors.iter());
    let mut roles = roles.chain(view.rejoined.keys().copied());
    if !roles.all(|node| nodes.contains(node)) {
        return Err(WireError::Inconsistent {
            what: "a role of a view is given to no member",
        });
    }
    if let Some(first) = view.first_ballot
        && !view.may_lead(first.node)
    {
        return Err(WireError::Inconsistent {
            what: "first leader of a view may not lead",
        });
    }
    if view.acceptors.len() != view.quorums.acceptors() {
        return Err(WireError::Inconsistent {
            what: "quorums of a view count other acceptors than it has",
        });
    }
    Ok(())
}
