//! What snapshots of the replica change: the log begins later, or a snapshot stands for its beginning.

use crate::message::Message;
use crate::{FastPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects};
use quorate_types::{Digest, Slot, Time};

impl FastPaxos {
    pub(crate) fn on_executed(&mut self, now: Time, slot: Slot, effects: &mut Effects<Message>) {
        self.seat.executed = self.seat.executed.max(slot);
        if slot < self.seat.acceptor.log.trimmed() {
            let upto = self.seat.acceptor.log.trimmed();
            effects.push(Effect::NeedSnapshot { upto });
        }
        let is_first = !std::mem::replace(&mut self.seat.has_begun, true);
        let upto = if is_first {
            self.seat.acceptor.lost_upto(slot)
        } else {
            slot
        };
        if upto > self.seat.acceptor.log.decided() {
            self.leave_to_snapshot(now, upto, effects);
        }
        self.seat.learner.knows(slot);
        let delivered = slot.min(self.seat.acceptor.log.decided());
        self.seat.delivered = self.seat.delivered.max(delivered);
        if is_first {
            self.tell_begun(effects);
        }
        self.seat.cast_waiting(effects);
    }

    /// The replica has the effects of all slots up to `upto`, which is above the decided prefix: the log goes on after it.
    pub(crate) fn leave_to_snapshot(
        &mut self,
        now: Time,
        upto: Slot,
        effects: &mut Effects<Message>,
    ) {
        // A snapshot hides what was decided in the slots in flight, perhaps proposals of another leader.
        if matches!(&self.part, Part::Leader(leader) if !leader.proposals.is_empty()) {
            self.step_down(now, effects);
        }
        self.seat.acceptor.jump(upto);
        self.seat.delivered = upto;
        self.seat.discard(effects);
        self.seat.learner.knows(upto);
        self.seat.tally.forget_upto(upto);
        self.seat.forget_votes_upto(upto);
        self.seat.learner.went_on(now);
        if let Some((leader, seat)) = self.leading() {
            leader.drop_covered(seat, now);
            leader.recover(seat, now, effects);
        }
        self.decide_known(now, effects);
        self.seat.learn_afresh(now, effects);
    }
}

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
