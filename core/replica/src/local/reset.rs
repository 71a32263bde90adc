//! An operator's reset: without a majority the state of one replica becomes every replica's.
//!
//! The command is decided in a slot D. Every replica executes up to D, takes a snapshot there, and goes no further. The replica
//! that the operator named says what it holds at D: that is agreed. Who holds the same is right, everybody else fetches it. Once
//! a majority has it on disk, that is decided too, and the objects answer again. So nobody answers from a state that the loss of
//! a minority could take, and the end of a freeze is in the log, where the restart of a node finds it.

use crate::limits::{HEAL_EVERY, RESETS_WAITING, THAW_EVERY};
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::{Output, Quarantine, Replica, Snapshots};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, Command, ConnectionId, Digest, FromClient, NodeId, Refusal, Slot, Time, ToClient,
};

/// The state that an operator chose: what a node, in one of its starts, holds in its snapshot at a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedState {
    /// The node.
    pub(crate) node: NodeId,
    /// Its start.
    pub(crate) boot: u64,
    /// The slot of the snapshot.
    pub(crate) slot: Slot,
    /// What it holds.
    pub(crate) digest: Digest,
}

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
        let held = self.agreement.report_of(named.node, named.slot);
        // At the slot of a reset nobody reports what does not count, and the named replica compares.
        let is_untold = self.quarantine.reset().map(|own| own.slot) == Some(named.slot);
        let is_held = held.map_or(is_untold, |report| report.digest == named.digest);
        let refusal = if matches!(self.config.snapshots, Snapshots::Disabled) {
            Some(Refusal::NoSnapshots)
        } else if self
            .quarantine
            .frozen()
            .is_none_or(|_| self.is_answered_for())
        {
            Some(Refusal::NotFrozen)
        } else if !is_held
            || self.quarantine.frozen() > Some(named.slot)
            || !self.config.view.replicas.contains(named.node)
            || !self.replicated.reset.may_follow(named.slot)
        {
            Some(Refusal::NoSuchSnapshot)
        } else if !self.can_order() {
            Some(Refusal::StorageFull)
        } else if self.quarantine.resets_waiting >= RESETS_WAITING {
            Some(Refusal::Overloaded)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return refuse(out, from, Ask::Request(request), refusal);
        }
        self.quarantine.resets_waiting += 1;
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

    /// The ordering refused an operator's reset.
    pub(crate) fn reset_refused(
        &mut self,
        (to, request): (ConnectionId, u64),
        refusal: Refusal,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.quarantine.resets_waiting = self.quarantine.resets_waiting.saturating_sub(1);
        refuse(out, to, Ask::Request(request), refusal);
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
        let has_effect = slot < decided
            && self.config.view.replicas.contains(node)
            && self.replicated.reset.slot() < decided
            && self.replicated.reset.may_follow(slot);
        if let Some(Purpose::Reset(to, request)) = self.internals.landed(command.id) {
            self.quarantine.resets_waiting = self.quarantine.resets_waiting.saturating_sub(1);
            match has_effect {
                true => reply(
                    out,
                    to,
                    ToClient::Checkpointed {
                        request,
                        slot: decided,
                    },
                ),
                false => refuse(out, to, Ask::Request(request), Refusal::NotFrozen),
            }
        }
        if !has_effect {
            return None;
        }
        self.replicated.reset.begins(decided);
        Some(NamedState {
            node,
            boot,
            slot,
            digest,
        })
    }

    /// All calls up to `decided` are queued: takes a snapshot after them, and goes no further. Who knew of no freeze stops too.
    pub(crate) fn reset_decided(
        &mut self,
        decided: Slot,
        named: NamedState,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let own = self.agreement.report_of(self.config.own, named.slot);
        let is_held = own.is_some_and(|own| own.digest == named.digest);
        let is_named = (named.node, named.boot) == (self.config.own, self.config.boot);
        let was_frozen = self.quarantine.frozen().is_some();
        let was_diverged = self.quarantine.is_diverged();
        if !was_frozen {
            let frozen = Quarantine::Frozen { slot: named.slot };
            out.push(Output::Quarantined(frozen));
            self.give_up_waits(out);
        }
        let reset = OwnReset {
            decides: is_named && is_held && !was_diverged,
            ..OwnReset::at(decided)
        };
        self.quarantine.begin_reset(named.slot, reset);
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
        let agreed = self.agreement.agreed_at(reset.slot);
        let is_right = !self.is_replica()
            || agreed.is_some() && (agreed == reset.shown || planted(Plant::ResetThawsOthers));
        if is_right && !self.fetch.is_installing() {
            let is_held = self.agreement.stable() >= reset.slot;
            if self.replicated.reset.is_over() {
                self.thaw(reset.slot, out);
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
        self.submit(Purpose::Thaw, Body::Thaw { slot: reset.slot });
    }

    fn thaw(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        self.heal(slot);
        self.pipeline.stop(None);
        if !self.own_poison.is_stranded() {
            self.pipeline.release();
        }
        // What was told until here is of states that count no more.
        self.drift.restored();
        self.forget_note(self.agreement.trimmed(), out);
    }

    /// A fetched state is in the objects while they were frozen. One after the slot of the newest reset is of replicas that answer.
    pub(crate) fn installed_at_reset(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let reset = self.replicated.reset.slot();
        if self
            .quarantine
            .frozen()
            .is_some_and(|frozen| frozen < reset)
            && slot > reset
        {
            self.thaw(reset, out);
        } else if self
            .quarantine
            .frozen()
            .is_some_and(|frozen| frozen < reset)
            && self.quarantine.reset().is_none_or(|own| own.slot < reset)
        {
            // The command was in the slots that the snapshot covers.
            let own = OwnReset::at(reset);
            self.quarantine.begin_reset(slot, own);
            self.pipeline.stop(Some(reset.max(slot)));
        }
    }
}
