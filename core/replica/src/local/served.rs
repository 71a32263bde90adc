//! How long the group has served, as far as this node knows: time that counts toward the expiry of sessions.
//!
//! It runs only while a leader with a quorum is known to have led, and so may have heard its clients. Without a leader, or
//! while this node stood still, it does not run: no session ends because the group, or the node that judges, paused. It is
//! never faster than the clock, so a span of it is no longer than the same span on a clock.

use crate::limits::{SERVED_GAP, SERVED_LATE};
use quorate_types::{Duration, Time};

/// A moment, by the time that the group has served. Known to one node only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ServedTime(u64);

/// The time that the group has served since this node started.
#[derive(Debug)]
pub(crate) struct ServedClock {
    total: ServedTime,
    /// Up to when the clock has been looked at.
    upto: Time,
    /// When it began.
    began: Time,
}

impl ServedTime {
    /// Before every sign of life that can count.
    pub(crate) const LONG_AGO: ServedTime = ServedTime(0);

    /// Far enough from the beginning for the oldest sign of life that another node can tell of.
    const START: ServedTime = ServedTime(1 << 60);

    /// How long after `earlier` this is.
    pub(crate) fn since(self, earlier: ServedTime) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// So long after this.
    pub(crate) fn after(self, span: Duration) -> ServedTime {
        ServedTime(self.0.saturating_add(span.0))
    }

    /// So long before this.
    pub(crate) fn before(self, span: Duration) -> ServedTime {
        ServedTime(self.0.saturating_sub(span.0))
    }
}

impl ServedClock {
    pub(crate) fn new(now: Time) -> ServedClock {
        ServedClock {
            total: ServedTime::START,
            upto: now,
            began: now,
        }
    }

    /// A leader had a quorum at `at`, as is known now. It had one since the last time too if that was not long ago. What
    /// becomes known late does not count, so that [`ServedClock::most`] has a bound.
    pub(crate) fn led(&mut self, now: Time, at: Time) {
        let span = at.since(self.upto);
        if span <= SERVED_GAP && now.since(at) <= SERVED_LATE {
            self.total = self.total.after(span);
        }
        self.upto = self.upto.max(at);
    }

    /// Whether it is known that a leader had a quorum at `at` or later. Ages that others tell are dated by what may have been served since
    /// the last such word, so they look younger by all the time before it.
    pub(crate) fn is_known_since(&self, at: Time) -> bool {
        self.upto >= at
    }

    /// Whether any leader's quorum is known since this node started.
    pub(crate) fn has_heard(&self) -> bool {
        self.upto > self.began
    }

    /// What has been served for certain: by this, nothing looks older than it is.
    pub(crate) fn least(&self) -> ServedTime {
        self.total
    }

    /// What may have been served at `now`: by this, what happens looks newer than it is, never older.
    pub(crate) fn most(&self, now: Time) -> ServedTime {
        let unknown = now.since(self.upto);
        self.total.after(unknown.min(SERVED_GAP + SERVED_LATE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn time_runs_while_a_leader_is_heard_and_stands_still_while_none_is() {
        let mut served = ServedClock::new(Time(0));
        let began = served.least();
        for at in 1..=20 {
            served.led(Time(at * 50 * MS), Time(at * 50 * MS));
        }
        assert_eq!(served.least().since(began), Duration::from_millis(1_000));
        served.led(Time(9_000 * MS), Time(9_000 * MS));
        assert_eq!(served.least().since(began), Duration::from_millis(1_000));
        served.led(Time(9_100 * MS), Time(9_100 * MS));
        served.led(Time(9_050 * MS), Time(9_050 * MS));
        assert_eq!(served.least().since(began), Duration::from_millis(1_100));
    }

    #[test]
    fn what_happens_between_two_words_of_a_leader_never_looks_older_than_it_is() {
        let mut served = ServedClock::new(Time(0));
        served.led(Time(100 * MS), Time(100 * MS));
        let noted = served.most(Time(190 * MS));
        served.led(Time(200 * MS), Time(200 * MS));
        assert!(served.least().since(noted) <= Duration::from_millis(10));
        let noted = served.most(Time(5_000 * MS));
        assert!(noted.since(served.least()) <= SERVED_GAP + SERVED_LATE);
    }

    #[test]
    fn words_of_a_leader_that_come_late_make_nothing_older_than_it_is() {
        let mut served = ServedClock::new(Time(0));
        let noted = served.most(Time(400 * MS));
        for at in 1..=40 {
            served.led(Time((400 + at * 10) * MS), Time(at * 10 * MS));
        }
        let really = Duration::from_millis(0);
        assert_eq!(served.least().since(noted), really);
        let noted = served.most(Time(5_000 * MS));
        for at in 450..=500 {
            served.led(Time(5_600 * MS), Time(at * 10 * MS));
        }
        assert!(served.least() <= noted, "they come too late to count");
    }
}
