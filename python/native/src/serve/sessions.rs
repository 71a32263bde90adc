//! Steps of a slot: calls, which may park, and what objects do when a session is over.

use super::Server;
use crate::frames::{DONE, FrameBody, PARKED, STEP_CALL, STEP_END, STEP_END_UNTOLD};
use crate::turn::{self, MethodRun, Parked};
use crate::{hooks, steps};
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;
use quorate_types::{CallPlace, CommandId, SessionId, Slot};

/// What an object does then, if its class has it. Callers cannot name it.
const ON_SESSION_END: &str = "on_session_end";

impl<'py> Server<'py> {
    /// Does the next step of a frame. Returns how many entries were appended, or none where it took too many steps of code.
    #[inline]
    pub(super) fn step(&mut self, body: &mut FrameBody<'_>, index: u32) -> PyResult<Option<u32>> {
        let kind = body.bytes(1)?[0];
        let session = SessionId(body.u64()?);
        let slot = Slot(self.slot);
        let place = CallPlace { slot, index };
        match kind {
            STEP_CALL => {
                let sequence = body.u64()?;
                let object = body.u32()?;
                let length = body.u32()? as usize;
                let payload = body.bytes(length)?;
                turn::begin(object, Some(CommandId { session, sequence }), place);
                self.activity.begin(self.slot, index, object);
                let is_spent = self.is_spent_by(object, payload)?;
                let run = turn::end();
                Ok((!is_spent).then(|| 1 + self.append_answers(run)))
            }
            STEP_END | STEP_END_UNTOLD => self.end_session(session, place, kind == STEP_END),
            unknown => Err(PyConnectionError::new_err(format!(
                "the node sent a step of unknown kind {unknown}: it speaks another protocol version"
            ))),
        }
    }

    fn append_answers(&mut self, run: Option<MethodRun>) -> u32 {
        run.map_or(0, |run| {
            self.outbox.0.extend_from_slice(&run.answers);
            run.answered
        })
    }

    /// Appends that a call waits: its method asked to park and returned.
    #[cold]
    pub(super) fn parked(&mut self, start: usize, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if !value.is_instance_of::<Parked>() {
            let text = "the method called quorate.park() and returned something else; what it changed stays: write \
                        `return quorate.park()`";
            return Err(hooks::error(value.py(), "ParkLost", text.to_owned()));
        }
        turn::park_call();
        self.outbox.0.truncate(start);
        self.outbox.0.push(PARKED);
        Ok(())
    }

    /// A session is over: its parked calls go, then the objects that know it are told.
    fn end_session(
        &mut self,
        session: SessionId,
        place: CallPlace,
        is_told: bool,
    ) -> PyResult<Option<u32>> {
        let known = turn::session_ended(session);
        self.outbox.0.push(DONE);
        let mut entries = 1;
        for object in known.into_iter().filter(|_| is_told) {
            let Some(target) = self.objects.get(&object).cloned() else {
                continue;
            };
            let Ok(hook) = target.get_type().getattr(ON_SESSION_END) else {
                continue;
            };
            turn::begin(object, None, place);
            self.activity.begin(place.slot.0, place.index, object);
            let answer = self.outbox.0.len();
            let is_spent = self.run_hook(object, &hook, &target, session)?;
            let run = turn::end();
            if is_spent {
                self.spent(answer, object, ON_SESSION_END)?;
                return Ok(None);
            }
            entries += self.append_answers(run);
        }
        Ok(Some(entries))
    }

    /// Runs it within the budget; what it raises goes to the log, because no caller waits for it.
    fn run_hook(
        &mut self,
        object: u32,
        hook: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        session: SessionId,
    ) -> PyResult<bool> {
        steps::begin(self.budget_of(object));
        let ended = hook.call1((target, session.0));
        let is_spent = steps::end();
        if let Err(error) = ended
            && !is_spent
        {
            let error = error.into_value(target.py());
            self.host.call_method1("hook_raised", (object, error))?;
        }
        Ok(is_spent)
    }
}
