//! Plays the scripts of this protocol: how an instance starts, and how its messages read.

use quorate_ordering::{Config, Standing};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::render::{ballot, batch};
use quorate_testkit::{Memory, Protocol, Start, VIEW, run_folder};
use quorate_types::Ballot;
use std::path::Path;

struct Paxos;

impl Protocol for Paxos {
    type Instance = MultiPaxos;
    const CLAIMS: &'static str = "mp";

    fn start(start: Start) -> MultiPaxos {
        let seed = u64::from(start.own.0);
        let mut config = Config::new(VIEW.group, start.own, start.boot, start.view, seed);
        config.limits.pipeline = start.pipeline.unwrap_or(config.limits.pipeline);
        match start.memory {
            Memory::Whole => {}
            Memory::Damaged => config.is_damaged = true,
            Memory::Forgotten => config.standing = Standing::Observer,
        }
        MultiPaxos::new(config, start.records, start.now).expect("its own records")
    }

    fn stand(ballot: Ballot) -> Message {
        Message::TakeOver { ballot }
    }

    fn is_unlisted(message: &Message) -> bool {
        matches!(message, Message::Heartbeat { .. } | Message::Heard { .. })
    }

    // Longer than a screen: one arm a message.
    fn render(message: &Message) -> String {
        match message {
            Message::PreVote { .. } => String::new(),
            Message::PreVoted { is_granted, .. } => {
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
            Message::Barrier { barrier, .. } => {
                barrier.map_or("none".into(), |slot| slot.to_string())
            }
            Message::TakeOver { ballot: b } => ballot(*b),
            Message::Surveyed {
                promised, voted, ..
            } => {
                format!("promised {} voted {voted}", ballot(*promised))
            }
        }
    }
}

#[test]
fn every_script_runs_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    run_folder::<Paxos>(&folder, 20);
}
