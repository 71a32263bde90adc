//! Draws of views, and of what changes them.

use crate::draw::Draw;
use crate::drawn::{counter, node, payload, secret, slot};
use quorate_types::*;

pub(crate) fn view_change(draw: &mut Draw) -> ViewChange {
    ViewChange {
        after: ViewNumber(counter(draw)),
        acceptors: draw.list(8, node).into_iter().collect(),
        window: counter(draw),
    }
}

pub(crate) fn first_ballot(draw: &mut Draw) -> FirstBallot {
    FirstBallot {
        node: node(draw),
        boot: draw.number(),
    }
}

pub(crate) fn member(draw: &mut Draw) -> Member {
    Member {
        node: node(draw),
        incarnation: Incarnation(draw.number()),
        address: "a".repeat(draw.below(20) as usize),
    }
}

pub(crate) fn role(draw: &mut Draw) -> MemberRole {
    match draw.flag() {
        true => MemberRole::Replica,
        false => MemberRole::Witness,
    }
}

pub(crate) fn member_change(draw: &mut Draw) -> MemberChange {
    match draw.below(7) {
        6 => MemberChange::Limit(limit(draw)),
        5 => MemberChange::Quorums(quorum_rule(draw)),
        0 => MemberChange::Same,
        3 => MemberChange::Ordering(OrderingName::ALL[draw.below(6) as usize]),
        1 => MemberChange::Leaves(node(draw)),
        2 => MemberChange::Joins {
            member: member(draw),
            invitation: secret(draw).hash(),
            role: role(draw),
        },
        _ => MemberChange::Returns(Rejoin {
            node: node(draw),
            incarnation: Incarnation(draw.number()),
        }),
    }
}

fn quorum_rule(draw: &mut Draw) -> QuorumRule {
    let mut size = || 1 + draw.below(64) as usize;
    let sizes = QuorumSizes {
        phase1: size(),
        phase2: size(),
        fast: Some(size()).filter(|size| *size < 32),
    };
    match draw.flag() {
        true => QuorumRule::Sizes(sizes),
        false => QuorumRule::Majority,
    }
}

fn limit(draw: &mut Draw) -> LimitChange {
    match draw.flag() {
        true => LimitChange::Sessions(draw.number()),
        false => LimitChange::Replies(draw.number()),
    }
}

/// Other quorums, or another limit.
pub(crate) fn set_counts(draw: &mut Draw) -> FromClient {
    let (request, change) = (draw.number(), view_change(draw));
    match draw.flag() {
        true => FromClient::SetLimit {
            request,
            change,
            limit: limit(draw),
        },
        false => FromClient::SetQuorums {
            request,
            change,
            rule: quorum_rule(draw),
        },
    }
}

/// As a view has them: at random the default.
fn limits(draw: &mut Draw) -> GroupLimits {
    let sessions = draw.flag().then(|| 1 + draw.below(10_000));
    let replies = draw.flag().then(|| (1 + draw.below(200)) << 20);
    GroupLimits::named(sessions, replies).expect("none is a default")
}

fn group_name(draw: &mut Draw) -> String {
    "g".repeat(1 + draw.below(GroupChange::NAME_BYTES_MAX as u64) as usize)
}

pub(crate) fn group_change(draw: &mut Draw) -> GroupChange {
    let name = group_name(draw);
    match draw.below(3) {
        0 => GroupChange::Create {
            name,
            nodes: draw.list(8, node).into_iter().collect(),
            setup: payload(draw),
        },
        1 => GroupChange::Drop { name },
        _ => GroupChange::Serve {
            name,
            node: node(draw),
            incarnation: Incarnation(draw.number()),
        },
    }
}

pub(crate) fn group(draw: &mut Draw) -> GroupEntry {
    GroupEntry {
        name: group_name(draw),
        created: slot(draw),
        members: draw.list(4, group_member),
        setup: payload(draw),
        later: draw.list(3, |draw| (slot(draw), group_member(draw))),
    }
}

fn group_member(draw: &mut Draw) -> GroupMember {
    GroupMember {
        node: node(draw),
        address: "a".repeat(draw.below(20) as usize),
        voted_as: Incarnation(draw.number()),
        incarnation: Incarnation(draw.number()),
    }
}

pub(crate) fn view(draw: &mut Draw) -> View {
    let mut nodes: Vec<NodeId> = draw.list(8, node);
    nodes.push(node(draw));
    nodes.sort_unstable();
    nodes.dedup();
    let acceptors: NodeSet = nodes.iter().copied().take(5).collect();
    let mut view = View {
        first_ballot: None,
        limits: GroupLimits::default(),
        number: ViewNumber(counter(draw)),
        first_slot: slot(draw),
        members: nodes
            .iter()
            .map(|node| Member {
                node: *node,
                incarnation: Incarnation(draw.number()),
                address: format!("10.0.0.{}:7400", node.0),
            })
            .collect(),
        replicas: nodes.iter().copied().filter(|_| draw.flag()).collect(),
        acceptors,
        quorums: Quorums::flexible(acceptors.len(), acceptors.len(), 1)
            .expect("all and one always meet"),
        window: counter(draw),
        rejoined: nodes
            .iter()
            .filter(|_| draw.flag())
            .map(|node| (*node, Incarnation(u64::from(node.0) + 5)))
            .collect(),
        level: Level(19 + draw.below(11) as u16),
        ordering: OrderingName::Paxos,
        persistence: if draw.flag() {
            Persistence::Disk
        } else {
            Persistence::Memory
        },
        objects: draw.list(4, |draw| ObjectSpec {
            name: draw.text(12),
            class: draw.text(20),
            arguments: payload(draw),
        }),
    };
    view.ordering = match view.level.0 {
        21 => OrderingName::Libpaxos,
        22 => OrderingName::LibpaxosPlus,
        23 => OrderingName::FastPaxos,
        24 => OrderingName::RingPaxos,
        25 => OrderingName::SPaxos,
        28 if draw.flag() => OrderingName::FastPaxos,
        _ => OrderingName::Paxos,
    };
    if view.level >= Level::QUORUMS && draw.flag() {
        let all = acceptors.len();
        let sizes = QuorumSizes {
            phase1: all,
            phase2: 1 + draw.below(all as u64) as usize,
            fast: draw.flag().then_some(all),
        };
        view.quorums = Quorums::asked(all, sizes).expect("all meet all");
    }
    if view.level >= Level::LIMITS {
        view.limits = limits(draw);
    }
    let first = view.acceptors.iter().find(|node| view.may_lead(*node));
    let boot = draw.number();
    view.begun_by(first.map(|node| FirstBallot { node, boot }))
}

/// The name of a value of fast rounds.
pub(crate) fn value_id(draw: &mut Draw) -> ValueId {
    let (node, boot, number) = (NodeId(draw.below(64) as u16), draw.number(), draw.number());
    ValueId { node, boot, number }
}

/// Whose choice a vote in a view is.
pub(crate) fn vote_kind(draw: &mut Draw) -> VoteKind {
    let fast = VoteKind::Fast(value_id(draw));
    if draw.flag() { fast } else { VoteKind::Classic }
}

pub(crate) fn levels(draw: &mut Draw) -> Levels {
    let oldest = 19 + draw.below(3) as u16;
    let newest = oldest.max(20) + draw.below(3) as u16;
    Levels::new(Level(oldest), Level(newest)).expect("ascending")
}
