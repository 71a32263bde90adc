//! Replies as clients hear them, and those that come with the call of somebody else.

use super::super::ledger;
use super::super::workload::{self, QUEUE};
use super::{Judge, Judged, broken, reply_hash};
use crate::checkers::Property;
use crate::checkers::recorded::Call;
use crate::checkers::rendezvous::QueueStep;
use quorate_types::{Body, CommandId, NodeId, Outcome};
use serde_json::Value as Json;

impl Judge {
    /// A client, or whoever sent a copy of its call, got a reply.
    pub(in super::super) fn replied(&mut self, id: CommandId, outcome: &Outcome) -> Judged {
        if self.cancels.contains_key(&id) {
            self.durability.acknowledged(id);
            return Ok(());
        }
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
        let Some((_, call @ Call::Take(_))) = self.calls.get(&id) else {
            return Ok(());
        };
        match workload::result(call, outcome) {
            Json::Null => self.rendezvous.told(id, None, by),
            Json::Number(item) => self.rendezvous.told(id, item.as_i64(), by),
            _ => broken(Property::Rendezvous, format!("{id} was told {outcome:?}")),
        }
    }

    /// Takers were answered as the log has it.
    pub(super) fn check_queue(&self, sessions_max: usize) -> Judged {
        let ends = ledger::ends(&self.log, sessions_max);
        let mut steps = Vec::new();
        for (slot, batch) in &self.log {
            // Of a slot that nobody has executed only what ends is known: a replica that forgets it is found by that.
            let now = self.stamps.get(slot).map(|stamp| stamp.wall.0);
            for (index, command) in batch.commands().iter().enumerate() {
                let place = (*slot, index as u32);
                if let Some(session) = ends.get(&place) {
                    steps.push(QueueStep::End(*session));
                }
                let Some(now) = now else { continue };
                if command.body == Body::Tick {
                    steps.push(QueueStep::Tick(now));
                }
                if !self.executed.contains(&place) {
                    continue;
                }
                if let Some(ids) = self.cancels.get(&command.id) {
                    steps.push(QueueStep::Cancel(command.id.session, ids.clone()));
                }
                let after = |ms: u64| now + ms * 1_000_000;
                match self.calls.get(&command.id) {
                    Some((QUEUE, Call::Offer(item, 0))) => {
                        steps.push(QueueStep::Offer(*item));
                    }
                    Some((QUEUE, Call::Offer(item, delay))) => {
                        steps.push(QueueStep::OfferAt(*item, after(*delay)));
                    }
                    Some((QUEUE, Call::Take(timeout))) => {
                        steps.push(QueueStep::Take(command.id, timeout.map(after)));
                    }
                    Some(_) | None => {}
                }
            }
        }
        self.rendezvous.check(steps)
    }
}
