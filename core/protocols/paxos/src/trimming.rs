//! Where the log begins: what a snapshot of this node replaces at a start, and what is trimmed for one that a majority holds.

use crate::Seat;
use crate::message::Message;
use quorate_ordering::{Effect, Effects};
use quorate_types::{Digest, Slot};

impl Seat {
    /// Up to where a snapshot of this node, found at its start, replaces the log: the last slot at or below `slot` in which
    /// damage took a vote. Behind it the log stays: the snapshot may be on no other node, while the others still need the slots,
    /// and decide them only with the votes of this node. Claim mp-48.
    pub(crate) fn lost_upto(&self, slot: Slot) -> Slot {
        let lost = self.acceptor.unknown().filter(|lost| *lost <= slot);
        lost.last().unwrap_or(Slot::ZERO)
    }

    /// The base names the snapshot for which the log is trimmed. So it is written where nothing is left to
    /// trim as well, because the node holds that snapshot from a peer.
    pub(crate) fn trim(&mut self, slot: Slot, digest: Digest, effects: &mut Effects<Message>) {
        let is_news = self.acceptor.note_agreed(slot, digest);
        let upto = slot.min(self.executed).min(self.delivered);
        if upto > self.acceptor.log.trimmed() {
            self.acceptor.log.trim(upto);
            self.discard(effects);
        } else if is_news && self.acceptor.log.trimmed() > Slot::ZERO {
            self.discard(effects);
        }
    }

    /// Lets storage remove records up to the trim point. Not while the log is damaged: the damage would be
    /// removed with them, and after a restart nothing would show that a promise may be missing from the base.
    pub(crate) fn discard(&mut self, effects: &mut Effects<Message>) {
        if self.acceptor.gate.is_on_disk() && self.repair.is_none() {
            let upto = self.acceptor.log.trimmed();
            let base = self.acceptor.base();
            effects.push(Effect::Discard { upto, base });
        }
    }
}
