//! A replica that differs and finds no agreed snapshot has no say, so that the others learn when no majority is possible.

use crate::reset::{assert_all_go_on_from, reset};
use crate::world::{World, call, id};
use quorate_ordering::LinkState;
use quorate_replica::{Input, PeerMessage, ReplicaMessage};
use quorate_types::{Digest, Duration, FromClient, LinkEpoch, NodeId, SessionId, Slot, ToClient};

/// The outcomes of `n2` differ from the others', and it knows that. Says how far it has executed.
fn with_one_that_differs(world: &mut World) -> (SessionId, Slot) {
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.nodes[2].objects.state ^= 666;
    world.call(0, 5, id(session, 2), "b");
    (session, world.shared.borrow().last())
}

/// Besides, the states of the two others differ from each other, which no outcome shows. No slot has an agreed snapshot.
fn with_no_majority(world: &mut World) -> (SessionId, Slot) {
    let (session, last) = with_one_that_differs(world);
    world.nodes[1].objects.state ^= 777;
    world.pass(Duration::from_millis(200));
    assert_eq!(world.nodes[2].replica.status().diverged, Some(last));
    (session, last)
}

fn seconds(world: &mut World, seconds: u64) {
    for _ in 0..5 * seconds {
        world.pass(Duration::from_millis(200));
    }
}

fn frozen(world: &World) -> Vec<Option<Slot>> {
    let status = world.nodes.iter().map(|node| node.replica.status());
    status.map(|status| status.frozen).collect()
}

/// A message of `from` arrives at node `at`.
fn hear(world: &mut World, at: usize, from: u16, message: ReplicaMessage) {
    let input = Input::Peer {
        from: NodeId(from),
        link: LinkEpoch(1),
        message: PeerMessage::Replica(message),
    };
    world.input(at, input);
}

/// A report of a snapshot of `from` with the state `state` arrives at node `at`.
fn report(world: &mut World, at: usize, from: u16, slot: Slot, state: u8) {
    let digest = Digest {
        replicated: 1,
        state: [state; 32],
    };
    let bytes = 9;
    let durable = ReplicaMessage::Durable {
        slot,
        digest,
        bytes,
    };
    hear(world, at, from, durable);
}

/// One node of five, alone.
fn one_of_five() -> World {
    let mut world = World::new(5);
    for at in 1..5 {
        world.nodes[at].is_cut = true;
    }
    world
}

fn no_say(after: u64, upto: u64) -> ReplicaMessage {
    let (after, upto) = (Slot(after), Slot(upto));
    ReplicaMessage::NoSay { after, upto }
}

/// Claim rp-56.
#[test]
fn two_that_differ_freeze_while_the_third_differs_from_both() {
    let mut world = World::new(3);
    let (_, last) = with_no_majority(&mut world);
    seconds(&mut world, 4);
    let slot = world.nodes[0].replica.status().snapshot;
    assert!(slot > last);
    assert_eq!(frozen(&world), [Some(slot), Some(slot), None]);
    assert!(world.nodes[2].replica.status().diverged.is_some());
}

/// Claim rp-56.
#[test]
fn having_no_say_is_said_again_while_it_lasts() {
    let mut world = World::new(3);
    world.loses_no_say = true;
    with_no_majority(&mut world);
    seconds(&mut world, 10);
    assert_eq!(frozen(&world), [None; 3]);
    let said = world.no_say.len();
    assert!((10..=40).contains(&said), "{said} messages in ten seconds");
    world.loses_no_say = false;
    seconds(&mut world, 3);
    let frozen = frozen(&world);
    assert!(frozen[0].is_some() && frozen[1].is_some(), "{frozen:?}");
}

/// Claim rp-56.
#[test]
fn who_may_find_an_agreed_snapshot_keeps_its_say() {
    let mut world = World::new(3);
    let (_, last) = with_one_that_differs(&mut world);
    world.loses_fetches = true;
    world.pass(Duration::from_millis(200));
    assert_eq!(world.nodes[2].replica.status().diverged, Some(last));
    // The two others agree on this one, and differ at the next.
    seconds(&mut world, 1);
    let agreed = world.nodes[0].replica.status().stable;
    assert!(agreed > last);
    world.nodes[1].objects.state ^= 777;
    let odd = world.checkpoint(0);
    seconds(&mut world, 3);
    assert_eq!((frozen(&world), world.no_say.len()), (vec![None; 3], 0));
    world.loses_fetches = false;
    seconds(&mut world, 8);
    let status = world.nodes[2].replica.status();
    assert!(status.healed >= Some(agreed), "{status:?}");
    seconds(&mut world, 8);
    let status = world.nodes[1].replica.status();
    assert!(status.healed >= Some(odd), "{status:?}");
    assert_eq!(frozen(&world), [None; 3], "it has judged between them");
}

/// Claim rp-56.
#[test]
fn who_has_no_say_at_a_slot_takes_over_no_state_before_it() {
    let mut world = World::new(3);
    with_no_majority(&mut world);
    seconds(&mut world, 2);
    let (.., upto) = *world.no_say.last().expect("it was said");
    assert_eq!(world.nodes[2].replica.awaited_snapshot(), Some(upto));
}

/// Claim rp-56.
#[test]
fn a_majority_is_one_of_all_replicas_also_of_those_that_have_no_say() {
    let mut world = one_of_five();
    report(&mut world, 0, 1, Slot(9), 1);
    report(&mut world, 0, 2, Slot(9), 1);
    report(&mut world, 0, 4, Slot(9), 2);
    hear(&mut world, 0, 3, no_say(5, 9));
    assert_eq!(frozen(&world)[0], None, "its own report makes a majority");
    let mut world = one_of_five();
    report(&mut world, 0, 1, Slot(9), 1);
    report(&mut world, 0, 4, Slot(9), 2);
    hear(&mut world, 0, 2, no_say(5, 9));
    assert_eq!(frozen(&world)[0], None);
    hear(&mut world, 0, 3, no_say(6, 9));
    assert_eq!(frozen(&world)[0], Some(Slot(9)), "two of five are none");
}

/// Claim rp-56.
#[test]
fn a_word_counts_only_for_its_slots_and_its_start() {
    for word in [no_say(9, 12), no_say(5, 8), no_say(12, 9)] {
        let mut world = World::new(3);
        report(&mut world, 0, 1, Slot(9), 1);
        hear(&mut world, 0, 2, word);
        assert_eq!(frozen(&world)[0], None);
    }
    // It comes late: its sender has healed at its last slot, and will report the next one.
    let mut world = one_of_five();
    for from in 1..4 {
        report(&mut world, 0, from, Slot(9), 1);
    }
    hear(&mut world, 0, 4, no_say(5, 9));
    report(&mut world, 0, 1, Slot(12), 1);
    report(&mut world, 0, 2, Slot(12), 2);
    report(&mut world, 0, 3, Slot(12), 3);
    assert_eq!(frozen(&world)[0], None, "n0 and n4 may agree with one");
    // Another start, or a report after it, ends it.
    let up = Input::Link {
        peer: NodeId(3),
        state: LinkState::Up(LinkEpoch(2)),
    };
    for ends in [true, false] {
        let mut world = one_of_five();
        hear(&mut world, 0, 3, no_say(5, 9));
        if ends {
            world.input(0, up.clone());
        } else {
            report(&mut world, 0, 3, Slot(7), 1);
        }
        hear(&mut world, 0, 2, no_say(5, 9));
        report(&mut world, 0, 1, Slot(9), 1);
        report(&mut world, 0, 4, Slot(9), 2);
        assert_eq!(frozen(&world)[0], None, "n3 may make a majority");
    }
}

/// Claim rp-56.
#[test]
fn nobody_freezes_at_a_slot_before_one_that_is_agreed() {
    let mut world = one_of_five();
    let agreed = ReplicaMessage::Agreed {
        slot: Slot(10),
        digest: Digest::default(),
    };
    hear(&mut world, 0, 1, agreed);
    hear(&mut world, 0, 3, no_say(5, 12));
    hear(&mut world, 0, 2, no_say(5, 12));
    report(&mut world, 0, 1, Slot(9), 1);
    report(&mut world, 0, 4, Slot(9), 2);
    assert_eq!(frozen(&world)[0], None);
}

/// Claim rp-56.
#[test]
fn an_operator_gets_all_three_going_where_one_has_no_say() {
    for from in 0..2 {
        let mut world = World::new(3);
        let (session, _) = with_no_majority(&mut world);
        seconds(&mut world, 4);
        assert!(frozen(&world)[from].is_some() && !world.no_say.is_empty());
        let state = world.nodes[from].objects.state;
        reset(&mut world, 0, from);
        seconds(&mut world, 6);
        assert_all_go_on_from(&mut world, session, state);
    }
}

/// Claim rp-56.
#[test]
fn an_operator_gets_two_that_differ_and_one_that_is_stuck_going() {
    for from in [0, 2] {
        let mut world = World::new(3);
        let (session, _) = with_one_that_differs(&mut world);
        world.nodes[0].objects.is_immune = true;
        world.nodes[2].objects.is_immune = true;
        world.call(0, 5, id(session, 3), "poison");
        seconds(&mut world, 4);
        assert!(frozen(&world)[from].is_some());
        assert!(!world.nodes[1].replica.status().is_host_up);
        let state = world.nodes[from].objects.state;
        reset(&mut world, 0, from);
        seconds(&mut world, 6);
        assert_all_go_on_from(&mut world, session, state);
    }
}

/// Claim rp-55.
#[test]
fn an_operator_gets_all_going_where_one_is_stuck_and_another_differs() {
    let mut world = World::new(3);
    let (session, last) = with_one_that_differs(&mut world);
    // The call is decided before the checkpoint that could show who is right.
    world.shared.borrow_mut().holds_submissions = true;
    world.pass(Duration::from_millis(200));
    assert_eq!(world.nodes[2].replica.status().diverged, Some(last));
    world.nodes[0].objects.is_immune = true;
    let slot = world.decide(vec![call(session, 3, 0, "poison")]);
    let mut shared = world.shared.borrow_mut();
    shared.holds_submissions = false;
    let held = std::mem::take(&mut shared.submitted);
    drop(shared);
    world.decide(held.into_iter().map(|(_, command)| command).collect());
    seconds(&mut world, 4);
    // One waits for a snapshot of the only one that is past the call, and no majority agrees on one.
    let stable = world.nodes.iter().map(|node| node.replica.status().stable);
    assert_eq!(stable.max(), Some(Slot::ZERO));
    let skip = FromClient::Skip {
        request: 4,
        slot,
        index: 0,
        is_unsafe: true,
    };
    world.say(1, 77, skip);
    assert!(matches!(
        world.take_told(77)[..],
        [ToClient::Checkpointed { .. }]
    ));
    seconds(&mut world, 8);
    assert!(frozen(&world)[0].is_some());
    let state = world.nodes[0].objects.state;
    reset(&mut world, 0, 0);
    seconds(&mut world, 6);
    assert_all_go_on_from(&mut world, session, state);
}
