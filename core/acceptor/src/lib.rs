//! The base of every ordering protocol: an [`Acceptor`] that promises and votes, the [`Gate`] that
//! holds answers back until their writes are durable, the [`SlotLog`] in memory, the [`Credit`] of a peer, the [`Queue`] of commands
//! that wait for a slot.
//!
//! Protocols differ in which node proposes, what it proposes and which nodes hear of it. They do not
//! differ in what a node remembers. Nothing here sends a message, knows a leader or counts a quorum.
#![forbid(unsafe_code)]

mod acceptor;
mod credit;
mod currency;
mod gate;
mod held;
mod limits;
mod log;
mod promise;
mod questions;
mod queue;
mod random;
mod recovery;
mod testimony;

pub use acceptor::{Acceptor, Backing, DurableAnswer, Verdict};
pub use credit::Credit;
pub use currency::{Answers, Beats, Current};
pub use gate::Gate;
pub use held::{Held, Originals};
pub use log::{Open, SlotLog};
pub use promise::{Promise, Vote};
pub use questions::OpenQuestions;
pub use queue::{Fate, Origin, Queue, Run, Source};
pub use random::Random;
pub use recovery::{ForeignRecord, restore};
pub use testimony::Testimony;
