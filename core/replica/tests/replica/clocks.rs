//! One wrong clock among several, and what agreed time makes of it.

use crate::world::{Objects, World, config, id};
use quorate_ordering::LinkState;
use quorate_replica::{Input, Output, limits};
use quorate_types::{Duration, NodeId, SessionId};

/// Ten years.
const YEARS: i64 = 10 * 365 * 24 * 3_600 * 1_000_000_000;

/// The newest stamp less the right time, in nanoseconds.
fn agreed_offset(world: &World) -> i64 {
    let shared = world.shared.borrow();
    let stamp = shared.log.last().expect("something is decided").stamp();
    stamp.wall.0.cast_signed() - world.right_wall().0.cast_signed()
}

fn call(world: &mut World, at: usize, session: SessionId, sequence: u64) {
    world.pass(Duration::from_millis(1_500));
    world.call(at, 5, id(session, sequence), "a");
}

fn assert_near(world: &World) {
    let bound = limits::CLOCK_BOUND.0.cast_signed();
    let off = agreed_offset(world);
    assert!(off.abs() <= 2 * bound, "agreed time is off by {off} ns");
}

/// Claim rp-30.
#[test]
fn a_leaders_clock_that_is_wrong_by_years_does_not_become_agreed_time() {
    for skew in [YEARS, -YEARS] {
        let mut world = World::new(3);
        world.nodes[0].skew = skew;
        let session = world.open(0, 5);
        for sequence in 1..5 {
            call(&mut world, 0, session, sequence);
            assert_near(&world);
        }
        let status = world.nodes[0].replica.status();
        assert!(
            status.clocks.own.abs() > YEARS / 2,
            "it is reported: {status:?}"
        );
        let told = |(at, output): &(usize, Output<u32>)| {
            *at == 0 && matches!(output, Output::ClocksDiffer(_))
        };
        assert!(world.seen.iter().any(told));
        assert_eq!(world.nodes[1].replica.status().clocks.own, 0);
    }
}

#[test]
fn a_followers_wrong_clock_moves_nothing() {
    for skew in [YEARS, -YEARS] {
        let mut world = World::new(3);
        world.nodes[2].skew = skew;
        let session = world.open(0, 5);
        call(&mut world, 0, session, 1);
        assert_near(&world);
        world.lead(1);
        call(&mut world, 1, session, 2);
        assert_near(&world);
    }
}

#[test]
fn a_leader_that_knows_no_majoritys_clocks_lets_agreed_time_run_on() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    call(&mut world, 0, session, 1);
    assert_near(&world);
    world.nodes.pop();
    world.add(config(3, 2), None, Objects::default());
    world.nodes[2].skew = YEARS;
    for node in 0..3 {
        world.nodes[node].is_cut = true;
    }
    let ballot = world.shared.borrow_mut().next_ballot(2);
    world.believe(2, ballot);
    world.call(2, 5, id(session, 2), "a");
    world.pass(Duration::from_millis(1_500));
    world.call(2, 5, id(session, 3), "a");
    assert_near(&world);
}

#[test]
fn agreed_time_that_is_ahead_is_reported_and_stands_until_it_is_right() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.skew = YEARS;
    }
    world.pass(Duration::from_millis(2_000));
    let session = world.open(0, 5);
    for node in &mut world.nodes {
        node.skew = 0;
    }
    world.pass(Duration::from_millis(2_000));
    let before = agreed_offset(&world);
    world.call(0, 5, id(session, 1), "a");
    assert!(agreed_offset(&world) <= before, "it runs ahead no further");
    assert!(world.nodes[0].replica.status().clocks.agreed > YEARS / 2);
}

/// Of five acceptors two clocks are wrong by `skews`, and a leader that has just started can hear of one right one.
fn two_wrong_clocks_of_three_known(skews: [i64; 2]) {
    let mut world = World::new(5);
    let session = world.open(0, 5);
    call(&mut world, 0, session, 1);
    assert_near(&world);
    world.nodes.pop();
    world.add(config(5, 4), None, Objects::default());
    let wrong = [4, 0];
    for (node, skew) in wrong.into_iter().zip(skews) {
        world.nodes[node].skew = skew;
    }
    for node in [1, 2] {
        world.nodes[node].is_cut = true;
    }
    let ballot = world.shared.borrow_mut().next_ballot(4);
    world.believe(4, ballot);
    for sequence in 2..20 {
        call(&mut world, 4, session, sequence);
        assert_near(&world);
    }
    for node in [1, 2] {
        world.nodes[node].is_cut = false;
    }
    for sequence in 20..24 {
        call(&mut world, 4, session, sequence);
        assert_near(&world);
    }
}

/// Claim rp-155.
#[test]
fn two_wrong_clocks_among_three_that_are_known_of_five_move_nothing() {
    for skews in [
        [YEARS, 2 * YEARS],
        [YEARS, -YEARS],
        [-YEARS, YEARS],
        [-YEARS, -2 * YEARS],
    ] {
        two_wrong_clocks_of_three_known(skews);
    }
}

/// Claim rp-155.
#[test]
fn a_clock_that_was_wrong_does_not_count_once_its_link_is_down() {
    for skew in [YEARS, -YEARS] {
        let mut world = World::new(3);
        let session = world.open(0, 5);
        world.nodes[1].skew = skew;
        call(&mut world, 0, session, 1);
        assert_near(&world);
        world.nodes[1].is_cut = true;
        let (peer, state) = (NodeId(1), LinkState::Down);
        world.input(0, Input::Link { peer, state });
        world.nodes[1].skew = 0;
        world.nodes[2].skew = skew;
        for sequence in 2..6 {
            call(&mut world, 0, session, sequence);
            assert_near(&world);
        }
    }
}

/// Claim rp-155.
#[test]
fn of_two_clocks_that_differ_by_years_neither_becomes_agreed_time() {
    for skew in [YEARS, -YEARS] {
        let mut world = World::new(2);
        let session = world.open(0, 5);
        call(&mut world, 0, session, 1);
        for wrong in 0..2 {
            world.nodes[wrong].skew = skew;
            for sequence in 0..5 {
                call(&mut world, 0, session, 2 + 5 * wrong as u64 + sequence);
                assert_near(&world);
            }
            world.nodes[wrong].skew = 0;
            world.pass(Duration::from_millis(1_500));
        }
    }
}
