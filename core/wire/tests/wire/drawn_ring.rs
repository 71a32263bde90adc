//! Messages along a ring, and of values that are spread; for each seed one.

use crate::draw::Draw;
use crate::drawn::{ballot, batch, node, slot};
use crate::drawn_views::value_id;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::{
    Carried, Gathered, Hears, Holds, Named, Pass, PassId, RingWay, Spread, Want,
};
use quorate_types::{NodeId, NodeSet, Stamp, Wall};

pub(crate) fn ring_message(draw: &mut Draw) -> Message {
    if draw.flag() {
        return spread_message(draw);
    }
    if draw.flag() {
        return multicast_message(draw);
    }
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

fn spread_message(draw: &mut Draw) -> Message {
    match draw.below(4) {
        0 => Message::Spread(Spread {
            value: value_id(draw),
            commands: batch(draw).commands().to_vec(),
        }),
        1 => Message::Holds(Holds {
            values: draw.list(5, value_id),
        }),
        2 => Message::Named(Named {
            ballot: ballot(draw),
            slot: slot(draw),
            decided: slot(draw),
            stamp: Stamp {
                wall: Wall(draw.number()),
                entropy: draw.number(),
            },
            values: draw.list(5, value_id),
        }),
        _ => Message::Want(Want {
            ballot: ballot(draw),
            slot: slot(draw),
        }),
    }
}

fn multicast_message(draw: &mut Draw) -> Message {
    match draw.below(4) {
        0 => Message::Multicast(carried(draw)),
        1 => Message::Fetched(carried(draw)),
        2 => {
            let Pass {
                ballot,
                slot,
                decided,
                way,
                ..
            } = pass(draw);
            let hearing = 1 + draw.below(way.nodes().len() as u64) as usize;
            Message::PassId(PassId {
                ballot,
                slot,
                decided,
                way,
                hearing,
            })
        }
        _ => Message::Hears(Hears {
            ballot: ballot(draw),
            slot: draw.flag().then(|| slot(draw)),
        }),
    }
}

fn carried(draw: &mut Draw) -> Carried {
    Carried {
        ballot: ballot(draw),
        slot: slot(draw),
        batch: batch(draw),
    }
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
