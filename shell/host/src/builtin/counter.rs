//! `rust:counter`: one 64-bit number.

use crate::arguments::{
    Arguments, CallView, Mistake, mistake, raised, returned_int, unknown_method,
};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use quorate_types::Outcome;

/// Counts. `add(n=1, padding=None)` returns the new number, `get()` the present one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter {
    number: i64,
}

impl Counter {
    /// Makes a counter; the optional argument is where it starts.
    pub(crate) fn create(arguments: &mut Arguments<'_>) -> Result<Counter, Mistake> {
        let number = arguments.int_or("start", 0)?;
        arguments.finish()?;
        Ok(Counter { number })
    }

    /// Adds `n`. The padding makes calls of any size for measurements; nothing reads it.
    fn add(&mut self, mut arguments: Arguments<'_>) -> Result<i64, Mistake> {
        let n = arguments.int_or("n", 1)?;
        arguments.next_item()?;
        arguments.finish()?;
        self.number = self
            .number
            .checked_add(n)
            .ok_or_else(|| mistake("OverflowError", "the counter holds 64 bits".to_owned()))?;
        Ok(self.number)
    }
}

impl Object for Counter {
    #[inline]
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        if call.method != "add" {
            return self.read(call);
        }
        match self.add(call.arguments) {
            Ok(number) => returned_int(number),
            Err(mistake) => mistake.into(),
        }
    }

    fn read(&self, mut call: CallView<'_>) -> Outcome {
        match call.method {
            "get" => match call.arguments.finish() {
                Ok(()) => returned_int(self.number),
                Err(mistake) => mistake.into(),
            },
            "add" => raised(
                "TypeError",
                "`add` changes the counter: call it, do not read it",
            ),
            unknown => unknown_method("counter", unknown),
        }
    }

    fn snapshot(&self) -> FrozenState {
        let number = self.number;
        Box::new(move || number.to_be_bytes().to_vec().into())
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), RestoreError> {
        let bytes = image
            .try_into()
            .map_err(|_| RestoreError::new("a counter's image has 8 bytes"))?;
        self.number = i64::from_be_bytes(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::call_payload;

    fn apply(counter: &mut Counter, method: &str, arguments: &[i64]) -> Outcome {
        let payload = call_payload(method, arguments);
        let call = CallView::parse(&payload).unwrap();
        counter.apply(call, &Environment::default())
    }

    #[test]
    fn a_counter_adds_and_is_restored() {
        let mut counter = Counter::default();
        assert_eq!(apply(&mut counter, "add", &[5]), returned_int(5));
        assert_eq!(apply(&mut counter, "add", &[-2]), returned_int(3));
        assert_eq!(apply(&mut counter, "add", &[]), returned_int(4));
        let mut copy = Counter::default();
        copy.restore(&counter.snapshot()().whole()).unwrap();
        assert_eq!(copy, counter);
        assert!(copy.restore(b"short").is_err());
    }

    #[test]
    fn an_overflow_is_raised_and_changes_nothing() {
        let mut counter = Counter { number: i64::MAX };
        assert!(matches!(
            apply(&mut counter, "add", &[1]),
            Outcome::Raised(_)
        ));
        assert_eq!(apply(&mut counter, "get", &[]), returned_int(i64::MAX));
    }

    #[test]
    fn an_unknown_method_is_raised() {
        let mut counter = Counter::default();
        assert!(matches!(
            apply(&mut counter, "drop", &[]),
            Outcome::Raised(_)
        ));
    }
}
