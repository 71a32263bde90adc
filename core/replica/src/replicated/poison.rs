//! Poison calls, which end every host that executes them: who reported dying at which.
//!
//! Reports are decided commands, so every replica skips the same call at the same place of the log. No
//! snapshot holds them: a report decided up to a snapshot's slot is about a call before it, whose
//! outcome the snapshot has. One report per replica is kept, the newest: a host dies at one call.

use quorate_types::{CallPlace, NodeId, NodeSet};
use std::collections::BTreeMap;

/// Decided reports, the newest of each replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoisonCalls {
    reports: BTreeMap<NodeId, CallPlace>,
}

impl PoisonCalls {
    /// A report is decided. Says whether every one of `replicas` has reported this call.
    pub(crate) fn died(&mut self, replicas: NodeSet, reporter: NodeId, place: CallPlace) -> bool {
        if !replicas.contains(reporter) {
            return false;
        }
        self.reports.insert(reporter, place);
        let is_everywhere = replicas
            .iter()
            .all(|node| self.reports.get(&node) == Some(&place));
        if is_everywhere {
            self.reports.clear();
        }
        is_everywhere
    }
}
