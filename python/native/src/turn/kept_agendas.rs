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
