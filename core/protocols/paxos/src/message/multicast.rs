//! The messages of values that a leader multicasts, while only the ids of proposals go along the ring.
//!
//! The id of a value is its ballot and slot: a ballot proposes one value in a slot, so the two name it as well as a digest would, and
//! nothing need be computed over the bytes.

use super::RingWay;
use quorate_acceptor::Testimony;
use quorate_types::{Ballot, Batch, Slot};

/// What `ballot` proposes in `slot`. It asks for nothing: who holds it votes when the proposal's id comes along the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The batch.
    pub batch: Batch,
}

/// Phase 2a along a ring, as [`super::Pass`], of a value that travels apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassId {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// By whom it goes.
    pub way: RingWay,
    /// So many of the first on the way get the value by multicast; the others get it with the proposal.
    pub hearing: usize,
}

/// To the leader: whether what it multicasts comes here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hears {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The value of this slot came by multicast, and with the proposal as well. None: what is multicast comes no more.
    pub slot: Option<Slot>,
}

impl Carried {
    pub(crate) fn testimony(&self) -> Testimony<'_> {
        Testimony::Passes {
            ballot: self.ballot,
            slot: self.slot,
            batch: &self.batch,
            decided: Slot::ZERO,
        }
    }
}

impl PassId {
    pub(crate) fn testimony(&self) -> Testimony<'_> {
        Testimony::PassesId {
            ballot: self.ballot,
            decided: self.decided,
        }
    }
}
