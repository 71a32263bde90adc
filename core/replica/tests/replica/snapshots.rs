//! When snapshots are taken, who agrees on them, and what follows when nobody does.

use crate::world::{IMAGE_BYTES, World, call, id, payload, refused};
use quorate_ordering::{Effect, LinkState};
use quorate_replica::{
    CheckpointPolicy, DiskRoom, Input, Output, PeerMessage, Quarantine, Recovered, ReplicaMessage,
    Snapshots, limits,
};
use quorate_types::{
    Ask, Body, Digest, Duration, FromClient, LinkEpoch, NodeId, ReadLevel, Refusal, SessionId,
    Slot, ToClient,
};

fn trimmable(world: &World) -> Vec<(usize, Slot)> {
    world.shared.borrow().trimmable.clone()
}

fn durable(world: &mut World, at: usize, from: u16, slot: Slot, replicated: u64) {
    let state = [0; 32];
    let message = PeerMessage::Replica(ReplicaMessage::Durable {
        slot,
        digest: Digest { replicated, state },
        bytes: 1,
    });
    let (from, link) = (NodeId(from), LinkEpoch(1));
    world.input(
        at,
        Input::Peer {
            from,
            link,
            message,
        },
    );
    world.run();
}

#[test]
fn a_client_may_ask_for_a_checkpoint_and_every_replica_takes_it() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.take_told(5);
    world.say(1, 5, FromClient::Checkpoint { request: 4 });
    let slot = world.shared.borrow().last();
    let answer = ToClient::Checkpointed { request: 4, slot };
    assert_eq!(world.take_told(5), [answer]);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!(status.snapshot, slot);
        assert_eq!(status.stable, slot);
        assert!(trimmable(&world).contains(&(at, slot)));
    }
}

/// Claim rp-149.
#[test]
fn calls_that_took_long_are_soon_in_a_snapshot_however_few_they_are() {
    let policy = CheckpointPolicy {
        execution: Duration::from_millis(2_000),
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    let session = world.open(0, 5);
    let mut sequence = 0;
    let mut works = |world: &mut World, ms: u64| {
        sequence += 1;
        world.nodes[0].objects.answers_left = Some(0);
        world.call(0, 5, id(session, sequence), "a");
        world.pass(Duration::from_millis(ms));
        world.nodes[0].objects.answers_left = None;
        world.run();
        world.pass(Duration::from_millis(10));
        world.nodes[0].replica.status().snapshot
    };
    assert_eq!(works(&mut world, 1_500), Slot::ZERO);
    world.pass(Duration::from_millis(5_000));
    assert_eq!(works(&mut world, 100), Slot::ZERO, "pauses do not count");
    let first = works(&mut world, 500);
    assert!(first > Slot::ZERO);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!(status.stable, first, "every replica takes it");
    }
    assert_eq!(works(&mut world, 100), first, "it counts from there");
}

/// Claim rp-14.
#[test]
fn the_log_is_trimmed_only_when_a_majority_holds_equal_snapshots() {
    let mut world = World::new(3);
    world.open(0, 5);
    world.nodes[1].is_cut = true;
    world.nodes[2].is_cut = true;
    world.say(0, 5, FromClient::Checkpoint { request: 4 });
    assert_eq!(trimmable(&world), [], "one replica is not a majority");
    world.nodes[1].is_cut = false;
    world.pass(Duration::from_millis(2_500));
    let slot = world.nodes[0].replica.status().snapshot;
    let trimmed: Vec<usize> = trimmable(&world).iter().map(|(at, _)| *at).collect();
    assert_eq!(trimmed, [1, 0], "reports are repeated until two agree");
    assert!(trimmable(&world).iter().all(|(_, at)| *at == slot));
    assert_eq!(world.nodes[2].replica.status().stable, Slot::ZERO);
    world.nodes[2].is_cut = false;
    world.link_up(0, 2);
    assert_eq!(world.nodes[2].replica.status().stable, slot);
}

/// Three replicas of which one is linked and hears nothing, while the others hold a snapshot: its slot.
fn one_lags(bytes_dear: u64) -> (World, SessionId, Slot) {
    one_is_cut(bytes_dear, |world| {
        for peer in 0..2 {
            world.link_up(peer, 2);
        }
    })
}

/// Three replicas after these links came up, of which one hears nothing, while the others hold a snapshot: its slot.
fn one_is_cut(bytes_dear: u64, link: impl Fn(&mut World)) -> (World, SessionId, Slot) {
    let policy = CheckpointPolicy {
        commands: u64::MAX,
        bytes_dear,
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(policy));
    link(&mut world);
    let session = world.open(0, 5);
    world.nodes[2].is_cut = true;
    let slot = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    (world, session, slot)
}

#[test]
fn the_log_of_a_dear_image_waits_for_a_replica_that_lags_until_it_has_the_snapshot() {
    let (world, _, slot) = one_lags(IMAGE_BYTES + (1 << 20));
    assert_eq!(trimmable(&world), [(1, slot), (0, slot)], "it is cheap");
    let (mut world, _, slot) = one_lags(IMAGE_BYTES / 2);
    assert_eq!(trimmable(&world), []);
    world.nodes[2].is_cut = false;
    for peer in 0..2 {
        world.link_up(2, peer);
    }
    let trimmed: Vec<(usize, Slot)> = trimmable(&world);
    assert!(trimmed.contains(&(0, slot)) && trimmed.contains(&(1, slot)));
}

#[test]
fn the_log_of_a_dear_image_waits_for_no_link_that_is_down_and_for_half_an_image_at_most() {
    let (world, _, slot) = one_is_cut(IMAGE_BYTES / 2, |_| {});
    assert_eq!(trimmable(&world), [(1, slot), (0, slot)], "it was never up");
    let (mut world, _, slot) = one_lags(IMAGE_BYTES / 2);
    let (peer, state) = (NodeId(2), LinkState::Down);
    world.input(0, Input::Link { peer, state });
    world.run();
    assert_eq!(trimmable(&world), [(0, slot)]);
    let (mut world, session, slot) = one_lags(IMAGE_BYTES / 2);
    let text = "a".repeat(IMAGE_BYTES as usize / 8);
    for sequence in 1..=3 {
        world.call(0, 5, id(session, sequence), &text);
    }
    assert_eq!(trimmable(&world), []);
    for sequence in 4..=6 {
        world.call(0, 5, id(session, sequence), &text);
    }
    assert!(trimmable(&world).contains(&(0, slot)));
}

#[test]
fn the_log_of_a_dear_image_waits_for_nobody_where_a_disk_is_short_of_room() {
    let (mut world, _, slot) = one_lags(IMAGE_BYTES / 2);
    assert_eq!(trimmable(&world), []);
    let room = DiskRoom::Scarce;
    world.input(0, Input::Storage { room });
    world.run();
    assert_eq!(trimmable(&world), [(0, slot)]);
}

#[test]
fn the_log_of_a_dear_image_waits_for_nobody_where_the_objects_are_frozen() {
    let (mut world, session, slot) = one_lags(IMAGE_BYTES / 2);
    world.loses_outcomes = true;
    world.nodes[1].objects.state ^= 777;
    world.call(0, 5, id(session, 1), "a");
    let upto = world.checkpoint(0);
    assert_eq!(trimmable(&world), []);
    world.pass(limits::TURN_MIN);
    let (after, from, link) = (slot, NodeId(2), LinkEpoch(1));
    let message = PeerMessage::Replica(ReplicaMessage::NoSay { after, upto });
    let said = Input::Peer {
        from,
        link,
        message,
    };
    world.input(0, said);
    assert_eq!(world.nodes[0].replica.status().frozen, Some(upto));
    assert_eq!(trimmable(&world), [(0, slot)]);
}

#[test]
fn the_log_of_a_dear_image_waits_no_longer_where_snapshots_follow_each_other() {
    let (mut world, session, _) = one_lags(IMAGE_BYTES / 2);
    let text = "a".repeat(IMAGE_BYTES as usize / 8);
    for sequence in 1..=8 {
        world.call(0, 5, id(session, sequence), &text);
        let slot = world.checkpoint(0);
        // The one that hears nothing is waited for as long as its turn, and then until all turns are over and half a turn more.
        for _ in 0..4 {
            world.pass(limits::TURN_MIN);
        }
        assert_eq!(world.nodes[0].replica.status().stable, slot);
    }
    let of_first = |(at, _): &&(usize, Slot)| *at == 0;
    let trimmed = trimmable(&world);
    assert!(trimmed.iter().any(|trim| of_first(&trim)), "{trimmed:?}");
}

/// Claim rp-135.
#[test]
fn a_snapshot_is_refuted_by_what_is_agreed_at_its_slot_unless_it_is_that_of_a_reset() {
    let mut world = World::new(3);
    let slot = world.checkpoint(0);
    let mut held = world.nodes[0].objects.images[&slot].recovered();
    let is_refuted = |held: &Recovered, agreed| held.core.is_refuted(held.digest, agreed);
    let (replicated, state) = (held.core.digest(), held.digest);
    let own = Digest { replicated, state };
    let answered = Digest {
        replicated: replicated ^ 1,
        state,
    };
    let stored = Digest {
        replicated,
        state: [7; 32],
    };
    for other in [answered, stored] {
        assert!(is_refuted(&held, Some((slot, other))));
        assert!(!is_refuted(&held, Some((slot.next(), other))));
    }
    assert!(!is_refuted(&held, Some((slot, own))));
    assert!(!is_refuted(&held, None));
    held.core.reset = slot;
    assert!(!is_refuted(&held, Some((slot, answered))));
}

/// Claim rp-15.
#[test]
fn a_replica_that_differs_from_the_majority_stops_serving_and_says_where() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    world.nodes[2].objects.state = 666;
    world.call(2, 5, id(session, 1), "a");
    world.take_told(5);
    world.nodes[2].objects.answers_left = Some(0);
    world.call(2, 5, id(session, 2), "b");
    world.nodes[2].objects.answers_left = None;
    world.loses_fetches = true;
    let slot = world.checkpoint(0);
    let is_quarantined = |(at, output): &(usize, Output<u32>)| {
        *at == 2
            && matches!(output, Output::Quarantined(Quarantine::Diverged { slot: found, .. }) if *found == slot)
    };
    assert!(world.seen.iter().any(is_quarantined));
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, Some(slot));
    assert!(!status.is_serving);
    world.take_told(5);
    world.read(2, 5, 1, ReadLevel::Any);
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NotServing)]);
    assert_eq!(world.nodes[0].replica.status().diverged, None);
    world.call(0, 5, id(session, 3), "c");
    assert!(world.outcome(5).is_some());
    let applied = world.nodes[2].replica.status().applied;
    assert_eq!(applied, world.shared.borrow().last(), "it still follows");
}

#[test]
fn a_diverged_replica_sends_waiting_clients_away_without_an_answer() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    world.take_told(5);
    assert_eq!(world.nodes[0].replica.status().waiting, 1);
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    world.nodes[0].objects.state = 666;
    world.call(0, 5, id(session, 1), "a");
    world.loses_fetches = true;
    let slot = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().diverged, Some(slot));
    assert_eq!(world.nodes[0].replica.status().waiting, 0);
    let later = world.checkpoint(1);
    assert!(world.nodes[1].replica.status().stable >= later);
    assert!(
        world.nodes[0].replica.status().snapshot <= slot,
        "its snapshots count for nothing"
    );
}

#[test]
fn without_any_majority_the_objects_freeze_everywhere() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    world.nodes[1].objects.state = 1;
    world.nodes[2].objects.state = 2;
    world.call(0, 5, id(session, 1), "a");
    world.take_told(5);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    assert_eq!(trimmable(&world), []);
    for at in 0..3 {
        assert_eq!(world.nodes[at].replica.status().frozen, Some(slot));
        world.call(at, 7, id(session, 2), "b");
        let ask = Ask::Call(id(session, 2));
        assert_eq!(world.take_told(7), [refused(ask, Refusal::NotServing)]);
    }
}

#[test]
fn one_replica_reporting_twice_is_counted_once() {
    let mut world = World::new(5);
    let slot = Slot(9);
    for _ in 0..3 {
        durable(&mut world, 0, 1, slot, 7);
    }
    durable(&mut world, 0, 2, slot, 7);
    durable(&mut world, 0, 3, slot, 8);
    assert_eq!(trimmable(&world), []);
    durable(&mut world, 0, 4, slot, 7);
    assert_eq!(trimmable(&world), [(0, slot)]);
}

#[test]
fn a_report_that_is_repeated_does_not_push_out_an_older_one() {
    let mut world = World::new(3);
    durable(&mut world, 0, 1, Slot(5), 7);
    for _ in 0..4 {
        durable(&mut world, 0, 1, Slot(9), 8);
    }
    durable(&mut world, 0, 2, Slot(5), 7);
    assert_eq!(trimmable(&world), [(0, Slot(5))]);
}

#[test]
fn the_leader_asks_for_a_checkpoint_when_commands_and_bytes_are_enough() {
    let policy = CheckpointPolicy {
        commands: 10,
        bytes: 2_000,
        slot_bytes: 0,
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(2, |config| config.snapshots = Snapshots::Every(policy));
    let session = world.open(0, 5);
    let mut snapshots = Vec::new();
    for sequence in 1..=30 {
        world.call(0, 5, id(session, sequence), "a");
        snapshots.push(world.nodes[1].replica.status().snapshot);
    }
    snapshots.dedup();
    assert_eq!(snapshots[0], Slot::ZERO);
    assert_eq!(
        snapshots.len(),
        2,
        "an image of 600 KiB is not written often"
    );
}

#[test]
fn a_few_large_calls_make_a_checkpoint_due_once_the_log_outgrows_the_image() {
    let calls_until_a_snapshot = |image_percent| {
        let policy = CheckpointPolicy {
            bytes: 2_000,
            bytes_large: 10_000,
            image_percent,
            slot_bytes: 1_000,
            ..CheckpointPolicy::default()
        };
        let mut world = World::with(2, |config| config.snapshots = Snapshots::Every(policy));
        let session = world.open(0, 5);
        let mut snapshots = Vec::new();
        for sequence in 1..=40 {
            world.call(0, 5, id(session, sequence), "a");
            snapshots.push(world.nodes[1].replica.status().snapshot);
        }
        snapshots.dedup();
        snapshots.len() - 1
    };
    assert!(calls_until_a_snapshot(0) >= 3, "one for each 10,000 bytes");
    assert_eq!(calls_until_a_snapshot(100), 1, "the image has 600 KiB");
}

#[test]
fn slots_of_a_few_bytes_count_as_the_blocks_that_a_log_on_disk_writes() {
    let slots_until_a_snapshot = |slot_bytes| {
        let policy = CheckpointPolicy {
            commands: 1,
            bytes: 40 * 4096,
            image_percent: 0,
            slot_bytes,
            ..CheckpointPolicy::default()
        };
        let mut world = World::with(2, |config| config.snapshots = Snapshots::Every(policy));
        let session = world.open(0, 5);
        (1..=100).find(|sequence| {
            world.call(0, 5, id(session, *sequence), "a");
            world.nodes[1].replica.status().snapshot > Slot::ZERO
        })
    };
    let slots = slots_until_a_snapshot(4096).expect("40 blocks are enough");
    assert!((35..=40).contains(&slots), "{slots}");
    assert_eq!(slots_until_a_snapshot(0), None, "100 slots of a few bytes");
}

#[test]
fn a_snapshot_that_failed_is_tried_again_at_the_next_checkpoint() {
    let mut world = World::new(1);
    world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    world.input(0, Input::SnapshotFailed { slot });
    world.nodes[0].objects.answers_left = None;
    world.run();
    assert_eq!(world.nodes[0].replica.status().snapshot, Slot::ZERO);
    world.say(0, 5, FromClient::Checkpoint { request: 2 });
    let slot = world.shared.borrow().last();
    assert_eq!(world.nodes[0].replica.status().snapshot, slot);
}

#[test]
fn without_snapshots_the_log_is_bounded_and_says_so() {
    let mut world = World::with(1, |config| {
        config.snapshots = Snapshots::Disabled;
        config.log_commands_max = 6;
    });
    let session = world.open(0, 5);
    world.take_told(5);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NoSnapshots)]);
    for sequence in 1..=10 {
        world.call(0, 5, id(session, sequence), "a");
    }
    let told = world.take_told(5);
    let ask = Ask::Call(id(session, 10));
    assert_eq!(told.last(), Some(&refused(ask, Refusal::Overloaded)));
    assert_eq!(world.nodes[0].replica.status().snapshot, Slot::ZERO);
}

#[test]
fn a_snapshot_holds_where_the_leaders_care_for_sessions_began() {
    let mut world = World::new(1);
    world.open(0, 5);
    let lead = world.shared.borrow().log.iter().position(|batch| {
        let mut bodies = batch.commands().iter().map(|command| &command.body);
        bodies.any(|body| matches!(body, Body::Lead { .. }))
    });
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    let core = &world.nodes[0].objects.images[&slot].core;
    assert_eq!(Some(core.lead_slot.0 as usize), lead.map(|place| place + 1));
    assert_eq!(core.lead_ballot.round, 1);
}

#[test]
fn the_replicas_part_waits_for_outcomes_and_holds_none_of_later_slots() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    world.decide(vec![call(session, 2, 1, "b")]);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let core = &world.nodes[0].objects.images[&slot].core;
    let [image] = core.sessions.as_slice() else {
        panic!("{core:?}");
    };
    let sequences: Vec<u64> = image.replies.iter().map(|reply| reply.sequence).collect();
    assert_eq!(sequences, [1], "acknowledged only later");
    assert!(image.replies[0].state.outcome().is_some());
    assert_eq!(payload("a"), "a");
}

/// Of two replicas one is busy at the checkpoint that a client asked for: the snapshots of the two would never meet.
fn left_out_by(busy: usize) -> (World, Slot) {
    let mut world = World::new(2);
    let (first, second) = (0, 1);
    world.link_up(first, second);
    world.link_up(second, first);
    world.nodes[busy].objects.answers_left = Some(0);
    world.checkpoint(0);
    let asked = world.checkpoint(0);
    world.nodes[busy].objects.answers_left = None;
    world.run();
    (world, asked)
}

/// Claim rp-142.
#[test]
fn the_leader_asks_again_for_a_snapshot_that_was_left_out_where_its_request_is_refused() {
    let (mut world, asked) = left_out_by(1);
    world.shared.borrow_mut().holds_submissions = true;
    world.pass(limits::CHECKPOINT_AGAIN);
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let [(0, command)] = &submitted[..] else {
        panic!("the leader asks once: {submitted:?}");
    };
    let (command, refusal) = (command.id, Refusal::Overloaded);
    world.effect(0, Effect::Refuse { command, refusal });
    world.run();
    assert!(world.shared.borrow().submitted.is_empty(), "not at once");
    world.shared.borrow_mut().holds_submissions = false;
    world.pass(limits::CHECKPOINT_AGAIN);
    assert!(world.nodes[0].replica.status().stable > asked);
}

/// Claim rp-142.
#[test]
fn the_leader_asks_for_another_snapshot_in_place_of_one_that_a_replica_left_out() {
    for busy in [0, 1] {
        let (mut world, asked) = left_out_by(busy);
        let status = world.nodes[busy].replica.status();
        assert!(status.snapshot < asked && status.stable < asked, "n{busy}");
        world.pass(limits::CHECKPOINT_AGAIN);
        for node in &world.nodes {
            let stable = node.replica.status().stable;
            assert!(stable > asked, "n{busy} was busy: {stable}");
        }
        let last = world.shared.borrow().last();
        world.pass(Duration::from_millis(10_000));
        assert_eq!(world.shared.borrow().last(), last, "one is enough");
    }
}

#[test]
fn one_is_asked_for_in_place_of_a_snapshot_however_long_it_takes() {
    let (mut world, asked) = left_out_by(1);
    world.nodes[1].objects.answers_left = Some(0);
    world.pass(limits::CHECKPOINT_AGAIN);
    let last = world.shared.borrow().last();
    assert!(last > asked);
    for _ in 0..8 {
        world.pass(limits::CHECKPOINT_AGAIN);
    }
    assert_eq!(world.shared.borrow().last(), last);
}

#[test]
fn what_others_report_than_replicas_makes_the_leader_ask_for_nothing() {
    let mut world = World::new(2);
    let stable = world.checkpoint(0);
    world.nodes[1].objects.answers_left = Some(0);
    let slot = world.checkpoint(0);
    durable(&mut world, 0, 7, stable, 1);
    world.pass(limits::CHECKPOINT_AGAIN);
    world.pass(limits::CHECKPOINT_AGAIN);
    assert_eq!(world.shared.borrow().last(), slot);
}
