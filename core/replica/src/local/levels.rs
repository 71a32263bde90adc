//! The level of the group: what every member must speak, and what this node knows that the others do.
//!
//! A build reads nothing of a later level. So a view is raised to a level only where all members are linked and speak it, and a
//! node whose build does not speak the level of a view takes no part in it. What was decided at a higher level stays in logs and
//! snapshots for a while after the group was set to a lower one: until then the group asks for the higher one still. Claims rp-115, rp-116.

use crate::{Output, Replica, ViewPasts};
use quorate_ordering::{Entry, Ordering, Record};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Command, Level, Levels, MemberChange, NodeId, Slot, View, ViewNumber, VoteKind,
};
use std::collections::BTreeMap;

/// What is known of levels here.
#[derive(Debug)]
pub(crate) struct SpokenLevels {
    /// Which start of each linked peer this is, and what it speaks.
    peers: BTreeMap<NodeId, (u64, Levels)>,
    /// The level of the view to which this node turned last.
    in_force: Level,
    /// What is needed to read this log, where that may be above the view's level: for each level the last slot that needs it. At most as
    /// many as there are levels.
    before: BTreeMap<Level, Slot>,
}

impl SpokenLevels {
    /// Those of a node that begins at this level, with a log of views before.
    pub(crate) fn new(in_force: Level, log: &ViewPasts) -> SpokenLevels {
        let mut levels = SpokenLevels {
            peers: BTreeMap::new(),
            in_force,
            before: BTreeMap::new(),
        };
        for record in log.records.values().flatten() {
            levels.found(record);
        }
        levels
    }

    /// A peer that is about to be linked says which start of it this is, and what it speaks.
    pub(crate) fn told(&mut self, peer: NodeId, boot: u64, speaks: Levels) {
        self.peers.insert(peer, (boot, speaks));
    }

    /// The start of a peer that is linked.
    pub(crate) fn boot_of(&self, peer: NodeId) -> Option<u64> {
        self.peers.get(&peer).map(|(boot, _)| *boot)
    }

    /// The link is over: the next start may speak something else.
    pub(crate) fn unlinked(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Up to this slot the log has what only who speaks the level reads.
    pub(crate) fn written(&mut self, level: Level, slot: Slot) {
        let last = self.before.entry(level).or_default();
        *last = slot.max(*last);
    }

    /// The log has this record.
    fn found(&mut self, record: &Record) {
        let (slot, batch, kind) = match &record.entry {
            Entry::Vote {
                slot, batch, kind, ..
            } => (slot, batch, *kind),
            Entry::Chosen { slot, batch } => (slot, batch, VoteKind::Classic),
            Entry::Promise { .. }
            | Entry::Decided { .. }
            | Entry::Trimmed { .. }
            | Entry::Agreed { .. } => return,
        };
        let of_vote = kind.is_fast().then_some(Level::FAST_ROUNDS);
        let highest = batch.commands().iter().map(Command::level).max();
        if let Some(level) = highest.max(of_vote).filter(|level| *level > Level::UNNAMED) {
            self.written(level, *slot);
        }
    }

    fn speaks(&self, peer: NodeId, level: Level) -> bool {
        let peer = self.peers.get(&peer);
        peer.is_some_and(|(_, levels)| levels.has(level) && levels.has(Level::NAMED))
    }
}

impl<O: Ordering> Replica<O> {
    /// What a node must speak to be linked to this one, and the view that says so: the level of the view in force, or that of the one
    /// that is decided to follow, or of what is left from before, whichever is the highest.
    #[must_use]
    pub fn level_asked(&self) -> (Level, ViewNumber) {
        let view = self.view();
        let next = self.replicated.views.next();
        let next = next.map(|next| (next.level, next.number));
        let before = self.levels.before.keys().next_back();
        let before = before.map(|level| (*level, view.number));
        let all = [before, Some((view.level, view.number)), next];
        let highest = all.into_iter().flatten().max_by_key(|(level, _)| *level);
        highest.expect("a view is in force")
    }

    /// Whether this node's build can take part in a view.
    pub(crate) fn speaks_level_of(&self, view: &View) -> bool {
        self.config.speaks.has(view.level) || planted(Plant::BelowLevelTakesPart)
    }

    /// Whether a change of the view is one that every member reads and can follow. Members that are not linked may speak anything.
    pub(crate) fn is_spoken(&self, who: &MemberChange) -> bool {
        let MemberChange::Level(level) = who else {
            return true;
        };
        let own = self.config.own;
        let others = self.view().nodes().without(own);
        let mut others = others.iter();
        // The command that lowers a level is itself of a higher one.
        let is_own = self.config.speaks.has(*level) && self.config.speaks.has(Level::NAMED);
        is_own && others.all(|node| self.levels.speaks(node, *level))
            || planted(Plant::LevelUnheard)
    }

    /// Another view is in force at this node: a build that does not speak its level ends here.
    pub(crate) fn note_level(&mut self, out: &mut Vec<Output<O::Message>>) {
        let view = self.view();
        let (level, number) = (view.level, view.number);
        let (last, is_spoken) = (view.first_slot.previous(), self.speaks_level_of(view));
        let before = std::mem::replace(&mut self.levels.in_force, level);
        if before > level {
            self.levels.written(before, last);
        }
        if !is_spoken {
            let view = number;
            out.push(Output::LevelNotSpoken { level, view });
        }
    }

    /// At the end of a turn: what was decided at a higher level is gone from this log.
    pub(crate) fn tend_levels(&mut self) {
        let trimmed = self.instances.begins_after();
        self.levels.before.retain(|_, last| *last > trimmed);
    }
}
