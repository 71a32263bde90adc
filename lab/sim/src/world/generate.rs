//! Draws the group and the faults of a run from its seed, so that a group that keeps its promises can still recover.
//!
//! Each kind of fault has a weight, so that rare effects are drawn often enough for their quotas; a run has all kinds or
//! a few, because a run with a few gets deeper into them. All faults end before `until`. Who may lose a vote for ever is
//! decided when a fault strikes, by `harm`.

mod forgotten;
mod hours;
mod kinds;
mod learned;
mod leaving;
mod poison;
mod single;
mod together;

use super::clock::Moment;
use super::fault::{Fault, Who};
use super::random::Random;
use super::schedule::{Schedule, Timed};
use super::setup::Setup;
use super::shape::Shape;
pub(super) use hours::schedule as hours;
use kinds::{FaultKind, kinds};
use quorate_types::{Duration, NodeId, Persistence};

/// Nothing fails before this: the group forms.
const CALM_MS: u64 = 700;

/// The schedule that follows from the configuration's seed.
pub(super) fn schedule(setup: &Setup) -> Schedule {
    let mut random = Random::new(setup.seed, "faults", 0);
    let until_ms = random.between(8_000, 25_000);
    let count = random.between(2, until_ms / 1000);
    let shape = shape(&mut Random::new(setup.seed, "shape", 0), setup);
    let mut setup = setup.clone();
    setup.reshape(&shape);
    setup.witnesses = setup.draw_witnesses();
    let kinds = kinds(&mut random, &setup);
    let mut draw = Draw {
        setup: &setup,
        random,
        until_ms,
    };
    let mut faults: Vec<Timed> = (0..count).flat_map(|_| draw.next(&kinds)).collect();
    let is_poison = |timed: &Timed| matches!(timed.fault, Fault::Poison { .. });
    if faults.iter().any(is_poison) {
        // A poison call may keep some replicas. If one of the others diverged, no majority would agree and all would freeze.
        let differs =
            |fault: &Fault| matches!(fault, Fault::Diverge { .. } | Fault::Misanswer { .. });
        faults.retain(|timed| !differs(&timed.fault));
    }
    faults.extend(differs_everywhere(&setup, &faults, until_ms));
    faults.extend(leaving::early(&setup));
    faults.extend(learned::copy(&setup, until_ms));
    faults.extend(forgotten::views(&setup, until_ms));
    faults.sort_by_key(|timed| timed.at);
    Schedule {
        seed: setup.seed,
        clients: None,
        waiters: setup.draw_waiters(),
        watchers: setup.draw_watchers(),
        levels: setup.draw_levels(),
        collects: setup.draw_collects(),
        witnesses: setup.witnesses,
        speculation: setup.draw_speculation(),
        policies: setup.draws_policies(),
        ordering: None,
        shape: Some(shape),
        until: Duration::from_millis(until_ms),
        faults,
    }
}

/// In some runs nothing but this makes objects differ, and it makes all of them. Where a node is gone for ever, the others cannot
/// know that no majority is possible any more.
fn differs_everywhere(setup: &Setup, faults: &[Timed], until_ms: u64) -> Option<Timed> {
    let mut random = Random::new(setup.seed, "freeze", 0);
    let hinders = |timed: &Timed| {
        matches!(
            timed.fault,
            Fault::Diverge { .. }
                | Fault::Misanswer { .. }
                | Fault::Poison { .. }
                | Fault::Wipe { .. }
        )
    };
    let is_possible =
        setup.nodes >= 3 && setup.witnesses == 0 && setup.persistence == Persistence::Disk;
    let is_drawn = random.chance(300) && is_possible && !faults.iter().any(hinders);
    is_drawn.then(|| timed(random.between(CALM_MS, until_ms - 300), Fault::Differ))
}

/// Sizes from 1 to 7, usually 3 or 5; some groups with unequal quorums, some with replicas that do not vote.
fn shape(random: &mut Random, setup: &Setup) -> Shape {
    let nodes: u64 = *random.pick(&[1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5, 6, 7]);
    let acceptors = if nodes > 1 && random.chance(150) {
        random.between(nodes.div_ceil(2), nodes - 1)
    } else {
        nodes
    };
    let majority = acceptors / 2 + 1;
    let (phase1, phase2) = if acceptors >= 3 && random.chance(300) {
        let phase2 = random.between(1, acceptors);
        (acceptors + 1 - phase2, phase2)
    } else {
        (majority, majority)
    };
    let is_deep = random.chance(250);
    Shape {
        nodes: nodes as u16,
        acceptors: acceptors as u16,
        phase1: phase1 as usize,
        phase2: phase2 as usize,
        depth: if is_deep {
            random.between(8, 24)
        } else {
            setup.load.depth
        },
        readers: if random.chance(300) {
            random.between(1, setup.clients / 2)
        } else {
            0
        },
    }
}

struct Draw<'a> {
    setup: &'a Setup,
    random: Random,
    until_ms: u64,
}

impl Draw<'_> {
    fn next(&mut self, kinds: &[(FaultKind, u64)]) -> Vec<Timed> {
        let at = self.random.between(CALM_MS, self.until_ms - 300);
        let left = self.until_ms - at;
        let total = kinds.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.below(total);
        for (kind, weight) in kinds {
            if drawn < *weight {
                return self.make(*kind, at, left);
            }
            drawn -= weight;
        }
        unreachable!("a draw is below the sum of all weights")
    }

    fn make(&mut self, kind: FaultKind, at: u64, left: u64) -> Vec<Timed> {
        match kind {
            FaultKind::Swizzle => self.swizzle(at, left),
            FaultKind::StrandLeader => self.strand_leader(at, left),
            FaultKind::Diverge => self.diverge(at, left),
            FaultKind::Poison => self.poison(at),
            FaultKind::Trap(step) => self.trap(step, at, left),
            _ => {
                let fault = self.one(kind, left);
                vec![timed(at, fault)]
            }
        }
    }

    fn span(&mut self, left: u64, longest: u64) -> Duration {
        let low = 20.min(left);
        self.random.millis(low, left.min(longest).max(low))
    }

    fn node(&mut self) -> NodeId {
        NodeId(self.random.between(1, u64::from(self.setup.nodes)) as u16)
    }

    fn pair(&mut self) -> (NodeId, NodeId) {
        let one = self.node();
        loop {
            let other = self.node();
            if other != one {
                return (one, other);
            }
        }
    }

    fn who(&mut self, is_leader: bool) -> Who {
        if is_leader {
            Who::Leader
        } else {
            Who::Node(self.node())
        }
    }
}

fn timed(at_ms: u64, fault: Fault) -> Timed {
    Timed {
        at: Moment(at_ms * 1_000_000),
        fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_schedules_read_back_and_end_in_time() {
        for seed in 0..300 {
            let made = schedule(&Setup::from_seed(seed));
            assert_eq!(Schedule::parse(&made.to_string()).unwrap(), made);
            let until = Moment(made.until.0);
            assert!(made.faults.iter().all(|timed| timed.at < until), "{made}");
        }
    }
}
