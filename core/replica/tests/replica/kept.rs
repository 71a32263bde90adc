//! How many bytes of replies are kept, and what a client is told of those that are not.

use crate::world::{World, call, id, refused};
use quorate_replica::KeptLimits;
use quorate_types::{Ask, Refusal, SessionId, ToClient};

/// Bytes of a reply of these objects.
const REPLY: usize = 16;

/// Three replies fit a session, four the group.
const FEW: KeptLimits = KeptLimits {
    counted_min: 1,
    session_bytes: 3 * REPLY,
    group_bytes: 4 * REPLY,
};

fn world(nodes: u16) -> World {
    World::with(nodes, |config| config.kept = FEW)
}

fn write(world: &mut World, session: SessionId, sequences: std::ops::RangeInclusive<u64>) {
    for sequence in sequences {
        world.decide(vec![call(session, sequence, 0, "a")]);
    }
}

/// Claim rp-46.
#[test]
fn beyond_its_share_a_session_keeps_the_newest_replies_and_executes_nothing_twice() {
    let mut world = world(1);
    let session = world.open(0, 5);
    write(&mut world, session, 1..=5);
    assert_eq!(world.nodes[0].replica.status().kept_bytes, 3 * REPLY);
    let state = world.nodes[0].objects.state;
    world.take_told(5);
    for sequence in 1..=2 {
        world.call(0, 5, id(session, sequence), "a");
        let ask = Ask::Call(id(session, sequence));
        assert_eq!(world.take_told(5), [refused(ask, Refusal::ReplyGone)]);
    }
    for sequence in 3..=5 {
        world.call(0, 5, id(session, sequence), "a");
        assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
    }
    assert_eq!(world.nodes[0].objects.state, state);
}

/// Claim rp-46.
#[test]
fn replicas_that_execute_later_than_they_learn_keep_the_same_replies() {
    let mut world = world(2);
    let session = world.open(0, 5);
    let other = world.open(0, 6);
    world.nodes[1].objects.answers_left = Some(0);
    write(&mut world, session, 1..=3);
    world.decide(vec![call(session, 4, 2, "a")]);
    write(&mut world, other, 1..=2);
    world.decide(vec![call(session, 4, 3, "a")]);
    write(&mut world, other, 3..=3);
    world.nodes[1].objects.answers_left = None;
    world.run();
    let slot = world.checkpoint(0);
    world.run();
    for node in &world.nodes {
        let status = node.replica.status();
        assert_eq!(status.stable, slot, "both hold the same replies");
        assert_eq!(status.diverged, None);
        assert!(status.kept_bytes <= FEW.group_bytes);
    }
}

#[test]
fn a_client_that_holds_too_much_must_acknowledge_and_its_lowest_call_is_taken() {
    let mut world = world(1);
    let session = world.open(0, 5);
    write(&mut world, session, 2..=4);
    world.take_told(5);
    world.call(0, 5, id(session, 5), "a");
    let ask = Ask::Call(id(session, 5));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::Overloaded)]);
    world.call(0, 5, id(session, 1), "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
    world.call_acknowledging(0, 5, id(session, 5), 4, "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
    assert_eq!(world.nodes[0].replica.status().kept_bytes, REPLY);
}

/// Answers of parked calls are never acknowledged: those of a long session fill its share.
#[test]
fn a_session_full_of_answers_to_parked_calls_still_keeps_its_newest_reply() {
    const ANSWER: usize = 512 + b"woken".len();
    let full = KeptLimits {
        counted_min: 1,
        session_bytes: 2 * ANSWER,
        group_bytes: 8 * ANSWER,
    };
    let mut world = World::with(1, |config| config.kept = full);
    let session = world.open(0, 5);
    let other = world.open(0, 6);
    for sequence in 1..=2 {
        world.decide(vec![call(session, sequence, sequence - 1, "park")]);
        world.decide(vec![call(other, sequence, sequence - 1, "wake")]);
    }
    world.decide(vec![call(session, 3, 2, "a")]);
    world.call_acknowledging(0, 5, id(session, 3), 2, "a");
    let told = world.take_told(5);
    assert!(
        matches!(told.last(), Some(ToClient::Replied { .. })),
        "{told:?}"
    );
}
