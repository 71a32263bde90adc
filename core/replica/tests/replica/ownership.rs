//! A session belongs to whoever knows its secret, and to nobody else.

use crate::world::{Objects, World, config, id, open, opening, payload, refused, secret};
use quorate_replica::{DiskRoom, Input, limits};
use quorate_types::{
    Ask, Attachment, Body, ClosedBy, ConnectionId, FromClient, ObjectId, Refusal, Secret,
    SessionId, ToClient,
};

const THIEF: u64 = 66;

fn call(session: SessionId, sequence: u64) -> FromClient {
    FromClient::Call {
        id: id(session, sequence),
        acknowledged: 0,
        object: ObjectId(0),
        payload: payload("stolen"),
    }
}

/// Tries everything; what the thief is told, without the session's name.
fn steal(world: &mut World, at: usize, session: SessionId, with: Option<Secret>) -> Vec<Refusal> {
    if let Some(secret) = with {
        world.say(
            at,
            THIEF,
            FromClient::Attach {
                session,
                secret,
                attachment: Attachment::NONE,
            },
        );
    }
    for message in [
        call(session, 1),
        FromClient::KeepAlive { session },
        FromClient::Close { session },
    ] {
        world.say(at, THIEF, message);
    }
    let told = world.take_told(THIEF).into_iter();
    told.map(|told| match told {
        ToClient::Refused { refusal, .. } => refusal,
        other => panic!("a thief was told {other:?}"),
    })
    .collect()
}

/// Claim rp-35.
#[test]
fn who_guesses_a_session_can_neither_use_it_nor_end_it_nor_learn_whether_it_exists() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.take_told(5);
    // A thief may have a session too.
    let own = secret(78);
    world.say(0, THIEF, opening(own));
    world.take_told(THIEF);
    let slots = world.shared.borrow().last();
    for with in [None, Some(secret(77)), Some(own)] {
        let told = steal(&mut world, 0, session, with);
        assert!(told.iter().all(|told| *told == Refusal::SessionExpired));
        let nobodys = SessionId(session.0 | 99);
        assert_eq!(told, steal(&mut world, 0, nobodys, with), "no oracle");
    }
    assert_eq!(world.shared.borrow().last(), slots, "nothing was ordered");
    world.call(0, 5, id(session, 1), "a");
    assert!(world.outcome(5).is_some());
}

#[test]
fn what_the_log_holds_of_a_session_opens_nothing() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    let log = world.shared.borrow().log.clone();
    let hash = log.iter().flat_map(|batch| batch.commands());
    let hash = hash.filter_map(|command| match command.body {
        Body::Open { hash, .. } => Some(hash),
        _ => None,
    });
    let hash = hash.last().expect("the open is in the log");
    let replayed = Secret::new(*hash.bytes());
    steal(&mut world, 0, session, Some(replayed));
    world.say(0, THIEF, opening(replayed));
    let told = world.take_told(THIEF);
    let other = told.iter().find_map(|told| match told {
        ToClient::Opened { session, .. } => Some(*session),
        _ => None,
    });
    assert_ne!(other, Some(session), "it opens a session of its own");
}

#[test]
fn a_proof_counts_for_one_connection_and_its_life() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.say(0, 6, call(session, 1));
    let not_yours = refused(Ask::Call(id(session, 1)), Refusal::SessionExpired);
    assert_eq!(world.take_told(6), std::slice::from_ref(&not_yours));
    world.attach(0, 6, session);
    world.say(0, 6, call(session, 1));
    assert!(world.outcome(6).is_some());
    let connection = ConnectionId(6);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    world.say(0, 6, call(session, 1));
    assert_eq!(world.take_told(6), std::slice::from_ref(&not_yours));
    world.say(1, 5, call(session, 1));
    assert_eq!(world.take_told(5).last(), Some(&not_yours), "another node");
}

#[test]
fn a_session_is_its_clients_after_a_snapshot_and_a_restart_too() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    let slot = world.checkpoint(0);
    let image = world.nodes[1].objects.images[&slot].clone();
    world.nodes.pop();
    world.add(
        config(2, 1),
        Some(image.recovered()),
        Objects::restored(&image),
    );
    let told = steal(&mut world, 1, session, Some(secret(77)));
    assert!(told.iter().all(|told| *told == Refusal::SessionExpired));
    world.call(1, 5, id(session, 1), "a");
    assert!(world.outcome(5).is_some());
    let mut other = image.core.clone();
    other.sessions[0].hash = secret(99).hash();
    assert_ne!(image.core.digest(), other.digest());
}

#[test]
fn a_connection_that_closed_its_sessions_may_use_new_ones() {
    let mut world = World::new(1);
    for _ in 0..limits::SESSIONS_PER_CONNECTION + 2 {
        let session = world.open(0, 5);
        world.say(0, 5, call(session, 1));
        assert!(world.outcome(5).is_some());
        world.say(0, 5, FromClient::Close { session });
    }
}

#[test]
fn closes_are_ordered_once_and_refused_like_calls_where_there_is_no_room() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.take_told(5);
    world.input(
        0,
        Input::Storage {
            room: DiskRoom::Full,
        },
    );
    world.say(0, 5, FromClient::Close { session });
    let full = refused(Ask::Session(session), Refusal::StorageFull);
    assert_eq!(world.take_told(5), [full]);
    world.input(
        0,
        Input::Storage {
            room: DiskRoom::Plenty,
        },
    );
    world.shared.borrow_mut().holds_submissions = true;
    for _ in 0..1000 {
        world.say(0, 5, FromClient::Close { session });
    }
    let submitted = world.shared.borrow().submitted.len();
    assert_eq!(submitted, 1, "a thousand closes take the room of one");
}

#[test]
fn a_connection_has_few_opens_under_way_and_gets_more_as_they_are_answered() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_submissions = true;
    let most = limits::OPENS_PER_CONNECTION as u64;
    for number in 0..most + 10 {
        world.say(0, 5, open(number));
    }
    assert_eq!(world.shared.borrow().submitted.len() as u64, most);
    assert_eq!(world.take_told(5).len(), 10, "the others are refused");
    world.say(0, 6, open(1000));
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    assert_eq!(submitted.len() as u64, most + 1, "others are not affected");
    world.decide(submitted.into_iter().map(|(_, command)| command).collect());
    world.take_told(5);
    world.say(0, 5, open(2000));
    assert_eq!(world.shared.borrow().submitted.len(), 1);
}

/// Claim rp-35.
#[test]
fn a_proof_that_came_too_early_to_be_judged_does_not_end_the_session() {
    let mut world = World::new(2);
    world.shared.borrow_mut().deaf.insert(1);
    let session = world.open(0, 5);
    world.attach(1, 6, session);
    let ask = Ask::Session(session);
    assert_eq!(world.take_told(6), [refused(ask, Refusal::NotServing)]);
    world.shared.borrow_mut().deaf.clear();
    world.run();
    world.say(1, 6, call(session, 1));
    let ask = Ask::Call(id(session, 1));
    assert_eq!(world.take_told(6), [refused(ask, Refusal::NotServing)]);
    world.say(1, 7, call(session, 1));
    assert_eq!(world.take_told(7), [refused(ask, Refusal::SessionExpired)]);
    world.call(1, 6, id(session, 1), "a");
    assert!(world.outcome(6).is_some());
}
