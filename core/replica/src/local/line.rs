//! The clients that wait here for a place in a full table of sessions, first come first served.
//!
//! A client asks again when it was told to, and keeps its place in the line by that; who does not is forgotten. Local to this
//! node: clients of other nodes stand in other lines. `open` of [`crate::Replica`] calls it.

use crate::limits::{LINE_GRACE, LINE_MAX, LINE_RETRY_MAX, LINE_RETRY_MIN, LINE_RETRY_STEP};
use quorate_types::{Duration, SecretHash, Time};
use std::collections::BTreeMap;

/// The line, by ticket.
#[derive(Debug, Default)]
pub(crate) struct PlaceLine {
    /// Invariant: as many as `tickets`, and at most [`LINE_MAX`].
    waiters: BTreeMap<u64, Waiter>,
    tickets: BTreeMap<SecretHash, u64>,
    /// The ticket of the next who comes.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    hash: SecretHash,
    /// When it is forgotten unless it asks again.
    until: Time,
}

impl PlaceLine {
    /// Whether `hash` may have one of `free` places, before everybody who came later. If not, when it is to ask again.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        hash: SecretHash,
        free: usize,
    ) -> Result<(), Duration> {
        self.forget_overdue(now);
        let first = self.waiters.first_key_value();
        let first = first.map_or(self.next, |(ticket, _)| *ticket);
        let ticket = self.tickets.get(&hash).copied().unwrap_or(self.next);
        // Those who left from between are counted too: that is soon over.
        let ahead = ticket - first;
        if ahead < free as u64 {
            self.leave(hash);
            return Ok(());
        }
        let retry = LINE_RETRY_MIN.0 + ahead.min(LINE_MAX as u64) * LINE_RETRY_STEP.0;
        let retry = Duration(retry.min(LINE_RETRY_MAX.0));
        self.stand(now, hash, ticket, retry);
        Err(retry)
    }

    fn stand(&mut self, now: Time, hash: SecretHash, ticket: u64, retry: Duration) {
        if ticket == self.next {
            if self.waiters.len() >= LINE_MAX {
                return;
            }
            self.next += 1;
            self.tickets.insert(hash, ticket);
        }
        let until = now + retry + LINE_GRACE;
        self.waiters.insert(ticket, Waiter { hash, until });
    }

    fn leave(&mut self, hash: SecretHash) {
        if let Some(ticket) = self.tickets.remove(&hash) {
            self.waiters.remove(&ticket);
        }
    }

    /// Forgets those at the front who did not ask again.
    fn forget_overdue(&mut self, now: Time) {
        while let Some((_, first)) = self.waiters.first_key_value()
            && first.until <= now
        {
            let hash = first.hash;
            self.leave(hash);
        }
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.waiters.len(), self.tickets.len());
        assert!(self.waiters.len() <= LINE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Secret;

    fn hash(number: u64) -> SecretHash {
        Secret::new(u128::from(number).to_le_bytes()).hash()
    }

    #[test]
    fn who_came_first_gets_the_place_however_often_others_ask() {
        let mut line = PlaceLine::default();
        for number in 1..=3 {
            assert!(line.admit(Time(0), hash(number), 0).is_err());
        }
        for number in [3, 2, 4, 2] {
            assert!(line.admit(Time(1), hash(number), 1).is_err());
        }
        assert_eq!(line.admit(Time(2), hash(1), 1), Ok(()));
        assert!(line.admit(Time(3), hash(3), 1).is_err());
        assert_eq!(line.admit(Time(4), hash(2), 1), Ok(()));
        line.check();
    }

    #[test]
    fn who_does_not_ask_again_holds_up_nobody_for_long() {
        let mut line = PlaceLine::default();
        let retry = line.admit(Time(0), hash(1), 0).expect_err("it is full");
        line.admit(Time(1), hash(2), 0).expect_err("it is full");
        let late = Time(0) + retry + LINE_GRACE;
        assert_eq!(line.admit(late, hash(2), 1), Ok(()));
        line.check();
    }

    #[test]
    fn those_far_behind_ask_less_often_and_the_line_has_an_end() {
        let mut line = PlaceLine::default();
        let near = line.admit(Time(0), hash(0), 0).expect_err("it is full");
        let mut far = near;
        for number in 1..LINE_MAX as u64 + 10 {
            far = line.admit(Time(0), hash(number), 0).expect_err("full");
        }
        assert!(far > near && far <= LINE_RETRY_MAX);
        line.check();
    }
}
