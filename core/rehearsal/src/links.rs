//! Links between the nodes of a rehearsal, in epochs. What a link carries arrives in order, or the link ends.

use crate::limits::{PATIENCE, REDIAL};
use crate::objects::RehearsedObjects;
use crate::rehearsal::Rehearsal;
use crate::schedule::Occurrence;
use quorate_any::AnyMessage;
use quorate_ordering::{Lane, LinkState};
use quorate_replica::PeerMessage;
use quorate_types::{Duration, LinkEpoch, NodeId, NodeSet, Time};
use std::collections::{BTreeMap, BTreeSet};

/// All links that stand.
#[derive(Debug, Default)]
pub(crate) struct RehearsedLinks {
    epochs: BTreeMap<(NodeId, NodeId), LinkEpoch>,
    made: u64,
    /// When the newest message of a direction arrives.
    last: BTreeMap<(NodeId, NodeId), Time>,
    /// Something was lost on them: nothing more passes.
    broken: BTreeSet<LinkEpoch>,
    /// Ends that have not noticed yet: (node, peer).
    unnoticed: BTreeSet<(NodeId, NodeId)>,
}

fn pair(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl Rehearsal {
    pub(crate) fn latency(&mut self) -> Duration {
        let drawn = Duration::from_micros(self.dice.between(50, 300));
        self.trace.as_ref().map_or(drawn, |trace| trace.link)
    }

    fn is_cut(&self, one: NodeId, other: NodeId) -> bool {
        self.nodes[&one].is_cut || self.nodes[&other].is_cut
    }

    pub(crate) fn send(
        &mut self,
        from: NodeId,
        to: NodeSet,
        lane: Lane,
        message: &PeerMessage<AnyMessage>,
    ) {
        for peer in to.iter() {
            let Some(epoch) = self.links.epochs.get(&pair(from, peer)).copied() else {
                continue;
            };
            if self.is_cut(from, peer) {
                self.links.broken.insert(epoch);
            }
            if self.links.broken.contains(&epoch) {
                continue;
            }
            let at = self.now + self.latency();
            let last = self.links.last.get(&(from, peer)).copied();
            let at = last.map_or(at, |last| at.max(Time(last.0 + 1)));
            self.links.last.insert((from, peer), at);
            if self.is_traced() {
                self.trace_peer((from, peer), lane, message, at);
            }
            let arrives = Occurrence::Arrives {
                from,
                to: peer,
                epoch,
                message: Box::new(message.clone()),
            };
            self.schedule.push(at, arrives);
        }
    }

    /// Whether a message of this epoch arrives.
    pub(crate) fn delivers(&mut self, from: NodeId, to: NodeId, epoch: LinkEpoch) -> bool {
        let stands = self.links.epochs.get(&pair(from, to)) == Some(&epoch);
        if stands && self.is_cut(from, to) {
            self.links.broken.insert(epoch);
        }
        stands && !self.links.broken.contains(&epoch)
    }

    pub(crate) fn connects(
        &mut self,
        one: NodeId,
        other: NodeId,
        objects: &mut dyn RehearsedObjects,
    ) {
        let runs = |id: &NodeId| self.nodes[id].running.is_some();
        if self.links.epochs.contains_key(&pair(one, other)) || !runs(&one) || !runs(&other) {
            return;
        }
        if self.is_cut(one, other) {
            let at = self.now + REDIAL + self.latency();
            self.schedule.push(at, Occurrence::Connects { one, other });
            return;
        }
        self.links.made += 1;
        let epoch = LinkEpoch(self.links.made);
        self.links.epochs.insert(pair(one, other), epoch);
        for (node, peer) in [(one, other), (other, one)] {
            if self.links.unnoticed.remove(&(node, peer)) {
                self.link_changed(node, peer, LinkState::Down, objects);
            }
            self.link_changed(node, peer, LinkState::Up(epoch), objects);
        }
    }

    /// Both ends give up a link that was cut and not healed, or on which something was lost.
    pub(crate) fn silent(
        &mut self,
        one: NodeId,
        other: NodeId,
        epoch: LinkEpoch,
        objects: &mut dyn RehearsedObjects,
    ) {
        let key = pair(one, other);
        let is_dead = self.is_cut(one, other) || self.links.broken.contains(&epoch);
        if self.links.epochs.get(&key) != Some(&epoch) || !is_dead {
            return;
        }
        self.links.epochs.remove(&key);
        self.links.broken.remove(&epoch);
        for (node, peer) in [(one, other), (other, one)] {
            self.link_changed(node, peer, LinkState::Down, objects);
        }
        let at = self.now + REDIAL;
        self.schedule.push(at, Occurrence::Connects { one, other });
    }

    /// A node was cut off: its links are watched.
    pub(crate) fn watch_links(&mut self, id: NodeId) {
        for other in self.ids().filter(|other| *other != id) {
            if let Some(epoch) = self.links.epochs.get(&pair(id, other)).copied() {
                let silent = Occurrence::Silent {
                    one: id,
                    other,
                    epoch,
                };
                self.schedule.push(self.now + PATIENCE, silent);
            }
        }
    }

    /// A node was healed: links on which something was lost end, and the nodes dial again.
    pub(crate) fn mend_links(&mut self, id: NodeId, objects: &mut dyn RehearsedObjects) {
        for other in self.ids().filter(|other| *other != id) {
            match self.links.epochs.get(&pair(id, other)).copied() {
                Some(epoch) => self.silent(id, other, epoch, objects),
                None => self.connects(id, other, objects),
            }
        }
    }

    /// The peers of a node whose process has ended notice when they next hear of it.
    pub(crate) fn links_end(&mut self, id: NodeId) {
        for other in self.ids().filter(|other| *other != id) {
            self.links.unnoticed.remove(&(id, other));
            if self.links.epochs.remove(&pair(id, other)).is_none() {
                continue;
            }
            if self.nodes[&other].running.is_some() {
                self.links.unnoticed.insert((other, id));
                let after = match self.is_cut(id, other) {
                    true => PATIENCE,
                    false => self.latency(),
                };
                let notices = Occurrence::Notices {
                    node: other,
                    peer: id,
                };
                self.schedule.push(self.now + after, notices);
            }
        }
    }

    /// A peer notices that a link has ended.
    pub(crate) fn notices(
        &mut self,
        node: NodeId,
        peer: NodeId,
        objects: &mut dyn RehearsedObjects,
    ) {
        if self.links.unnoticed.remove(&(node, peer)) {
            self.link_changed(node, peer, LinkState::Down, objects);
        }
    }
}
