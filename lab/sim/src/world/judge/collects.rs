//! Garbage collection: logs are trimmed for what was decided, and acceptors vote for it only where they lack nothing before.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_types::{Ballot, Batch, Body, Level, NodeId, NodeSet, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// What was proposed and decided about the trim of logs.
pub(super) struct Collects {
    /// Where a trim was proposed in a classic round.
    proposed: BTreeSet<(Slot, Ballot)>,
    /// Votes, for whatever, that were cast where only a snapshot helped on.
    excused: BTreeSet<(NodeId, Slot, Ballot)>,
    /// The newest snapshot that a decided command names.
    decided: Slot,
    /// Up to where a node trimmed its log.
    trimmed: Slot,
    /// The newest snapshot in which each node began or that it took over.
    held: BTreeMap<NodeId, Slot>,
    /// The group began at a level at which nothing else trims.
    is_rule: bool,
}

impl Collects {
    pub(super) fn new(level: Level) -> Collects {
        Collects {
            proposed: BTreeSet::new(),
            excused: BTreeSet::new(),
            decided: Slot::ZERO,
            trimmed: Slot::ZERO,
            held: BTreeMap::new(),
            is_rule: level >= Level::COLLECTED,
        }
    }

    pub(super) fn proposed(&mut self, slot: Slot, ballot: Ballot) {
        self.proposed.insert((slot, ballot));
    }

    pub(super) fn trimmed(&mut self, upto: Slot) {
        self.trimmed = self.trimmed.max(upto);
    }

    pub(super) fn moved(&mut self, node: NodeId, slot: Slot) {
        self.held.insert(node, slot);
    }
}

impl Judge {
    /// A batch is decided in `slot`: what is trimmed for it is in snapshots of a majority, and all members of its view read it.
    pub(super) fn check_collects(&mut self, slot: Slot, batch: &Batch) -> Judged {
        for command in batch.commands() {
            let Body::Collect { slot: named, .. } = command.body else {
                continue;
            };
            let governing = self.governing(self.views.0.governs(slot));
            let (level, governing) = (governing.level, *governing);
            if level < Level::COLLECTED {
                return broken(
                    Property::LevelSpoken,
                    format!("a trim is decided in {slot}, in a view at level {level}"),
                );
            }
            let held = self.snapshots.iter().filter(|(_, kept)| **kept >= named);
            let held: NodeSet = held.map(|(node, _)| *node).collect();
            let executing = held.iter().filter(|node| !self.is_witness(*node));
            let needed = (governing.replicas.len() / 2 + 1).min(self.replica_majority);
            if named >= slot || executing.count() < needed || !governing.is_kept_by(held) {
                let kept = &self.snapshots;
                return broken(
                    Property::Durability,
                    format!("a trim up to {named} is decided in {slot}; snapshots are {kept:?}"),
                );
            }
            self.collects.decided = self.collects.decided.max(named);
        }
        Ok(())
    }

    /// `node` lets its log up to `upto` go for a command, or because it holds a snapshot that others have collected for, unless its
    /// disk is full or an operator's reset chose the snapshot.
    pub(in super::super) fn trims_for(&self, node: NodeId, upto: Slot, has_room: bool) -> Judged {
        let Collects {
            decided,
            held,
            is_rule,
            ..
        } = &self.collects;
        let held = held.get(&node).copied().unwrap_or_default();
        let chosen = self.last_reset().0;
        if !is_rule || !has_room || upto <= *decided || upto <= held.max(chosen) {
            return Ok(());
        }
        broken(
            Property::Durability,
            format!("{node} trims its log up to {upto}; decided is a trim up to {decided}"),
        )
    }

    /// `node` is about to write a vote. Others may have trimmed what it does not know to be decided at this moment.
    pub(in super::super) fn votes(&mut self, node: NodeId, slot: Slot, ballot: Ballot) {
        let decided = self.decided_by.get(&node).copied().unwrap_or_default();
        // A damaged node may believe its own watermark no more.
        let is_behind = decided < self.collects.trimmed || self.damaged.contains(&node);
        if is_behind {
            self.collects.excused.insert((node, slot, ballot));
        }
    }

    /// The slots before a vote of which nothing is on the disk of `node`, nor in the snapshot on which it stands.
    fn lacked(&self, node: NodeId, slot: Slot, ballot: Ballot) -> Vec<Slot> {
        let written = self.written.as_ref().and_then(|all| all.get(&ballot.view));
        let held = self.collects.held.get(&node).copied().unwrap_or_default();
        let lacking = written
            .into_iter()
            .flat_map(|written| written.lacking(node, slot));
        lacking.filter(|lacked| *lacked > held).collect()
    }

    /// A vote of `node` in a classic round leaves it: if it is for the trim of logs, it lacks nothing.
    pub(super) fn votes_for_trim(&self, node: NodeId, slot: Slot, ballot: Ballot) -> Judged {
        match self.collects.proposed.contains(&(slot, ballot)) {
            true => self.lacks_nothing(node, slot, ballot),
            false => Ok(()),
        }
    }

    /// A vote of `node` for the trim of logs leaves it: its disk has a vote or a decision for each slot before, but for those
    /// that others have decided where it can go on only with a snapshot.
    pub(super) fn lacks_nothing(&self, node: NodeId, slot: Slot, ballot: Ballot) -> Judged {
        // A damaged node tells again of a vote that it wrote when it lacked nothing, as it may write one now.
        let is_excused =
            self.damaged.contains(&node) || self.collects.excused.contains(&(node, slot, ballot));
        let is_decided =
            |lacked: &Slot| self.log.contains_key(lacked) || self.chosen.value(*lacked).is_some();
        let mut lacked = self.lacked(node, slot, ballot).into_iter();
        match lacked.find(|lacked| !is_excused || !is_decided(lacked)) {
            None => Ok(()),
            Some(lacked) => broken(
                Property::Durability,
                format!("{node} votes for a trim in {slot} {ballot} and holds nothing in {lacked}"),
            ),
        }
    }
}
