//! Boot time, wall time and randomness of the machine. Nothing else in the node reads
//! a clock or draws randomness.

use crate::limits::ENTROPY_BLOCK;
use quorate_types::{Time, Wall};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time since this machine started, running through suspension.
#[must_use]
pub(crate) fn boot_time() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("boot time is not before boot");
    let nanos = u64::try_from(time.tv_nsec).expect("nanoseconds are not negative");
    Time(seconds * 1_000_000_000 + nanos)
}

/// Time of day as this machine believes it.
#[must_use]
pub(crate) fn wall_time() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is wrong anyway; stamps rise all the same.
    Wall(since.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

/// The system's randomness, drawn in blocks: objects derive secrets from it, so no generator of our
/// own stands between.
pub(crate) struct Entropy {
    block: [u8; ENTROPY_BLOCK],
    used: usize,
}

impl Entropy {
    pub(crate) fn new() -> Entropy {
        Entropy {
            block: [0; ENTROPY_BLOCK],
            used: ENTROPY_BLOCK,
        }
    }

    /// Fresh randomness.
    pub(crate) fn next(&mut self) -> u64 {
        if self.used == ENTROPY_BLOCK {
            fill(&mut self.block);
            self.used = 0;
        }
        let bytes = &mut self.block[self.used..self.used + 8];
        self.used += 8;
        let number = u64::from_ne_bytes((&*bytes).try_into().expect("eight bytes"));
        // What was given away must not be found in memory later.
        bytes.fill(0);
        number
    }
}

impl Entropy {
    /// Randomness from which more is derived.
    pub(crate) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes());
        }
        seed
    }
}

fn fill(block: &mut [u8]) {
    let mut filled = 0;
    while filled < block.len() {
        match getrandom(&mut block[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no randomness: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_does_not_repeat_over_blocks() {
        let mut entropy = Entropy::new();
        let drawn: std::collections::BTreeSet<u64> =
            (0..ENTROPY_BLOCK).map(|_| entropy.next()).collect();
        assert_eq!(drawn.len(), ENTROPY_BLOCK);
    }
}
