//! What a read of any state tells a node about what its client has read.

use crate::World;
use quorate_session::Operation;
use quorate_types::{
    Ask, Duration, FromClient, ObjectId, Outcome, ReadLevel, Refusal, Slot, ToClient, Value,
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
