//! The client's half of a session: sequences, retries, leader hints.
//!
//! A [`ClientSession`] is pure: the owner of the sockets (`shell/client`, the simulator) passes inputs to it
//! and performs its [`SessionOutput`]s. It never guesses an outcome: every operation ends with an [`Answer`]
//! or with a [`Failure`] that says whether it may have been executed.
#![forbid(unsafe_code)]

mod answer;
mod limits;
mod outstanding;
mod route;
mod session;

pub use answer::{Answer, Cause, Failure};
pub use limits::{PARKED_MAX, SessionConfig};
pub use outstanding::{Attempts, Operation, Ticket};
pub use route::Preference;
pub use session::{ClientSession, SessionInput, SessionLife, SessionOutput, SessionState};
