//! Randomness of timeouts, drawn from the configured seed: the same seed gives the same run.

use quorate_types::Duration;

/// SplitMix64: one word of state, good enough to keep rivals apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A span in `least..=most`; if they are equal, nothing is drawn.
    pub(crate) fn span(&mut self, least: Duration, most: Duration) -> Duration {
        if most <= least {
            return least;
        }
        let width = (most - least).0 + 1;
        Duration(least.0 + self.next() % width)
    }
}
