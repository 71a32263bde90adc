//! What keeps a session alive: keepalives, and calls that are answered.

use crate::{SESSION, World};
use quorate_types::{CommandId, Duration, Refusal, ToClient};

/// Claim rp-22. While the hosts of an object hang, its calls are refused, and nothing of them reaches the log.
#[test]
fn calls_that_no_node_executes_put_no_keepalive_off() {
    let mut world = World::open();
    let began = world.now;
    let mut kept = 0;
    for sequence in 1..=2 {
        world.call("hangs");
        for _ in 0..100 {
            world.refuse(sequence, Refusal::Overloaded);
            world.now = world.now + Duration::from_millis(100);
            world.wake();
            kept += world.keepalives();
            world.receive(ToClient::KeptAlive { session: SESSION });
        }
    }
    assert!(world.now.since(began) >= Duration::from_millis(20_000));
    assert_eq!(kept, 2, "one in each third of the 30 s of expiry");
}

#[test]
fn an_answered_call_keeps_its_session_from_when_it_was_first_sent() {
    let mut world = World::open();
    world.call("slow");
    world.now = world.now + Duration::from_millis(1_000);
    world.reply(1);
    world.now = world.now + Duration::from_millis(8_999);
    world.wake();
    assert_eq!(world.keepalives(), 0);
    world.now = world.now + Duration::from_millis(1);
    world.wake();
    assert_eq!(world.keepalives(), 1);
}

#[test]
fn a_parked_call_was_executed_and_keeps_its_session_as_an_answered_one_does() {
    let mut world = World::open();
    world.now = world.now + Duration::from_millis(5_000);
    world.call("waits");
    let id = CommandId {
        session: SESSION,
        sequence: 1,
    };
    world.receive(ToClient::Parked { id });
    world.now = world.now + Duration::from_millis(9_999);
    world.wake();
    assert_eq!(world.keepalives(), 0);
    world.now = world.now + Duration::from_millis(1);
    world.wake();
    assert_eq!(world.keepalives(), 1);
}

#[test]
fn a_keepalive_that_falls_due_without_a_connection_waits_for_one() {
    let mut world = World::open();
    world.now = world.now + Duration::from_millis(9_900);
    world.disconnect();
    world.now = world.now + Duration::from_millis(200);
    world.wake();
    assert_eq!(world.keepalives(), 0);
    assert!(
        world.session.next_wake() > world.now,
        "it cannot be sent yet"
    );
    world.connect(2);
    assert_eq!(world.keepalives(), 1);
}
