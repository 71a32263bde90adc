//! What is to come for objects, kept as it was before a slot that may be undone.

use super::agendas::AgendasBefore;
use super::turns;

/// From here on what is to come for objects is kept as it is before it changes.
pub(crate) fn keep_agendas() {
    turns().agendas.keep_changed();
}

/// Ends that; returns what was kept.
pub(crate) fn take_kept_agendas() -> AgendasBefore {
    turns().agendas.take_kept()
}

/// What is to come is what it was then.
pub(crate) fn put_agendas(before: AgendasBefore) {
    turns().agendas.put_back(before);
}

/// Runs what undoes a call of an object, before the call or after, as a read of it: in no run, so that it parks nothing, answers
/// nobody, and sets no timers.
pub(crate) fn as_read<T>(object: u32, run: impl FnOnce() -> T) -> T {
    let mut now = turns();
    let outer = (now.run.take(), now.read.replace(object));
    drop(now);
    let done = run();
    let mut now = turns();
    (now.run, now.read) = outer;
    done
}
