//! The interface between a replica and the protocol that orders its commands.
//!
//! An [`Ordering`] is pure: it gets an [`Event`], computes, and leaves every consequence in
//! [`Effects`]. It performs nothing itself and knows no object, session or client. The replica calls
//! it; protocols such as `core/protocols/paxos` implement it.
//!
//! Four rules hold for every implementation:
//! - A message that depends on a write is sent only after [`Event::Persisted`] for that write. It
//!   carries the ballot from the moment when the write was submitted.
//! - Every submitted command is decided or refused exactly once at the node that submitted it.
//! - Messages may be lost, duplicated, and reordered across links. Cumulative counts hold only within
//!   one epoch of a link.
//! - A message or record of another view than [`Ordering::view`] has no effect.
#![forbid(unsafe_code)]

mod config;
mod conflict;
mod damage;
mod effect;
mod event;
mod handover;
mod limits;
mod record;
mod status;

pub use config::{Config, Standing, Timing};
pub use conflict::ConflictingDecisions;
pub use damage::{Damage, LostRecord, Past};
pub use effect::{Decision, Effect, Effects, Lane};
pub use event::{Event, LinkState, Mark, ReadId};
pub use handover::{Beginning, Handover};
pub use limits::{Flow, Limits, ProposalReach, ValuesBy};
pub use record::{Entry, Record};
pub use status::{MulticastStatus, OrderingStatus, PeerStatus, Role, RoundsStatus};

use quorate_types::{Batch, Slot, Time, View, ViewId};

/// What a node's log has of a view whose instance is made.
#[derive(Clone, PartialEq, Debug)]
pub enum ViewPast {
    /// Nothing, and there never was anything: the node has not taken part in it.
    None,
    /// Nothing but its beginning, which this start has written ahead of it, durably.
    Begun,
    /// These records, in their order.
    Records(Vec<Record>),
    /// These records, in their order, and others that cannot be read any more.
    Damaged(Vec<Record>),
    /// The node may have promised or voted in it, and its log does not show what.
    Lost,
}

/// Orders the commands of one view of one group, at one node.
pub trait Ordering {
    /// The messages between its instances.
    type Message: Clone + PartialEq + std::fmt::Debug;

    /// The view of the group that it orders. All its messages and records belong to this view.
    fn view(&self) -> ViewId;

    /// An instance for another view of the same group at this node, which votes there or not. The first event that it gets must be
    /// [`Event::Executed`].
    #[must_use]
    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> Self
    where
        Self: Sized;

    /// What a node answers that has no instance of the message's view any more: the slots up to `upto` are in snapshots only.
    /// `None` for a message that asks nothing.
    fn gone(message: &Self::Message, upto: Slot) -> Option<Self::Message>
    where
        Self: Sized;

    /// What must remain in the log of this instance when records are removed for that of another view.
    fn statement(&self) -> Vec<Record>;

    /// The last slot trimmed from its log.
    fn trimmed(&self) -> Slot {
        self.status().trimmed
    }

    /// Handles one event completely. It never fails and never blocks.
    fn handle(
        &mut self,
        now: Time,
        event: Event<Self::Message>,
        effects: &mut Effects<Self::Message>,
    );

    /// When [`Event::Wake`] is due, if at all.
    fn next_wake(&self) -> Option<Time>;

    /// Its state for status pages; one struct for all protocols.
    fn status(&self) -> OrderingStatus;

    /// The end of the decided prefix. Cheaper than the whole status where that is asked for often.
    fn decided(&self) -> Slot {
        self.status().decided
    }

    /// What was decided for `slot`, while the log still holds it in memory. A protocol that cannot tell says `None`: only
    /// reports to operators name calls by it.
    fn batch(&self, slot: Slot) -> Option<&Batch> {
        let _ = slot;
        None
    }

    /// Panics when an invariant is broken.
    fn check(&self);
}
