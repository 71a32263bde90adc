//! Where the newest leader began to judge which sessions have expired.
//!
//! `Lead` commands set it, and an expiry judged before it has no effect; `docs/sessions.md` has the proof.
//! The leader proposes expiries in `local/expiry.rs`.

use quorate_types::{Ballot, Slot};

/// The highest ballot whose leader began to judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lead {
    pub(crate) ballot: Ballot,
    /// The slot of its `Lead`: expiries judged before it have no effect.
    pub(crate) slot: Slot,
}

impl Lead {
    /// A leader begins to judge, unless one of a higher ballot has begun.
    pub(crate) fn decided(&mut self, ballot: Ballot, slot: Slot) {
        if ballot > self.ballot {
            *self = Lead { ballot, slot };
        }
    }
}
