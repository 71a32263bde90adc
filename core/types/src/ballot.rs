//! Ballots: attempts to lead, totally ordered and never used twice.

use crate::NodeId;
use std::fmt;

/// One attempt to lead, ordered by round, then node, then boot.
///
/// A node never issues the same ballot twice: `boot` counts the starts of its data directory and is
/// durable before the node speaks, so a ballot of an earlier life cannot be told apart only by luck.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// Rises with each attempt.
    pub round: u64,
    /// Who leads if the attempt succeeds.
    pub node: NodeId,
    /// Which start of that node made the attempt.
    pub boot: u64,
}

impl Ballot {
    /// Below every ballot that is ever led.
    pub const ZERO: Ballot = Ballot {
        round: 0,
        node: NodeId(0),
        boot: 0,
    };

    /// The lowest ballot of `node` that beats `self`.
    #[must_use]
    pub fn next(self, node: NodeId, boot: u64) -> Ballot {
        let round = self
            .round
            .checked_add(1)
            .expect("2^64 rounds outlast every group");
        Ballot { round, node, boot }
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}.{}", self.round, self.node.0, self.boot)
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_ballot_beats_every_earlier_one() {
        let old = Ballot {
            round: 7,
            node: NodeId(9),
            boot: 3,
        };
        assert!(old.next(NodeId(1), 1) > old);
        assert!(Ballot { boot: 4, ..old } > old);
    }
}
