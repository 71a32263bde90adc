//! What a message binds its sender to, in words that all protocols share.
//!
//! A protocol's messages differ, what an acceptor or a proposer commits itself to with them does not. Whoever
//! judges a group from outside (the lab's checkers) asks each message for this and needs no protocol's name.

use crate::Promise;
use quorate_types::{Ballot, Batch, Slot};

/// What the sender of a message can be held to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Testimony<'a> {
    /// Nothing: the message asks, informs or returns credit.
    Nothing,
    /// It asks for promises in this ballot, which nobody else ever asks for.
    Opens {
        /// The ballot.
        ballot: Ballot,
    },
    /// It proposes one batch, the only one of this ballot in this slot.
    Proposes {
        /// In which ballot.
        ballot: Ballot,
        /// Where.
        slot: Slot,
        /// What.
        batch: &'a Batch,
    },
    /// It voted, durably, for what the ballot proposed in each slot of `first..=last`.
    Votes {
        /// In which ballot.
        ballot: Ballot,
        /// The first slot.
        first: Slot,
        /// The last slot.
        last: Slot,
    },
    /// It takes part in no lower ballot, and these are its votes.
    Promises(&'a Promise),
    /// As a leader, it asks for a lease with this heartbeat.
    AsksLease {
        /// Its ballot.
        ballot: Ballot,
        /// Which heartbeat.
        beat: u64,
    },
    /// It promises no other node a ballot before the lease that this heartbeat asked for has run out.
    GrantsLease {
        /// The leader's ballot.
        ballot: Ballot,
        /// Which heartbeat.
        beat: u64,
    },
    /// As a leader, it opens a round that confirms reads.
    AsksConfirm {
        /// Its ballot.
        ballot: Ballot,
        /// Which round.
        epoch: u64,
    },
    /// It knows of no higher ballot.
    Confirms {
        /// The leader's ballot.
        ballot: Ballot,
        /// Which round.
        epoch: u64,
    },
    /// It speaks as the leader of this ballot and vouches for what the ballot decided.
    Leads {
        /// The ballot.
        ballot: Ballot,
    },
    /// It lacks decided slots and asks for them.
    AsksDecided {
        /// The first slot that it lacks.
        from: Slot,
    },
    /// It answers a question for decided slots.
    TellsDecided,
    /// It tells a damaged acceptor what that one may have promised and voted for.
    Surveyed,
}
