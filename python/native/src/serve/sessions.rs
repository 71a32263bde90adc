//! Steps of a slot: calls, which may park, and what objects do when a session is over.

use super::{OUT_OF_MEMORY, Server};
use crate::frames::{
    DONE, FrameBody, STEP_CALL, STEP_END, STEP_END_UNTOLD, STEP_RESUME, STEP_SKIPPED, STEP_TICK,
    STEP_TICK_UNTOLD,
};
use crate::turn::{self, Parked, Wakes};
use crate::{hooks, steps};
use pyo3::exceptions::{PyConnectionError, PyMemoryError};
use pyo3::prelude::*;
use quorate_types::{CallPlace, CommandId, SessionId, Slot, Wall};

/// What an object does then, if its class has it. Callers cannot name it.
pub(super) const ON_SESSION_END: &str = "on_session_end";

impl<'py> Server<'py> {
    /// Does the next step of a frame and appends its result. Returns its answers to parked calls, or none where it took too many
    /// steps of code, or where what ran of an undo before it failed.
    #[inline]
    pub(super) fn step(&mut self, body: &mut FrameBody<'_>, index: u32) -> PyResult<Option<Wakes>> {
        let kind = body.bytes(1)?[0];
        let slot = Slot(self.slot);
        let place = CallPlace { slot, index };
        if kind != STEP_CALL {
            self.undoing.spoil();
        }
        match kind {
            STEP_CALL => {
                let session = SessionId(body.u64()?);
                let sequence = body.u64()?;
                let object = body.u32()?;
                let length = body.u32()? as usize;
                let payload = body.bytes(length)?;
                let caller = Some(CommandId { session, sequence });
                turn::begin(object, caller, place, Wall(self.wall_ns));
                self.activity.begin(self.slot, index, object);
                let kept = self.before_call(object, index, payload)?;
                if self.undoing.has_failed() {
                    return Ok(None);
                }
                let start = self.outbox.0.len();
                let is_spent = self.is_spent_by(object, payload)?;
                if let Some(kept) = kept {
                    self.after_call(kept, start)?;
                }
                self.tell_followers(object, payload, is_spent)?;
                let may_have_changed = turn::leaves_trace();
                let mut answers = turn::end();
                if is_spent {
                    return Ok(None);
                }
                self.follow_directory(object, &mut answers)?;
                if may_have_changed {
                    self.try_waiting(object, place, &mut answers)?;
                }
                Ok(Some(answers))
            }
            STEP_END | STEP_END_UNTOLD => {
                let session = SessionId(body.u64()?);
                self.end_session(session, place, kind == STEP_END)
            }
            STEP_RESUME => {
                let session = SessionId(body.u64()?);
                self.outbox.0.push(DONE);
                Ok(Some(turn::session_resumed(session)))
            }
            STEP_TICK | STEP_TICK_UNTOLD => self.tick(place, kind == STEP_TICK),
            STEP_SKIPPED => {
                let object = body.u32()?;
                self.outbox.0.push(DONE);
                let mut answers = Wakes::new();
                self.end_tried(object, &mut answers)?;
                Ok(Some(answers))
            }
            unknown => Err(PyConnectionError::new_err(format!(
                "the node sent a step of unknown kind {unknown}: it speaks another protocol version"
            ))),
        }
    }

    /// A session is over: its parked calls go, then the objects that know it are told.
    fn end_session(
        &mut self,
        session: SessionId,
        place: CallPlace,
        is_told: bool,
    ) -> PyResult<Option<Wakes>> {
        let known = turn::session_ended(session);
        let start = self.outbox.0.len();
        self.outbox.0.push(DONE);
        let mut answers = Wakes::new();
        for object in known {
            if !is_told {
                self.end_tried(object, &mut answers)?;
                continue;
            }
            let Some(target) = self.objects.get(&object).cloned() else {
                continue;
            };
            let Ok(hook) = target.get_type().getattr(ON_SESSION_END) else {
                continue;
            };
            turn::begin(object, None, place, Wall(self.wall_ns));
            self.activity.begin(place.slot.0, place.index, object);
            let run = || hook.call1((&target, session.0)).map(drop);
            let is_spent = self.run_uncalled(object, ON_SESSION_END, run)?;
            self.tell_followers_of_end(object, session, is_spent)?;
            answers.extend(turn::end());
            if is_spent {
                self.outbox.0.truncate(start);
                self.spent(start, object, ON_SESSION_END)?;
                return Ok(None);
            }
            self.try_waiting(object, place, &mut answers)?;
        }
        Ok(Some(answers))
    }

    /// Runs what nobody calls within the budget; what it raises goes to the log, because no caller waits for it.
    pub(super) fn run_uncalled(
        &mut self,
        object: u32,
        method: &str,
        run: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<bool> {
        steps::begin(self.budget_of(object));
        let ended = run();
        let is_spent = steps::end();
        match ended {
            Err(error) if !is_spent => {
                if error.is_instance_of::<PyMemoryError>(self.host.py()) {
                    std::process::exit(OUT_OF_MEMORY);
                }
                let error = error.into_value(self.host.py());
                self.host
                    .call_method1("hook_raised", (object, method, error))?;
            }
            Ok(()) | Err(_) => {}
        }
        Ok(is_spent)
    }
}

/// Refuses what a method returns that asked to park.
#[cold]
pub(super) fn may_park(value: &Bound<'_, PyAny>) -> PyResult<()> {
    if !value.is_instance_of::<Parked>() {
        let text = "the method called quorate.park() and returned something else; what it changed stays: write \
                    `return quorate.park()`";
        return Err(hooks::error(value.py(), "ParkLost", text.to_owned()));
    }
    Ok(())
}
