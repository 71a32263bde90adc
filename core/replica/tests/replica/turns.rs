//! Large snapshots are encoded by one replica after another.

use crate::world::{IMAGE_BYTES, Message, World};
use quorate_ordering::LinkState;
use quorate_replica::{CheckpointPolicy, Input, Output, Snapshots, limits};
use quorate_types::{FromClient, NodeId, Slot};

/// Three linked replicas with a snapshot, of which `n0` leads. What their objects say from now on is held back.
fn world(bytes_dear: u64) -> World {
    let policy = CheckpointPolicy {
        commands: u64::MAX,
        bytes_dear,
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    for at in 0..3 {
        for peer in (0..3).filter(|peer| *peer != at) {
            world.link_up(at, peer);
        }
    }
    world.checkpoint(0);
    for node in &mut world.nodes {
        node.objects.answers_left = Some(0);
    }
    world.seen.clear();
    world
}

/// Who captured the state at `slot`, and who began to encode it, in the order in which they did.
fn begun(world: &World, slot: Slot) -> (Vec<usize>, Vec<usize>) {
    let all = |is_it: fn(&Output<Message>, Slot) -> bool| -> Vec<usize> {
        let found = world.seen.iter().filter(|(_, seen)| is_it(seen, slot));
        found.map(|(at, _)| *at).collect()
    };
    let mut captured =
        all(|seen, slot| matches!(seen, Output::TakeSnapshot { slot: at } if *at == slot));
    captured.sort_unstable();
    let encoded =
        all(|seen, slot| matches!(seen, Output::FinishSnapshot { core, .. } if core.slot == slot));
    (captured, encoded)
}

/// The objects of `at` say what was held back.
fn ends(world: &mut World, at: usize) {
    world.nodes[at].objects.answers_left = None;
    world.run();
}

fn taken(world: &World) -> Vec<Slot> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.replica.status().snapshot).collect()
}

/// Claim rp-128.
#[test]
fn of_a_large_state_one_replica_encodes_at_a_time_and_the_leader_last() {
    let mut world = world(IMAGE_BYTES);
    let slot = world.checkpoint(1);
    assert_eq!(begun(&world, slot), (vec![0, 1, 2], vec![1]), "all capture");
    ends(&mut world, 1);
    assert_eq!(begun(&world, slot).1, [1, 2]);
    assert_eq!(world.nodes[0].replica.status().stable, Slot(slot.0 - 1));
    ends(&mut world, 2);
    assert_eq!(begun(&world, slot).1, [1, 2, 0]);
    ends(&mut world, 0);
    for node in &world.nodes {
        assert_eq!(
            node.replica.status().stable,
            slot,
            "their digests are equal"
        );
    }
}

#[test]
fn a_small_state_is_encoded_by_all_at_once() {
    let mut world = world(IMAGE_BYTES + 1);
    let slot = world.checkpoint(0);
    assert_eq!(begun(&world, slot).1, [0, 1, 2]);
}

#[test]
fn who_is_slow_is_waited_for_as_long_as_its_turn_and_who_is_gone_not_at_all() {
    let mut world = world(IMAGE_BYTES);
    let slot = world.checkpoint(0);
    assert_eq!(begun(&world, slot).1, [1]);
    world.pass(limits::TURN_MIN);
    assert_eq!(begun(&world, slot).1, [1, 2]);
    let (peer, state) = (NodeId(1), LinkState::Down);
    world.input(0, Input::Link { peer, state });
    world.run();
    assert_eq!(begun(&world, slot).1, [1, 2], "another one encodes");
    let (peer, state) = (NodeId(2), LinkState::Down);
    world.input(0, Input::Link { peer, state });
    world.run();
    assert_eq!(begun(&world, slot).1, [1, 2, 0]);
}

#[test]
fn a_checkpoint_while_one_of_them_encodes_is_made_up_for_once_all_have() {
    for done in [0, 1, 2] {
        let mut world = world(IMAGE_BYTES);
        let first = world.checkpoint(0);
        for at in [1, 2, 0] {
            if at == [1, 2, 0][done] {
                world.say(1, 7, FromClient::Checkpoint { request: 1 });
                world.run();
                let missed = world.shared.borrow().last();
                assert!(missed > first);
                assert_eq!(begun(&world, missed), (vec![], vec![]), "nobody is alone");
            }
            ends(&mut world, at);
        }
        let next = world.shared.borrow().last();
        assert_eq!(next.0, first.0 + 2, "the leader asked for one more");
        assert_eq!(
            begun(&world, next).0,
            [0],
            "in this world decisions overtake reports"
        );
        assert_eq!(taken(&world), [first; 3]);
    }
}
