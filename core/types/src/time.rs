//! Boot time, wall time and spans: three things that must never be mixed.

use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds since this machine started, counting suspension. Local: never sent, never compared
/// between nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// Nanoseconds since 1970 as the leader's clock shows them; enters only by a batch's stamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub u64);

impl Wall {
    /// No time is known yet: no clock counts before a majority's are known, and nothing was stamped before.
    pub const UNKNOWN: Wall = Wall(0);
}

/// A span in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms * 1_000_000)
    }

    /// A span of whole microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us * 1_000)
    }

    /// The span in whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Time {
    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The earlier of two times of which either may be missing.
    #[must_use]
    pub fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (Some(time), None) | (None, Some(time)) => Some(time),
            (None, None) => None,
        }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

macro_rules! debug_as {
    ($name:ident, $unit:literal, $scale:expr) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $unit), self.0 as f64 / $scale)
            }
        }
    };
}
debug_as!(Time, "ms", 1e6);
debug_as!(Wall, "s", 1e9);
debug_as!(Duration, "ms", 1e6);
