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
use quorate_testkit::{World, adventure};
use quorate_types::{NodeId, Persistence};
use staged::Fast;

fn adventures(persistence: Persistence, seeds: std::ops::Range<u64>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    };
    let mut sums = (0, 0, 0, 0);
    for seed in seeds {
        let nodes = [4, 3, 5, 4, 7][seed as usize % 5];
        let told = std::panic::catch_unwind(|| adventure::<Fast>(seed, nodes, persistence));
        let Ok(world) = told else {
            panic!("failed with SEED={seed}, {persistence:?}");
        };
        sums.0 += world.highest.0;
        sums.1 += world.confirmed;
        sums.2 += world.refused;
        sums.3 += world.copies;
    }
    println!("{persistence:?}: slots, confirmed reads, refusals, copies: {sums:?}");
}

#[test]
fn nodes_with_disks_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Disk, 0..100);
}

#[test]
fn nodes_in_memory_mode_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Memory, 1000..1060);
}

#[test]
fn a_quiet_group_turns_fast_and_orders_everything_once() {
    let mut world = World::<Fast>::new(7, 4, Persistence::Disk);
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
