//! Draws the group and the faults of a run from its seed, so that a group that keeps its promises can still recover.
//!
//! Each kind of fault has a weight, so that rare effects are drawn often enough for their quotas; a run has all kinds or
//! a few, because a run with a few gets deeper into them. All faults end before `until`. Who may lose a vote for ever is
//! decided when a fault strikes, by `harm`.

mod leaving;
mod poison;

use super::clock::Moment;
use super::fault::{BadCall, Fault, KillStep, Lost, Part, Who};
use super::random::Random;
use super::schedule::{Schedule, Timed};
use super::setup::Setup;
use super::shape::Shape;
use quorate_types::{Duration, NodeId, Persistence};

/// Nothing fails before this: the group forms.
const CALM_MS: u64 = 700;

/// A kind of what is drawn: one fault, or several that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crash,
    CrashLeader,
    PowerCut,
    Blackout,
    Trap(KillStep),
    Leave,
    LeaveLeader,
    Partition,
    Cut,
    Swizzle,
    Isolate,
    Strand,
    StrandLeader,
    Loss,
    Duplicate,
    Garble,
    Delay,
    Reset,
    Pause,
    PauseLeader,
    Stall,
    SlowDisk,
    DiskError,
    DiskFull,
    Flip(Part),
    Rollback,
    LoseLog,
    Wipe,
    WallJump,
    WallYears,
    Hang,
    Diverge,
    Checkpoint,
    ClientCut,
    Poison,
}

/// How often each kind is drawn, beside the others.
const WEIGHTS: &[(Kind, u64)] = &[
    (Kind::Crash, 10),
    (Kind::CrashLeader, 8),
    (Kind::PowerCut, 8),
    (Kind::Blackout, 4),
    (Kind::Trap(KillStep::PhaseOne), 4),
    (Kind::Trap(KillStep::Fetch), 5),
    (Kind::Trap(KillStep::Install), 4),
    (Kind::Trap(KillStep::Asked), 4),
    (Kind::Trap(KillStep::Save), 4),
    (Kind::Trap(KillStep::Trim), 5),
    (Kind::Leave, 2),
    (Kind::LeaveLeader, 2),
    (Kind::Partition, 8),
    (Kind::Cut, 8),
    (Kind::Swizzle, 5),
    (Kind::Isolate, 4),
    (Kind::Strand, 5),
    (Kind::StrandLeader, 8),
    (Kind::Loss, 5),
    (Kind::Duplicate, 4),
    (Kind::Garble, 4),
    (Kind::Delay, 5),
    (Kind::Reset, 4),
    (Kind::Pause, 6),
    (Kind::PauseLeader, 5),
    (Kind::Stall, 5),
    (Kind::SlowDisk, 4),
    (Kind::DiskError, 7),
    (Kind::DiskFull, 7),
    (Kind::Flip(Part::Log), 6),
    (Kind::Flip(Part::Snapshots), 6),
    (Kind::Flip(Part::Identity), 3),
    (Kind::Rollback, 8),
    (Kind::LoseLog, 4),
    (Kind::Wipe, 3),
    (Kind::WallJump, 4),
    (Kind::WallYears, 5),
    (Kind::Hang, 5),
    (Kind::Diverge, 4),
    (Kind::Checkpoint, 4),
    (Kind::ClientCut, 4),
    (Kind::Poison, 8),
];

/// Changes of a disk in a save or a trim: a cut after more of them strikes behind it.
const STEPS_OF_DISK: u64 = 8;

/// The schedule that follows from the configuration's seed.
pub(super) fn schedule(setup: &Setup) -> Schedule {
    let mut random = Random::new(setup.seed, "faults", 0);
    let until_ms = random.between(8_000, 25_000);
    let count = random.between(2, until_ms / 1000);
    let shape = shape(&mut Random::new(setup.seed, "shape", 0), setup);
    let mut setup = setup.clone();
    setup.reshape(&shape);
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
    faults.sort_by_key(|timed| timed.at);
    Schedule {
        seed: setup.seed,
        clients: None,
        waiters: setup.draw_waiters(),
        watchers: setup.draw_watchers(),
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
    let is_possible = setup.nodes >= 3 && setup.persistence == Persistence::Disk;
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

/// The kinds of a run with their weights: all that make sense in its group, or a few of them.
fn kinds(random: &mut Random, setup: &Setup) -> Vec<(Kind, u64)> {
    let mut kinds: Vec<(Kind, u64)> = WEIGHTS
        .iter()
        .copied()
        .filter(|(kind, _)| makes_sense(*kind, setup))
        .collect();
    if random.chance(600) {
        let wanted = random.between(2, 8) as usize;
        while kinds.len() > wanted {
            kinds.swap_remove(random.below(kinds.len() as u64) as usize);
        }
    }
    kinds
}

fn makes_sense(kind: Kind, setup: &Setup) -> bool {
    let has_peers = setup.nodes > 1;
    let is_durable = setup.persistence == Persistence::Disk;
    match kind {
        Kind::Crash | Kind::CrashLeader | Kind::PowerCut => true,
        Kind::Rollback => is_durable && has_peers,
        Kind::Blackout | Kind::DiskError | Kind::LoseLog | Kind::Wipe => is_durable,
        Kind::Trap(KillStep::Save | KillStep::Trim) => is_durable,
        Kind::Flip(Part::Identity) => is_durable,
        Kind::Flip(Part::Log | Part::View | Part::Snapshots) => is_durable && has_peers,
        Kind::Trap(KillStep::PhaseOne | KillStep::Fetch | KillStep::Install | KillStep::Asked) => {
            is_durable && has_peers
        }
        Kind::Partition
        | Kind::Cut
        | Kind::Swizzle
        | Kind::Strand
        | Kind::StrandLeader
        | Kind::Loss
        | Kind::Duplicate
        | Kind::Garble
        | Kind::Delay
        | Kind::Reset => has_peers,
        Kind::Diverge => setup.nodes >= 3,
        Kind::Leave
        | Kind::LeaveLeader
        | Kind::Isolate
        | Kind::Pause
        | Kind::PauseLeader
        | Kind::Stall
        | Kind::SlowDisk
        | Kind::DiskFull
        | Kind::WallJump
        | Kind::WallYears
        | Kind::Hang
        | Kind::Checkpoint
        | Kind::ClientCut
        | Kind::Poison => true,
    }
}

struct Draw<'a> {
    setup: &'a Setup,
    random: Random,
    until_ms: u64,
}

impl Draw<'_> {
    fn next(&mut self, kinds: &[(Kind, u64)]) -> Vec<Timed> {
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

    fn make(&mut self, kind: Kind, at: u64, left: u64) -> Vec<Timed> {
        match kind {
            Kind::Swizzle => self.swizzle(at, left),
            Kind::StrandLeader => self.strand_leader(at, left),
            Kind::Diverge => self.diverge(at, left),
            Kind::Poison => self.poison(at),
            Kind::Trap(step) => self.trap(step, at, left),
            _ => {
                let fault = self.one(kind, left);
                vec![timed(at, fault)]
            }
        }
    }

    /// Stops links one by one and lets them go in another order.
    fn swizzle(&mut self, at: u64, left: u64) -> Vec<Timed> {
        let mut faults = Vec::new();
        let (one, _) = self.pair();
        for other in self.setup.node_ids().filter(|node| *node != one) {
            let delay = self.random.below(left / 3 + 1);
            let span = self.span(left - delay, 4000);
            faults.push(timed(at + delay, Fault::Cut { one, other, span }));
        }
        faults
    }

    /// Changes the objects of a node, or what they answer; perhaps asks for a checkpoint soon, which tells, and kills the node while it heals.
    fn diverge(&mut self, at: u64, left: u64) -> Vec<Timed> {
        let node = self.node();
        if self.random.below(2) == 0 {
            return vec![timed(at, Fault::Misanswer { node })];
        }
        let mut faults = vec![timed(at, Fault::Diverge { node })];
        let mut next = at;
        for _ in 0..self.random.below(3) {
            next = (next + self.random.between(20, 400)).min(self.until_ms - 1);
            let (outputs, down) = (self.random.below(12), self.span(left, 1000));
            let crash = Fault::Crash {
                node: Who::Node(node),
                outputs,
                down,
            };
            faults.push(timed(next, Fault::Checkpoint { node: self.node() }));
            next = (next + self.random.between(5, 300)).min(self.until_ms - 1);
            faults.push(timed(next, crash));
        }
        faults
    }

    /// Strands whoever leads, perhaps stops it for a part of that, perhaps kills it soon after it is let back, perhaps
    /// does the same to its successors.
    fn strand_leader(&mut self, at: u64, left: u64) -> Vec<Timed> {
        let mut faults = Vec::new();
        let (mut at, mut left) = (at, left);
        for _ in 0..self.random.between(1, 3) {
            let span = self.span(left, 4000);
            let ms = span.as_millis();
            let node = Who::Leader;
            faults.push(timed(at, Fault::Strand { node, span }));
            let node = Who::Struck;
            let part = Duration::from_millis(self.random.between(ms / 2, ms));
            match self.random.below(4) {
                0 => faults.push(timed(at, Fault::Hang { node, span: part })),
                1 => faults.push(timed(at, Fault::Pause { node, span: part })),
                _ => {}
            }
            if self.random.chance(300) {
                let after = ms + self.random.below(500);
                let (outputs, down) = (self.random.below(12), self.span(left, 2000));
                let crash = Fault::Crash {
                    node,
                    outputs,
                    down,
                };
                faults.push(timed((at + after).min(self.until_ms - 1), crash));
            }
            let next = ms + self.random.below(1500);
            if next + 300 >= left {
                break;
            }
            (at, left) = (at + next, left - next);
        }
        faults
    }

    /// Waits for a step, with something beside it that leads there.
    fn trap(&mut self, step: KillStep, at: u64, left: u64) -> Vec<Timed> {
        let after = match step {
            KillStep::PhaseOne => self.random.below(4),
            KillStep::Fetch => self.random.below(3),
            KillStep::Install => self.random.below(3),
            KillStep::Asked => self.random.below(3),
            KillStep::Save | KillStep::Trim => self.random.below(STEPS_OF_DISK),
        };
        let down = self.span(left, 3000);
        let node = Who::Any;
        let trap = Fault::Trap {
            node,
            step,
            after,
            down,
        };
        let beside = match step {
            KillStep::PhaseOne => Some(self.one(Kind::CrashLeader, left)),
            KillStep::Fetch | KillStep::Install | KillStep::Asked => {
                Some(self.one(Kind::Strand, left))
            }
            KillStep::Save | KillStep::Trim => None,
        };
        let mut faults = vec![timed(at, trap)];
        faults.extend(beside.map(|fault| timed(at, fault)));
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

    fn one(&mut self, kind: Kind, left: u64) -> Fault {
        match kind {
            Kind::Crash | Kind::CrashLeader => Fault::Crash {
                node: self.who(kind == Kind::CrashLeader),
                outputs: self.random.below(12),
                down: self.span(left, 4000),
            },
            Kind::PowerCut => Fault::PowerCut {
                node: self.who(false),
                changes: self.random.below(6),
                down: self.span(left, 4000),
            },
            Kind::Blackout => Fault::Blackout {
                down: self.span(left, 4000),
            },
            Kind::Leave | Kind::LeaveLeader => Fault::Leave {
                node: self.who(kind == Kind::LeaveLeader),
                down: self.span(left, 4000),
            },
            Kind::Pause | Kind::PauseLeader => Fault::Pause {
                node: self.who(kind == Kind::PauseLeader),
                span: self.span(left, 6000),
            },
            Kind::Stall => Fault::Stall {
                node: if self.random.chance(600) {
                    Who::Leader
                } else {
                    Who::Node(self.node())
                },
                span: self.span(left, 3000),
            },
            Kind::Hang => Fault::Hang {
                node: self.who(false),
                span: self.span(left, 6000),
            },
            Kind::Checkpoint => Fault::Checkpoint { node: self.node() },
            Kind::ClientCut => Fault::ClientCut {
                client: self.random.between(1, self.setup.clients),
                span: self.span(left, 20_000),
            },
            Kind::WallJump => Fault::WallJump {
                node: self.who(false),
                ms: self.random.below(7_200_000) as i64 - 3_600_000,
            },
            Kind::WallYears => Fault::WallJump {
                node: if self.random.chance(500) {
                    Who::Leader
                } else {
                    Who::Node(self.node())
                },
                ms: *self.random.pick(&[-5, -2, 2, 5, 30]) * 365 * 24 * 3_600_000,
            },
            Kind::Swizzle | Kind::StrandLeader | Kind::Diverge | Kind::Poison | Kind::Trap(_) => {
                unreachable!("several faults are drawn together")
            }
            _ => self
                .network(kind, left)
                .unwrap_or_else(|| self.disk(kind, left)),
        }
    }

    fn who(&mut self, is_leader: bool) -> Who {
        if is_leader {
            Who::Leader
        } else {
            Who::Node(self.node())
        }
    }

    fn network(&mut self, kind: Kind, left: u64) -> Option<Fault> {
        if kind == Kind::Isolate {
            return Some(Fault::Isolate {
                node: Who::Node(self.node()),
                span: self.span(left, 6000),
            });
        }
        if !matches!(
            kind,
            Kind::Strand
                | Kind::Partition
                | Kind::Cut
                | Kind::Loss
                | Kind::Duplicate
                | Kind::Garble
                | Kind::Delay
                | Kind::Reset
        ) {
            return None;
        }
        let (from, to) = self.pair();
        let span = self.span(left, 6000);
        let by = self.span(left, 2000);
        let percent = self.random.between(1, 30);
        Some(match kind {
            Kind::Strand => Fault::Strand {
                node: Who::Node(from),
                span,
            },
            Kind::Partition => Fault::Partition { from, to, span },
            Kind::Cut => Fault::Cut {
                one: from,
                other: to,
                span,
            },
            Kind::Loss => Fault::Loss {
                from,
                to,
                percent,
                span,
            },
            Kind::Duplicate => Fault::Duplicate {
                from,
                to,
                percent,
                span,
            },
            Kind::Garble => Fault::Garble {
                from,
                to,
                percent: percent.div_ceil(10),
                span,
            },
            Kind::Delay => Fault::Delay { from, to, by, span },
            _ => Fault::Reset {
                one: from,
                other: to,
            },
        })
    }

    fn disk(&mut self, kind: Kind, left: u64) -> Fault {
        let node = self.node();
        let down = self.span(left, 4000);
        let bit = self.random.bits() >> 16;
        let who = Who::Node(node);
        match kind {
            Kind::SlowDisk => Fault::SlowDisk {
                node: who,
                by: self.random.millis(1, 200),
                span: self.span(left, 6000),
            },
            Kind::DiskError => Fault::DiskError {
                node: who,
                call: *self.random.pick(&BadCall::ALL),
                down,
            },
            Kind::DiskFull => Fault::DiskFull {
                node: who,
                span: self.span(left, 6000),
            },
            Kind::Flip(part) => Fault::Flip {
                node,
                part: part.drawn(bit),
                bit,
                down,
            },
            Kind::Rollback => Fault::Rollback {
                node,
                by: self.random.millis(200.min(left), left.min(5000)),
                down,
            },
            Kind::LoseLog => Fault::LoseLog {
                node,
                files: *self.random.pick(&[Lost::Whole, Lost::Newest]),
                down,
            },
            _ => Fault::Wipe { node },
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
