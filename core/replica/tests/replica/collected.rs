//! What logs are trimmed for stays agreed after an operator's word, which covers it, where the reports that made it so are gone.

use crate::agreement::fetch;
use crate::views::WINDOW;
use crate::world::{Objects, World, call, config, meta};
use quorate_replica::{Output, Remembered, ReplicaConfig};
use quorate_types::{Body, Digest, Level, Levels, Slot};

/// Of a view in which logs are trimmed for a command that is decided.
fn collecting(config: &mut ReplicaConfig) {
    config.view.level = Level::COLLECTED;
    config.view.window = WINDOW;
    config.speaks = Levels::new(Level::UNNAMED, Level::COLLECTED).unwrap();
}

/// All hosts die at a call, a snapshot is asked for, and then an operator has the call skipped in any case. The third node hears no
/// report of the others, nor they of it. Returns the slot of the snapshot, which all take with this digest.
fn with_a_snapshot_before_the_word() -> (World, Slot, Digest) {
    let mut world = World::with(3, collecting);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    world.nodes[2].is_cut = true;
    let place = world.decide(vec![call(session, 1, 0, "poison")]);
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    world.decide(vec![meta(Body::Skip {
        slot: place,
        index: 0,
        is_unsafe: true,
    })]);
    world.run();
    let held = world.nodes[2].objects.images[&slot].recovered();
    let digest = Digest {
        replicated: held.core.digest(),
        state: held.digest,
    };
    (world, slot, digest)
}

/// Whether node 2 sends the snapshot to a node that lacks what logs are trimmed for.
fn is_served(world: &mut World, slot: Slot) -> bool {
    let out = fetch(world, 2, 1, slot);
    let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
    out.iter().any(is_chunk)
}

/// Claim rp-151.
#[test]
fn a_holder_that_heard_no_report_serves_after_an_operators_word_what_a_trim_names() {
    let (mut world, slot, digest) = with_a_snapshot_before_the_word();
    assert!(
        !is_served(&mut world, slot),
        "one of three is known to hold it"
    );
    let other = Digest {
        replicated: digest.replicated ^ 1,
        ..digest
    };
    let undecided = Slot(world.shared.borrow().last().0 + 1);
    for (slot, digest) in [(undecided, digest), (slot.previous(), other)] {
        world.decide(vec![meta(Body::Collect { slot, digest })]);
    }
    world.run();
    assert!(!is_served(&mut world, slot), "no trim names it");
    world.decide(vec![meta(Body::Collect { slot, digest })]);
    world.run();
    assert_eq!(world.nodes[2].replica.status().diverged, None);
    assert!(is_served(&mut world, slot));
}

/// Claim rp-151.
#[test]
fn a_holder_serves_after_a_restart_what_its_log_was_trimmed_for_whatever_an_operator_said_since() {
    for is_trimmed in [false, true] {
        let (mut world, slot, digest) = with_a_snapshot_before_the_word();
        let image = world.nodes[2].objects.images[&slot].clone();
        let remembered = Remembered {
            snapshot: Some(image.recovered()),
            agreed: is_trimmed.then_some((slot, digest)),
            ..Remembered::default()
        };
        world.nodes.truncate(2);
        for node in &mut world.nodes {
            node.is_cut = true;
        }
        let mut config = config(3, 2);
        collecting(&mut config);
        world.add_remembering(config, remembered, Objects::restored(&image));
        let applied = world.nodes[2].replica.status().applied;
        assert!(applied > slot, "it knows of the word: {applied}");
        assert_eq!(is_served(&mut world, slot), is_trimmed);
    }
}
