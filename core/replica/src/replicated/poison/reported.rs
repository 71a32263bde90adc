//! What an operator is told of the reports about a call.

use super::{PoisonCalls, Standing};
use quorate_types::{CallPlace, NodeId, NodeSet};
use std::collections::BTreeSet;

/// What replicas have said about a call at which a host is down, as far as the log tells it here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoisonReports {
    /// The call.
    pub place: CallPlace,
    /// Their hosts are down at it.
    pub down: NodeSet,
    /// They may have answered it, in this start or an earlier one.
    pub may_have_answered: NodeSet,
    /// Their objects are past it.
    pub survived: NodeSet,
    /// They have said nothing that counts.
    pub unreported: NodeSet,
}

impl PoisonCalls {
    /// The calls of the first slot in which hosts are down, and what `replicas` have said about them.
    pub(crate) fn reports(&self, replicas: NodeSet) -> Vec<PoisonReports> {
        let mut slots = self.slots.iter();
        let Some((slot, reports)) = slots.find(|(_, reports)| !reports.is_passable()) else {
            return Vec::new();
        };
        let who = |holds: &dyn Fn(NodeId) -> bool| -> NodeSet {
            replicas.iter().filter(|node| holds(*node)).collect()
        };
        let down: BTreeSet<u32> = reports
            .newest
            .keys()
            .filter_map(|node| reports.down_at(*node))
            .collect();
        let survived = who(&|node| reports.standing(node) == Some(Standing::Survived));
        let of = |index| PoisonReports {
            place: CallPlace { slot: *slot, index },
            down: who(&|node| reports.down_at(node) == Some(index)),
            may_have_answered: who(&|node| {
                reports.answered.contains(node) && !survived.contains(node)
            }),
            survived,
            unreported: who(&|node| {
                matches!(
                    reports.standing(node),
                    None | Some(Standing::Retries | Standing::Over)
                )
            }),
        };
        down.into_iter().map(of).collect()
    }
}
