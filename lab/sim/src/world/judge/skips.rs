//! Calls that the group skips: who died at them, who executed them, and what their clients were told.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use crate::checkers::at_most_once::Place;
use quorate_types::{Body, CallPlace, CommandId, NodeId, NodeSet, Slot};

impl Judge {
    /// `node` goes past a call without executing it.
    pub(super) fn skipped(&mut self, node: NodeId, call: CommandId, place: Place) -> Judged {
        let index = place.index as u32;
        self.skipped.insert((place.slot, index), call);
        self.once.skipped(node, call, place)
    }

    /// A life of `node` ends, and its replica has not seen what its objects made of `slot`.
    pub(in super::super) fn forget_executed(&mut self, node: NodeId, slot: Slot) {
        let commands = self.log.get(&slot).into_iter();
        for command in commands.flat_map(|batch| batch.commands()) {
            self.once.lost(node, command.id);
        }
    }

    /// Whether a replica went past a call without executing it.
    pub(in super::super) fn is_skipped(&self, call: CommandId) -> bool {
        self.once.is_skipped(call)
    }

    /// Whether a replica executed a call.
    pub(in super::super) fn is_executed(&self, call: CommandId) -> bool {
        self.once.is_executed(call)
    }

    /// Who reported in the log that its host died at a call for the first time, and whether anybody reported that it may have
    /// answered the call.
    pub(in super::super) fn deaths(&self, place: CallPlace) -> (NodeSet, bool) {
        let (mut died, mut is_kept) = (NodeSet::empty(), false);
        let bodies = self.log.range(place.slot.next()..);
        let bodies = bodies.flat_map(|(_, batch)| batch.commands());
        for command in bodies {
            match &command.body {
                Body::Died {
                    reporter,
                    slot,
                    index,
                    may_have_answered,
                } if (*slot, *index) == (place.slot, place.index) => {
                    is_kept |= may_have_answered;
                    died.insert(*reporter);
                }
                Body::Survived { slot, index, .. }
                    if (*slot, *index) == (place.slot, place.index) =>
                {
                    is_kept = true;
                }
                _ => {}
            }
        }
        (died, is_kept)
    }

    /// Each call that was skipped had ended the host of every one of `replicas`, by their own reports in the log.
    pub(super) fn check_skips(&self) -> Judged {
        for ((slot, index), call) in &self.skipped {
            let (slot, index) = (*slot, *index);
            let (died, _) = self.deaths(CallPlace { slot, index });
            if died != self.replicas {
                return broken(
                    Property::AtMostOnce,
                    format!("{call} at {index} of {slot} is skipped, and only {died:?} died at it"),
                );
            }
        }
        Ok(())
    }
}
