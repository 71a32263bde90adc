//! Calls to come: timers that an object sets, and messages to other objects.

use super::{MethodRun, Turns, is_small, turns};
use crate::hooks;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorate_types::{Duration, Timer, Wall};

/// Timers that one object may have set.
const TIMERS_MAX: usize = 10_000;

/// Stands before the call of a timer that was put off; see [`leave_out`]. No call begins so.
const PUT_OFF: u8 = 0;

/// Stands before the call of a message with the result of an effect, as `quorate._outbox` sends it. No call begins so.
const RESULT: u8 = 1;

/// Sets a timer of the running object: the encoded call runs after so many nanoseconds, and if `every_ns` is not zero then again
/// after each such span. Returns its number; `None` where nothing runs.
#[pyfunction]
pub(crate) fn set_timer(
    call: &Bound<'_, PyBytes>,
    after_ns: u64,
    every_ns: u64,
) -> PyResult<Option<u64>> {
    let py = call.py();
    is_small(py, call.as_bytes(), "what a timer passes to its method")?;
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let Some(run) = run else { return Ok(None) };
    let timers = &mut agendas.of(run.object).timers;
    if timers.len() >= TIMERS_MAX {
        let text = format!("{TIMERS_MAX} timers of this object are set already: cancel some");
        return Err(hooks::error(py, "Overloaded", text));
    }
    Ok(Some(timers.set(Timer {
        at: Wall(run.now.0.saturating_add(after_ns)),
        every: Duration(every_ns),
        payload: call.as_bytes().to_vec().into(),
    })))
}

/// Has another object do the encoded call, as soon as agreed time goes on after the run. Says whether a method runs that can send.
/// A question goes out even if the call leaves no trace.
#[pyfunction]
#[pyo3(signature = (number, call, is_question=false))]
pub(crate) fn send_message(
    number: u32,
    call: &Bound<'_, PyBytes>,
    is_question: bool,
) -> PyResult<bool> {
    let py = call.py();
    is_small(py, call.as_bytes(), "a message")?;
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let Some(run) = run else { return Ok(false) };
    let sent = [&run.messages, &run.questions].map(|sent| sent.get(&number).map_or(0, Vec::len));
    let set = agendas.get(number).map_or(0, |agenda| agenda.timers.len());
    if set + sent[0] + sent[1] >= TIMERS_MAX {
        let text = format!(
            "{TIMERS_MAX} messages to one object, or changes of all objects, are on their way already: send fewer in one \
             call, or try again when some have arrived"
        );
        return Err(hooks::error(py, "Overloaded", text));
    }
    let sent = match is_question {
        true => &mut run.questions,
        false => &mut run.messages,
    };
    let payload = call.as_bytes().to_vec().into();
    sent.entry(number).or_default().push(payload);
    Ok(true)
}

/// The run is over, and what it did stays: its messages are on their way.
pub(super) fn send_all(turns: &mut Turns, run: &MethodRun) {
    for (number, calls) in &run.messages {
        if !turns.objects.contains_key(number) {
            continue;
        }
        let timers = &mut turns.agendas.of(*number).timers;
        for payload in calls {
            timers.set(Timer {
                at: run.now,
                every: Duration::ZERO,
                payload: payload.clone(),
            });
        }
    }
}

/// A tick leaves out the first `count` timers of an object that are due. Of the group's own objects all are put off, of others only
/// results of effects; what was put off before is dropped.
pub(crate) fn leave_out(object: u32, now: Wall, count: usize, is_own: bool) {
    let mut turns = turns();
    let Some(agenda) = turns.agendas.get_mut(object).filter(|_| count > 0) else {
        return;
    };
    agenda.timers.leave_out(now, count, |payload| {
        let outlives = match payload.first() {
            Some(&PUT_OFF) => false,
            Some(&RESULT) => true,
            _ => is_own,
        };
        outlives.then(|| [&[PUT_OFF], unmarked(payload)].concat().into())
    });
}

/// Whether the first timer of an object was put off. What is set later is not due before it.
pub(crate) fn is_put_off(object: u32) -> bool {
    let turns = turns();
    let agenda = turns.agendas.get(object);
    let first = agenda.and_then(|agenda| agenda.timers.first());
    first.is_some_and(|payload| payload.first() == Some(&PUT_OFF))
}

/// The call of a timer.
pub(crate) fn unmarked(payload: &[u8]) -> &[u8] {
    match payload {
        [PUT_OFF | RESULT, call @ ..] => call,
        call => call,
    }
}

/// Takes a timer of the running object back; says whether it was set. `None` where nothing runs.
#[pyfunction]
pub(crate) fn cancel_timer(number: u64) -> Option<bool> {
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let agenda = agendas.get_mut(run.as_ref()?.object);
    Some(agenda.is_some_and(|agenda| agenda.timers.cancel(number)))
}

/// Whether a timer of the running object is still to come; `None` where nothing runs.
#[pyfunction]
pub(crate) fn is_timer_set(number: u64) -> Option<bool> {
    let turns = turns();
    let agenda = turns.agendas.get(turns.run.as_ref()?.object);
    Some(agenda.is_some_and(|agenda| agenda.timers.is_set(number)))
}
