//! One wrong clock among several, and what agreed time makes of it.

use crate::world::{LINK, Objects, World, config, id, open};
use quorate_ordering::LinkState;
use quorate_replica::{Input, Output, PeerMessage, ReplicaMessage, limits};
use quorate_types::{Duration, NodeId, OrderingName, Quorums, SessionId, Slot, Wall};

/// Ten years.
const YEARS: i64 = 10 * 365 * 24 * 3_600 * 1_000_000_000;

const MS: i64 = 1_000_000;

fn newest_stamp(world: &World) -> Wall {
    let shared = world.shared.borrow();
    let newest = shared.log.last().expect("something is decided");
    newest.stamp().wall
}

/// The newest stamp less the right time, in nanoseconds.
fn agreed_offset(world: &World) -> i64 {
    newest_stamp(world).0.cast_signed() - world.right_wall().0.cast_signed()
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
    let ahead = newest_stamp(&world);
    for node in &mut world.nodes {
        node.skew = 0;
    }
    world.pass(Duration::from_millis(2_000));
    let before = agreed_offset(&world);
    world.call(0, 5, id(session, 1), "a");
    assert!(agreed_offset(&world) <= before, "it runs ahead no further");
    assert!(world.nodes[0].replica.status().clocks.agreed > YEARS / 2);
    // While it stands it does not run on in secret.
    world.pass(Duration::from_millis(20_000));
    for peer in [1, 2] {
        unlink(&mut world, peer);
    }
    call(&mut world, 0, session, 2);
    let went_on = newest_stamp(&world).0 - ahead.0;
    assert!(went_on < 3_000_000_000, "it went on by {went_on} ns");
}

#[test]
fn the_leaders_clock_counts_as_what_it_shows_where_agreed_time_is_ahead() {
    let mut world = World::new(2);
    for node in &mut world.nodes {
        node.skew = YEARS;
    }
    world.pass(Duration::from_millis(2_000));
    let session = world.open(0, 5);
    for node in &mut world.nodes {
        node.skew = 0;
    }
    world.pass(Duration::from_millis(2_000));
    for sequence in 1..8 {
        call(&mut world, 0, session, sequence);
        assert_near(&world);
    }
    assert!(world.nodes[0].replica.status().clocks.agreed > YEARS / 2);
}

/// Node 0 hears no more of `peer`, and is told so.
fn unlink(world: &mut World, peer: u16) {
    world.nodes[usize::from(peer)].is_cut = true;
    let (peer, state) = (NodeId(peer), LinkState::Down);
    world.input(0, Input::Link { peer, state });
}

#[test]
fn clocks_of_which_nothing_is_heard_for_a_while_are_taken_to_go_on() {
    for is_told in [false, true] {
        let mut world = World::new(3);
        let session = world.open(0, 5);
        for peer in [1, 2] {
            world.nodes[usize::from(peer)].is_cut = true;
            if is_told {
                unlink(&mut world, peer);
            }
        }
        for sequence in 1..8 {
            call(&mut world, 0, session, sequence);
            assert_near(&world);
        }
    }
}

/// Agreed time is ahead, and stands still where all clocks are known, while a node that hears nothing takes it to go on.
/// Claim rp-156.
#[test]
fn a_node_that_was_away_goes_on_from_what_others_have_stamped_meanwhile() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.skew = 10_000 * MS;
    }
    world.pass(Duration::from_millis(2_000));
    let session = world.open(0, 5);
    world.nodes[0].skew = 0;
    world.nodes[1].skew = 0;
    world.pass(Duration::from_millis(2_000));
    let (peer, state) = (NodeId(0), LinkState::Down);
    world.input(1, Input::Link { peer, state });
    world.nodes[1].is_cut = true;
    for sequence in 1..20 {
        call(&mut world, 0, session, sequence);
    }
    assert_near(&world);
    world.nodes[1].is_cut = false;
    world.call(0, 5, id(session, 20), "a");
    world.nodes[0].is_cut = true;
    world.lead(1);
    world.call(1, 5, id(session, 21), "a");
    assert_near(&world);
}

/// As before, and what others have stamped meanwhile reaches it only once it leads. Claim rp-156.
#[test]
fn a_node_that_leads_before_it_has_applied_what_others_stamped_does_not_go_on_from_its_own_reckoning()
 {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.skew = 10_000 * MS;
    }
    world.pass(Duration::from_millis(2_000));
    // It has led before.
    world.lead(1);
    world.lead(0);
    let session = world.open(0, 5);
    world.nodes[0].skew = 0;
    world.nodes[1].skew = 0;
    world.pass(Duration::from_millis(2_000));
    let (peer, state) = (NodeId(0), LinkState::Down);
    world.input(1, Input::Link { peer, state });
    world.nodes[1].is_cut = true;
    world.shared.borrow_mut().deaf.insert(1);
    for sequence in 1..20 {
        call(&mut world, 0, session, sequence);
    }
    assert_near(&world);
    world.nodes[1].is_cut = false;
    world.nodes[0].is_cut = true;
    world.lead(1);
    world.call(1, 5, id(session, 20), "a");
    assert_near(&world);
    world.shared.borrow_mut().deaf.clear();
    world.run();
    let before = newest_stamp(&world);
    for sequence in 21..24 {
        call(&mut world, 1, session, sequence);
        assert_near(&world);
    }
    let went_on = newest_stamp(&world).0 - before.0;
    assert!(went_on >= 4_500_000_000, "it went on by {went_on} ns only");
}

/// Each stamp is a while old when the node that made it, or another one, applies it. Claim rp-159.
#[test]
fn agreed_time_goes_on_where_nodes_stamp_that_do_not_lead() {
    for is_by_turns in [false, true] {
        let mut world = World::with(3, |config| {
            config.view.ordering = OrderingName::FastPaxos;
        });
        let session = world.open(0, 5);
        world.pass(Duration::from_millis(2_000));
        world.nodes[2].skew = YEARS;
        world.nodes[0].is_cut = true;
        for at in [1, 2] {
            let (peer, state) = (NodeId(0), LinkState::Down);
            world.input(at, Input::Link { peer, state });
        }
        world.pass(Duration::from_millis(2_000));
        let before = newest_stamp(&world);
        for sequence in 1..200 {
            let at = 1 + (sequence as usize % 2) * usize::from(is_by_turns);
            world.shared.borrow_mut().deaf.extend([0, 1, 2]);
            world.call(at, 5, id(session, sequence), "a");
            world.pass(Duration::from_millis(50));
            world.shared.borrow_mut().deaf.clear();
            world.run();
        }
        let went_on = newest_stamp(&world).0 - before.0;
        assert!(
            (13_000_000_000..15_000_000_000).contains(&went_on),
            "it went on by {went_on} ns"
        );
    }
}

#[test]
fn clocks_of_members_that_do_not_vote_do_not_count() {
    let mut world = World::with(5, |config| {
        config.view.acceptors = (0..3).map(NodeId).collect();
        config.view.quorums = Quorums::majority(3).expect("three vote");
    });
    let session = world.open(0, 5);
    for node in 2..5 {
        world.nodes[node].skew = YEARS;
    }
    call(&mut world, 0, session, 1);
    assert_near(&world);
}

/// Of four known clocks of five two are in the middle, and either may be the median of all.
#[test]
fn a_stamp_is_within_the_bound_of_every_clock_that_may_be_the_median() {
    let mut world = World::new(5);
    let session = world.open(0, 5);
    unlink(&mut world, 4);
    for (node, skew_ms) in [1_900, 0, 100, 1_000].into_iter().enumerate() {
        world.nodes[node].skew = skew_ms * MS;
    }
    call(&mut world, 0, session, 1);
    let off = agreed_offset(&world);
    let bound = limits::CLOCK_BOUND.0.cast_signed();
    assert!(off <= 100 * MS + bound, "agreed time is off by {off} ns");
    assert!(off >= 1_000 * MS - bound, "agreed time is off by {off} ns");
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
fn a_clock_that_comes_late_on_a_link_that_is_over_does_not_count() {
    for skew in [YEARS, -YEARS] {
        let mut world = World::new(3);
        let session = world.open(0, 5);
        call(&mut world, 0, session, 1);
        world.link_up(0, 1);
        world.nodes[1].is_cut = true;
        let (peer, state) = (NodeId(1), LinkState::Down);
        world.input(0, Input::Link { peer, state });
        let wall = Wall(world.right_wall().0.strict_add_signed(skew));
        let message = PeerMessage::Replica(ReplicaMessage::Clock { wall, votes: true });
        let (from, link) = (peer, LINK);
        world.input(
            0,
            Input::Peer {
                from,
                link,
                message,
            },
        );
        world.nodes[2].skew = skew;
        for sequence in 2..6 {
            call(&mut world, 0, session, sequence);
            assert_near(&world);
        }
    }
}

/// A group in which nothing is ordered yet. The clock of node 1 is wrong by `skew`, and node 0, which leads, hears nothing of `cut`.
fn new_group(nodes: u16, cut: &[usize], skew: i64) -> World {
    let mut world = World::without_leader(nodes, |_| {});
    world.nodes[1].skew = skew;
    for node in cut {
        world.nodes[*node].is_cut = true;
    }
    world.lead(0);
    world.pass(Duration::from_millis(1_500));
    world
}

/// Claim rp-155.
#[test]
fn a_new_group_waits_for_clocks_that_say_which_one_is_right() {
    for skew in [YEARS, -YEARS] {
        let mut world = new_group(3, &[2], skew);
        world.say(0, 5, open(1));
        let last = world.shared.borrow().last();
        assert_eq!(last, Slot::ZERO, "one of two clocks is wrong");
        world.nodes[2].is_cut = false;
        world.pass(Duration::from_millis(1_500));
        assert_near(&world);
    }
}

/// Claim rp-155.
#[test]
fn a_new_group_that_waits_in_vain_begins_with_the_median_of_the_clocks_that_are_known() {
    for skew in [YEARS, -YEARS] {
        let mut world = new_group(5, &[3, 4], skew);
        world.say(0, 5, open(1));
        let last = world.shared.borrow().last();
        assert_eq!(last, Slot::ZERO, "others may come");
        world.pass(limits::CLOCKS_AWAITED);
        assert_near(&world);
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
