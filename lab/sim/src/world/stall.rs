//! A process that stands still between reading its clock and acting on what had arrived.
//!
//! A real node reads its sockets, then its clock, then acts: what was in its hands is judged by the clock as it stood
//! before the stop. What its disk and its objects told meanwhile it finds when it goes on, and judges answers of objects
//! by a clock read after them (Claim rp-8); messages that arrived meanwhile wait for its next turn.

use super::World;
use super::clock::Moment;
use super::node::Running;
use quorate_any::AnyMessage;
use quorate_replica::Input;
use quorate_types::{NodeId, Slot};

/// A look at a clock: a process that stands still after it cannot know what others decide meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// When it was.
    pub at: Moment,
    /// Up to here slots were decided anywhere.
    pub decided: Slot,
}

/// A process that stands still in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalled {
    /// The fault that stopped it.
    pub index: usize,
    /// Its last look at the clock.
    pub look: Look,
    /// How many inputs had arrived before.
    pub arrived: usize,
}

/// The inputs of one turn.
#[derive(Debug)]
pub(super) struct Taken {
    /// Judged by the clock that the turn began with.
    pub early: Vec<Input<AnyMessage>>,
    /// That clock.
    pub look: Look,
    /// What the objects told, judged by a clock read after it.
    pub late: Vec<Input<AnyMessage>>,
}

impl World {
    /// A stall begins: the process stops in its next turn that has something to do.
    pub(super) fn stall_begins(&mut self, index: usize, id: NodeId) {
        self.node(id).stall_due = Some(index);
    }

    /// A stall ends, wherever it is.
    pub(super) fn stall_ends(&mut self, index: usize, id: NodeId) {
        let node = self.node(id);
        if node.stall_due == Some(index) {
            node.stall_due = None;
        }
        if node.stalled.is_some_and(|stalled| stalled.index == index) {
            node.paused = node.paused.saturating_sub(1);
            self.resume(id);
        }
    }

    /// A look at a clock in this moment.
    pub(super) fn look(&self) -> Look {
        Look {
            at: self.now,
            decided: self.judge.last_decided(),
        }
    }

    /// Stops a turn that has read its clock, if a stall waits for it.
    pub(super) fn stalls(&mut self, id: NodeId) -> bool {
        let look = self.look();
        let node = self.node(id);
        let Some(running) = &node.running else {
            return false;
        };
        let arrived = running.inbox.len();
        let Some(index) = node.stall_due.filter(|_| arrived > 0) else {
            return false;
        };
        node.stall_due = None;
        node.stalled = Some(Stalled {
            index,
            look,
            arrived,
        });
        node.paused += 1;
        true
    }
}

impl Running {
    /// Takes what a turn hands in that goes on after a stall; the rest waits for the next turn.
    pub(super) fn take_stalled(&mut self, stalled: Stalled) -> Taken {
        let mut taken = Taken {
            early: Vec::new(),
            look: stalled.look,
            late: Vec::new(),
        };
        for (place, input) in std::mem::take(&mut self.inbox).into_iter().enumerate() {
            match source(&input) {
                Source::Objects => taken.late.push(input),
                Source::Disk => taken.early.push(input),
                Source::Socket if place < stalled.arrived => taken.early.push(input),
                Source::Socket => self.inbox.push(input),
            }
        }
        taken
    }
}

/// Where a process finds an input.
enum Source {
    Socket,
    Disk,
    Objects,
}

fn source(input: &Input<AnyMessage>) -> Source {
    match input {
        Input::Persisted { .. } | Input::Storage { .. } => Source::Disk,
        Input::Executed { .. }
        | Input::Undone { .. }
        | Input::Queried { .. }
        | Input::Due { .. }
        | Input::SnapshotTaken { .. }
        | Input::SnapshotFailed { .. }
        | Input::Installed { .. }
        | Input::InstallFailed { .. }
        | Input::Host { .. }
        | Input::HostDied { .. } => Source::Objects,
        Input::Client { .. }
        | Input::Disconnected { .. }
        | Input::Peer { .. }
        | Input::Greeted { .. }
        | Input::Link { .. }
        | Input::Checkpoint
        | Input::Drain
        | Input::TurnEnd { .. }
        | Input::Wake => Source::Socket,
    }
}
