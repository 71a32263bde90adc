//! One event at an instance that a test drives by hand.

use crate::VIEW;
use quorate_ordering::{Effects, Event, Ordering};
use quorate_types::{LinkEpoch, NodeId, Time, Wall};

/// Handles `event` and ends the turn, with `now` on the wall as well. Returns what follows.
pub fn turn<O: Ordering>(
    instance: &mut O,
    now: Time,
    event: Event<O::Message>,
) -> Effects<O::Message> {
    let mut effects = Vec::new();
    instance.handle(now, event, &mut effects);
    let (wall, entropy) = (Wall(now.0), 0);
    instance.handle(now, Event::TurnEnd { wall, entropy }, &mut effects);
    instance.check();
    effects
}

/// A message of node `from`, over the first link.
#[must_use]
pub fn received<M>(from: u16, message: M) -> Event<M> {
    Event::Receive {
        from: NodeId(from),
        link: LinkEpoch(1),
        view: VIEW,
        message,
    }
}
