//! Plays the scripts of this protocol: how an instance starts, and how its messages read.

use quorate_ordering::{Config, Standing, ValuesBy};
use quorate_paxos::message::{
    Accept, Accepted, Attested, Barrier, Carried, Confirm, Confirmed, Decided, Forward, Gathered,
    Heard, Hears, Heartbeat, Holds, Learn, Learned, Nack, Named, Pass, PassId, PreVoted, Prepare,
    Returned, RingWay, Seen, Spread, Surveyed, TakeOver, Trimmed, Want,
};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::render::{ballot, batch, nodes};
use quorate_testkit::{Memory, ScriptedProtocol, Start, VIEW, run_folder};
use quorate_types::{Ballot, Level, ValueId};
use std::path::Path;

struct Paxos;

impl ScriptedProtocol for Paxos {
    type Instance = MultiPaxos;
    const CLAIMS: &'static str = "mp";

    fn start(start: Start) -> MultiPaxos {
        let seed = u64::from(start.own.0);
        let mut config = Config::new(VIEW.group, start.own, start.boot, start.view, seed);
        if config.view.level >= Level::MULTICAST {
            config.limits.values = ValuesBy::Multicast;
        }
        config.limits.pipeline = start.pipeline.unwrap_or(config.limits.pipeline);
        let first_slots = config.limits.step_first_slots;
        config.limits.step_first_slots = start.first_slots.unwrap_or(first_slots);
        match start.memory {
            Memory::Whole => {}
            Memory::Damaged(damage) => config.damage = damage,
            Memory::Forgotten => config.standing = Standing::Observer,
        }
        MultiPaxos::new(config, start.records, start.now).expect("its own records")
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
                let unknown = page.unknown.iter().map(|slot| format!(" unknown {slot}"));
                let votes: String = votes.chain(unknown).collect();
                format!(
                    "{} decided {}{votes}{next}",
                    ballot(page.ballot),
                    page.decided
                )
            }
            Message::Nack(Nack {
                ballot: b,
                promised,
            }) => {
                format!("{} promised {}", ballot(*b), ballot(*promised))
            }
            Message::Accept(Accept {
                ballot: b,
                slot,
                batch: value,
                ..
            }) => format!("{} {slot} {}", ballot(*b), batch(value)),
            Message::Accepted(Accepted {
                ballot: b,
                first,
                last,
            })
            | Message::Seen(Seen {
                ballot: b,
                first,
                last,
            }) => format!("{} {first}..{last}", ballot(*b)),
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
            Message::Returned(Returned {
                commands, refusal, ..
            }) => {
                format!("{} commands {refusal:?}", commands.len())
            }
            Message::Confirm(Confirm { ballot: b, .. }) => ballot(*b),
            Message::Confirmed(Confirmed { ballot: b, .. }) => ballot(*b),
            Message::Attested(Attested {
                ballot: b, voted, ..
            }) => format!("{} voted {voted}", ballot(*b)),
            Message::AskBarrier(_) | Message::Survey(_) => String::new(),
            Message::Barrier(Barrier { barrier, .. }) => {
                barrier.map_or("none".into(), |slot| slot.to_string())
            }
            Message::TakeOver(TakeOver { ballot: b }) => ballot(*b),
            Message::Surveyed(Surveyed {
                promised, voted, ..
            }) => {
                format!("promised {} voted {voted}", ballot(*promised))
            }
            Message::Pass(Pass {
                ballot: b,
                slot,
                batch: value,
                way,
                ..
            }) => {
                let way = way_of(way);
                format!("{} {slot} {} by {way}", ballot(*b), batch(value))
            }
            Message::Gathered(Gathered {
                ballot: b,
                first,
                last,
                voters,
            }) => {
                let voters = match voters.is_empty() {
                    true => "nobody".into(),
                    false => nodes(*voters),
                };
                format!("{} {first}..{last} of {voters}", ballot(*b))
            }
            Message::Spread(Spread { value, commands }) => {
                format!("{} {} commands", name(*value), commands.len())
            }
            Message::Holds(Holds { values }) => names(values),
            Message::Named(Named {
                ballot: b,
                slot,
                values,
                ..
            }) => format!("{} {slot} {}", ballot(*b), names(values)),
            Message::Want(Want { ballot: b, slot }) => format!("{} {slot}", ballot(*b)),
            Message::Multicast(Carried {
                ballot: b,
                slot,
                batch: value,
            })
            | Message::Fetched(Carried {
                ballot: b,
                slot,
                batch: value,
            }) => format!("{} {slot} {}", ballot(*b), batch(value)),
            Message::PassId(PassId {
                ballot: b,
                slot,
                way,
                hearing,
                ..
            }) => format!("{} {slot} by {}, {hearing} hear", ballot(*b), way_of(way)),
            Message::Hears(Hears { ballot: b, slot }) => {
                let what = slot.map_or("nothing".into(), |slot| slot.to_string());
                format!("{} {what}", ballot(*b))
            }
        }
    }
}

/// The nodes of a way; with `!` those whose votes are gathered.
fn way_of(way: &RingWay) -> String {
    let nodes = way.nodes().iter().enumerate();
    let nodes = nodes.map(|(place, node)| match place < way.gathering() {
        true => format!("{node}!"),
        false => node.to_string(),
    });
    nodes.collect::<Vec<String>>().join(" ")
}

/// The name of a spread value, without the start in which it was.
fn name(value: ValueId) -> String {
    format!("{}/{}", value.node, value.number)
}

fn names(values: &[ValueId]) -> String {
    let names: Vec<String> = values.iter().map(|value| name(*value)).collect();
    names.join(" ")
}

/// Plays every script; panics where one does not run as written.
pub(crate) fn play_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    run_folder::<Paxos>(&folder, 20);
}
