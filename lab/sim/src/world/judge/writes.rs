//! Tells the checkers what acceptors make durable, and what they find of it at a start.

use super::{Judge, Judged, broken, fingerprint};
use crate::checkers::Property;
use crate::checkers::agreement::{Fingerprint, Remembered};
use crate::checkers::chosen::Chosen;
use crate::checkers::rounds::VoteRound;
use crate::checkers::written::{Entry, LostRecords};
use crate::world::setup::founding;
use quorate_ordering::{Damage, Entry as Noted, Record};
use quorate_types::{Ballot, Batch, Incarnation, NodeId, Slot, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

impl Judge {
    /// Records are durable at `node`.
    pub(in super::super) fn wrote(&mut self, node: NodeId, record: &Record) -> Judged {
        if let Noted::Vote { kind, batch, .. } = &record.entry {
            self.names_of(record.view.number, *kind, batch)?;
        }
        let entry = entry_of(record);
        self.written_in(record.view.number);
        if let Some(written) = &mut self.written
            && let Some(written) = written.get_mut(&record.view.number)
        {
            let (log, chosen) = (&self.log, &self.chosen);
            written.wrote(node, entry, |slot| decided(log, chosen, slot))?;
        }
        match entry {
            Entry::Vote(slot, round, value) => {
                self.views
                    .0
                    .acts(node, round.ballot.view, "writes a vote")?;
                self.chosen.voted(node, slot, round, value)
            }
            Entry::Promise(_)
            | Entry::Chosen(..)
            | Entry::Decided(_)
            | Entry::Trimmed(_)
            | Entry::Agreed(_) => Ok(()),
        }
    }

    /// `node` wants `base` in place of its records up to `upto`.
    pub(in super::super) fn replaces(&self, node: NodeId, upto: Slot, base: &[Record]) -> Judged {
        for (view, written) in self.written.iter().flatten() {
            let of_view = base.iter().filter(|record| record.view.number == *view);
            let of_view: Vec<Entry> = of_view.map(entry_of).collect();
            // A view whose slots are all in a majority's snapshots goes whole. Of one that has no instance yet nothing is trimmed.
            match trimmed(base, Some(*view)).max() {
                Some(trimmed) => written.replaced(node, trimmed.max(upto), &of_view)?,
                None if of_view.is_empty() => {}
                None => written.restated(node, &of_view)?,
            }
        }
        let least = trimmed(base, None).min();
        if self.written.is_some() && least != Some(upto) {
            return broken(
                Property::Remembered,
                format!("{node} lets records up to {upto} go; the base is trimmed up to {least:?}"),
            );
        }
        Ok(())
    }

    /// `node` begins a life with these records, of which damage took others; it has lost something or not.
    pub(in super::super) fn found(
        &mut self,
        node: NodeId,
        records: &[Record],
        damage: &Damage,
        is_damaged: bool,
    ) -> Judged {
        if is_damaged {
            self.damaged.insert(node);
        } else {
            self.damaged.remove(&node);
        }
        let upto = records.iter().filter_map(|record| match &record.entry {
            Noted::Decided { upto } | Noted::Trimmed { upto } => Some(*upto),
            Noted::Promise { .. }
            | Noted::Vote { .. }
            | Noted::Chosen { .. }
            | Noted::Agreed { .. } => None,
        });
        let known = self.decided_by.entry(node).or_default();
        *known = upto.max().unwrap_or_default().max(*known);
        for record in records {
            self.written_in(record.view.number);
        }
        // A node that has noted an agreed snapshot in a view keeps nothing whole of those before.
        let noted = noted(records);
        let views = self.written.iter_mut().flatten();
        for (view, written) in views {
            let (log, chosen) = (&self.log, &self.chosen);
            let is_whole = Some(*view) >= noted;
            let of_view = records.iter();
            let of_view = of_view.filter(|record| is_whole && record.view.number == *view);
            let entries = of_view.map(entry_of);
            let lost = LostRecords {
                slots: damage.slots().clone(),
                is_anywhere: damage.is_anywhere() || !is_whole,
            };
            written.found(node, entries, lost, |slot| decided(log, chosen, slot))?;
        }
        Ok(())
    }

    /// `node` knows every slot up to `slot` to be decided, handed up or not.
    pub(in super::super) fn knows(&mut self, node: NodeId, slot: Slot) {
        let known = self.decided_by.entry(node).or_default();
        *known = slot.max(*known);
        let decided = *known;
        if let Some(forgetful) = self.forgetful.get_mut(&node) {
            forgetful.learned(decided);
        }
    }

    /// `node` begins a life in which it lacks nothing but records of some slots.
    pub(in super::super) fn restarted_on_damage(
        &self,
        (node, votes_as): (NodeId, Option<Incarnation>),
        promised: Ballot,
    ) -> Judged {
        let told = self.agreement.get(&promised.view);
        let told = told.filter(|_| promised.view >= self.first_named(node, votes_as));
        told.map_or(Ok(()), |told| told.restarted_on_damage(node, promised))
    }

    /// `node` begins a life with these records, undamaged.
    ///
    /// `promised` is what its acceptor says it has promised.
    pub(in super::super) fn restarted(
        &mut self,
        (node, votes_as): (NodeId, Option<Incarnation>),
        promised: Ballot,
        records: &[Record],
    ) -> Judged {
        let mut views: Vec<ViewNumber> = records.iter().map(|record| record.view.number).collect();
        views.sort_unstable();
        views.dedup();
        let first = self.first_named(node, votes_as);
        views.retain(|view| Some(*view) >= noted(records) && *view >= first);
        for view in views {
            let of_view = records.iter().filter(|record| record.view.number == view);
            let promised = (promised.view == view).then_some(promised);
            if let Some(told) = self.agreement.get(&view) {
                told.restarted(node, &held(of_view, promised))?;
            }
        }
        Ok(())
    }

    /// The first view that names `node` in the incarnation that it votes as: nobody counts on what it told before.
    fn first_named(&self, node: NodeId, votes_as: Option<Incarnation>) -> ViewNumber {
        let named = votes_as.filter(|incarnation| *incarnation != founding(node));
        named.map_or(ViewNumber(1), |incarnation| {
            let named = self.came_back.get(&(node, incarnation)).copied();
            named.unwrap_or(ViewNumber(u64::MAX))
        })
    }
}

/// The newest view in which an agreed snapshot is noted.
fn noted(records: &[Record]) -> Option<ViewNumber> {
    let noted = records.iter();
    let noted = noted.filter(|record| matches!(record.entry, Noted::Agreed { .. }));
    noted.map(|record| record.view.number).max()
}

/// The trim points in a base, of one view or of all.
fn trimmed(base: &[Record], view: Option<ViewNumber>) -> impl Iterator<Item = Slot> {
    let of_view = base.iter();
    let of_view = of_view.filter(move |record| view.is_none_or(|view| record.view.number == view));
    of_view.filter_map(|record| match record.entry {
        Noted::Trimmed { upto } => Some(upto),
        _ => None,
    })
}

/// What records of one view hold. An acceptor says less than that if it says `promised`.
fn held<'a>(records: impl Iterator<Item = &'a Record>, promised: Option<Ballot>) -> Remembered {
    let mut holds = Remembered::default();
    let mut chosen = BTreeSet::new();
    for record in records {
        match &record.entry {
            Noted::Promise { ballot } => holds.promised = holds.promised.max(*ballot),
            Noted::Vote {
                slot,
                ballot,
                kind,
                batch,
            } => {
                holds.promised = holds.promised.max(*ballot);
                let vote = (VoteRound::of(*ballot, *kind), fingerprint(batch));
                let held = holds.votes.entry(*slot).or_insert(vote);
                if vote.0 >= held.0 {
                    *held = vote;
                }
            }
            Noted::Chosen { slot, .. } => {
                chosen.insert(*slot);
            }
            Noted::Agreed { .. } => {}
            Noted::Decided { upto } | Noted::Trimmed { upto } => {
                holds.trimmed = holds.trimmed.max(*upto);
            }
        }
    }
    // What is written as chosen goes on from there: the start decides it, and needs no vote for it.
    while chosen.contains(&holds.trimmed.next()) {
        holds.trimmed = holds.trimmed.next();
    }
    holds.promised = promised.map_or(holds.promised, |promised| holds.promised.min(promised));
    holds
}

/// A leader that waits for a snapshot decides and hands nothing up: then only the votes say what was decided.
fn decided(log: &BTreeMap<Slot, Batch>, chosen: &Chosen, slot: Slot) -> Option<Fingerprint> {
    let handed_up = log.get(&slot).map(fingerprint);
    handed_up.or_else(|| chosen.value(slot))
}

fn entry_of(record: &Record) -> Entry {
    match &record.entry {
        Noted::Promise { ballot } => Entry::Promise(*ballot),
        Noted::Vote {
            slot,
            ballot,
            kind,
            batch,
        } => Entry::Vote(*slot, VoteRound::of(*ballot, *kind), fingerprint(batch)),
        Noted::Chosen { slot, batch } => Entry::Chosen(*slot, fingerprint(batch)),
        Noted::Decided { upto } => Entry::Decided(*upto),
        Noted::Trimmed { upto } => Entry::Trimmed(*upto),
        Noted::Agreed { slot, .. } => Entry::Agreed(*slot),
    }
}
