//! Logs trimmed for commands that are decided, in some runs: acceptors have to vote for them with gaps before them.

use super::Adversary;
use crate::world::random::Random;
use quorate_ordering::Event;
use quorate_types::{Batch, Body, Command, CommandId, Digest, NodeId, SessionId, Slot};

/// Trims that are decided and that nodes have not made.
pub(super) type DueTrims = Vec<(NodeId, Slot)>;

/// Whether logs are trimmed so in the run of a seed.
pub(super) fn is_drawn(seed: u64) -> bool {
    Random::new(seed, "collects", 1).chance(300)
}

impl Adversary {
    /// A majority holds a snapshot at `slot`: some node wants logs to be trimmed for it.
    pub(super) fn submit_trim(&mut self, id: NodeId, slot: Slot) {
        self.submitted += 1;
        let digest = Digest::default();
        let command = Command {
            id: CommandId {
                session: SessionId::NONE,
                sequence: self.submitted,
            },
            acknowledged: 0,
            body: Body::Collect { slot, digest },
        };
        let commands = vec![command];
        self.happen(id, Event::Submit { commands });
    }

    /// `id` has decided `batch`.
    pub(super) fn note_trims(&mut self, id: NodeId, decided: Slot, batch: &Batch) {
        for command in batch.commands() {
            if let Body::Collect { slot, .. } = command.body
                && slot < decided
            {
                self.due_trims.push((id, slot));
            }
        }
    }

    /// `id` trims its log for what it has decided.
    pub(super) fn trim_due(&mut self, id: NodeId) {
        while let Some(place) = self.due_trims.iter().position(|(node, _)| *node == id) {
            let (_, slot) = self.due_trims.remove(place);
            let digest = Digest::default();
            self.happen(id, Event::Trimmable { slot, digest });
        }
    }
}
