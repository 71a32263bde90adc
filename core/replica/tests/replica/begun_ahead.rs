//! What log and directory of a node say of the view that follows, before that is in force.

use crate::views::{WINDOW, change, fill, view_of};
use crate::world::{World, config, meta};
use quorate_ordering::{Effect, Mark, Record, ViewPast};
use quorate_replica::{Input, Output, Remembered, ReplicaConfig, ViewPasts};
use quorate_types::{Body, MemberChange, Persistence, Slot, ViewNumber};

/// A view in which nodes 0 and 1 vote is decided to follow.
fn followed() -> World {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.persistence = Persistence::Disk;
    });
    world.decide(vec![meta(Body::ChangeView {
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Same),
        first: None,
    })]);
    world
}

/// What the log of a node is told of a view, and whether its directory is told that it began.
fn told_of(world: &mut World, at: usize, number: u64) -> (Option<Mark>, bool) {
    let seen = std::mem::take(&mut world.seen);
    let mut of_node = seen.iter().filter(|(node, _)| *node == at);
    let written = of_node.clone().find_map(|(_, output)| match output {
        Output::Persist { mark, record } if record.view.number == ViewNumber(number) => Some(*mark),
        _ => None,
    });
    let begun = of_node.any(|(_, output)| {
        matches!(output, Output::BeginView { number: begun, .. } if begun.0 == number)
    });
    (written, begun)
}

/// Claim rp-150.
#[test]
fn log_and_directory_know_of_the_next_view_before_it_is_in_force() {
    let mut world = followed();
    assert_eq!(view_of(&world, 0).0, 1);
    let (written, begun) = told_of(&mut world, 0, 2);
    let mark = written.expect("its log says that it takes part in the view");
    assert!(!begun, "the directory does not come first");
    world.input(0, Input::Persisted { mark });
    world.run();
    assert_eq!(told_of(&mut world, 0, 2), (None, true));
    fill(&mut world, WINDOW);
    assert_eq!(view_of(&world, 0).0, 2);
    assert_eq!(
        told_of(&mut world, 0, 2),
        (None, false),
        "nothing is left to say"
    );
    let past = |node| world.shared.borrow().pasts[&(node, ViewNumber(2))].clone();
    assert_eq!(past(0), ViewPast::Begun);
    assert_eq!(
        past(1),
        ViewPast::None,
        "its log has not said that it is written"
    );
    assert_eq!(
        past(2),
        ViewPast::None,
        "it does not vote there, and begins with the view"
    );
}

/// Claim rp-150.
#[test]
fn what_says_that_the_next_view_has_begun_outlives_a_trim_of_the_log_before_it_is_in_force() {
    let mut world = followed();
    world.seen.clear();
    let (upto, base) = (Slot(1), Vec::new());
    world.effect(0, Effect::Discard { upto, base });
    let base = world.seen.iter().find_map(|(at, output)| match output {
        Output::Discard { base, .. } if *at == 0 => Some(base.clone()),
        _ => None,
    });
    let base = base.expect("its log is trimmed");
    let says = |record: &Record| record.view.number == ViewNumber(2);
    assert!(
        base.iter().any(says),
        "a start would take it for lost: {base:?}"
    );
}

/// Until it is made good, what a damaged log says has begun tells of nothing. Claim rp-150.
#[test]
fn a_node_that_lost_records_says_nothing_of_the_next_view_before_it_is_in_force() {
    let adjust = |config: &mut ReplicaConfig| {
        config.view.window = WINDOW;
        config.view.persistence = Persistence::Disk;
    };
    let mut world = World::with(3, adjust);
    let mut again = config(3, 1);
    adjust(&mut again);
    again.boot = 2;
    let views = ViewPasts {
        begun: ViewNumber(1),
        is_damaged: true,
        ..ViewPasts::default()
    };
    let remembered = Remembered {
        views,
        ..Remembered::default()
    };
    world.restart_remembering(1, again, remembered);
    world.decide(vec![meta(Body::ChangeView {
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Same),
        first: None,
    })]);
    let seen = world.seen.clone();
    assert!(told_of(&mut world, 0, 2).0.is_some(), "the other one does");
    world.seen = seen;
    assert_eq!(told_of(&mut world, 1, 2), (None, false));
}
