//! Plants each bug that fast rounds can have, and shows that a test finds it.

mod staged;

use quorate_testkit::{adventure, view};
use quorate_types::zoo::{Plant, plant};
use quorate_types::{NodeId, Persistence};
use staged::{Fast, play_scripts};

/// Worlds with that many acceptors.
const NODES: [u16; 4] = [4, 3, 5, 7];

/// The first seed whose world breaks, of 60 for each number of acceptors.
fn breaking_world() -> Option<u64> {
    (0..240).find(|seed| {
        let nodes = NODES[*seed as usize % NODES.len()];
        let view = view(nodes, nodes, Persistence::Disk);
        let damaged = (seed % 8 > 3).then_some(NodeId(2));
        let world = || adventure::<Fast>(*seed, view, damaged);
        std::panic::catch_unwind(world).is_err()
    })
}

#[test]
fn each_planted_bug_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in Plant::FAST {
        plant(Some(bug));
        let is_seen = std::panic::catch_unwind(play_scripts).is_err();
        let seed = breaking_world();
        plant(None);
        println!("{bug:?}: by a script {is_seen}, by the world of seed {seed:?}");
        if !is_seen && seed.is_none() {
            missed.push(bug);
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "no test finds {missed:?}");
    play_scripts();
    assert_eq!(
        breaking_world(),
        None,
        "nothing is found where nothing is planted"
    );
}
