//! Snapshots whose parts are each well formed and contradict one another are refused.

use crate::draw::Draw;
use crate::drawn;
use bytes::BytesMut;
use quorate_replica::{ReplyImage, ReplyState, SessionImage, SnapshotCore};
use quorate_types::*;
use quorate_wire::{WireError, put_snapshot_core, take_snapshot_core};

fn read(core: &SnapshotCore) -> Result<SnapshotCore, WireError> {
    let mut buf = BytesMut::new();
    put_snapshot_core(&mut buf, core);
    take_snapshot_core(&buf.freeze())
}

/// A core with two members and a session that has two replies.
fn sound() -> SnapshotCore {
    let mut core = drawn::snapshot_core(&mut Draw::seeded(1));
    let nodes: NodeSet = [NodeId(1), NodeId(2)].into_iter().collect();
    core.view.members = nodes
        .iter()
        .map(|node| Member {
            node,
            incarnation: Incarnation(1),
            address: "127.0.0.1:7400".into(),
        })
        .collect();
    core.view.rejoined = [(NodeId(2), Incarnation(9))].into_iter().collect();
    core.view.replicas = nodes;
    core.view.acceptors = nodes;
    (core.view.first_ballot, core.view.limits) = (None, GroupLimits::default());
    core.view.quorums = Quorums::majority(2).expect("two acceptors");
    let reply = |sequence| ReplyImage {
        sequence,
        fingerprint: 0,
        state: ReplyState::Gone,
    };
    let session = |id| SessionImage {
        id: SessionId(id),
        hash: SecretHash::default(),
        tenant: SecretHash::default(),
        terms: SessionTerms::default(),
        active: Slot(1),
        active_wall: 0,
        floor: 5,
        replies: vec![reply(6), reply(8)],
    };
    core.sessions = vec![session(1), session(2)];
    assert_eq!(read(&core).as_ref(), Ok(&core));
    core
}

fn assert_refused(what: &'static str, break_it: impl Fn(&mut SnapshotCore)) {
    let mut core = sound();
    break_it(&mut core);
    assert_eq!(read(&core), Err(WireError::Inconsistent { what }));
}

#[test]
fn replies_stand_in_order_above_the_floor() {
    let what = "replies of a session are not in order";
    assert_refused(what, |core| core.sessions[0].replies[0].sequence = 5);
    let mut parked = sound();
    parked.sessions[0].replies[0].sequence = 5;
    parked.sessions[0].replies[0].state = ReplyState::Parked;
    assert_eq!(read(&parked).as_ref(), Ok(&parked), "it stands apart");
    assert_refused(what, |core| core.sessions[1].replies[0].sequence = 8);
    assert_refused(what, |core| core.sessions[1].replies.reverse());
}

#[test]
fn sessions_stand_in_order_and_once() {
    let what = "sessions of a snapshot are not in order";
    assert_refused(what, |core| core.sessions.reverse());
    assert_refused(what, |core| core.sessions[0].id = core.sessions[1].id);
}

#[test]
fn members_stand_in_order_and_once() {
    let what = "members of a view are not in order";
    assert_refused(what, |core| core.view.members.reverse());
    assert_refused(what, |core| core.view.members[1].node = NodeId(1));
}

#[test]
fn roles_are_given_to_members_only() {
    let what = "a role of a view is given to no member";
    assert_refused(what, |core| {
        core.view.replicas.insert(NodeId(3));
    });
    assert_refused(what, |core| core.view.acceptors = NodeSet::only(NodeId(63)));
    assert_refused(what, |core| {
        core.view.rejoined.insert(NodeId(3), Incarnation(9));
    });
}

#[test]
fn quorums_count_the_acceptors_that_the_view_has() {
    assert_refused(
        "quorums of a view count other acceptors than it has",
        |core| core.view.quorums = Quorums::majority(3).expect("three acceptors"),
    );
}

#[test]
fn quorums_that_can_miss_each_other_are_refused() {
    let core = sound();
    let mut buf = BytesMut::new();
    put_snapshot_core(&mut buf, &core);
    let sound = [2, 2, 2];
    let at: Vec<usize> = (0..buf.len() - 2)
        .filter(|at| buf[*at..*at + 3] == sound)
        .collect();
    assert_eq!(at.len(), 1, "the sizes stand in one place");
    buf[at[0]..at[0] + 3].copy_from_slice(&[2, 1, 1]);
    assert_eq!(
        take_snapshot_core(&buf.freeze()),
        Err(WireError::Inconsistent {
            what: "quorums of a view can miss each other"
        })
    );
}

#[test]
fn a_view_names_an_ordering_at_its_level_only_and_never_the_one_that_goes_without_saying() {
    let mut core = sound();
    (core.view.level, core.view.ordering) = (Level::ORDERINGS, OrderingName::LibpaxosPlus);
    let mut buf = BytesMut::new();
    put_snapshot_core(&mut buf, &core);
    // Persistence with both marks, level 21, libpaxos+.
    let named = [0x80 | 0x40 | 1, 21, 0, 3];
    let at: Vec<usize> = (0..buf.len() - 3)
        .filter(|at| buf[*at..*at + 4] == named)
        .collect();
    assert_eq!(at.len(), 1, "they stand in one place");
    for (index, byte) in [(1, 20), (3, 1)] {
        let mut broken = buf.clone();
        broken[at[0] + index] = byte;
        assert_eq!(
            take_snapshot_core(&broken.freeze()),
            Err(WireError::Inconsistent {
                what: "ordering of a view that does not name it so"
            })
        );
    }
}

/// Claim rp-154.
#[test]
fn a_view_names_limits_at_their_level_only_and_none_that_no_group_has_or_that_go_without_saying() {
    let mut core = sound();
    core.view.level = Level::LIMITS;
    core.view.limits = GroupLimits::named(Some(5), None).expect("a group can have five");
    let mut buf = BytesMut::new();
    put_snapshot_core(&mut buf, &core);
    assert_eq!(
        take_snapshot_core(&buf.clone().freeze()).as_ref(),
        Ok(&core)
    );
    // Level 29, five sessions, the default of replies.
    let named = [29, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let at = buf.windows(named.len()).position(|bytes| bytes == named);
    let at = at.expect("they stand together");
    let low = "limits of a view that is not at their level";
    let odd = "limits of a view that no group has, or that need no name";
    for (index, byte, what) in [(0, 28, low), (2, 0, odd), (5, 1, odd)] {
        let mut broken = buf.clone();
        broken[at + index] = byte;
        let refused = take_snapshot_core(&broken.freeze());
        assert_eq!(refused, Err(WireError::Inconsistent { what }));
    }
}
