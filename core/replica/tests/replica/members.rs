//! Members that come and go: who may join, what a view that names them changes, and what becomes of what a member answered that left.

use crate::views::{WINDOW, change, fill, world};
use crate::world::{World, call, id, meta, refused};
use quorate_replica::Snapshots;
use quorate_replica::limits::INVITATIONS_MAX;
use quorate_types::{
    Ask, Body, Duration, FromClient, Incarnation, Member, MemberChange, MemberRole, NodeId,
    Outcome, Refusal, Secret, Slot, ToClient, ViewNumber,
};

fn secret(number: u8) -> Secret {
    Secret::new([number; Secret::BYTES])
}

fn member(node: u16) -> Member {
    Member {
        node: NodeId(node),
        incarnation: Incarnation(u64::from(node) << 8),
        address: format!("127.0.0.1:{}", 7400 + node),
    }
}

/// A node asks to join view `after`; what it is refused for, if it is at once.
fn join(world: &mut World, after: u64, node: u16, with: Secret) -> Option<Refusal> {
    let from = 100 + u64::from(node) + 10 * after;
    let message = FromClient::Join {
        request: from,
        change: change(after, &[0, 1, 2]),
        member: member(node),
        secret: with,
        speaks: quorate_types::Levels::UNNAMED,
        role: MemberRole::Replica,
    };
    world.say(0, from, message);
    match world.take_told(from).pop() {
        None => None,
        Some(ToClient::Refused {
            ask: Ask::Request(_),
            refusal,
        }) => Some(refusal),
        Some(other) => panic!("no refusal: {other:?}"),
    }
}

fn invite(world: &mut World, with: Secret, lasts: Duration) {
    let message = FromClient::Invite {
        request: 1,
        invitation: with.hash(),
        lasts,
    };
    world.say(1, 90, message);
    let told = world.take_told(90);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { request: 1, .. }]),
        "{told:?}"
    );
}

/// Claim rp-103.
#[test]
fn a_node_joins_once_with_an_invitation_and_within_its_time() {
    let mut world = world();
    world.shared.borrow_mut().linked = vec![0, 1, 2];
    assert_eq!(join(&mut world, 1, 3, secret(1)), Some(Refusal::NotInvited));
    invite(&mut world, secret(1), Duration::from_millis(60_000));
    invite(&mut world, secret(2), Duration::from_millis(1));
    assert_eq!(join(&mut world, 1, 3, secret(9)), Some(Refusal::NotInvited));
    world.pass(Duration::from_millis(2_000));
    // Agreed time passes with what is decided.
    world.decide(vec![meta(Body::Checkpoint)]);
    assert_eq!(join(&mut world, 1, 3, secret(2)), Some(Refusal::NotInvited));
    assert_eq!(join(&mut world, 1, 2, secret(1)), Some(Refusal::NoSuchView));
    assert_eq!(
        join(&mut world, 1, 3, secret(1)),
        None,
        "it waits for its view"
    );
    let first = world.shared.borrow().last().plus(WINDOW);
    // The answer was lost, or it asks another node.
    assert_eq!(join(&mut world, 1, 3, secret(1)), None);
    fill(&mut world, WINDOW);
    for node in &world.nodes {
        let view = node.replica.view();
        assert_eq!((view.number.0, view.first_slot), (2, first));
        assert_eq!(view.member(NodeId(3)), Some(&member(3)));
        assert!(view.replicas.contains(NodeId(3)) && !view.acceptors.contains(NodeId(3)));
    }
    let told = world.take_told(113);
    let answer = ToClient::Checkpointed {
        request: 113,
        slot: first,
    };
    assert!(
        told.iter().all(|told| *told == answer) && !told.is_empty(),
        "{told:?}"
    );
    assert!(
        !world.nodes[1].replica.is_invited(secret(1).hash()),
        "it is used up"
    );
    assert_eq!(join(&mut world, 2, 4, secret(1)), Some(Refusal::NotInvited));
}

/// Claim rp-103.
#[test]
fn of_two_that_come_with_one_invitation_the_first_one_joins() {
    let mut world = world();
    invite(&mut world, secret(1), Duration::from_millis(60_000));
    let joins = |after, node| {
        meta(Body::ChangeView {
            first: None,
            change: change(after, &[0, 1, 2]),
            who: Box::new(MemberChange::Joins {
                member: member(node),
                invitation: secret(1).hash(),
                role: MemberRole::Replica,
            }),
        })
    };
    // Both were sent before either was decided.
    world.decide(vec![joins(1, 3), joins(1, 4)]);
    fill(&mut world, WINDOW);
    world.decide(vec![joins(2, 4)]);
    fill(&mut world, WINDOW);
    let view = world.nodes[2].replica.view();
    assert_eq!(view.number.0, 2, "the second one changes nothing");
    assert!(view.member(NodeId(3)).is_some() && view.member(NodeId(4)).is_none());
}

/// Claim rp-103.
#[test]
fn a_member_that_left_is_told_nothing_and_one_that_joined_is_linked_in_the_new_view() {
    let mut world = world();
    invite(&mut world, secret(1), Duration::from_millis(60_000));
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Leaves(NodeId(2))),
    })]);
    fill(&mut world, WINDOW);
    let view = world.nodes[0].replica.view().clone();
    assert_eq!(view.nodes(), [NodeId(0), NodeId(1)].into_iter().collect());
    assert_eq!(
        world.nodes[2].replica.view().number.0,
        2,
        "it knows that it has left"
    );
    // The snapshot that ends the view before.
    world.checkpoint(0);
    world.pass(Duration::from_millis(2_000));
    let before = world.shared.borrow().linked_up.len();
    world.link_up(0, 3);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(2, &[0, 1]),
        who: Box::new(MemberChange::Joins {
            member: member(3),
            invitation: secret(1).hash(),
            role: MemberRole::Replica,
        }),
    })]);
    fill(&mut world, WINDOW);
    let shared = world.shared.borrow();
    let told = &shared.linked_up[before..];
    let of_new: Vec<_> = told.iter().filter(|(_, view, _)| view.0 == 3).collect();
    assert_eq!(of_new, [&(0, ViewNumber(3), NodeId(3))], "{told:?}");
}

/// Claim rp-104.
#[test]
fn reports_skip_no_call_that_a_replica_may_have_answered_that_left() {
    let mut world = world();
    let session = world.open(0, 5);
    for node in &mut world.nodes {
        node.objects.answers_left = Some(0);
    }
    let slot = world.decide(vec![call(session, 1, 0, "a")]);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Leaves(NodeId(2))),
    })]);
    fill(&mut world, WINDOW);
    for reporter in [0, 1].map(NodeId) {
        world.decide(vec![meta(Body::Died {
            reporter,
            slot,
            index: 0,
            may_have_answered: false,
        })]);
    }
    for node in &mut world.nodes {
        node.objects.answers_left = None;
    }
    world.run();
    world.call(0, 5, id(session, 1), "a");
    let outcome = world.outcome(5);
    assert!(matches!(outcome, Some(Outcome::Returned(_))), "{outcome:?}");
}

#[test]
fn snapshots_hold_the_open_invitations() {
    let mut world = world();
    invite(&mut world, secret(1), Duration::from_millis(60_000));
    world.shared.borrow_mut().deaf.insert(2);
    invite(&mut world, secret(2), Duration::from_millis(60_000));
    let slot = world.checkpoint(0);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(Duration::from_millis(2_000));
    let late = &world.nodes[2].replica;
    assert!(late.status().applied >= slot && slot > Slot(1));
    assert!(late.is_invited(secret(1).hash()) && late.is_invited(secret(2).hash()));
}

#[test]
fn invitations_that_are_being_ordered_are_bounded() {
    let mut world = world();
    world.shared.borrow_mut().holds_submissions = true;
    for number in 0..=INVITATIONS_MAX as u8 {
        let message = FromClient::Invite {
            request: number.into(),
            invitation: secret(number).hash(),
            lasts: Duration::from_millis(60_000),
        };
        world.say(0, 90, message);
    }
    let ask = Ask::Request(INVITATIONS_MAX as u64);
    assert_eq!(world.take_told(90), [refused(ask, Refusal::Overloaded)]);
}

#[test]
fn nobody_joins_a_group_without_snapshots() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.snapshots = Snapshots::Disabled;
    });
    invite(&mut world, secret(1), Duration::from_millis(60_000));
    assert_eq!(
        join(&mut world, 1, 3, secret(1)),
        Some(Refusal::NoSnapshots)
    );
}
