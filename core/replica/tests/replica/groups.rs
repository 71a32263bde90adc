//! The groups beside the first one: decided like a call, the same at every replica, and kept in snapshots.

use crate::views::{WINDOW, change, fill, world};
use crate::world::{World, meta, refused};
use bytes::Bytes;
use quorate_replica::limits::GROUP_CHANGES_WAITING;
use quorate_types::{
    Ask, Body, Duration, FromClient, GroupChange, GroupId, Incarnation, Level, Levels,
    MemberChange, NodeId, Refusal, Slot, ToClient,
};

fn create(name: &str, nodes: &[u16]) -> GroupChange {
    GroupChange::Create {
        name: name.to_owned(),
        nodes: nodes.iter().copied().map(NodeId).collect(),
        setup: Bytes::from_static(b"setup"),
    }
}

fn dropped(name: &str) -> GroupChange {
    let name = name.to_owned();
    GroupChange::Drop { name }
}

/// Asks node `node`; the slot since which it is so, or why not.
fn ask(world: &mut World, node: usize, change: GroupChange) -> Result<Slot, Refusal> {
    let request = 7;
    world.say(node, 90, FromClient::ChangeGroups { request, change });
    match &world.take_told(90)[..] {
        [ToClient::Checkpointed { request: 7, slot }] => Ok(*slot),
        [
            ToClient::Refused {
                ask: Ask::Request(7),
                refusal,
            },
        ] => Err(*refusal),
        told => panic!("no answer: {told:?}"),
    }
}

/// Claim rp-105.
#[test]
fn a_group_is_created_and_dropped_at_every_replica_in_one_slot() {
    let mut world = world();
    let slot = ask(&mut world, 1, create("orders", &[0, 2])).unwrap();
    let all = world.nodes[0].replica.groups().clone();
    let member = |node| {
        all[0]
            .member(NodeId(node))
            .map(|(_, member)| member.clone())
    };
    assert_eq!((all[0].name.as_str(), all[0].created), ("orders", slot));
    assert_eq!(all[0].id(), GroupId::named("orders"));
    let (one, two) = (member(0).unwrap(), member(2).unwrap());
    assert_ne!(one.incarnation, two.incarnation, "each its own");
    assert_eq!(member(1), None);
    for node in &world.nodes {
        assert_eq!(node.replica.groups(), &all);
    }
    let again = ask(&mut world, 2, create("orders", &[0, 2]));
    assert_eq!(again, Ok(slot), "a repeated request changes nothing");
    let other = ask(&mut world, 0, create("orders", &[0, 1]));
    assert_eq!(other, Err(Refusal::GroupExists));
    let strangers = ask(&mut world, 0, create("others", &[0, 9]));
    assert_eq!(strangers, Err(Refusal::ImpossibleGroup));
    assert!(ask(&mut world, 0, dropped("orders")).unwrap() > slot);
    let gone = ask(&mut world, 0, dropped("orders"));
    assert_eq!(gone, Err(Refusal::UnknownGroup));
    assert!(world.nodes[1].replica.groups().is_empty());
    let later = ask(&mut world, 0, create("orders", &[0, 2])).unwrap();
    let second = world.nodes[2].replica.groups()[0].clone();
    assert!(
        later > slot
            && second
                .member(NodeId(2))
                .is_some_and(|(_, member)| *member != two),
        "it is another group"
    );
}

/// Claim rp-105.
#[test]
fn snapshots_hold_the_groups() {
    let mut world = world();
    ask(&mut world, 0, create("before", &[0, 1, 2])).unwrap();
    world.shared.borrow_mut().deaf.insert(2);
    ask(&mut world, 0, create("missed", &[1])).unwrap();
    let slot = world.checkpoint(0);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(Duration::from_millis(2_000));
    let late = &world.nodes[2].replica;
    assert!(late.status().applied >= slot && slot > Slot(1));
    assert_eq!(late.groups(), world.nodes[0].replica.groups());
    assert_eq!(late.groups().len(), 2);
}

#[test]
fn changes_that_are_being_ordered_are_bounded() {
    let mut world = world();
    world.shared.borrow_mut().holds_submissions = true;
    for number in 0..=GROUP_CHANGES_WAITING as u64 {
        let change = create(&format!("g{number}"), &[0]);
        let request = number;
        world.say(0, 90, FromClient::ChangeGroups { request, change });
    }
    let ask = Ask::Request(GROUP_CHANGES_WAITING as u64);
    assert_eq!(world.take_told(90), [refused(ask, Refusal::Overloaded)]);
}

#[test]
fn only_the_first_group_decides_which_others_there_are() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.decides_groups = false;
    });
    let refused = ask(&mut world, 0, create("orders", &[0]));
    assert_eq!(refused, Err(Refusal::ImpossibleGroup));
    fill(&mut world, 1);
    assert!(world.nodes[0].replica.groups().is_empty());
}

fn serve(name: &str, node: u16, incarnation: u64) -> GroupChange {
    GroupChange::Serve {
        name: name.to_owned(),
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    }
}

/// Claim rp-105.
#[test]
fn a_node_is_named_for_a_group_later_only_where_all_members_read_it_and_then_the_level_stays() {
    let mut low = world();
    ask(&mut low, 1, create("orders", &[0, 2])).unwrap();
    let refused = ask(&mut low, 1, serve("orders", 1, 7));
    assert_eq!(refused, Err(Refusal::LevelNotSpoken));
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.level = GroupChange::SERVE_LEVEL;
        config.speaks = Levels::new(Level(19), GroupChange::SERVE_LEVEL).unwrap();
    });
    ask(&mut world, 1, create("orders", &[0, 2])).unwrap();
    let slot = ask(&mut world, 1, serve("orders", 1, 7)).unwrap();
    assert_eq!(ask(&mut world, 2, serve("orders", 1, 7)), Ok(slot), "again");
    for node in &world.nodes {
        let (since, member) = node.replica.groups()[0].member(NodeId(1)).unwrap();
        assert_eq!((since, member.incarnation), (slot, Incarnation(7)));
    }
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(Level(20))),
    })]);
    fill(&mut world, WINDOW);
    let level = world.nodes[0].replica.view().level;
    assert_eq!(
        level,
        GroupChange::SERVE_LEVEL,
        "snapshots say who was named"
    );
    ask(&mut world, 0, dropped("orders")).unwrap();
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 2]),
        who: Box::new(MemberChange::Level(Level(20))),
    })]);
    fill(&mut world, WINDOW);
    assert_eq!(world.nodes[0].replica.view().level, Level(20));
}
