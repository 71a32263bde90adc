//! Why an acceptor of the view does not vote, and what an operator can do.
//!
//! It describes for people what storage found. Whether the node votes is decided from it once, at the start.

use quorate_storage::MemoryLoss;
use std::fmt;

/// Why a node observes: it learns, forwards and executes, and neither promises, votes nor leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observing {
    /// It was restarted in memory mode.
    Restarted,
    /// Its directory lacks something that it had written.
    Lost(MemoryLoss),
}

impl fmt::Display for Observing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observing::Restarted => {
                f.write_str("it was restarted in memory mode and has forgotten what it voted for")
            }
            Observing::Lost(loss) => write!(f, "it has lost votes: {loss}"),
        }
    }
}

impl Observing {
    /// What an operator can do.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Observing::Restarted => {
                "keep a majority of the other nodes running; this node serves calls, and can vote again only as a new incarnation, which needs a view change"
            }
            Observing::Lost(_) => {
                "stop it and put its own newest data directory back, if that still exists; otherwise it can vote again only as a new incarnation, which needs a view change"
            }
        }
    }
}
