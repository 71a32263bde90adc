//! Two values decided for one slot: what agreement excludes, and what a node that finds it can still say.

use quorate_types::{Batch, NodeId, Slot, Stamp};
use std::fmt;

/// A peer tells another decision for a slot than the one that is decided here. One of the two is wrong, and nothing here
/// tells which: the node stops.
#[derive(Clone, PartialEq, Debug)]
pub struct ConflictingDecisions {
    /// The slot.
    pub slot: Slot,
    /// Who told the other decision.
    pub peer: NodeId,
    /// What is decided here.
    pub own: Batch,
    /// What the peer told.
    pub told: Batch,
}

impl fmt::Display for ConflictingDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is decided twice: here as {}, at {} as {}",
            self.slot,
            named(&self.own),
            self.peer,
            named(&self.told)
        )
    }
}

/// What tells one batch from another in a report: the leader's stamp, and which commands.
fn named(batch: &Batch) -> String {
    let Stamp { wall, entropy } = batch.stamp();
    let ids: Vec<_> = batch.commands().iter().map(|command| command.id).collect();
    match ids.as_slice() {
        [] => format!("a noop stamped {}/{entropy:x}", wall.0),
        [first, ..] => format!(
            "{} commands from {first} on, stamped {}/{entropy:x}",
            ids.len(),
            wall.0
        ),
    }
}
