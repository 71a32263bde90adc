//! One snapshot with one of everything.

use crate::samples::{BALLOT, Reader, SECRET, SECRET_HASH, SESSION, Sample, TENANT, TERMS, sample};
use bytes::{BufMut, Bytes};
use quorate_replica::{Invitation, ReplyImage, ReplyState, SessionImage, SnapshotCore};
use quorate_types::*;
use quorate_wire::*;

pub(crate) fn set_limit() -> FromClient {
    FromClient::SetLimit {
        request: 23,
        change: view_change(),
        limit: LimitChange::Replies(64 << 20),
    }
}

pub(crate) fn set_quorums() -> FromClient {
    FromClient::SetQuorums {
        request: 22,
        change: view_change(),
        rule: QuorumRule::Sizes(QuorumSizes {
            phase1: 4,
            phase2: 2,
            fast: Some(5),
        }),
    }
}

// Longer than a screen: one line a field.
pub(crate) fn snapshot_core() -> SnapshotCore {
    let nodes: NodeSet = [NodeId(1), NodeId(2), NodeId(3)].into_iter().collect();
    let view = View {
        first_ballot: None,
        limits: GroupLimits::default(),
        number: ViewNumber(4),
        first_slot: Slot(40),
        members: nodes
            .iter()
            .map(|node| Member {
                node,
                incarnation: Incarnation(0x1110 + u64::from(node.0)),
                address: format!("127.0.0.1:740{}", node.0),
            })
            .collect(),
        replicas: nodes,
        acceptors: nodes,
        quorums: Quorums::majority(3).expect("three acceptors"),
        window: 1024,
        rejoined: [(NodeId(2), Incarnation(0x2220))].into_iter().collect(),
        level: quorate_types::Level::UNNAMED,
        ordering: quorate_types::OrderingName::Paxos,
        persistence: Persistence::Disk,
        objects: vec![ObjectSpec {
            name: "Account".into(),
            class: "bank:Account".into(),
            arguments: Bytes::from_static(b"\x80\xa0"),
        }],
    };
    let ten = Outcome::Returned(Bytes::from_static(b"\x0a"));
    let reply = |sequence, state| ReplyImage {
        sequence,
        fingerprint: 0xf0f0,
        state,
    };
    let next = view.changed(Slot(79), view_change(), &MemberChange::Same);
    SnapshotCore {
        slot: Slot(80),
        stamp: Stamp {
            wall: Wall(0x1122_3344),
            entropy: 0x5566,
        },
        replies_digest: 0x99aa,
        next: Some(next.expect("such a view can be")),
        view,
        lead_ballot: BALLOT,
        lead_slot: Slot(41),
        reset: Slot(17),
        invitations: vec![Invitation {
            hash: SECRET.hash(),
            until: Wall(0x7788),
            is_used: true,
        }],
        groups: vec![GroupEntry {
            name: "orders".to_owned(),
            created: Slot(44),
            members: vec![GroupMember {
                node: NodeId(3),
                address: "127.0.0.1:7403".into(),
                voted_as: Incarnation(0x3330),
                incarnation: Incarnation(0x5550),
            }],
            setup: Bytes::from_static(b"{}"),
            later: Vec::new(),
        }],
        previous: None,
        sessions: vec![SessionImage {
            id: SESSION,
            hash: SECRET_HASH,
            tenant: TENANT,
            terms: TERMS,
            active: Slot(79),
            active_wall: 0x1122_3300,
            floor: 5,
            replies: vec![
                reply(2, ReplyState::Parked),
                reply(4, ReplyState::Woken(ten.clone())),
                reply(6, ReplyState::Gone),
                reply(7, ReplyState::Kept(ten)),
            ],
        }],
    }
}

pub(crate) fn snapshot() -> Sample {
    let core = snapshot_core();
    let images = vec![StoredImage {
        object: ObjectId(0),
        image: Bytes::from_static(b"state"),
    }];
    sample("snapshot", Reader::Snapshot, |buf| {
        buf.put_slice(&small_snapshot(&core, ["Account"], &images));
    })
}

pub(crate) fn group_change() -> GroupChange {
    GroupChange::Create {
        name: "orders".to_owned(),
        nodes: [NodeId(1), NodeId(3)].into_iter().collect(),
        setup: Bytes::from_static(b"{}"),
    }
}

pub(crate) fn view_change() -> ViewChange {
    ViewChange {
        after: ViewNumber(4),
        acceptors: [NodeId(1), NodeId(3)].into_iter().collect(),
        window: 512,
    }
}
