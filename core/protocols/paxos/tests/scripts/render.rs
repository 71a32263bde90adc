//! Messages, records and effects in the words of the scripts.

use quorate_ordering::{Decision, Effect, Record, Role};
use quorate_paxos::Message;
use quorate_types::{Ballot, Batch, Body, NodeSet};

pub(crate) fn ballot(ballot: Ballot) -> String {
    let Ballot { round, node, boot } = ballot;
    if boot == 1 {
        format!("b{round}.{}", node.0)
    } else {
        format!("b{round}.{}.{boot}", node.0)
    }
}

pub(crate) fn batch(batch: &Batch) -> String {
    if batch.commands().is_empty() {
        return "noop".into();
    }
    let texts = batch.commands().iter().map(|command| match &command.body {
        Body::Call { payload, .. } => format!("{:?}", String::from_utf8_lossy(payload)),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

pub(crate) fn nodes(set: NodeSet) -> String {
    let names = set.iter().map(|node| node.to_string());
    names.collect::<Vec<_>>().join(" ")
}

pub(crate) fn kind(message: &Message) -> String {
    let text = format!("{message:?}");
    text.split([' ', '('])
        .next()
        .unwrap_or_default()
        .to_string()
}

pub(crate) fn message(message: &Message) -> String {
    let kind = kind(message);
    let rest = match message {
        Message::Canvass { .. } => String::new(),
        Message::Canvassed { is_granted, .. } => {
            if *is_granted {
                "granted".into()
            } else {
                "denied".into()
            }
        }
        Message::Prepare { ballot: b, from } => format!("{} from {from}", ballot(*b)),
        Message::Promise(page) => {
            let votes = page.votes.iter();
            let votes = votes.map(|vote| {
                format!(
                    " {} {} {}",
                    vote.slot,
                    ballot(vote.ballot),
                    batch(&vote.batch)
                )
            });
            let next = page
                .next
                .map_or(String::new(), |next| format!(" next {next}"));
            let votes: String = votes.collect();
            format!(
                "{} decided {}{votes}{next}",
                ballot(page.ballot),
                page.decided
            )
        }
        Message::Nack {
            ballot: b,
            promised,
        } => {
            format!("{} promised {}", ballot(*b), ballot(*promised))
        }
        Message::Accept {
            ballot: b,
            slot,
            batch: value,
            ..
        } => format!("{} {slot} {}", ballot(*b), batch(value)),
        Message::Accepted {
            ballot: b,
            first,
            last,
        }
        | Message::Seen {
            ballot: b,
            first,
            last,
        } => format!("{} {first}..{last}", ballot(*b)),
        Message::Decided { ballot: b, upto } => format!("{} upto {upto}", ballot(*b)),
        Message::Heartbeat {
            ballot: b, decided, ..
        } => format!("{} decided {decided}", ballot(*b)),
        Message::Heard { ballot: b, .. } => ballot(*b),
        Message::Learn { from } => format!("from {from}"),
        Message::Learned { from, batches, .. } => {
            let batches: Vec<String> = batches.iter().map(batch).collect();
            format!("from {from}: {}", batches.join(", "))
        }
        Message::Trimmed { upto } => format!("upto {upto}"),
        Message::Forward { commands, .. } => format!("{} commands", commands.len()),
        Message::Returned {
            commands, refusal, ..
        } => {
            format!("{} commands {refusal:?}", commands.len())
        }
        Message::Confirm { ballot: b, .. } => ballot(*b),
        Message::Confirmed { ballot: b, .. } => ballot(*b),
        Message::AskBarrier { .. } | Message::Survey { .. } => String::new(),
        Message::Barrier { barrier, .. } => barrier.map_or("none".into(), |slot| slot.to_string()),
        Message::TakeOver { ballot: b } => ballot(*b),
        Message::Surveyed {
            promised, voted, ..
        } => {
            format!("promised {} voted {voted}", ballot(*promised))
        }
    };
    format!("{kind} {rest}").trim_end().to_string()
}

pub(crate) fn record(record: &Record) -> String {
    match record {
        Record::Promise { ballot: b } => format!("promise {}", ballot(*b)),
        Record::Vote {
            slot,
            ballot: b,
            batch: value,
        } => format!("vote {slot} {} {}", ballot(*b), batch(value)),
        Record::Chosen { slot, batch: value } => format!("chosen {slot} {}", batch(value)),
        Record::Decided { upto } => format!("decided upto {upto}"),
        Record::Trimmed { upto } => format!("trimmed upto {upto}"),
    }
}

pub(crate) fn effect(effect: &Effect<Message>) -> String {
    match effect {
        Effect::Send { to, message: m, .. } => format!("-> {} {}", nodes(*to), message(m)),
        Effect::Persist { record: r, .. } => format!("persist {}", record(r)),
        Effect::Decide { slot, decision } => {
            let Decision::Batch(value) = decision;
            format!("decide {slot} {}", batch(value))
        }
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
        Effect::NeedSnapshot { upto } => format!("needs snapshot {upto}"),
        Effect::Refuse { command, refusal } => format!("refuse c{} {refusal:?}", command.sequence),
        Effect::Discard { upto, .. } => format!("discard upto {upto}"),
    }
}
