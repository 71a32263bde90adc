//! What a node does while its disk is full.

use crate::world::{World, id, open, refused, secret};
use quorate_ordering::Effect;
use quorate_replica::{CheckpointPolicy, DiskRoom, Input, PeerMessage, ReplicaMessage, Snapshots};
use quorate_types::{
    Ask, FromClient, LinkEpoch, NodeId, ReadLevel, Refusal, SessionId, Slot, ToClient,
};

fn room(world: &mut World, node: usize, room: DiskRoom) {
    world.input(node, Input::Storage { room });
}

/// Claim rp-19.
#[test]
fn a_full_disk_refuses_new_calls_and_sessions_and_goes_on_when_there_is_room() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let first = world.outcome(5);
    room(&mut world, 0, DiskRoom::Full);
    let length = world.shared.borrow().last();
    world.call(0, 5, id(session, 2), "a");
    let ask = Ask::Call(id(session, 2));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
    world.say(0, 6, open(77));
    let ask = Ask::Open(secret(77).hash());
    assert_eq!(world.take_told(6), [refused(ask, Refusal::StorageFull)]);
    world.read(0, 5, 1, ReadLevel::Ordered);
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
    assert_eq!(world.shared.borrow().last(), length, "nothing was ordered");
    world.call(0, 5, id(session, 1), "a");
    assert_eq!(world.outcome(5), first, "a kept reply needs no room");
    room(&mut world, 0, DiskRoom::Plenty);
    world.call(0, 5, id(session, 2), "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
}

#[test]
fn reads_go_on_while_the_disk_is_full() {
    let mut world = World::new(1);
    world.open(0, 5);
    world.take_told(5);
    room(&mut world, 0, DiskRoom::Full);
    let (slot, at) = (Slot::ZERO, world.now);
    world.effect(0, Effect::Current { slot, at });
    for level in [ReadLevel::Confirmed, ReadLevel::Lease, ReadLevel::Any] {
        world.read(0, 5, 1, level);
        assert!(world.outcome(5).is_some(), "{level:?}");
    }
}

/// A group of three, linked, of which the second node leads with a full disk once others are as `before`.
fn led_without_room(before: impl Fn(&mut World)) -> World {
    let mut world = World::new(3);
    world.shared.borrow_mut().linked = vec![0, 2];
    before(&mut world);
    room(&mut world, 1, DiskRoom::Full);
    world.run();
    assert!(offers(&world).is_empty(), "it does not lead");
    world.lead(1);
    world
}

/// To whom the second node offered leadership, each time that it did.
fn offers(world: &World) -> Vec<Vec<u16>> {
    let shared = world.shared.borrow();
    let own = shared.transferred.iter().filter(|(node, _)| *node == 1);
    own.map(|(_, to)| to.iter().map(|node| node.0).collect())
        .collect()
}

/// Claim rp-158.
#[test]
fn a_leader_with_a_full_disk_offers_leadership_once_for_each_time_it_is_full() {
    let mut world = led_without_room(|_| {});
    assert_eq!(offers(&world), [[0, 2]]);
    room(&mut world, 1, DiskRoom::Full);
    world.lead(1);
    assert_eq!(offers(&world), [[0, 2]], "offered already");
    room(&mut world, 1, DiskRoom::Plenty);
    room(&mut world, 1, DiskRoom::Full);
    assert_eq!(offers(&world), [[0, 2], [0, 2]]);
}

/// Claim rp-158.
#[test]
fn a_leader_with_a_full_disk_offers_leadership_only_to_peers_that_can_take_it_and_have_room() {
    let full = |world: &mut World, node| {
        room(world, node, DiskRoom::Full);
        world.run();
    };
    let world = led_without_room(|world| full(world, 0));
    assert_eq!(offers(&world), [[2]]);
    let world = led_without_room(|world| world.shared.borrow_mut().linked = vec![2]);
    assert_eq!(offers(&world), [[2]], "the first node is not linked");

    let mut world = led_without_room(|world| (0..=2).step_by(2).for_each(|node| full(world, node)));
    assert!(offers(&world).is_empty(), "nobody has room");
    room(&mut world, 2, DiskRoom::Plenty);
    world.run();
    assert_eq!(offers(&world), [[2]], "one has room again");
    full(&mut world, 2);
    room(&mut world, 2, DiskRoom::Scarce);
    world.run();
    assert_eq!(offers(&world), [[2], [2]]);
}

/// Claim rp-158.
#[test]
fn a_node_that_stops_leaves_leadership_to_peers_that_have_room_if_there_are_any() {
    let stopped = |full: &[usize]| {
        let mut world = World::new(3);
        world.shared.borrow_mut().linked = vec![0, 2];
        full.iter()
            .for_each(|node| room(&mut world, *node, DiskRoom::Full));
        world.run();
        world.lead(1);
        world.input(1, Input::Drain);
        offers(&world)
    };
    assert_eq!(stopped(&[]), [[0, 2]]);
    assert_eq!(stopped(&[2]), [[0]]);
    assert_eq!(
        stopped(&[0, 2]),
        [[0, 1, 2]],
        "a full disk is better than none"
    );
}

#[test]
fn a_full_disk_refuses_a_snapshot_that_could_not_be_ordered() {
    let mut world = World::new(1);
    world.open(0, 5);
    world.take_told(5);
    room(&mut world, 0, DiskRoom::Full);
    world.say(0, 5, FromClient::Checkpoint { request: 9 });
    let ask = Ask::Request(9);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
}

#[test]
fn a_short_disk_of_any_node_brings_a_snapshot_before_it_is_due() {
    for (short, room) in [
        (0, DiskRoom::Scarce),
        (1, DiskRoom::Scarce),
        (1, DiskRoom::Full),
    ] {
        let policy = CheckpointPolicy {
            commands: 1_000_000,
            bytes: 64 * 1024,
            image_percent: 0,
            slot_bytes: 1024,
            ..CheckpointPolicy::default()
        };
        let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
        let session = world.open(0, 5);
        for sequence in 1..=20 {
            world.call(0, 5, id(session, sequence), "a");
        }
        let taken = |world: &World| world.nodes[0].replica.status().snapshot;
        assert_eq!(taken(&world), Slot::ZERO, "none is due");
        world.input(short, Input::Storage { room });
        world.call(0, 5, id(session, 21), "a");
        let first = taken(&world);
        assert!(first > Slot::ZERO, "node {short} asks for one");
        world.call(0, 5, id(session, 22), "a");
        let told = world.take_told(5);
        assert!(
            matches!(told.last(), Some(ToClient::Replied { .. })),
            "{short} {room:?}: {told:?}"
        );
        assert_eq!(taken(&world), first, "a slot more is no reason for another");
    }
}

/// Snapshots that are due after 64 slots.
fn every_64_slots() -> CheckpointPolicy {
    CheckpointPolicy {
        commands: 1_000_000,
        bytes: 64 * 1024,
        bytes_large: 64 * 1024,
        image_percent: 0,
        slot_bytes: 1024,
        ..CheckpointPolicy::default()
    }
}

/// Three nodes, of which the first found its disk short and had a snapshot taken: its slot, and the session.
fn with_a_snapshot_for_a_short_disk() -> (World, SessionId, Slot) {
    let policy = every_64_slots();
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    let session = world.open(0, 5);
    for sequence in 1..=20 {
        world.call(0, 5, id(session, sequence), "a");
    }
    let room = DiskRoom::Scarce;
    world.input(0, Input::Storage { room });
    world.call(0, 5, id(session, 21), "a");
    let first = world.nodes[0].replica.status().snapshot;
    assert!(first > Slot::ZERO);
    (world, session, first)
}

#[test]
fn a_short_disk_that_fills_fast_brings_the_next_snapshot_without_a_pause() {
    let (mut world, session, first) = with_a_snapshot_for_a_short_disk();
    for sequence in 22..=50 {
        world.call(0, 5, id(session, sequence), "a");
        assert_eq!(
            world.nodes[0].replica.status().snapshot,
            first,
            "{sequence}"
        );
    }
    for sequence in 51..=54 {
        world.call(0, 5, id(session, sequence), "a");
    }
    assert!(world.nodes[0].replica.status().snapshot > first);
}

#[test]
fn nodes_that_ask_for_snapshots_at_the_same_time_ask_again_later() {
    let policy = every_64_slots();
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    let session = world.open(0, 5);
    for sequence in 1..=20 {
        world.call(0, 5, id(session, sequence), "a");
    }
    let room = DiskRoom::Scarce;
    (0..3).for_each(|node| world.input(node, Input::Storage { room }));
    world.run();
    let first = world.nodes[0].replica.status().snapshot;
    assert!(first > Slot::ZERO);
    for sequence in 21..=60 {
        world.call(0, 5, id(session, sequence), "a");
    }
    assert!(world.nodes[0].replica.status().snapshot > first);
}

#[test]
fn a_checkpoint_at_which_most_replicas_were_busy_holds_no_later_one_up() {
    let policy = every_64_slots();
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    let session = world.open(0, 5);
    for node in [1, 2] {
        world.nodes[node].objects.answers_left = Some(0);
    }
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    world.say(0, 5, FromClient::Checkpoint { request: 2 });
    for node in [1, 2] {
        world.nodes[node].objects.answers_left = None;
    }
    world.run();
    let (alone, stable) = {
        let status = world.nodes[0].replica.status();
        (status.snapshot, status.stable)
    };
    assert!(stable < alone, "only the first node took the second one");
    for sequence in 1..=130 {
        world.call(0, 5, id(session, sequence), "a");
    }
    assert!(world.nodes[0].replica.status().stable > alone);
}

#[test]
fn a_disk_that_becomes_full_brings_a_snapshot_at_once_while_there_is_a_reserve() {
    let (mut world, session, first) = with_a_snapshot_for_a_short_disk();
    for sequence in 22..=27 {
        world.call(0, 5, id(session, sequence), "a");
    }
    assert_eq!(world.nodes[0].replica.status().snapshot, first);
    let room = DiskRoom::Full;
    world.input(0, Input::Storage { room });
    world.run();
    assert!(world.nodes[0].replica.status().snapshot > first);
}

/// Claim rp-19.
#[test]
fn a_group_whose_quorum_has_no_room_refuses_calls_also_where_there_is_room() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    let room = DiskRoom::Full;
    world.input(1, Input::Storage { room });
    world.call(0, 5, id(session, 1), "a");
    assert!(world.outcome(5).is_some(), "two of three are a quorum");
    world.take_told(5);
    world.input(2, Input::Storage { room });
    world.run();
    let length = world.shared.borrow().last();
    world.call(0, 5, id(session, 2), "a");
    let ask = Ask::Call(id(session, 2));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::StorageFull)]);
    assert_eq!(world.shared.borrow().last(), length, "nothing was ordered");
    world.read(0, 5, 1, ReadLevel::Confirmed);
    assert!(world.outcome(5).is_some(), "reads go on");
    world.take_told(5);
    let room = DiskRoom::Plenty;
    world.input(2, Input::Storage { room });
    world.run();
    world.call(0, 5, id(session, 2), "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
}

/// A message of a peer, as its link brings it.
fn heard<M>(from: u16, message: PeerMessage<M>) -> Input<M> {
    Input::Peer {
        from: NodeId(from),
        link: LinkEpoch(1),
        message,
    }
}

/// Claim rp-19.
#[test]
fn a_peer_whose_word_that_it_has_room_again_was_lost_is_not_full_for_ever() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    let full = |world: &mut World, from: u16| {
        let room = DiskRoom::Full;
        let message = PeerMessage::Replica(ReplicaMessage::Room { room });
        world.input(0, heard(from, message));
    };
    let clock = |world: &mut World, from: u16| {
        let wall = world.right_wall();
        let message = PeerMessage::Replica(ReplicaMessage::Clock { wall, votes: true });
        world.input(0, heard(from, message));
    };
    full(&mut world, 1);
    full(&mut world, 2);
    for _ in 0..4 {
        clock(&mut world, 1);
        full(&mut world, 1);
        clock(&mut world, 2);
        full(&mut world, 2);
    }
    let ask = Ask::Call(id(session, 1));
    let refusal = [refused(ask, Refusal::StorageFull)];
    for _ in 0..4 {
        world.call(0, 5, id(session, 1), "a");
        assert!(world.take_told(5).ends_with(&refusal), "they say so still");
        full(&mut world, 1);
        clock(&mut world, 1);
        full(&mut world, 2);
        clock(&mut world, 2);
    }
    clock(&mut world, 2);
    world.call(0, 5, id(session, 1), "a");
    assert!(matches!(world.take_told(5)[..], [ToClient::Replied { .. }]));
}
