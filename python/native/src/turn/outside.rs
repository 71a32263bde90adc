//! What calls want done outside of the objects.

use super::{id, turns};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The node is to be told that something is to be done.
static IS_OUTSIDE: AtomicBool = AtomicBool::new(false);

/// How many values from outside the run asked for before this one; `None` where no call is executed. A call that is tried again begins
/// with the first.
#[pyfunction]
pub(crate) fn next_capture() -> Option<u32> {
    let mut turns = turns();
    let run = turns.run.as_mut().filter(|run| run.caller.is_some())?;
    run.captures += 1;
    Some(run.captures - 1)
}

/// Something is to be done outside of the objects.
#[pyfunction]
pub(crate) fn tell_outside() {
    IS_OUTSIDE.store(true, Ordering::Relaxed);
}

/// Whether that is to be told the node.
pub(crate) fn take_outside() -> bool {
    IS_OUTSIDE.load(Ordering::Relaxed) && IS_OUTSIDE.swap(false, Ordering::Relaxed)
}

/// Whether a call waits at that object.
#[pyfunction]
pub(crate) fn waits_at(number: u32, session: u64, sequence: u64) -> bool {
    let turns = turns();
    let agenda = turns.agendas.get(number);
    agenda.is_some_and(|agenda| agenda.parked.is_parked(id(session, sequence)))
}
