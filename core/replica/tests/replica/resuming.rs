//! A client goes on with the session of one before: from that slot on nothing of the one before counts.

use crate::world::{Objects, World, call, config, id, opening, payload, refused, secret};
use quorate_types::{
    Ask, Body, Command, FromClient, ObjectId, Refusal, SecretHash, SessionId, SessionTerms,
    Tenancy, ToClient,
};

/// The client that opened the session, and those that resume it.
const BEFORE: u64 = 5;
const NEXT: u64 = 6;
const OTHER: u64 = 7;

fn second() -> Tenancy {
    Tenancy::FIRST.next().unwrap()
}

fn tenant(number: u64) -> SecretHash {
    secret(9_000 + number).hash()
}

/// Client `from` asks node `at` for the session.
fn resume(world: &mut World, at: usize, from: u64, session: SessionId) {
    let request = FromClient::Resume {
        secret: world.secrets[&session],
        tenant: tenant(from),
        terms: SessionTerms::default(),
    };
    world.say(at, from, request);
}

fn resumed(world: &World, session: SessionId, tenancy: Tenancy) -> ToClient {
    ToClient::Resumed {
        hash: world.secrets[&session].hash(),
        session,
        terms: world.terms,
        tenancy,
    }
}

/// A session that was resumed by `NEXT` at another node.
fn resumed_world() -> (World, SessionId) {
    let mut world = World::new(3);
    let session = world.open(0, BEFORE);
    world.call(0, BEFORE, id(session, 1), "a");
    world.take_told(BEFORE);
    resume(&mut world, 1, NEXT, session);
    let told = world.take_told(NEXT);
    assert_eq!(told, [resumed(&world, session, second())]);
    (world, session)
}

fn executed(world: &World, session: SessionId, sequence: u64) -> bool {
    let nodes = world.nodes.iter();
    let found = nodes.map(|node| node.objects.executed.contains(&id(session, sequence)));
    found.reduce(|one, other| {
        assert_eq!(one, other, "all agree");
        one
    }) == Some(true)
}

fn say_call(world: &mut World, at: usize, from: u64, session: SessionId, sequence: u64) {
    let message = FromClient::Call {
        id: id(session, sequence),
        acknowledged: sequence - 1,
        object: ObjectId(0),
        payload: payload("b"),
    };
    world.say(at, from, message);
}

/// Claim rp-90.
#[test]
fn from_the_slot_of_a_resume_on_nothing_of_the_client_before_is_executed() {
    let (mut world, session) = resumed_world();
    let over = refused(Ask::Session(session), Refusal::Superseded);
    assert_eq!(
        world.take_told(BEFORE),
        std::slice::from_ref(&over),
        "it is told at once"
    );
    say_call(&mut world, 0, BEFORE, session, 2);
    let refusal = refused(Ask::Call(id(session, 2)), Refusal::Superseded);
    assert_eq!(world.take_told(BEFORE), [refusal]);
    for message in [
        FromClient::KeepAlive { session },
        FromClient::Close { session },
    ] {
        world.say(0, BEFORE, message);
        assert_eq!(world.take_told(BEFORE), std::slice::from_ref(&over));
    }
    world.attach(2, 8, session);
    assert_eq!(world.take_told(8), [over], "at any node");
    // What another node had submitted before it knew.
    let close = Command {
        id: id(session, 0),
        acknowledged: 0,
        body: Body::Close,
    };
    world.decide(vec![call(session, 3, 0, "late"), close]);
    assert!(!executed(&world, session, 2) && !executed(&world, session, 3));
    let first = second().floor() + 1;
    say_call(&mut world, 1, NEXT, session, first);
    assert!(world.outcome(NEXT).is_some());
    assert!(executed(&world, session, first));
}

#[test]
fn copies_of_a_resume_are_one_and_the_log_orders_two_clients() {
    let (mut world, session) = resumed_world();
    resume(&mut world, 2, NEXT, session);
    assert_eq!(world.take_told(NEXT), [resumed(&world, session, second())]);
    let third = second().next().unwrap();
    resume(&mut world, 0, OTHER, session);
    assert_eq!(world.take_told(OTHER), [resumed(&world, session, third)]);
    let over = refused(Ask::Session(session), Refusal::Superseded);
    assert_eq!(
        world.take_told(NEXT),
        [over.clone(), over],
        "on both connections"
    );
    // A copy that was ordered late, judged by the tenancy before.
    let body = Body::Resume {
        session,
        tenant: tenant(NEXT),
        after: Tenancy::FIRST,
    };
    let copy = Command {
        id: id(SessionId::NONE, 77),
        acknowledged: 0,
        body,
    };
    world.decide(vec![copy]);
    assert_eq!(world.take_told(OTHER), []);
    let first = third.floor() + 1;
    say_call(&mut world, 0, OTHER, session, first);
    assert!(world.outcome(OTHER).is_some());
}

#[test]
fn a_resume_of_a_session_that_is_over_opens_another_one() {
    let (mut world, session) = resumed_world();
    world.say(1, NEXT, FromClient::Close { session });
    world.take_told(NEXT);
    resume(&mut world, 0, OTHER, session);
    let told = world.take_told(OTHER);
    let [ToClient::Opened { session: other, .. }] = told[..] else {
        panic!("{told:?}");
    };
    assert_ne!(other, session);
    // The client that closed it asks again, and is not let in.
    world.say(2, 8, opening(world.secrets[&session]));
    let hash = world.secrets[&session].hash();
    assert_eq!(
        world.take_told(8),
        [refused(Ask::Open(hash), Refusal::Superseded)]
    );
}

#[test]
fn who_does_not_know_the_secret_resumes_nothing() {
    let mut world = World::new(2);
    let session = world.open(0, BEFORE);
    world.take_told(BEFORE);
    let request = FromClient::Resume {
        secret: secret(77),
        tenant: tenant(NEXT),
        terms: SessionTerms::default(),
    };
    world.say(1, NEXT, request);
    let told = world.take_told(NEXT);
    assert!(matches!(told[..], [ToClient::Opened { session: other, .. }] if other != session));
    assert_eq!(world.take_told(BEFORE), []);
}

/// The log has an open that this node has not applied when it is asked.
#[test]
fn a_node_that_is_behind_resumes_what_the_log_has() {
    let mut world = World::new(2);
    world.nodes[1].is_cut = true;
    let session = world.open(0, BEFORE);
    resume(&mut world, 1, NEXT, session);
    world.nodes[1].is_cut = false;
    world.pass(quorate_types::Duration::from_millis(100));
    let told = world.take_told(NEXT);
    assert_eq!(told, [resumed(&world, session, second())]);
}

#[test]
fn a_node_that_has_not_applied_a_resume_sends_the_client_elsewhere() {
    let (mut world, session) = resumed_world();
    let attach = |tenancy: Tenancy| FromClient::Attach {
        session,
        secret: secret(0),
        attachment: tenancy.attachment(),
    };
    let FromClient::Attach { attachment, .. } = attach(second().next().unwrap()) else {
        unreachable!();
    };
    let ahead = FromClient::Attach {
        session,
        secret: world.secrets[&session],
        attachment,
    };
    world.say(0, 8, ahead);
    let elsewhere = refused(Ask::Session(session), Refusal::NotServing);
    assert_eq!(world.take_told(8), [elsewhere]);
    let wrong = attach(second());
    world.say(0, 9, wrong);
    let expired = refused(Ask::Session(session), Refusal::SessionExpired);
    assert_eq!(world.take_told(9), [expired], "no oracle");
}

#[test]
fn calls_that_the_client_before_had_parked_are_woken_for_nobody() {
    let mut world = World::new(3);
    let session = world.open(0, BEFORE);
    world.call(0, BEFORE, id(session, 1), "park");
    world.take_told(BEFORE);
    resume(&mut world, 1, NEXT, session);
    for node in &world.nodes {
        assert!(node.objects.parked.is_empty());
    }
    let slot = world.checkpoint(0);
    let image = world.nodes[1].objects.images[&slot].clone();
    let kept = &image.core.sessions[0];
    assert_eq!(kept.tenant, tenant(NEXT));
    assert_eq!(Tenancy::of(kept.floor), second());
    world.nodes.pop();
    world.add(
        config(3, 2),
        Some(image.recovered()),
        Objects::restored(&image),
    );
    resume(&mut world, 2, NEXT, session);
    let told = world.take_told(NEXT);
    assert_eq!(
        told.last(),
        Some(&resumed(&world, session, second())),
        "a copy"
    );
}

#[test]
fn a_resume_is_a_sign_of_life_and_late_calls_of_the_client_before_are_none() {
    let (mut world, session) = resumed_world();
    let at = world.shared.borrow().last();
    world.decide(vec![call(session, 9, 0, "late")]);
    let judged_by = at;
    let expire = Command {
        id: id(SessionId::NONE, 78),
        acknowledged: 0,
        body: Body::Expire { session, judged_by },
    };
    world.decide(vec![expire]);
    assert_eq!(world.nodes[0].replica.status().sessions, 0);
}
