//! Draws one fault of a kind: of a process or a clock, of the network, or of a disk.

use super::super::fault::{BadCall, Fault, Lost, Who};
use super::Draw;
use super::kinds::FaultKind;

impl Draw<'_> {
    pub(super) fn one(&mut self, kind: FaultKind, left: u64) -> Fault {
        match kind {
            FaultKind::Crash | FaultKind::CrashLeader => Fault::Crash {
                node: self.who(kind == FaultKind::CrashLeader),
                outputs: self.random.below(12),
                down: self.span(left, 4000),
            },
            FaultKind::PowerCut => Fault::PowerCut {
                node: self.who(false),
                changes: self.random.below(6),
                down: self.span(left, 4000),
            },
            FaultKind::Blackout => Fault::Blackout {
                down: self.span(left, 4000),
            },
            FaultKind::Leave | FaultKind::LeaveLeader => Fault::Leave {
                node: self.who(kind == FaultKind::LeaveLeader),
                down: self.span(left, 4000),
            },
            FaultKind::Pause | FaultKind::PauseLeader => Fault::Pause {
                node: self.who(kind == FaultKind::PauseLeader),
                span: self.span(left, 6000),
            },
            FaultKind::Stall => Fault::Stall {
                node: if self.random.chance(600) {
                    Who::Leader
                } else {
                    Who::Node(self.node())
                },
                span: self.span(left, 3000),
            },
            FaultKind::Hang => Fault::Hang {
                node: self.who(false),
                span: self.span(left, 6000),
            },
            FaultKind::Checkpoint => Fault::Checkpoint { node: self.node() },
            FaultKind::ClientCut => Fault::ClientCut {
                client: self.random.between(1, self.setup.clients),
                span: self.span(left, 20_000),
            },
            FaultKind::WallJump => Fault::WallJump {
                node: self.who(false),
                ms: self.random.below(7_200_000) as i64 - 3_600_000,
            },
            FaultKind::WallYears => Fault::WallJump {
                node: if self.random.chance(500) {
                    Who::Leader
                } else {
                    Who::Node(self.node())
                },
                ms: *self.random.pick(&[-5, -2, 2, 5, 30]) * 365 * 24 * 3_600_000,
            },
            FaultKind::Swizzle
            | FaultKind::StrandLeader
            | FaultKind::Diverge
            | FaultKind::Poison
            | FaultKind::Trap(_) => {
                unreachable!("several faults are drawn together")
            }
            _ => self
                .network(kind, left)
                .unwrap_or_else(|| self.disk(kind, left)),
        }
    }

    fn network(&mut self, kind: FaultKind, left: u64) -> Option<Fault> {
        if kind == FaultKind::Isolate {
            return Some(Fault::Isolate {
                node: Who::Node(self.node()),
                span: self.span(left, 6000),
            });
        }
        if !matches!(
            kind,
            FaultKind::Strand
                | FaultKind::Partition
                | FaultKind::Cut
                | FaultKind::Loss
                | FaultKind::Duplicate
                | FaultKind::Garble
                | FaultKind::Delay
                | FaultKind::Reset
        ) {
            return None;
        }
        let (from, to) = self.pair();
        let span = self.span(left, 6000);
        let by = self.span(left, 2000);
        let percent = self.random.between(1, 30);
        Some(match kind {
            FaultKind::Strand => Fault::Strand {
                node: Who::Node(from),
                span,
            },
            FaultKind::Partition => Fault::Partition { from, to, span },
            FaultKind::Cut => Fault::Cut {
                one: from,
                other: to,
                span,
            },
            FaultKind::Loss => Fault::Loss {
                from,
                to,
                percent,
                span,
            },
            FaultKind::Duplicate => Fault::Duplicate {
                from,
                to,
                percent,
                span,
            },
            FaultKind::Garble => Fault::Garble {
                from,
                to,
                percent: percent.div_ceil(10),
                span,
            },
            FaultKind::Delay => Fault::Delay { from, to, by, span },
            _ => Fault::Reset {
                one: from,
                other: to,
            },
        })
    }

    fn disk(&mut self, kind: FaultKind, left: u64) -> Fault {
        let node = self.node();
        let down = self.span(left, 4000);
        let bit = self.random.bits() >> 16;
        let who = Who::Node(node);
        match kind {
            FaultKind::SlowDisk => Fault::SlowDisk {
                node: who,
                by: self.random.millis(1, 200),
                span: self.span(left, 6000),
            },
            FaultKind::DiskError => Fault::DiskError {
                node: who,
                call: *self.random.pick(&BadCall::ALL),
                down,
            },
            FaultKind::DiskFull => Fault::DiskFull {
                node: who,
                span: self.span(left, 6000),
            },
            FaultKind::Flip(part) => Fault::Flip {
                node,
                part: part.drawn(bit),
                bit,
                down,
            },
            FaultKind::Rollback => Fault::Rollback {
                node,
                by: self.random.millis(200.min(left), left.min(5000)),
                down,
            },
            FaultKind::LoseLog => Fault::LoseLog {
                node,
                files: *self.random.pick(&[Lost::Whole, Lost::Newest]),
                down,
            },
            _ => Fault::Wipe { node },
        }
    }
}
