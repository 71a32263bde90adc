//! Tells the checkers what acceptors make durable, and what they find of it at a start.

use super::{Judge, Judged, fingerprint};
use crate::checkers::agreement::{Fingerprint, Remembered};
use crate::checkers::chosen::Chosen;
use crate::checkers::written::{Entry, LostRecords};
use quorate_ordering::{Damage, Entry as Noted, Record};
use quorate_types::{Ballot, Batch, NodeId, Slot};
use std::collections::{BTreeMap, BTreeSet};

impl Judge {
    /// Records are durable at `node`.
    pub(in super::super) fn wrote(&mut self, node: NodeId, record: &Record) -> Judged {
        let entry = entry_of(record);
        if let Some(written) = &mut self.written {
            let (log, chosen) = (&self.log, &self.chosen);
            written.wrote(node, entry, |slot| decided(log, chosen, slot))?;
        }
        match entry {
            Entry::Vote(slot, ballot, value) => self.chosen.voted(node, slot, ballot, value),
            Entry::Promise(_)
            | Entry::Chosen(..)
            | Entry::Decided(_)
            | Entry::Trimmed(_)
            | Entry::Agreed(_) => Ok(()),
        }
    }

    /// `node` wants `base` in place of its records up to `upto`.
    pub(in super::super) fn replaces(&self, node: NodeId, upto: Slot, base: &[Record]) -> Judged {
        let base: Vec<Entry> = base.iter().map(entry_of).collect();
        let written = self.written.as_ref();
        written.map_or(Ok(()), |written| written.replaced(node, upto, &base))
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
        let Some(written) = &mut self.written else {
            return Ok(());
        };
        let (log, chosen) = (&self.log, &self.chosen);
        let entries = records.iter().map(entry_of);
        let lost = LostRecords {
            slots: damage.slots().clone(),
            is_anywhere: damage.is_anywhere(),
        };
        written.found(node, entries, lost, |slot| decided(log, chosen, slot))
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

    /// Whether all that `node` has told is known to it, as far as votes and promises go: it may vote.
    pub(in super::super) fn remembers(&self, node: NodeId) -> bool {
        let decided = self.known_by(node);
        let forgetful = self.forgetful.get(&node);
        forgetful.is_none_or(|forgetful| forgetful.knows_all(decided))
    }

    /// `node` begins a life in which it lacks nothing but records of some slots.
    pub(in super::super) fn restarted_on_damage(&self, node: NodeId, promised: Ballot) -> Judged {
        self.agreement.restarted_on_damage(node, promised)
    }

    /// `node` begins a life with these records, undamaged.
    ///
    /// `promised` is what its acceptor says it has promised.
    pub(in super::super) fn restarted(
        &mut self,
        node: NodeId,
        promised: Ballot,
        records: &[Record],
    ) -> Judged {
        let mut holds = Remembered::default();
        let mut chosen = BTreeSet::new();
        for record in records {
            match &record.entry {
                Noted::Promise { ballot } => holds.promised = holds.promised.max(*ballot),
                Noted::Vote {
                    slot,
                    ballot,
                    batch,
                } => {
                    holds.promised = holds.promised.max(*ballot);
                    let vote = (*ballot, fingerprint(batch));
                    let held = holds.votes.entry(*slot).or_insert(vote);
                    if *ballot >= held.0 {
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
        holds.promised = holds.promised.min(promised);
        self.agreement.restarted(node, &holds)
    }
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
            batch,
        } => Entry::Vote(*slot, *ballot, fingerprint(batch)),
        Noted::Chosen { slot, batch } => Entry::Chosen(*slot, fingerprint(batch)),
        Noted::Decided { upto } => Entry::Decided(*upto),
        Noted::Trimmed { upto } => Entry::Trimmed(*upto),
        Noted::Agreed { slot, .. } => Entry::Agreed(*slot),
    }
}
