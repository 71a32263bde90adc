//! When fast rounds pay: how often values collided in them, and whether several nodes submit at a time in classic ones.
//!
//! Too many collisions, or a round that does not end, lead to classic rounds. They stay for a pause that doubles each time and
//! until batches rarely hold commands of several nodes, which in fast rounds would have been values that collide.

use crate::limits::{
    CALM_SLOTS, COLLISIONS_MAX, COUNTED_MIN, COUNTED_SLOTS, MIXED_MAX, PAUSE_MAX, PAUSE_MIN,
};
use quorate_ordering::RoundsStatus;
use quorate_types::{Duration, Time};

/// What a node that leads has seen of this. It outlives the ballots of the node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Contention {
    slots: u32,
    /// Invariant: at most `slots`.
    mixed: u32,
    /// Fast slots decided since the last change.
    calm: u32,
    pause: Duration,
    /// No fast round begins before.
    closed_until: Time,
    rounds: RoundsStatus,
}

impl Contention {
    pub(crate) fn new() -> Contention {
        Contention {
            slots: 0,
            mixed: 0,
            calm: 0,
            pause: PAUSE_MIN,
            closed_until: Time(0),
            rounds: RoundsStatus::default(),
        }
    }

    /// What was counted since the start.
    pub(crate) fn rounds(&self) -> RoundsStatus {
        self.rounds
    }

    /// A fast round was decided as it was.
    pub(crate) fn passed(&mut self) {
        self.rounds.fast += 1;
        self.calm += 1;
        if self.calm >= CALM_SLOTS {
            self.pause = PAUSE_MIN;
        }
        self.count(0);
    }

    /// A fast round collided. Says whether that was one too many.
    pub(crate) fn collided(&mut self) -> bool {
        self.rounds.collisions += 1;
        self.count(1);
        self.slots >= COUNTED_MIN && self.mixed * COLLISIONS_MAX > self.slots
    }

    /// A slot was decided in the classic round that the leader began.
    pub(crate) fn decided_classic(&mut self) {
        self.rounds.classic += 1;
    }

    /// A batch of commands was ordered by the leader.
    pub(crate) fn ordered(&mut self, is_of_several: bool) {
        self.count(u32::from(is_of_several));
    }

    /// Classic rounds begin.
    pub(crate) fn close(&mut self, now: Time) {
        self.closed_until = now + self.pause;
        self.pause = Duration(self.pause.0 * 2).min(PAUSE_MAX);
        self.slots = 0;
        self.mixed = 0;
        self.calm = 0;
    }

    /// Whether fast rounds may begin. What was counted in classic rounds is forgotten then.
    pub(crate) fn try_open(&mut self, now: Time) -> bool {
        let is_rare = self.mixed * MIXED_MAX <= self.slots;
        if now < self.closed_until || !is_rare {
            return false;
        }
        self.slots = 0;
        self.mixed = 0;
        true
    }

    fn count(&mut self, mixed: u32) {
        if self.slots >= COUNTED_SLOTS {
            self.slots /= 2;
            self.mixed /= 2;
        }
        self.slots += 1;
        self.mixed += mixed;
    }

    pub(crate) fn check(&self) {
        assert!(self.mixed <= self.slots, "what collided is counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collisions_above_the_rate_end_fast_rounds_and_a_load_between_the_rates_changes_nothing() {
        let mut contention = Contention::new();
        assert!(contention.try_open(Time(0)));
        let collisions = (0..100).filter(|slot| {
            if slot % 4 > 0 {
                contention.passed();
                return false;
            }
            contention.collided()
        });
        assert_eq!(collisions.count(), 0, "one in four is bearable");
        let collided = (0..100).take_while(|_| !contention.collided()).count();
        assert!(collided < 16, "{collided}");
        contention.close(Time(0));
        let later = Time(0) + PAUSE_MIN;
        assert!(!contention.try_open(Time(1)));
        for batch in 0..64 {
            contention.ordered(batch % 4 == 0);
        }
        assert!(!contention.try_open(later), "one in four does not return");
        (0..400).for_each(|_| contention.ordered(false));
        assert!(contention.try_open(later));
        contention.close(later);
        assert!(!contention.try_open(later + PAUSE_MIN), "pauses double");
        contention.check();
    }
}
