//! Samples of what Fast Paxos instances say to each other.

use crate::samples::{BALLOT, LOW, Reader, Sample, VIEW, sample};
use crate::samples_peer::{batch, commands};
use quorate_any::AnyMessage;
use quorate_any::fast_paxos::message::{
    Accept, Any, AskBarrier, Barrier, Confirm, Confirmed, Current, Decided, Forward, Heard,
    Heartbeat, Learn, Learned, Nack, PreVote, PreVoted, Prepare, Propose, Seen, Survey, Surveyed,
    TakeOver, Trimmed, Voted,
};
use quorate_any::fast_paxos::{Message, Promise, Vote};
use quorate_replica::PeerMessage;
use quorate_types::{NodeId, Slot, ValueId, VoteKind, Wall};
use quorate_wire::{Kind, put_peer};

const VALUE: ValueId = ValueId {
    node: NodeId(3),
    boot: 5,
    number: 0x1_0002,
};

pub(crate) fn ordering() -> Vec<Sample> {
    let mut named = elections();
    named.extend(agreement());
    named.extend(reads_and_repair());
    let named = named.into_iter();
    let samples = named.map(|(name, message)| {
        sample(name, Reader::Message(Kind::Peer), |buf| {
            let (view, message) = (VIEW, AnyMessage::FastPaxos(message));
            put_peer(buf, &PeerMessage::Ordering { view, message });
        })
    });
    samples.collect()
}

fn elections() -> Vec<(&'static str, Message)> {
    let (ballot, decided) = (BALLOT, Slot(90));
    let pre_voted = PreVoted {
        attempt: 2,
        is_granted: true,
        promised: LOW,
        decided: Slot(91),
    };
    let heartbeat = Heartbeat {
        ballot,
        beat: 17,
        decided,
        any: Some(Slot(88)),
        recovered: Some(Slot(80)),
        current: Some(Box::new(Current {
            decided: Slot(89),
            heard: vec![(NodeId(2), 1 << 32 | 16)],
        })),
    };
    let heard = Heard {
        ballot,
        beat: 17,
        number: 2 << 32 | 9,
        decided,
        voted: Slot(93),
        is_voter: true,
    };
    let vote = |slot, kind| Vote {
        slot: Slot(slot),
        ballot: LOW,
        kind,
        batch: batch(),
    };
    let promise = Promise {
        ballot,
        from: Slot(91),
        votes: vec![vote(92, VoteKind::Fast(VALUE)), vote(94, VoteKind::Classic)],
        unknown: vec![Slot(97)],
        next: Some(Slot(95)),
        decided,
        trimmed: Slot(50),
        wall: Wall(0x7788),
    };
    let attempt = 2;
    vec![
        (
            "fast_pre_vote",
            Message::PreVote(PreVote { attempt, decided }),
        ),
        ("fast_pre_voted", Message::PreVoted(pre_voted)),
        (
            "fast_prepare",
            Message::Prepare(Prepare {
                ballot,
                from: Slot(91),
            }),
        ),
        ("fast_promise", Message::Promise(Box::new(promise))),
        (
            "fast_nack",
            Message::Nack(Nack {
                ballot: LOW,
                promised: ballot,
            }),
        ),
        ("fast_heartbeat", Message::Heartbeat(heartbeat)),
        ("fast_heard", Message::Heard(heard)),
        ("fast_take_over", Message::TakeOver(TakeOver { ballot })),
    ]
}

fn agreement() -> Vec<(&'static str, Message)> {
    let (ballot, slot, decided) = (BALLOT, Slot(92), Slot(90));
    let (value, batch) = (VALUE, batch());
    let propose = Propose {
        ballot,
        value,
        batch: batch.clone(),
    };
    let accept = Accept {
        ballot,
        slot,
        batch: batch.clone(),
        decided,
    };
    let voted = |kind| Message::Voted(Voted { ballot, slot, kind });
    let learned = Learned {
        from: Slot(88),
        batches: vec![batch],
        decided,
    };
    let forward = Forward {
        ballot,
        commands: commands(),
    };
    vec![
        ("fast_any", Message::Any(Any { ballot, from: slot })),
        ("fast_propose", Message::Propose(propose)),
        ("fast_accept", Message::Accept(accept)),
        ("fast_voted", voted(VoteKind::Fast(value))),
        ("fast_voted_classic", voted(VoteKind::Classic)),
        ("fast_seen", Message::Seen(Seen { ballot, slot })),
        (
            "fast_decided",
            Message::Decided(Decided {
                ballot,
                upto: decided,
            }),
        ),
        ("fast_learn", Message::Learn(Learn { from: Slot(88) })),
        ("fast_learned", Message::Learned(learned)),
        ("fast_trimmed", Message::Trimmed(Trimmed { upto: Slot(50) })),
        ("fast_forward", Message::Forward(forward)),
    ]
}

fn reads_and_repair() -> Vec<(&'static str, Message)> {
    let (ballot, epoch, request) = (BALLOT, 7, 6);
    let confirmed = Confirmed {
        ballot,
        epoch,
        voted: Slot(93),
    };
    let barrier = Barrier {
        request,
        barrier: Some(Slot(93)),
    };
    let surveyed = Surveyed {
        request,
        promised: LOW,
        voted: Slot(93),
    };
    let survey = Survey {
        request,
        above: LOW,
    };
    vec![
        ("fast_confirm", Message::Confirm(Confirm { ballot, epoch })),
        ("fast_confirmed", Message::Confirmed(confirmed)),
        (
            "fast_ask_barrier",
            Message::AskBarrier(AskBarrier { request }),
        ),
        ("fast_barrier", Message::Barrier(barrier)),
        ("fast_survey", Message::Survey(survey)),
        ("fast_surveyed", Message::Surveyed(surveyed)),
    ]
}
