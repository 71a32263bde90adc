//! Operators' resets: which state each one chose, and who held it when the objects were let go on.
//!
//! The rules are told again here from the log alone: one state counts at the slot of a reset, the replica that the operator
//! named had taken it, and nobody goes on before a majority has it on disk.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_types::{Batch, Body, Digest, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;

/// What is known of resets.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// Those that had an effect: whom the operator named, and what is agreed there.
    chosen: BTreeMap<Slot, (NodeId, Option<Digest>)>,
    /// The newest of them.
    last: Slot,
    /// The replicas went on after it.
    is_over: bool,
    /// Who ever had a snapshot with this digest on disk.
    holders: BTreeMap<(Slot, Digest), NodeSet>,
}

impl Judge {
    /// `node` has a snapshot on disk, taken or fetched.
    pub(in super::super) fn holds(&mut self, node: NodeId, slot: Slot, digest: Digest) {
        let holders = self.resets.holders.entry((slot, digest)).or_default();
        holders.insert(node);
    }

    /// The newest reset, and whether the replicas went on after it.
    pub(in super::super) fn last_reset(&self) -> (Slot, bool) {
        (self.resets.last, self.resets.is_over)
    }

    /// The objects of `node` are handed what was decided in `slot`, or answer a read with what they hold after it.
    pub(in super::super) fn goes_on(&self, node: NodeId, slot: Slot, how: &str) -> Judged {
        let resets = &self.resets;
        if resets.is_over || slot < resets.last || resets.last == Slot::ZERO {
            return Ok(());
        }
        broken(
            Property::Durability,
            format!(
                "{node} {how} {slot}, and the end of the reset of {} is not decided",
                resets.last
            ),
        )
    }

    /// What counts at `slot`, if an operator has judged there.
    pub(in super::super) fn chosen_at(&self, slot: Slot) -> Option<Option<Digest>> {
        let chosen = self.resets.chosen.get(&slot);
        chosen.map(|(_, digest)| *digest)
    }

    /// A slot is decided, for the first time anywhere.
    pub(super) fn note_resets(&mut self, slot: Slot, batch: &Batch) -> Judged {
        let replicas = self.replicas_at(slot);
        for command in batch.commands() {
            match command.body {
                Body::Reset {
                    node, slot: named, ..
                } => {
                    let resets = &mut self.resets;
                    let may_follow = !resets.is_over || named > resets.last;
                    let is_first = resets.chosen.is_empty() || slot > resets.last;
                    if named < slot && is_first && may_follow && replicas.contains(node) {
                        resets.chosen.insert(slot, (node, None));
                        (resets.last, resets.is_over) = (slot, false);
                    }
                }
                Body::Thaw {
                    slot: ended,
                    digest,
                } if ended == self.resets.last && !self.resets.is_over => {
                    self.thaws(ended, digest)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn thaws(&mut self, slot: Slot, told: Digest) -> Judged {
        self.resets.is_over = true;
        let chosen = self.resets.chosen.get(&slot);
        let digest = chosen.and_then(|(_, digest)| *digest);
        if digest != Some(told) {
            let detail = format!("the reset of {slot} ends with {told:?}, it chose {digest:?}");
            return broken(Property::Digest, detail);
        }
        let holders = self.resets.holders.get(&(slot, told)).copied();
        let holders = holders.unwrap_or_default();
        if holders.len() >= self.replica_majority {
            return Ok(());
        }
        broken(
            Property::Durability,
            format!(
                "the replicas go on after the reset of {slot}, and only {holders:?} hold its state"
            ),
        )
    }

    /// `node` says what is agreed at `slot`.
    pub(super) fn tells_agreed(&mut self, node: NodeId, slot: Slot, digest: Digest) -> Judged {
        let Some((named, chosen)) = self.resets.chosen.get_mut(&slot) else {
            return Ok(());
        };
        let (named, first) = (*named, *chosen.get_or_insert(digest));
        if first != digest {
            return broken(
                Property::Digest,
                format!(
                    "{node} says that the reset of {slot} chose {digest:?}, it chose {first:?}"
                ),
            );
        }
        if self.takers(slot, digest).contains(named) {
            return Ok(());
        }
        broken(
            Property::Digest,
            format!(
                "{node} says that the reset of {slot} chose {digest:?}, which {named} never held"
            ),
        )
    }
}
