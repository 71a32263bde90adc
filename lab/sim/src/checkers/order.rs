//! Checks a claimed order for what clients saw. That is much cheaper than a search for an order, and an equal proof.
//!
//! The claim is not trusted. Every operation is replayed in the claimed order through the recorded objects, each answer
//! is compared, and no operation may stand before one that had returned before it was called. A claim that fails
//! proves nothing: another order may exist, and `linearizability` searches for it. Called by the seeded world, which
//! claims the order of the decided log.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::Model;
use super::recorded::{Kind, RecordedObject};
use crate::history::{History, Outcome};

/// Checks that `order`, indices into `history.operations`, explains the history.
///
/// # Errors
/// The first operation that contradicts the claim, for a person.
pub fn check_order(history: &History, order: &[usize]) -> Result<(), String> {
    check_members(history, order)?;
    check_times(history, order)?;
    replay(history, order)
}

/// What returned stands in the order once, what certainly had no effect does not.
fn check_members(history: &History, order: &[usize]) -> Result<(), String> {
    let mut counts = vec![0_usize; history.operations.len()];
    order.iter().for_each(|index| counts[*index] += 1);
    for (operation, count) in history.operations.iter().zip(counts) {
        let is_allowed = match operation.outcome {
            Outcome::Returned { .. } => count == 1,
            Outcome::Unknown => count <= 1,
            Outcome::Refused => count == 0,
        };
        if !is_allowed {
            return Err(format!("the order holds {count} times {operation:?}"));
        }
    }
    Ok(())
}

/// Nobody stands behind an operation that was called after its own return.
fn check_times(history: &History, order: &[usize]) -> Result<(), String> {
    let mut last_call_ns = 0;
    for index in order {
        let operation = &history.operations[*index];
        if let Outcome::Returned { return_ns, .. } = operation.outcome
            && return_ns < last_call_ns
        {
            return Err(format!(
                "the order puts it behind one called at {last_call_ns}: {operation:?}"
            ));
        }
        last_call_ns = last_call_ns.max(operation.invoke_ns);
    }
    Ok(())
}

fn replay(history: &History, order: &[usize]) -> Result<(), String> {
    let mut states: BTreeMap<(&str, Option<&str>), Value> = BTreeMap::new();
    for index in order {
        let operation = &history.operations[*index];
        let object = operation.object.as_str();
        let state = states
            .entry((object, operation.call.key()))
            .or_insert_with(|| first_value(history, object));
        let (after, reply) = RecordedObject.apply(state, &operation.call);
        if let Outcome::Returned {
            result: Some(result),
            ..
        } = &operation.outcome
            && *result != reply
        {
            return Err(format!("the order gives {reply}: {operation:?}"));
        }
        *state = after;
    }
    Ok(())
}

pub(super) fn first_value(history: &History, object: &str) -> Value {
    history.initial.get(object).cloned().unwrap_or_else(|| {
        Kind::of_object(object)
            .expect("a call was made on the object, so its name has a kind")
            .initial()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::recorded::Call;
    use crate::history::Recorder;
    use serde_json::json;

    /// A write of 1 that returns, a write of 2 without an answer, and a read of 2 that begins after the first returned.
    fn history() -> History {
        let mut recorder = Recorder::default();
        let first = recorder.invoked(10, 1, "register/r", Call::Write(json!(1)));
        recorder.returned(20, first, Value::Null);
        recorder.invoked(21, 2, "register/r", Call::Write(json!(2)));
        let read = recorder.invoked(30, 1, "register/r", Call::Read);
        recorder.returned(40, read, json!(2));
        recorder.history().clone()
    }

    #[test]
    fn an_order_that_explains_all_answers_is_accepted() {
        check_order(&history(), &[0, 1, 2]).unwrap();
    }

    #[test]
    fn an_order_against_time_or_answers_or_without_an_operation_is_refused() {
        for order in [&[1, 0, 2][..], &[2, 0, 1], &[0, 2], &[0, 1], &[0, 1, 1, 2]] {
            assert!(check_order(&history(), order).is_err(), "{order:?}");
        }
        let mut late = history();
        late.operations[2].outcome = Outcome::Returned {
            return_ns: 40,
            result: Some(json!(1)),
        };
        assert!(check_order(&late, &[0, 1, 2]).is_err());
        check_order(&late, &[0, 2, 1]).unwrap();
    }

    #[test]
    fn an_operation_that_was_refused_may_not_stand_in_an_order() {
        let mut refused = history();
        refused.operations[1].outcome = Outcome::Refused;
        assert!(check_order(&refused, &[0, 1, 2]).is_err());
    }
}
