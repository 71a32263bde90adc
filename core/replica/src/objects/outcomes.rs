//! What the objects answered, as a digest that replicas compare while calls execute.
//!
//! Every outcome is folded into one rolling digest, in slot order. Equal digests after a slot mean equal outcomes up to it. The
//! digest is in every snapshot and goes on from there, so replicas agree on it whatever they were restored from; a host that
//! executes calls again changes nothing, because each slot's outcomes come here once. The digests after the newest slots are
//! kept, and a hash of each of their outcomes: with them two replicas find where they began to differ.

use crate::limits::{OUTCOME_CALLS, OUTCOME_SLOTS};
use quorate_types::{LaterAnswer, Outcome, Slot, SlotResults, StepResult};
use std::collections::VecDeque;
use twox_hash::XxHash3_64;

/// The digest after one slot that has calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutcomeStep {
    /// The slot.
    pub slot: Slot,
    /// The rolling digest after it.
    pub digest: u64,
    /// How many calls of it were executed.
    pub calls: u32,
}

/// One outcome of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutcomeHash {
    /// The call's index in its batch.
    pub index: u32,
    /// Half of the hash of its outcome.
    pub hash: u32,
}

/// Digests after consecutive slots, for a peer to compare.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutcomeTrail {
    /// The slot before the first step.
    pub after: Slot,
    /// The digest after that slot.
    pub digest: u64,
    /// The highest slot executed.
    pub upto: Slot,
    /// All slots with calls between the two, ascending.
    pub steps: Vec<OutcomeStep>,
    /// The outcomes of these slots, in their order.
    pub calls: Vec<OutcomeHash>,
}

/// Where two replicas differ first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FirstDifference {
    /// The slot, or a later one if it is not exact.
    pub(crate) slot: Slot,
    /// Whether both agree on all before.
    pub(crate) is_exact: bool,
    /// The index of the call, if that is known.
    pub(crate) index: Option<u32>,
}

/// The digest of all outcomes, and what is kept of the newest.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    digest: u64,
    /// Before the first step.
    after: Slot,
    digest_before: u64,
    steps: VecDeque<OutcomeStep>,
    calls: VecDeque<OutcomeHash>,
}

impl Outcomes {
    /// The objects have the state after `slot`.
    pub(crate) fn after(slot: Slot, digest: u64) -> Outcomes {
        Outcomes {
            digest,
            after: slot,
            digest_before: digest,
            ..Outcomes::default()
        }
    }

    /// The digest of all outcomes.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Folds the results of one executed slot into the digest; `indices` are the steps' places in the batch.
    pub(crate) fn fold(&mut self, slot: Slot, indices: &[u32], results: &SlotResults) {
        let mut digest = XxHash3_64::oneshot_with_seed(self.digest, &slot.0.to_le_bytes());
        let mut answers = results.answers.iter().peekable();
        for (&index, result) in indices.iter().zip(&results.steps) {
            let mut hash = result.outcome().map_or_else(|| no_outcome(result), hash_of);
            while let Some(answer) = answers.next_if(|answer| answer.by <= index) {
                hash = hash_of_answer(hash, answer);
            }
            digest = XxHash3_64::oneshot_with_seed(digest, &hash.to_le_bytes());
            let hash = hash as u32;
            self.calls.push_back(OutcomeHash { index, hash });
        }
        self.digest = digest;
        let calls = results.steps.len() as u32;
        self.steps.push_back(OutcomeStep {
            slot,
            digest,
            calls,
        });
        while self.steps.len() > OUTCOME_SLOTS || self.calls.len() > OUTCOME_CALLS {
            let Some(oldest) = self.steps.pop_front() else {
                break;
            };
            self.calls.drain(..oldest.calls as usize);
            (self.after, self.digest_before) = (oldest.slot, oldest.digest);
        }
    }

    /// The digest after `slot`, which is executed; `None` if that is forgotten.
    pub(crate) fn at(&self, slot: Slot) -> Option<u64> {
        let later = self.steps.partition_point(|step| step.slot <= slot);
        match later.checked_sub(1) {
            Some(place) => Some(self.steps[place].digest),
            None => (slot >= self.after).then_some(self.digest_before),
        }
    }

    /// What is kept of the slots above `after`, up to `upto`, the highest executed one.
    pub(crate) fn trail(&self, after: Slot, upto: Slot) -> OutcomeTrail {
        let after = after.max(self.after).min(upto);
        let first = self.steps.partition_point(|step| step.slot <= after);
        let left_out = self.steps.range(..first).map(|step| step.calls as usize);
        let left_out: usize = left_out.sum();
        OutcomeTrail {
            after,
            digest: self.at(after).unwrap_or(self.digest_before),
            upto,
            steps: self.steps.range(first..).copied().collect(),
            calls: self.calls.range(left_out..).copied().collect(),
        }
    }
}

impl OutcomeTrail {
    /// The digest after `slot`, if the trail covers it.
    pub(crate) fn at(&self, slot: Slot) -> Option<u64> {
        if slot < self.after || slot > self.upto {
            return None;
        }
        let later = self.steps.partition_point(|step| step.slot <= slot);
        let place = later.checked_sub(1);
        Some(place.map_or(self.digest, |place| self.steps[place].digest))
    }

    /// Where the two differ first, if they do within what both cover.
    pub(crate) fn difference(&self, other: &OutcomeTrail) -> Option<FirstDifference> {
        let (from, upto) = (self.after.max(other.after), self.upto.min(other.upto));
        let slots = self.steps.iter().chain(&other.steps).map(|step| step.slot);
        let within = slots.filter(|slot| (from..=upto).contains(slot));
        let differs = |slot: &Slot| match (self.at(*slot), other.at(*slot)) {
            (Some(own), Some(others)) => own != others,
            (Some(_), None) | (None, Some(_)) | (None, None) => false,
        };
        let slot = std::iter::once(from).chain(within).filter(differs).min()?;
        let is_exact = slot > from;
        let index = is_exact.then(|| self.call_that_differs(other, slot));
        Some(FirstDifference {
            slot,
            is_exact,
            index: index.flatten(),
        })
    }

    fn call_that_differs(&self, other: &OutcomeTrail, slot: Slot) -> Option<u32> {
        let mut others = other.calls_of(slot);
        let mut own = self.calls_of(slot);
        own.find(|call| others.next() != Some(*call))
            .map(|call| call.index)
    }

    fn calls_of(&self, slot: Slot) -> impl Iterator<Item = &OutcomeHash> {
        let before = self.steps.iter().take_while(|step| step.slot < slot);
        let before = before.map(|step| step.calls as usize).sum();
        let step = self.steps.iter().find(|step| step.slot == slot);
        let calls = step.map_or(0, |step| step.calls as usize);
        self.calls.iter().skip(before).take(calls)
    }
}

fn hash_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Returned(value) => XxHash3_64::oneshot(value),
        Outcome::Raised(value) => XxHash3_64::oneshot_with_seed(1, value),
        Outcome::Skipped => u64::MAX,
    }
}

/// Of a step that has none.
fn no_outcome(result: &StepResult) -> u64 {
    match result {
        StepResult::Parked => u64::MAX - 1,
        StepResult::Done | StepResult::Answered(_) => u64::MAX - 2,
    }
}

/// What a step answered besides belongs to it.
fn hash_of_answer(seed: u64, answer: &LaterAnswer) -> u64 {
    let LaterAnswer { id, outcome, .. } = answer;
    let numbers = [id.session.0, id.sequence, hash_of(outcome)].map(u64::to_le_bytes);
    XxHash3_64::oneshot_with_seed(seed, numbers.as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{CommandId, SessionId, Value};

    fn returned(text: &'static str) -> Outcome {
        Outcome::Returned(Value::from_static(text.as_bytes()))
    }

    fn executed(slots: &[(u64, &'static str)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (slot, text) in slots {
            outcomes.fold(Slot(*slot), &[0], &vec![returned(text)].into());
        }
        outcomes
    }

    fn digest_of(slots: &[(u64, &'static str)]) -> u64 {
        executed(slots).digest()
    }

    #[test]
    fn the_digest_tells_every_reply_its_slot_and_its_order() {
        let digest = digest_of(&[(1, "a"), (2, "b")]);
        assert_eq!(digest, digest_of(&[(1, "a"), (2, "b")]));
        assert_ne!(digest, digest_of(&[(1, "x"), (2, "b")]), "an early reply");
        assert_ne!(digest, digest_of(&[(1, "a"), (2, "x")]), "a late reply");
        assert_ne!(digest, digest_of(&[(1, "a"), (3, "b")]), "another slot");
        let mut raised = Outcomes::default();
        let raises = Outcome::Raised(Value::from_static(b"a"));
        raised.fold(Slot(1), &[0], &vec![raises].into());
        assert_ne!(raised.digest(), digest_of(&[(1, "a")]));
    }

    #[test]
    fn the_digest_tells_who_parks_and_whom_each_step_answers() {
        let answer = |by, sequence, text| LaterAnswer {
            by,
            id: CommandId {
                session: SessionId(1),
                sequence,
            },
            outcome: returned(text),
        };
        let folded = |steps: [StepResult; 2], answers: &[LaterAnswer]| {
            let mut outcomes = Outcomes::default();
            let results = SlotResults {
                steps: steps.to_vec(),
                answers: answers.to_vec(),
            };
            outcomes.fold(Slot(1), &[3, 5], &results);
            outcomes.digest()
        };
        let done = || [StepResult::Done, StepResult::Answered(returned("a"))];
        let parks = [StepResult::Parked, StepResult::Answered(returned("a"))];
        let all = [
            folded(done(), &[]),
            folded(parks, &[]),
            folded(done(), &[answer(3, 1, "x")]),
            folded(done(), &[answer(5, 1, "x")]),
            folded(done(), &[answer(5, 2, "x")]),
            folded(done(), &[answer(5, 1, "y")]),
            folded(done(), &[answer(5, 1, "x"), answer(5, 2, "x")]),
            folded(done(), &[answer(5, 2, "x"), answer(5, 1, "x")]),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:x?}");
    }

    #[test]
    fn the_first_difference_is_named_with_its_call() {
        let outcomes = |odd: &'static str| {
            let mut outcomes = executed(&[(1, "a"), (4, "b")]);
            outcomes.fold(Slot(6), &[2, 5], &vec![returned("c"), returned(odd)].into());
            outcomes.fold(Slot(7), &[0], &vec![returned("d")].into());
            outcomes
        };
        let own = outcomes("x").trail(Slot(1), Slot(7));
        let found = own.difference(&outcomes("y").trail(Slot(0), Slot(8)));
        let first = FirstDifference {
            slot: Slot(6),
            is_exact: true,
            index: Some(5),
        };
        assert_eq!(found, Some(first));
        assert_eq!(own.difference(&outcomes("x").trail(Slot(0), Slot(9))), None);
    }

    #[test]
    fn a_difference_before_what_is_kept_is_named_by_the_first_slot_that_shows_it() {
        let own = executed(&[(1, "x"), (4, "b")]).trail(Slot(1), Slot(5));
        let found = own.difference(&executed(&[(1, "a"), (4, "b")]).trail(Slot(0), Slot(5)));
        let found = found.expect("they differ");
        assert_eq!((found.slot, found.is_exact), (Slot(1), false));
    }

    #[test]
    fn a_digest_goes_on_from_a_snapshot_and_old_slots_are_forgotten() {
        let whole = executed(&[(1, "a"), (2, "b")]);
        let mut later = Outcomes::after(Slot(1), digest_of(&[(1, "a")]));
        later.fold(Slot(2), &[0], &vec![returned("b")].into());
        assert_eq!(whole.digest(), later.digest());
        assert_eq!(later.at(Slot(0)), None);
        assert_eq!(later.at(Slot(1)), whole.at(Slot(1)));

        let mut many = Outcomes::default();
        for slot in 1..=OUTCOME_SLOTS as u64 + 3 {
            many.fold(
                Slot(slot),
                &[0, 1],
                &vec![returned("a"), Outcome::Skipped].into(),
            );
        }
        assert_eq!(many.after, Slot(3));
        assert_eq!(many.steps.len(), OUTCOME_SLOTS);
        assert_eq!(many.calls.len(), 2 * OUTCOME_SLOTS);
    }
}
