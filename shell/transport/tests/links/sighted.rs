//! Nodes that come with less than their peers have seen of them.

use crate::{Node, free_addresses, until};
use quorate_transport::{Arrival, FrameLane, TransportLimits};
use quorate_types::{Finding, Recall, StartOfNode, Starts, ViewNumber};
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

fn starts(begun: &[(u64, u64)]) -> Starts {
    let mut starts = Starts::default();
    for (boot, begun) in begun.iter().copied() {
        starts.note(StartOfNode {
            boot,
            number: crate::reach(boot).start,
            begun,
        });
    }
    starts
}

/// Claim st-2.
#[test]
fn an_old_copy_of_a_node_is_told_so_by_who_saw_more_of_it_whoever_dials() {
    for (old, boot) in [(1, 2), (2, 2), (1, 3)] {
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
        let mut copy = Node::start(old, boot, &addresses, TransportLimits::default());
        // Another peer has told it more since its second start, and then it may have started once more.
        let begun = [(1, 0), (2, 300), (3, 600)];
        let (_, last) = begun[boot as usize - 1];
        let starts = starts(&begun[..boot as usize]);
        copy.transport
            .begin(Recall::Whole, ViewNumber(0), last, starts);
        copy.transport.set_commit(600);
        let mut witness = Node::start_after(3 - old, 2, &addresses, pasts);
        until(&mut [&mut copy, &mut witness], "a sighting", |nodes| {
            nodes[0].sighting().is_some()
        });
        assert_eq!(copy.sighting(), Some(Finding::OlderCopy));
        assert_eq!(witness.bodies().len(), 0);
        drop(copy);
        let mut observer = Node::start(old, 4, &addresses, TransportLimits::default());
        let starts = Starts::default();
        observer
            .transport
            .begin(Recall::Lost, ViewNumber(0), 300, starts);
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
