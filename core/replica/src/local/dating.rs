//! When this node applied the newest command of a session, estimated from samples of (served time, applied slot).
//!
//! Nothing here runs per command. A sample dates all slots that were applied since the one before, so a command looks newer
//! than it is, never older. Old samples are thinned out: the older a slot, the coarser its date.

use crate::limits::{ACTIVITY_SAMPLES, ACTIVITY_SHARE};
use crate::local::served::ServedTime;
use quorate_types::Slot;
use std::collections::VecDeque;

/// Samples since one moment.
#[derive(Debug)]
pub(crate) struct SlotDates {
    /// Ascending in both. Invariant: never empty; the first one dates all slots up to its own.
    samples: VecDeque<(ServedTime, Slot)>,
}

impl SlotDates {
    /// Counts everything up to `applied` as of `now`.
    pub(crate) fn since(now: ServedTime, applied: Slot) -> SlotDates {
        SlotDates {
            samples: VecDeque::from([(now, applied)]),
        }
    }

    /// Records that the slots up to `applied` are applied.
    pub(crate) fn sample(&mut self, now: ServedTime, applied: Slot) {
        let newest = self.samples.back().map(|(_, slot)| *slot);
        if newest >= Some(applied) {
            return;
        }
        self.samples.push_back((now, applied));
        if self.samples.len() > ACTIVITY_SAMPLES {
            self.thin_out(now);
        }
    }

    /// The time by which `slot` was applied; `None` if no sample covers it.
    pub(crate) fn of(&self, slot: Slot) -> Option<ServedTime> {
        let index = self.samples.partition_point(|(_, applied)| *applied < slot);
        self.samples.get(index).map(|(at, _)| *at)
    }

    /// Drops samples whose slots the next one dates well enough; then, if they are still too many, every second one.
    fn thin_out(&mut self, now: ServedTime) {
        let all: Vec<(ServedTime, Slot)> = self.samples.drain(..).collect();
        for (index, sample) in all.iter().enumerate() {
            let before = self.samples.back().map(|(at, _)| *at);
            let is_dated = match (before, all.get(index + 1)) {
                (Some(before), Some((next, _))) => {
                    next.since(before).0 <= now.since(*next).0 / ACTIVITY_SHARE
                }
                (None, _) | (_, None) => false,
            };
            if !is_dated {
                self.samples.push_back(*sample);
            }
        }
        if self.samples.len() > ACTIVITY_SAMPLES {
            let last = self.samples.len() - 1;
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1 || index > last
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Duration;

    fn at(nanos: u64) -> ServedTime {
        ServedTime::LONG_AGO.after(Duration(nanos))
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_slot_is_dated_by_the_first_sample_that_covers_it() {
        let mut dates = SlotDates::since(at(10), Slot(5));
        dates.sample(at(20), Slot(5));
        dates.sample(at(30), Slot(8));
        assert_eq!(dates.of(Slot(2)), Some(at(10)));
        assert_eq!(dates.of(Slot(5)), Some(at(10)));
        assert_eq!(dates.of(Slot(6)), Some(at(30)));
        assert_eq!(dates.of(Slot(9)), None);
    }

    #[test]
    fn an_hour_of_samples_takes_little_room_and_makes_nothing_look_older_or_much_newer() {
        let mut dates = SlotDates::since(at(0), Slot(0));
        let step = SECOND / 16;
        let count = 3600 * 16;
        for slot in 1..=count {
            dates.sample(at(slot * step), Slot(slot));
            assert!(dates.samples.len() <= ACTIVITY_SAMPLES + 1);
        }
        let now = at(count * step);
        for slot in 1..=count {
            let found = dates.of(Slot(slot)).expect("it is covered");
            let real = at(slot * step);
            assert!(found >= real);
            let bound = Duration(now.since(real).0 / 8).max(Duration(2 * step));
            assert!(found.since(real) <= bound, "{slot}: {found:?} for {real:?}");
        }
    }
}
