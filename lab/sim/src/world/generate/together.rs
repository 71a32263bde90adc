//! Draws faults that belong together: several links, a leader and its successors, a step and what leads there.

use super::super::fault::{Fault, KillStep, Who};
use super::super::schedule::Timed;
use super::kinds::FaultKind;
use super::{Draw, timed};
use quorate_types::Duration;

/// Changes of a disk in a save or a trim: a cut after more of them strikes behind it.
const STEPS_OF_DISK: u64 = 8;

impl Draw<'_> {
    /// Stops links one by one and lets them go in another order.
    pub(super) fn swizzle(&mut self, at: u64, left: u64) -> Vec<Timed> {
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
    pub(super) fn diverge(&mut self, at: u64, left: u64) -> Vec<Timed> {
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
    pub(super) fn strand_leader(&mut self, at: u64, left: u64) -> Vec<Timed> {
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
    pub(super) fn trap(&mut self, step: KillStep, at: u64, left: u64) -> Vec<Timed> {
        let after = match step {
            KillStep::PhaseOne => self.random.below(4),
            KillStep::Fetch => self.random.below(3),
            KillStep::Install => self.random.below(3),
            KillStep::Asked => self.random.below(3),
            KillStep::Save | KillStep::Trim | KillStep::Turn => self.random.below(STEPS_OF_DISK),
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
            KillStep::PhaseOne => Some(self.one(FaultKind::CrashLeader, left)),
            KillStep::Fetch | KillStep::Install | KillStep::Asked => {
                Some(self.one(FaultKind::Strand, left))
            }
            KillStep::Save | KillStep::Trim | KillStep::Turn => None,
        };
        let mut faults = vec![timed(at, trap)];
        faults.extend(beside.map(|fault| timed(at, fault)));
        faults
    }
}
