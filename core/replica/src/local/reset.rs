//! An operator's reset: without a majority the state of one replica becomes every replica's.
//!
//! The command is decided in a slot D. Every replica executes up to D, takes a snapshot there, and goes no further. The replica
//! that the operator named says what it holds at D: that is agreed. Who holds the same is right, everybody else fetches it. Once
//! a majority has it on disk, that is decided too, and the objects answer again. So nobody answers from a state that the loss of
//! a minority could take, and the end of a freeze is in the log, where the restart of a node finds it.

use crate::limits::{HEAL_EVERY, RESETS_WAITING, THAW_EVERY};
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::replicated::reset::NamedState;
use crate::{Output, Replica, Snapshots};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, Command, ConnectionId, Digest, FromClient, Refusal, Slot, Time, ToClient,
};

/// A reset that this replica has not come through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnReset {
    /// The slot of its command.
    slot: Slot,
    /// What the objects hold there, once that is durable.
    shown: Option<Digest>,
    /// What this replica holds there counts.
    decides: bool,
    /// Since when that a majority holds it is to be said, or to be said again.
    thaw_at: Option<Time>,
}

impl OwnReset {
    pub(crate) fn at(slot: Slot) -> OwnReset {
        OwnReset {
            slot,
            shown: None,
            decides: false,
            thaw_at: None,
        }
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// When that a majority holds it is to be said again, once it was said.
    pub(crate) fn thaw_at(&self) -> Option<Time> {
        self.thaw_at
    }
}

impl<O: Ordering> Replica<O> {
    /// An operator names the state that is to count. Refuses what cannot have the effect that is meant; nothing changes then.
    pub(crate) fn client_reset(
        &mut self,
        from: ConnectionId,
        message: &FromClient,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let &FromClient::Reset {
            request,
            node,
            boot,
            slot,
            digest,
        } = message
        else {
            unreachable!("called for this request");
        };
        let named = NamedState {
            node,
            boot,
            slot,
            digest,
        };
        if self.quarantine.frozen().is_none()
            && let Some(slot) = self.replicated.reset.slot_of(named)
        {
            // It was asked for again, and has had its effect.
            return reply(out, from, ToClient::Checkpointed { request, slot });
        }
        let held = self.agreement.report_of(named.node, named.slot);
        // While a reset is under way nobody reports what does not count, and the named replica compares.
        let is_held = self.quarantine.reset().is_some()
            || held.is_some_and(|report| report.digest == named.digest);
        let refusal = if matches!(self.config.snapshots, Snapshots::Disabled) {
            Some(Refusal::NoSnapshots)
        } else if self.quarantine.frozen().is_none() || self.is_answered_for() {
            Some(Refusal::NotFrozen)
        } else if !is_held
            || self.quarantine.frozen() > Some(named.slot)
            || !self.view().replicas.contains(named.node)
            || !self.replicated.reset.may_follow(named.slot)
        {
            Some(Refusal::NoSuchSnapshot)
        } else if !self.can_order() {
            Some(Refusal::StorageFull)
        } else if self.internals.resets() >= RESETS_WAITING {
            Some(Refusal::Overloaded)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return refuse(out, from, Ask::Request(request), refusal);
        }
        let body = Body::Reset {
            node,
            boot,
            slot,
            digest,
        };
        self.submit(Purpose::Reset(from, request), body);
    }

    /// Whether a reset is over, and this replica only has to take over its state.
    fn is_answered_for(&self) -> bool {
        self.quarantine.reset().is_some() && self.replicated.reset.is_over()
    }

    /// A command is decided: if it is a reset that has an effect, it returns the state that was named. Depends on the log alone.
    pub(crate) fn begin_reset(
        &mut self,
        decided: Slot,
        command: &Command,
        out: &mut Vec<Output<O::Message>>,
    ) -> Option<NamedState> {
        let Body::Reset {
            node,
            boot,
            slot,
            digest,
        } = command.body
        else {
            return None;
        };
        let named = NamedState {
            node,
            boot,
            slot,
            digest,
        };
        let has_effect = slot < decided
            && self.view().replicas.contains(node)
            && self.replicated.reset.slot() < decided
            && self.replicated.reset.may_follow(slot);
        if has_effect {
            self.replicated.reset.begins(decided, named);
        }
        if let Some(Purpose::Reset(to, request)) = self.internals.landed(command.id) {
            match self.replicated.reset.slot_of(named) {
                Some(slot) => reply(out, to, ToClient::Checkpointed { request, slot }),
                None => refuse(out, to, Ask::Request(request), Refusal::NotFrozen),
            }
        }
        has_effect.then_some(named)
    }

    /// A majority holds what the reset of `slot` chose. A node that lost what it knew of that learns it from the log.
    pub(crate) fn reset_ended(&mut self, slot: Slot, digest: Digest) {
        if slot == self.replicated.reset.slot() {
            self.replicated.reset.ends(slot);
            self.agreement.note_agreed(slot, digest);
        }
    }

    /// All calls up to `decided` are queued: takes a snapshot after them, and goes no further. Who knew of no freeze stops too.
    pub(crate) fn reset_decided(
        &mut self,
        decided: Slot,
        named: NamedState,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let decides = self.may_decide(named);
        let was_frozen = self.quarantine.frozen().is_some();
        let was_diverged = self.quarantine.is_diverged();
        if self.quarantine.reset().is_some() && !self.fetch.is_installing() {
            // What an earlier reset chose is fetched no more: these objects may be the ones that count.
            self.fetch.done();
        }
        let reset = OwnReset {
            decides,
            ..OwnReset::at(decided)
        };
        if let Some(noted) = self.quarantine.begin_reset(named.slot, reset) {
            out.push(Output::Quarantined(noted));
        }
        if !was_frozen {
            self.give_up_waits(out);
        }
        self.pipeline.stop(Some(decided));
        // What an earlier reset made these objects wait for counts no more.
        if was_frozen && !self.own_poison.is_stranded() && !self.fetch.is_installing() {
            self.pipeline.release();
        }
        self.checkpoints.forget_own();
        if self.is_replica() {
            self.checkpoint_decided(decided, out);
        }
        if was_diverged {
            // These objects stand still somewhere before: they wait for the chosen state, not for a majority's.
            self.checkpoints.forget_own();
        }
    }

    /// Whether this replica is the one that was named, in that start, and the objects still are what it had then. Not while they
    /// are about to get another state, nor where a majority is known to have agreed on something else: that group answers.
    fn may_decide(&self, named: NamedState) -> bool {
        let own = |slot| {
            let report = self.agreement.report_of(self.config.own, slot);
            report.map(|report| report.digest)
        };
        let is_named = (named.node, named.boot) == (self.config.own, self.config.boot);
        // At the slots of resets that have not ended it was an operator who judged, and has judged anew since. Who holds what such
        // a reset chose, or what a majority agreed on, goes on from there, whatever it held before.
        let (reset, shared) = (self.replicated.reset, self.agreement.shared());
        let is_odd = self.quarantine.frozen().is_some_and(|frozen| {
            let agreed = self.agreement.agreed_since(frozen.max(shared.next()));
            let mut agreed = agreed.filter(|(slot, _)| !reset.has_replaced(*slot));
            agreed.any(|(slot, digest)| own(slot) != Some(digest))
        });
        is_named
            && own(named.slot) == Some(named.digest)
            && !self.quarantine.is_diverged()
            && !self.fetch.is_installing()
            && !is_odd
    }

    /// The objects hold this at `slot`, durably.
    pub(crate) fn shows_at_reset(
        &mut self,
        now: Time,
        slot: Slot,
        digest: Digest,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let Some(reset) = self.quarantine.reset_mut().filter(|own| own.slot == slot) else {
            return;
        };
        reset.shown = Some(digest);
        if reset.decides && self.agreement.agreed_at(slot).is_none() {
            self.agreed(now, slot, digest, out);
        }
    }

    /// At the end of a turn: compares, fetches what counts, says when a majority has it, and lets the objects answer.
    pub(crate) fn tend_reset(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let Some(reset) = self.quarantine.reset() else {
            return;
        };
        if self.quarantine.checkpoint_at.is_none() {
            self.quarantine.checkpoint_at = Some(now + HEAL_EVERY);
        }
        if self.replicated.reset.is_over()
            && let Some(own) = self.quarantine.reset_mut()
        {
            own.thaw_at = None;
        }
        let agreed = self.agreement.agreed_at(reset.slot);
        let is_right = !self.is_replica()
            || agreed.is_some() && (agreed == reset.shown || planted(Plant::ResetThawsOthers));
        if is_right && !self.fetch.is_installing() {
            let is_held = self.agreement.stable() >= reset.slot;
            if self.replicated.reset.is_over() {
                self.thaw(now, reset.slot, out);
            } else if is_held || planted(Plant::ThawWithoutMajority) {
                self.say_thaw(now, reset);
            }
        } else if !is_right
            && self.agreement.is_agreed_since(reset.slot)
            && !self.checkpoints.is_taking(reset.slot)
            && !self.fetch.is_active()
        {
            self.pipeline.hold(self.replicated.applied);
            self.checkpoints.forget_own();
            let least = self.pipeline.handed_out(self.replicated.applied);
            self.fetch_at_least(now, least.max(reset.slot), out);
        }
    }

    /// Submits that a majority holds the chosen state, and submits it again while it may be lost.
    fn say_thaw(&mut self, now: Time, reset: OwnReset) {
        if reset.thaw_at.is_some_and(|due| due > now) {
            return;
        }
        if let Some(own) = self.quarantine.reset_mut() {
            own.thaw_at = Some(now + THAW_EVERY);
        }
        let slot = reset.slot;
        let Some(digest) = self.agreement.agreed_at(slot) else {
            return;
        };
        self.submit(Purpose::Thaw, Body::Thaw { slot, digest });
    }

    fn thaw(&mut self, now: Time, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let later = self.quarantine.take_later(slot);
        self.heal(slot);
        self.pipeline.stop(None);
        if !self.own_poison.is_stranded() {
            self.pipeline.release();
        }
        // What was told until here is of states that count no more.
        self.drift.restored();
        if let Some(later) = later {
            self.resume_later(now, later, out);
        }
    }

    /// These objects begin at the slot of a reset that is not over, or have fetched the state there: they wait for its end, as
    /// those do that executed up to it.
    pub(crate) fn await_thaw(&mut self, out: &mut Vec<Output<O::Message>>) {
        if planted(Plant::InstalledAnswersBeforeThaw) {
            return;
        }
        let slot = self.replicated.reset.slot();
        if self.quarantine.frozen().is_none() {
            self.give_up_waits(out);
        }
        if let Some(noted) = self.quarantine.begin_reset(slot, OwnReset::at(slot)) {
            out.push(Output::Quarantined(noted));
        }
        self.pipeline.stop(Some(slot));
    }

    /// A fetched state is in the objects. One after the slot of the newest reset is of replicas that answer.
    pub(crate) fn installed_at_reset(
        &mut self,
        now: Time,
        slot: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let reset = self.replicated.reset;
        let own = self.quarantine.reset();
        if !reset.is_over() && own.is_none_or(|own| own.slot < reset.slot()) {
            // The command was in the slots that the snapshot covers.
            self.await_thaw(out);
        } else if slot > reset.slot()
            && self
                .quarantine
                .frozen()
                .is_some_and(|frozen| frozen <= reset.slot())
        {
            self.thaw(now, reset.slot(), out);
        }
    }
}
