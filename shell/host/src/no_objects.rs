//! The host of a witness: there are no objects. No process is started, and nothing may be executed or asked.

use crate::event::HostEvent;
use quorate_types::Slot;

/// What is to be told.
#[derive(Default)]
pub(crate) struct NoObjects {
    events: Vec<HostEvent>,
}

impl NoObjects {
    /// A snapshot is durable: nobody takes its images over.
    pub(crate) fn restore(&mut self, slot: Slot) {
        self.events.push(HostEvent::Restored { slot });
    }

    pub(crate) fn poll(&mut self, events: &mut Vec<HostEvent>) {
        events.append(&mut self.events);
    }
}
