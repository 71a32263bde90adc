//! Draws the faults of hours: a few short ones in each span, now and then a log that is lost, and a node that is down for a whole span.

use super::super::fault::{Fault, Who};
use super::super::random::Random;
use super::super::schedule::{Schedule, Timed};
use super::super::setup::Setup;
use super::super::shape::Shape;
use super::kinds::FaultKind;
use super::{Draw, timed};
use crate::checkers::footprint::SPANS;
use quorate_types::Duration;

/// Short faults of one span.
const FAULTS: u64 = 6;

/// Every so many spans a node is down for the whole of one. In the middle between two of them a node loses its log: it comes back
/// while all others are up.
const DOWN_EVERY: u64 = 4;

/// The longest of the others.
const SHORT_MS: u64 = 6_000;

/// Short faults that cost nobody its vote.
const KINDS: [FaultKind; 24] = [
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::CrashLeader,
    FaultKind::PowerCut,
    FaultKind::Blackout,
    FaultKind::Leave,
    FaultKind::LeaveLeader,
    FaultKind::Partition,
    FaultKind::Cut,
    FaultKind::Isolate,
    FaultKind::Strand,
    FaultKind::StrandLeader,
    FaultKind::Loss,
    FaultKind::Duplicate,
    FaultKind::Garble,
    FaultKind::Delay,
    FaultKind::Reset,
    FaultKind::Pause,
    FaultKind::PauseLeader,
    FaultKind::Stall,
    FaultKind::SlowDisk,
    FaultKind::DiskFull,
    FaultKind::Hang,
    FaultKind::ClientCut,
];

/// The schedule of a run of hours.
pub(in super::super) fn schedule(setup: &Setup, span: Duration) -> Schedule {
    let until_ms = span.as_millis() * SPANS;
    let mut draw = Draw {
        setup,
        random: Random::new(setup.seed, "faults of hours", 0),
        until_ms,
    };
    let mut faults: Vec<Timed> = Vec::new();
    for number in 0..SPANS {
        let begins = number * span.as_millis();
        for _ in 0..FAULTS {
            let least = begins.max(super::CALM_MS);
            let at = draw.random.between(least, begins + span.as_millis() - 1);
            let kind = *draw.random.pick(&KINDS);
            let left = SHORT_MS.min(until_ms - at);
            faults.extend(draw.make(kind, at, left));
        }
        let begins = begins.max(super::CALM_MS);
        if number % DOWN_EVERY == 0 {
            faults.push(timed(begins, draw.one(FaultKind::LoseLog, SHORT_MS)));
        }
        if number % DOWN_EVERY == DOWN_EVERY / 2 {
            let fault = Fault::Crash {
                node: Who::Node(draw.node()),
                outputs: 0,
                down: span,
            };
            faults.push(timed(begins, fault));
        }
    }
    faults.sort_by_key(|timed| timed.at);
    Schedule {
        seed: setup.seed,
        clients: Some(setup.clients),
        waiters: setup.waiters,
        watchers: 0,
        levels: false,
        collects: true,
        witnesses: 0,
        speculation: 0,
        policies: false,
        ordering: None,
        shape: Some(Shape {
            nodes: setup.nodes,
            acceptors: setup.acceptors,
            phase1: setup.quorums.phase1(),
            phase2: setup.quorums.phase2(),
            depth: setup.load.depth,
            readers: setup.load.readers,
        }),
        until: Duration::from_millis(until_ms),
        faults,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_third_of_a_run_has_nodes_that_are_down_for_a_whole_span() {
        let mut setup = Setup::from_seed(1);
        (setup.nodes, setup.acceptors) = (3, 3);
        let span = Duration::from_millis(60_000);
        let made = schedule(&setup, span);
        assert_eq!(Schedule::parse(&made.to_string()).unwrap(), made);
        let third = made.until.0 / 3;
        let is_long =
            |timed: &&Timed| matches!(timed.fault, Fault::Crash { down, .. } if down == span);
        let long = made.faults.iter().filter(is_long);
        let thirds: Vec<u64> = long.map(|timed| timed.at.0 / third).collect();
        assert_eq!(thirds, [0, 0, 1, 1, 2, 2]);
    }
}
