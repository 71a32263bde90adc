//! The kinds of what is drawn, how often each is drawn beside the others, and which of them make sense in a group.

use super::super::fault::{KillStep, Part};
use super::super::random::Random;
use super::super::setup::Setup;
use quorate_types::Persistence;

/// A kind of what is drawn: one fault, or several that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
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
const WEIGHTS: &[(FaultKind, u64)] = &[
    (FaultKind::Crash, 10),
    (FaultKind::CrashLeader, 8),
    (FaultKind::PowerCut, 8),
    (FaultKind::Blackout, 4),
    (FaultKind::Trap(KillStep::PhaseOne), 4),
    (FaultKind::Trap(KillStep::Fetch), 5),
    (FaultKind::Trap(KillStep::Install), 4),
    (FaultKind::Trap(KillStep::Asked), 4),
    (FaultKind::Trap(KillStep::Save), 4),
    (FaultKind::Trap(KillStep::Trim), 5),
    (FaultKind::Leave, 2),
    (FaultKind::LeaveLeader, 2),
    (FaultKind::Partition, 8),
    (FaultKind::Cut, 8),
    (FaultKind::Swizzle, 5),
    (FaultKind::Isolate, 4),
    (FaultKind::Strand, 5),
    (FaultKind::StrandLeader, 8),
    (FaultKind::Loss, 5),
    (FaultKind::Duplicate, 4),
    (FaultKind::Garble, 4),
    (FaultKind::Delay, 5),
    (FaultKind::Reset, 4),
    (FaultKind::Pause, 6),
    (FaultKind::PauseLeader, 5),
    (FaultKind::Stall, 5),
    (FaultKind::SlowDisk, 4),
    (FaultKind::DiskError, 7),
    (FaultKind::DiskFull, 7),
    (FaultKind::Flip(Part::Log), 6),
    (FaultKind::Flip(Part::Snapshots), 6),
    (FaultKind::Flip(Part::Identity), 3),
    (FaultKind::Rollback, 8),
    (FaultKind::LoseLog, 4),
    (FaultKind::Wipe, 3),
    (FaultKind::WallJump, 4),
    (FaultKind::WallYears, 5),
    (FaultKind::Hang, 5),
    (FaultKind::Diverge, 4),
    (FaultKind::Checkpoint, 4),
    (FaultKind::ClientCut, 4),
    (FaultKind::Poison, 8),
];

/// The kinds of a run with their weights: all that make sense in its group, or a few of them.
pub(super) fn kinds(random: &mut Random, setup: &Setup) -> Vec<(FaultKind, u64)> {
    let mut kinds: Vec<(FaultKind, u64)> = WEIGHTS
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

fn makes_sense(kind: FaultKind, setup: &Setup) -> bool {
    let has_peers = setup.nodes > 1;
    let is_durable = setup.persistence == Persistence::Disk;
    match kind {
        FaultKind::Crash | FaultKind::CrashLeader | FaultKind::PowerCut => true,
        FaultKind::Rollback => is_durable && has_peers,
        FaultKind::Blackout | FaultKind::DiskError | FaultKind::LoseLog | FaultKind::Wipe => {
            is_durable
        }
        FaultKind::Trap(KillStep::Save | KillStep::Trim | KillStep::Turn) => is_durable,
        FaultKind::Flip(Part::Identity) => is_durable,
        FaultKind::Flip(Part::Log | Part::View | Part::Snapshots) => is_durable && has_peers,
        FaultKind::Trap(
            KillStep::PhaseOne | KillStep::Fetch | KillStep::Install | KillStep::Asked,
        ) => is_durable && has_peers,
        FaultKind::Partition
        | FaultKind::Cut
        | FaultKind::Swizzle
        | FaultKind::Strand
        | FaultKind::StrandLeader
        | FaultKind::Loss
        | FaultKind::Duplicate
        | FaultKind::Garble
        | FaultKind::Delay
        | FaultKind::Reset => has_peers,
        FaultKind::Diverge => setup.nodes >= 3 && setup.witnesses == 0,
        // Objects that differ or end their hosts need majorities of the replicas, of which there are few beside witnesses.
        FaultKind::Poison => setup.witnesses == 0,
        FaultKind::Leave
        | FaultKind::LeaveLeader
        | FaultKind::Isolate
        | FaultKind::Pause
        | FaultKind::PauseLeader
        | FaultKind::Stall
        | FaultKind::SlowDisk
        | FaultKind::DiskFull
        | FaultKind::WallJump
        | FaultKind::WallYears
        | FaultKind::Hang
        | FaultKind::Checkpoint
        | FaultKind::ClientCut => true,
    }
}
