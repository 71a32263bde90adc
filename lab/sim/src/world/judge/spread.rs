//! Values that nodes spread, and proposals that name them.

use super::{Judge, Judged, broken};
use crate::checkers::{Property, Violation};
use quorate_types::{Ballot, Batch, Command, NodeId, Slot, Stamp, ValueId, ViewNumber};
use std::collections::BTreeMap;

/// What each name stands for in a view.
pub(super) type SpreadValues = BTreeMap<(ViewNumber, ValueId), Vec<Command>>;

impl Judge {
    /// Somebody spreads commands under a name: no others ever have it.
    pub(super) fn spreads(
        &mut self,
        view: ViewNumber,
        value: ValueId,
        commands: &[Command],
    ) -> Judged {
        let known = self.spread.entry((view, value));
        if known.or_insert_with(|| commands.to_vec()) == commands {
            return Ok(());
        }
        broken(
            Property::OneValuePerBallot,
            format!("{value} names other commands than before"),
        )
    }

    /// The batch that `node` proposes by names: each was spread before.
    pub(super) fn named_batch(
        &self,
        node: NodeId,
        (slot, ballot): (Slot, Ballot),
        stamp: Stamp,
        values: &[ValueId],
    ) -> Result<Batch, Violation> {
        let mut commands = Vec::new();
        for value in values {
            let Some(spread) = self.spread.get(&(ballot.view, *value)) else {
                let detail =
                    format!("{node} names {value} in {slot} {ballot}, which nobody spread");
                return Err(Violation::new(Property::OneValuePerBallot, detail));
            };
            commands.extend_from_slice(spread);
        }
        Ok(Batch::new(stamp, commands))
    }
}
