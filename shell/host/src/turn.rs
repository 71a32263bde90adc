//! What an object may do in its turn besides answering: let the caller wait, and answer callers that wait.

use quorate_types::{CommandId, LaterAnswer, Outcome, ParkedCalls};

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With this answer.
    Now(Outcome),
    /// Its caller waits until a later step answers it by [`Turn::answer`]. What the call changed stays.
    Parked,
}

/// One turn of an object: a call, or the end of a session.
pub struct Turn<'a> {
    /// Index of the step.
    by: u32,
    caller: Option<CommandId>,
    parked: &'a mut ParkedCalls,
    has_room: bool,
    answers: &'a mut Vec<LaterAnswer>,
}

impl Turn<'_> {
    pub(crate) fn new<'a>(
        by: u32,
        caller: Option<CommandId>,
        parked: &'a mut ParkedCalls,
        has_room: bool,
        answers: &'a mut Vec<LaterAnswer>,
    ) -> Turn<'a> {
        Turn {
            by,
            caller,
            parked,
            has_room,
            answers,
        }
    }

    /// The call whose turn it is; `None` at the end of a session. The object is told of the end of the caller's session.
    pub fn caller(&mut self) -> Option<CommandId> {
        let caller = self.caller?;
        self.parked.know(caller.session);
        Some(caller)
    }

    /// Whether one more call may park: an object asks before it changes anything.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.has_room
    }

    /// Whether a call waits for its answer.
    #[must_use]
    pub fn is_parked(&self, id: CommandId) -> bool {
        self.parked.is_parked(id)
    }

    /// Answers a parked call. Says whether it was parked: it may be answered already, or its session over.
    pub fn answer(&mut self, id: CommandId, outcome: Outcome) -> bool {
        let was_parked = self.parked.take(id);
        if was_parked {
            let by = self.by;
            self.answers.push(LaterAnswer { by, id, outcome });
        }
        was_parked
    }
}
