//! Replies as clients hear them, and those that come with the call of somebody else.

use super::super::ledger;
use super::super::workload::{self, QUEUE};
use super::{Judge, Judged, broken, reply_hash};
use crate::checkers::Property;
use crate::checkers::recorded::Call;
use crate::checkers::rendezvous::QueueStep;
use quorate_types::{CommandId, NodeId, Outcome};

impl Judge {
    /// A client, or whoever sent a copy of its call, got a reply.
    pub(in super::super) fn replied(&mut self, id: CommandId, outcome: &Outcome) -> Judged {
        let Some((object, call)) = self.calls.get(&id) else {
            return broken(
                Property::AtMostOnce,
                format!("{id} was answered and never called"),
            );
        };
        match outcome {
            Outcome::Skipped => self.once.told_skipped(id)?,
            Outcome::Returned(_) | Outcome::Raised(_) if *object == QUEUE => {
                self.taken(id, outcome, None)?;
            }
            Outcome::Returned(_) | Outcome::Raised(_) => {
                self.witness.replied(id, workload::result(call, outcome))?;
                self.once.acknowledged(id, reply_hash(outcome))?;
            }
        }
        self.durability.acknowledged(id);
        Ok(())
    }

    /// A replica answers a call of the queue, or a client hears it.
    pub(super) fn taken(&mut self, id: CommandId, outcome: &Outcome, by: Option<NodeId>) -> Judged {
        let Some((_, call @ Call::Take)) = self.calls.get(&id) else {
            return Ok(());
        };
        match workload::result(call, outcome).as_i64() {
            Some(item) => self.rendezvous.told(id, item, by),
            None => broken(Property::Rendezvous, format!("{id} was told {outcome:?}")),
        }
    }

    /// Takers were answered as the log has it.
    pub(super) fn check_queue(&self, sessions_max: usize) -> Judged {
        let ends = ledger::ends(&self.log, sessions_max);
        let mut steps = Vec::new();
        for (slot, batch) in &self.log {
            for (index, command) in batch.commands().iter().enumerate() {
                let place = (*slot, index as u32);
                if let Some(session) = ends.get(&place) {
                    steps.push(QueueStep::End(*session));
                }
                if !self.executed.contains(&place) {
                    continue;
                }
                match self.calls.get(&command.id) {
                    Some((QUEUE, Call::Offer(item))) => {
                        steps.push(QueueStep::Offer(command.id, *item));
                    }
                    Some((QUEUE, Call::Take)) => steps.push(QueueStep::Take(command.id)),
                    Some(_) | None => {}
                }
            }
        }
        self.rendezvous.check(steps)
    }
}
