//! Where the log begins: what a snapshot replaces at a start, and what is trimmed for one that a majority holds.

use crate::Acceptor;
use quorate_ordering::{Effect, Effects};
use quorate_types::{Digest, Slot};

impl Acceptor {
    /// Up to where a snapshot of this node, found at its start, replaces the log: the last slot at or below `slot` in which
    /// damage took a vote. Behind it the log stays: the snapshot may be on no other node, while the others still need the slots,
    /// and decide them only with the votes of this node. Claim mp-48.
    #[must_use]
    pub fn lost_upto(&self, slot: Slot) -> Slot {
        let lost = self.unknown().filter(|lost| *lost <= slot);
        lost.last().unwrap_or(Slot::ZERO)
    }

    /// A majority holds the snapshot of `slot` with this digest, and the replica has applied what is decided up to `applied`. Returns
    /// whether there is anything to discard. The base names the snapshot for which the log is trimmed. So it is written where
    /// nothing is left to trim as well, because the node holds that snapshot from a peer.
    pub fn trim(&mut self, slot: Slot, digest: Digest, applied: Slot) -> bool {
        let is_news = self.note_agreed(slot, digest);
        let upto = slot.min(applied);
        let is_more = upto > self.log.trimmed();
        if is_more {
            self.log.trim(upto);
        }
        is_more || is_news && self.log.trimmed() > Slot::ZERO
    }

    /// Lets storage remove records up to the trim point.
    pub fn discard<M>(&mut self, effects: &mut Effects<M>) {
        if self.gate.is_on_disk() {
            let upto = self.log.trimmed();
            let base = self.base();
            effects.push(Effect::Discard { upto, base });
        }
    }
}
