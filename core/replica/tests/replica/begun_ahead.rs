//! What log and directory of a node say of the view that follows, before that is in force.

use crate::views::{WINDOW, change, told_of};
use crate::world::{World, config, meta};
use quorate_ordering::{Effect, Record};
use quorate_replica::{Output, Remembered, ReplicaConfig, ViewPasts};
use quorate_types::{Body, MemberChange, Persistence, Slot, ViewNumber};

/// Claim rp-150.
#[test]
fn what_says_that_the_next_view_has_begun_outlives_a_trim_of_the_log_before_it_is_in_force() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.persistence = Persistence::Disk;
    });
    world.decide(vec![meta(Body::ChangeView {
        change: change(1, &[0, 1]),
        who: MemberChange::Same,
        first: None,
    })]);
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
        who: MemberChange::Same,
        first: None,
    })]);
    let seen = world.seen.clone();
    assert!(told_of(&mut world, 0, 2).0.is_some(), "the other one does");
    world.seen = seen;
    assert_eq!(told_of(&mut world, 1, 2), (None, false));
}
