//! What is still to come for one object: callers that wait, sessions whose end it hears of, and timers.
//!
//! The part of an object's image that its host keeps beside the state.

use crate::{NotAnAgenda, ParkedCalls, Timers, Wall};
use bytes::{Buf, BufMut};

/// Parked calls and timers of one object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agenda {
    /// Callers that wait, and sessions that the object knows.
    pub parked: ParkedCalls,
    /// Calls that the object makes of itself.
    pub timers: Timers,
}

impl Agenda {
    /// Nothing, known to be so before anything runs.
    #[must_use]
    pub const fn new() -> Agenda {
        Agenda {
            parked: ParkedCalls::new(),
            timers: Timers::new(),
        }
    }

    /// When agreed time first brings something.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        let dues = [self.parked.next_due(), self.timers.next_due()];
        dues.into_iter().flatten().min()
    }

    /// Appends it to an image.
    pub fn put(&self, buf: &mut impl BufMut) {
        self.parked.put(buf);
        self.timers.put(buf);
    }

    /// Takes it off the front of an image.
    ///
    /// # Errors
    /// When `image` does not begin with an agenda.
    pub fn take_from(image: &mut impl Buf) -> Result<Agenda, NotAnAgenda> {
        Ok(Agenda {
            parked: ParkedCalls::take_from(image)?,
            timers: Timers::take_from(image)?,
        })
    }
}
