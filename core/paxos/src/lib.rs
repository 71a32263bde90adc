//! Multi-Paxos: orders commands with one stable leader.
#![forbid(unsafe_code)]

mod config;
mod limits;
mod message;

pub use config::{Config, Standing, Timing};
pub use limits::Limits;
pub use message::{Message, Promise, Vote};
