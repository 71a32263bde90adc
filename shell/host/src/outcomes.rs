//! Limits of outcomes: one that is too large, alone or beside those of its slot, is replaced by an exception that says so.
//!
//! This depends on the outcomes of the slot alone, so it is the same on every replica. The changes of the call stay, as
//! after any exception. Both kinds of hosts gather here what a slot's calls return, in order.

use crate::arguments::raised_as;
use crate::limits::{SLOT_OUTCOMES_BYTES_MAX, SMALL_OUTCOME_BYTES};
use quorate_types::{Outcome, PAYLOAD_BYTES_MAX};

/// The outcomes of one slot, as they come.
#[derive(Debug, Default)]
pub(crate) struct SlotOutcomes {
    outcomes: Vec<Outcome>,
    /// Invariant: at most [`SLOT_OUTCOMES_BYTES_MAX`], except small outcomes beyond it.
    bytes: usize,
}

impl SlotOutcomes {
    /// Takes the next outcome, or in its place an exception that it does not fit.
    pub(crate) fn push(&mut self, outcome: Outcome) {
        let mut outcome = fit(outcome);
        let length = length(&outcome);
        if length >= SMALL_OUTCOME_BYTES && self.bytes + length > SLOT_OUTCOMES_BYTES_MAX {
            outcome = not_sent(format!(
                "the method was executed; its result of {length} bytes was not sent, because calls at the same time have \
                 returned {SLOT_OUTCOMES_BYTES_MAX} bytes together: ask for less, or in a read"
            ));
        } else {
            self.bytes += length;
        }
        self.outcomes.push(outcome);
    }

    pub(crate) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// All of them; the next one is of another slot.
    pub(crate) fn take(&mut self) -> Vec<Outcome> {
        std::mem::take(self).outcomes
    }
}

/// An outcome that can travel, or an exception in its place.
pub(crate) fn fit(outcome: Outcome) -> Outcome {
    let length = length(&outcome);
    if length <= PAYLOAD_BYTES_MAX {
        return outcome;
    }
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
    use quorate_wire::value::Raised;

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
        let mut slot = SlotOutcomes::default();
        slot.push(fits.clone());
        slot.push(Outcome::Returned(large.clone()));
        slot.push(Outcome::Raised(large));
        let outcomes = slot.take();
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
        let mut slot = SlotOutcomes::default();
        for _ in 0..=fitting {
            slot.push(large.clone());
        }
        slot.push(small.clone());
        let outcomes = slot.take();
        assert!(outcomes[..fitting].iter().all(|each| *each == large));
        assert!(message(&outcomes[fitting]).contains("executed"));
        assert_eq!(outcomes[fitting + 1], small);
        slot.push(large.clone());
        assert_eq!(slot.take(), [large], "the next slot has its own room");
    }
}
