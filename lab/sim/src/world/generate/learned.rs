//! An older copy of a directory that learns before anybody can tell it what it is.
//!
//! A node is away from those that do not vote, and its directory becomes an older copy. The copy meets only them at first: they saw
//! nothing of what it lacks, which is little. What it learns from them does not make up for that, not even if it starts again, and those
//! that it meets later must find it out. Where the view changes one of them might lead, and would take the copy for whole: a stated limit.

use super::super::fault::{Fault, Who};
use super::super::random::Random;
use super::super::schedule::Timed;
use super::super::setup::Setup;
use super::super::view_changing;
use super::{CALM_MS, timed};
use quorate_types::{Duration, NodeId, Persistence};

/// What all of it takes at most.
const WHOLE_MS: u64 = 7_000;

/// Snapshots that are asked for while the copy learns.
const CHECKPOINTS: u64 = 5;

/// Between two of them.
const CHECKPOINT_EVERY_MS: u64 = 500;

/// When a copy that starts again does so, counted from its first start: it has learned, and has met nobody who knows better.
const AGAIN_AFTER_MS: u64 = 2_700;

/// In all groups whose view nobody changes, on disk and with nodes that do not vote.
pub(super) fn copy(setup: &Setup, until_ms: u64) -> Vec<Timed> {
    let mut random = Random::new(setup.seed, "learned copy", 0);
    let is_possible = setup.persistence == Persistence::Disk
        && setup.acceptors >= 3
        && setup.acceptors < setup.nodes
        && view_changing::pace(setup).is_none()
        && until_ms > CALM_MS + WHOLE_MS;
    if !is_possible {
        return Vec::new();
    }
    let one = NodeId(random.between(1, u64::from(setup.acceptors)) as u16);
    let away = random.between(CALM_MS + 300, until_ms - WHOLE_MS + 300);
    let kept = away + random.between(300, 1_000);
    let back = kept + random.between(20, 150);
    let down = random.between(100, 300);
    let others = setup.node_ids().filter(|node| *node != one);
    let cuts = others.map(|other| {
        let (from, until) = match other.0 <= setup.acceptors {
            true => (back + 5, back + down + random.between(3_000, 5_000)),
            false => (away, back + down + 20),
        };
        let span = Duration::from_millis(until - from);
        timed(from, Fault::Cut { one, other, span })
    });
    let mut faults: Vec<Timed> = cuts.collect();
    let rollback = Fault::Rollback {
        node: one,
        by: Duration::from_millis(back - kept),
        down: Duration::from_millis(down),
    };
    faults.push(timed(kept, rollback));
    // Each snapshot that the others take is something to learn.
    let node = NodeId(setup.acceptors + 1);
    let asked = (1..=CHECKPOINTS).map(|number| back + down + number * CHECKPOINT_EVERY_MS);
    faults.extend(asked.map(|at| timed(at, Fault::Checkpoint { node })));
    if random.chance(700) {
        let again = Fault::Crash {
            node: Who::Node(one),
            outputs: 1,
            down: Duration::from_millis(100),
        };
        faults.push(timed(back + down + AGAIN_AFTER_MS, again));
    }
    faults
}
