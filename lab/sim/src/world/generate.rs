//! Draws the faults of a run from its seed, so that a group that keeps its promises can still recover from them.
//!
//! In memory mode a restart costs a vote for ever, as a wiped or damaged disk does in disk mode: at most a minority of
//! nodes is given such a fault. All faults end before `until`.

use super::clock::Moment;
use super::random::Random;
use super::schedule::{BadCall, Fault, Schedule, Timed};
use super::setup::Setup;
use quorate_types::{Duration, NodeId, Persistence};
use std::collections::BTreeSet;

/// Nothing fails before this: the group forms.
const CALM_MS: u64 = 700;

/// Draws until a fault of a wanted kind comes; a run may have none.
const TRIES: usize = 12;

/// Numbers the kinds of faults.
fn kind(fault: &Fault) -> u32 {
    let name = fault.to_string();
    let word = name.split(' ').next().unwrap_or_default();
    word.bytes()
        .fold(7, |sum: u32, byte| sum.wrapping_mul(31) + u32::from(byte))
        % 64
}

/// The schedule that follows from the configuration's seed.
pub(super) fn schedule(setup: &Setup) -> Schedule {
    let mut random = Random::new(setup.seed, "faults", 0);
    let until_ms = random.between(8_000, 25_000);
    let count = random.between(2, until_ms / 1000);
    let wanted = if random.chance(400) {
        u64::MAX
    } else {
        random.bits() & random.bits()
    };
    let mut draw = Draw {
        setup,
        random,
        until_ms,
        wanted,
        maimed: BTreeSet::new(),
    };
    let mut faults: Vec<Timed> = (0..count).flat_map(|_| draw.next()).collect();
    faults.sort_by_key(|timed| timed.at);
    Schedule {
        seed: setup.seed,
        clients: None,
        until: Duration::from_millis(until_ms),
        faults,
    }
}

struct Draw<'a> {
    setup: &'a Setup,
    random: Random,
    until_ms: u64,
    /// The kinds of faults that this run has, as bits: a run with a few kinds gets deeper into them.
    wanted: u64,
    /// Nodes that have lost or will lose their vote.
    maimed: BTreeSet<NodeId>,
}

impl Draw<'_> {
    fn next(&mut self) -> Vec<Timed> {
        let at = self.random.between(CALM_MS, self.until_ms - 300);
        let left = self.until_ms - at;
        if self.random.chance(60) {
            return self.swizzle(at, left);
        }
        let fault = (0..TRIES).find_map(|_| {
            let maimed = self.maimed.clone();
            let fault = match self.random.below(100) {
                0..=34 => self.process(left),
                35..=74 => Some(self.network(left)),
                _ => self.local(left),
            };
            let fault = fault.filter(|fault| self.wanted >> kind(fault) & 1 == 1);
            if fault.is_none() {
                self.maimed = maimed;
            }
            fault
        });
        let at = Moment(at * 1_000_000);
        fault.map(|fault| Timed { at, fault }).into_iter().collect()
    }

    /// Stops links one by one and lets them go in another order.
    fn swizzle(&mut self, at: u64, left: u64) -> Vec<Timed> {
        let mut faults = Vec::new();
        let (one, _) = self.pair();
        for other in self.setup.node_ids().filter(|node| *node != one) {
            let delay = self.random.below(left / 3 + 1);
            let span = self.span(left - delay, 4000);
            faults.push(Timed {
                at: Moment((at + delay) * 1_000_000),
                fault: Fault::Cut { one, other, span },
            });
        }
        faults
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

    /// Whether `node` may lose its vote for ever.
    fn may_maim(&mut self, node: NodeId) -> bool {
        self.maimed.contains(&node) || {
            let is_allowed = self.maimed.len() < usize::from(self.setup.losable());
            if is_allowed {
                self.maimed.insert(node);
            }
            is_allowed
        }
    }

    fn process(&mut self, left: u64) -> Option<Fault> {
        let down = self.span(left, 4000);
        let node = self.node();
        let is_memory = self.setup.persistence == Persistence::Memory;
        let kind = self.random.below(100);
        if is_memory && (kind >= 85 || !self.may_maim(node)) {
            return None;
        }
        Some(match kind {
            0..=49 => Fault::Crash {
                node,
                outputs: self.random.below(12),
                down,
            },
            50..=79 => Fault::PowerCut {
                node,
                changes: self.random.below(6),
                down,
            },
            80..=84 => Fault::Leave { node, down },
            85..=91 => Fault::Blackout { down },
            92..=95 if self.may_maim(node) => Fault::Flip {
                node,
                bit: self.random.bits() >> 16,
                down,
            },
            96..=97 if self.may_maim(node) => Fault::Wipe { node },
            _ => Fault::DiskError {
                node,
                call: *self
                    .random
                    .pick(&[BadCall::Write, BadCall::Sync, BadCall::Read]),
                down,
            },
        })
    }

    fn network(&mut self, left: u64) -> Fault {
        let (from, to) = self.pair();
        let span = self.span(left, 6000);
        match self.random.below(100) {
            0..=19 => Fault::Partition { from, to, span },
            20..=37 => Fault::Cut {
                one: from,
                other: to,
                span,
            },
            38..=46 => Fault::Isolate { node: from, span },
            47..=62 => Fault::Strand { node: from, span },
            63..=72 => Fault::Loss {
                from,
                to,
                percent: self.random.between(1, 30),
                span,
            },
            73..=80 => Fault::Duplicate {
                from,
                to,
                percent: self.random.between(1, 50),
                span,
            },
            81..=91 => Fault::Delay {
                from,
                to,
                by: self.span(left, 2000),
                span,
            },
            _ => Fault::Reset {
                one: from,
                other: to,
            },
        }
    }

    fn local(&mut self, left: u64) -> Option<Fault> {
        let node = self.node();
        let span = self.span(left, 6000);
        Some(match self.random.below(100) {
            0..=34 => Fault::Pause { node, span },
            35..=49 => Fault::SlowDisk {
                node,
                by: self.random.millis(1, 200),
                span,
            },
            50..=59 => Fault::DiskFull { node, span },
            60..=69 => Fault::WallJump {
                node,
                ms: self.random.below(7_200_000) as i64 - 3_600_000,
            },
            70..=82 => Fault::Hang { node, span },
            83..=91 => Fault::Checkpoint { node },
            _ => Fault::ClientCut {
                client: self.random.between(1, self.setup.clients),
                span: self.span(left, 20_000),
            },
        })
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
