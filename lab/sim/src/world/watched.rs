//! Multi-Paxos with a window: what it decides is seen by the checkers, whatever the replica above makes of it.

use quorate_ordering::{Decision, Effect, Effects, Event, Ordering, OrderingStatus};
use quorate_paxos::{Message, MultiPaxos};
use quorate_types::{Batch, Slot, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// Decisions that nobody has looked at.
pub(super) type Decisions = Rc<RefCell<Vec<(Slot, Batch)>>>;

/// An ordering that tells its decisions twice.
pub(super) struct Watched {
    inner: MultiPaxos,
    decisions: Decisions,
}

impl Watched {
    /// Watches `inner`; its decisions are appended to `decisions`.
    pub(super) fn new(inner: MultiPaxos, decisions: Decisions) -> Watched {
        Watched { inner, decisions }
    }
}

impl Ordering for Watched {
    type Message = Message;

    fn handle(&mut self, now: Time, event: Event<Message>, effects: &mut Effects<Message>) {
        let before = effects.len();
        self.inner.handle(now, event, effects);
        for effect in &effects[before..] {
            if let Effect::Decide {
                slot,
                decision: Decision::Batch(batch),
            } = effect
            {
                self.decisions.borrow_mut().push((*slot, batch.clone()));
            }
        }
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }

    fn status(&self) -> OrderingStatus {
        self.inner.status()
    }

    fn check(&self) {
        self.inner.check();
    }
}
