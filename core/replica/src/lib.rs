//! The replica: sessions, execution order, replies, reads, snapshots and digests; pure.
//!
//! A `Replica` owns the ordering protocol below it, whichever it is, and never names one. The node
//! (and the simulator in its place) feeds it [`Input`]s and performs the [`Output`]s in their order.
#![forbid(unsafe_code)]

mod input;
mod message;
mod output;
mod snapshot;

pub use input::Input;
pub use message::{Digest, PeerMessage, ReplicaMessage};
pub use output::{Call, Output};
pub use snapshot::{ReplyImage, SessionImage, SnapshotCore};
