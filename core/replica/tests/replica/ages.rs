//! How old the signs of life look of which other nodes tell.

use crate::sessions::{STEP, is_open, pass_steps, world};
use quorate_ordering::{Effect, Role};
use quorate_types::NodeId;

/// Its patience begins with its question: the first to answer may have forgotten what it noted.
#[test]
fn a_leader_that_is_heard_late_waits_for_nodes_that_have_forgotten_nothing() {
    let mut world = world(3);
    pass_steps(&mut world, 20);
    world.open(2, 5);
    pass_steps(&mut world, 8);
    world.restart(0, 2);
    world.is_led = false;
    world.pass(STEP);
    world.lead(1);
    pass_steps(&mut world, 6);
    world.is_led = true;
    pass_steps(&mut world, 5);
    assert!(is_open(&world, 1));
    pass_steps(&mut world, 7);
    assert!(!is_open(&world, 1), "it is judged by who has forgotten");
}

/// An age that it is told before it has heard its leader would look younger by the time since it started.
#[test]
fn a_start_that_learns_from_its_leader_makes_no_dead_client_younger() {
    let mut world = world(3);
    pass_steps(&mut world, 20);
    world.open(2, 5);
    pass_steps(&mut world, 8);
    world.restart(1, 2);
    world.is_led = false;
    pass_steps(&mut world, 6);
    let leader = Some(NodeId(0));
    world.effect(1, Effect::Role(Role::Follower { leader }));
    world.run();
    world.is_led = true;
    pass_steps(&mut world, 2);
    world.lead(1);
    pass_steps(&mut world, 4);
    assert!(is_open(&world, 1));
    pass_steps(&mut world, 6);
    assert!(!is_open(&world, 1), "it lives for longer than it may");
}
