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
