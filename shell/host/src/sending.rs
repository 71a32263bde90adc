//! Sends the work log to the host process, without the calls that took too many steps, and with the places of those that the group
//! decided to skip.
//!
//! The outcome of such a call is inserted among the results that the process sends. Only `other_process` calls it.

use crate::child::Process;
use crate::process_end::ProcessEnd;
use crate::protocol::{put_execute, put_query, put_restore, put_snapshot};
use crate::scratch::Scratch;
use crate::work_log::{HostWork, WorkLog};
use quorate_types::{Outcome, Slot, SlotResults, Step, StepResult};
use std::collections::BTreeMap;

/// Calls that no process gets, with their outcomes.
pub(crate) type LeftOut = BTreeMap<(Slot, u32), Outcome>;

/// Sends as much of the work that waits as the process takes; `known` are calls that are left out, and up to which slot everything
/// is decided.
pub(crate) fn send_work(
    process: &mut Process,
    work_log: &mut WorkLog,
    scratch: &Scratch,
    known: (&LeftOut, Slot),
) -> Result<(), ProcessEnd> {
    loop {
        let id = process.id();
        let mut is_all_sent = false;
        while let Some(outbox) = process.outbox() {
            match work_log.next_to_send() {
                Some(HostWork::Execute { slot, stamp, steps }) => {
                    put_execute(outbox, *slot, *stamp, steps, known);
                }
                Some(HostWork::Query {
                    read,
                    object,
                    payload,
                }) => put_query(outbox, *read, *object, payload),
                Some(HostWork::Snapshot { slot, .. }) => {
                    put_snapshot(outbox, *slot, &scratch.path(id, *slot));
                }
                Some(HostWork::Restore { slot, images }) => put_restore(outbox, *slot, images),
                None => {
                    is_all_sent = true;
                    break;
                }
            }
        }
        process.write()?;
        if is_all_sent || process.outbox().is_none() {
            return Ok(());
        }
    }
}

/// Whether a process gets to know of a step: of a call that the group skips it learns the place.
pub(crate) fn is_sent(slot: Slot, step: &Step, left_out: &LeftOut) -> bool {
    let outcome = left_out.get(&(slot, step.index()));
    step.call().is_none() || matches!(outcome, None | Some(Outcome::Skipped))
}

/// Puts the outcome of each call that was left out into its place among the results that the process told, and names the steps
/// that answered parked calls by their index: the process tells them by their place. `None` when it told more or less.
pub(crate) fn with_left_out(
    slot: Slot,
    steps: &[Step],
    mut told: SlotResults,
    left_out: &LeftOut,
) -> Option<SlotResults> {
    if left_out.is_empty() && told.answers.is_empty() {
        return (told.steps.len() == steps.len()).then_some(told);
    }
    let outcome_of = |step: &Step| {
        let outcome = left_out.get(&(slot, step.index()))?;
        step.call().map(|_| outcome.clone())
    };
    let sent = steps.iter().filter(|step| is_sent(slot, step, left_out));
    let sent: Vec<u32> = sent.map(Step::index).collect();
    if told.steps.len() != sent.len() {
        return None;
    }
    for answer in &mut told.answers {
        answer.by = sent[answer.by as usize];
    }
    let mut results = told.steps.into_iter();
    let result = |step: &Step| {
        let told = is_sent(slot, step, left_out).then(|| results.next());
        let known = outcome_of(step).map(StepResult::Answered);
        known.or(told.flatten())
    };
    told.steps = steps.iter().filter_map(result).collect();
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{Call, CommandId, LaterAnswer, ObjectId, SessionEnd, SessionId, Value};

    fn call(index: u32) -> Step {
        Step::Call(Call {
            index,
            id: CommandId::default(),
            object: ObjectId(0),
            payload: Value::new(),
        })
    }

    /// The digest of outcomes has the index, and a replica that leaves nothing out must tell the same.
    #[test]
    fn an_answer_belongs_to_the_step_that_gave_it_also_where_others_are_left_out() {
        let session = SessionId(9);
        let end = Step::End(SessionEnd { index: 4, session });
        let steps = [call(1), call(2), end, call(6), call(7)];
        let spent = Outcome::Raised(Value::from_static(b"spent"));
        let left_out = LeftOut::from([
            ((Slot(3), 1), spent.clone()),
            ((Slot(3), 4), Outcome::Skipped),
            ((Slot(3), 6), Outcome::Skipped),
        ]);
        let returned = StepResult::Answered(Outcome::Returned(Value::new()));
        let answer = |by| LaterAnswer {
            by,
            id: CommandId::default(),
            outcome: Outcome::Returned(Value::new()),
        };
        let told = SlotResults {
            steps: vec![
                returned.clone(),
                StepResult::Done,
                StepResult::Done,
                returned.clone(),
            ],
            answers: vec![answer(0), answer(2), answer(3)],
        };
        let whole = SlotResults {
            steps: vec![
                StepResult::Answered(spent),
                returned.clone(),
                StepResult::Done,
                StepResult::Answered(Outcome::Skipped),
                returned,
            ],
            answers: vec![answer(2), answer(6), answer(7)],
        };
        let filled = with_left_out(Slot(3), &steps, told.clone(), &left_out);
        assert_eq!(filled, Some(whole));
        assert_eq!(with_left_out(Slot(4), &steps, told, &left_out), None);
    }
}
