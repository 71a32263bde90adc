//! An ordering with a window: what it is given and what it decides is seen by the checkers, whatever the replica above
//! makes of it.

use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{Decision, Effect, Effects, Event, Ordering, OrderingStatus};

use quorate_types::{Batch, CommandId, Slot, Time};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What was seen of one ordering.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Decisions that nobody has looked at.
    pub(super) decisions: Vec<(Slot, Batch)>,
    /// Commands submitted here, neither decided nor refused since.
    pub(super) unsettled: BTreeSet<CommandId>,
}

/// An ordering that is watched.
pub(super) struct Watched {
    inner: AnyOrdering,
    seen: Rc<RefCell<Seen>>,
}

impl Watched {
    /// Watches `inner`.
    pub(super) fn new(inner: AnyOrdering, seen: Rc<RefCell<Seen>>) -> Watched {
        Watched { inner, seen }
    }
}

impl Ordering for Watched {
    type Message = AnyMessage;

    fn handle(&mut self, now: Time, event: Event<AnyMessage>, effects: &mut Effects<AnyMessage>) {
        let before = effects.len();
        if let Event::Submit { commands } = &event {
            let ids = commands.iter().map(|command| command.id);
            self.seen.borrow_mut().unsettled.extend(ids);
        }
        self.inner.handle(now, event, effects);
        for effect in &effects[before..] {
            match effect {
                Effect::Decide {
                    slot,
                    decision: Decision::Batch(batch),
                } => {
                    let mut seen = self.seen.borrow_mut();
                    for command in batch.commands() {
                        seen.unsettled.remove(&command.id);
                    }
                    seen.decisions.push((*slot, batch.clone()));
                }
                Effect::Refuse { command, .. } => {
                    self.seen.borrow_mut().unsettled.remove(command);
                }
                _ => {}
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
