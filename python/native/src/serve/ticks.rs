//! Agreed time has come: callers who have waited for as long as they may are answered, and timers run.

use super::Server;
use crate::decode;
use crate::frames::DONE;
use crate::turn::{self, Wakes, timers};
use pyo3::prelude::*;
use quorate_types::{CallPlace, Outcome, Wall};

/// Timers of one object that run in one tick, as of objects written in Rust; those that are due beyond it wait for the next.
const TIMERS_AT_ONCE: usize = 1_024;

/// The first of the numbers of the group's own objects.
const FIRST_OWN: u32 = u32::MAX - 2;

/// No method, but the message that calls that wait at an object may go on.
const AGAIN: &str = "";

/// Whose timers a tick runs. What outlives a tick that was left out runs apart from the others, which may end hosts again, and they
/// run in a later tick.
#[derive(Clone, Copy)]
enum Whose {
    All,
    /// Of the group's own objects, where one was put off.
    Own,
    /// The first of an object, which was put off: it may be what ended hosts.
    One(u32),
}

impl Whose {
    /// Those of a tick in which these objects have something to do.
    fn at(due: &[u32]) -> Whose {
        let put_off = due.iter().rev().find(|object| timers::is_put_off(**object));
        match put_off {
            None => Whose::All,
            Some(object) if is_own(*object) => Whose::Own,
            Some(object) => Whose::One(*object),
        }
    }

    /// How many of an object.
    fn count(self, object: u32) -> usize {
        match self {
            Whose::All => TIMERS_AT_ONCE,
            Whose::Own => TIMERS_AT_ONCE * usize::from(is_own(object)),
            Whose::One(only) => usize::from(object == only),
        }
    }
}

fn is_own(object: u32) -> bool {
    object >= FIRST_OWN
}

impl Server<'_> {
    /// Does what is due, object by object. A tick that is to leave no trace runs no timers: messages to the group's own objects, and
    /// results of effects, are put off, for others were promised what they do. It drops the rest, and what was put off before.
    #[cold]
    pub(super) fn tick(&mut self, place: CallPlace, is_run: bool) -> PyResult<Option<Wakes>> {
        let now = Wall(self.wall_ns);
        let start = self.outbox.0.len();
        self.outbox.0.push(DONE);
        let mut answers = Wakes::new();
        let due = turn::due(now);
        let whose = Whose::at(&due);
        for object in due {
            for (id, outcome) in turn::take_overdue(object, now) {
                let (is_error, told) = match &outcome {
                    Outcome::Raised(told) => (true, told),
                    Outcome::Returned(told) => (false, told),
                    Outcome::Skipped => continue,
                };
                answers.push(turn::answer_of(id, is_error, told));
            }
            let count = whose.count(object);
            if !is_run {
                if count > 0 {
                    self.end_tried(object, &mut answers)?;
                }
                timers::leave_out(object, now, count, is_own(object));
                continue;
            }
            let last = turn::newest_timer(object);
            for _ in 0..count {
                let Some(call) = turn::take_timer(object, now, last) else {
                    break;
                };
                let Some(answered) = self.run_timer(object, place, &call, start)? else {
                    return Ok(None);
                };
                answers.extend(answered);
            }
        }
        Ok(Some(answers))
    }

    /// Returns the answers to parked calls, or none where it took too many steps of code: then what the tick appended from `start`
    /// on says that instead.
    fn run_timer(
        &mut self,
        object: u32,
        place: CallPlace,
        call: &[u8],
        start: usize,
    ) -> PyResult<Option<Wakes>> {
        let py = self.host.py();
        let Some(target) = self.objects.get(&object).cloned() else {
            return Ok(Some(Wakes::new()));
        };
        let call = timers::unmarked(call);
        let method = decode::method(py, call)?;
        turn::begin(object, None, place, Wall(self.wall_ns));
        self.activity.begin(place.slot.0, place.index, object);
        let is_spent = self.run_uncalled(object, method, || {
            if method == AGAIN {
                return Ok(());
            }
            let call = decode::call(py, call)?;
            let bound = target.getattr(call.method)?;
            bound.call(call.args, call.kwargs.as_ref()).map(drop)
        })?;
        if method != AGAIN {
            self.tell_followers(object, call, is_spent)?;
        }
        let mut answers = turn::end();
        if is_spent {
            self.outbox.0.truncate(start);
            self.spent(start, object, method)?;
            return Ok(None);
        }
        self.follow_directory(object, &mut answers)?;
        self.try_waiting(object, place, &mut answers)?;
        Ok(Some(answers))
    }
}
