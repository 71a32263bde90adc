//! How long a node that starts again would take to repeat what its objects have executed since the last checkpoint.
//!
//! Commands and bytes tell nothing of that: a hundred thousand calls may take a second or an hour. So the leader times its objects, and
//! asks for a checkpoint once they took long. Its slot is decided like that of any other, so replicas need not measure alike.

use crate::limits::REPEATING_SHARE;
use quorate_types::{Duration, Time};

/// What executing has taken since the last checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Repeating {
    looked: Time,
    /// Whether the objects were executing then.
    was_busy: bool,
    taken: Duration,
    /// Since when a snapshot is being taken here.
    begun: Option<Time>,
    /// From the decision of its checkpoint until the last snapshot was durable here, the turns of others included.
    snapshot: Duration,
}

impl Repeating {
    /// Whether the objects have calls that they have not answered: after every input.
    pub(crate) fn look(&mut self, now: Time, is_busy: bool) {
        if self.was_busy {
            self.taken = self.taken + now.since(self.looked);
        }
        (self.looked, self.was_busy) = (now, is_busy);
    }

    /// What is executed from here on is repeated.
    pub(crate) fn checkpoint_decided(&mut self, is_taken_here: bool) {
        self.taken = Duration::ZERO;
        if is_taken_here {
            self.begun = Some(self.looked);
        }
    }

    /// The snapshot is durable.
    pub(crate) fn snapshot_taken(&mut self, now: Time) {
        if let Some(begun) = self.begun.take() {
            self.snapshot = now.since(begun);
        }
    }

    /// Whether it is worth a snapshot: it takes `least`, and so much longer than a snapshot that these take a small share of the time.
    pub(crate) fn is_long(&self, least: Duration) -> bool {
        let share = Duration(self.snapshot.0.saturating_mul(REPEATING_SHARE));
        self.taken >= least.max(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(0) + Duration::from_millis(ms)
    }

    #[test]
    fn only_the_time_in_which_objects_execute_counts_and_a_checkpoint_ends_it() {
        let mut repeating = Repeating::default();
        let least = Duration::from_millis(1_000);
        repeating.look(at(5_000), true);
        repeating.look(at(5_400), false);
        repeating.look(at(9_000), true);
        repeating.look(at(9_599), true);
        assert!(!repeating.is_long(least));
        repeating.look(at(9_600), false);
        assert!(repeating.is_long(least));
        repeating.checkpoint_decided(false);
        assert!(!repeating.is_long(least));
    }

    #[test]
    fn snapshots_that_take_long_are_rarely_asked_for() {
        let mut repeating = Repeating::default();
        let least = Duration::from_millis(1_000);
        repeating.look(at(0), true);
        repeating.checkpoint_decided(true);
        repeating.look(at(500), true);
        repeating.snapshot_taken(at(500));
        repeating.look(at(500 * REPEATING_SHARE - 1), true);
        assert!(!repeating.is_long(least));
        repeating.look(at(500 * REPEATING_SHARE), true);
        assert!(repeating.is_long(least));
    }
}
