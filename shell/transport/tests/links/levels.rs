//! Builds of different levels: what their links speak, and who gets none.

use super::{Node, free_addresses, until};
use quorate_transport::{Arrival, FrameLane, GroupLevel, TransportLimits};
use quorate_types::{Level, Levels, NodeId, NodeSet, ViewNumber};
use quorate_wire::SPEAKS;
use std::collections::BTreeMap;

const LOW: Level = Level(19);
const HIGH: Level = Level(20);

fn start(own: u16, addresses: &[std::net::SocketAddr], (speaks, level): (Levels, Level)) -> Node {
    let limits = (TransportLimits::default(), None, BTreeMap::new());
    Node::of_build((own, 1), addresses, limits, (speaks, level))
}

fn spoken(node: &Node, peer: u16) -> Option<Levels> {
    node.transport.spoken_by(NodeId(peer))
}

/// What a node was told of levels.
fn told(node: &Node) -> Option<&str> {
    node.seen.iter().find_map(|arrival| match arrival {
        Arrival::Unspoken { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

#[test]
fn two_builds_speak_the_newest_level_that_both_do_whoever_dials() {
    for (first, second) in [
        (SPEAKS, Levels::UNNAMED),
        (Levels::UNNAMED, SPEAKS),
        (SPEAKS, SPEAKS),
    ] {
        let addresses = free_addresses(2);
        let mut one = start(1, &addresses, (first, LOW));
        let mut two = start(2, &addresses, (second, LOW));
        until(&mut [&mut one, &mut two], "a link", |nodes| {
            nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
        });
        // A build of 19 that dials is told nothing that it does not read.
        let heard = if first == SPEAKS { second } else { first };
        assert_eq!(spoken(&one, 2), Some(heard), "{first} to {second}");
        assert_eq!(spoken(&two, 1), Some(first), "{first} to {second}");
        assert_eq!(
            one.transport.has_lower_peers(),
            first != second && first == SPEAKS
        );
        one.send(2, FrameLane::Normal, b"after the reach");
        until(&mut [&mut one, &mut two], "a frame", |nodes| {
            !nodes[1].bodies().is_empty()
        });
    }
}

#[test]
fn who_does_not_speak_the_level_of_the_group_gets_no_link_and_is_told_why() {
    // Whoever dials says so at once; whoever is dialled hears it once both are known.
    for (own, other) in [(2, 1), (1, 2)] {
        let addresses = free_addresses(2);
        let mut raised = start(own, &addresses, (SPEAKS, HIGH));
        let mut older = start(other, &addresses, (Levels::UNNAMED, LOW));
        until(&mut [&mut raised, &mut older], "a refusal", |nodes| {
            told(nodes[1]).is_some()
        });
        let text = told(&older).expect("waited for");
        assert!(
            text.contains("asks for level 20 and you speak level 19"),
            "{text}"
        );
        assert_eq!(raised.link(other), None);
    }
}

#[test]
fn a_link_ends_when_the_group_is_raised_above_what_a_peer_speaks() {
    let addresses = free_addresses(3);
    let mut one = start(1, &addresses, (SPEAKS, LOW));
    let mut two = start(2, &addresses, (Levels::UNNAMED, LOW));
    let mut three = start(3, &addresses, (SPEAKS, LOW));
    until(&mut [&mut one, &mut two, &mut three], "links", |nodes| {
        nodes[0].link(2).is_some() && nodes[0].link(3).is_some()
    });
    let raised = GroupLevel {
        level: HIGH,
        view: ViewNumber(2),
    };
    let now = one.now();
    one.transport.set_level(raised, now);
    until(&mut [&mut one, &mut two, &mut three], "its end", |nodes| {
        told(nodes[1]).is_some()
    });
    assert!(one.link(2).is_none() && one.link(3).is_some());
    assert!(
        one.seen
            .iter()
            .any(|a| matches!(a, Arrival::Down { peer } if *peer == NodeId(2)))
    );
}

#[test]
fn who_cannot_read_what_is_to_be_said_loses_the_link_and_is_no_outcast() {
    let addresses = free_addresses(2);
    let mut one = start(1, &addresses, (SPEAKS, LOW));
    let mut two = start(2, &addresses, (Levels::UNNAMED, LOW));
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].link(2).is_some()
    });
    let all: NodeSet = [NodeId(2)].into_iter().collect();
    assert_eq!(one.transport.below(all, LOW), NodeSet::empty());
    let below = one.transport.below(all, HIGH);
    assert_eq!(below, all);
    let now = one.now();
    one.transport.cannot_read(below, HIGH, now);
    let ends = |node: &Node| {
        let mut seen = node.seen.iter();
        seen.any(|arrival| matches!(arrival, Arrival::Down { .. }))
    };
    until(&mut [&mut one, &mut two], "its end", |nodes| {
        ends(nodes[0]) && ends(nodes[1])
    });
    until(&mut [&mut one, &mut two], "another link", |nodes| {
        nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
    });
    assert_eq!(told(&two), None, "it may be linked to this group");
}

#[test]
fn builds_without_a_level_in_common_are_told_so() {
    let after = SPEAKS.newest().0 + 1;
    let later = Levels::new(Level(after), Level(after + 1)).expect("ascending");
    for (own, other) in [(2, 1), (1, 2)] {
        let addresses = free_addresses(2);
        let mut newer = start(own, &addresses, (later, Level(after)));
        let mut older = start(other, &addresses, (SPEAKS, LOW));
        let one_hears = |nodes: &[&mut Node]| nodes.iter().any(|node| told(node).is_some());
        until(&mut [&mut newer, &mut older], "a refusal", |nodes| {
            one_hears(nodes)
        });
        let text = told(&newer).or(told(&older)).expect("waited for");
        assert!(text.contains("there is none in common"), "{text}");
    }
}
