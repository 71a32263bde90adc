//! The base of every ordering protocol: an [`Acceptor`] that promises and votes, the [`Gate`] that
//! holds answers back until their writes are durable, the [`SlotLog`] in memory, the [`Credit`] of a peer.
//!
//! Protocols differ in which node proposes, what it proposes and which nodes hear of it. They do not
//! differ in what a node remembers. Nothing here sends a message, knows a leader or counts a quorum.
#![forbid(unsafe_code)]

mod acceptor;
mod credit;
mod gate;
mod limits;
mod log;
mod promise;
mod recovery;
mod testimony;

pub use acceptor::{Acceptor, Backing, DurableAnswer, Verdict};
pub use credit::Credit;
pub use gate::Gate;
pub use log::{Open, SlotLog};
pub use promise::{Promise, Vote};
pub use recovery::{ForeignRecord, restore};
pub use testimony::Testimony;
