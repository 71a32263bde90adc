//! The one source of choice: a small generator whose streams are named, so that leaving one thing out of a run does not
//! change the choices of the others.
//!
//! Every part of the world owns a stream. Nothing here is fit for secrets.

use quorate_types::Duration;

/// A stream of choices.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream `name` of `seed`; `number` tells streams of one name apart.
    pub(super) fn new(seed: u64, name: &str, number: u64) -> Random {
        let mut state = mixed(seed ^ 0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            state = mixed(state ^ u64::from(byte));
        }
        Random(mixed(state ^ number.rotate_left(32)))
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is nothing below 0");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both possible.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range has its low end first");
        low + self.below(high - low + 1)
    }

    /// True `per_mille` times of a thousand.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of `items`, which is not empty.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A span of whole milliseconds from `low` to `high`.
    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// A span of whole microseconds from `low` to `high`.
    pub(super) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_differs_from_its_neighbours() {
        let draw = |mut random: Random| (0..4).map(|_| random.bits()).collect::<Vec<_>>();
        assert_eq!(
            draw(Random::new(7, "net", 1)),
            draw(Random::new(7, "net", 1))
        );
        assert_ne!(
            draw(Random::new(7, "net", 1)),
            draw(Random::new(7, "net", 2))
        );
        assert_ne!(
            draw(Random::new(7, "net", 1)),
            draw(Random::new(7, "disk", 1))
        );
        assert_ne!(
            draw(Random::new(7, "net", 1)),
            draw(Random::new(8, "net", 1))
        );
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut random = Random::new(1, "range", 0);
        let drawn: Vec<u64> = (0..200).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
    }
}
