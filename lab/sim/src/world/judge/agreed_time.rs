//! The agreed times of slots, as replicas execute them.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_types::{NodeId, Slot, Stamp, Wall};

impl Judge {
    /// Agreed time is the same on all replicas and rises from slot to slot.
    pub(super) fn stamped(&mut self, node: NodeId, slot: Slot, stamp: Stamp) -> Judged {
        let before = self.stamps.range(..slot).next_back();
        let rises = before.is_none_or(|(_, known)| known.wall < stamp.wall);
        let first = *self.stamps.entry(slot).or_insert(stamp);
        if first == stamp && rises {
            return Ok(());
        }
        broken(
            Property::LogWitness,
            format!(
                "{node} executes {slot} at {stamp:?}, first it was {first:?}; it rises: {rises}"
            ),
        )
    }

    /// The newest agreed time.
    pub(in super::super) fn agreed_time(&self) -> Wall {
        let newest = self.stamps.last_key_value();
        newest.map_or(Wall::default(), |(_, stamp)| stamp.wall)
    }
}
