//! Seeded small worlds: lossy, repeating, reordering links, crashes with unsynced writes lost,
//! restarts, partitions; virtual time. Checks agreement, one resolution per submission, and that
//! everything is live again once faults stop. `SEED=7` replays one world, `SEEDS=5000` runs more.
#![expect(
    clippy::disallowed_methods,
    reason = "a test reads from its environment which seeds to run"
)]

mod staged;

use quorate_fast_paxos::FastPaxos;
use quorate_ordering::Ordering;
use quorate_testkit::{World, adventure, view};
use quorate_types::{NodeId, Persistence, View};
use staged::Fast;

/// Worlds of 3 to 7 acceptors.
fn voters(seed: u64, persistence: Persistence) -> View {
    let nodes = [4, 3, 5, 4, 7][seed as usize % 5];
    view(nodes, nodes, persistence)
}

fn adventures(
    view: impl Fn(u64) -> View + std::panic::RefUnwindSafe,
    damaged: Option<NodeId>,
    seeds: std::ops::Range<u64>,
) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    };
    let mut sums = (0, 0, 0, 0);
    for seed in seeds {
        let told = std::panic::catch_unwind(|| adventure::<Fast>(seed, view(seed), damaged));
        let Ok(world) = told else {
            panic!("failed with SEED={seed}");
        };
        sums.0 += world.highest.0;
        sums.1 += world.confirmed;
        sums.2 += world.refused;
        sums.3 += world.copies;
    }
    println!("slots, confirmed reads, refusals, copies: {sums:?}");
}

/// Claim fp-14.
#[test]
fn nodes_with_disks_agree_through_misfortune_and_are_live_after_it() {
    adventures(|seed| voters(seed, Persistence::Disk), None, 0..100);
}

#[test]
fn nodes_in_memory_mode_agree_through_misfortune_and_are_live_after_it() {
    adventures(|seed| voters(seed, Persistence::Memory), None, 1000..1060);
}

#[test]
fn nodes_without_a_vote_propose_and_learn() {
    adventures(|_| view(6, 4, Persistence::Disk), None, 2000..2040);
}

/// One node's disk loses records, named or not, whenever it stops.
#[test]
fn nodes_agree_although_the_log_of_one_is_damaged_again_and_again() {
    let damaged = Some(NodeId(2));
    adventures(|seed| voters(seed, Persistence::Disk), damaged, 3000..3100);
}

#[test]
fn a_quiet_group_turns_fast_and_orders_everything_once() {
    let mut world = World::<Fast>::new(7, view(4, 4, Persistence::Disk), None);
    world.run(1000);
    let is_fast = |world: &World<Fast>| {
        let mut nodes = world.nodes.values();
        nodes.all(|node| node.instance.as_ref().is_some_and(FastPaxos::is_fast))
    };
    assert!(is_fast(&world));
    for round in 0..300 {
        world.submit(NodeId(1 + round % 4));
        world.run(10);
    }
    assert_eq!(world.decided.len(), 300);
    assert_eq!(world.copies, 0);
    assert_eq!(world.highest.0, 300, "no slot is wasted");
    assert!(is_fast(&world));
    let instances = world.nodes.values().map(|node| node.instance.as_ref());
    let elections = instances.map(|instance| instance.unwrap().status().elections);
    assert_eq!(elections.sum::<u64>(), 1);
}
