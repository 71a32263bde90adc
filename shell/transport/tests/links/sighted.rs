//! Nodes that come with less than their peers have seen of them.

use crate::{Node, free_addresses, until};
use quorate_transport::{Arrival, FrameLane, TransportLimits};
use quorate_types::{Finding, Recall, ViewNumber};
use std::collections::BTreeMap;

impl Node {
    fn sighting(&self) -> Option<Finding> {
        self.seen.iter().find_map(|arrival| match arrival {
            Arrival::Sighted { sighting, .. } => Some(sighting.finding),
            _ => None,
        })
    }
}

fn linked(one: &mut Node, two: &mut Node) {
    until(&mut [one, two], "a link", |nodes| {
        nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
    });
}

/// Claim st-2.
#[test]
fn an_old_copy_of_a_node_is_told_so_by_who_saw_more_of_it_whoever_dials() {
    for old in [1, 2] {
        let addresses = free_addresses(2);
        let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
        let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
        linked(&mut one, &mut two);
        let (goes, stays) = if old == 1 {
            (&mut one, &mut two)
        } else {
            (&mut two, &mut one)
        };
        goes.transport.set_commit(500);
        until(&mut [goes, stays], "the commit is known", |nodes| {
            nodes[1].transport.pasts()[0].1.commit == 500
        });
        let pasts: BTreeMap<_, _> = stays.transport.pasts().into_iter().collect();
        drop((one, two));
        let mut copy = Node::start(old, 2, &addresses, TransportLimits::default());
        copy.transport.begin(Recall::Whole, ViewNumber(0), 300);
        // Another peer has told it more since.
        copy.transport.set_commit(600);
        let mut witness = Node::start_after(3 - old, 2, &addresses, pasts);
        until(&mut [&mut copy, &mut witness], "a sighting", |nodes| {
            nodes[0].sighting().is_some()
        });
        assert_eq!(copy.sighting(), Some(Finding::OlderCopy));
        assert_eq!(witness.bodies().len(), 0);
        drop(copy);
        let mut observer = Node::start(old, 3, &addresses, TransportLimits::default());
        observer.transport.begin(Recall::Lost, ViewNumber(0), 300);
        witness.seen.clear();
        until(&mut [&mut observer, &mut witness], "its link", |nodes| {
            nodes[1].link(old).is_some()
        });
    }
}

/// Claim st-2.
#[test]
fn whoever_gets_a_message_knows_the_commit_that_it_rests_on() {
    let addresses = free_addresses(2);
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    linked(&mut one, &mut two);
    for commit in 1..=50 {
        one.transport.set_commit(commit);
        one.send(2, FrameLane::Normal, b"a vote");
        until(&mut [&mut one, &mut two], "the vote", |nodes| {
            nodes[1].bodies().len() as u64 == commit
        });
        assert_eq!(two.transport.pasts()[0].1.commit, commit);
    }
}
