//! Objects that differ everywhere, so that no majority agrees and all freeze, and the operator who says which state counts.
//!
//! What differs is read by nobody, so every answer stays right. The nodes have to freeze or to heal, to come to one state after
//! the operator's word, and to go on; what an operator would see of that decides what this one does.

use super::events::Event;
use super::random::Random;
use super::row::Row;
use super::stages::TICK;
use super::{Moment, World};
use crate::checkers::Property;
use quorate_replica::{Input, Quarantine};
use quorate_types::{
    Batch, Body, Command, ConnectionId, Duration, FromClient, NodeId, Persistence, Slot,
};

/// Between two checkpoints that are asked for while nodes differ.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(1000);

/// An operator looks again after so long, and longer while a reset is under way: a fetch may have to pause.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_millis(6_000);

/// A node that has so many decided slots to execute answers late.
const BEHIND: u64 = 256;

/// Once everything else is mended, the nodes are in one state within this.
const MENDED_WITHIN: Duration = Duration::from_millis(60_000);

/// How often, in a thousand ends of a reset, all machines lose their power then, and how soon.
const LOSE_POWER_PER_MILLE: u64 = 400;
const POWER_LASTS_MAX: Duration = Duration::from_millis(4);

/// The operator's connection, which no client has.
const OPERATOR: ConnectionId = ConnectionId(1 << 41);

/// What is known of nodes that were made to differ.
#[derive(Debug, Default)]
pub(super) struct Freezing {
    /// They were.
    pub began: bool,
    /// How often the operator has spoken.
    resets: u64,
    /// When the operator spoke last.
    spoke_at: Option<Moment>,
    /// Since when nothing else is broken.
    calm_since: Option<Moment>,
    /// The newest reset that was seen to end.
    ended: Slot,
    /// Nothing is owed to clients meanwhile.
    is_excused: bool,
}

impl World {
    /// The objects of every node hold something else.
    pub(super) fn differ_everywhere(&mut self) {
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        let is_possible = self.setup.nodes >= 3
            && self.setup.persistence == Persistence::Disk
            && self.harm.diverged.is_none()
            && !self.harm.freezing.began
            && ids.iter().all(|id| self.nodes[id].is_awake());
        if is_possible {
            self.harm.freezing.began = true;
            for id in ids {
                let objects = &mut self.running(id).objects;
                objects.alter(i64::from(id.0));
            }
        }
    }

    /// A node says that its objects answer nobody, and nodes were made to differ. After a reset there is one state.
    pub(super) fn froze(&mut self, id: NodeId, quarantine: Quarantine) {
        let (at, row) = match quarantine {
            Quarantine::Frozen { slot } => (slot, Row::Frozen),
            Quarantine::Diverged { slot, .. } => (slot, Row::Diverged),
        };
        self.exercised(row);
        let (last, is_over) = self.judge.last_reset();
        if is_over && at > last && last > Slot::ZERO {
            let detail = format!("{id} is {quarantine:?} after the reset of {last}");
            self.blame(Property::Digest, detail);
        }
    }

    /// A batch is decided somewhere, before it is judged. All that nodes know of a reset only from each other is gone if they all
    /// lose their power a moment after its end: so in some runs they do.
    pub(super) fn watch_thaw(&mut self, slot: Slot, batch: &Batch) {
        let (last, is_over) = self.judge.last_reset();
        let ends =
            |command: &Command| matches!(command.body, Body::Thaw { slot, .. } if slot == last);
        if is_over || !self.harm.freezing.began || !batch.commands().iter().any(ends) {
            return;
        }
        let mut random = Random::new(self.setup.seed, "thaw", slot.0);
        if random.chance(LOSE_POWER_PER_MILLE) {
            let at = self.now + Duration(random.below(POWER_LASTS_MAX.0));
            self.events.push(at, Event::AllLosePower);
        }
    }

    pub(super) fn all_lose_power(&mut self) {
        self.judge.liveness.faults_began();
        self.blackout(CHECKPOINT_EVERY);
    }

    /// Nodes hold different states, or have noted that they do.
    pub(super) fn is_split(&self) -> bool {
        if !self.harm.freezing.began {
            return false;
        }
        let running = self.nodes.values().filter_map(|node| node.running.as_ref());
        let mut oddities = running.map(|running| running.objects.oddity());
        let first = oddities.next();
        let is_noted = self.nodes.values().any(|node| {
            let is_quarantined = node.running.as_ref().is_some_and(|running| {
                let status = running.replica.status();
                status.frozen.is_some() || status.diverged.is_some()
            });
            is_quarantined || (node.quarantine.is_some() && !node.is_wiped)
        });
        is_noted || oddities.any(|oddity| Some(oddity) != first)
    }

    /// Nodes execute what could not be trimmed while no snapshot was agreed. One that starts with all of it owes
    /// its clients nothing until it is through.
    fn executes_again(&self) -> bool {
        let mut running = self.nodes.values().filter_map(|node| node.running.as_ref());
        self.harm.freezing.began
            && running.any(|running| {
                let status = running.replica.status();
                status.ordering.decided.since(status.executed) > BEHIND
            })
    }

    /// Asks for checkpoints while nodes differ, and speaks for the operator once they are frozen.
    pub(super) fn tend_freezing(&mut self) {
        let (last, is_over) = self.judge.last_reset();
        if is_over && last > self.harm.freezing.ended {
            self.harm.freezing.ended = last;
            self.exercised(Row::ResetEnded);
        }
        let is_split = self.is_split();
        if !self.stage.is_calm() {
            if is_split {
                self.mend_split();
            }
            return;
        }
        if is_split || self.executes_again() {
            let since = *self.harm.freezing.calm_since.get_or_insert(self.now);
            self.harm.freezing.is_excused = true;
            self.judge.liveness.faults_began();
            if self.now.since(since) > MENDED_WITHIN {
                self.blame(
                    Property::Liveness,
                    "nodes never come to one state".to_owned(),
                );
            }
            if is_split {
                self.mend_split();
            }
        } else if std::mem::take(&mut self.harm.freezing.is_excused) {
            self.harm.freezing.calm_since = None;
            self.faults_stopped();
        }
    }

    fn mend_split(&mut self) {
        if self.now.0 % CHECKPOINT_EVERY.0 < TICK.0 {
            let ids: Vec<NodeId> = self.setup.node_ids().collect();
            for id in ids {
                self.hand_in(id, Input::Checkpoint);
            }
        }
        let awake = self.setup.node_ids().filter(|id| self.nodes[id].is_awake());
        let seen: Vec<_> = awake
            .filter_map(|id| {
                let running = self.nodes[&id].running.as_ref()?;
                let status = running.replica.status();
                let frozen = status.frozen?;
                Some((id, running.boot, frozen, status))
            })
            .collect();
        let is_under_way = seen.iter().any(|(.., status)| status.reset.is_some());
        let patience = if is_under_way { PATIENCE } else { LOOKS_EVERY };
        let spoke_at = self.harm.freezing.spoke_at;
        if seen.is_empty() || spoke_at.is_some_and(|at| self.now.since(at) < patience) {
            return;
        }
        self.harm.freezing.resets += 1;
        self.harm.freezing.spoke_at = Some(self.now);
        let request = self.harm.freezing.resets;
        // Another node than the one that is asked now and then, and another one each time.
        let named = &seen[request as usize % seen.len()];
        let asked = seen[(request / 2) as usize % seen.len()].0;
        let (node, boot, slot) = (named.0, named.1, named.3.snapshot);
        let Some(digest) = named.3.snapshot_digest.filter(|_| slot >= named.2) else {
            return;
        };
        let message = FromClient::Reset {
            request,
            node,
            boot,
            slot,
            digest,
        };
        let from = OPERATOR;
        self.hand_in(asked, Input::Client { from, message });
    }
}
