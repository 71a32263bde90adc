//! The replica: sessions, execution order, replies, reads, snapshots and digests; pure.
//!
//! A `Replica` owns an instance of an ordering protocol and does not know which protocol it is. The node,
//! or the simulator in its place, passes [`Input`]s to it and performs its [`Output`]s in their order.
#![forbid(unsafe_code)]

mod config;
mod decided;
mod input;
pub mod limits;
mod local;
mod message;
mod objects;
mod output;
mod replica;
mod replicated;
mod routing;
mod status;

pub use config::{CheckpointPolicy, KeptLimits, ReplicaConfig, Snapshots};
pub use input::Input;
pub use local::agreement::SnapshotReport;
pub use local::clocks::ClockOffset;
pub use local::drift::{DifferentCall, OutcomeDifference};
pub use local::instances::ViewPasts;
pub use local::poison::{EarlierDeaths, EarlierLives};
pub use local::quarantine::Quarantine;
pub use local::signs::{KnownSign, KnownSigns};
pub use local::storage::DiskRoom;
pub use message::{PeerMessage, ReplicaMessage, SignsMessage};
pub use objects::outcomes::{OutcomeHash, OutcomeStep, OutcomeTrail};
pub use objects::speculation::Speculated;
pub use output::Output;
pub use replica::{Recovered, Remembered, Replica};
pub use replicated::invitations::Invitation;
pub use replicated::kept::KeptAfter;
pub use replicated::poison::PoisonReports;
pub use replicated::snapshot::{ReplyImage, ReplyState, SessionImage, SnapshotCore};
pub use status::{PoisonStanding, ReplicaStatus, TrimHindrance, TrimWait};
