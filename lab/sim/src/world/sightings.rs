//! What nodes remember of how far the others had come: an older copy of a whole directory is found by it.
//!
//! A node alone cannot know that its directory is an older copy. Its peers compare its reach when it connects
//! ([`PeerPast`], as the transport does), and a node that comes with less records the loss and starts again as an observer.
//! Here what a peer has seen survives its restarts at once; a node writes it a little later. So copies come back only where
//! every other acceptor has seen what they lack: what else may happen is stated as a limit in docs/storage.md.

use super::World;
use super::durable::DiskFound;
use super::life::Death;
use super::row::Row;
use crate::checkers::Property;
use quorate_storage::IdentityFile;
use quorate_storage::MemoryLoss;
use quorate_types::{
    Duration, Finding, NodeId, NodeSet, PeerPast, Reach, Recall, Sighting, StartOfNode, ViewNumber,
};
use std::collections::BTreeMap;

/// What each node, the first, remembers of another.
pub(super) type Sightings = BTreeMap<(NodeId, NodeId), PeerPast>;

/// A node that was told that it is a copy is started again after this.
const STARTED_AGAIN: Duration = Duration::from_millis(100);

impl DiskFound {
    /// What this start tells its peers of how much it remembers.
    pub(super) fn recall(&self) -> Recall {
        if self.has_forgotten {
            Recall::Lost
        } else if self.past.damage.was_found() {
            Recall::Damaged
        } else {
            Recall::Whole
        }
    }
}

impl World {
    /// How far a running node has come.
    fn reach(&self, id: NodeId) -> Option<Reach> {
        let node = &self.nodes[&id];
        let running = node.running.as_ref()?;
        Some(Reach {
            boot: running.boot,
            start: node.life,
            commit: running.storage.log.newest_commit(),
            recall: running.recall,
            since: running.since.unwrap_or_default(),
            starts: running.starts,
        })
    }

    /// Two nodes that connect tell each other how far they have come. Says whether one of them is refused.
    pub(super) fn refuse_each_other(&mut self, one: NodeId, other: NodeId) -> bool {
        self.refuses(one, other) || self.refuses(other, one)
    }

    fn refuses(&mut self, watcher: NodeId, id: NodeId) -> bool {
        let Some(reach) = self.reach(id) else {
            return false;
        };
        let past = self.sightings.entry((watcher, id));
        let known = self.nodes[&id].disks.incarnation;
        let past = past.or_insert(PeerPast::new(known));
        if past.incarnation != known {
            *past = PeerPast::new(known);
        }
        match past.judge(reach) {
            Ok(()) => {
                past.note(reach);
                false
            }
            Err(sighting) => {
                self.sighted(watcher, id, sighting);
                true
            }
        }
    }

    /// A peer has seen more of a node than it comes with.
    fn sighted(&mut self, watcher: NodeId, id: NodeId, sighting: Sighting) {
        if !self.harm.copied.contains(&id) {
            let detail = format!("{watcher} takes {id} for an older copy of itself: {sighting:?}");
            self.blame(Property::Remembered, detail);
            return;
        }
        self.die(id, Death::Killed, STARTED_AGAIN);
        let node = self.node(id);
        let noted = IdentityFile::boot(node.disks.identity.clone()).and_then(|identity| {
            identity.change(|identity| {
                identity.boot = identity.boot.max(sighting.boot);
                match sighting.finding {
                    Finding::OlderCopy => identity.loss = Some(MemoryLoss::DirectoryOld),
                    Finding::BootUsed => {}
                }
            })
        });
        // Others have lived with this identity, and noted elsewhere what they did.
        node.notes.lose();
        // What cannot be noted is told again at the next start.
        if noted.is_ok() && sighting.finding == Finding::OlderCopy {
            node.is_old_copy = false;
            self.exercised(Row::RolledBack);
        }
    }

    /// Nodes tell those whom they are linked to how far they have come, every now and then.
    pub(super) fn tell_reaches(&mut self) {
        let ids: Vec<NodeId> = self.setup.node_ids().collect();
        for id in ids.iter().copied() {
            for watcher in ids.iter().copied() {
                let is_linked = self.network.epoch(id, watcher).is_some();
                let both_run = self.nodes[&id].is_awake() && self.nodes[&watcher].is_awake();
                if id != watcher && is_linked && both_run && self.network.is_open(id, watcher) {
                    self.refuses(watcher, id);
                }
            }
        }
    }

    /// Whether every other acceptor has seen commits that a copy of a node's disks lacks, no other node is a copy, and the copy needs
    /// others to decide anything. A copy that lacks boots only has lost nothing, and may start several times before anybody hears it.
    pub(super) fn would_be_sighted(&self, id: NodeId, found: &DiskFound) -> bool {
        let commit = found.storage.log.newest_commit();
        let (boot, start) = (u64::MAX, self.nodes[&id].life + 1);
        let mut starts = found.starts;
        starts.note(StartOfNode {
            boot,
            number: start,
            begun: commit,
        });
        let reach = Reach {
            boot,
            start,
            commit,
            recall: found.recall(),
            since: found.since.unwrap_or_default(),
            starts,
        };
        let known = self.nodes[&id].disks.incarnation;
        let sees = |watcher: NodeId| {
            let past = self.sightings.get(&(watcher, id));
            // What was seen of the machine that had its number before counts for nothing when it connects.
            let past = past.filter(|past| past.incarnation == known);
            let judged = past.map(|past| past.judge(reach));
            // A directory that comes back after a copy of it has observed lacks nothing that was seen.
            matches!(judged, Some(Err(sighting)) if sighting.finding == Finding::OlderCopy)
        };
        let others = self.acceptors().without(id);
        found.recall() == Recall::Whole
            && !self.decides_alone(id, found.begun)
            && self.harm.copied.iter().all(|copy| *copy == id)
            && others
                .iter()
                .all(|other| self.nodes[&other].is_wiped || sees(other))
    }

    /// Whether nobody else votes in the view that a copy of a node's directory begins with, or in the next one: it goes on from there
    /// before it meets anybody. docs/views.md states it as a limit.
    fn decides_alone(&self, id: NodeId, begun: ViewNumber) -> bool {
        let next = ViewNumber(begun.0 + 1).min(self.judge.newest_view());
        let mut views = [begun, next].into_iter();
        views.any(|view| self.judge.governing(view).acceptors == NodeSet::only(id))
    }

    /// An older copy of a node's directory holds less of what it knew of the others.
    pub(super) fn forget_sightings(&mut self, watcher: NodeId) {
        self.sightings.retain(|(node, _), _| *node != watcher);
    }
}
