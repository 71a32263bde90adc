//! An operator's word about a call at which replicas stand still.

use crate::world::{World, call, id, refused};
use quorate_replica::{DiskRoom, Input};
use quorate_types::{
    Ask, Body, CallPlace, Duration, FromClient, NodeId, NodeSet, Outcome, Refusal, Slot, ToClient,
};

const OPERATOR: u64 = 77;

/// The newest call in the log.
fn newest_call(world: &World) -> CallPlace {
    let shared = world.shared.borrow();
    let mut slots = (1..=shared.last().0).rev();
    let is_call = |slot: &u64| {
        let commands = shared.log[*slot as usize - 1].commands();
        commands.iter().any(|c| matches!(c.body, Body::Call { .. }))
    };
    let slot = Slot(slots.find(is_call).expect("a call is decided"));
    CallPlace { slot, index: 0 }
}

/// What node `at` answers an operator.
fn skip(world: &mut World, at: usize, place: CallPlace, is_unsafe: bool) -> Vec<ToClient> {
    let CallPlace { slot, index } = place;
    let message = FromClient::Skip {
        request: 4,
        slot,
        index,
        is_unsafe,
    };
    world.say(at, OPERATOR, message);
    world.take_told(OPERATOR)
}

fn refusal(refusal: Refusal) -> [ToClient; 1] {
    [refused(Ask::Request(4), refusal)]
}

fn done(place: CallPlace) -> [ToClient; 1] {
    [ToClient::Checkpointed {
        request: 4,
        slot: place.slot,
    }]
}

fn assert_all_agree(world: &mut World) {
    let (first, digest) = (
        world.nodes[0].objects.state,
        world.nodes[0].replica.status().digest,
    );
    for (at, node) in world.nodes.iter().enumerate() {
        let status = node.replica.status();
        assert!(status.is_serving, "n{at} {status:?}");
        assert_eq!(
            (node.objects.state, status.digest),
            (first, digest),
            "n{at}"
        );
        assert_eq!(status.poison, [], "n{at}");
    }
    let slot = world.checkpoint(0);
    for node in &world.nodes {
        assert_eq!(node.replica.status().stable, slot);
    }
}

/// Claim rp-54.
#[test]
fn a_call_that_not_all_have_reported_is_skipped_only_by_an_operator_who_says_so() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let executed = newest_call(&world);
    world.take_told(5);
    world.shared.borrow_mut().deaf.insert(2);
    world.call(0, 5, id(session, 2), "poison");
    let place = newest_call(&world);

    let length = world.shared.borrow().last();
    let undecided = CallPlace {
        slot: Slot(length.0 + 5),
        index: 0,
    };
    let other = CallPlace { index: 1, ..place };
    for wrong in [executed, undecided, other] {
        for is_unsafe in [false, true] {
            let told = skip(&mut world, 0, wrong, is_unsafe);
            assert_eq!(told, refusal(Refusal::NoStuckCall), "{wrong:?}");
        }
    }
    assert_eq!(world.shared.borrow().last(), length, "nothing is ordered");

    let told = skip(&mut world, 1, place, false);
    assert_eq!(told, refusal(Refusal::NotSkipped));
    assert_eq!(world.outcome(5), None);
    let standing = world.nodes[0].replica.status().poison;
    let [standing] = &standing[..] else {
        panic!("{standing:?}");
    };
    let reports = standing.reports;
    assert_eq!(reports.place, place);
    assert_eq!(reports.down, [NodeId(0), NodeId(1)].into_iter().collect());
    assert_eq!(reports.unreported, NodeSet::only(NodeId(2)));
    assert!(reports.survived.is_empty() && reports.may_have_answered.is_empty());
    assert!(standing.call.is_some(), "it stands at the call");

    assert_eq!(skip(&mut world, 1, place, true), done(place));
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
    for is_unsafe in [false, true] {
        let length = world.shared.borrow().last();
        assert_eq!(skip(&mut world, 0, place, is_unsafe), done(place), "again");
        assert_eq!(world.shared.borrow().last(), length);
    }
    world.shared.borrow_mut().deaf.remove(&2);
    world.run();
    assert_all_agree(&mut world);
}

/// Claim rp-54.
#[test]
fn a_call_that_all_have_reported_is_skipped_already_when_an_operator_asks() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "poison");
    let place = newest_call(&world);
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
    for at in 0..3 {
        assert_eq!(skip(&mut world, at, place, false), done(place));
    }
}

/// Claim rp-54.
#[test]
fn nothing_is_skipped_where_it_cannot_be_ordered() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(1);
    world.call(0, 5, id(session, 1), "poison");
    let place = newest_call(&world);
    let room = DiskRoom::Full;
    world.input(0, Input::Storage { room });
    let told = skip(&mut world, 0, place, true);
    assert_eq!(told, refusal(Refusal::StorageFull));
    let room = DiskRoom::Plenty;
    world.input(0, Input::Storage { room });
    assert_eq!(skip(&mut world, 0, place, true), done(place));
}

/// Claim rp-54.
#[test]
fn a_call_that_a_majority_is_past_is_never_skipped_and_the_others_take_over_its_state() {
    let mut world = World::new(3);
    for at in 1..3 {
        world.nodes[at].objects.is_immune = true;
    }
    world.loses_fetches = true;
    let session = world.open(1, 5);
    world.call(1, 5, id(session, 1), "poison");
    let survived = world.outcome(5);
    assert!(matches!(survived, Some(Outcome::Returned(_))));
    let place = newest_call(&world);
    for is_unsafe in [false, true] {
        let told = skip(&mut world, 0, place, is_unsafe);
        assert_eq!(told, refusal(Refusal::NotSkipped));
    }
    assert!(!world.nodes[0].replica.status().is_host_up);
    world.loses_fetches = false;
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    assert_all_agree(&mut world);
    world.call(0, 6, id(session, 1), "poison");
    assert_eq!(world.outcome(6), survived);
}

/// Claim rp-55.
#[test]
fn a_replica_that_has_executed_what_an_operator_skips_differs_and_heals_from_the_others() {
    let mut world = World::new(3);
    world.nodes[2].objects.is_immune = true;
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "a");
    world.nodes[2].is_cut = true;
    world.call(2, 5, id(session, 2), "poison");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let place = newest_call(&world);
    let told = skip(&mut world, 0, place, false);
    assert_eq!(told, refusal(Refusal::NotSkipped));
    let standing = world.nodes[0].replica.status().poison;
    assert_eq!(standing[0].reports.survived, NodeSet::only(NodeId(2)));

    assert_eq!(skip(&mut world, 0, place, true), done(place));
    world.call(0, 6, id(session, 3), "b");
    assert!(matches!(world.outcome(6), Some(Outcome::Returned(_))));
    assert_ne!(world.nodes[2].objects.state, world.nodes[0].objects.state);
    world.nodes[2].is_cut = false;
    world.link_up(0, 2);
    world.link_up(1, 2);
    world.link_up(2, 0);
    world.link_up(2, 1);
    world.checkpoint(0);
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    assert!(world.nodes[2].replica.status().healed.is_some());
    assert_all_agree(&mut world);
    world.call(2, 6, id(session, 2), "poison");
    assert_eq!(world.outcome(6), Some(Outcome::Skipped));
}

/// Claim rp-54.
#[test]
fn a_call_that_is_not_to_be_executed_is_none_at_which_the_objects_stand() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    for node in &mut world.nodes {
        node.objects.answers_left = Some(0);
    }
    let slot = world.decide(vec![
        call(session, 1, 0, "executed before"),
        call(session, 2, 0, "b"),
    ]);
    let [done_before, open] = [0, 1].map(|index| CallPlace { slot, index });
    let length = world.shared.borrow().last();
    let told = skip(&mut world, 0, done_before, true);
    assert_eq!(told, refusal(Refusal::NoStuckCall));
    assert_eq!(world.shared.borrow().last(), length, "nothing is ordered");
    assert_eq!(skip(&mut world, 0, open, true), done(open));
}

/// Claim rp-55.
#[test]
fn what_only_a_survivor_made_agreed_replaces_no_state_without_the_skipped_call() {
    let mut world = World::new(3);
    world.nodes[2].objects.is_immune = true;
    world.loses_fetches = true;
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "poison");
    let place = newest_call(&world);
    let slot = world.checkpoint(2);
    assert_eq!(world.nodes[2].replica.status().snapshot, slot);
    // It waits for a snapshot, and for its objects.
    world.nodes[1].objects.answers_left = Some(0);
    assert_eq!(skip(&mut world, 0, place, true), done(place));
    world.loses_fetches = false;
    world.pass(Duration::from_millis(1_500));
    world.nodes[1].objects.answers_left = None;
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    assert_all_agree(&mut world);
    for at in 0..3 {
        world.call(at, 6, id(session, 1), "poison");
        assert_eq!(world.outcome(6), Some(Outcome::Skipped), "n{at}");
    }
}

/// Claim rp-54.
#[test]
fn a_call_of_the_same_slot_is_skipped_by_reports_from_before_and_after_an_operators_word() {
    let mut world = World::new(3);
    world.nodes[1].objects.survives = vec!["poison one"];
    world.shared.borrow_mut().deaf.insert(2);
    let session = world.open(0, 5);
    let slot = world.decide(vec![
        call(session, 1, 0, "poison one"),
        call(session, 2, 0, "poison two"),
    ]);
    let place = CallPlace { slot, index: 0 };
    assert_eq!(skip(&mut world, 0, place, true), done(place));
    world.shared.borrow_mut().deaf.remove(&2);
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    assert_all_agree(&mut world);
}

/// Claim rp-54.
#[test]
fn a_call_that_hangs_at_one_replica_is_never_skipped_once_a_majority_has_executed_it() {
    for is_held in [false, true] {
        let mut world = World::new(3);
        world.loses_outcomes = is_held;
        let session = world.open(0, 5);
        // Nothing ends the host of node 0, so nobody reports anything.
        world.nodes[0].objects.answers_left = Some(0);
        world.call(0, 5, id(session, 1), "a");
        let place = newest_call(&world);
        world.call(1, 6, id(session, 1), "a");
        assert!(matches!(world.outcome(6), Some(Outcome::Returned(_))));
        if is_held {
            world.checkpoint(1);
        }
        world.pass(Duration::from_millis(200));
        let length = world.shared.borrow().last();
        let told = skip(&mut world, 0, place, true);
        assert_eq!(told, refusal(Refusal::NotSkipped));
        assert_eq!(world.shared.borrow().last(), length, "nothing is ordered");
        assert_eq!(world.outcome(5), None);
    }
}

/// Claim rp-55.
#[test]
fn a_call_that_hangs_at_one_replica_is_skipped_while_no_majority_has_executed_it() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[2].is_cut = true;
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    let place = newest_call(&world);
    world.pass(Duration::from_millis(200));
    assert_eq!(skip(&mut world, 0, place, true), done(place));
}
