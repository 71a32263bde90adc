//! Ballots: attempts to lead, totally ordered and never used twice.

use crate::{NodeId, ViewNumber};
use std::fmt;

/// One attempt to lead in a view, ordered by view, then round, then node, then boot.
///
/// A node never issues the same ballot twice, because `boot` counts the starts of its data directory and
/// is durable before the node sends anything. Ballots of two views are never equal, so a vote of another
/// view never counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// The view; the group is that of the message or record that contains the ballot.
    pub view: ViewNumber,
    /// Rises with each attempt.
    pub round: u64,
    /// The node that leads if the attempt succeeds.
    pub node: NodeId,
    /// The start of that node that made the attempt.
    pub boot: u64,
}

/// Who may lead a view in its lowest ballot, without phase 1: one start of one node, which the decided change that led to the view
/// names. Nobody else has that ballot, every other one is higher, and so nothing can have been chosen below it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FirstBallot {
    /// The node: who led when the change was asked for.
    pub node: NodeId,
    /// The start of that node. A later one does not know what it has proposed.
    pub boot: u64,
}

impl FirstBallot {
    /// The ballot, in the view that it begins.
    ///
    /// ```
    /// use quorate_types::{Ballot, FirstBallot, NodeId, ViewNumber};
    /// let first = FirstBallot { node: NodeId(9), boot: 3 }.of(ViewNumber(2));
    /// assert!(Ballot::ZERO < first && first < Ballot::ZERO.next(ViewNumber(2), NodeId(1), 1));
    /// ```
    #[must_use]
    pub fn of(self, view: ViewNumber) -> Ballot {
        Ballot {
            view,
            round: 0,
            node: self.node,
            boot: self.boot,
        }
    }
}

impl Ballot {
    /// Below every ballot of a leader.
    pub const ZERO: Ballot = Ballot {
        view: ViewNumber(0),
        round: 0,
        node: NodeId(0),
        boot: 0,
    };

    /// The lowest ballot of `node` in `view` that is higher than `self`, whose view is not later.
    #[must_use]
    pub fn next(self, view: ViewNumber, node: NodeId, boot: u64) -> Ballot {
        assert!(view >= self.view, "a later view's ballots cannot be beaten");
        let last = if view == self.view { self.round } else { 0 };
        let round = last
            .checked_add(1)
            .expect("2^64 rounds outlast every group");
        Ballot {
            view,
            round,
            node,
            boot,
        }
    }

    /// Whether it is of `view`, or the ballot of nobody.
    #[must_use]
    pub fn is_of(self, view: ViewNumber) -> bool {
        self.view == view || self == Ballot::ZERO
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}.{}", self.round, self.node.0, self.boot)
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{self}", self.view.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_ballot_beats_every_earlier_one() {
        let view = ViewNumber(1);
        let old = Ballot {
            view,
            round: 7,
            node: NodeId(9),
            boot: 3,
        };
        assert!(old.next(view, NodeId(1), 1) > old);
        let later = old.next(ViewNumber(2), NodeId(1), 1);
        assert!(later > old && later.round == 1);
        assert!(Ballot { boot: 4, ..old } > old);
    }
}
