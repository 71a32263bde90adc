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
    pub(crate) fn advice(self, acceptors: usize) -> String {
        match self {
            Observing::Restarted => format!(
                "it serves calls and never votes again, so {}: keep the others running, or move to a new group first",
                group_ends(acceptors)
            ),
            Observing::Lost(_) => "stop it and put its own newest data directory back, if that still exists; otherwise it \
                 never votes again"
                .to_owned(),
        }
    }
}

/// What ends a group of so many acceptors that keep their votes in memory, after one of them was restarted.
#[must_use]
pub fn group_ends(acceptors: usize) -> String {
    match acceptors.saturating_sub(1) / 2 {
        0 | 1 => "a second death ends the group and its state is lost".to_owned(),
        more => format!("{more} more deaths end the group and its state is lost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_node_says_how_many_deaths_are_left() {
        let advice = Observing::Restarted.advice(3);
        assert!(advice.contains("a second death ends the group"), "{advice}");
        let advice = Observing::Restarted.advice(5);
        assert!(advice.contains("2 more deaths end the group"), "{advice}");
    }
}
