//! Logs are trimmed for a command that was decided: who asks for it, when, and where a node trims by itself.

use crate::views::{WINDOW, change, fill, of_view};
use crate::world::{IMAGE_BYTES, LINK, World, meta};
use quorate_ordering::Effect;
use quorate_replica::{DiskRoom, Input, PeerMessage, ReplicaMessage, TrimHindrance};
use quorate_types::{
    Body, Command, Digest, Duration, Level, Levels, MemberChange, NodeId, Refusal, Slot, ViewNumber,
};

/// Three nodes in a view of this level, whose submissions are kept from the log.
fn world(level: Level) -> World {
    let world = World::with(3, |config| {
        config.view.level = level;
        config.view.window = WINDOW;
        config.speaks = Levels::new(Level::UNNAMED, Level::COLLECTED).unwrap();
    });
    world.shared.borrow_mut().holds_submissions = true;
    world
}

fn checkpoint(world: &mut World) -> Slot {
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    world.run();
    slot
}

/// The trims that nodes have asked for.
fn asked(world: &World) -> Vec<(usize, Command)> {
    let submitted = world.shared.borrow().submitted.clone();
    let of_trims = submitted.into_iter();
    let of_trims = of_trims.filter(|(_, command)| matches!(command.body, Body::Collect { .. }));
    of_trims.collect()
}

fn slot_of(command: &Command) -> Slot {
    match command.body {
        Body::Collect { slot, .. } => slot,
        _ => unreachable!("a trim"),
    }
}

fn trimmed(world: &World) -> Vec<(usize, Slot)> {
    let mut trimmed = world.shared.borrow().trimmable.clone();
    trimmed.sort_unstable();
    trimmed
}

/// Claim rp-120.
#[test]
fn every_node_trims_its_log_when_the_command_is_decided_and_not_before() {
    let mut world = world(Level::COLLECTED);
    let slot = checkpoint(&mut world);
    let asked = asked(&world);
    assert_eq!(asked.len(), 1, "the leader asks once: {asked:?}");
    assert_eq!((asked[0].0, slot_of(&asked[0].1)), (0, slot));
    assert_eq!(trimmed(&world), [], "nothing is decided");
    world.decide(vec![asked[0].1.clone()]);
    world.run();
    assert_eq!(trimmed(&world), [(0, slot), (1, slot), (2, slot)]);
}

/// Claim rp-120.
#[test]
fn what_a_trim_waits_for_is_told_until_the_command_is_decided() {
    let mut world = world(Level::COLLECTED);
    let slot = checkpoint(&mut world);
    let wait = |world: &World, at: usize| world.nodes[at].replica.status().trim_wait;
    let first = wait(&world, 0).unwrap();
    assert_eq!((first.slot, first.hindrance), (slot, TrimHindrance::Votes));
    let other = wait(&world, 1).unwrap();
    assert_eq!((other.slot, other.hindrance), (slot, TrimHindrance::Leader));
    world.pass(Duration::from_millis(100));
    let later = checkpoint(&mut world);
    let next = wait(&world, 0).unwrap();
    assert_eq!((next.slot, next.since), (later, first.since), "it waits on");
    let command = asked(&world)[0].1.clone();
    world.decide(vec![command]);
    world.pass(Duration::from_millis(100));
    let third = checkpoint(&mut world);
    let next = wait(&world, 0).unwrap();
    assert_eq!(next.slot, third);
    let asked = asked(&world);
    world.decide(vec![meta(asked.last().unwrap().1.body.clone())]);
    world.run();
    let left = wait(&world, 0).map(|wait| wait.slot);
    assert!(left.is_none_or(|left| left > later), "{left:?}");
}

/// Claim rp-120.
#[test]
fn a_view_of_a_lower_level_trims_without_the_command() {
    let mut world = world(Level::NAMED);
    let slot = checkpoint(&mut world);
    assert_eq!(asked(&world), []);
    assert_eq!(trimmed(&world), [(0, slot), (1, slot), (2, slot)]);
    // One that the view before has not ordered may find a reader that does not know it.
    let digest = Digest::default();
    let commands = vec![meta(Body::Collect { slot, digest })];
    world.effect(0, Effect::Unordered { commands });
    assert_eq!(asked(&world), []);
}

/// Claim rp-123.
#[test]
fn nobody_asks_before_a_majority_holds_the_snapshot_or_for_what_is_trimmed() {
    let mut twin = world(Level::COLLECTED);
    checkpoint(&mut twin);
    let (_, another) = asked(&twin).remove(0);
    let mut world = world(Level::COLLECTED);
    for node in 1..3 {
        world.nodes[node].is_cut = true;
    }
    let slot = checkpoint(&mut world);
    assert_eq!(asked(&world), [], "one replica is not a majority");
    // Another leader asked meanwhile.
    world.decide(vec![meta(another.body)]);
    world.run();
    for node in 1..3 {
        world.nodes[node].is_cut = false;
        world.link_up(0, node);
        world.link_up(node, 0);
    }
    world.pass(Duration::from_millis(2_500));
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    assert_eq!(asked(&world), []);
}

/// The others decided the slot by votes that the leader has not heard. Claim rp-157.
#[test]
fn a_leader_asks_for_no_trim_of_slots_that_it_lacks() {
    let mut twin = world(Level::COLLECTED);
    let slot = checkpoint(&mut twin);
    let digest = twin.nodes[1].replica.status().snapshot_digest.unwrap();
    let mut world = world(Level::COLLECTED);
    for from in [1, 2].map(NodeId) {
        let report = ReplicaMessage::Durable {
            slot,
            digest,
            bytes: IMAGE_BYTES,
        };
        let input = Input::Peer {
            from,
            link: LINK,
            message: PeerMessage::Replica(report),
        };
        world.input(0, input);
    }
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    assert_eq!(asked(&world), []);
    assert_eq!(checkpoint(&mut world), slot);
    assert_eq!(asked(&world).len(), 1);
}

/// Claim rp-123.
#[test]
fn the_leader_asks_again_where_the_command_is_refused() {
    let mut world = world(Level::COLLECTED);
    checkpoint(&mut world);
    let command = asked(&world).remove(0).1.id;
    let refusal = Refusal::Unknown;
    world.effect(0, Effect::Refuse { command, refusal });
    world.pass(Duration::from_millis(500));
    assert_eq!(asked(&world).len(), 2, "once more, and only once");
}

/// Claim rp-120.
#[test]
fn who_heard_no_report_of_a_snapshot_knows_by_the_command_that_it_is_agreed() {
    let mut world = world(Level::COLLECTED);
    world.nodes[2].is_cut = true;
    let slot = checkpoint(&mut world);
    assert_eq!(world.nodes[2].replica.agreed_snapshot(), Slot::ZERO);
    let (_, command) = asked(&world).remove(0);
    world.decide(vec![command]);
    world.run();
    assert_eq!(world.nodes[2].replica.agreed_snapshot(), slot);
}

#[test]
fn the_next_leader_asks_for_what_the_one_before_left() {
    let mut world = world(Level::COLLECTED);
    let slot = checkpoint(&mut world);
    world.shared.borrow_mut().submitted.clear();
    world.lead(1);
    let asked = asked(&world);
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].0, slot_of(&asked[0].1)), (1, slot));
}

/// Claim rp-122.
#[test]
fn a_node_whose_disk_is_full_trims_by_itself() {
    let mut world = world(Level::COLLECTED);
    let room = DiskRoom::Full;
    world.input(1, Input::Storage { room });
    let slot = checkpoint(&mut world);
    assert_eq!(trimmed(&world), [(1, slot)]);
}

#[test]
fn a_command_about_its_own_slot_or_a_later_one_has_no_effect() {
    let mut world = world(Level::COLLECTED);
    let digest = Digest::default();
    let slot = Slot(world.shared.borrow().log.len() as u64).next();
    for slot in [slot, slot.plus(7)] {
        world.decide(vec![meta(Body::Collect { slot, digest })]);
    }
    world.run();
    assert_eq!(trimmed(&world), []);
}

/// Node 2 leaves, which alone beside node 0 is known to hold the snapshot. Claim rp-123.
#[test]
fn a_snapshot_that_a_majority_held_of_the_view_before_is_collected_once_one_of_the_view_does() {
    let mut world = world(Level::COLLECTED);
    world.nodes[1].is_cut = true;
    let slot = checkpoint(&mut world);
    let before = asked(&world);
    assert_eq!(before.len(), 1, "two of three hold it");
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Leaves(NodeId(2))),
    })]);
    fill(&mut world, WINDOW);
    world.lead(0);
    world.shared.borrow_mut().submitted.clear();
    let commands = before.into_iter().map(|(_, command)| command).collect();
    world.effect(0, Effect::Unordered { commands });
    world.pass(Duration::from_millis(2_500));
    assert_eq!(asked(&world), [], "one of two holds it");
    world.nodes[1].is_cut = false;
    world.link_up(0, 1);
    world.link_up(1, 0);
    world.pass(Duration::from_millis(2_500));
    let again = asked(&world);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(slot_of(&again[0].1), slot);
}

/// Who asks for the next view knows of a snapshot of the one before. Others may not have heard of it. Claim rp-120.
#[test]
fn the_log_of_a_view_stays_while_later_ones_begin_until_a_snapshot_of_it_is_collected() {
    let mut world = world(Level::COLLECTED);
    for view in 1..=3 {
        world.decide(vec![meta(Body::ChangeView {
            first: None,
            change: change(view, &[0, 1, 2]),
            who: Box::new(MemberChange::Same),
        })]);
        fill(&mut world, WINDOW);
    }
    let takes_part = |world: &mut World, message| {
        world.input(2, of_view(1, message));
        let received = (2, ViewNumber(1), message);
        world.shared.borrow().received.contains(&received)
    };
    assert_eq!(world.nodes[2].replica.view().number, ViewNumber(4));
    assert!(takes_part(&mut world, 1), "nothing was collected");
    world.lead(0);
    checkpoint(&mut world);
    assert!(takes_part(&mut world, 2), "nothing is decided");
    let (_, command) = asked(&world).remove(0);
    world.decide(vec![command]);
    world.run();
    assert!(!takes_part(&mut world, 3), "it is in a snapshot");
}
