//! What the recovery of a slot may propose: the rule O4 of Fast Paxos, by counting.
//!
//! In a fast round several values may have votes. A value can have been decided only if all acceptors of some fast quorum
//! that answered voted for it: of `w` witnesses at least `qf + w - n`. Valid quorums leave room for one such value.
//! Votes are counted, not values: two acceptors with the same value are two. Claim fp-3.

use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, FastQuorums, ValueId, VoteKind};
use std::collections::BTreeMap;

/// What may be proposed in a slot, given the votes of a phase-1 quorum. Each value is told by the place of a vote for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// No vote: any value.
    Free,
    /// This value may have been decided.
    Bound(usize),
    /// No value can have been decided. Of those with votes, most acceptors voted for this one.
    Collided(usize),
}

/// Applies the rule to the last votes that `witnesses` acceptors, a phase-1 quorum, reported of a slot.
///
/// # Panics
/// When two values may have been decided: the quorums are not valid, or an acceptor voted twice.
#[must_use]
pub fn select(votes: &[(Ballot, VoteKind)], witnesses: usize, quorums: &FastQuorums) -> Selection {
    let rounds = votes
        .iter()
        .map(|(ballot, kind)| (*ballot, !kind.is_fast()));
    let Some(highest) = rounds.max() else {
        return Selection::Free;
    };
    let is_of = |vote: &(Ballot, VoteKind)| (vote.0, !vote.1.is_fast()) == highest;
    if !votes.iter().any(|vote| is_of(vote) && vote.1.is_fast()) {
        let place = votes.iter().position(is_of);
        return Selection::Bound(place.expect("the highest round has a vote"));
    }
    let of_round = votes.iter().filter(|vote| is_of(vote)).map(|vote| vote.1);
    let mut counts = count(of_round);
    if planted(Plant::ValuesCountedOnce) {
        counts.values_mut().for_each(|count| *count = 1);
    }
    let threshold = quorums.threshold(witnesses);
    let place = |value: ValueId| {
        let of_value = |vote: &(Ballot, VoteKind)| is_of(vote) && vote.1 == VoteKind::Fast(value);
        let place = votes.iter().position(of_value);
        place.expect("a counted value has a vote")
    };
    let mut possible = counts.iter().filter(|(_, count)| **count >= threshold);
    if let Some((value, _)) = possible.next() {
        assert!(
            possible.next().is_none() || planted(Plant::ValuesCountedOnce),
            "at most one value of a fast round can be decided"
        );
        return Selection::Bound(place(*value));
    }
    let most = counts
        .iter()
        .max_by_key(|(value, count)| (**count, std::cmp::Reverse(**value)));
    let (value, _) = most.expect("the highest round has a vote");
    Selection::Collided(place(*value))
}

/// How many votes each value has; classic votes are none.
pub(crate) fn count(votes: impl Iterator<Item = VoteKind>) -> BTreeMap<ValueId, usize> {
    let mut counts = BTreeMap::new();
    for kind in votes {
        match kind {
            VoteKind::Fast(value) => *counts.entry(value).or_default() += 1,
            VoteKind::Classic => {}
        }
    }
    counts
}

/// Whether a value with `votes` of the `heard` votes of a fast round can still be decided in it.
pub(crate) fn may_win(votes: usize, heard: usize, quorums: &FastQuorums) -> bool {
    let silent = quorums.classic().acceptors() - heard;
    votes + silent >= quorums.fast()
}
