//! What an object may do in its turn besides answering: let the caller wait, answer callers that wait, and set timers.

use crate::limits::{PARKED_MAX, TIMERS_MAX};
use bytes::Bytes;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Agenda, CallPlace, CommandId, Deadline, Duration, LaterAnswer, Outcome, Stamp, Timer, Wall,
};

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With this answer.
    Now(Outcome),
    /// Its caller waits until a later step answers it by [`Turn::answer`]. What the call changed stays.
    Parked,
    /// The same, until agreed time reaches the deadline at most.
    ParkedUntil(Deadline),
}

/// One turn of an object: a call, a timer, or the end of a session.
pub struct Turn<'a> {
    step: RunningStep,
    agenda: &'a mut Agenda,
    /// Calls of the whole group that were parked when the turn began.
    all_parked: usize,
    answers: &'a mut Vec<LaterAnswer>,
}

/// The step of whose turn it is.
#[derive(Clone, Copy)]
pub(crate) struct RunningStep {
    /// Its index.
    pub(crate) by: u32,
    /// Agreed time.
    pub(crate) now: Wall,
    /// The call, and its place as a number.
    pub(crate) caller: Option<(CommandId, u64)>,
}

impl RunningStep {
    /// Nobody calls.
    pub(crate) fn new(by: u32, stamp: Stamp) -> RunningStep {
        let (now, caller) = (stamp.wall, None);
        RunningStep { by, now, caller }
    }

    pub(crate) fn of_call(place: CallPlace, stamp: Stamp, id: CommandId) -> RunningStep {
        let token = place.slot.0 << 16 | u64::from(place.index);
        RunningStep {
            caller: Some((id, token)),
            ..RunningStep::new(place.index, stamp)
        }
    }
}

impl Turn<'_> {
    pub(crate) fn new<'a>(
        step: RunningStep,
        agenda: &'a mut Agenda,
        all_parked: usize,
        answers: &'a mut Vec<LaterAnswer>,
    ) -> Turn<'a> {
        Turn {
            step,
            agenda,
            all_parked,
            answers,
        }
    }

    /// The call whose turn it is; `None` where nobody calls. The object is told of the end of the caller's session.
    pub fn caller(&mut self) -> Option<CommandId> {
        let (caller, _) = self.step.caller?;
        self.agenda.parked.know(caller.session);
        Some(caller)
    }

    /// A number of the running call that is larger than those of all calls before it: its place in the log. 0 where nobody calls.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.step.caller.map_or(0, |(_, token)| token)
    }

    /// Whether one more call may park: an object asks before it changes anything.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.all_parked < PARKED_MAX
    }

    /// Calls of this object that wait.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.agenda.parked.len()
    }

    /// Whether a call waits for its answer.
    #[must_use]
    pub fn is_parked(&self, id: CommandId) -> bool {
        self.agenda.parked.is_parked(id)
    }

    /// Answers a parked call. Says whether it was parked: it may be answered already, its deadline past, or its session over.
    pub fn answer(&mut self, id: CommandId, outcome: Outcome) -> bool {
        let was_parked = self.agenda.parked.take(id);
        if was_parked {
            let by = self.step.by;
            let is_first = self.answers.last().is_none_or(|last| last.by != by);
            if is_first || !planted(Plant::FirstOfManyWoken) {
                self.answers.push(LaterAnswer { by, id, outcome });
            }
        }
        was_parked
    }

    /// The agreed time.
    #[must_use]
    pub fn now(&self) -> Wall {
        self.step.now
    }

    /// The agreed time when `span` from here has passed.
    #[must_use]
    pub fn after(&self, span: Duration) -> Wall {
        Wall(self.step.now.0.saturating_add(span.0))
    }

    /// Has [`crate::Object::timer`] called with `payload` at an agreed time, and if `every` is not zero again after each such span.
    /// Returns the timer's number; `None` where the object has as many as it may.
    pub fn set_timer(&mut self, at: Wall, every: Duration, payload: Bytes) -> Option<u64> {
        let timer = Timer { at, every, payload };
        (self.agenda.timers.len() < TIMERS_MAX).then(|| self.agenda.timers.set(timer))
    }

    /// Takes a timer back. Says whether it was set.
    pub fn cancel_timer(&mut self, number: u64) -> bool {
        self.agenda.timers.cancel(number)
    }
}
