//! Every reachable state of small worlds in which a group changes its view, visited on the real `Replica` over the real
//! Multi-Paxos: who votes in the second view differs from who votes in the first one, so the two overlap. Messages are lost and
//! overtake each other, nodes stand against each other in both views, and one may crash and start again from what it wrote.
//!
//! Abstracted away: time stands still (no timer fires, leases and pre-vote are off; a node stands for election by an action of
//! its own, in the view that is in force for it). Where a change names who leads the next view first, it is asked of a node that
//! leads, and each node looks at its clock once in the second view: who is to stand there at once does so then. A write becomes
//! durable at once unless the node crashes at the input that made it: then nothing that the input wrote is kept. A message that
//! is never delivered is a lost one. Always lost are heartbeats, refusals, forwards, word of trimmed slots, and proposals and
//! votes after the last slot of a world; whoever is behind learns of it by announcements, and by messages of the later view. All
//! messages between replicas that belong to no view are lost too: of clocks, outcomes, clients and snapshots. No snapshot is
//! taken, so the first view is never dropped and no third one begins. No client calls an object. All nodes are members all the
//! time. Links stand from the start, a crash breaks none. Everything else is the code that ships. The worlds are as large as half
//! a minute allows.

mod node;
#[cfg(feature = "zoo")]
mod planted;
mod truth;
mod world;

use quorate_types::{Level, NodeId};
use stateright::{Checker, HasDiscoveries, Model};
use world::{World, nodes};

/// Visits every state of a world, and counts them.
fn explore(world: World) -> usize {
    let checker = world
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    for (name, path) in checker.discoveries() {
        let path = path.into_vec();
        let is_breach = path.last().is_some_and(|(state, _)| state.breach.is_some());
        assert!(!is_breach, "not so: {name}\n{}", world::told(&path));
    }
    checker.assert_properties();
    checker.unique_state_count()
}

/// One of two acceptors is replaced. Nodes 1 and 2 stand in the first view, 2 and 3 in the second one.
fn replaced() -> World {
    let mut world = World::of(&[1, 2], &[2, 3]);
    world.changes.push((NodeId(2), nodes(&[2, 3])));
    world.stands = [[1, 1, 0, 0], [0, 1, 1, 0]];
    world
}

/// The same, in a view whose window is 2. Node 2 proposes something before the change, so the second view begins with slot 3 or
/// 4, depending on who leads.
fn replaced_sooner_or_later() -> World {
    let mut world = replaced();
    (world.window, world.slots) = (2, 4);
    world.invites = nodes(&[2]);
    world
}

/// Two changes that differ are proposed: by node 1 that 2 and 3 vote, by node 2 that all vote.
fn changed_twice() -> World {
    let mut world = World::of(&[1, 2], &[2, 3]);
    world.changes.push((NodeId(2), nodes(&[1, 2, 3])));
    world.stands = [[1, 1, 0, 0], [0, 1, 1, 0]];
    world
}

/// One acceptor becomes three.
fn grown() -> World {
    let mut world = World::of(&[1], &[1, 2, 3]);
    (world.window, world.slots) = (2, 3);
    world.stands = [[1, 0, 0, 0], [0, 1, 1, 0]];
    world
}

/// Of three acceptors one is left, which never led.
fn shrunk() -> World {
    let mut world = World::of(&[1, 2, 3], &[3]);
    world.changes.push((NodeId(2), nodes(&[3])));
    world.stands = [[1, 1, 0, 0], [0, 0, 1, 0]];
    world
}

/// One of three acceptors is replaced.
fn replaced_of_three() -> World {
    let mut world = World::of(&[1, 2, 3], &[2, 3, 4]);
    world.stands = [[1, 0, 0, 0], [0, 1, 0, 1]];
    world
}

/// One acceptor becomes three, and is named: it may lead the second view without promises, while another one stands there.
fn grown_by_its_leader() -> World {
    let mut world = grown();
    (world.level, world.slots) = (Level::FIRST_BALLOT, 4);
    world.stands = [[1, 0, 0, 0], [0, 1, 0, 0]];
    world
}

/// Of two acceptors the one that is asked for the change is replaced: the other one is named, whoever leads in the end.
fn succeeded() -> World {
    let mut world = World::of(&[1, 2], &[2, 3]);
    (world.window, world.slots) = (2, 4);
    world.level = Level::FIRST_BALLOT;
    world.stands = [[1, 1, 0, 0], [0, 0, 1, 0]];
    world
}

/// Claim rp-98.
#[test]
fn rivals_agree_wherever_the_second_view_begins() {
    assert_eq!(explore(replaced_sooner_or_later()), 276_737);
}

#[test]
fn rivals_agree_when_a_node_crashes_at_any_point_of_a_change() {
    let world = World {
        crashes: 1,
        ..replaced()
    };
    assert_eq!(explore(world), 139_258);
}

/// Claim mp-90.
#[test]
fn rivals_of_a_named_leader_agree_when_a_node_crashes_at_any_point() {
    let world = World {
        crashes: 1,
        ..grown_by_its_leader()
    };
    assert_eq!(explore(world), 593_821);
}

/// Claim mp-90.
#[test]
fn rivals_of_a_named_successor_agree_when_a_node_crashes_at_any_point() {
    let world = World {
        crashes: 1,
        ..succeeded()
    };
    assert_eq!(explore(world), 2_281_963);
}

#[test]
fn rivals_agree_when_every_message_of_a_change_may_be_lost_or_come_twice() {
    let world = World {
        deliveries: 2,
        ..replaced()
    };
    assert_eq!(explore(world), 707_303);
}

/// Claim rp-97.
#[test]
fn of_two_changes_the_first_counts_whoever_leads() {
    assert_eq!(explore(changed_twice()), 309_032);
}

#[test]
fn one_acceptor_becomes_three_when_a_node_crashes_at_any_point() {
    let world = World {
        crashes: 1,
        ..grown()
    };
    assert_eq!(explore(world), 414_627);
}

#[test]
fn three_acceptors_become_one() {
    assert_eq!(explore(shrunk()), 71_293);
}

#[test]
fn rivals_agree_in_the_view_that_replaced_one_of_three_acceptors() {
    assert_eq!(explore(replaced_of_three()), 1_276_137);
}
