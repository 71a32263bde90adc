//! The objects from the replica's side: calls out, outcomes back, snapshots of their state.
//!
//! The objects lag behind the decided slots, on each node by a different amount. Their answers become
//! replicated state only as outcomes of their slots.

pub(crate) mod execution;
pub(crate) mod outcomes;
pub(crate) mod pipeline;
pub(crate) mod repeating;
pub(crate) mod results;
pub(crate) mod snapshots;
pub(crate) mod speculation;
pub(crate) mod turns;
