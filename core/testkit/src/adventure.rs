//! What a random world goes through.

use crate::world::{World, WorldProtocol};
use quorate_types::{NodeId, Slot, View};
use std::collections::BTreeSet;

/// A life of misfortune, after which everything must be answered and live again. Returns the world at its end.
///
/// # Panics
/// When the protocol broke a promise.
#[must_use]
pub fn adventure<P: WorldProtocol>(seed: u64, view: View, damaged: Option<NodeId>) -> World<P> {
    let mut world = World::<P>::new(seed, view, damaged);
    for _ in 0..60 {
        for _ in 0..world.dice.below(6) {
            let id = world.some_node();
            world.submit(id);
            let id = world.some_node();
            world.read(id);
        }
        if world.dice.chance(40) {
            world.misfortune();
        }
        let pause = 1 + world.dice.below(150);
        world.run(pause);
    }
    world.heal();
    world.run(6000);
    for (id, node) in &world.nodes {
        assert!(
            node.open.is_empty(),
            "seed {seed}: {id} left {:?} open",
            node.open
        );
    }
    assert!(
        world.read_floor.is_empty(),
        "seed {seed}: every read is answered"
    );
    let before = world.decided.len();
    for id in world.view.nodes().iter() {
        world.submit(id);
    }
    world.run(1500);
    let after = world.decided.len();
    assert_eq!(
        after - before,
        world.nodes.len(),
        "seed {seed}: live once faults stop"
    );
    let ends: BTreeSet<Slot> = world.nodes.values().map(|node| node.executed).collect();
    assert_eq!(
        ends.len(),
        1,
        "seed {seed}: all nodes reach the same slot: {ends:?}"
    );
    world
}
