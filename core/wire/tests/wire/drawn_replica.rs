//! What replicas say to each other, one message for each seed.

use crate::draw::Draw;
use crate::drawn::{attachment, counter, payload, refusal, session, slot};
use quorate_replica::{
    DiskRoom, KnownSign, KnownSigns, OutcomeHash, OutcomeStep, OutcomeTrail, ReplicaMessage,
    SignsMessage,
};
use quorate_types::{Digest, Duration, Slot, Wall};

pub(crate) fn replica_message(draw: &mut Draw) -> ReplicaMessage {
    match draw.below(13) {
        0 => ReplicaMessage::KeepAlive {
            session: session(draw),
            number: counter(draw),
            attachment: attachment(draw),
        },
        1 => ReplicaMessage::KeptAlive {
            session: session(draw),
            number: counter(draw),
            refused: draw.flag().then(|| refusal(draw)),
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
            votes: draw.below(2) == 0,
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
        11 => ReplicaMessage::Signs(signs_message(draw)),
        _ => ReplicaMessage::NoSnapshot { slot: slot(draw) },
    }
}

fn signs_message(draw: &mut Draw) -> SignsMessage {
    match draw.below(5) {
        0 => SignsMessage::Note {
            number: counter(draw),
            sessions: draw.list(5, |draw| (session(draw), attachment(draw))),
        },
        1 => SignsMessage::Noted {
            number: counter(draw),
        },
        2 => SignsMessage::Ask {
            number: counter(draw),
        },
        3 => SignsMessage::Closed {
            closes: draw.list(5, |draw| {
                (session(draw), attachment(draw), Duration(draw.number()))
            }),
        },
        _ => SignsMessage::Answer {
            number: counter(draw),
            is_all: draw.flag(),
            known: Box::new(KnownSigns {
                applied: slot(draw),
                others: draw.option(|draw| Duration(draw.number())),
                sees_after: draw.option(slot),
                ages: draw.list(5, |draw| KnownSign {
                    session: session(draw),
                    age: Duration(draw.number()),
                    attachment: attachment(draw),
                }),
            }),
        },
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
