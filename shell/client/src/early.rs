//! Calls that are wanted early: two ends of one operation, the first word of it and the true one.

use crate::unbegun::Done;
use crate::{Answer, CallEnd};
use quorate_types::{Outcome, Value};
use std::sync::atomic::{AtomicU8, Ordering};

/// What the first word of a call was worth. It may be asked at any time.
#[derive(Default)]
pub struct FirstWord(AtomicU8);

/// What is known of the first word of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordState {
    /// There is none yet.
    Awaited,
    /// It is what objects returned that executed the call ahead of its decision; the call has not ended.
    Tentative,
    /// It was tentative, and the call ended with it.
    Stood,
    /// It was tentative, and the call ended otherwise: with another answer, or with none.
    Fell,
    /// It was the end of the call: nothing was told before.
    Decided,
}

const STATES: [WordState; 5] = [
    WordState::Awaited,
    WordState::Tentative,
    WordState::Stood,
    WordState::Fell,
    WordState::Decided,
];

impl FirstWord {
    /// What is known by now.
    #[must_use]
    pub fn state(&self) -> WordState {
        STATES[usize::from(self.0.load(Ordering::Acquire))]
    }

    fn becomes(&self, state: WordState) {
        self.0.store(state as u8, Ordering::Release);
    }
}

/// Who hears of a call that is wanted early.
pub(crate) struct EarlyDone {
    word: std::sync::Arc<FirstWord>,
    /// Who waits for the first word, until it is there.
    first: Option<Done>,
    last: Done,
    told: Option<Value>,
}

impl EarlyDone {
    pub(crate) fn new(word: std::sync::Arc<FirstWord>, first: Done, last: Done) -> EarlyDone {
        EarlyDone {
            word,
            first: Some(first),
            last,
            told: None,
        }
    }

    /// Objects returned this ahead of the decision.
    pub(crate) fn tell(&mut self, value: Value) {
        if let Some(first) = self.first.take() {
            self.told = Some(value.clone());
            self.word.becomes(WordState::Tentative);
            first.end(Ok(Answer::Called(Outcome::Returned(value))));
        }
    }

    /// The call has ended.
    pub(crate) fn end(self, ended: CallEnd) {
        let is_told = |told: &Value| matches!(&ended, Ok(Answer::Called(Outcome::Returned(value))) if value == told);
        self.word.becomes(match &self.told {
            None => WordState::Decided,
            Some(told) if is_told(told) => WordState::Stood,
            Some(_) => WordState::Fell,
        });
        if let Some(first) = self.first {
            first.end(ended.clone());
        }
        self.last.end(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallCause, CallCell, CallError};
    use std::sync::Arc;

    fn early() -> (Arc<FirstWord>, [Arc<CallCell>; 2], EarlyDone) {
        let word = Arc::new(FirstWord::default());
        let cells: [Arc<CallCell>; 2] = Default::default();
        let [first, last] = cells.clone().map(Done::Cell);
        let done = EarlyDone::new(Arc::clone(&word), first, last);
        (word, cells, done)
    }

    fn returned(byte: u8) -> CallEnd {
        Ok(Answer::Called(Outcome::Returned(Value::from(vec![byte]))))
    }

    #[test]
    fn the_first_word_says_whether_it_stood() {
        let lost = Err(CallError::OutcomeUnknown(CallCause::DeadlinePassed));
        let ends = [
            (returned(1), WordState::Stood),
            (returned(2), WordState::Fell),
            (lost, WordState::Fell),
        ];
        for (end, state) in ends {
            let (word, [first, last], mut done) = early();
            assert_eq!(word.state(), WordState::Awaited);
            done.tell(Value::from(vec![1]));
            done.tell(Value::from(vec![3]));
            assert_eq!(word.state(), WordState::Tentative);
            assert_eq!((first.take(), last.is_filled()), (Some(returned(1)), false));
            done.end(end.clone());
            assert_eq!((word.state(), last.take()), (state, Some(end)));
        }
    }

    #[test]
    fn an_answer_that_comes_first_is_no_tentative_one() {
        let (word, [first, last], done) = early();
        done.end(returned(1));
        assert_eq!(word.state(), WordState::Decided);
        assert_eq!(
            (first.take(), last.take()),
            (Some(returned(1)), Some(returned(1)))
        );
    }
}
