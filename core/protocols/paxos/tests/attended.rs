//! A leader of a group that says little while nobody uses it says more while clients have sessions.

use quorate_ordering::{Config, Effect, Event, Ordering, Timing};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, view};
use quorate_types::{Duration, NodeId, Persistence, Slot, Time, Wall};

const BEGAN: Time = Time(1_000_000_000);

/// A leader whose vote is a quorum, and two nodes that hear it.
fn leader() -> MultiPaxos {
    let view = view(3, 1, Persistence::Memory);
    let mut config = Config::new(VIEW.group, NodeId(1), 1, view, 1);
    config.timing = Timing::of_many();
    let mut leader = MultiPaxos::new(config, Vec::new(), BEGAN).unwrap();
    let slot = Slot::ZERO;
    leader.handle(BEGAN, Event::Executed { slot }, &mut Vec::new());
    leader
}

/// The heartbeats that it sends from `now` on for so long.
fn beats(leader: &mut MultiPaxos, now: &mut Time, span: Duration) -> usize {
    let (end, mut effects) = (*now + span, Vec::new());
    while let Some(due) = leader.next_wake().filter(|due| *due <= end) {
        *now = due.max(*now);
        leader.handle(*now, Event::Wake, &mut effects);
        let (wall, entropy) = (Wall(now.0), 0);
        leader.handle(*now, Event::TurnEnd { wall, entropy }, &mut effects);
    }
    *now = end;
    let is_beat = |effect: &&Effect<Message>| matches!(effect, Effect::Send { message, .. } if matches!(message, Message::Heartbeat(_)));
    effects.iter().filter(is_beat).count()
}

#[test]
fn a_leader_beats_often_while_clients_have_sessions_and_seldom_while_none_has() {
    let (mut leader, mut now) = (leader(), BEGAN);
    let second = Duration::from_millis(1_000);
    let ten = Duration::from_millis(10_000);
    beats(&mut leader, &mut now, ten);
    let idle = beats(&mut leader, &mut now, ten);
    assert!((9..=11).contains(&idle), "{idle} beats");
    leader.handle(now, Event::Attended(true), &mut Vec::new());
    let attended = beats(&mut leader, &mut now, second);
    assert!((9..=11).contains(&attended), "{attended} beats");
    leader.handle(now, Event::Attended(false), &mut Vec::new());
    beats(&mut leader, &mut now, second);
    let idle = beats(&mut leader, &mut now, ten);
    assert!((9..=11).contains(&idle), "{idle} beats");
}
