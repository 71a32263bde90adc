//! Outcomes are compared while calls execute: who differs is found without a snapshot.

use crate::reset::reset;
use crate::world::{Objects, World, config, id};
use quorate_replica::{OutcomeDifference, Output, Quarantine};
use quorate_types::{Duration, NodeId, Slot};

fn differences(world: &World, at: usize) -> Vec<OutcomeDifference> {
    let seen = world.seen.iter().filter(|(node, _)| *node == at);
    let named = seen.filter_map(|(_, output)| match output {
        Output::OutcomesDiffer(difference) => Some(difference.clone()),
        _ => None,
    });
    named.collect()
}

fn second(world: &mut World) {
    for _ in 0..5 {
        world.pass(Duration::from_millis(200));
    }
}

/// Claim rp-38.
#[test]
fn a_replica_with_another_outcome_is_found_within_a_second_without_a_snapshot() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.nodes[2].objects.state ^= 666;
    world.call(0, 5, id(session, 2), "b");
    let first = world.shared.borrow().last();
    world.call(0, 5, id(session, 3), "c");
    world.loses_fetches = true;
    second(&mut world);
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, Some(first));
    assert!(!status.is_serving);
    let named = &differences(&world, 2)[0];
    assert_eq!(
        (named.node, named.slot, named.is_exact),
        (NodeId(2), first, true)
    );
    for at in 0..2 {
        assert_eq!(world.nodes[at].replica.status().diverged, None);
        let named = &differences(&world, at)[0];
        assert_eq!((named.node, named.slot), (NodeId(2), first), "others know");
    }
    world.loses_fetches = false;
    world.pass(Duration::from_millis(8_000));
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, None);
    assert!(status.is_serving && status.healed > Some(first));
    assert_eq!(status.digest, world.nodes[0].replica.status().digest);
    world.call(0, 5, id(session, 4), "d");
    second(&mut world);
    assert_eq!(world.nodes[2].replica.status().diverged, None);
}

#[test]
fn without_a_majority_of_equal_outcomes_the_objects_freeze_everywhere() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[1].objects.state = 1;
    world.nodes[2].objects.state = 2;
    world.call(0, 5, id(session, 1), "a");
    second(&mut world);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert!(status.frozen.is_some() && !status.is_serving, "{status:?}");
        assert!(!differences(&world, at).is_empty());
    }
}

#[test]
fn two_that_differ_wait_for_the_third_to_tell_who_is_right() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[2].is_cut = true;
    world.nodes[1].objects.state ^= 666;
    world.call(0, 5, id(session, 1), "a");
    let first = world.shared.borrow().last();
    second(&mut world);
    for at in 0..2 {
        let status = world.nodes[at].replica.status();
        assert_eq!((status.diverged, status.frozen), (None, None));
    }
    world.loses_fetches = true;
    world.nodes[2].is_cut = false;
    for (one, other) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        world.link_up(one, other);
    }
    second(&mut world);
    assert_eq!(world.nodes[1].replica.status().diverged, Some(first));
    for at in [0, 2] {
        assert_eq!(world.nodes[at].replica.status().diverged, None);
    }
}

#[test]
fn two_that_differ_ask_more_and_more_seldom_while_the_third_is_away() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[2].is_cut = true;
    world.nodes[1].objects.state ^= 666;
    world.call(0, 5, id(session, 1), "a");
    let mut asked = [0; 2];
    for half in &mut asked {
        let before = world.trails_asked;
        for _ in 0..300 {
            world.pass(Duration::from_millis(100));
        }
        *half = world.trails_asked - before;
    }
    assert!(asked[0] < 60, "{asked:?} in half a minute each");
    assert!((8..30).contains(&asked[1]), "{asked:?}: every five seconds");
}

#[test]
fn two_that_have_asked_for_long_are_judged_within_a_second_of_the_third() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[2].is_cut = true;
    world.nodes[1].objects.state ^= 666;
    world.call(0, 5, id(session, 1), "a");
    // Each asks every five seconds by then, and what it heard last counts no more.
    for _ in 0..290 {
        world.pass(Duration::from_millis(100));
    }
    world.loses_fetches = true;
    world.nodes[2].is_cut = false;
    for (one, other) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        world.link_up(one, other);
    }
    second(&mut world);
    assert!(world.nodes[1].replica.status().diverged.is_some());
    assert_eq!(world.nodes[0].replica.status().diverged, None);
}

#[test]
fn what_is_told_of_a_slot_that_is_not_executed_yet_is_compared_later() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.nodes[2].objects.answers_left = Some(0);
    world.nodes[2].objects.state ^= 666;
    for sequence in 2..8 {
        world.call(0, 5, id(session, sequence), "b");
        world.pass(Duration::from_millis(200));
    }
    assert_eq!(world.nodes[2].replica.status().diverged, None);
    world.loses_fetches = true;
    world.nodes[2].objects.answers_left = None;
    second(&mut world);
    assert!(world.nodes[2].replica.status().diverged.is_some());
}

#[test]
fn a_replica_that_starts_from_a_snapshot_goes_on_with_its_digest() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.checkpoint(0);
    for sequence in 2..5 {
        world.call(0, 5, id(session, sequence), "b");
        second(&mut world);
    }
    let slot = world.nodes[2].replica.status().snapshot;
    assert!(slot > Slot::ZERO);
    let image = world.nodes[2].objects.images[&slot].clone();
    world.nodes.truncate(2);
    world.add(
        config(3, 2),
        Some(image.recovered()),
        Objects::restored(&image),
    );
    world.follow(2, 0);
    world.link_up(0, 2);
    world.link_up(1, 2);
    world.call(0, 5, id(session, 5), "c");
    second(&mut world);
    let digest = world.nodes[0].replica.status().digest;
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!((status.diverged, status.digest), (None, digest), "{at}");
        assert_eq!(differences(&world, at), []);
    }
    let is_quarantined = |(_, output): &(usize, Output<u32>)| {
        matches!(output, Output::Quarantined(Quarantine::Diverged { .. }))
    };
    assert!(!world.seen.iter().any(is_quarantined));
}

/// Claim rp-52.
#[test]
fn what_differed_before_a_reset_is_not_asked_about_after_it() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    for at in 0..3 {
        world.nodes[at].objects.state = at as u64;
    }
    world.nodes[1].is_cut = true;
    world.call(0, 5, id(session, 1), "a");
    second(&mut world);
    let asked = world.trails_asked;
    assert!(asked > 0, "two differ, and the third does not judge");
    world.loses_outcomes = true;
    world.nodes[1].is_cut = false;
    let slot = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().frozen, Some(slot));
    reset(&mut world, 0, 0);
    world.loses_outcomes = false;
    world.seen.clear();
    let asked = world.trails_asked;
    for sequence in 2..4 {
        world.call(1, 6, id(session, sequence), "b");
        second(&mut world);
    }
    assert_eq!(world.nodes[0].replica.status().frozen, None);
    assert_eq!(world.trails_asked, asked);
    for at in 0..3 {
        assert_eq!(differences(&world, at), [], "n{at}");
    }
}
