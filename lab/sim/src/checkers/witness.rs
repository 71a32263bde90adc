//! Replays the decided log from its start through a model and compares every reply that a client got.
//!
//! Called by the seeded world at the end of a run, with the log that agreement fixed. It trusts the order of the log and
//! nothing else: a reply computed from a wrong state, a duplicate executed twice or a read from the past is found here
//! at its slot.

use std::collections::BTreeMap;

use quorate_types::{CommandId, Slot};

use super::model::Model;
use super::{Property, Violation};

/// A read that was answered from the state after a stated slot and is not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadReply<C, R> {
    /// The last slot whose effects the answer shows.
    pub slot: Slot,
    /// What was asked.
    pub call: C,
    /// What was answered.
    pub reply: R,
}

/// A reply to a read of the model.
type ReadOf<M> = ReadReply<<M as Model>::Call, <M as Model>::Reply>;

/// What clients were answered, to be compared with the log.
#[derive(Debug)]
pub struct LogWitness<M: Model> {
    model: M,
    replies: BTreeMap<CommandId, M::Reply>,
    reads: BTreeMap<Slot, Vec<ReadOf<M>>>,
}

impl<M: Model> LogWitness<M> {
    /// Knows no replies yet.
    pub fn new(model: M) -> Self {
        Self {
            model,
            replies: BTreeMap::new(),
            reads: BTreeMap::new(),
        }
    }

    /// Takes note that a client got `reply` for a command.
    ///
    /// # Errors
    /// [`Property::LogWitness`] when it was answered otherwise before.
    pub fn replied(&mut self, command: CommandId, reply: M::Reply) -> Result<(), Violation> {
        let first = self.replies.entry(command).or_insert_with(|| reply.clone());
        if *first == reply {
            return Ok(());
        }
        broken(format!(
            "{} was answered {first:?} and then {reply:?}",
            command
        ))
    }

    /// Takes note of a read that was answered without being ordered.
    pub fn read(&mut self, read: ReadReply<M::Call, M::Reply>) {
        self.reads.entry(read.slot).or_default().push(read);
    }

    /// Replays `log`, all slots from the first in order, and compares all replies. A command decided again is skipped.
    ///
    /// # Errors
    /// [`Property::LogWitness`] when slots are missing, a reply differs, or an answered command is not in the log.
    pub fn check(
        &self,
        initial: M::State,
        log: &BTreeMap<Slot, Vec<(CommandId, M::Call)>>,
    ) -> Result<(), Violation> {
        let mut state = initial;
        let mut replayed: BTreeMap<CommandId, Slot> = BTreeMap::new();
        self.check_reads(Slot::ZERO, &mut state)?;
        let mut expected = Slot::ZERO;
        for (slot, batch) in log {
            expected = expected.next();
            if *slot != expected {
                return broken(format!("the log holds {slot} and not {expected}"));
            }
            for (command, call) in batch {
                if replayed.contains_key(command) {
                    continue;
                }
                replayed.insert(*command, *slot);
                let reply = self.model.advance(&mut state, call);
                self.compare(*command, *slot, call, &reply)?;
            }
            self.check_reads(*slot, &mut state)?;
        }
        if let Some(lost) = self.replies.keys().find(|id| !replayed.contains_key(id)) {
            return broken(format!("{} was answered and is not in the log", *lost));
        }
        match self.reads.last_key_value() {
            Some((slot, _)) if *slot > expected => broken(format!(
                "a read says it shows {slot}, the log ends at {expected}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn compare(
        &self,
        command: CommandId,
        slot: Slot,
        call: &M::Call,
        reply: &M::Reply,
    ) -> Result<(), Violation> {
        match self.replies.get(&command) {
            Some(told) if told != reply => broken(format!(
                "{} {call:?} in {slot} was answered {told:?}, the log gives {reply:?}",
                command
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn check_reads(&self, slot: Slot, state: &mut M::State) -> Result<(), Violation> {
        for read in self.reads.get(&slot).into_iter().flatten() {
            let reply = self.model.advance(state, &read.call);
            assert!(
                self.model.never_changes(&read.call, Some(&reply)),
                "a read changes nothing"
            );
            if reply != read.reply {
                return broken(format!(
                    "read {:?} at {slot} was answered {:?}, the log gives {reply:?}",
                    read.call, read.reply
                ));
            }
        }
        Ok(())
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::LogWitness, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::recorded::{Call, RecordedObject};
    use quorate_types::SessionId;
    use serde_json::json;

    fn id(sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(3),
            sequence,
        }
    }

    fn log() -> BTreeMap<Slot, Vec<(CommandId, Call)>> {
        [
            (Slot(1), vec![(id(1), Call::Add(5)), (id(2), Call::Add(7))]),
            (Slot(2), vec![(id(1), Call::Add(5)), (id(3), Call::Add(1))]),
        ]
        .into()
    }

    fn witness(replies: &[(u64, i64)]) -> LogWitness<RecordedObject> {
        let mut witness = LogWitness::new(RecordedObject);
        for (sequence, reply) in replies {
            witness.replied(id(*sequence), json!(reply)).unwrap();
        }
        witness
    }

    #[test]
    fn replies_of_the_log_are_accepted_with_a_command_decided_twice() {
        let mut right = witness(&[(1, 5), (2, 12), (3, 13)]);
        right.replied(id(1), json!(5)).unwrap();
        for (slot, reply) in [(0, 0), (1, 12), (2, 13)] {
            right.read(ReadReply {
                slot: Slot(slot),
                call: Call::Sum,
                reply: json!(reply),
            });
        }
        right.check(json!(0), &log()).unwrap();
    }

    #[test]
    fn a_duplicate_executed_twice_is_found_by_the_next_reply() {
        assert!(witness(&[(3, 18)]).check(json!(0), &log()).is_err());
    }

    #[test]
    fn an_answered_command_that_the_log_lost_is_found() {
        assert!(witness(&[(4, 14)]).check(json!(0), &log()).is_err());
    }

    #[test]
    fn a_hole_in_the_log_is_found() {
        let mut holed = log();
        holed.remove(&Slot(1));
        assert!(witness(&[]).check(json!(0), &holed).is_err());
    }

    #[test]
    fn a_read_of_the_past_or_of_the_future_is_found() {
        for slot in [2, 3] {
            let mut stale = witness(&[]);
            stale.read(ReadReply {
                slot: Slot(slot),
                call: Call::Sum,
                reply: json!(12),
            });
            assert!(stale.check(json!(0), &log()).is_err());
        }
    }

    #[test]
    fn two_answers_to_one_command_are_found() {
        assert!(witness(&[(1, 5)]).replied(id(1), json!(6)).is_err());
    }
}
