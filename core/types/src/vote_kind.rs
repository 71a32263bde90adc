//! Whose choice a vote is, and the name of a value that was proposed to all acceptors.

use crate::NodeId;
use std::fmt;

/// The name of a value that a node proposed to all acceptors. No node ever uses one twice in a view, because `boot` counts its starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueId {
    /// Who proposed it.
    pub node: NodeId,
    /// The start of that node which proposed it.
    pub boot: u64,
    /// Rises with each value of that start.
    pub number: u64,
}

/// Whose choice a vote is. A ballot has at most two rounds a slot, in this order: a fast one, then a classic one. Each acceptor
/// votes once at most in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VoteKind {
    /// The acceptor's: of the values proposed to all, this was its next one. Other acceptors may have voted for others.
    Fast(ValueId),
    /// The ballot's owner's: all votes of the ballot are for one value.
    Classic,
}

impl VoteKind {
    /// Whether it is of a fast round.
    #[must_use]
    pub fn is_fast(self) -> bool {
        match self {
            VoteKind::Fast(_) => true,
            VoteKind::Classic => false,
        }
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueId { node, boot, number } = self;
        if *boot == 1 {
            write!(f, "v{number}.{}", node.0)
        } else {
            write!(f, "v{number}.{}.{boot}", node.0)
        }
    }
}
