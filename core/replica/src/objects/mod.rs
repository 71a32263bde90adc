//! The objects as the replica sees them: calls handed out, outcomes taken back, snapshots of their state.
//!
//! The objects lag behind what is decided, each node at its own pace. What they answer becomes replicated
//! state only as outcomes of their slots.

pub(crate) mod execution;
pub(crate) mod pipeline;
pub(crate) mod snapshots;
