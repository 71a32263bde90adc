//! Calls that wait until another call answers them.

use crate::world::{World, call, id, refused, woken};
use quorate_replica::Input;
use quorate_types::{Ask, ClosedBy, Refusal, SessionId, ToClient};

/// Three replicas, and a client at the first whose call 1 is parked.
fn parked() -> (World, SessionId) {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.take_told(5);
    world.call(0, 5, id(session, 1), "park");
    let id = id(session, 1);
    assert_eq!(world.take_told(5), [ToClient::Parked { id }]);
    (world, session)
}

fn replied(session: SessionId, sequence: u64) -> ToClient {
    let id = id(session, sequence);
    let outcome = woken();
    ToClient::Replied { id, outcome }
}

/// Another client calls.
fn wake(world: &mut World, at: usize, sequence: u64, acknowledged: u64) {
    let session = world.open(at, 9);
    world.call_acknowledging(at, 9, id(session, sequence), acknowledged, "wake");
    world.take_told(9);
}

fn digests(world: &World) -> Vec<u64> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.replica.status().digest).collect()
}

/// Claim rp-57.
#[test]
fn a_parked_call_is_answered_by_a_later_one_of_another_client() {
    let (mut world, session) = parked();
    wake(&mut world, 1, 1, 0);
    assert_eq!(world.take_told(5), [replied(session, 1)]);
    let digests = digests(&world);
    assert!(digests.iter().all(|one| *one == digests[0]));
}

/// Claim rp-58.
#[test]
fn calls_after_a_parked_one_are_answered_and_acknowledged_without_it() {
    let (mut world, session) = parked();
    let last = 5_000;
    for sequence in 2..=last {
        world.call_acknowledging(0, 5, id(session, sequence), sequence - 1, "a");
        let told = world.take_told(5);
        assert!(matches!(told[..], [ToClient::Replied { .. }]), "{told:?}");
    }
    wake(&mut world, 0, 1, 0);
    assert_eq!(world.take_told(5), [replied(session, 1)]);
}

/// Claim rp-57.
#[test]
fn who_asks_again_elsewhere_is_told_that_the_call_waits_and_then_its_answer() {
    let (mut world, session) = parked();
    let id = id(session, 1);
    world.attach(2, 6, session);
    world.call(2, 6, id, "park");
    assert_eq!(world.take_told(6), [ToClient::Parked { id }]);
    world.call(2, 6, id, "park");
    assert_eq!(world.take_told(6), [ToClient::Parked { id }]);
    assert_eq!(
        world.nodes[2].objects.parked.len(),
        1,
        "it is executed once"
    );
    wake(&mut world, 1, 1, 0);
    assert_eq!(world.take_told(6), [replied(session, 1)]);
    assert_eq!(world.take_told(5), [replied(session, 1)]);
}

#[test]
fn the_answer_is_kept_for_a_client_that_was_away_although_it_acknowledged_what_is_around_it() {
    let (mut world, session) = parked();
    world.call_acknowledging(0, 5, id(session, 2), 1, "a");
    let connection = quorate_types::ConnectionId(5);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    wake(&mut world, 0, 1, 0);
    world.attach(1, 6, session);
    world.call_acknowledging(1, 6, id(session, 3), 2, "a");
    world.take_told(6);
    world.call(1, 6, id(session, 1), "park");
    assert_eq!(world.take_told(6), [replied(session, 1)]);
}

/// Claim rp-57.
#[test]
fn a_snapshot_holds_parked_and_answered_calls() {
    let (mut world, session) = parked();
    world.call_acknowledging(0, 5, id(session, 2), 1, "park");
    wake(&mut world, 0, 1, 0);
    let slot = world.checkpoint(0);
    for node in &world.nodes {
        let core = &node.objects.images[&slot].core;
        let session = core.sessions.iter().find(|one| one.id == session);
        let states = session.map(|one| one.replies.iter().map(|reply| reply.state.outcome()));
        let states: Vec<_> = states.into_iter().flatten().collect();
        assert_eq!(states, [Some(&woken()), None]);
    }
    let digests = digests(&world);
    assert!(digests.iter().all(|one| *one == digests[0]));
}

#[test]
fn a_node_whose_objects_do_not_answer_sends_away_who_waits_for_parked_calls() {
    let (mut world, session) = parked();
    world.input(0, Input::Host { is_up: false });
    let id = id(session, 1);
    let told = world.take_told(5);
    assert!(
        told.contains(&refused(Ask::Call(id), Refusal::NotServing)),
        "{told:?}"
    );
}

/// Claim rp-58.
#[test]
fn the_end_of_a_session_takes_its_parked_calls_along() {
    let (mut world, session) = parked();
    world.say(0, 5, quorate_types::FromClient::Close { session });
    for node in &world.nodes {
        assert!(node.objects.parked.is_empty());
    }
    wake(&mut world, 1, 1, 0);
    let told = world.take_told(5);
    assert!(!told.contains(&replied(session, 1)), "{told:?}");
}

/// The client sends its calls again on a new connection, the parked one behind the others.
#[test]
fn a_parked_call_is_asked_for_again_beside_calls_far_above_it() {
    let (mut world, session) = parked();
    let last = 5_000;
    for sequence in 2..=last {
        world.call_acknowledging(0, 5, id(session, sequence), sequence - 1, "a");
    }
    let connection = quorate_types::ConnectionId(5);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    world.shared.borrow_mut().holds_submissions = true;
    world.call_acknowledging(0, 6, id(session, last + 1), last, "a");
    world.take_told(6);
    world.call_acknowledging(0, 6, id(session, 1), last, "park");
    let id = id(session, 1);
    assert_eq!(world.take_told(6), [ToClient::Parked { id }]);
}

/// Three replicas; the third submits call 1 a second time, which is held, and executes the first copy: the call is parked.
fn parked_with_a_copy_on_its_way() -> (World, SessionId) {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(2);
    world.call(0, 5, id(session, 1), "park");
    world.shared.borrow_mut().holds_submissions = true;
    world.call(2, 6, id(session, 1), "park");
    world.shared.borrow_mut().deaf.clear();
    world.run();
    let id = id(session, 1);
    assert_eq!(world.take_told(6), [ToClient::Parked { id }]);
    (world, session)
}

#[test]
fn the_refusal_of_a_second_copy_leaves_who_waits_for_a_parked_call_waiting() {
    let (mut world, session) = parked_with_a_copy_on_its_way();
    let id = id(session, 1);
    let refusal = Refusal::NotOrdered;
    let refused = quorate_ordering::Effect::Refuse {
        command: id,
        refusal,
    };
    world.effect(2, refused);
    assert_eq!(world.take_told(6), []);
    world.shared.borrow_mut().holds_submissions = false;
    wake(&mut world, 1, 1, 0);
    assert_eq!(world.take_told(6), [replied(session, 1)]);
}

#[test]
fn who_sent_another_payload_under_the_id_of_a_parked_call_is_not_told_that_it_waits() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    world.call(2, 6, id(session, 1), "other");
    world.decide(vec![call(session, 1, 0, "park")]);
    assert_eq!(world.take_told(6), []);
    // The waits for parked calls are sent away: the copy that was submitted here is still counted.
    world.input(2, Input::Host { is_up: false });
    let copies = std::mem::take(&mut world.shared.borrow_mut().submitted);
    world.decide(copies.into_iter().map(|(_, command)| command).collect());
    let ask = Ask::Call(id(session, 1));
    assert_eq!(world.take_told(6), [refused(ask, Refusal::SequenceReused)]);
    assert_eq!(world.nodes[2].replica.status().in_flight, 0);
}

#[test]
fn nobody_waits_for_a_parked_call_on_a_connection_that_ended() {
    let (mut world, session) = parked();
    let id = id(session, 1);
    for from in 6..12 {
        world.call(0, from, id, "park");
        assert_eq!(world.take_told(from), [ToClient::Parked { id }]);
        let connection = quorate_types::ConnectionId(from);
        world.input(
            0,
            Input::Disconnected {
                connection,
                by: ClosedBy::Client,
            },
        );
    }
    let connection = quorate_types::ConnectionId(5);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    assert_eq!(world.nodes[0].replica.status().waiting, 0);
}

#[test]
fn who_waits_where_a_snapshot_covers_the_call_is_told_that_it_is_parked_and_then_its_answer() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(2);
    world.call(0, 5, id(session, 1), "park");
    world.shared.borrow_mut().holds_submissions = true;
    world.call(2, 6, id(session, 1), "park");
    world.shared.borrow_mut().holds_submissions = false;
    let slot = world.checkpoint(0);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.input(2, Input::Wake);
    world.run();
    let id = id(session, 1);
    assert_eq!(world.take_told(6), [ToClient::Parked { id }]);
    wake(&mut world, 1, 1, 0);
    assert_eq!(world.take_told(6), [replied(session, 1)]);
}
