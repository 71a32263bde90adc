//! Nodes that lose what they said in a view, and start in an earlier one.
//!
//! Soon after a node has begun a view, before it has a snapshot there, the end of its log is damaged as far back as it has records
//! of that view. The start comes to the view a second time, and must not take part as if for the first.

use super::super::fault::{Fault, KillStep, Who};
use super::super::random::Random;
use super::super::schedule::Timed;
use super::super::setup::Setup;
use super::super::view_changing;
use super::{CALM_MS, timed};
use quorate_types::{Duration, Persistence};

/// It strikes so soon after a view begins, at most.
const AFTER_MS: u64 = 30;

/// Views begin at least so far apart: the node is back before the others have left the view.
const PACE_MIN: Duration = Duration::from_millis(1_000);

/// In some of the runs in which the view changes, and not too often.
pub(super) fn views(setup: &Setup, until_ms: u64) -> Vec<Timed> {
    let mut random = Random::new(setup.seed, "forgotten views", 0);
    let pace = view_changing::pace(setup);
    let is_possible = setup.persistence == Persistence::Disk
        && setup.acceptors >= 3
        && pace.is_some_and(|pace| pace >= PACE_MIN);
    if !random.chance(400) || !is_possible {
        return Vec::new();
    }
    let count = random.between(1, 3);
    let traps = (0..count).map(|_| {
        let trap = Fault::Trap {
            node: Who::Any,
            step: KillStep::Turn,
            after: random.below(AFTER_MS),
            down: random.millis(20, 100),
        };
        timed(random.between(CALM_MS, until_ms - 1), trap)
    });
    traps.collect()
}
