//! Large snapshots are encoded by one replica after another.

use crate::world::{IMAGE_BYTES, Message, World, call, id, meta};
use quorate_ordering::LinkState;
use quorate_replica::{
    CheckpointPolicy, DiskRoom, Input, Output, PeerMessage, ReplicaMessage, Snapshots, limits,
};
use quorate_types::{
    Body, Digest, Duration, FromClient, LinkEpoch, NodeId, Outcome, SessionId, Slot,
};

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

/// Of the three only the host of `n1` ends at a poison call. A session is open.
fn survived_by_two() -> (World, SessionId) {
    let mut world = world(IMAGE_BYTES);
    for at in [0, 2] {
        world.nodes[at].objects.is_immune = true;
    }
    for node in &mut world.nodes {
        node.objects.answers_left = None;
    }
    let session = world.open(0, 5);
    (world, session)
}

/// `n1` would be the first of the round, and gets its state from the two that wait for it. Claim rp-144.
#[test]
fn who_stands_at_a_call_that_others_survived_is_not_waited_for() {
    let (mut world, session) = survived_by_two();
    world.call(0, 5, id(session, 1), "poison");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    world.pass(Duration::from_millis(1));
    for node in &world.nodes {
        let status = node.replica.status();
        assert!(status.is_serving, "{status:?}");
        assert_eq!(node.objects.state, world.nodes[0].objects.state);
    }
    let [.., last] = &taken(&world)[..] else {
        panic!("there are replicas");
    };
    assert_eq!(begun(&world, *last).1, [2, 0]);
}

/// The checkpoint is decided together with the call. Claim rp-144.
#[test]
fn who_stands_at_a_call_in_the_slot_of_the_checkpoint_is_not_waited_for() {
    let (mut world, session) = survived_by_two();
    let poison = call(session, 1, 0, "poison");
    let slot = world.decide(vec![poison, meta(Body::Checkpoint)]);
    assert_eq!(begun(&world, slot).1, [2, 0]);
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
        assert_eq!(taken(&world), [first; 3]);
        world.pass(limits::CHECKPOINT_AGAIN);
        let next = world.shared.borrow().last();
        assert_eq!(next.0, first.0 + 2, "the leader asked for one more");
        assert_eq!(begun(&world, next).0, [0, 1, 2], "all are free");
    }
}

/// The leader alone takes the snapshot that it returns: its report of the one before reaches the others later than the checkpoint.
fn leader_is_alone(world: &mut World) -> Slot {
    world.checkpoint(0);
    ends(world, 1);
    ends(world, 2);
    world.nodes[0].is_cut = true;
    ends(world, 0);
    let (first, digest) = {
        let status = world.nodes[0].replica.status();
        (status.snapshot, status.snapshot_digest.unwrap())
    };
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    world.nodes[0].is_cut = false;
    for at in [1, 2] {
        report(world, at, 0, (first, digest, IMAGE_BYTES));
    }
    assert_eq!(begun(world, slot).0, [0]);
    slot
}

fn turns(number: u64) -> Duration {
    Duration(limits::TURN_MIN.0 * number)
}

/// Claim rp-134.
#[test]
fn who_was_busy_at_the_checkpoint_of_a_round_begins_none_before_it_is_over() {
    let mut world = world(IMAGE_BYTES);
    let alone = leader_is_alone(&mut world);
    world.pass(turns(2));
    assert_eq!(world.nodes[0].replica.status().snapshot, alone);
    let missed = world.decide(vec![meta(Body::Checkpoint)]);
    assert_eq!(begun(&world, missed).0, [], "two would begin another round");
    world.pass(turns(2));
    world.pass(limits::CHECKPOINT_AGAIN);
    let next = world.shared.borrow().last();
    assert!(next > missed, "the leader asks for one more");
    assert_eq!(begun(&world, next).0, [0, 1, 2]);
    world.pass(turns(3));
    for node in &world.nodes {
        assert_eq!(node.replica.status().stable, next);
    }
}

/// At `n1`, `n2` reports a snapshot of so many bytes at `slot`.
fn other_reports(world: &mut World, slot: Slot, bytes: u64) {
    report(world, 1, 2, (slot, Digest::default(), bytes));
}

fn report(world: &mut World, at: usize, from: u16, (slot, digest, bytes): (Slot, Digest, u64)) {
    let report = ReplicaMessage::Durable {
        slot,
        digest,
        bytes,
    };
    let input = Input::Peer {
        from: NodeId(from),
        link: LinkEpoch(1),
        message: PeerMessage::Replica(report),
    };
    world.input(at, input);
}

#[test]
fn a_replica_that_takes_no_turns_is_not_waited_for() {
    let mut world = world(IMAGE_BYTES);
    let missed = leader_is_alone(&mut world);
    other_reports(&mut world, missed, IMAGE_BYTES - 1);
    let next = world.decide(vec![meta(Body::Checkpoint)]);
    assert!(begun(&world, next).0.contains(&1));
}

#[test]
fn whatever_others_take_a_replica_waits_for_two_rounds_at_most() {
    let mut world = world(IMAGE_BYTES);
    let mut slot = leader_is_alone(&mut world);
    world.nodes[0].is_cut = true;
    let mut waited = 0;
    loop {
        other_reports(&mut world, slot, IMAGE_BYTES);
        slot = world.decide(vec![meta(Body::Checkpoint)]);
        if begun(&world, slot).0.contains(&1) {
            break;
        }
        waited += 1;
        assert!(waited <= 7, "three turns and a half are a round");
        world.pass(turns(1));
    }
    assert!(waited > 4, "it waits for the newest round");
}

/// What it has begun is over, and others begin the next round without it: it waits for that one too.
#[test]
fn a_replica_waits_again_once_it_has_begun_a_snapshot() {
    let mut world = world(IMAGE_BYTES);
    let mut slot = leader_is_alone(&mut world);
    world.nodes[0].is_cut = true;
    for round in 0..2 {
        let mut waited = 0;
        loop {
            other_reports(&mut world, slot, IMAGE_BYTES);
            slot = world.decide(vec![meta(Body::Checkpoint)]);
            if begun(&world, slot).0.contains(&1) {
                break;
            }
            waited += 1;
            assert!(waited < 20, "it begins at last");
            world.pass(turns(1));
        }
        assert!(waited > 4, "round {round}: {waited}");
        for _ in 0..5 {
            world.pass(turns(1));
        }
        slot = world.decide(vec![]);
    }
}

/// Its log is trimmed once it has a snapshot at one slot with others: it waits for nobody.
#[test]
fn a_replica_that_is_short_of_room_waits_for_no_round() {
    let mut world = world(IMAGE_BYTES);
    leader_is_alone(&mut world);
    world.pass(turns(2));
    let room = DiskRoom::Scarce;
    world.input(1, Input::Storage { room });
    let next = world.decide(vec![meta(Body::Checkpoint)]);
    assert_eq!(begun(&world, next).0, [1]);
}

/// A replica that is behind takes the snapshot with the others when it comes to that slot.
#[test]
fn a_round_whose_checkpoint_is_not_applied_yet_is_not_missed() {
    let mut world = world(IMAGE_BYTES);
    let next = world.shared.borrow().last().next();
    other_reports(&mut world, next.next(), IMAGE_BYTES);
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    assert_eq!(slot, next);
    assert!(begun(&world, slot).0.contains(&1));
}

#[test]
fn a_round_ends_everywhere_by_the_time_of_its_first_report() {
    let mut world = world(IMAGE_BYTES);
    world.checkpoint(0);
    world.pass(turns(1));
    ends(&mut world, 1);
    world.pass(turns(1));
    ends(&mut world, 0);
    world.pass(turns(2));
    let missed = world.decide(vec![meta(Body::Checkpoint)]);
    assert_eq!(begun(&world, missed).0, [], "four turns and a half");
    world.pass(turns(1));
    let next = world.decide(vec![meta(Body::Checkpoint)]);
    assert!(begun(&world, next).0.contains(&1));
}

/// Two replicas that encode a small state for longer than the leader, and never at the same time. Claim rp-142.
#[test]
fn replicas_that_take_snapshots_in_turn_are_asked_no_more_once_one_is_stable() {
    let mut world = world(IMAGE_BYTES + 1);
    world.nodes[0].objects.answers_left = None;
    world.checkpoint(0);
    let asked = world.checkpoint(0);
    for at in [1, 2].repeat(8) {
        world.nodes[at].objects.answers_left = Some(1);
        world.run();
        world.pass(limits::CHECKPOINT_AGAIN);
    }
    assert!(world.nodes[0].replica.status().stable > asked);
    let last = world.shared.borrow().last();
    assert!(last <= asked.plus(2), "{last} after {asked}");
}
