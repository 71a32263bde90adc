//! The newest operator's reset: where all replicas took over one replica's state, and whether a majority holds it.
//!
//! Both are decided commands, so all replicas know the same. Nobody answers between them.

use crate::SnapshotCore;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Digest, NodeId, Slot};

/// The state that an operator chose: what a node, in one of its starts, holds in its snapshot at a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedState {
    /// The node.
    pub(crate) node: NodeId,
    /// Its start.
    pub(crate) boot: u64,
    /// The slot of the snapshot.
    pub(crate) slot: Slot,
    /// What it holds.
    pub(crate) digest: Digest,
}

/// The newest reset that is in force. Invariant: once it is over, only a snapshot after it can be named by the next one, and so
/// no state that lacks what was answered since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LastReset {
    /// The slot of its command; slot 0: there was none.
    slot: Slot,
    /// The slot of the first one since the last that was over, as far as that is known: each replaced the one before it.
    since: Slot,
    /// What it chose, unless a snapshot covered it: whoever asks for it again is told its slot.
    named: Option<NamedState>,
    /// A majority holds the state that it chose.
    is_over: bool,
}

impl Default for LastReset {
    fn default() -> LastReset {
        LastReset {
            slot: Slot::ZERO,
            since: Slot::ZERO,
            named: None,
            is_over: true,
        }
    }
}

impl LastReset {
    /// As a snapshot tells it. Only objects that may answer take snapshots after the slot of a reset.
    pub(crate) fn restored(core: &SnapshotCore) -> LastReset {
        if planted(Plant::ResetForgotten) {
            return LastReset::default();
        }
        LastReset {
            slot: core.reset,
            since: core.reset,
            named: None,
            is_over: core.slot > core.reset,
        }
    }

    /// The slot of its command.
    pub(crate) fn slot(self) -> Slot {
        self.slot
    }

    pub(crate) fn is_over(self) -> bool {
        self.is_over
    }

    /// The slot of its command, if it chose this.
    pub(crate) fn slot_of(self, named: NamedState) -> Option<Slot> {
        (self.named == Some(named)).then_some(self.slot)
    }

    /// Whether what is agreed at `slot` is the choice of a reset that this one has replaced. Between such resets no majority agrees
    /// on anything: nobody goes on after one that is not over.
    pub(crate) fn has_replaced(self, slot: Slot) -> bool {
        !self.is_over && self.since <= slot && slot < self.slot
    }

    /// Whether a reset that names a snapshot at `named` has an effect.
    pub(crate) fn may_follow(self, named: Slot) -> bool {
        !self.is_over || named > self.slot
    }

    /// A reset is decided in `slot` and has an effect.
    pub(crate) fn begins(&mut self, slot: Slot, named: NamedState) {
        assert!(slot > self.slot, "resets are decided in slot order");
        *self = LastReset {
            slot,
            since: if self.is_over { slot } else { self.since },
            named: Some(named),
            is_over: false,
        };
    }

    /// A majority holds the state that the reset of `slot` chose.
    pub(crate) fn ends(&mut self, slot: Slot) {
        self.is_over |= slot == self.slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_that_is_over_is_followed_only_by_one_that_names_a_later_snapshot() {
        let mut last = LastReset::default();
        assert!(last.may_follow(Slot(3)));
        let named = NamedState {
            node: NodeId(1),
            boot: 1,
            slot: Slot(3),
            digest: Digest::default(),
        };
        assert_eq!(last.slot_of(named), None);
        last.begins(Slot(7), named);
        assert_eq!(last.slot_of(named), Some(Slot(7)));
        assert_eq!(last.slot_of(NamedState { boot: 2, ..named }), None);
        assert!(last.may_follow(Slot(3)), "nobody has answered since");
        last.ends(Slot(6));
        assert!(last.may_follow(Slot(3)), "that was another one");
        last.ends(Slot(7));
        assert!(!last.may_follow(Slot(3)) && !last.may_follow(Slot(7)));
        assert!(last.may_follow(Slot(8)));
    }

    #[test]
    fn a_reset_replaces_all_since_the_last_that_was_over() {
        let named = NamedState {
            node: NodeId(1),
            boot: 1,
            slot: Slot(3),
            digest: Digest::default(),
        };
        let mut last = LastReset::default();
        last.begins(Slot(7), named);
        last.ends(Slot(7));
        for slot in [8, 10, 12] {
            last.begins(Slot(slot), named);
        }
        let replaced = (1..14).filter(|slot| last.has_replaced(Slot(*slot)));
        assert_eq!(replaced.collect::<Vec<_>>(), [8, 9, 10, 11]);
        last.ends(Slot(12));
        assert!(!last.has_replaced(Slot(10)), "the group has answered");
    }
}
