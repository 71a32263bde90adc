//! The messages by which values travel apart from the proposals that name them.

use quorate_acceptor::Testimony;
use quorate_types::{Ballot, Command, Slot, Stamp, ValueId};

/// Keep these commands: a leader may propose their name. It is sent by who was called with them, to all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Their name, which no other commands of the view ever have. Its node is the sender.
    pub value: ValueId,
    /// The commands.
    pub commands: Vec<Command>,
}

/// The sender holds these values in memory. It counts only on the link on which it came: who starts anew holds nothing. It is no vote,
/// and binds nobody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holds {
    /// The values, of any sender.
    pub values: Vec<ValueId>,
}

/// Phase 2a by names: vote in `slot` for the batch of this stamp and of the commands of `values`, one value after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// The stamp of the batch.
    pub stamp: Stamp,
    /// Whose commands it has, in this order.
    pub values: Vec<ValueId>,
}

/// The sender lacks a value that `ballot` named in `slot`: send the proposal with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
}

impl Spread {
    pub(crate) fn testimony(&self) -> Testimony<'_> {
        Testimony::Spreads {
            value: self.value,
            commands: &self.commands,
        }
    }
}

impl Named {
    pub(crate) fn testimony(&self) -> Testimony<'_> {
        Testimony::ProposesNamed {
            ballot: self.ballot,
            slot: self.slot,
            stamp: self.stamp,
            values: &self.values,
            decided: self.decided,
        }
    }
}
