//! The final check: whether the answers that clients saw follow from the decided log.

use super::super::workload::lets_wait;
use super::super::{ledger, workload};
use super::{GroupCall, Judge, Judged, broken};
use crate::checkers::limits::RUN_CONFIGURATIONS_MAX;
use crate::checkers::linearizability::check_history_within;
use crate::checkers::order::check_order;
use crate::checkers::recorded::Call;
use crate::checkers::{Property, Violation};
use crate::history::Outcome;
use quorate_types::{Body, CommandId, Slot};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The calls that took effect, in the order of the log.
type Effects = BTreeMap<Slot, Vec<(CommandId, GroupCall)>>;

impl Judge {
    /// What clients saw, and the whole log of a group that keeps at most `sessions_max` sessions where no view says otherwise.
    pub(in super::super) fn finish(&mut self, sessions_max: usize) -> Judged {
        self.check_effects(sessions_max)?;
        self.check_skips()?;
        self.check_waiting(sessions_max)?;
        let mut log = Effects::new();
        for (slot, batch) in &self.log {
            let mut calls = Vec::new();
            for (index, command) in batch.commands().iter().enumerate() {
                let Body::Call { object, payload } = &command.body else {
                    continue;
                };
                if !self.executed.contains(&(*slot, index as u32)) || lets_wait(*object) {
                    continue;
                }
                let Some(call) = self.payloads.get(&(*object, payload.clone())) else {
                    return broken(
                        Property::LogWitness,
                        format!("{} in {slot} was called by nobody", command.id),
                    );
                };
                calls.push((command.id, (*object, call.clone())));
            }
            log.insert(*slot, calls);
        }
        self.witness.check(BTreeMap::new(), &log)?;
        self.check_history(&log)
    }

    /// What clients saw has a sequential order: that of the log, or one that a search finds.
    fn check_history(&self, log: &Effects) -> Judged {
        let history = self.recorder.history();
        let Err(why) = self
            .claim(log)
            .and_then(|order| check_order(history, &order))
        else {
            return Ok(());
        };
        let searched = check_history_within(history, RUN_CONFIGURATIONS_MAX).verdict();
        searched.map_err(|violation| {
            let detail = format!("{violation}\n  in the order of the log: {why}");
            Violation::new(Property::Linearizability, detail)
        })
    }

    /// The order of operations that the log suggests: calls where they took effect, reads behind the slot they show.
    fn claim(&self, log: &Effects) -> Result<Vec<usize>, String> {
        let mut reads = self.answered_reads.clone();
        reads.sort_unstable();
        let mut reads = reads.into_iter().peekable();
        let mut unanswered = self.unanswered();
        let mut order = Vec::new();
        let upto = |slot: Slot, order: &mut Vec<usize>, reads: &mut std::iter::Peekable<_>| {
            while let Some((_, read)) = reads.next_if(|(shown, _)| *shown <= slot) {
                order.push(usize::from(read));
            }
        };
        upto(Slot::ZERO, &mut order, &mut reads);
        for (slot, calls) in log {
            for (id, (object, call)) in calls {
                let operation = self.answered_calls.get(id).map(|found| usize::from(*found));
                let name = workload::OBJECTS[object.0 as usize].0;
                let without = || {
                    let client = self.callers.get(id)?;
                    unanswered.get_mut(&(*client, name, call))?.pop_front()
                };
                let operation = operation.or_else(without);
                order.push(operation.ok_or(format!("{id} {call:?} is nobody's operation"))?);
            }
            upto(*slot, &mut order, &mut reads);
        }
        Ok(order)
    }

    /// Operations without an answer, in the order of their calls.
    fn unanswered(&self) -> HashMap<(u64, &str, &Call), VecDeque<usize>> {
        let mut unanswered: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (index, operation) in self.recorder.history().operations.iter().enumerate() {
            if operation.outcome == Outcome::Unknown {
                let of = (operation.client, operation.object.as_str(), &operation.call);
                unanswered.entry(of).or_default().push_back(index);
            }
        }
        unanswered
    }

    /// The calls that took effect are those that the rules of sessions let take effect.
    fn check_effects(&self, sessions_max: usize) -> Judged {
        let most = |slot| self.sessions_max(slot, sessions_max);
        let owed = ledger::effective(&self.log, most);
        let name = |(slot, index): (Slot, u32)| {
            let command = &self.log[&slot].commands()[index as usize];
            format!("{} at {index} of {slot}", command.id)
        };
        if let Some(place) = self.executed.difference(&owed).next() {
            let detail = format!("{} executed against the rules of its session", name(*place));
            return broken(Property::AtMostOnce, detail);
        }
        let mut left_out = owed.difference(&self.executed);
        match left_out.find(|place| !self.skipped.contains_key(*place)) {
            None => Ok(()),
            Some(place) => broken(
                Property::LogWitness,
                format!("{} stands in the log and executed nowhere", name(*place)),
            ),
        }
    }
}
