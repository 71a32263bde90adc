//! What replicas say to each other, one message for each seed.

use crate::draw::Draw;
use crate::drawn::{counter, payload, session, slot};
use quorate_replica::{DiskRoom, OutcomeHash, OutcomeStep, OutcomeTrail, ReplicaMessage};
use quorate_types::{Digest, Slot, Wall};

pub(crate) fn replica_message(draw: &mut Draw) -> ReplicaMessage {
    match draw.below(12) {
        0 => ReplicaMessage::KeepAlive {
            session: session(draw),
            number: counter(draw),
        },
        1 => ReplicaMessage::KeptAlive {
            session: session(draw),
            number: counter(draw),
            is_alive: draw.flag(),
        },
        2 => ReplicaMessage::Durable {
            slot: slot(draw),
            digest: digest(draw),
            bytes: counter(draw),
        },
        3 => ReplicaMessage::Fetch {
            slot: slot(draw),
            offset: counter(draw),
        },
        4 => {
            let data = payload(draw);
            let offset = draw.of_any_size(40);
            ReplicaMessage::Chunk {
                slot: slot(draw),
                offset,
                total: offset + data.len() as u64 + draw.below(3),
                data,
            }
        }
        6 => ReplicaMessage::Clock {
            wall: Wall(draw.number()),
        },
        7 => ReplicaMessage::Room {
            room: [DiskRoom::Plenty, DiskRoom::Scarce, DiskRoom::Full][draw.below(3) as usize],
        },
        5 => ReplicaMessage::Agreed {
            slot: slot(draw),
            digest: digest(draw),
        },
        8 => ReplicaMessage::Outcomes {
            slot: slot(draw),
            digest: draw.number(),
        },
        9 => ReplicaMessage::Trail {
            asks: draw.flag(),
            trail: Box::new(trail(draw)),
        },
        10 => ReplicaMessage::NoSay {
            after: slot(draw),
            upto: slot(draw),
        },
        _ => ReplicaMessage::NoSnapshot { slot: slot(draw) },
    }
}

fn trail(draw: &mut Draw) -> OutcomeTrail {
    let after = draw.of_any_size(40);
    let mut upto = after;
    let mut calls = Vec::new();
    let steps = (0..draw.below(4)).map(|_| {
        upto += 1 + draw.below(3);
        let own = draw.below(3) as u32;
        calls.extend((0..own).map(|index| OutcomeHash {
            index,
            hash: draw.number() as u32,
        }));
        OutcomeStep {
            slot: Slot(upto),
            digest: draw.number(),
            calls: own,
        }
    });
    let steps = steps.collect();
    OutcomeTrail {
        after: Slot(after),
        digest: draw.number(),
        upto: Slot(upto + draw.below(3)),
        steps,
        calls,
    }
}

pub(crate) fn digest(draw: &mut Draw) -> Digest {
    Digest {
        replicated: draw.number(),
        state: std::array::from_fn(|_| draw.number() as u8),
    }
}
