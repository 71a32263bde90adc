//! Watches reads of any state: the age that an answer tells is no smaller than how long ago its state was the newest that
//! a leader knew decided, and no client reads an older state than it has read before, unless it asked for that.
//!
//! Fed by the seeded world, which knows when each slot was first known to be decided, in true time.

use std::collections::BTreeMap;

use quorate_types::Slot;

use super::{Property, Violation};

/// A clock runs at most so much slower than true time, in parts per million: what the world's clocks do, and a little more.
const SLOW_PPM: u64 = 1_000;

/// What was decided when, and what clients have read.
#[derive(Debug, Default)]
pub struct Ages {
    /// When each higher slot was first known to be decided, ascending in both.
    decided: Vec<(u64, Slot)>,
    /// The highest slot that an answer to each client reflected.
    read: BTreeMap<u64, Slot>,
}

impl Ages {
    /// Takes note that a node knows `slot` to be decided.
    pub fn decided(&mut self, now_ns: u64, slot: Slot) {
        if self.decided.last().is_none_or(|(_, last)| *last < slot) {
            self.decided.push((now_ns, slot));
        }
    }

    /// Takes note that a replica answers a read of any state, at `at_ns` in true time and with an age by its own clock.
    ///
    /// # Errors
    /// [`Property::AnyState`] when more was decided before that age began.
    pub fn answered(&self, at_ns: u64, slot: Slot, age_ns: u64) -> Result<(), Violation> {
        let longest = age_ns + age_ns / 1_000_000 * SLOW_PPM + 1_000;
        let Some(since) = at_ns.checked_sub(longest) else {
            return Ok(());
        };
        let before = self.decided.partition_point(|(at, _)| *at < since);
        let newest = before.checked_sub(1).map(|index| self.decided[index]);
        match newest {
            Some((at, newest)) if newest > slot => Err(Violation::new(
                Property::AnyState,
                format!(
                    "a read of any state is answered at {at_ns} ns with {slot}, {age_ns} ns old; {newest} was decided at {at} ns"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The highest slot that an answer to `client` reflected.
    #[must_use]
    pub fn read_by(&self, client: u64) -> Slot {
        self.read.get(&client).copied().unwrap_or_default()
    }

    /// Takes note that the process of `client` begins anew: it does not know what an earlier one had read.
    pub fn began(&mut self, client: u64) {
        self.read.remove(&client);
    }

    /// Takes note that an answer to `client` reflects `slot`.
    pub fn got(&mut self, client: u64, slot: Slot) {
        let read = self.read.entry(client).or_default();
        *read = slot.max(*read);
    }

    /// Takes note that a read of any state, begun when its client had read `before`, was answered with `slot`.
    ///
    /// # Errors
    /// [`Property::AnyState`] when that is older.
    pub fn goes_on(&self, client: u64, before: Slot, slot: Slot) -> Result<(), Violation> {
        if slot >= before {
            return Ok(());
        }
        Err(Violation::new(
            Property::AnyState,
            format!("c{client} had read {before} and reads {slot} after it"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_that_begins_after_something_newer_was_decided_is_found() {
        let mut ages = Ages::default();
        ages.decided(1_000_000, Slot(1));
        ages.decided(9_000_000, Slot(2));
        ages.decided(9_500_000, Slot(2));
        ages.answered(20_000_000, Slot(2), 0).unwrap();
        ages.answered(20_000_000, Slot(1), 11_000_000).unwrap();
        let young = ages.answered(20_000_000, Slot(1), 10_000_000).unwrap_err();
        assert_eq!(young.property, Property::AnyState);
        ages.answered(500_000, Slot(0), 10_000_000).unwrap();
    }

    #[test]
    fn a_client_that_goes_back_is_found() {
        let mut ages = Ages::default();
        let before = ages.read_by(7);
        ages.got(7, Slot(5));
        ages.goes_on(7, before, Slot(4)).unwrap();
        ages.goes_on(7, ages.read_by(7), Slot(5)).unwrap();
        assert!(ages.goes_on(7, ages.read_by(7), Slot(4)).is_err());
        assert_eq!(ages.read_by(8), Slot(0));
        ages.began(7);
        assert_eq!(ages.read_by(7), Slot(0));
    }
}
