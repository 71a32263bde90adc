//! Samples of what travels along a ring, and of values that are multicast.

use crate::samples::BALLOT;
use crate::samples_peer::batch;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::{Carried, Gathered, Hears, Pass, PassId, RingWay};
use quorate_types::{NodeId, Slot};

pub(crate) fn along_a_ring() -> Vec<(&'static str, Message)> {
    let (first, last) = (Slot(92), Slot(95));
    vec![
        (
            "pass",
            Message::Pass(Pass {
                ballot: BALLOT,
                slot: Slot(92),
                batch: batch(),
                decided: Slot(90),
                way: RingWay::new(vec![NodeId(5), NodeId(4), NodeId(1)], 2).expect("each once"),
            }),
        ),
        (
            "gathered",
            Message::Gathered(Gathered {
                ballot: BALLOT,
                first,
                last,
                voters: [NodeId(4), NodeId(5)].into_iter().collect(),
            }),
        ),
        ("multicast", Message::Multicast(carried())),
        ("fetched", Message::Fetched(carried())),
        (
            "pass_id",
            Message::PassId(PassId {
                ballot: BALLOT,
                slot: Slot(92),
                decided: Slot(90),
                way: RingWay::new(vec![NodeId(5), NodeId(4), NodeId(1)], 2).expect("each once"),
                hearing: 2,
            }),
        ),
        (
            "hears",
            Message::Hears(Hears {
                ballot: BALLOT,
                slot: Some(Slot(92)),
            }),
        ),
    ]
}

fn carried() -> Carried {
    Carried {
        ballot: BALLOT,
        slot: Slot(92),
        batch: batch(),
    }
}
