//! How long a new process would take to catch up, where processes are replaced because something is undone.
//!
//! The bytes of the work since the base image say nothing about that: calls of milliseconds weigh as much as those of microseconds.
//! So the work is timed, and an image of the host's own is due once repeating it takes too long. A host that never executes ahead of
//! decisions makes none for that: its processes are replaced only when they crash, one at a time.

use crate::limits::{CATCHING_UP_MAX, IMAGE_SHARE};
use quorate_types::Slot;
use std::time::{Duration, Instant};

/// What the process took for the work that is in no image.
#[derive(Default)]
pub(super) struct CatchingUp {
    /// Whether anything was executed ahead of decisions.
    is_ahead: bool,
    /// For the work since the newest image was asked for, or since the process began.
    taken: Duration,
    /// Since when the process has had work without a pause.
    busy_since: Option<Instant>,
    /// The slot of the image of the host's own that is asked for, and when its turn came.
    asked: Option<(Slot, Option<Instant>)>,
    /// How long the last one took.
    image: Duration,
}

impl CatchingUp {
    /// Something is executed ahead of decisions.
    pub(super) fn goes_ahead(&mut self) {
        self.is_ahead = true;
    }

    /// Whether an image is worth its price: it is asked for at most so often that it takes a small share of the time.
    pub(super) fn is_due(&self) -> bool {
        self.is_ahead && self.taken >= CATCHING_UP_MAX.max(self.image * IMAGE_SHARE)
    }

    /// The host asks for an image of its own, after `slot`.
    pub(super) fn asked(&mut self, slot: Slot) {
        self.taken = Duration::ZERO;
        self.asked = Some((slot, None));
    }

    /// The image is there, or cannot be made.
    pub(super) fn image_ended(&mut self, now: Instant) {
        if let Some((_, Some(since))) = self.asked.take() {
            self.image = now.saturating_duration_since(since);
        }
    }

    /// The process has work.
    pub(super) fn busy(&mut self, now: Instant) {
        self.busy_since.get_or_insert(now);
    }

    /// The process has executed `slot`.
    pub(super) fn executed(&mut self, slot: Slot, now: Instant) {
        if let Some(since) = self.busy_since.replace(now) {
            self.taken += now.saturating_duration_since(since);
        }
        if let Some((_, turn @ None)) = self.asked.as_mut().filter(|(at, _)| *at == slot) {
            *turn = Some(now);
        }
    }

    /// The process has no work.
    pub(super) fn idle(&mut self) {
        self.busy_since = None;
    }

    /// The next process repeats what is in no image, and is timed anew while it does.
    pub(super) fn begins_again(&mut self) {
        self.taken = Duration::ZERO;
        self.busy_since = None;
        self.asked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> impl Fn(Instant) -> Instant {
        move |start| start + Duration::from_millis(ms)
    }

    /// A process that works from `from` until `upto` at one slot.
    fn works(cost: &mut CatchingUp, start: Instant, (slot, from, upto): (u64, u64, u64)) {
        cost.busy(at(from)(start));
        cost.executed(Slot(slot), at(upto)(start));
        cost.idle();
    }

    #[test]
    fn an_image_is_due_once_the_work_since_the_last_takes_too_long_to_repeat() {
        let (mut cost, start) = (CatchingUp::default(), Instant::now());
        let most = u64::try_from(CATCHING_UP_MAX.as_millis()).unwrap();
        works(&mut cost, start, (1, 0, most));
        assert!(!cost.is_due(), "nothing goes ahead here");
        cost.goes_ahead();
        assert!(cost.is_due());
        cost.asked(Slot(1));
        cost.image_ended(at(most)(start));
        works(&mut cost, start, (2, 10 * most, 11 * most - 1));
        assert!(!cost.is_due(), "pauses do not count");
        cost.begins_again();
        works(&mut cost, start, (2, 20 * most, 21 * most - 1));
        assert!(!cost.is_due(), "what is repeated counts once");
        works(&mut cost, start, (3, 22 * most, 22 * most + 1));
        assert!(cost.is_due());
    }

    #[test]
    fn images_that_take_long_are_made_rarely() {
        let (mut cost, start) = (CatchingUp::default(), Instant::now());
        let most = u64::try_from(CATCHING_UP_MAX.as_millis()).unwrap();
        cost.goes_ahead();
        cost.asked(Slot(1));
        works(&mut cost, start, (1, 0, 1));
        cost.image_ended(at(1 + most)(start));
        let rarely = most * u64::from(IMAGE_SHARE);
        works(&mut cost, start, (2, 0, rarely - 2));
        assert!(!cost.is_due());
        works(&mut cost, start, (3, rarely, rarely + 1));
        assert!(cost.is_due());
    }
}
