//! Ballots, batches, records and effects in the words of the scripts.

use crate::protocol::{MessageOf, ScriptedProtocol};
use quorate_ordering::{Decision, Effect, Entry, Record, Role};
use quorate_types::{Ballot, Batch, Body, NodeSet, VoteKind};
use std::fmt::Debug;

/// `b1.2`: round 1 of node 2; `b1.2.3` where its boot is 3 and not 1.
#[must_use]
pub fn ballot(ballot: Ballot) -> String {
    let Ballot {
        round, node, boot, ..
    } = ballot;
    if boot == 1 {
        format!("b{round}.{}", node.0)
    } else {
        format!("b{round}.{}.{boot}", node.0)
    }
}

/// ` fast v1.2` for a vote in a fast round for value 1 of node 2; nothing for a classic one.
#[must_use]
pub fn fast(kind: VoteKind) -> String {
    match kind {
        VoteKind::Fast(value) => format!(" fast {value}"),
        VoteKind::Classic => String::new(),
    }
}

/// The payloads of its calls, or `noop`.
#[must_use]
pub fn batch(batch: &Batch) -> String {
    if batch.commands().is_empty() {
        return "noop".into();
    }
    let texts = batch.commands().iter().map(|command| match &command.body {
        Body::Call { payload, .. } => format!("{:?}", String::from_utf8_lossy(payload)),
        Body::Collect { slot, .. } => format!("collect {slot}"),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// `n1 n2`.
#[must_use]
pub fn nodes(set: NodeSet) -> String {
    let names = set.iter().map(|node| node.to_string());
    names.collect::<Vec<_>>().join(" ")
}

/// The name of a message: the first word of its debug form.
pub fn kind<M: Debug>(message: &M) -> String {
    let text = format!("{message:?}");
    text.split([' ', '('])
        .next()
        .unwrap_or_default()
        .to_string()
}

/// The name of a message and what it says.
pub fn message<P: ScriptedProtocol>(message: &MessageOf<P>) -> String {
    let text = format!("{} {}", kind(message), P::render(message));
    text.trim_end().to_string()
}

/// One record of the log.
#[must_use]
pub fn record(record: &Record) -> String {
    match &record.entry {
        Entry::Promise { ballot: b } => format!("promise {}", ballot(*b)),
        Entry::Vote {
            slot,
            ballot: b,
            kind,
            batch: value,
        } => format!("vote {slot} {}{} {}", ballot(*b), fast(*kind), batch(value)),
        Entry::Chosen { slot, batch: value } => format!("chosen {slot} {}", batch(value)),
        Entry::Decided { upto } => format!("decided upto {upto}"),
        Entry::Trimmed { upto } => format!("trimmed upto {upto}"),
        Entry::Agreed { slot, .. } => format!("agreed {slot}"),
    }
}

/// One consequence.
pub fn effect<P: ScriptedProtocol>(effect: &Effect<MessageOf<P>>) -> String {
    match effect {
        Effect::Send { to, message: m, .. } => format!("-> {} {}", nodes(*to), message::<P>(m)),
        Effect::Persist { record: r, .. } => format!("persist {}", record(r)),
        Effect::Decide { slot, decision } => {
            let Decision::Batch(value) = decision;
            format!("decide {slot} {}", batch(value))
        }
        Effect::Tentative { slot, batch: value } => format!("tells {slot} {}", batch(value)),
        Effect::Role(Role::Leader { ballot: b }) => format!("leads {}", ballot(*b)),
        Effect::Role(Role::Candidate { ballot: b }) => format!("stands {}", ballot(*b)),
        Effect::Role(Role::Follower {
            leader: Some(leader),
        }) => format!("follows {leader}"),
        Effect::Role(Role::Follower { leader: None }) => "follows nobody".into(),
        Effect::Confirmed {
            read,
            barrier,
            until,
        } => {
            let lease = if until.is_some() { " under lease" } else { "" };
            format!("read r{} at {barrier}{lease}", read.0)
        }
        Effect::Unconfirmed { read } => format!("read r{} unconfirmed", read.0),
        Effect::Current { slot, .. } => format!("current at {slot}"),
        Effect::Repaired => "repaired".into(),
        Effect::Conflict(conflict) => format!("stops: {conflict}"),
        Effect::NeedSnapshot { upto } => format!("needs snapshot {upto}"),
        Effect::Refuse { command, refusal } => format!("refuse c{} {refusal:?}", command.sequence),
        Effect::Unordered { commands } => {
            let ids = commands
                .iter()
                .map(|command| command.id.sequence.to_string());
            format!("leaves c{}", ids.collect::<Vec<_>>().join(" c"))
        }
        Effect::Discard { upto, .. } => format!("discard upto {upto}"),
    }
}
