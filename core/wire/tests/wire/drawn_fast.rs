//! Messages of Fast Paxos, drawn at random.

use crate::draw::Draw;
use crate::drawn::{ballot, batch, command, counter, node, slot};
use crate::drawn_views::{value_id, vote_kind};
use quorate_any::fast_paxos::message::{
    Accept, Any, AskBarrier, Barrier, Confirm, Confirmed, Current, Decided, Forward, Heard,
    Heartbeat, Learn, Learned, Nack, PreVote, PreVoted, Prepare, Propose, Seen, Survey, Surveyed,
    TakeOver, Trimmed, Voted,
};
use quorate_any::fast_paxos::{Message, Promise, Vote};
use quorate_types::{VoteKind, Wall};

pub(crate) fn message(draw: &mut Draw) -> Message {
    match draw.below(2) {
        0 => election_or_agreement(draw),
        _ => other_message(draw),
    }
}

/// A page of a promise, whose votes are of drawn kinds.
pub(crate) fn promise(draw: &mut Draw, kind: impl Fn(&mut Draw) -> VoteKind) -> Promise {
    Promise {
        ballot: ballot(draw),
        from: slot(draw),
        votes: draw.list(4, |draw| Vote {
            slot: slot(draw),
            ballot: ballot(draw),
            kind: kind(draw),
            batch: batch(draw),
        }),
        unknown: draw.list(3, slot),
        next: draw.option(slot),
        decided: slot(draw),
        trimmed: slot(draw),
        wall: Wall(draw.number()),
    }
}

// Longer than a screen: one arm a message.
fn election_or_agreement(draw: &mut Draw) -> Message {
    match draw.below(13) {
        0 => Message::PreVote(PreVote {
            attempt: counter(draw),
            decided: slot(draw),
        }),
        1 => Message::PreVoted(PreVoted {
            attempt: counter(draw),
            is_granted: draw.flag(),
            promised: ballot(draw),
            decided: slot(draw),
        }),
        2 => Message::Prepare(Prepare {
            ballot: ballot(draw),
            from: slot(draw),
        }),
        3 => Message::Promise(Box::new(promise(draw, vote_kind))),
        4 => Message::Nack(Nack {
            ballot: ballot(draw),
            promised: ballot(draw),
        }),
        5 => Message::Any(Any {
            ballot: ballot(draw),
            from: slot(draw),
        }),
        6 => Message::Propose(Propose {
            ballot: ballot(draw),
            value: value_id(draw),
            batch: batch(draw),
        }),
        7 => Message::Accept(Accept {
            ballot: ballot(draw),
            slot: slot(draw),
            batch: batch(draw),
            decided: slot(draw),
        }),
        8 => Message::Voted(Voted {
            ballot: ballot(draw),
            slot: slot(draw),
            kind: vote_kind(draw),
        }),
        9 => Message::Seen(Seen {
            ballot: ballot(draw),
            slot: slot(draw),
        }),
        10 => Message::Decided(Decided {
            ballot: ballot(draw),
            upto: slot(draw),
        }),
        11 => Message::Heartbeat(Heartbeat {
            ballot: ballot(draw),
            beat: counter(draw),
            decided: slot(draw),
            any: draw.option(slot),
            recovered: draw.option(slot),
            current: draw.boxed(|draw| Current {
                decided: slot(draw),
                heard: draw.list(4, |draw| (node(draw), counter(draw))),
            }),
        }),
        _ => Message::Heard(Heard {
            ballot: ballot(draw),
            beat: counter(draw),
            number: counter(draw),
            decided: slot(draw),
            voted: slot(draw),
            is_voter: draw.flag(),
        }),
    }
}

fn other_message(draw: &mut Draw) -> Message {
    match draw.below(11) {
        0 => Message::Learn(Learn { from: slot(draw) }),
        1 => Message::Learned(Learned {
            from: slot(draw),
            batches: draw.list(4, batch),
            decided: slot(draw),
        }),
        2 => Message::Trimmed(Trimmed { upto: slot(draw) }),
        3 => Message::Forward(Forward {
            ballot: ballot(draw),
            commands: draw.list(5, command),
        }),
        4 => Message::Confirm(Confirm {
            ballot: ballot(draw),
            epoch: counter(draw),
        }),
        5 => Message::Confirmed(Confirmed {
            ballot: ballot(draw),
            epoch: counter(draw),
            voted: slot(draw),
        }),
        6 => Message::AskBarrier(AskBarrier {
            request: counter(draw),
        }),
        7 => Message::Barrier(Barrier {
            request: counter(draw),
            barrier: draw.option(slot),
        }),
        8 => Message::TakeOver(TakeOver {
            ballot: ballot(draw),
        }),
        9 => Message::Survey(Survey {
            request: counter(draw),
            above: ballot(draw),
        }),
        _ => Message::Surveyed(Surveyed {
            request: counter(draw),
            promised: ballot(draw),
            voted: slot(draw),
        }),
    }
}
