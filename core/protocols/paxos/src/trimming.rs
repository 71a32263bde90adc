//! Where the log begins: what a snapshot of this node replaces at a start, and what is trimmed for one that a majority holds.

use crate::Seat;
use crate::message::Message;
use quorate_ordering::Effects;
use quorate_types::{Digest, Slot};

impl Seat {
    /// A majority holds the snapshot of `slot`: the log is trimmed for it.
    pub(crate) fn trim(&mut self, slot: Slot, digest: Digest, effects: &mut Effects<Message>) {
        let applied = self.executed.min(self.delivered);
        if self.acceptor.trim(slot, digest, applied) {
            self.discard(effects);
        }
    }

    /// Lets storage remove records up to the trim point. Not while the log is damaged: the damage would be
    /// removed with them, and after a restart nothing would show that a promise may be missing from the base.
    pub(crate) fn discard(&mut self, effects: &mut Effects<Message>) {
        if self.repair.is_none() {
            self.acceptor.discard(effects);
        }
    }
}
