//! A whole group in one process: the replicas, ordering and sessions of real nodes, with virtual time and a seed.
//!
//! Users test their classes on it, through `quorate.testing`. It moves messages, keeps logs and snapshots, and crashes and
//! cuts off nodes when it is told to. The objects are the owner's: [`RehearsedObjects`]. It judges nothing: the lab, which
//! proves the core itself, has a simulator of its own with more faults and with checkers.
#![forbid(unsafe_code)]

mod callers;
mod dice;
mod disk;
pub mod limits;
mod links;
mod objects;
mod rehearsal;
mod running;
mod schedule;
mod snapshots;
mod tracing;

pub use callers::EndedOperation;
pub use objects::{ExecutedCall, RehearsedObjects};
pub use quorate_session::{Answer, Cause, Failure, Operation, Ticket};
pub use rehearsal::{Rehearsal, RehearsalConfig, RehearsedState};
pub use tracing::{Party, TracedMessage};
