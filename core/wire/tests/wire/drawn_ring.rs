//! Messages along a ring, for each seed one.

use crate::draw::Draw;
use crate::drawn::{ballot, batch, node, slot};
use quorate_any::paxos::Message;
use quorate_any::paxos::message::{Gathered, Pass, RingWay};
use quorate_types::{NodeId, NodeSet};

pub(crate) fn ring_message(draw: &mut Draw) -> Message {
    if draw.flag() {
        return Message::Pass(pass(draw));
    }
    Message::Gathered(Gathered {
        ballot: ballot(draw),
        first: slot(draw),
        last: slot(draw),
        voters: draw.list(5, node).into_iter().collect(),
    })
}

fn pass(draw: &mut Draw) -> Pass {
    let ballot = ballot(draw);
    let mut named = NodeSet::only(node(draw));
    for node in draw.list(6, node) {
        named.insert(node);
    }
    let mut nodes: Vec<NodeId> = named.iter().filter(|node| *node != ballot.node).collect();
    if draw.flag() {
        nodes.reverse();
    }
    if nodes.is_empty() {
        nodes.push(NodeId((ballot.node.0 + 1) % 64));
    }
    let gathering = 1 + draw.below(nodes.len() as u64) as usize;
    Pass {
        ballot,
        slot: slot(draw),
        batch: batch(draw),
        decided: slot(draw),
        way: RingWay::new(nodes, gathering).expect("each once"),
    }
}
