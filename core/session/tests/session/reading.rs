//! What a read of any state tells a node about what its client has read.

use crate::{SECRET, World};
use quorate_session::{Operation, SessionOutput};
use quorate_types::{
    Ask, BroadcastId, Duration, FromClient, ObjectId, Outcome, ReadLevel, Refusal, Slot, ToClient,
    Value,
};

/// Claim rp-34.
#[test]
fn a_read_of_any_state_says_what_the_client_has_read_before_unless_it_may_go_back() {
    let mut world = World::open();
    let read = |world: &mut World, level| {
        let operation = Operation::Read {
            object: ObjectId(0),
            payload: Value::new(),
            level,
        };
        let deadline = world.now + Duration::from_millis(10_000);
        world
            .session
            .begin(world.now, operation, deadline, &mut world.out);
        match world.sent().as_slice() {
            [FromClient::Read { request, after, .. }] => (*request, *after),
            other => panic!("{other:?}"),
        }
    };
    for (level, answered) in [(ReadLevel::Confirmed, 7), (ReadLevel::Loose, 4)] {
        let (request, after) = read(&mut world, level);
        assert_eq!(after, Slot::ZERO);
        world.receive(ToClient::Read {
            request,
            slot: Slot(answered),
            age: Duration::ZERO,
            outcome: Outcome::Returned(Value::new()),
        });
    }
    let (request, after) = read(&mut world, ReadLevel::Any);
    assert_eq!(
        after,
        Slot(7),
        "an older answer does not lower what was seen"
    );
    world.out.clear();
    world.receive(ToClient::Refused {
        ask: Ask::Request(request),
        refusal: Refusal::Behind,
    });
    assert_eq!(world.dialled().len(), 1, "another node may have it");
}

/// Claim mp-65.
#[test]
fn a_read_is_announced_under_one_name_however_often_it_is_sent_once_enough_nodes_can_hear_of_it() {
    let mut world = World::open();
    let begin = |world: &mut World| {
        let operation = Operation::Read {
            object: ObjectId(0),
            payload: Value::new(),
            level: ReadLevel::Broadcast,
        };
        let deadline = world.now + Duration::from_millis(10_000);
        let (now, out) = (world.now, &mut world.out);
        world.session.begin(now, operation, deadline, out);
    };
    begin(&mut world);
    let confirmed = |message: &FromClient| {
        let level = ReadLevel::Confirmed;
        matches!(message, FromClient::Read { level: asked, .. } if *asked == level)
    };
    assert!(confirmed(&world.sent()[0]), "nobody would hear of it");
    world.session.set_announcing(true);
    begin(&mut world);
    let name = BroadcastId {
        client: SECRET.hash(),
        number: 2,
    };
    let sends = |world: &mut World| {
        let told = world.out.contains(&SessionOutput::Announce(name));
        let is_own = |message: &FromClient| matches!(message, FromClient::Broadcast { read, .. } if *read == name);
        world
            .out
            .retain(|output| !matches!(output, SessionOutput::Announce(_)));
        told && world.sent().iter().any(is_own)
    };
    assert!(sends(&mut world));
    world.receive(ToClient::Refused {
        ask: Ask::Request(2),
        refusal: Refusal::NotOrdered,
    });
    world.now = world.now + Duration::from_millis(20);
    world.wake();
    assert!(sends(&mut world), "the copy is the same read");
}
