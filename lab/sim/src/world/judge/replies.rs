//! Replies as clients hear them, and those that come with the call of somebody else.

use super::super::feed::FROM_HERE;
use super::super::ledger;
use super::super::watchers::news_of;
use super::super::workload::{self, lets_wait};
use super::{Judge, Judged, Open, broken, reply_hash};
use crate::checkers::Property;
use crate::checkers::recorded::Call;
use crate::checkers::rendezvous::WaitingStep;
use quorate_types::{Body, CommandId, NodeId, Outcome, Slot};
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
            Outcome::Returned(_) | Outcome::Raised(_) if lets_wait(*object) => {
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

    /// A replica answers a call that waits or may, or a client hears it.
    pub(super) fn taken(&mut self, id: CommandId, outcome: &Outcome, by: Option<NodeId>) -> Judged {
        let Some((_, call)) = self.calls.get(&id) else {
            return Ok(());
        };
        let is_watch = match call {
            Call::Take(_) | Call::Acquire(_) | Call::Release => false,
            Call::Watch(..) => true,
            _ => return Ok(()),
        };
        match workload::result(call, outcome) {
            Json::Null if is_watch => self.watching.told(id, None, by),
            Json::Null => self.rendezvous.told(id, None, by),
            Json::Number(item) => self.rendezvous.told(id, item.as_i64(), by),
            result => match news_of(&result) {
                Some(news) => self.watching.told(id, Some(news), by),
                None if is_watch => {
                    broken(Property::Watching, format!("{id} was told {outcome:?}"))
                }
                None => broken(Property::Rendezvous, format!("{id} was told {outcome:?}")),
            },
        }
    }

    /// A client hears the answer to an operation.
    pub(super) fn heard(&mut self, open: &Open, result: &Json) -> Judged {
        match (&open.drawn.call, news_of(result)) {
            (Call::Watch(seen, _), Some(news)) => {
                self.watching.heard(open.client, behind(*seen), &news)
            }
            _ => Ok(()),
        }
    }

    /// Calls that wait were answered as the log has it.
    pub(super) fn check_waiting(&self, sessions_max: usize) -> Judged {
        let most = |slot| self.sessions_max(slot, sessions_max);
        let (ends, resumes) = ledger::ends(&self.log, most);
        let mut steps = Vec::new();
        for (slot, batch) in &self.log {
            // Of a slot that nobody has executed only what ends is known: a replica that forgets it is found by that.
            let now = self.stamps.get(slot).map(|stamp| stamp.wall.0);
            for (index, command) in batch.commands().iter().enumerate() {
                let place = (*slot, index as u32);
                if let Some(session) = ends.get(&place) {
                    steps.push(WaitingStep::End(*session));
                }
                if let Some(session) = resumes.get(&place) {
                    steps.push(WaitingStep::Resume(*session));
                }
                let Some(now) = now else { continue };
                if command.body == Body::Tick {
                    steps.push(WaitingStep::Tick(now));
                }
                if !self.executed.contains(&place) {
                    continue;
                }
                if let Some(ids) = self.cancels.get(&command.id) {
                    steps.push(WaitingStep::Cancel(command.id.session, ids.clone()));
                }
                if let Some((_, call)) = self.calls.get(&command.id) {
                    steps.extend(step_of(call, command.id, place, now));
                }
            }
        }
        self.rendezvous.check(&steps)?;
        self.watching.check(&steps)
    }
}

/// The change that a call names which watches.
fn behind(seen: i64) -> Option<i64> {
    (seen != FROM_HERE).then_some(seen)
}

/// What a call at this place and time does to those who wait.
fn step_of(call: &Call, id: CommandId, place: (Slot, u32), now: u64) -> Option<WaitingStep> {
    let after = |ms: u64| now + ms * 1_000_000;
    let until = |ms: u64| if ms == 0 { 0 } else { after(ms) };
    match call {
        Call::Offer(item, 0) => Some(WaitingStep::Offer(*item)),
        Call::Offer(item, delay) => Some(WaitingStep::OfferAt(*item, after(*delay))),
        Call::Take(timeout) => Some(WaitingStep::Take(id, timeout.map(until))),
        Call::Acquire(timeout) => {
            let place = (place.0.0 << 16 | u64::from(place.1)) as i64;
            let until = until(*timeout);
            Some(WaitingStep::Acquire { id, place, until })
        }
        Call::Release => Some(WaitingStep::Release(id)),
        Call::Publish(change, None) => Some(WaitingStep::Publish(*change)),
        Call::Publish(change, Some(delay)) => Some(WaitingStep::PublishAt(*change, after(*delay))),
        Call::Watch(seen, timeout) => Some(WaitingStep::Watch {
            id,
            seen: behind(*seen),
            until: timeout.map(after),
        }),
        _ => None,
    }
}
