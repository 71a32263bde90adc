//! The base of every ordering protocol: an [`Acceptor`] that promises and votes, the [`Gate`] that
//! holds answers back until their writes are durable, the [`SlotLog`] in memory, the [`Credit`] of a peer, the [`Queue`] of commands
//! that wait for a slot; when a node tries to lead ([`Election`]), whom it then asks for promises ([`PhaseOne`]), and whom it asks
//! for what was decided without it ([`Learner`]).
//!
//! Protocols differ in which node proposes, what it proposes and which nodes hear of it. They do not
//! differ in what a node remembers. Nothing here sends a message, leads or decides.
#![forbid(unsafe_code)]

mod acceptor;
mod credit;
mod currency;
mod election;
mod gate;
mod held;
mod learner;
mod limits;
mod log;
pub mod message;
mod phase_one;
mod promise;
mod questions;
mod queue;
mod random;
mod recovery;
mod testimony;
mod trimming;

pub use acceptor::{Acceptor, Backing, DurableAnswer, Verdict};
pub use credit::Credit;
pub use currency::{Answers, Beats, Current};
pub use election::{Election, Rivals};
pub use gate::Gate;
pub use held::{Held, Originals};
pub use learner::{Learner, Taught, Teachers};
pub use log::{Open, SlotLog};
pub use phase_one::PhaseOne;
pub use promise::{Promise, Vote};
pub use queue::{Fate, Origin, Queue, Run, Source};
pub use recovery::{ForeignRecord, restore};
pub use testimony::Testimony;
