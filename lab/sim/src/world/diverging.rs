//! Objects that differ from the other replicas' without anybody having called them: a bit that flipped in memory, or a
//! library that computes otherwise on one machine.
//!
//! What differs is read by nobody, so every answer stays right and only digests tell. The node has to notice at a checkpoint,
//! and a wrong outcome within a second, to keep its quarantine over restarts, and to heal from what a majority holds.

use super::row::Row;
use super::stages::TICK;
use super::{Moment, World};
use crate::checkers::Property;
use bytes::Bytes;
use quorate_replica::{Input, OutcomeDifference, Quarantine, SnapshotCore};
use quorate_types::{
    CallPlace, Digest, Duration, NodeId, Outcome, Slot, SlotResults, Step, StepResult, ToClient,
};

/// Between two checkpoints that are asked for while a node has to heal.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(1000);

/// What is known of a node whose objects differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diverged {
    /// Which.
    node: NodeId,
    /// It has noticed.
    has_noticed: bool,
    /// How it answered otherwise.
    wrong: Wrong,
}

/// An outcome that is not the other replicas'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// None: the state differs.
    Nothing,
    /// The next one will be.
    Next,
    /// The one of this call, in this life of the node; since when it could have been found.
    Outcome {
        place: CallPlace,
        life: u64,
        healthy_since: Option<Moment>,
    },
    /// It was found, or is gone with the node.
    Past,
}

/// A wrong outcome is found so soon while all replicas and their links work.
const FOUND_WITHIN: Duration = Duration::from_millis(1000);

/// What a call did not return. It reaches no client, so that every answer stays right.
const WRONG: &[u8] = b"wrong";

/// Whether this tells a client an outcome that is wrong.
pub(super) fn is_wrong(message: &ToClient) -> bool {
    matches!(message, ToClient::Replied { outcome: Outcome::Raised(value), .. } if &value[..] == WRONG)
}

impl World {
    /// The objects of a node hold something that no call put there.
    pub(super) fn diverge(&mut self, id: NodeId) {
        if self.may_differ(id) {
            self.running(id).objects.alter(1);
            self.differs(id, Wrong::Nothing);
        }
    }

    /// The objects of a node answer the next call otherwise than they should.
    pub(super) fn misanswer(&mut self, id: NodeId) {
        if self.may_differ(id) {
            self.differs(id, Wrong::Next);
        }
    }

    /// Whether the objects of a node differ, or did.
    pub(super) fn has_differed(&self, id: NodeId) -> bool {
        let diverged = self.harm.diverged;
        diverged.is_some_and(|diverged| diverged.node == id)
    }

    fn differs(&mut self, node: NodeId, wrong: Wrong) {
        self.harm.diverged = Some(Diverged {
            node,
            has_noticed: false,
            wrong,
        });
    }

    fn may_differ(&mut self, id: NodeId) -> bool {
        let is_small = self.setup.nodes < 3;
        let is_partial =
            self.harm.freezing.began || self.harm.poison.is_partial(usize::from(self.setup.nodes));
        if is_small || is_partial || self.harm.diverged.is_some() || !self.nodes[&id].is_awake() {
            return false;
        }
        self.may_maim(id)
    }

    /// Calls were executed: if the node's objects are to answer otherwise, they do.
    pub(super) fn answer_otherwise(
        &mut self,
        id: NodeId,
        slot: Slot,
        steps: &[Step],
        results: &mut SlotResults,
    ) {
        let life = self.nodes[&id].life;
        let Some(diverged) = &mut self.harm.diverged else {
            return;
        };
        if diverged.node != id || diverged.wrong != Wrong::Next {
            return;
        }
        let mut answers = steps.iter().zip(&mut results.steps);
        let is_executed = |result: &StepResult| {
            let outcome = result.outcome();
            outcome.is_some_and(|outcome| *outcome != Outcome::Skipped)
        };
        let Some((step, result)) = answers.find(|(_, result)| is_executed(result)) else {
            return;
        };
        *result = StepResult::Answered(Outcome::Raised(Bytes::from_static(WRONG)));
        let index = step.index();
        diverged.wrong = Wrong::Outcome {
            place: CallPlace { slot, index },
            life,
            healthy_since: None,
        };
    }

    /// A node goes on from a majority's snapshot, with its digest: a wrong outcome that this covers differs no longer.
    pub(super) fn wrong_is_replaced(&mut self, id: NodeId, upto: Slot) {
        if let Some(diverged) = &mut self.harm.diverged
            && diverged.node == id
            && let Wrong::Outcome { place, .. } = diverged.wrong
            && place.slot <= upto
        {
            diverged.wrong = Wrong::Past;
        }
    }

    /// A wrong outcome must be found within a second in which nothing disturbs the replicas.
    pub(super) fn watch_drift(&mut self) {
        let Some(diverged) = self.harm.diverged else {
            return;
        };
        let Wrong::Outcome {
            place,
            life,
            healthy_since,
        } = diverged.wrong
        else {
            return;
        };
        let is_gone = diverged.has_noticed || self.nodes[&diverged.node].life != life;
        let since = healthy_since.unwrap_or(self.now);
        let healthy_since = self.may_find(place.slot).then_some(since);
        let wrong = match is_gone {
            true => Wrong::Past,
            false => Wrong::Outcome {
                place,
                life,
                healthy_since,
            },
        };
        self.harm.diverged = Some(Diverged { wrong, ..diverged });
        if !is_gone && healthy_since.is_some_and(|since| self.now.since(since) > FOUND_WITHIN) {
            let node = diverged.node;
            let detail = format!("{node} had another outcome at {place:?}, and nobody finds it");
            self.blame(Property::Digest, detail);
        }
    }

    /// Whether all replicas have executed `slot`, work, and reach each other.
    fn may_find(&self, slot: Slot) -> bool {
        let works = |id: &NodeId| {
            let node = &self.nodes[id];
            let executed = node.running.as_ref().map(|own| own.replica.executed_upto());
            let is_still =
                node.hung > 0 || node.stalled.is_some() || node.slow > Duration::default();
            node.is_awake() && !is_still && executed >= Some(slot)
        };
        let ids: Vec<NodeId> = self.setup.node_ids().collect();
        let pairs = ids
            .iter()
            .flat_map(|one| ids.iter().map(move |other| (*one, *other)));
        let mut pairs = pairs.filter(|(one, other)| one != other);
        let network = &self.network;
        ids.iter().all(works)
            && pairs.all(|(one, other)| {
                network.is_clear(self.now, one, other) && network.epoch(one, other).is_some()
            })
    }

    /// A node names where outcomes differ: it must be the wrong one.
    pub(super) fn difference_named(&mut self, id: NodeId, named: &OutcomeDifference) {
        let wrong = self
            .harm
            .diverged
            .map(|diverged| (diverged.node, diverged.wrong));
        let is_right = match wrong {
            Some((node, Wrong::Outcome { place, .. })) if named.is_exact => {
                let index = named.call.as_ref().map(|call| call.index);
                let is_call = index.is_none_or(|index| index == place.index);
                named.node == node && named.slot == place.slot && is_call
            }
            Some((node, Wrong::Outcome { place, .. })) => {
                named.node == node && named.slot >= place.slot
            }
            Some((node, Wrong::Past | Wrong::Nothing | Wrong::Next)) => named.node == node,
            None => false,
        };
        if !is_right {
            let detail = format!("{id} names {named:?}, but it is {wrong:?}");
            self.blame(Property::Digest, detail);
        }
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

    /// A node starts with a snapshot on which nobody agreed: it may be one that the node took while its objects differed, and that lay
    /// on its disk while it healed from an older one.
    pub(super) fn starts_from(&mut self, id: NodeId, core: &SnapshotCore, state: [u8; 32]) {
        let replicated = core.digest();
        if !self.is_agreed(core.slot, Digest { replicated, state }) {
            self.loses_healed(id);
        }
    }

    /// A node says that its objects answer nobody: only one that differs may, and once, unless it goes back.
    pub(super) fn quarantined(&mut self, id: NodeId, quarantine: Quarantine) {
        self.node(id).quarantine = Some(quarantine);
        if self.harm.freezing.began {
            return self.froze(id, quarantine);
        }
        let is_diverged = matches!(quarantine, Quarantine::Diverged { .. });
        match &mut self.harm.diverged {
            Some(diverged) if is_diverged && diverged.node == id && !diverged.has_noticed => {
                diverged.has_noticed = true;
                let row = match diverged.wrong {
                    Wrong::Nothing => Row::Diverged,
                    Wrong::Next | Wrong::Outcome { .. } | Wrong::Past => Row::Misanswered,
                };
                self.exercised(row);
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
        if self.harm.freezing.began && self.judge.last_reset().1 {
            // It may start with the state that an operator chose.
            return;
        }
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
        if self.harm.freezing.began {
            return self.is_split();
        }
        let Some(Diverged { node, wrong, .. }) = self.harm.diverged else {
            return false;
        };
        if matches!(wrong, Wrong::Outcome { .. }) {
            return true;
        }
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
