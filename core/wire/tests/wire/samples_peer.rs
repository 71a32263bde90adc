//! Samples of what nodes say to each other.

use crate::samples::{
    ATTACHMENT, BALLOT, BROADCAST, ID, LOW, Reader, SECRET_HASH, SESSION, Sample, TENANCY, TENANT,
    TERMS, joining, payload, sample,
};
use crate::samples_ring;
use crate::samples_snapshot::{group_change, view_change};
use bytes::Bytes;
use quorate_any::AnyMessage;
use quorate_any::paxos::message::{
    Accept, Accepted, AskBarrier, Attested, Barrier, Confirm, Confirmed, Current, Decided, Forward,
    Heard, Heartbeat, Holds, Learn, Learned, Nack, Named, PreVote, PreVoted, Prepare, Returned,
    Seen, Spread, Survey, Surveyed, TakeOver, Trimmed, Want,
};
use quorate_any::paxos::{Message, Promise, Vote};
use quorate_replica::{
    DiskRoom, KnownSign, KnownSigns, OutcomeHash, OutcomeStep, OutcomeTrail, PeerMessage,
    ReplicaMessage, SignsMessage,
};
use quorate_types::*;
use quorate_wire::{Kind, put_peer};

// Longer than a screen: one sample a command.
pub(crate) fn commands() -> Vec<Command> {
    [
        Body::Call {
            object: ObjectId(1),
            payload: payload(),
        },
        Body::Open {
            hash: SECRET_HASH,
            terms: TERMS,
            tenant: TENANT,
        },
        Body::Resume {
            session: SESSION,
            tenant: TENANT,
            after: TENANCY,
        },
        Body::Close,
        Body::Expire {
            session: SESSION,
            judged_by: Slot(80),
        },
        Body::Lead { ballot: BALLOT },
        Body::Tick,
        Body::Read {
            reader: NodeId(2),
            boot: 9,
        },
        Body::Checkpoint,
        Body::Skip {
            slot: Slot(81),
            index: 3,
            is_unsafe: true,
        },
        Body::Died {
            reporter: NodeId(2),
            slot: Slot(81),
            index: 3,
            may_have_answered: true,
        },
        Body::Survived {
            reporter: NodeId(2),
            slot: Slot(81),
            index: 3,
        },
        Body::Retry {
            reporter: NodeId(2),
            slot: Slot(81),
            index: 3,
        },
        Body::Keep {
            reporter: NodeId(2),
        },
        Body::Reset {
            node: NodeId(2),
            boot: 9,
            slot: Slot(80),
            digest: Digest {
                replicated: 0x99aa,
                state: [7; 32],
            },
        },
        Body::Thaw {
            slot: Slot(81),
            digest: Digest {
                replicated: 0x99ab,
                state: [8; 32],
            },
        },
        Body::Collect {
            slot: Slot(82),
            digest: Digest {
                replicated: 0x99ac,
                state: [9; 32],
            },
        },
        Body::ChangeView {
            first: None,
            change: view_change(),
            who: Box::new(MemberChange::Same),
        },
        Body::ChangeView {
            first: None,
            change: view_change(),
            who: Box::new(MemberChange::Returns(Rejoin {
                node: NodeId(2),
                incarnation: Incarnation(0xfedc_ba98),
            })),
        },
        Body::ChangeView {
            first: None,
            change: view_change(),
            who: Box::new(MemberChange::Joins {
                member: joining(),
                invitation: SecretHash::default(),
                role: MemberRole::Replica,
            }),
        },
        Body::ChangeView {
            first: None,
            change: view_change(),
            who: Box::new(MemberChange::Joins {
                member: joining(),
                invitation: SecretHash::default(),
                role: MemberRole::Witness,
            }),
        },
        Body::ChangeView {
            first: None,
            change: view_change(),
            who: Box::new(MemberChange::Leaves(NodeId(2))),
        },
        Body::ChangeGroups {
            change: group_change(),
        },
        Body::ChangeView {
            first: Some(FirstBallot {
                node: NodeId(3),
                boot: 0x0102_0304,
            }),
            change: view_change(),
            who: Box::new(MemberChange::Same),
        },
        Body::Invite {
            invitation: SecretHash::default(),
            lasts: Duration::from_millis(8),
        },
    ]
    .map(|body| Command {
        id: ID,
        acknowledged: 5,
        body,
    })
    .into()
}

/// A batch with every kind of command.
pub(crate) fn batch() -> Batch {
    let stamp = Stamp {
        wall: Wall(0x1122_3344),
        entropy: 0x5566,
    };
    Batch::new(stamp, commands())
}

pub(crate) fn ordering() -> Vec<Sample> {
    let mut named = elections();
    named.extend(agreement());
    named.extend(samples_ring::along_a_ring());
    named.extend(of_spread_values());
    named.extend(reads_and_repair());
    named
        .into_iter()
        .map(|(name, message)| {
            sample(name, Reader::Message(Kind::Peer), |buf| {
                let view = crate::samples::VIEW;
                let message = AnyMessage::Paxos(message);
                put_peer(buf, &PeerMessage::Ordering { view, message });
            })
        })
        .collect()
}

fn elections() -> Vec<(&'static str, Message)> {
    vec![
        (
            "pre_vote",
            Message::PreVote(PreVote {
                attempt: 2,
                decided: Slot(90),
            }),
        ),
        (
            "pre_voted",
            Message::PreVoted(PreVoted {
                attempt: 2,
                is_granted: true,
                promised: LOW,
                decided: Slot(91),
            }),
        ),
        (
            "prepare",
            Message::Prepare(Prepare {
                ballot: BALLOT,
                from: Slot(91),
            }),
        ),
        ("promise", Message::Promise(Box::new(promise_page()))),
        (
            "nack",
            Message::Nack(Nack {
                ballot: LOW,
                promised: BALLOT,
            }),
        ),
        (
            "heartbeat",
            Message::Heartbeat(Heartbeat {
                ballot: BALLOT,
                beat: 17,
                decided: Slot(90),
                wants_lease: true,
                current: Some(Box::new(Current {
                    decided: Slot(89),
                    heard: vec![(NodeId(2), 1 << 32 | 16), (NodeId(3), 3 << 32 | 7)],
                })),
            }),
        ),
        (
            "heard",
            Message::Heard(Heard {
                ballot: BALLOT,
                beat: 17,
                number: 2 << 32 | 9,
                decided: Slot(90),
                is_voter: true,
                is_granted: false,
            }),
        ),
        ("take_over", Message::TakeOver(TakeOver { ballot: BALLOT })),
    ]
}

fn trail() -> OutcomeTrail {
    let step = |slot, digest, calls| OutcomeStep {
        slot: Slot(slot),
        digest,
        calls,
    };
    let hash = |index, hash| OutcomeHash { index, hash };
    OutcomeTrail {
        after: Slot(77),
        digest: 0x1111_2222_3333_4444,
        upto: Slot(80),
        steps: vec![step(78, 5, 1), step(80, 6, 2)],
        calls: vec![hash(0, 7), hash(1, 8), hash(3, 9)],
    }
}

fn promise_page() -> Promise {
    Promise {
        ballot: BALLOT,
        from: Slot(91),
        votes: vec![Vote {
            slot: Slot(92),
            ballot: LOW,
            kind: quorate_types::VoteKind::Classic,
            batch: batch(),
        }],
        unknown: vec![Slot(97), Slot(98)],
        next: Some(Slot(93)),
        decided: Slot(90),
        trimmed: Slot(50),
        wall: Wall(0x7788),
    }
}

fn of_spread_values() -> Vec<(&'static str, Message)> {
    let value = |node, number| ValueId {
        node: NodeId(node),
        boot: 3,
        number,
    };
    vec![
        (
            "spread",
            Message::Spread(Spread {
                value: value(5, 7),
                commands: batch().commands().to_vec(),
            }),
        ),
        (
            "holds",
            Message::Holds(Holds {
                values: vec![value(5, 7), value(4, 9)],
            }),
        ),
        (
            "named",
            Message::Named(Named {
                ballot: BALLOT,
                slot: Slot(92),
                decided: Slot(90),
                stamp: batch().stamp(),
                values: vec![value(5, 7), value(4, 9)],
            }),
        ),
        (
            "want",
            Message::Want(Want {
                ballot: BALLOT,
                slot: Slot(92),
            }),
        ),
    ]
}

fn agreement() -> Vec<(&'static str, Message)> {
    let (first, last) = (Slot(92), Slot(95));
    vec![
        (
            "accept",
            Message::Accept(Accept {
                ballot: BALLOT,
                slot: Slot(92),
                batch: batch(),
                decided: Slot(90),
            }),
        ),
        (
            "accepted",
            Message::Accepted(Accepted {
                ballot: BALLOT,
                first,
                last,
            }),
        ),
        (
            "seen",
            Message::Seen(Seen {
                ballot: BALLOT,
                first,
                last,
            }),
        ),
        (
            "decided",
            Message::Decided(Decided {
                ballot: BALLOT,
                upto: Slot(92),
            }),
        ),
        (
            "forward",
            Message::Forward(Forward {
                ballot: BALLOT,
                number: 12,
                commands: commands(),
            }),
        ),
        (
            "returned",
            Message::Returned(Returned {
                number: 12,
                commands: vec![ID],
                refusal: Refusal::NotOrdered,
            }),
        ),
    ]
}

fn reads_and_repair() -> Vec<(&'static str, Message)> {
    vec![
        ("learn", Message::Learn(Learn { from: Slot(60) })),
        (
            "learned",
            Message::Learned(Learned {
                from: Slot(60),
                batches: vec![batch(), Batch::noop()],
                decided: Slot(90),
            }),
        ),
        ("trimmed", Message::Trimmed(Trimmed { upto: Slot(50) })),
        (
            "confirm",
            Message::Confirm(Confirm {
                ballot: BALLOT,
                epoch: 21,
            }),
        ),
        (
            "confirmed",
            Message::Confirmed(Confirmed {
                ballot: BALLOT,
                epoch: 21,
                voted: Slot(95),
            }),
        ),
        (
            "attested",
            Message::Attested(Attested {
                ballot: BALLOT,
                read: BROADCAST,
                voted: Slot(95),
            }),
        ),
        (
            "ask_barrier",
            Message::AskBarrier(AskBarrier { request: 12 }),
        ),
        (
            "barrier",
            Message::Barrier(Barrier {
                request: 12,
                barrier: Some(Slot(95)),
            }),
        ),
        ("survey", Message::Survey(Survey { request: 14 })),
        (
            "surveyed",
            Message::Surveyed(Surveyed {
                request: 14,
                promised: BALLOT,
                voted: Slot(95),
            }),
        ),
    ]
}

pub(crate) const DIGEST: Digest = Digest {
    replicated: 0x99aa,
    state: [0xdd; 32],
};

// Longer than a screen: one sample a message.
pub(crate) fn replica() -> Vec<Sample> {
    [
        (
            "replica_keep_alive",
            ReplicaMessage::KeepAlive {
                session: SESSION,
                number: 81,
                attachment: ATTACHMENT,
            },
        ),
        (
            "replica_kept_alive",
            ReplicaMessage::KeptAlive {
                session: SESSION,
                number: 81,
                refused: Some(Refusal::Superseded),
            },
        ),
        (
            "replica_note",
            ReplicaMessage::Signs(SignsMessage::Note {
                number: 82,
                sessions: vec![(SESSION, ATTACHMENT)],
            }),
        ),
        (
            "replica_noted",
            ReplicaMessage::Signs(SignsMessage::Noted { number: 82 }),
        ),
        (
            "replica_ask_signs",
            ReplicaMessage::Signs(SignsMessage::Ask { number: 83 }),
        ),
        (
            "replica_signs",
            ReplicaMessage::Signs(SignsMessage::Answer {
                number: 83,
                is_all: true,
                known: Box::new(KnownSigns {
                    applied: Slot(80),
                    others: Some(Duration(7)),
                    sees_after: Some(Slot(78)),
                    ages: vec![KnownSign {
                        session: SESSION,
                        age: Duration(9),
                        attachment: ATTACHMENT,
                    }],
                }),
            }),
        ),
        (
            "replica_closed",
            ReplicaMessage::Signs(SignsMessage::Closed {
                closes: vec![(SESSION, ATTACHMENT, Duration(9))],
            }),
        ),
        (
            "replica_durable",
            ReplicaMessage::Durable {
                slot: Slot(80),
                digest: DIGEST,
                bytes: 4096,
            },
        ),
        (
            "replica_agreed",
            ReplicaMessage::Agreed {
                slot: Slot(80),
                digest: DIGEST,
            },
        ),
        (
            "replica_clock",
            ReplicaMessage::Clock {
                wall: Wall(0x0123_4567_89ab_cdef),
                votes: true,
            },
        ),
        (
            "replica_room",
            ReplicaMessage::Room {
                room: DiskRoom::Full,
            },
        ),
        (
            "replica_outcomes",
            ReplicaMessage::Outcomes {
                slot: Slot(80),
                digest: 0x0123_4567_89ab_cdef,
            },
        ),
        (
            "replica_trail",
            ReplicaMessage::Trail {
                asks: true,
                trail: Box::new(trail()),
            },
        ),
        (
            "replica_fetch",
            ReplicaMessage::Fetch {
                slot: Slot(80),
                offset: 1024,
            },
        ),
        (
            "replica_chunk",
            ReplicaMessage::Chunk {
                slot: Slot(80),
                offset: 1024,
                total: 4096,
                data: Bytes::from_static(b"piece"),
            },
        ),
        (
            "replica_no_snapshot",
            ReplicaMessage::NoSnapshot { slot: Slot(80) },
        ),
        (
            "replica_no_say",
            ReplicaMessage::NoSay {
                after: Slot(70),
                upto: Slot(80),
            },
        ),
    ]
    .map(|(name, message)| {
        sample(name, Reader::Message(Kind::Peer), |buf| {
            put_peer(buf, &PeerMessage::Replica(message));
        })
    })
    .into()
}
