//! Since when the state of this replica was the newest: what a read at level `any` says of its age.
//!
//! The ordering tells marks: at a time, no leader knew a slot above some slot to be decided. A replica that has executed
//! that slot has a state that was the newest then. Whatever cannot be known makes the age larger, never smaller.

use crate::limits::MARKS_MAX;
use quorate_types::{Slot, Time};
use std::collections::VecDeque;

/// What this replica knows of the age of its state.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Currency {
    /// Marks that are not executed yet, and the newest one that is; bounded by `limits::MARKS_MAX`.
    marks: VecDeque<(Slot, Time)>,
}

impl Currency {
    /// At `at`, no leader knew a slot above `slot` to be decided; this replica has executed `executed`.
    pub(crate) fn note(&mut self, slot: Slot, at: Time, executed: Slot) {
        let known = self.since(executed);
        self.marks
            .retain(|mark| mark.0 > executed || Some(mark.1) == known);
        match self.marks.back_mut() {
            Some(newest) if newest.0 == slot => newest.1 = newest.1.max(at),
            Some(_) | None => self.marks.push_back((slot, at)),
        }
        if self.marks.len() > MARKS_MAX {
            // Without every second mark the age is a little too large for a while.
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1 || index > MARKS_MAX
            });
        }
    }

    /// A view ended with `last`, and its leader may not have known: what it had up to there, or beyond, was not the newest once others
    /// ordered in the next view. Claim rp-143.
    pub(crate) fn ends_with(&mut self, last: Slot) {
        self.marks.retain(|mark| mark.0 < last);
    }

    /// The last time at which a state that has executed `executed` was known to be the newest; `None` if it never was
    /// since this node started.
    pub(crate) fn since(&self, executed: Slot) -> Option<Time> {
        let reached = self.marks.iter().filter(|mark| mark.0 <= executed);
        reached.map(|mark| mark.1).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_as_old_as_the_newest_mark_that_it_has_reached() {
        let mut currency = Currency::default();
        assert_eq!(currency.since(Slot(9)), None);
        currency.note(Slot(3), Time(10), Slot(0));
        currency.note(Slot(5), Time(20), Slot(0));
        assert_eq!(currency.since(Slot(2)), None, "it was never the newest");
        assert_eq!(currency.since(Slot(4)), Some(Time(10)));
        assert_eq!(currency.since(Slot(5)), Some(Time(20)));
        currency.note(Slot(5), Time(30), Slot(5));
        assert_eq!(
            currency.since(Slot(5)),
            Some(Time(30)),
            "nothing was decided since"
        );
        currency.note(Slot(6), Time(40), Slot(5));
        assert_eq!(currency.since(Slot(5)), Some(Time(30)));
    }

    #[test]
    fn a_view_that_ended_vouches_for_nothing_beyond_its_last_slot() {
        let mut currency = Currency::default();
        currency.note(Slot(3), Time(10), Slot(0));
        currency.note(Slot(5), Time(20), Slot(0));
        currency.ends_with(Slot(5));
        assert_eq!(currency.since(Slot(7)), Some(Time(10)));
    }

    #[test]
    fn a_replica_that_stays_behind_keeps_a_bounded_number_of_marks_and_no_younger_age() {
        let mut currency = Currency::default();
        currency.note(Slot(1), Time(1), Slot(1));
        for n in 2..=10_000 {
            currency.note(Slot(n), Time(n), Slot(1));
        }
        assert!(currency.marks.len() <= MARKS_MAX);
        for executed in [1, 50, 5_000, 9_999, 10_000] {
            let since = currency
                .since(Slot(executed))
                .expect("it was once the newest");
            assert!(since <= Time(executed), "{since:?} at {executed}");
        }
        assert_eq!(currency.since(Slot(10_000)), Some(Time(10_000)));
    }
}
