//! Objects that differ from the other replicas' without anybody having called them: a bit that flipped in memory, or a
//! library that computes otherwise on one machine.
//!
//! What differs is read by nobody, so every answer stays right and only digests tell. The node has to notice at a checkpoint,
//! to keep its quarantine over restarts, and to heal from what a majority holds.

use super::World;
use super::row::Row;
use super::stages::TICK;
use crate::checkers::Property;
use quorate_replica::{Input, Quarantine};
use quorate_types::{Digest, Duration, NodeId, Slot};

/// Between two checkpoints that are asked for while a node has to heal.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(1000);

/// What is known of a node whose objects differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diverged {
    /// Which.
    node: NodeId,
    /// It has noticed.
    has_noticed: bool,
}

impl World {
    /// The objects of a node hold something that no call put there.
    pub(super) fn diverge(&mut self, id: NodeId) {
        let is_small = self.setup.nodes < 3;
        let is_partial = self.harm.poison.is_partial(usize::from(self.setup.nodes));
        if is_small || is_partial || self.harm.diverged.is_some() || !self.nodes[&id].is_awake() {
            return;
        }
        if !self.may_maim(id) {
            return;
        }
        self.running(id).objects.alter();
        self.harm.diverged = Some(Diverged {
            node: id,
            has_noticed: false,
        });
    }

    /// A node gets a copy of its directory back. One that was taken while its objects differed brings the state that differs,
    /// and what the node had noted of it by then: what it noticed later, it has to notice again.
    pub(super) fn diverges_again(&mut self, id: NodeId, copied: Option<Diverged>) {
        if let (Some(diverged), Some(copied)) = (&mut self.harm.diverged, copied)
            && diverged.node == id
        {
            diverged.has_noticed = copied.has_noticed;
        }
    }

    /// The next start of a node begins with an older snapshot, which may be from before it healed. It has noted nothing any more
    /// once its log is trimmed for the snapshot that healed it, and then has to fetch a state anyway, so nobody is answered.
    pub(super) fn loses_healed(&mut self, id: NodeId) {
        let is_noted = self.nodes[&id].quarantine.is_some();
        if let Some(diverged) = &mut self.harm.diverged
            && diverged.node == id
            && !is_noted
        {
            diverged.has_noticed = false;
        }
    }

    /// A node says that its objects answer nobody: only one that differs may, and once, unless it goes back.
    pub(super) fn quarantined(&mut self, id: NodeId, quarantine: Quarantine) {
        self.node(id).quarantine = Some(quarantine);
        let is_diverged = matches!(quarantine, Quarantine::Diverged { .. });
        match &mut self.harm.diverged {
            Some(diverged) if is_diverged && diverged.node == id && !diverged.has_noticed => {
                diverged.has_noticed = true;
                self.exercised(Row::Diverged);
            }
            Some(_) | None => {
                let detail = format!("{id} quarantines its objects: {quarantine:?}");
                self.blame(Property::Digest, detail);
            }
        }
    }

    /// A node has started: what it noted of its objects must hold still.
    pub(super) fn check_quarantine(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        let (Some(noted), Some(running)) = (node.quarantine, &node.running) else {
            return;
        };
        let status = running.replica.status();
        if status.diverged.is_none() && status.frozen.is_none() {
            let detail =
                format!("{id} starts and trusts its objects, which it had noted as {noted:?}");
            self.blame(Property::Digest, detail);
        }
    }

    /// A node goes on from a snapshot that so many must have taken with this digest.
    pub(super) fn check_agreed(&mut self, id: NodeId, slot: Slot, agreed: Digest) {
        if !self.is_agreed(slot, agreed) {
            let takers = self.judge.takers(slot, agreed);
            let detail = format!("{id} installs a snapshot at {slot} that only {takers:?} took");
            self.blame(Property::Digest, detail);
        }
    }

    /// Whether a node's objects differ still; asks for a checkpoint now and then, for nobody notices without one.
    pub(super) fn must_heal(&mut self) -> bool {
        let Some(Diverged { node, .. }) = self.harm.diverged else {
            return false;
        };
        let images = |id: &NodeId| {
            let running = self.nodes[id].running.as_ref();
            running.map(|running| running.objects.images())
        };
        let Some(own) = images(&node) else {
            return false;
        };
        let others = self.setup.node_ids().filter(|id| *id != node);
        let mut others = others.filter_map(|id| images(&id));
        let is_noted = self.nodes[&node].quarantine.is_some();
        if others.all(|other| other == own) && !is_noted {
            return false;
        }
        if self.now.0 % CHECKPOINT_EVERY.0 < TICK.0 {
            for id in self.setup.node_ids() {
                self.hand_in(id, Input::Checkpoint);
            }
        }
        true
    }
}
