//! The rounds in which acceptors vote, and how many votes choose in each.

use quorate_types::{Ballot, VoteKind};

/// A round of a slot. A ballot has a fast one, in which votes may differ, and then a classic one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VoteRound {
    /// The ballot.
    pub ballot: Ballot,
    /// It is the classic one: all votes are for what the ballot's leader proposed.
    pub is_classic: bool,
}

impl VoteRound {
    /// The round of a vote of this kind.
    pub fn of(ballot: Ballot, kind: VoteKind) -> VoteRound {
        VoteRound {
            ballot,
            is_classic: !kind.is_fast(),
        }
    }

    /// The fast round of a ballot.
    pub fn fast(ballot: Ballot) -> VoteRound {
        VoteRound {
            ballot,
            is_classic: false,
        }
    }
}

impl From<Ballot> for VoteRound {
    /// The classic one.
    fn from(ballot: Ballot) -> VoteRound {
        VoteRound {
            ballot,
            is_classic: true,
        }
    }
}

/// How many votes of one round choose a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundQuorums {
    /// How many acceptors there are.
    pub acceptors: usize,
    /// Promises that make a leader.
    pub phase1: usize,
    /// Votes of a classic round.
    pub classic: usize,
    /// Votes for one value in a fast round.
    pub fast: usize,
}

impl RoundQuorums {
    /// Those beside which fast quorums are as small as they can be: two of them and any phase-1 quorum have an acceptor in common.
    pub fn new(acceptors: usize, phase1: usize, classic: usize) -> RoundQuorums {
        let fast = (1..=acceptors).find(|fast| phase1 + 2 * fast > 2 * acceptors);
        RoundQuorums {
            acceptors,
            phase1,
            classic,
            fast: fast.unwrap_or(acceptors),
        }
    }

    /// How many votes of a round choose.
    pub fn needed(&self, round: VoteRound) -> usize {
        match round.is_classic {
            true => self.classic,
            false => self.fast,
        }
    }
}
