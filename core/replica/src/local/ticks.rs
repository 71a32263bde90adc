//! Agreed time for objects that wait for it: a tick is ordered when a deadline or a timer is due.
//!
//! The objects' host tells what is due first. All replicas know the same, so the leader alone submits ticks as long as it does; the
//! others stand in where nothing happens. What a tick has happen depends on its batch's stamp, never on a clock read here.

use crate::Replica;
use crate::limits::{TICK_AGAIN, TICK_LOOK_MAX, TICK_PATIENCE};
use crate::local::internal::Purpose;
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, CommandId, Duration, Slot, Time, Wall};

/// What the objects wait for, and the ticks on their way.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    /// The agreed time at which the objects have something to do.
    due: Option<Wall>,
    /// An own tick is being ordered.
    is_submitted: bool,
    /// The newest tick: what it has happen shows once this slot is executed.
    decided: Slot,
    /// What the newest own tick was submitted for, and when the next one may follow if that stays due.
    asked: Option<(Wall, Time)>,
    look_at: Option<Time>,
}

impl Ticks {
    /// The objects tell what is due first.
    pub(crate) fn told(&mut self, due: Option<Wall>) {
        self.due = due;
    }

    fn decided(&mut self, slot: Slot, is_own: bool) {
        self.decided = slot;
        if is_own {
            self.is_submitted = false;
        }
    }

    /// The own tick is not ordered, or nothing is known of it any more: another one does no harm.
    pub(crate) fn lost(&mut self) {
        self.is_submitted = planted(Plant::TickForgottenWhenRefused) && self.is_submitted;
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.look_at
    }
}

impl<O: Ordering> Replica<O> {
    /// At the end of a turn: submits a tick if something is due at `wall`, the time that a leader stamps with.
    pub(crate) fn tend_ticks(&mut self, now: Time, wall: Wall) {
        self.ticks.look_at = None;
        let executed = self.pipeline.executed(self.replicated.applied);
        let is_pending = self.ticks.is_submitted || executed < self.ticks.decided;
        // Nothing that is due happens at a witness: it would ask for ever.
        let may_submit = self.can_order() && !self.quarantine.is_set() && self.is_replica();
        let Some(due) = self.ticks.due.filter(|_| may_submit && !is_pending) else {
            return;
        };
        let at = Wall(due.0.saturating_add(self.tick_patience().0));
        if at > wall {
            let left = Duration(at.0 - wall.0).min(TICK_LOOK_MAX);
            self.ticks.look_at = Some(now + left);
            return;
        }
        if let Some((asked, again_at)) = self.ticks.asked
            && asked == due
            && again_at > now
        {
            self.ticks.look_at = Some(again_at);
            return;
        }
        self.ticks.asked = Some((due, now + TICK_AGAIN));
        self.ticks.is_submitted = true;
        self.submit(Purpose::Tick, Body::Tick);
    }

    /// A tick is decided. It is a step of the objects.
    pub(crate) fn tick_decided(&mut self, slot: Slot, id: CommandId) -> bool {
        let is_own = self.internals.landed(id).is_some();
        self.ticks.decided(slot, is_own);
        is_own || !planted(Plant::TickOnlyWhereSubmitted)
    }

    /// How long after its time something may be due before this node submits a tick.
    fn tick_patience(&self) -> Duration {
        let leader = self.leader();
        let ticks_itself = leader.is_some_and(|leader| {
            leader != self.config.own && self.view().replicas.contains(leader)
        });
        if ticks_itself {
            TICK_PATIENCE
        } else {
            Duration::ZERO
        }
    }
}
