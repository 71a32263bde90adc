//! What a node does while its disk is full.

use crate::world::{World, id, refused};
use quorate_replica::Input;
use quorate_types::{Ask, FromClient, ReadLevel, Refusal, ToClient};

/// Claim rp-19.
#[test]
fn a_full_disk_refuses_new_calls_and_sessions_and_goes_on_when_there_is_room() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let first = world.outcome(5);
    world.input(0, Input::Storage { has_room: false });
    let length = world.shared.borrow().last();
    world.call(0, 5, id(session, 2), "a");
    let ask = Ask::Call(id(session, 2));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
    world.say(0, 6, FromClient::Open { nonce: 77 });
    let ask = Ask::Open(77);
    assert_eq!(world.take_told(6), [refused(ask, Refusal::StorageFull)]);
    world.read(0, 5, 1, ReadLevel::Ordered);
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
    assert_eq!(world.shared.borrow().last(), length, "nothing was ordered");
    world.call(0, 5, id(session, 1), "a");
    assert_eq!(world.outcome(5), first, "a kept reply needs no room");
    world.input(0, Input::Storage { has_room: true });
    world.call(0, 5, id(session, 2), "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
}

#[test]
fn reads_go_on_while_the_disk_is_full() {
    let mut world = World::new(1);
    world.open(0, 5);
    world.take_told(5);
    world.input(0, Input::Storage { has_room: false });
    for level in [ReadLevel::Confirmed, ReadLevel::Lease, ReadLevel::Any] {
        world.read(0, 5, 1, level);
        assert!(world.outcome(5).is_some(), "{level:?}");
    }
}

#[test]
fn a_leader_with_a_full_disk_offers_leadership_once_for_each_time_it_is_full() {
    let mut world = World::new(2);
    world.input(1, Input::Storage { has_room: false });
    assert_eq!(world.shared.borrow().transferred, [], "it does not lead");
    world.lead(1);
    assert_eq!(world.shared.borrow().transferred, [1]);
    world.input(1, Input::Storage { has_room: false });
    world.lead(1);
    assert_eq!(world.shared.borrow().transferred, [1], "offered already");
    world.input(1, Input::Storage { has_room: true });
    world.input(1, Input::Storage { has_room: false });
    assert_eq!(world.shared.borrow().transferred, [1, 1]);
}
