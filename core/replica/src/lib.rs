//! The replica: sessions, execution order, replies, reads, snapshots and digests; pure.
//!
//! A `Replica` owns the ordering protocol below it, whichever it is, and never names one. The node
//! (and the simulator in its place) feeds it [`Input`]s and performs the [`Output`]s in their order.
#![forbid(unsafe_code)]

mod checkpoints;
mod clients;
mod config;
mod connections;
mod deaths;
mod decided;
mod fetch;
mod input;
mod internal;
pub mod limits;
mod message;
mod objects;
mod output;
mod pipeline;
mod reads;
mod replica;
mod sessions;
mod silence;
mod snapshot;
mod status;
mod storage;
mod waiting;
mod window;

pub use config::{CheckpointPolicy, ReplicaConfig, Snapshots};
pub use input::Input;
pub use message::{Digest, PeerMessage, ReplicaMessage};
pub use output::{Call, Output};
pub use replica::{Recovered, Replica};
pub use snapshot::{ReplyImage, SessionImage, SnapshotCore};
pub use status::ReplicaStatus;
