//! The client's half of a session: sequences, retries, leader hints.
//!
//! A [`ClientSession`] is pure: whoever owns the sockets (`shell/client`, the simulator) feeds it
//! what happens and performs its [`SessionOutput`]s. It refuses to guess outcomes: every operation ends
//! with an [`Answer`] or with a [`Failure`] that says whether it may have been executed.
#![forbid(unsafe_code)]

mod answer;
mod limits;
mod outstanding;
mod route;
mod session;

pub use answer::{Answer, Cause, Failure};
pub use limits::SessionConfig;
pub use outstanding::{Operation, Ticket};
pub use route::Preference;
pub use session::{ClientSession, SessionInput, SessionOutput};
