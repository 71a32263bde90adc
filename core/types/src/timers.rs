//! The timers of one object: calls that it makes of itself when agreed time has come so far.
//!
//! Part of the object's image, equal on all replicas. Kept by whoever executes the object's calls; it knows no clock.

use crate::image_bytes::{number4, number8, value};
use crate::zoo::{Plant, planted};
use crate::{Duration, NotAnAgenda, Value, Wall};
use bytes::{Buf, BufMut};
use std::collections::{BTreeMap, BTreeSet};

/// Timers by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timers {
    /// The number of the newest one.
    last: u64,
    timers: BTreeMap<u64, Timer>,
    /// Invariant: one for each timer.
    dues: BTreeSet<(Wall, u64)>,
}

/// One call to come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timer {
    /// When it is due, in agreed time.
    pub at: Wall,
    /// It is due again after this time; zero for once.
    pub every: Duration,
    /// What is to be done then, as the object's host reads it.
    pub payload: Value,
}

impl Timers {
    /// None, known to be so before anything runs.
    #[must_use]
    pub const fn new() -> Timers {
        Timers {
            last: 0,
            timers: BTreeMap::new(),
            dues: BTreeSet::new(),
        }
    }

    /// Sets a timer. Returns its number, which no other one of the object ever has.
    pub fn set(&mut self, timer: Timer) -> u64 {
        self.last += 1;
        self.insert(self.last, timer);
        self.last
    }

    /// Takes a timer back; says whether it was set.
    pub fn cancel(&mut self, number: u64) -> bool {
        let timer = self.timers.remove(&number);
        timer.is_some_and(|timer| self.dues.remove(&(timer.at, number)))
    }

    /// Whether a timer is still to come.
    #[must_use]
    pub fn is_set(&self, number: u64) -> bool {
        self.timers.contains_key(&number)
    }

    /// The number of the newest timer: those up to it were set before.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes the first timer that is due at agreed time `now`, of those with numbers up to `last`. One that repeats is set anew for
    /// its first time after `now`: times that were missed together count as one.
    pub fn take_due(&mut self, now: Wall, last: u64) -> Option<Value> {
        let mut dues = self.dues.iter().take_while(|(at, _)| *at <= now);
        let due = *dues.find(|(_, number)| *number <= last)?;
        Some(self.take(due, now).payload)
    }

    /// The first `count` timers that are due at agreed time `now` are left out: each goes, or stays for once with what `stays` makes of
    /// its payload, in its place before those that are due later. One that repeats is also set anew as if it had been taken.
    pub fn leave_out(
        &mut self,
        now: Wall,
        count: usize,
        mut stays: impl FnMut(&Value) -> Option<Value>,
    ) {
        let dues = self.dues.iter().take_while(|(at, _)| *at <= now);
        for due in dues.take(count).copied().collect::<Vec<_>>() {
            let taken = self.take(due, now);
            let Some(payload) = stays(&taken.payload) else {
                continue;
            };
            let once = Timer {
                every: Duration::ZERO,
                payload,
                ..taken
            };
            match taken.every {
                Duration::ZERO => self.insert(due.1, once),
                _ => drop(self.set(once)),
            }
        }
    }

    /// Takes a timer that is due, and sets it anew if it repeats.
    fn take(&mut self, (at, number): (Wall, u64), now: Wall) -> Timer {
        self.dues.remove(&(at, number));
        let timer = self.timers.remove(&number).expect("one for each due");
        let again = planted(Plant::TimerFiresAgain).then_some(Duration(1_000_000_000));
        let every = again.unwrap_or(timer.every);
        if every > Duration::ZERO {
            let missed = (now.0 - at.0) / every.0;
            let at = Wall(at.0.saturating_add((missed + 1).saturating_mul(every.0)));
            let payload = timer.payload.clone();
            let every = timer.every;
            self.insert(number, Timer { at, every, payload });
        }
        timer
    }

    /// What the first one is to do.
    #[must_use]
    pub fn first(&self) -> Option<&Value> {
        let (_, number) = self.dues.first()?;
        self.timers.get(number).map(|timer| &timer.payload)
    }

    /// When the first is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        self.dues.first().map(|(at, _)| *at)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Appends them to an image.
    pub fn put(&self, buf: &mut impl BufMut) {
        buf.put_u64_le(self.last);
        buf.put_u32_le(self.timers.len() as u32);
        for (number, timer) in &self.timers {
            buf.put_u64_le(*number);
            buf.put_u64_le(timer.at.0);
            buf.put_u64_le(timer.every.0);
            buf.put_u32_le(timer.payload.len() as u32);
            buf.put_slice(&timer.payload);
        }
    }

    /// Takes them off the front of an image.
    ///
    /// # Errors
    /// When `image` does not begin with timers, ascending by number.
    pub fn take_from(image: &mut impl Buf) -> Result<Timers, NotAnAgenda> {
        let mut found = Timers::new();
        found.last = number8(image)?;
        for _ in 0..number4(image)? {
            let number = number8(image)?;
            let timer = Timer {
                at: Wall(number8(image)?),
                every: Duration(number8(image)?),
                payload: value(image)?,
            };
            let before = found.timers.last_key_value();
            if before.is_some_and(|(before, _)| *before >= number) || number > found.last {
                return Err(NotAnAgenda);
            }
            found.insert(number, timer);
        }
        Ok(found)
    }

    fn insert(&mut self, number: u64, timer: Timer) {
        self.dues.insert((timer.at, number));
        self.timers.insert(number, timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(at: u64, every: u64, payload: &'static str) -> Timer {
        Timer {
            at: Wall(at),
            every: Duration(every),
            payload: Value::from_static(payload.as_bytes()),
        }
    }

    fn due(timers: &mut Timers, now: u64) -> Option<Value> {
        timers.take_due(Wall(now), timers.last())
    }

    #[test]
    fn timers_are_due_in_the_order_of_their_times_and_once_each() {
        let mut timers = Timers::new();
        let numbers = [(30, "c"), (10, "a"), (10, "b"), (10, "no")]
            .map(|(at, payload)| timers.set(timer(at, 0, payload)));
        assert!(timers.cancel(numbers[3]) && !timers.cancel(numbers[3]));
        assert_eq!(timers.next_due(), Some(Wall(10)));
        assert_eq!(due(&mut timers, 9), None);
        assert_eq!(due(&mut timers, 29).as_deref(), Some(&b"a"[..]));
        assert_eq!(due(&mut timers, 29).as_deref(), Some(&b"b"[..]));
        assert_eq!(due(&mut timers, 29), None);
        assert!(!timers.is_set(numbers[1]) && timers.is_set(numbers[0]));
        assert_eq!(due(&mut timers, 30).as_deref(), Some(&b"c"[..]));
        assert_eq!(timers.next_due(), None);
        assert_eq!(timers.set(timer(1, 0, "d")), 5, "no number comes twice");
    }

    #[test]
    fn what_repeats_keeps_its_beat_and_makes_up_for_missed_times_once() {
        let mut timers = Timers::new();
        let number = timers.set(timer(10, 5, "tick"));
        assert!(due(&mut timers, 11).is_some());
        assert_eq!(timers.next_due(), Some(Wall(15)));
        assert!(due(&mut timers, 34).is_some());
        assert_eq!(due(&mut timers, 34), None);
        assert_eq!(timers.next_due(), Some(Wall(35)));
        assert!(timers.cancel(number));
        assert!(timers.is_empty());
    }

    #[test]
    fn a_timer_that_is_set_while_others_are_due_waits_for_the_next_time() {
        let mut timers = Timers::new();
        timers.set(timer(10, 0, "a"));
        let last = timers.last();
        assert!(timers.take_due(Wall(10), last).is_some());
        timers.set(timer(0, 0, "b"));
        assert_eq!(timers.take_due(Wall(10), last), None);
        assert!(due(&mut timers, 10).is_some());
    }

    #[test]
    fn what_is_left_out_goes_or_stays_in_its_place() {
        let mut timers = Timers::new();
        let numbers = [
            (10, 0, "keep a"),
            (5, 0, "b"),
            (10, 0, "keep c"),
            (12, 9, "keep d"),
        ]
        .map(|(at, every, payload)| timers.set(timer(at, every, payload)));
        timers.set(timer(12, 0, "keep e"));
        timers.set(timer(30, 0, "later"));
        let kept = |payload: &Value| payload.starts_with(b"keep").then(|| payload.slice(4..));
        timers.leave_out(Wall(20), 4, kept);
        assert!(!timers.is_set(numbers[1]) && timers.is_set(numbers[2]));
        assert_eq!(timers.first(), Some(&Value::from_static(b" a")));
        let mut found = Vec::new();
        while let Some(payload) = due(&mut timers, 20) {
            found.push(payload);
        }
        assert_eq!(found, [" a", " c", "keep e", " d"]);
        assert_eq!(
            timers.next_due(),
            Some(Wall(21)),
            "one that repeats keeps its beat"
        );
        assert_eq!(timers.len(), 2);
        timers.leave_out(Wall(30), 9, |_| None);
        assert_eq!(timers.next_due(), Some(Wall(39)));
    }

    #[test]
    fn what_was_written_is_read_and_what_is_wrong_is_refused() {
        let mut timers = Timers::new();
        for at in [30, 10, 20] {
            timers.set(timer(at, at, "payload"));
        }
        timers.cancel(3);
        let mut image = Vec::new();
        timers.put(&mut image);
        let length = image.len();
        image.extend_from_slice(b"state");
        let mut rest = &image[..];
        assert_eq!(Timers::take_from(&mut rest), Ok(timers));
        assert_eq!(rest, b"state");
        for cut in 0..length {
            assert_eq!(Timers::take_from(&mut &image[..cut]), Err(NotAnAgenda));
        }
        let one = (length - 12) / 2;
        let timers = [&image[12 + one..length], &image[12..12 + one]].concat();
        let swapped = [&image[..12], &timers].concat();
        assert_eq!(Timers::take_from(&mut &swapped[..]), Err(NotAnAgenda));
        let mut unborn = image.clone();
        unborn[0] = 1;
        assert_eq!(Timers::take_from(&mut &unborn[..]), Err(NotAnAgenda));
    }
}
