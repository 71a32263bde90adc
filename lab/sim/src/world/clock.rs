//! Virtual time, and the clocks of nodes, which are never it: each starts elsewhere and runs a little fast or slow.

use quorate_types::{Duration, Time, Wall};
use std::fmt;
use std::ops::Add;

/// Nanoseconds since the world began. Only the world and the checkers see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// What a clock of a client, which nobody compares with others, shows.
    pub fn as_time(self) -> Time {
        Time(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}s",
            self.0 / 1_000_000_000,
            self.0 / 1000 % 1_000_000
        )
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The clocks of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    offset_ns: u64,
    drift_ppm: i64,
    wall_ns: i64,
}

/// Where wall clocks stand when the world begins: somewhere in 2023.
const WALL_START_NS: i64 = 1_700_000_000_000_000_000;

const MILLION: u64 = 1_000_000;

impl Clock {
    /// A boot clock that shows `offset` when the world begins and gains `drift_ppm`; the wall clock is `wall_ms` off.
    pub(super) fn new(offset: Duration, drift_ppm: i64, wall_ms: i64) -> Clock {
        Clock {
            offset_ns: offset.0,
            drift_ppm,
            wall_ns: WALL_START_NS + wall_ms * 1_000_000,
        }
    }

    /// Boot time at `moment`.
    pub(super) fn boot(&self, moment: Moment) -> Time {
        // By whole and broken millionths, which is exact and stays inside 64 bits.
        let (whole, broken) = (moment.0 / MILLION, moment.0 % MILLION);
        let gained =
            whole as i64 * self.drift_ppm + broken as i64 * self.drift_ppm / MILLION as i64;
        let elapsed = self.offset_ns.saturating_add(moment.0);
        Time(elapsed.saturating_add_signed(gained))
    }

    /// The first moment at which the boot clock shows `time`.
    pub(super) fn moment_of(&self, time: Time) -> Moment {
        let shown = time.0.saturating_sub(self.offset_ns);
        let rate = MILLION.saturating_add_signed(self.drift_ppm);
        let elapsed = (shown / rate).saturating_mul(MILLION) + shown % rate * MILLION / rate;
        let mut moment = Moment(elapsed.saturating_sub(2));
        while self.boot(moment) < time {
            moment.0 += 1;
        }
        moment
    }

    /// Wall time at `moment`.
    pub(super) fn wall(&self, moment: Moment) -> Wall {
        Wall((self.wall_ns + moment.0 as i64).max(0) as u64)
    }

    /// What a wall clock without error shows at `moment`.
    pub(super) fn true_wall(moment: Moment) -> Wall {
        Wall(WALL_START_NS as u64 + moment.0)
    }

    /// How far ahead of true time the wall clock is.
    pub(super) fn wall_error_ns(&self) -> i64 {
        self.wall_ns - WALL_START_NS
    }

    /// Somebody sets the wall clock.
    pub(super) fn set_wall_by(&mut self, ms: i64) {
        self.wall_ns += ms * 1_000_000;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_time_is_the_first_that_shows_it() {
        for drift in [-500, 0, 333] {
            let clock = Clock::new(Duration::from_millis(77), drift, 0);
            for ns in [0u64, 1, 999, 123_456_789, 61_000_000_001] {
                let time = clock.boot(Moment(ns));
                let moment = clock.moment_of(time);
                assert!(clock.boot(moment) >= time);
                assert!(moment.0 == 0 || clock.boot(Moment(moment.0 - 1)) < time);
            }
        }
    }
}
