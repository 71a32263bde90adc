//! A run of an object's code in the host process: who calls, whether the call parks, and which parked calls it answers.
//!
//! The loop of the host begins and ends runs; `quorate.caller`, `quorate.park` and the methods of a `Caller` ask here.

use crate::frames::{ANSWER, RAISED, RETURNED};
use crate::{encode, hooks, serve};
use pyo3::prelude::*;
use quorate_types::{CallPlace, CommandId, ParkedCalls, SessionId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls of a group that may be parked, as of objects written in Rust.
const PARKED_MAX: usize = 10_000;

/// What `quorate.park()` returns, for the method to return it.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Parked;

/// One run: a call, or without a caller what an object does at the end of a session.
pub(crate) struct MethodRun {
    object: u32,
    caller: Option<CommandId>,
    place: CallPlace,
    /// Whether the method has asked to park.
    parks: bool,
    /// Answers to parked calls, as the node reads them.
    pub(crate) answers: Vec<u8>,
    /// How many.
    pub(crate) answered: u32,
}

struct Turns {
    parked: BTreeMap<u32, ParkedCalls>,
    run: Option<MethodRun>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns {
    parked: BTreeMap::new(),
    run: None,
});

fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run begins.
#[inline]
pub(crate) fn begin(object: u32, caller: Option<CommandId>, place: CallPlace) {
    turns().run = Some(MethodRun {
        object,
        caller,
        place,
        parks: false,
        answers: Vec::new(),
        answered: 0,
    });
}

/// The run is over.
#[inline]
pub(crate) fn end() -> Option<MethodRun> {
    turns().run.take()
}

/// Whether the method that has just returned asked to park.
#[inline]
pub(crate) fn parks() -> bool {
    turns().run.as_ref().is_some_and(|run| run.parks)
}

/// The call of the run parks.
pub(crate) fn park_call() {
    let mut turns = turns();
    let Turns { parked, run } = &mut *turns;
    if let Some(run) = run
        && let Some(caller) = run.caller
    {
        parked
            .entry(run.object)
            .or_default()
            .park(caller, run.place);
    }
}

/// A session is over: returns the objects that know it.
pub(crate) fn session_ended(session: SessionId) -> Vec<u32> {
    let mut turns = turns();
    let parked = turns.parked.iter_mut();
    let known = parked.filter_map(|(object, parked)| parked.end(session).then_some(*object));
    known.collect()
}

/// The parked calls of an object, in front of its image.
pub(crate) fn head(object: u32) -> Vec<u8> {
    let mut head = Vec::new();
    match turns().parked.get(&object) {
        Some(parked) => parked.put(&mut head),
        None => ParkedCalls::new().put(&mut head),
    }
    head
}

/// Takes the parked calls of restored objects.
pub(crate) fn restored(parked: BTreeMap<u32, ParkedCalls>) {
    turns().parked = parked;
}

/// Session, sequence and token of the call that is being executed; `None` where there is none. The object hears of the end of
/// its session from now on.
#[pyfunction]
pub(crate) fn current_call() -> Option<(u64, u64, u64)> {
    let mut turns = turns();
    let Turns { parked, run } = &mut *turns;
    let run = run.as_ref()?;
    let caller = run.caller?;
    parked.entry(run.object).or_default().know(caller.session);
    let token = run.place.slot.0 << 16 | u64::from(run.place.index);
    Some((caller.session.0, caller.sequence, token))
}

/// The call that is being executed asks to wait. `None` where no call is executed.
#[pyfunction]
pub(crate) fn park(py: Python<'_>) -> PyResult<Option<Parked>> {
    let mut turns = turns();
    let Turns { parked, run } = &mut *turns;
    let Some(run) = run.as_mut().filter(|run| run.caller.is_some()) else {
        return Ok(None);
    };
    if parked.values().map(ParkedCalls::len).sum::<usize>() >= PARKED_MAX {
        let text = format!(
            "{PARKED_MAX} calls of this group wait already: try again when some were answered"
        );
        return Err(hooks::error(py, "Overloaded", text));
    }
    run.parks = true;
    Ok(Some(Parked))
}

/// Whether a call of the running object is parked.
#[pyfunction]
pub(crate) fn is_parked(session: u64, sequence: u64) -> bool {
    let turns = turns();
    let run = turns.run.as_ref();
    let parked = run.and_then(|run| turns.parked.get(&run.object));
    parked.is_some_and(|parked| parked.is_parked(id(session, sequence)))
}

/// Answers a parked call of the running object with a value, or with an exception as the host describes it. Says whether it was
/// parked.
#[pyfunction]
pub(crate) fn answer_parked(
    session: u64,
    sequence: u64,
    is_error: bool,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    // Encoding runs code of the value's class, which may ask here.
    let mut told = Vec::new();
    encode::value_into(&mut told, value, "value")?;
    serve::is_sendable(value.py(), &told)?;
    let mut turns = turns();
    let Turns { parked, run } = &mut *turns;
    let Some(run) = run else { return Ok(false) };
    let calls = parked.get_mut(&run.object);
    if !calls.is_some_and(|calls| calls.take(id(session, sequence))) {
        return Ok(false);
    }
    run.answers.push(ANSWER);
    run.answers.extend_from_slice(&session.to_le_bytes());
    run.answers.extend_from_slice(&sequence.to_le_bytes());
    run.answers.push(if is_error { RAISED } else { RETURNED });
    run.answers
        .extend_from_slice(&(told.len() as u32).to_le_bytes());
    run.answers.extend_from_slice(&told);
    run.answered += 1;
    Ok(true)
}

fn id(session: u64, sequence: u64) -> CommandId {
    CommandId {
        session: SessionId(session),
        sequence,
    }
}
