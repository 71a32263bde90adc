//! Tentative replies: what a call returned ahead of its decision, told to whoever wants it, and confirmed or replaced.

use crate::speculating::{ahead, decides, submitted, votes};
use crate::world::{World, batch, call, id, value};
use quorate_replica::Input;
use quorate_types::{
    Batch, ClosedBy, CommandId, ConnectionId, FromClient, Outcome, SessionId, ToClient, Value,
};

/// A call of the client on connection 5, wanted early, which n0 has voted for and executed.
fn told(world: &mut World, session: SessionId, text: &str) -> (Batch, Value) {
    let asked = submitted(world, session, 1, text);
    world.say(0, 5, FromClient::Early { id: asked.id });
    let batch = batch(vec![asked]);
    votes(world, 0, &batch);
    let value = tentative(&world.take_told(5), id(session, 1));
    (batch, value)
}

/// The only thing that a client was told.
fn tentative(told: &[ToClient], of: CommandId) -> Value {
    match told {
        [ToClient::Tentative { id, value }] if *id == of => value.clone(),
        told => panic!("a tentative reply to {of}, not {told:?}"),
    }
}

/// Claim rp-132.
#[test]
fn a_client_that_wants_it_is_told_what_its_call_returned_and_then_that_this_is_decided() {
    let (mut world, session, _) = ahead(4);
    let (batch, value) = told(&mut world, session, "a");
    let id = id(session, 1);
    decides(&mut world, &batch);
    assert_eq!(world.take_told(5), [ToClient::Confirmed { id }]);
    world.call(0, 5, id, "a");
    let kept = world.outcome(5);
    assert_eq!(kept, Some(Outcome::Returned(value)), "it was the answer");
}

/// Claim rp-133.
#[test]
fn a_tentative_reply_that_is_undone_is_replaced_and_never_confirmed() {
    let (mut world, session, other) = ahead(4);
    let (own, early) = told(&mut world, session, "a");
    world.decide(vec![call(other, 1, 0, "x")]);
    assert_eq!(world.take_told(5), []);
    // It is executed ahead once more.
    votes(&mut world, 0, &own);
    assert_eq!(world.take_told(5), [], "there is one tentative reply");
    decides(&mut world, &own);
    let (id, outcome) = (id(session, 1), value(world.nodes[1].objects.state));
    assert_ne!(outcome, Outcome::Returned(early));
    assert_eq!(world.take_told(5), [ToClient::Replied { id, outcome }]);
}

/// Claim rp-133.
#[test]
fn a_tentative_reply_is_no_reply_of_the_session() {
    let (mut world, session, other) = ahead(4);
    let (own, early) = told(&mut world, session, "a");
    world.attach(1, 8, session);
    world.call(1, 8, id(session, 1), "a");
    world.attach(0, 9, session);
    world.call(0, 9, id(session, 1), "a");
    assert_eq!((world.take_told(8), world.take_told(9)), (vec![], vec![]));
    world.decide(vec![call(other, 1, 0, "x")]);
    decides(&mut world, &own);
    let right = value(world.nodes[1].objects.state);
    assert_ne!(right, Outcome::Returned(early));
    for connection in [5, 8, 9] {
        assert_eq!(world.outcome(connection), Some(right.clone()));
    }
}

#[test]
fn who_did_not_want_it_early_gets_the_reply_when_it_is_decided() {
    let (mut world, session, _) = ahead(4);
    world.attach(0, 6, session);
    let asked = submitted(&mut world, session, 1, "a");
    world.call(0, 6, asked.id, "a");
    // Only who waits for a call may want it.
    world.say(0, 9, FromClient::Early { id: asked.id });
    world.say(0, 5, FromClient::Early { id: asked.id });
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    let early = tentative(&world.take_told(5), id(session, 1));
    assert_eq!((world.take_told(6), world.take_told(9)), (vec![], vec![]));
    decides(&mut world, &batch);
    let id = id(session, 1);
    assert_eq!(world.take_told(5), [ToClient::Confirmed { id }]);
    assert_eq!(world.outcome(6), Some(Outcome::Returned(early)));
}

#[test]
fn what_is_executed_already_is_told_as_soon_as_it_is_wanted() {
    let (mut world, session, _) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    assert_eq!(world.take_told(5), []);
    let id = id(session, 1);
    world.say(0, 5, FromClient::Early { id });
    tentative(&world.take_told(5), id);
    world.say(0, 5, FromClient::Early { id });
    assert_eq!(world.take_told(5), [], "it is told once");
    decides(&mut world, &batch);
    assert_eq!(world.take_told(5), [ToClient::Confirmed { id }]);
}

#[test]
fn a_connection_that_is_lost_takes_its_tentative_reply_along() {
    let (mut world, session, _) = ahead(4);
    let (batch, early) = told(&mut world, session, "a");
    let (connection, by) = (ConnectionId(5), ClosedBy::Node);
    world.input(0, Input::Disconnected { connection, by });
    world.attach(0, 6, session);
    world.call(0, 6, id(session, 1), "a");
    decides(&mut world, &batch);
    assert_eq!(world.take_told(5), []);
    assert_eq!(world.outcome(6), Some(Outcome::Returned(early)), "in full");
}

#[test]
fn a_call_that_parks_is_not_told_early() {
    let (mut world, session, other) = ahead(4);
    let asked = submitted(&mut world, session, 1, "park");
    let id = id(session, 1);
    world.say(0, 5, FromClient::Early { id });
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    assert_eq!(world.take_told(5), []);
    decides(&mut world, &batch);
    assert_eq!(world.take_told(5), [ToClient::Parked { id }]);
    world.say(0, 5, FromClient::Early { id });
    world.decide(vec![call(other, 1, 0, "wake")]);
    let told = world.take_told(5);
    assert!(matches!(told[..], [ToClient::Replied { .. }]), "{told:?}");
}

#[test]
fn where_nothing_goes_ahead_the_first_word_is_the_reply() {
    let (mut world, session, _) = ahead(0);
    let asked = submitted(&mut world, session, 1, "a");
    world.say(0, 5, FromClient::Early { id: asked.id });
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    decides(&mut world, &batch);
    let told = world.take_told(5);
    assert!(matches!(told[..], [ToClient::Replied { .. }]), "{told:?}");
}

/// Claim rp-132.
#[test]
fn two_connections_that_want_it_in_turn_are_told_once_each() {
    let (mut world, session, _) = ahead(4);
    let (batch, early) = told(&mut world, session, "a");
    let id = id(session, 1);
    world.attach(0, 6, session);
    world.call(0, 6, id, "a");
    world.say(0, 6, FromClient::Early { id });
    assert_eq!(tentative(&world.take_told(6), id), early, "the newer one");
    for connection in [5, 6, 5, 6] {
        world.say(0, connection, FromClient::Early { id });
        assert_eq!(world.take_told(connection), []);
    }
    decides(&mut world, &batch);
    assert_eq!(world.take_told(6), [ToClient::Confirmed { id }]);
    assert_eq!(world.outcome(5), Some(Outcome::Returned(early)), "in full");
}

/// Of calls that are executed in one slot each is told what it returned itself.
#[test]
fn calls_of_one_slot_are_told_their_own_values() {
    for is_late in [false, true] {
        let (mut world, session, _) = ahead(4);
        let asked = |world: &mut World, sequence| submitted(world, session, sequence, "a");
        let asked = vec![asked(&mut world, 1), asked(&mut world, 2)];
        let ids = [id(session, 1), id(session, 2)];
        let batch = batch(asked);
        if is_late {
            votes(&mut world, 0, &batch);
        }
        for id in ids {
            world.say(0, 5, FromClient::Early { id });
        }
        if !is_late {
            votes(&mut world, 0, &batch);
        }
        let told = world.take_told(5);
        let values = [tentative(&told[..1], ids[0]), tentative(&told[1..], ids[1])];
        decides(&mut world, &batch);
        let confirmed = ids.map(|id| ToClient::Confirmed { id });
        assert_eq!(world.take_told(5), confirmed);
        for (id, value) in ids.into_iter().zip(values) {
            world.call(1, 8, id, "a");
            assert_eq!(world.outcome(8), Some(Outcome::Returned(value)));
        }
    }
}

/// Claim rp-133.
#[test]
fn what_stands_is_confirmed_though_a_later_slot_is_undone() {
    let (mut world, session, _) = ahead(4);
    let (first, _) = told(&mut world, session, "a");
    let asked = submitted(&mut world, session, 2, "b");
    let ids = [id(session, 1), id(session, 2)];
    world.say(0, 5, FromClient::Early { id: ids[1] });
    let second = batch(vec![asked]);
    votes(&mut world, 1, &second);
    tentative(&world.take_told(5), ids[1]);
    votes(&mut world, 1, &batch(vec![]));
    decides(&mut world, &first);
    assert_eq!(world.take_told(5), [ToClient::Confirmed { id: ids[0] }]);
    decides(&mut world, &batch(vec![]));
    decides(&mut world, &second);
    let told = world.take_told(5);
    assert!(
        matches!(told[..], [ToClient::Replied { id, .. }] if id == ids[1]),
        "it was undone: {told:?}"
    );
}

#[test]
fn a_call_with_another_payload_under_the_same_id_is_not_told() {
    let (mut world, session, _) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    world.say(0, 5, FromClient::Early { id: asked.id });
    let other = batch(vec![call(session, 1, 0, "b")]);
    votes(&mut world, 0, &other);
    world.say(0, 5, FromClient::Early { id: asked.id });
    assert_eq!(world.take_told(5), []);
    decides(&mut world, &other);
    let told = world.take_told(5);
    let is_answer = |told: &ToClient| !matches!(told, ToClient::Refused { .. });
    assert!(!told.iter().any(is_answer), "{told:?}");
}

#[test]
fn who_was_told_is_not_told_again_when_the_newer_one_leaves() {
    let (mut world, session, _) = ahead(4);
    let (batch, early) = told(&mut world, session, "a");
    let id = id(session, 1);
    world.attach(0, 6, session);
    world.call(0, 6, id, "a");
    world.say(0, 6, FromClient::Early { id });
    let (connection, by) = (ConnectionId(6), ClosedBy::Node);
    world.input(0, Input::Disconnected { connection, by });
    world.say(0, 5, FromClient::Early { id });
    assert_eq!(world.take_told(5), []);
    decides(&mut world, &batch);
    assert_eq!(world.outcome(5), Some(Outcome::Returned(early)));
}
