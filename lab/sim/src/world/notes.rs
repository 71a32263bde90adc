//! What a node notes in its data directory about the calls that its lives executed, or at which their hosts died, and what a
//! life may do that does not have all of these notes.
//!
//! The notes are in files beside the log, so an older copy of the directory has older ones. Checks that a life executes nothing
//! before it can know what the group decided about the calls that the lives before it reported.

use super::World;
use super::row::Row;
use crate::checkers::Property;
use quorate_replica::{EarlierDeaths, EarlierLives};
use quorate_types::{CallPlace, NodeId, Recall, Slot};

/// The notes of one node; on its disk, and durable at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// What its earlier lives may have answered.
    pub earlier: EarlierLives,
    /// Calls at which its hosts died for good, and which are in no snapshot from which it began.
    pub died: Vec<CallPlace>,
    /// Lives that these notes know nothing of may have done anything before this slot.
    unknown_before: Option<Slot>,
}

/// Nobody knows yet where it ends what such lives did.
const ANYWHERE: Slot = Slot(u64::MAX);

impl Notes {
    /// The notes as the next life finds them if this one, which has answered calls up to `answered`, ends now with its process.
    pub(super) fn after(&self, answered: Slot) -> Notes {
        let earlier = match self.earlier {
            EarlierLives::Unknown => EarlierLives::Unknown,
            EarlierLives::None => EarlierLives::Upto(answered),
            EarlierLives::Upto(upto) => EarlierLives::Upto(upto.max(answered)),
        };
        Notes {
            earlier,
            ..self.clone()
        }
    }

    /// Others have lived with this node's identity, and noted elsewhere what they did.
    pub(super) fn lose(&mut self) {
        self.unknown_before = Some(ANYWHERE);
    }

    /// A snapshot behind all that such lives did is durable.
    pub(super) fn bound(&mut self, end: Slot) {
        let unknown = self.unknown_before.as_mut();
        if let Some(slot) = unknown.filter(|slot| **slot == ANYWHERE) {
            *slot = end;
        }
    }

    /// What a life knows of those before it that has only snapshots from `slot` on, on a directory that has lost something or not.
    pub(super) fn begin(&mut self, slot: Slot, has_loss: bool) -> (EarlierLives, EarlierDeaths) {
        self.died.retain(|place| place.slot > slot);
        self.unknown_before.take_if(|end| *end <= slot);
        if has_loss {
            self.lose();
        }
        match self.unknown_before {
            Some(_) => (self.earlier, EarlierDeaths::Unknown),
            None => (self.earlier, EarlierDeaths::At(self.died.clone())),
        }
    }
}

impl World {
    /// What a node's earlier lives may have answered, as its reports in the log tell it.
    pub(super) fn earlier(&self, id: NodeId) -> EarlierLives {
        let notes = &self.nodes[&id].notes;
        if notes.unknown_before.is_none() && notes.earlier != EarlierLives::Unknown {
            return notes.earlier;
        }
        match self.kept_by(id) {
            Some(slot) => EarlierLives::Upto(slot.previous()),
            None => EarlierLives::Unknown,
        }
    }

    /// The slot before which the present life of a node has had all calls kept.
    fn kept_by(&self, id: NodeId) -> Option<Slot> {
        let boot = self.nodes[&id].running.as_ref()?.boot;
        self.judge.kept_by(id, boot)
    }

    /// A replica gives its objects the calls of a slot.
    pub(super) fn watch_handed(&mut self, id: NodeId, slot: Slot) {
        let node = &self.nodes[&id];
        let recall = node.running.as_ref().map(|running| running.recall);
        let why = if node.is_old_copy && recall != Some(Recall::Lost) {
            "before it can know that its directory is an older copy"
        } else if node.notes.unknown_before.is_none() {
            return;
        } else if self.kept_by(id).is_some() {
            return self.felt(id, Row::NotesLost);
        } else {
            "before the calls that its lost lives may have reported are kept"
        };
        self.blame(Property::AtMostOnce, format!("{id} executes {slot} {why}"));
    }
}
