//! Calls that wait until something holds: they leave no trace, and are tried again from their start.
//!
//! The state from before a call is kept only for methods that may wait so, which the class tells.

use super::{Ended, Server};
use crate::frames::PARKED;
use crate::turn::{self, Undo, Wakes};
use crate::{decode, encode, environment, steps};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorate_types::{Agenda, CallPlace, CommandId, Wall};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an object was before a call.
pub(super) struct Untouched {
    state: Vec<u8>,
    agenda: Arc<Agenda>,
}

impl Server<'_> {
    /// Keeps what the object is before a call of a method that may wait until something holds.
    #[inline]
    pub(super) fn keep_before(
        &mut self,
        object: u32,
        payload: &[u8],
    ) -> PyResult<Option<Untouched>> {
        if self.waiters.is_empty() {
            return Ok(None);
        }
        let py = self.host.py();
        let method = decode::method(py, payload)?;
        let may_wait = self.waiters.get(&object);
        let target = self.objects.get(&object);
        let Some(target) =
            target.filter(|_| may_wait.is_some_and(|methods| methods.contains(method)))
        else {
            return Ok(None);
        };
        let state = encode::state(target)?;
        let agenda = turn::keep_before();
        Ok(Some(Untouched { state, agenda }))
    }

    /// How the call ended, after what it has changed was undone where it leaves no trace.
    #[inline]
    pub(super) fn left_trace(
        &mut self,
        before: Option<Untouched>,
        object: u32,
        payload: &[u8],
        ended: PyResult<Ended>,
    ) -> PyResult<PyResult<Ended>> {
        let Some(before) = before else {
            return Ok(ended);
        };
        match turn::undo() {
            Undo::Possible if !steps::is_spent() => Ok(ended),
            Undo::Impossible | Undo::Possible | Undo::Asked => {
                self.roll_back(object, before)?;
                Ok(ended)
            }
            Undo::TryAgain => {
                self.roll_back(object, before)?;
                let is_kept = turn::is_small(
                    self.host.py(),
                    payload,
                    "a call that waits until something holds",
                );
                if is_kept.is_ok() {
                    turn::wait_with(payload);
                }
                Ok(is_kept.map(|()| Ended::Waits))
            }
        }
    }

    /// Gives the object back what it was before the call.
    fn roll_back(&mut self, object: u32, before: Untouched) -> PyResult<()> {
        let image = PyBytes::new(self.host.py(), &before.state);
        let undone = self.host.call_method1("undone", (image,))?;
        turn::undone(object, undone.clone().unbind(), before.agenda);
        self.objects.insert(object, undone);
        Ok(())
    }

    /// The object may have changed: tries the calls that wait for that, first come, first served, until none of them changes it.
    pub(super) fn try_waiting(
        &mut self,
        object: u32,
        place: CallPlace,
        answers: &mut Wakes,
    ) -> PyResult<()> {
        let mut waiting = VecDeque::from(turn::tried(object));
        // So many in front have not seen the last change.
        let mut unseen = waiting.len();
        while unseen > 0
            && let Some(id) = waiting.pop_front()
        {
            // They are in memory until the step is over.
            if answers.iter().map(Vec::len).sum::<usize>() > turn::ANSWERS_BYTES_MAX {
                return Ok(());
            }
            unseen -= 1;
            if self.try_again(object, id, place, answers)? {
                unseen = waiting.len();
            } else {
                waiting.push_back(id);
            }
        }
        Ok(())
    }

    /// A step is left out because it ended every host. One of the calls that would have been tried after it may have done that, so
    /// they end too.
    #[cold]
    pub(super) fn end_tried(&mut self, object: u32, answers: &mut Wakes) -> PyResult<()> {
        for id in turn::tried(object) {
            let told = self.host.call_method0("skipped")?;
            let told = encode::value(&told, "exception")?;
            if turn::end_tried(object, id) {
                answers.push(turn::answer_of(id, true, &told));
            }
        }
        Ok(())
    }

    /// Says whether the call may have changed the object.
    fn try_again(
        &mut self,
        object: u32,
        id: CommandId,
        place: CallPlace,
        answers: &mut Wakes,
    ) -> PyResult<bool> {
        let now = Wall(self.wall_ns);
        let Some((origin, payload)) = turn::try_again(object, id, now) else {
            return Ok(false);
        };
        self.undoing.spoil();
        // Each try draws other random numbers than the step that it follows.
        let stream = origin.slot.0.rotate_left(32) ^ u64::from(origin.index) ^ self.entropy;
        environment::enter(self.wall_ns, stream, place.slot.0, place.index);
        let start = self.outbox.0.len();
        let is_spent = self.is_spent_by(object, &payload)?;
        self.tell_followers(object, &payload, is_spent)?;
        let may_have_changed = turn::leaves_trace();
        let woken = turn::end();
        let ended = self.outbox.0.split_off(start);
        if ended[0] != PARKED {
            answers.push(turn::ended_answer(id, &ended));
        }
        answers.extend(woken);
        Ok(may_have_changed)
    }
}
