//! Limits of outcomes: one that is too large, alone or beside those of its slot, is replaced by an exception that says so.
//!
//! This depends on the outcomes of the slot alone, so it is the same on every replica. The changes of the call stay, as
//! after any exception. Both kinds of hosts gather here what a slot's steps return and answer, in order.

use crate::arguments::raised_as;
use crate::limits::{SLOT_OUTCOMES_BYTES_MAX, SMALL_OUTCOME_BYTES};
use crate::protocol::Told;
use quorate_types::{LaterAnswer, Outcome, PAYLOAD_BYTES_MAX, SlotResults, StepResult};

/// The results of one slot, as they come.
#[derive(Debug, Default)]
pub(crate) struct SlotGathering {
    results: SlotResults,
    room: Room,
}

/// What the outcomes of one slot take.
#[derive(Debug, Default)]
struct Room {
    /// Invariant: at most [`SLOT_OUTCOMES_BYTES_MAX`], except small outcomes beyond it.
    bytes: usize,
}

impl SlotGathering {
    /// Takes what a process told. Says whether it is in order: an answer belongs to a step before it.
    pub(crate) fn extend(&mut self, told: Vec<Told>) -> bool {
        for one in told {
            match one {
                Told::Result(result) => self.push(result),
                Told::Answer(id, outcome) => {
                    let Some(by) = self.len().checked_sub(1) else {
                        return false;
                    };
                    let by = by as u32;
                    self.answer(LaterAnswer { by, id, outcome });
                }
            }
        }
        true
    }

    /// Takes the result of the next step.
    fn push(&mut self, mut result: StepResult) {
        if let StepResult::Answered(outcome) = &mut result {
            self.room.admit(outcome);
        }
        self.results.steps.push(result);
    }

    /// Takes the answer that a step gave to a parked call.
    fn answer(&mut self, mut answer: LaterAnswer) {
        self.room.admit(&mut answer.outcome);
        self.results.answers.push(answer);
    }

    /// Steps so far.
    pub(crate) fn len(&self) -> usize {
        self.results.steps.len()
    }

    /// All of them; the next one is of another slot.
    pub(crate) fn take(&mut self) -> SlotResults {
        std::mem::take(self).results
    }
}

impl Room {
    /// Counts an outcome, or puts an exception in its place that it does not fit.
    fn admit(&mut self, outcome: &mut Outcome) {
        let length = length(outcome);
        if length > PAYLOAD_BYTES_MAX {
            *outcome = too_large(length);
        } else if length >= SMALL_OUTCOME_BYTES && self.bytes + length > SLOT_OUTCOMES_BYTES_MAX {
            *outcome = not_sent(format!(
                "the method was executed; its result of {length} bytes was not sent, because calls at the same time have \
                 returned {SLOT_OUTCOMES_BYTES_MAX} bytes together: ask for less, or in a read"
            ));
        } else {
            self.bytes += length;
        }
    }
}

/// The results of a slot, with exceptions in place of what does not fit.
pub(crate) fn fitting(mut results: SlotResults) -> SlotResults {
    let mut room = Room::default();
    for step in &mut results.steps {
        if let StepResult::Answered(outcome) = step {
            room.admit(outcome);
        }
    }
    for answer in &mut results.answers {
        room.admit(&mut answer.outcome);
    }
    results
}

/// An outcome that can travel, or an exception in its place.
pub(crate) fn fit(outcome: Outcome) -> Outcome {
    let length = length(&outcome);
    if length <= PAYLOAD_BYTES_MAX {
        return outcome;
    }
    too_large(length)
}

pub(crate) fn too_large(length: usize) -> Outcome {
    not_sent(format!(
        "the method was executed; its result has {length} bytes, and at most {PAYLOAD_BYTES_MAX} can be sent"
    ))
}

fn not_sent(message: String) -> Outcome {
    raised_as("quorate.UnsupportedResult".to_owned(), message)
}

fn length(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Returned(bytes) | Outcome::Raised(bytes) => bytes.len(),
        Outcome::Skipped => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_types::CommandId;
    use quorate_wire::value::Raised;

    fn outcomes(slot: &mut SlotGathering) -> Vec<Outcome> {
        let steps = slot.take().steps;
        steps
            .iter()
            .filter_map(StepResult::outcome)
            .cloned()
            .collect()
    }

    fn message(outcome: &Outcome) -> String {
        let Outcome::Raised(bytes) = outcome else {
            panic!("it is replaced");
        };
        let raised = Raised::decode(bytes).expect("written here");
        assert_eq!(raised.class, "quorate.UnsupportedResult");
        raised.message
    }

    #[test]
    fn an_outcome_that_cannot_travel_becomes_an_exception_and_its_neighbours_stay() {
        let fits = Outcome::Returned(Bytes::from(vec![0; PAYLOAD_BYTES_MAX]));
        let large = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
        let mut slot = SlotGathering::default();
        slot.push(StepResult::Answered(fits.clone()));
        slot.push(StepResult::Answered(Outcome::Returned(large.clone())));
        slot.push(StepResult::Answered(Outcome::Raised(large)));
        let outcomes = outcomes(&mut slot);
        assert_eq!(outcomes[0], fits);
        for outcome in &outcomes[1..] {
            let message = message(outcome);
            assert!(message.contains("8384513 bytes"), "{message}");
        }
    }

    #[test]
    fn large_outcomes_beyond_what_a_slot_may_return_become_exceptions_and_small_ones_stay() {
        let large = Outcome::Returned(Bytes::from(vec![0; PAYLOAD_BYTES_MAX]));
        let small = Outcome::Returned(Bytes::from(vec![0; SMALL_OUTCOME_BYTES - 1]));
        let fitting = SLOT_OUTCOMES_BYTES_MAX / PAYLOAD_BYTES_MAX;
        let mut slot = SlotGathering::default();
        for _ in 0..=fitting {
            slot.push(StepResult::Answered(large.clone()));
        }
        slot.push(StepResult::Answered(small.clone()));
        let id = CommandId::default();
        let outcome = large.clone();
        slot.answer(LaterAnswer { by: 0, id, outcome });
        let results = slot.take();
        let replaced = &results.answers[0].outcome;
        assert!(message(replaced).contains("executed"), "answers count too");
        let outcomes: Vec<_> = results
            .steps
            .iter()
            .filter_map(StepResult::outcome)
            .cloned()
            .collect();
        assert!(outcomes[..fitting].iter().all(|each| *each == large));
        assert!(message(&outcomes[fitting]).contains("executed"));
        assert_eq!(outcomes[fitting + 1], small);
        slot.push(StepResult::Answered(large.clone()));
        assert_eq!(
            super::tests::outcomes(&mut slot),
            [large],
            "the next slot has its own room"
        );
    }
}
