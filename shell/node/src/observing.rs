//! Why an acceptor of the view does not vote, and what an operator can do.
//!
//! It describes for people what storage found. Whether the node votes is the replica's to say.

use quorate_storage::MemoryLoss;
use std::fmt;

/// Why a node observes: it learns, forwards and executes, and neither promises, votes nor leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observing {
    /// It was restarted in memory mode.
    Restarted,
    /// Its directory lacks something that it had written.
    Lost(MemoryLoss),
    /// The view names another incarnation of it.
    Superseded,
}

impl fmt::Display for Observing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observing::Restarted => {
                f.write_str("it was restarted in memory mode and has forgotten what it voted for")
            }
            Observing::Lost(loss) => write!(f, "it has lost votes: {loss}"),
            Observing::Superseded => {
                f.write_str("another life of this node has taken its place in the group's view")
            }
        }
    }
}

impl Observing {
    /// What an operator can do.
    pub(crate) fn advice(self, others: usize) -> &'static str {
        match self {
            _ if others == 0 => {
                "no other node holds a copy, so the group's state is lost: begin anew in another directory"
            }
            Observing::Restarted => {
                "it votes again by itself once it has caught up, as long as a majority of the others is up"
            }
            Observing::Lost(_) => {
                "it votes again by itself once it has caught up, as long as a majority of the others is up; if there is none, \
                 stop it and put its own newest data directory back"
            }
            Observing::Superseded => {
                "it votes again by itself once it has caught up; make sure that no copy of its data directory runs elsewhere"
            }
        }
    }
}
