//! The seam between a replica and the protocol that orders its commands.
//!
//! An [`Ordering`] is pure: it gets an [`Event`], computes, and leaves every consequence in
//! [`Effects`]. It refuses to perform anything itself and knows no object, session or client. The
//! replica calls it; the protocols (`core/protocols/paxos` and its later siblings) implement it.
//!
//! Four rules hold for every implementation:
//! - A message that depends on a write is sent only after [`Event::Persisted`] for that write, and
//!   carries the ballot captured when the write was submitted.
//! - Every submitted command is decided or refused exactly once at the node that submitted it.
//! - Messages may be lost, duplicated, reordered over links; a link's epoch bounds cumulative counts.
//! - A message or a record of another view than [`Ordering::view`] is never acted upon.
#![forbid(unsafe_code)]

mod config;
mod damage;
mod effect;
mod event;
mod limits;
mod record;
mod status;

pub use config::{Config, Standing, Timing};
pub use damage::{Damage, LostRecord, Past};
pub use effect::{Decision, Effect, Effects, Lane};
pub use event::{Event, LinkState, Mark, ReadId};
pub use limits::Limits;
pub use record::{Entry, Record};
pub use status::{OrderingStatus, PeerStatus, Role};

use quorate_types::{Time, ViewId};

/// Orders the commands of one view of one group, at one node.
pub trait Ordering {
    /// What its instances say to each other.
    type Message: Clone + PartialEq + std::fmt::Debug;

    /// What it orders. Everything it says, hears and remembers is of this view of this group.
    fn view(&self) -> ViewId;

    /// Takes one event to its end. Total: never fails, never blocks.
    fn handle(
        &mut self,
        now: Time,
        event: Event<Self::Message>,
        effects: &mut Effects<Self::Message>,
    );

    /// When [`Event::Wake`] is due, if at all.
    fn next_wake(&self) -> Option<Time>;

    /// What can be said about it; one struct for all protocols.
    fn status(&self) -> OrderingStatus;

    /// Panics when an invariant is broken.
    fn check(&self);
}
