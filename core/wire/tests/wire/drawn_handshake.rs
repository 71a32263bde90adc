//! The first frames of a connection, drawn for each seed.

use crate::draw::Draw;
use crate::drawn::{counter, node, object, payload};
use quorate_types::*;
use quorate_wire::{Hello, HelloRole, ObjectEntry, Reject, RejectReason, VERSION, Welcome};

pub(crate) fn hello(draw: &mut Draw) -> Hello {
    Hello {
        version_min: draw.number() as u16,
        version_max: draw.number() as u16,
        cluster: draw.option(|draw| ClusterId(draw.number())),
        role: if draw.flag() {
            HelloRole::Node {
                node: node(draw),
                incarnation: Incarnation(draw.number()),
                boot: counter(draw),
                groups: draw.list(4, |draw| GroupId(draw.number() as u32)),
            }
        } else {
            HelloRole::Client {
                group: GroupId(draw.number() as u32),
            }
        },
        software: draw.text(30),
        extra: payload(draw),
    }
}

pub(crate) fn welcome(draw: &mut Draw) -> Welcome {
    Welcome {
        version: VERSION,
        cluster: ClusterId(draw.number()),
        node: node(draw),
        incarnation: Incarnation(draw.number()),
        boot: counter(draw),
        group: GroupId(draw.number() as u32),
        view: ViewNumber(counter(draw)),
        members: draw.list(4, |draw| (node(draw), draw.text(30))),
        objects: draw.list(4, |draw| ObjectEntry {
            id: object(draw),
            name: draw.text(10),
            class: draw.text(30),
        }),
        leader: draw.option(node),
    }
}

pub(crate) fn reach(draw: &mut Draw) -> Reach {
    Reach {
        boot: counter(draw),
        start: draw.number(),
        commit: counter(draw),
        recall: match draw.below(3) {
            0 => Recall::Whole,
            1 => Recall::Damaged,
            _ => Recall::Lost,
        },
        since: ViewNumber(counter(draw)),
        starts: starts(draw),
    }
}

fn starts(draw: &mut Draw) -> Starts {
    let mut starts = Starts::default();
    for _ in 0..draw.below(Starts::MAX as u64 + 1) {
        starts.note(StartOfNode {
            boot: counter(draw),
            number: draw.number(),
            begun: counter(draw),
        });
    }
    starts
}

pub(crate) fn sighting(draw: &mut Draw) -> Sighting {
    let finding = if draw.flag() {
        Finding::OlderCopy
    } else {
        Finding::BootUsed
    };
    let boot = counter(draw);
    Sighting { boot, finding }
}

pub(crate) fn reject(draw: &mut Draw) -> Reject {
    let reason = match draw.below(3) {
        0 => RejectReason::Cluster,
        1 => RejectReason::Stopping,
        _ => RejectReason::Other(200 + draw.below(50) as u8),
    };
    Reject {
        reason,
        text: draw.text(60),
    }
}
