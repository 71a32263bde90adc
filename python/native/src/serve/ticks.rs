//! Agreed time has come: callers who have waited for as long as they may are answered, and timers run.

use super::Server;
use crate::decode;
use crate::frames::DONE;
use crate::turn::{self, Wakes};
use pyo3::prelude::*;
use quorate_types::{CallPlace, Outcome, Wall};

/// Timers of one object that run in one tick, as of objects written in Rust; those that are due beyond it wait for the next.
const TIMERS_AT_ONCE: usize = 1_024;

/// The first of the numbers of the group's own objects.
const FIRST_OWN: u32 = u32::MAX - 2;

/// No method, but the message that calls that wait at an object may go on.
const AGAIN: &str = "";

/// Whether a tick in which it was due has been left out. No call begins so.
fn is_put_off(call: &[u8]) -> bool {
    call.first() == Some(&turn::timers::PUT_OFF)
}

impl Server<'_> {
    /// Does what is due, object by object. A tick that is to leave no trace drops its timers without running them. Messages to the
    /// group's own objects are put off once: what other objects were promised with them must not go with a timer that ends hosts.
    #[cold]
    pub(super) fn tick(&mut self, place: CallPlace, is_run: bool) -> PyResult<Option<Wakes>> {
        let now = Wall(self.wall_ns);
        let start = self.outbox.0.len();
        self.outbox.0.push(DONE);
        let mut answers = Wakes::new();
        for object in turn::due(now) {
            for (id, outcome) in turn::take_overdue(object, now) {
                let (is_error, told) = match &outcome {
                    Outcome::Raised(told) => (true, told),
                    Outcome::Returned(told) => (false, told),
                    Outcome::Skipped => continue,
                };
                answers.push(turn::answer_of(id, is_error, told));
            }
            if !is_run {
                self.end_tried(object, &mut answers)?;
            }
            let last = turn::newest_timer(object);
            let mut put_off = Vec::new();
            for _ in 0..TIMERS_AT_ONCE {
                let Some(call) = turn::take_timer(object, now, last) else {
                    break;
                };
                if is_run {
                    let Some(answered) = self.run_timer(object, place, &call, start)? else {
                        return Ok(None);
                    };
                    answers.extend(answered);
                } else if object >= FIRST_OWN && !is_put_off(&call) {
                    put_off.push(call);
                }
            }
            turn::timers::put_off(object, put_off, now);
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
        let call = match is_put_off(call) {
            true => &call[1..],
            false => call,
        };
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
