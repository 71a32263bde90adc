//! Agreed time for objects that wait for it.

use crate::world::{Objects, World, config};
use quorate_ordering::Effect;
use quorate_replica::{DiskRoom, Input};
use quorate_types::{Body, Duration, Refusal, Wall};

const SPAN: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_millis(1);

/// Ticks that are in the log.
fn ticks(world: &World) -> usize {
    let shared = world.shared.borrow();
    let batches = shared.log.iter();
    let commands = batches.flat_map(|batch| batch.commands());
    commands
        .filter(|command| command.body == Body::Tick)
        .count()
}

/// The objects of some nodes have something to do at that time.
fn due(world: &mut World, nodes: impl IntoIterator<Item = usize>, at: Wall) {
    for node in nodes {
        world.input(node, Input::Due { at: Some(at) });
    }
    world.run();
}

fn after(world: &World, span: Duration) -> Wall {
    Wall(world.right_wall().0 + span.0)
}

/// Claim rp-59.
#[test]
fn what_is_due_happens_at_one_agreed_time_on_every_replica_and_not_before() {
    let mut world = World::new(3);
    let at = after(&world, SPAN);
    due(&mut world, 0..3, at);
    assert_eq!(
        world.nodes[0]
            .replica
            .next_wake()
            .map(|due| due <= world.now + SPAN),
        Some(true)
    );
    world.pass(SPAN - MOMENT);
    assert_eq!(ticks(&world), 0);
    world.pass(MOMENT);
    world.pass(Duration::from_millis(5_000));
    assert_eq!(ticks(&world), 1);
    let seen = world.nodes[0].objects.ticks.clone();
    assert!(seen.len() == 1 && seen[0] >= at, "{seen:?}");
    for node in &world.nodes {
        assert_eq!(node.objects.ticks, seen);
    }
}

/// Claim rp-59.
#[test]
fn where_the_leaders_objects_hang_another_replica_has_it_happen() {
    let mut world = World::new(3);
    world.lead(0);
    let at = world.right_wall();
    due(&mut world, 1..3, at);
    world.pass(Duration::from_millis(999));
    assert_eq!(ticks(&world), 0, "the leader would have");
    world.pass(MOMENT);
    assert!((1..=2).contains(&ticks(&world)), "by each that waited");
    world.pass(Duration::from_millis(5_000));
    assert!((1..=2).contains(&ticks(&world)));
}

/// Claim rp-59.
#[test]
fn a_tick_that_is_refused_is_asked_for_again() {
    let mut world = World::new(3);
    world.lead(0);
    world.shared.borrow_mut().holds_submissions = true;
    let at = world.right_wall();
    due(&mut world, [0], at);
    let refused = world.shared.borrow_mut().submitted.pop();
    let (_, command) = refused.expect("it is submitted");
    assert_eq!(command.body, Body::Tick);
    world.pass(SPAN);
    assert!(world.shared.borrow().submitted.is_empty(), "one at a time");
    let refusal = Refusal::NotOrdered;
    let command = command.id;
    world.effect(0, Effect::Refuse { command, refusal });
    world.pass(SPAN);
    let shared = world.shared.borrow();
    assert!(matches!(&shared.submitted[..], [(0, command)] if command.body == Body::Tick));
}

/// Claim rp-59.
#[test]
fn a_new_leader_goes_on_where_the_old_one_left() {
    let mut world = World::new(3);
    world.lead(0);
    let at = after(&world, SPAN);
    due(&mut world, 0..3, at);
    world.nodes[0].is_cut = true;
    world.shared.borrow_mut().deaf.insert(0);
    world.lead(1);
    world.pass(SPAN);
    assert_eq!(ticks(&world), 1);
    assert_eq!(world.nodes[2].objects.ticks.len(), 1);
}

#[test]
fn what_stays_due_brings_few_ticks() {
    let mut world = World::new(3);
    world.lead(0);
    for node in &mut world.nodes {
        node.objects.is_never_done = true;
    }
    let at = world.right_wall();
    due(&mut world, 0..3, at);
    for _ in 0..1_000 {
        world.pass(MOMENT);
    }
    assert!((40..=60).contains(&ticks(&world)), "{}", ticks(&world));
}

#[test]
fn a_full_disk_brings_no_ticks() {
    let mut world = World::new(1);
    let room = DiskRoom::Full;
    world.input(0, Input::Storage { room });
    let at = world.right_wall();
    due(&mut world, [0], at);
    world.pass(SPAN);
    assert_eq!(ticks(&world), 0);
    let room = DiskRoom::Plenty;
    world.input(0, Input::Storage { room });
    world.pass(SPAN);
    assert_eq!(ticks(&world), 1);
}

/// Claim rp-59.
#[test]
fn a_start_knows_what_is_due_from_the_image_it_begins_with() {
    let mut world = World::new(1);
    let slot = world.checkpoint(0);
    let image = world.nodes[0].objects.images[&slot].clone();
    let mut recovered = image.recovered();
    recovered.due = Some(after(&world, SPAN));
    world.nodes.clear();
    world.add(config(1, 0), Some(recovered), Objects::restored(&image));
    world.lead(0);
    world.pass(SPAN);
    assert_eq!(ticks(&world), 1);
}
