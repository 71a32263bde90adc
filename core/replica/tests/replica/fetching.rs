//! Replicas that are behind what is trimmed, or behind their own log.

use crate::world::{Objects, World, call, config, id, open, refused, secret};
use quorate_ordering::LinkState;
use quorate_replica::{
    CheckpointPolicy, Input, Output, PeerMessage, Recovered, ReplicaMessage, Snapshots, limits,
};
use quorate_types::{
    Ask, Duration, FromClient, LinkEpoch, NodeId, Refusal, SessionId, Slot, ToClient, Value,
};

/// Three nodes, of which `n2` heard nothing before the log was trimmed at the returned slot.
fn with_one_behind() -> (World, SessionId, Slot) {
    let mut world = World::new(3);
    world.shared.borrow_mut().deaf.insert(2);
    let session = world.open(0, 5);
    for sequence in 1..=5 {
        world.call(0, 5, id(session, sequence), "a");
    }
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    world.take_told(5);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    (world, session, slot)
}

fn assert_caught_up(world: &World) {
    let (one, two) = (&world.nodes[0], &world.nodes[2]);
    assert_eq!(two.objects.state, one.objects.state);
    let (one, two) = (one.replica.status(), two.replica.status());
    assert_eq!(two.digest, one.digest);
    assert_eq!(two.applied, one.applied);
    assert_eq!(two.sessions, one.sessions);
    assert!(two.is_serving);
}

/// Claim rp-17.
#[test]
fn a_replica_behind_the_trimmed_log_installs_a_snapshot_and_goes_on() {
    let (mut world, session, slot) = with_one_behind();
    world.input(2, Input::Wake);
    world.run();
    assert_eq!(world.nodes[2].replica.status().snapshot, slot);
    world.call(2, 6, id(session, 6), "b");
    assert!(world.outcome(6).is_some());
    world.call(2, 6, id(session, 5), "a");
    assert!(world.outcome(6).is_some(), "replies travel in the snapshot");
    assert_caught_up(&world);
}

#[test]
fn while_it_fetches_a_replica_refuses_objects() {
    let (mut world, session, _) = with_one_behind();
    world.nodes[2].is_cut = true;
    world.input(2, Input::Wake);
    world.call(2, 6, id(session, 6), "b");
    let asks = [Ask::Session(session), Ask::Call(id(session, 6))];
    let refusals = asks.map(|ask| refused(ask, Refusal::NotServing));
    assert_eq!(world.take_told(6), refusals);
    assert!(world.nodes[2].replica.status().is_fetching);
}

#[test]
fn a_fetch_prefers_who_does_not_lead_and_turns_to_another_when_it_is_silent() {
    let (mut world, _, _) = with_one_behind();
    world.nodes[1].is_cut = true;
    world.seen.clear();
    world.input(2, Input::Wake);
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching, "n1 was asked");
    world.pass(Duration::from_millis(1_100));
    assert_caught_up(&world);
}

/// Claim rp-23.
#[test]
fn a_fetch_turns_to_another_peer_as_soon_as_the_link_to_the_asked_one_goes_down() {
    let (mut world, _, _) = with_one_behind();
    world.nodes[1].is_cut = true;
    world.input(2, Input::Wake);
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching, "n1 was asked");
    let (peer, state) = (NodeId(1), LinkState::Down);
    world.input(2, Input::Link { peer, state });
    world.run();
    assert_caught_up(&world);
}

#[test]
fn a_fetch_waits_twice_as_long_after_each_piece_that_did_not_come_up_to_a_bound() {
    let (mut world, _, _) = with_one_behind();
    world.loses_fetches = true;
    world.input(2, Input::Wake);
    world.run();
    assert_eq!(world.fetches_asked, 1);
    let mut asked_at = Vec::new();
    for second in 1..40 {
        let before = world.fetches_asked;
        world.pass(Duration::from_millis(1_000));
        if world.fetches_asked > before {
            asked_at.push(second);
        }
    }
    assert_eq!(asked_at, [1, 3, 7, 15, 23, 31, 39]);
    world.loses_fetches = false;
    world.pass(Duration::from_millis(8_000));
    assert_caught_up(&world);
}

#[test]
fn a_fetch_goes_on_from_another_peer_that_holds_the_same_snapshot() {
    let (mut world, _, slot) = with_one_behind();
    world.nodes[2].is_cut = true;
    world.input(2, Input::Wake);
    world.run();
    world.seen.clear();
    let message = PeerMessage::Replica(ReplicaMessage::Chunk {
        slot,
        offset: 0,
        total: 600 << 10,
        data: Value::from(vec![0; 10]),
    });
    let (from, link) = (NodeId(1), LinkEpoch(1));
    world.half_turn(
        2,
        Input::Peer {
            from,
            link,
            message,
        },
    );
    world.nodes[1].is_cut = true;
    world.nodes[2].is_cut = false;
    world.pass(Duration::from_millis(1_100));
    assert_caught_up(&world);
    let stored = world.seen.iter().filter_map(|(_, output)| match output {
        Output::StoreChunk { offset, .. } => Some(*offset),
        _ => None,
    });
    let offsets: Vec<u64> = stored.collect();
    assert_eq!(offsets[..2], [0, 10], "nothing is fetched twice");
}

#[test]
fn a_damaged_image_is_fetched_again_from_its_beginning() {
    let (mut world, _, _) = with_one_behind();
    world.nodes[2].objects.unusable_images = 1;
    world.seen.clear();
    world.input(2, Input::Wake);
    world.run();
    assert_caught_up(&world);
    let begun = world
        .seen
        .iter()
        .filter(|(_, output)| matches!(output, Output::StoreChunk { offset: 0, .. }));
    assert_eq!(begun.count(), 2);
}

fn installs(world: &World) -> usize {
    let is_install = |output: &&(usize, Output<u32>)| matches!(output.1, Output::Install { .. });
    world.seen.iter().filter(is_install).count()
}

#[test]
fn images_that_cannot_be_installed_are_fetched_once_of_each_peer_and_then_after_a_pause() {
    let (mut world, _, _) = with_one_behind();
    world.nodes[2].objects.unusable_images = 5;
    world.seen.clear();
    world.input(2, Input::Wake);
    world.run();
    assert_eq!(installs(&world), 2, "the disk may be full here");
    world.pass(Duration::from_millis(1_100));
    assert_eq!(installs(&world), 4);
    world.pass(Duration::from_millis(1_100));
    assert_eq!(installs(&world), 6, "the pauses do not grow");
    assert_caught_up(&world);
}

/// Claim rp-23.
#[test]
fn a_fetch_asks_a_peer_as_soon_as_its_link_comes_up() {
    let (mut world, _, _) = with_one_behind();
    world.nodes[0].is_cut = true;
    world.nodes[1].is_cut = true;
    let peer = NodeId(1);
    world.input(2, Input::Wake);
    world.run();
    let state = LinkState::Down;
    world.input(2, Input::Link { peer, state });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching, "n0 is silent");
    world.nodes[1].is_cut = false;
    let state = LinkState::Up(LinkEpoch(2));
    world.input(2, Input::Link { peer, state });
    world.run();
    assert_caught_up(&world);
}

#[test]
fn a_fetch_that_found_no_snapshot_asks_who_takes_one_at_once() {
    let mut world = World::new(3);
    world.shared.borrow_mut().deaf.insert(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let upto = world.shared.borrow().last();
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    world.run();
    assert!(!world.nodes[2].replica.status().is_fetching);
    assert!(world.nodes[2].replica.status().snapshot > upto);
}

#[test]
fn a_fetch_asks_at_once_who_takes_a_snapshot_of_the_very_slot_that_is_needed() {
    let mut world = World::new(3);
    world.shared.borrow_mut().deaf.insert(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let upto = world.shared.borrow().last().next();
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    world.run();
    assert!(!world.nodes[2].replica.status().is_fetching);
    assert_eq!(world.nodes[2].replica.status().snapshot, upto);
}

/// Claim rp-17.
#[test]
fn a_snapshot_from_which_one_log_goes_on_helps_although_another_log_begins_later() {
    let (mut world, _, slot) = with_one_behind();
    world.shared.borrow_mut().deaf.insert(2);
    let upto = Slot(slot.0 + 5);
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching);
    world.shared.borrow_mut().deaf.clear();
    world.input(2, Input::Wake);
    world.pass(limits::FETCH_PATIENCE);
    assert_eq!(world.nodes[2].replica.status().snapshot, slot);
    assert_caught_up(&world);
}

#[test]
fn pieces_out_of_place_or_from_strangers_are_not_stored() {
    let (mut world, _, slot) = with_one_behind();
    world.nodes[2].is_cut = true;
    world.input(2, Input::Wake);
    world.run();
    world.seen.clear();
    let piece = |from: u16, slot: Slot, offset: u64, bytes: usize| Input::Peer {
        from: NodeId(from),
        link: LinkEpoch(1),
        message: PeerMessage::Replica(ReplicaMessage::Chunk {
            slot,
            offset,
            total: 600 << 10,
            data: Value::from(vec![0; bytes]),
        }),
    };
    for input in [
        piece(0, slot, 0, 10),
        piece(1, slot, 5, 10),
        piece(1, slot.previous(), 0, 10),
        piece(1, slot, 0, 0),
        piece(1, slot, 0, limits::CHUNK_BYTES as usize + 1),
    ] {
        world.half_turn(2, input);
    }
    assert!(
        world.seen.is_empty(),
        "only what was asked for counts: {:?}",
        world.seen
    );
    world.half_turn(2, piece(1, slot, 0, 10));
    assert_eq!(world.seen.len(), 1, "the first piece");
    for input in [
        piece(1, slot, 0, 10),
        piece(1, slot, 20, 10),
        piece(0, slot, 10, 10),
    ] {
        world.half_turn(2, input);
    }
    assert_eq!(world.seen.len(), 1, "neither again nor ahead");
    world.half_turn(2, piece(1, slot, 10, 10));
    assert_eq!(world.seen.len(), 2, "the next piece");
}

#[test]
fn calls_whose_slots_were_passed_over_are_answered_from_the_snapshot() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(2);
    world.call(2, 6, id(session, 1), "a");
    assert_eq!(world.nodes[2].replica.status().in_flight, 1);
    world.say(2, 6, open(3));
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.shared.borrow().last();
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.take_told(6);
    world.input(2, Input::Wake);
    world.run();
    let told = world.take_told(6);
    assert!(told.contains(&refused(Ask::Open(secret(3).hash()), Refusal::Unknown)));
    assert!(
        told.iter().any(|told| matches!(told, ToClient::Replied { id: replied, .. } if *replied == id(session, 1))),
        "{told:?}"
    );
    assert_eq!(world.nodes[2].replica.status().in_flight, 0);
}

#[test]
fn a_restarted_replica_goes_on_from_its_snapshot() {
    let (mut world, session, slot) = with_one_behind();
    let image = world.nodes[1].objects.images[&slot].clone();
    let recovered = Recovered {
        due: None,
        core: image.core.clone(),
        digest: [0; 32],
        bytes: 1,
    };
    world.nodes.truncate(2);
    world.add(config(3, 2), Some(recovered), Objects::restored(&image));
    world.call(1, 6, id(session, 6), "b");
    assert!(world.outcome(6).is_some());
    assert_eq!(world.nodes[2].objects.state, world.nodes[0].objects.state);
}

/// Claim rp-18.
#[test]
fn a_hung_objects_backlog_is_bounded_and_replaced_by_a_snapshot() {
    let only_when_asked = CheckpointPolicy {
        bytes: u64::MAX,
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(3, |config| {
        config.snapshots = Snapshots::Every(only_when_asked);
    });
    let session = world.open(0, 5);
    world.nodes[2].objects.answers_left = Some(0);
    let slots = 300;
    let each = limits::BACKLOG_CALLS / slots + 2;
    let mut sequence = 0;
    for _ in 0..slots {
        let calls = (0..each).map(|_| {
            sequence += 1;
            call(session, sequence, sequence - 1, "a")
        });
        let calls: Vec<_> = calls.collect();
        world.decide(calls);
    }
    assert!(world.nodes[2].replica.status().backlog > limits::BACKLOG_CALLS);
    world.call(2, 6, id(session, sequence + 1), "a");
    let ask = Ask::Call(id(session, sequence + 1));
    assert_eq!(world.take_told(6), [refused(ask, Refusal::Overloaded)]);
    world.loses_fetches = true;
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let status = world.nodes[2].replica.status();
    assert!(
        status.backlog <= limits::HANDED_CALLS,
        "what the snapshot covers is dropped: {}",
        status.backlog
    );
    world.decide(vec![call(session, sequence + 1, sequence - 1, "b")]);
    world.say(1, 5, FromClient::Checkpoint { request: 2 });
    let later = world.nodes[0].replica.status().stable;
    assert_eq!(later, world.shared.borrow().last());
    world.decide(vec![call(session, sequence + 2, sequence - 1, "c")]);
    world.loses_fetches = false;
    world.nodes[2].objects.answers_left = None;
    world.run();
    world.pass(Duration::from_millis(1_100));
    assert_caught_up(&world);
    for (behind, text) in [(0, "a"), (1, "b"), (2, "c")] {
        world.call(0, 6, id(session, sequence + behind), text);
        let reply = world.outcome(6);
        assert!(reply.is_some());
        world.call(2, 6, id(session, sequence + behind), text);
        assert_eq!(world.outcome(6), reply, "{behind}");
    }
}

#[test]
fn peers_without_a_snapshot_are_asked_once_in_a_while_and_not_in_a_circle() {
    let mut world = World::new(3);
    let upto = Slot(9);
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching);
    let wake = world.nodes[2].replica.next_wake();
    assert!(wake.is_some());
    world.pass(Duration::from_millis(1_100));
    assert!(world.nodes[2].replica.status().is_fetching);
}

#[test]
fn a_snapshot_that_is_no_longer_needed_is_not_fetched() {
    let mut world = World::new(3);
    world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(2);
    let slot = world.decide(vec![]);
    world.nodes[2].is_cut = true;
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto: slot });
    assert!(!world.nodes[2].replica.status().is_serving);
    world.shared.borrow_mut().deaf.clear();
    world.run();
    assert!(world.nodes[2].replica.status().is_serving);
    assert!(!world.nodes[2].replica.status().is_fetching);
}

#[test]
fn slots_without_calls_that_are_decided_during_an_install_disturb_nothing() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[2].objects.answers_left = Some(0);
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    world.shared.borrow_mut().deaf.insert(2);
    world.say(0, 5, FromClient::Checkpoint { request: 2 });
    let slot = world.shared.borrow().last();
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.input(2, Input::Wake);
    world.run();
    let is_install =
        |(at, output): &(usize, Output<u32>)| *at == 2 && matches!(output, Output::Install { .. });
    assert!(
        world.seen.iter().any(is_install),
        "the objects are restored"
    );
    world.shared.borrow_mut().trimmed = Slot::ZERO;
    world.decide(vec![]);
    world.nodes[2].objects.answers_left = None;
    world.run();
    world.call(2, 6, id(session, 1), "a");
    assert!(world.outcome(6).is_some());
    assert_caught_up(&world);
}

#[test]
fn a_later_snapshot_that_is_needed_while_one_is_installed_is_fetched_after_it() {
    let (mut world, session, slot) = with_one_behind();
    world.nodes[2].objects.answers_left = Some(0);
    world.input(2, Input::Wake);
    world.run();
    world.shared.borrow_mut().deaf.insert(2);
    world.call(0, 5, id(session, 6), "b");
    world.say(0, 5, FromClient::Checkpoint { request: 2 });
    let upto = world.nodes[0].replica.status().stable;
    assert!(upto > slot);
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto });
    world.nodes[2].objects.answers_left = None;
    world.run();
    assert_eq!(world.nodes[2].replica.status().snapshot, upto);
    assert_caught_up(&world);
}
