//! The level of the group: who is asked for it, when it is raised and lowered, and what becomes of a node that does not speak it.

use crate::views::{WINDOW, change, fill, refusal};
use crate::world::{World, config, meta};
use quorate_ordering::{Entry, LinkState, Ordering, Record, Standing, ViewPast};
use quorate_replica::{Input, Output, Remembered, Replica, ViewPasts};
use quorate_types::{
    Batch, Body, FirstBallot, FromClient, Level, Levels, MemberChange, NodeId, Refusal, Slot,
    Stamp, ToClient, ViewNumber,
};
use std::collections::BTreeMap;

const LOW: Level = Level(19);
const HIGH: Level = Level(20);

fn upto(newest: Level) -> Levels {
    Levels::new(LOW, newest).unwrap()
}

/// Three nodes of a build that speaks both levels.
fn world() -> World {
    World::with(3, |config| {
        config.view.window = WINDOW;
        config.speaks = upto(HIGH);
    })
}

fn set(world: &mut World, after: u64, level: Level) {
    let request = 50;
    let change = change(after, &[0, 1, 2]);
    world.say(
        0,
        request,
        FromClient::SetLevel {
            request,
            change,
            level,
        },
    );
}

/// Node 0 hears what a peer speaks.
fn hears(world: &mut World, peer: u16, speaks: Level) {
    let (peer, levels) = (NodeId(peer), upto(speaks));
    let boot = 1;
    world.input(0, Input::Greeted { peer, boot, levels });
}

fn level_of(world: &World, at: usize) -> (u64, Level) {
    let view = world.nodes[at].replica.view();
    (view.number.0, view.level)
}

/// Takes the group to a level by a decided change.
fn decided(world: &mut World, after: u64, level: Level) -> Slot {
    let slot = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(after, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(level)),
    })]);
    fill(world, WINDOW);
    slot.plus(WINDOW)
}

/// Claim rp-115.
#[test]
fn a_level_is_set_once_every_member_is_linked_and_speaks_it() {
    let mut world = world();
    world.shared.borrow_mut().linked = vec![1, 2];
    set(&mut world, 1, HIGH);
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::LevelNotSpoken),
        "nobody was heard"
    );
    hears(&mut world, 1, HIGH);
    hears(&mut world, 2, LOW);
    set(&mut world, 1, HIGH);
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::LevelNotSpoken),
        "node 2 does not speak it"
    );
    hears(&mut world, 2, HIGH);
    let (peer, state) = (NodeId(1), LinkState::Down);
    world.input(0, Input::Link { peer, state });
    set(&mut world, 1, HIGH);
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::LevelNotSpoken),
        "node 1 may be another build by now"
    );
    hears(&mut world, 1, HIGH);
    set(&mut world, 1, Level(21));
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::LevelNotSpoken),
        "this node does not speak it"
    );
    set(&mut world, 1, HIGH);
    fill(&mut world, WINDOW);
    let told = world.take_told(50);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { .. }]),
        "{told:?}"
    );
    assert_eq!(level_of(&world, 2), (2, HIGH));
}

/// Claim rp-115.
#[test]
fn a_node_that_does_not_speak_the_level_of_a_view_ends_and_has_no_vote_there() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        let is_older = config.own == NodeId(2);
        config.speaks = upto(if is_older { LOW } else { HIGH });
    });
    decided(&mut world, 1, HIGH);
    let ends = |at: usize| {
        let told = Output::LevelNotSpoken {
            level: HIGH,
            view: ViewNumber(2),
        };
        world
            .seen
            .iter()
            .any(|(node, output)| *node == at && *output == told)
    };
    assert!(ends(2) && !ends(0) && !ends(1));
    let votes = |at: usize| world.nodes[at].replica.may_vote();
    assert!(!votes(2) && votes(0) && votes(1));
}

/// Claim rp-116.
#[test]
fn the_higher_level_is_asked_for_until_what_was_decided_at_it_is_gone_from_the_log() {
    let mut world = world();
    let asked = |world: &World| world.nodes[0].replica.level_asked();
    assert_eq!(asked(&world), (LOW, ViewNumber(1)));
    let slot = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(HIGH)),
    })]);
    assert_eq!(
        asked(&world),
        (HIGH, ViewNumber(2)),
        "before its first slot {slot}"
    );
    fill(&mut world, WINDOW);
    world.checkpoint(0);
    let first = decided(&mut world, 2, LOW);
    assert_eq!(level_of(&world, 0), (3, LOW));
    assert_eq!(asked(&world).0, HIGH, "its log has the change");
    world.shared.borrow_mut().trimmed = first.previous();
    fill(&mut world, 1);
    assert_eq!(asked(&world), (LOW, ViewNumber(3)));
}

/// Claim rp-116.
#[test]
fn a_snapshot_of_a_lowered_group_names_no_higher_level() {
    let mut world = world();
    decided(&mut world, 1, HIGH);
    world.checkpoint(0);
    decided(&mut world, 2, LOW);
    world.checkpoint(0);
    let images = &world.nodes[0].objects.images;
    let core = images.values().last().expect("it took one").core.clone();
    let previous = core.previous.expect("there was one");
    assert_eq!(
        (core.view.level, previous.level, previous.number.0),
        (LOW, LOW, 2)
    );
}

/// It would change nothing, and the command is of a level that the members need not read.
#[test]
fn a_level_at_which_the_group_is_already_is_not_put_into_its_log() {
    let mut world = world();
    world.shared.borrow_mut().linked = vec![1, 2];
    hears(&mut world, 1, LOW);
    hears(&mut world, 2, LOW);
    set(&mut world, 1, LOW);
    assert_eq!(refusal(&mut world, 50), Some(Refusal::NoSuchView));
}

/// It has no effect, and is in the log all the same.
#[test]
fn a_change_of_the_level_that_came_too_late_is_asked_for_until_it_is_gone_from_the_log() {
    let mut world = world();
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Same),
    })]);
    let late = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(HIGH)),
    })]);
    fill(&mut world, WINDOW);
    assert_eq!(level_of(&world, 0), (2, LOW), "the other change came first");
    let asked = |world: &World| world.nodes[0].replica.level_asked().0;
    assert_eq!(asked(&world), HIGH, "slot {late} of its log is of level 20");
    world.shared.borrow_mut().trimmed = late;
    fill(&mut world, 1);
    assert_eq!(asked(&world), LOW);
}

/// What came later and needs a lower one asks for that one only.
#[test]
fn each_level_is_asked_for_until_what_needs_it_is_gone_from_the_log() {
    let mut world = world();
    let too_late = |who, first| {
        meta(Body::ChangeView {
            first,
            change: change(9, &[0, 1, 2]),
            who: Box::new(who),
        })
    };
    let (node, boot) = (NodeId(1), 1);
    let newest = world.decide(vec![too_late(
        MemberChange::Same,
        Some(FirstBallot { node, boot }),
    )]);
    world.decide(vec![too_late(MemberChange::Level(HIGH), None)]);
    let asked = |world: &World| world.nodes[0].replica.level_asked().0;
    assert_eq!(asked(&world), Level::FIRST_BALLOT);
    world.shared.borrow_mut().trimmed = newest;
    fill(&mut world, 1);
    assert_eq!(asked(&world), HIGH);
}

/// The second of two requests is ordered in the view that the first has made.
#[test]
fn a_second_wish_for_the_lower_level_is_of_the_higher_one() {
    let mut world = world();
    decided(&mut world, 1, HIGH);
    world.checkpoint(0);
    let first = decided(&mut world, 2, LOW);
    let late = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(2, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(LOW)),
    })]);
    assert!(late >= first, "it is beyond the last slot of view 2");
    world.shared.borrow_mut().trimmed = first.previous();
    fill(&mut world, 1);
    assert_eq!(
        world.nodes[0].replica.level_asked().0,
        HIGH,
        "slot {late} is in its log"
    );
}

/// A start from a snapshot of the lower level, over a log that has the higher one still.
#[test]
fn a_restarted_node_asks_for_the_level_of_what_its_log_has() {
    let mut world = world();
    decided(&mut world, 1, HIGH);
    world.checkpoint(0);
    let first = decided(&mut world, 2, LOW);
    let who = MemberChange::Level(LOW);
    let change = change(2, &[0, 1, 2]);
    let lowering = vec![meta(Body::ChangeView {
        first: None,
        change,
        who: Box::new(who),
    })];
    world.checkpoint(0);
    assert_eq!(
        world.nodes[0].replica.level_asked().0,
        HIGH,
        "nothing is trimmed"
    );
    let images = &world.nodes[0].objects.images;
    let recovered = images.values().last().expect("it took one").recovered();
    let mut own = config(3, 0);
    own.view.window = WINDOW;
    own.speaks = upto(HIGH);
    let view = recovered.core.view.configured(&own.view);
    let record = Record {
        view: quorate_types::ViewId {
            group: quorate_types::GroupId(1),
            number: ViewNumber(2),
        },
        entry: Entry::Chosen {
            slot: first.previous(),
            batch: Batch::new(Stamp::default(), lowering),
        },
    };
    let remembered = Remembered {
        snapshot: Some(recovered),
        views: ViewPasts {
            begun: ViewNumber(3),
            records: BTreeMap::from([(ViewNumber(2), vec![record])]),
            is_damaged: false,
        },
        ..Remembered::default()
    };
    let ordering = world.nodes[0].replica.ordering();
    let ordering = ordering.of_view(world.now, view, Standing::Voter, ViewPast::None);
    let (replica, _) = Replica::new(own, ordering, remembered, world.now);
    assert_eq!(
        replica.level_asked().0,
        HIGH,
        "its log has view 2 still, and it teaches it"
    );
}

/// A start in a directory whose group was lowered while votes of fast rounds lay in its log. Claim fp-18.
#[test]
fn votes_of_fast_rounds_in_a_log_ask_for_their_level() {
    let mut world = world();
    decided(&mut world, 1, LOW);
    world.checkpoint(0);
    let images = &world.nodes[0].objects.images;
    let recovered = images.values().last().expect("it took one").recovered();
    let mut own = config(3, 0);
    own.view.window = WINDOW;
    own.speaks = upto(Level::FAST_ROUNDS);
    let view = recovered.core.view.configured(&own.view);
    let of_view = |number| quorate_types::ViewId {
        group: quorate_types::GroupId(1),
        number: ViewNumber(number),
    };
    let asked = |kind| {
        let vote = Entry::Vote {
            slot: recovered.core.slot.plus(1),
            ballot: quorate_types::Ballot::ZERO,
            kind,
            batch: Batch::new(Stamp::default(), Vec::new()),
        };
        let record = Record {
            view: of_view(1),
            entry: vote,
        };
        let remembered = Remembered {
            snapshot: Some(recovered.clone()),
            views: ViewPasts {
                begun: ViewNumber(2),
                records: BTreeMap::from([(ViewNumber(1), vec![record])]),
                is_damaged: false,
            },
            ..Remembered::default()
        };
        let ordering = world.nodes[0].replica.ordering();
        let ordering = ordering.of_view(world.now, view.clone(), Standing::Voter, ViewPast::None);
        let (replica, _) = Replica::new(own.clone(), ordering, remembered, world.now);
        replica.level_asked().0
    };
    let value = quorate_types::ValueId {
        node: quorate_types::NodeId(2),
        boot: 1,
        number: 1,
    };
    assert_eq!(asked(quorate_types::VoteKind::Classic), LOW);
    assert_eq!(
        asked(quorate_types::VoteKind::Fast(value)),
        Level::FAST_ROUNDS
    );
}

/// Two steps down at a node that has trimmed nothing meanwhile.
#[test]
fn the_highest_of_several_levels_is_asked_for() {
    let top = Level(21);
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.speaks = Levels::new(LOW, top).unwrap();
    });
    decided(&mut world, 1, top);
    decided(&mut world, 2, HIGH);
    decided(&mut world, 3, LOW);
    assert_eq!(world.nodes[1].replica.level_asked().0, top);
}
