//! The protocol on the stage of scripts and in random worlds: how an instance starts, and how its messages read.

use quorate_fast_paxos::message::{
    Accept, Any, Barrier, Confirm, Confirmed, Decided, Forward, Heard, Heartbeat, Learn, Learned,
    Nack, PreVoted, Prepare, Propose, Seen, Survey, Surveyed, TakeOver, Trimmed, Voted,
};
use quorate_fast_paxos::{FastPaxos, Message};
use quorate_ordering::{Config, Record, Standing};
use quorate_testkit::render::{ballot, batch, fast};
use quorate_testkit::{Memory, ScriptedProtocol, Start, VIEW, WorldProtocol, run_folder};
use quorate_types::{Ballot, Time};
use std::path::Path;

pub(crate) struct Fast;

impl ScriptedProtocol for Fast {
    type Instance = FastPaxos;
    const CLAIMS: &'static str = "fp";

    fn start(start: Start) -> FastPaxos {
        let seed = u64::from(start.own.0);
        let mut config = Config::new(VIEW.group, start.own, start.boot, start.view, seed);
        config.limits.pipeline = start.pipeline.unwrap_or(config.limits.pipeline);
        match start.memory {
            Memory::Whole => {}
            Memory::Damaged(damage) => config.damage = damage,
            Memory::Forgotten => config.standing = Standing::Observer,
        }
        FastPaxos::new(config, start.records, start.now).expect("its own records")
    }

    fn stand(ballot: Ballot) -> Message {
        Message::TakeOver(TakeOver { ballot })
    }

    fn is_unlisted(message: &Message) -> bool {
        matches!(message, Message::Heartbeat(_) | Message::Heard(_))
    }

    // Longer than a screen: one arm a message.
    fn render(message: &Message) -> String {
        match message {
            Message::PreVote(_) => String::new(),
            Message::PreVoted(PreVoted { is_granted, .. }) => {
                if *is_granted {
                    "granted".into()
                } else {
                    "denied".into()
                }
            }
            Message::Prepare(Prepare { ballot: b, from }) => format!("{} from {from}", ballot(*b)),
            Message::Promise(page) => {
                let votes = page.votes.iter().map(|vote| {
                    let (b, value) = (ballot(vote.ballot), batch(&vote.batch));
                    format!(" {} {b}{} {value}", vote.slot, fast(vote.kind))
                });
                let next = page.next.map(|next| format!(" next {next}"));
                let unknown = page.unknown.iter().map(|slot| format!(" unknown {slot}"));
                let rest: String = votes.chain(unknown).chain(next).collect();
                format!("{} decided {}{rest}", ballot(page.ballot), page.decided)
            }
            Message::Nack(Nack {
                ballot: b,
                promised,
            }) => {
                format!("{} promised {}", ballot(*b), ballot(*promised))
            }
            Message::Any(Any { ballot: b, from }) => format!("{} from {from}", ballot(*b)),
            Message::Propose(Propose {
                ballot: b,
                value,
                batch: own,
            }) => format!("{} {value} {}", ballot(*b), batch(own)),
            Message::Accept(Accept {
                ballot: b,
                slot,
                batch: value,
                ..
            }) => format!("{} {slot} {}", ballot(*b), batch(value)),
            Message::Voted(Voted {
                ballot: b,
                slot,
                kind,
            }) => format!("{} {slot}{}", ballot(*b), fast(*kind)),
            Message::Seen(Seen { ballot: b, slot }) => format!("{} {slot}", ballot(*b)),
            Message::Decided(Decided { ballot: b, upto }) => format!("{} upto {upto}", ballot(*b)),
            Message::Heartbeat(Heartbeat {
                ballot: b, decided, ..
            }) => format!("{} decided {decided}", ballot(*b)),
            Message::Heard(Heard { ballot: b, .. }) => ballot(*b),
            Message::Learn(Learn { from }) => format!("from {from}"),
            Message::Learned(Learned { from, batches, .. }) => {
                let batches: Vec<String> = batches.iter().map(batch).collect();
                format!("from {from}: {}", batches.join(", "))
            }
            Message::Trimmed(Trimmed { upto }) => format!("upto {upto}"),
            Message::Forward(Forward { commands, .. }) => format!("{} commands", commands.len()),
            Message::Confirm(Confirm { ballot: b, .. }) => ballot(*b),
            Message::Confirmed(Confirmed {
                ballot: b, voted, ..
            }) => {
                format!("{} voted {voted}", ballot(*b))
            }
            Message::AskBarrier(_) => String::new(),
            Message::Barrier(Barrier { barrier, .. }) => {
                barrier.map_or("none".into(), |slot| slot.to_string())
            }
            Message::TakeOver(TakeOver { ballot: b }) => ballot(*b),
            Message::Survey(Survey { above, .. }) if *above == Ballot::ZERO => String::new(),
            Message::Survey(Survey { above, .. }) => format!("above {}", ballot(*above)),
            Message::Surveyed(Surveyed {
                promised, voted, ..
            }) => {
                format!("promised {} voted {voted}", ballot(*promised))
            }
        }
    }
}

impl WorldProtocol for Fast {
    type Instance = FastPaxos;

    fn start(config: Config, records: Vec<Record>, now: Time) -> FastPaxos {
        FastPaxos::new(config, records, now).expect("its own records")
    }
}

/// Plays all scripts.
#[allow(dead_code, reason = "tests of random worlds play none")]
pub(crate) fn play_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    run_folder::<Fast>(&folder, 15);
}
