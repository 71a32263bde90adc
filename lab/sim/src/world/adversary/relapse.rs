//! Logs that are damaged for long, and logs that are damaged, repaired and damaged again.
//!
//! A node whose newest promise is lost, and which no later vote shows, learns and takes snapshots until all others have told it what
//! they know. Where these answers are late, much happens meanwhile.
//!
//! A node whose newest promise is lost goes on, because a later vote shows it. It dies in the moment in which its log is
//! repaired, and the next start finds that just these votes are lost too. Faults that are drawn one by one hardly ever meet so.

use super::player::{Kept, Player};
use super::{Adversary, Mood};
use crate::world::random::Random;
use crate::world::trace::Tag;
use quorate_ordering::{Entry, LostRecord};
use quorate_types::{Ballot, NodeId, Slot};

/// Repairs in a thousand of which a node dies, in the runs that are about it.
const DEADLY: u64 = 800;

/// Answers to damaged nodes in a thousand that are late, in the runs that are about long repairs.
const LATE: u64 = 950;

impl Mood {
    /// Makes some runs about relapses: they need deaths and damage.
    pub(super) fn with_relapses(mut self, seed: u64) -> Mood {
        self.relapse = *Random::new(seed, "relapse", 0).pick(&[0, 0, DEADLY]);
        if self.relapse > 0 {
            self.crash = self.crash.max(8);
            self.damage = self.damage.max(500);
        }
        self
    }

    /// Makes some runs about repairs that take long.
    pub(super) fn with_long_repairs(mut self, seed: u64) -> Mood {
        self.late_surveys = *Random::new(seed, "surveys", 0).pick(&[0, 0, LATE]);
        if self.late_surveys > 0 {
            self.crash = self.crash.max(8);
            self.damage = self.damage.max(500);
        }
        self
    }
}

impl Adversary {
    /// The place of a node's newest promise, if only votes show it beside that, and this run is about relapses; or if nothing shows it,
    /// and this run is about long repairs.
    pub(super) fn tempting(&self, id: NodeId) -> Option<usize> {
        let disk = &self.players[&id].disk;
        let place = disk.iter().rposition(is_promise)?;
        let later = &disk[place..];
        let is_shown = later.iter().any(|kept| vote_of(kept).is_some());
        let is_restated = later.iter().any(|kept| matches!(kept, Kept::Base(_)));
        let is_wanted = match is_shown {
            true => self.mood.relapse > 0,
            false => self.mood.late_surveys > 0,
        };
        (is_wanted && !is_restated).then_some(place)
    }

    /// A node that asks the others what it can have promised hears little in the runs that are about long repairs: they go on and trim
    /// what it lacks.
    pub(super) fn falls_behind_in_repair(&mut self, id: NodeId) {
        if self.mood.late_surveys == 0 {
            return;
        }
        self.slow.insert(id);
        for _ in 0..self.random.between(0, 3) {
            self.submit_one();
            self.calm();
            self.snapshot();
        }
        self.slow.remove(&id);
    }

    /// A node's log is repaired: says whether it dies of that.
    pub(super) fn dies_repaired(&mut self, id: NodeId) -> bool {
        let relapse = self.mood.relapse;
        if relapse == 0 || !self.random.chance(relapse) {
            return false;
        }
        let player = self.player(id);
        player.unsynced.clear();
        player.has_relapsed = true;
        self.crash(id);
        true
    }

    /// Makes the votes of the highest ballot unreadable, if the node died of its repair. Says whether it did.
    pub(super) fn relapses(&mut self, id: NodeId) -> bool {
        let player = self.player(id);
        if !std::mem::take(&mut player.has_relapsed) {
            return false;
        }
        player.lose_newest_votes();
        self.note(Tag::Fault, id, || format!("{id} relapses"));
        true
    }
}

impl Player {
    fn lose_newest_votes(&mut self) {
        let highest = self.disk.iter().filter_map(vote_of).max();
        let Some((highest, _)) = highest else {
            return;
        };
        for kept in &mut self.disk {
            if let Some((_, lost)) = vote_of(kept).filter(|(ballot, _)| *ballot == highest) {
                *kept = Kept::Lost(LostRecord::Slot(lost));
            }
        }
    }
}

/// The ballot and the slot of a vote.
fn vote_of(kept: &Kept) -> Option<(Ballot, Slot)> {
    match kept {
        Kept::Record(record) => match record.entry {
            Entry::Vote { slot, ballot, .. } => Some((ballot, slot)),
            Entry::Promise { .. }
            | Entry::Chosen { .. }
            | Entry::Decided { .. }
            | Entry::Trimmed { .. }
            | Entry::Agreed { .. } => None,
        },
        Kept::Base(_) | Kept::Lost(_) => None,
    }
}

fn is_promise(kept: &Kept) -> bool {
    matches!(kept, Kept::Record(record) if matches!(record.entry, Entry::Promise { .. }))
}
