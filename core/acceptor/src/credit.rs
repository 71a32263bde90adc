//! The credit that bounds the values sent to one peer and not acknowledged.
//!
//! It makes a slow or dead peer cheap: when the credit is used up, no value is sent to the peer and
//! nothing waits for it. The peer learns what it missed once it answers again. A leader has one per peer.

use quorate_ordering::{Flow, Limits};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, Slot, Time};
use std::collections::VecDeque;

/// Values sent to one peer and not acknowledged. `N` numbers them in the order of sending.
#[derive(Clone, PartialEq, Debug)]
pub struct Credit<N = Slot> {
    in_flight: VecDeque<Unanswered<N>>,
    /// Invariant: the sum over `in_flight`.
    bytes: usize,
    /// When the oldest unanswered value was sent, or the last answer came.
    stalled_since: Time,
}

/// A value that was sent and is not acknowledged.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Unanswered<N> {
    number: N,
    bytes: usize,
    /// When it was sent last.
    at: Time,
}

impl<N> Default for Credit<N> {
    fn default() -> Credit<N> {
        Credit {
            in_flight: VecDeque::new(),
            bytes: 0,
            stalled_since: Time(0),
        }
    }
}

impl<N: Copy + Ord> Credit<N> {
    /// Whether one more value may be sent. An idle peer always takes one, however large.
    #[must_use]
    pub fn has_room(&self, limits: &Limits) -> bool {
        let has_credit =
            self.in_flight.len() < limits.credit_messages && self.bytes < limits.credit_bytes;
        self.in_flight.is_empty()
            || planted(Plant::CreditUnbounded)
            || match limits.flow {
                Flow::Credit => has_credit,
                Flow::Unbounded | Flow::Retry(_) => true,
                Flow::Blocking(_) => !self.blocks(limits),
            }
    }

    /// Whether a leader that blocks waits for this peer.
    #[must_use]
    pub fn blocks(&self, limits: &Limits) -> bool {
        match limits.flow {
            Flow::Credit | Flow::Unbounded | Flow::Retry(_) => false,
            Flow::Blocking(most) => self.in_flight.len() >= most.max(1),
        }
    }

    /// Charges credit for a value that is sent.
    pub fn charge(&mut self, now: Time, number: N, bytes: usize) {
        if self.in_flight.is_empty() {
            self.stalled_since = now;
        }
        let at = now;
        self.in_flight.push_back(Unanswered { number, bytes, at });
        self.bytes += bytes;
    }

    /// Returns the credit for all values sent up to `upto`.
    pub fn refund(&mut self, now: Time, upto: N) {
        while let Some(oldest) = self.in_flight.front().copied() {
            if oldest.number > upto {
                break;
            }
            self.in_flight.pop_front();
            self.bytes -= oldest.bytes;
            self.stalled_since = now;
        }
    }

    /// The first `most` of the values that are unanswered for `patience`. They count as sent now.
    pub fn overdue(&mut self, now: Time, patience: Duration, most: usize) -> Vec<N> {
        let late = self.in_flight.iter_mut();
        let late = late
            .filter(|sent| now.since(sent.at) >= patience)
            .take(most);
        late.map(|sent| {
            sent.at = now;
            sent.number
        })
        .collect()
    }

    /// The oldest unanswered value is taken for lost. What is sent instead shows whether the peer answers again.
    pub fn lose_oldest(&mut self, now: Time) {
        if let Some(oldest) = self.in_flight.front().copied() {
            self.refund(now, oldest.number);
        }
    }

    /// Forgets all values sent: they are lost, or belong to another ballot.
    pub fn reset(&mut self) {
        self.in_flight.clear();
        self.bytes = 0;
    }

    /// The time since which sent values are unanswered, if any are.
    #[must_use]
    pub fn stalled_since(&self) -> Option<Time> {
        (!self.in_flight.is_empty()).then_some(self.stalled_since)
    }

    /// Values sent and not acknowledged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Says whether all that was sent is acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Bytes sent and not acknowledged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        let bytes: usize = self.in_flight.iter().map(|sent| sent.bytes).sum();
        assert_eq!(bytes, self.bytes, "credit is neither lost nor made");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            credit_messages: 2,
            credit_bytes: 100,
            ..Limits::default()
        }
    }

    #[test]
    fn an_idle_peer_takes_one_value_however_large_and_then_none() {
        let mut credit: Credit = Credit::default();
        assert!(credit.has_room(&limits()));
        credit.charge(Time(1), Slot(1), 500);
        assert!(!credit.has_room(&limits()));
        credit.refund(Time(2), Slot(1));
        assert!(credit.has_room(&limits()));
        credit.check();
    }

    #[test]
    fn an_answer_returns_the_credit_of_the_slots_it_names_and_of_no_later_one() {
        let mut credit: Credit = Credit::default();
        credit.charge(Time(1), Slot(1), 10);
        credit.charge(Time(1), Slot(2), 20);
        assert!(!credit.has_room(&limits()), "two values are in flight");
        credit.refund(Time(5), Slot(1));
        assert_eq!(credit.bytes(), 20);
        assert_eq!(credit.stalled_since(), Some(Time(5)));
        credit.check();
    }

    #[test]
    fn a_value_is_overdue_once_in_each_time_that_it_stays_unanswered() {
        let mut credit: Credit = Credit::default();
        for (at, slot) in [(1, 1), (1, 2), (4, 3)] {
            credit.charge(Time(at), Slot(slot), 10);
        }
        let overdue = |credit: &mut Credit, at| credit.overdue(Time(at), Duration(5), 2);
        assert_eq!(overdue(&mut credit, 5), vec![]);
        assert_eq!(overdue(&mut credit, 6), vec![Slot(1), Slot(2)]);
        assert_eq!(overdue(&mut credit, 9), vec![Slot(3)]);
        credit.refund(Time(9), Slot(1));
        assert_eq!(overdue(&mut credit, 14), vec![Slot(2), Slot(3)]);
        credit.check();
    }
}
