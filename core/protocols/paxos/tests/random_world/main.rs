//! Seeded small worlds: lossy, repeating, reordering links, crashes with unsynced writes lost,
//! restarts, partitions; virtual time. Checks agreement, one resolution per submission, and that
//! everything is live again once faults stop. `SEED=7` replays one world, `SEEDS=5000` runs more. The
//! big simulator in `lab/sim` goes further.
#![expect(
    clippy::disallowed_methods,
    reason = "a test reads from its environment which seeds to run"
)]

use quorate_ordering::{Config, Flow, Ordering, ProposalReach, Record, Role};
use quorate_paxos::MultiPaxos;
use quorate_testkit::{World, WorldProtocol, adventure, view};
use quorate_types::{Duration, Level, NodeId, OrderingName, Persistence, Time, View};

struct Paxos;

impl WorldProtocol for Paxos {
    type Instance = MultiPaxos;

    fn start(config: Config, records: Vec<Record>, now: Time) -> MultiPaxos {
        let mut config = config;
        (config.limits.step_first_slots, config.limits.step_slots) = (2, 12);
        MultiPaxos::new(config, records, now).expect("its own records")
    }
}

/// The same, whose leaders ask the nearest majority, and send again without credit what is not acknowledged.
struct NearAndRetrying;

impl WorldProtocol for NearAndRetrying {
    type Instance = MultiPaxos;

    fn start(config: Config, records: Vec<Record>, now: Time) -> MultiPaxos {
        let mut config = config;
        config.limits.reach = ProposalReach::Nearest;
        config.limits.flow = Flow::Retry(Duration::from_millis(10));
        Paxos::start(config, records, now)
    }
}

/// A view of nodes that all vote.
fn voters(nodes: u16, persistence: Persistence, ordering: OrderingName) -> View {
    View {
        level: ordering.level().max(Level::BROADCAST),
        ordering,
        ..view(nodes, nodes, persistence)
    }
}

fn adventures(persistence: Persistence, ordering: OrderingName, seeds: std::ops::Range<u64>) {
    adventures_of::<Paxos>(persistence, ordering, seeds);
}

fn adventures_of<P: WorldProtocol<Instance = MultiPaxos>>(
    persistence: Persistence,
    ordering: OrderingName,
    seeds: std::ops::Range<u64>,
) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) => seeds,
    };
    let mut sums = (0, 0, 0);
    for seed in seeds {
        let nodes = if seed % 3 == 0 { 5 } else { 3 };
        let view = voters(nodes, persistence, ordering);
        let told = std::panic::catch_unwind(|| adventure::<P>(seed, view, None));
        let Ok(world) = told else {
            panic!("failed with SEED={seed}, {persistence:?}, {ordering}");
        };
        sums.0 += world.highest.0;
        sums.1 += world.confirmed;
        sums.2 += world.refused;
    }
    println!("{persistence:?}, {ordering}: slots, confirmed reads, refusals: {sums:?}");
}

/// Claim mp-47.
#[test]
fn nodes_with_disks_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Disk, OrderingName::Paxos, 0..60);
}

#[test]
fn nodes_in_memory_mode_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Memory, OrderingName::Paxos, 1000..1060);
}

/// Claim mp-57.
#[test]
fn nodes_that_count_votes_for_themselves_agree_through_misfortune() {
    adventures(Persistence::Disk, OrderingName::Libpaxos, 2000..2040);
    adventures(Persistence::Memory, OrderingName::Libpaxos, 3000..3020);
}

/// Claim mp-59.
#[test]
fn nodes_that_spare_slow_acceptors_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Disk, OrderingName::LibpaxosPlus, 4000..4040);
    adventures(Persistence::Memory, OrderingName::LibpaxosPlus, 5000..5020);
}

/// Claim mp-71.
#[test]
fn nodes_in_a_ring_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Disk, OrderingName::RingPaxos, 6000..6040);
    adventures(Persistence::Memory, OrderingName::RingPaxos, 7000..7020);
}

/// Claim mp-74.
#[test]
fn nodes_that_spread_values_agree_through_misfortune_and_are_live_after_it() {
    adventures(Persistence::Disk, OrderingName::SPaxos, 8000..8040);
    adventures(Persistence::Memory, OrderingName::SPaxos, 9000..9020);
}

#[test]
fn nodes_that_ask_the_nearest_and_send_again_agree_through_misfortune() {
    for (ordering, first) in [
        (OrderingName::Paxos, 10_000),
        (OrderingName::Libpaxos, 11_000),
        (OrderingName::SPaxos, 12_000),
    ] {
        let (disk, memory) = (first..first + 20, first + 500..first + 510);
        adventures_of::<NearAndRetrying>(Persistence::Disk, ordering, disk);
        adventures_of::<NearAndRetrying>(Persistence::Memory, ordering, memory);
    }
}

#[test]
fn a_quiet_group_keeps_its_first_leader_and_orders_everything() {
    let mut world = World::<Paxos>::new(7, view(3, 3, Persistence::Disk), None);
    world.run(1000);
    let leaders: Vec<NodeId> = (world.nodes.iter())
        .filter(|(_, node)| matches!(node.role, Role::Leader { .. }))
        .map(|(id, _)| *id)
        .collect();
    assert_eq!(leaders.len(), 1);
    for round in 0..300 {
        world.submit(NodeId(1 + round % 3));
        world.run(10);
    }
    assert_eq!(world.decided.len(), 300);
    let elections: u64 = (world.nodes.values())
        .map(|node| node.instance.as_ref().unwrap().status().elections)
        .sum();
    assert_eq!(elections, 1);
}

#[test]
fn a_leader_that_dies_is_replaced_within_a_tenth_of_a_second() {
    let mut outages = Vec::new();
    for seed in 1..=40 {
        let mut world = World::<Paxos>::new(seed, view(3, 3, Persistence::Disk), None);
        world.run(1000);
        let mut roles = world.nodes.iter();
        let leader = roles.find(|(_, node)| matches!(node.role, Role::Leader { .. }));
        let leader = *leader.expect("one leads").0;
        let other = world.view.nodes().without(leader).iter().next();
        for node in world.view.nodes().without(leader).iter() {
            world.read(node);
        }
        world.crash(leader);
        world.submit(other.expect("two are left"));
        let mut outage = 0;
        while world.decided.is_empty() {
            world.run(1);
            outage += 1;
            assert!(outage < 1000, "seed {seed}: nobody leads");
        }
        outages.push(outage);
        world.run(20);
        assert!(
            world.read_floor.is_empty(),
            "seed {seed}: reads asked of the dead leader are confirmed when writes are back"
        );
    }
    outages.sort_unstable();
    println!(
        "ms until the next decision, median and longest: {} {}",
        outages[20], outages[39]
    );
    assert!(outages[20] <= 50, "the median is short: {outages:?}");
    assert!(outages[39] <= 100, "even the longest is: {outages:?}");
}
