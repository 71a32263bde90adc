//! How commands are ordered is a part of the view: who may switch it, to what, and what that asks of the group's level.

use crate::views::{WINDOW, change, fill, refusal};
use crate::world::{World, id, meta, open};
use quorate_ordering::Effect;
use quorate_types::{
    Body, FromClient, Level, Levels, MemberChange, NodeId, OrderingName, Refusal, Slot, ToClient,
    ViewNumber,
};

const TOP: Level = Level(21);

/// Three nodes, linked and of a build that speaks all levels, in a group at this one.
fn world(level: Level) -> World {
    ordered(level, OrderingName::Paxos)
}

/// The same, ordered so.
fn ordered(level: Level, ordering: OrderingName) -> World {
    let world = World::with(3, |config| {
        config.view.window = WINDOW;
        (config.view.level, config.view.ordering) = (level, ordering);
        config.speaks = Levels::new(Level(19), TOP.max(level)).unwrap();
    });
    world.shared.borrow_mut().linked = vec![1, 2];
    world
}

fn switch(world: &mut World, after: u64, ordering: OrderingName) {
    let request = 50;
    let change = change(after, &[0, 1, 2]);
    world.say(
        0,
        request,
        FromClient::SwitchOrdering {
            request,
            change,
            ordering,
        },
    );
}

fn view_of(world: &World, at: usize) -> (ViewNumber, Level, OrderingName) {
    let view = world.nodes[at].replica.view();
    (view.number, view.level, view.ordering)
}

fn decided(world: &mut World, after: u64, who: MemberChange) -> Slot {
    let slot = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(after, &[0, 1, 2]),
        who: Box::new(who),
    })]);
    fill(world, WINDOW);
    slot
}

/// Claim rp-121.
#[test]
fn an_ordering_is_switched_at_its_level_and_the_one_who_asked_is_told_when_it_is_in_force() {
    let mut world = world(TOP);
    switch(&mut world, 1, OrderingName::LibpaxosPlus);
    fill(&mut world, WINDOW);
    let told = world.take_told(50);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { .. }]),
        "{told:?}"
    );
    let expected = (ViewNumber(2), TOP, OrderingName::LibpaxosPlus);
    assert_eq!([0, 1, 2].map(|at| view_of(&world, at)), [expected; 3]);
}

/// Claim rp-121.
#[test]
fn below_its_level_or_to_what_it_is_or_while_another_switch_is_not_over_nothing_is_switched() {
    let mut low = world(Level(20));
    switch(&mut low, 1, OrderingName::Libpaxos);
    assert_eq!(refusal(&mut low, 50), Some(Refusal::LevelNotSpoken));
    let mut world = world(TOP);
    switch(&mut world, 1, OrderingName::RingPaxos);
    assert_eq!(refusal(&mut world, 50), Some(Refusal::LevelNotSpoken));
    switch(&mut world, 1, OrderingName::Paxos);
    assert_eq!(refusal(&mut world, 50), Some(Refusal::NoSuchView));
    decided(
        &mut world,
        1,
        MemberChange::Ordering(OrderingName::Libpaxos),
    );
    switch(&mut world, 2, OrderingName::LibpaxosPlus);
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::ViewConflict),
        "view 1 is in no snapshot of a majority"
    );
    switch(&mut world, 1, OrderingName::LibpaxosPlus);
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::ViewConflict),
        "another switch came first"
    );
    let expected = (ViewNumber(2), TOP, OrderingName::Libpaxos);
    assert_eq!(view_of(&world, 1), expected);
}

/// Claim rp-121.
#[test]
fn no_decided_change_leaves_a_group_with_an_ordering_above_its_level() {
    let mut world = world(TOP);
    decided(
        &mut world,
        1,
        MemberChange::Ordering(OrderingName::Libpaxos),
    );
    decided(&mut world, 2, MemberChange::Level(Level(20)));
    let held = (ViewNumber(2), TOP, OrderingName::Libpaxos);
    assert_eq!(view_of(&world, 0), held, "the level has a user");
    world.checkpoint(0);
    decided(&mut world, 2, MemberChange::Ordering(OrderingName::Paxos));
    world.checkpoint(0);
    decided(&mut world, 3, MemberChange::Level(Level(20)));
    let lowered = (ViewNumber(4), Level(20), OrderingName::Paxos);
    assert_eq!(view_of(&world, 0), lowered);
    decided(
        &mut world,
        4,
        MemberChange::Ordering(OrderingName::Libpaxos),
    );
    assert_eq!(view_of(&world, 0), lowered, "its members need not know it");
}

/// Claim rp-121.
#[test]
fn spread_values_take_a_group_at_their_level_and_hold_it_there() {
    let mut low = ordered(Level::RING, OrderingName::RingPaxos);
    switch(&mut low, 1, OrderingName::SPaxos);
    assert_eq!(refusal(&mut low, 50), Some(Refusal::LevelNotSpoken));
    let top = Level::SPREAD_VALUES;
    let mut world = world(top);
    switch(&mut world, 1, OrderingName::SPaxos);
    fill(&mut world, WINDOW);
    let told = world.take_told(50);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { .. }]),
        "{told:?}"
    );
    let lower = MemberChange::Level(Level::RING);
    decided(&mut world, 2, lower.clone());
    let held = (ViewNumber(2), top, OrderingName::SPaxos);
    assert_eq!(
        [0, 1, 2].map(|at| view_of(&world, at)),
        [held; 3],
        "the level has a user"
    );
    world.checkpoint(0);
    decided(
        &mut world,
        2,
        MemberChange::Ordering(OrderingName::RingPaxos),
    );
    world.checkpoint(0);
    decided(&mut world, 3, lower);
    let lowered = (ViewNumber(4), Level::RING, OrderingName::RingPaxos);
    assert_eq!([0, 1, 2].map(|at| view_of(&world, at)), [lowered; 3]);
}

/// Claim rp-121.
#[test]
fn a_call_that_waits_while_spread_values_begin_or_end_is_answered_once() {
    let spread = OrderingName::SPaxos;
    for (before, after) in [
        (OrderingName::Paxos, spread),
        (spread, OrderingName::Paxos),
        (OrderingName::RingPaxos, spread),
        (spread, OrderingName::Libpaxos),
    ] {
        let mut world = ordered(Level::SPREAD_VALUES, before);
        let session = world.open(0, 9);
        world.shared.borrow_mut().holds_submissions = true;
        world.call(0, 9, id(session, 1), "a");
        let submitted = world.shared.borrow().submitted.clone();
        let [(0, waiting)] = &submitted[..] else {
            panic!("one command was submitted: {submitted:?}");
        };
        decided(&mut world, 1, MemberChange::Ordering(after));
        assert_eq!(world.outcome(9), None, "it waits");
        world.shared.borrow_mut().holds_submissions = false;
        let commands = vec![waiting.clone()];
        world.effect(0, Effect::Unordered { commands });
        world.run();
        let answers = world.take_told(9);
        let [ToClient::Replied { id: answered, .. }] = &answers[..] else {
            panic!("{before} to {after}: one answer, not {answers:?}");
        };
        assert_eq!(*answered, id(session, 1));
        // A copy of it, which another node took from the view before, is ordered as well.
        world.decide(vec![waiting.clone()]);
        fill(&mut world, 1);
        assert_eq!(world.take_told(9), [], "{before} to {after}");
        assert_eq!(view_of(&world, 0).2, after);
    }
}

/// A switch waited in a partition while the group went to a lower level: builds of that level, which may have come since, would find
/// it in the log and not read it.
///
/// Claim rp-121.
#[test]
fn a_switch_that_a_view_did_not_order_is_not_ordered_in_the_next_one() {
    let mut world = world(TOP);
    world.shared.borrow_mut().holds_submissions = true;
    switch(&mut world, 1, OrderingName::Libpaxos);
    let submitted = world.shared.borrow().submitted.clone();
    let [(0, waiting)] = &submitted[..] else {
        panic!("one command was submitted: {submitted:?}");
    };
    decided(&mut world, 1, MemberChange::Level(Level(20)));
    assert_eq!(refusal(&mut world, 50), None, "it waits");
    let commands = vec![waiting.clone()];
    world.effect(0, Effect::Unordered { commands });
    assert_eq!(refusal(&mut world, 50), Some(Refusal::ViewConflict));
    assert_eq!(world.nodes[0].replica.status().ordering.waiting, 0);
    let lowered = (ViewNumber(2), Level(20), OrderingName::Paxos);
    assert_eq!(view_of(&world, 0), lowered);
}

/// A client of a follower is sent to the leader where that one proposes, and stays where the follower does.
#[test]
fn clients_stay_with_the_node_that_proposes_what_it_is_called_with() {
    let led_to = |ordering: OrderingName| {
        let mut world = ordered(ordering.level().max(TOP), ordering);
        world.told.clear();
        world.say(1, 5, open(1));
        let named = world.told.iter().find_map(|(_, told)| match told {
            ToClient::Leader { leader } => Some(*leader),
            _ => None,
        });
        named.flatten()
    };
    assert_eq!(led_to(OrderingName::Paxos), Some(NodeId(0)));
    assert_eq!(led_to(OrderingName::RingPaxos), Some(NodeId(0)));
    assert_eq!(led_to(OrderingName::SPaxos), None);
    assert_eq!(led_to(OrderingName::FastPaxos), None);
}

/// A replica that has to fetch its state first answers nothing: its clients go to the leader.
#[test]
fn clients_of_a_replica_that_cannot_answer_are_sent_to_the_leader() {
    let mut world = ordered(OrderingName::SPaxos.level(), OrderingName::SPaxos);
    world.input(1, quorate_replica::Input::Host { is_up: false });
    world.told.clear();
    world.say(1, 5, open(1));
    let leader = Some(NodeId(0));
    let named = |(_, told): &(_, ToClient)| *told == ToClient::Leader { leader };
    assert!(world.told.iter().any(named), "{:?}", world.told);
}

/// Another leader is no reason to move either; that there is none is told.
#[test]
fn clients_stay_where_whoever_is_called_proposes_when_the_leader_changes() {
    let mut world = ordered(OrderingName::SPaxos.level(), OrderingName::SPaxos);
    world.say(1, 5, open(1));
    world.told.clear();
    let named = |world: &mut World| -> Vec<Option<NodeId>> {
        let told = std::mem::take(&mut world.told);
        let named = told.iter().filter_map(|(_, told)| match told {
            ToClient::Leader { leader } => Some(*leader),
            _ => None,
        });
        named.collect()
    };
    world.lead(2);
    assert_eq!(named(&mut world), []);
    let leader = None;
    world.effect(1, Effect::Role(quorate_ordering::Role::Follower { leader }));
    world.run();
    assert_eq!(named(&mut world), [None]);
}
