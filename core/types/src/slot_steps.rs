//! The steps of one slot, on their way to the objects, and what comes back of them.
//!
//! A step is what the objects see of the log: a call, the end of a session, another tenancy of one, or agreed time that has come. Steps execute in the
//! order of their batch. Each has one result, and may besides answer calls that are parked.

use crate::{Batch, Body, CommandId, ObjectId, Outcome, SessionId, Value};

/// One call, as the objects get it.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Its place in the batch of its slot.
    pub index: u32,
    /// The id of the call.
    pub id: CommandId,
    /// The object called.
    pub object: ObjectId,
    /// Method and arguments.
    pub payload: Value,
}

/// The same, borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallRef<'a> {
    /// Its place in the batch of its slot.
    pub index: u32,
    /// The id of the call.
    pub id: CommandId,
    /// The object called.
    pub object: ObjectId,
    /// Method and arguments.
    pub payload: &'a Value,
}

/// The end of a session: its parked calls go, and objects that it called are told. Or of a tenancy of it: its parked calls go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionEnd {
    /// Its place in the batch of its slot.
    pub index: u32,
    /// The session.
    pub session: SessionId,
}

/// What the objects do next.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Execute a call.
    Call(Call),
    /// A session is over.
    End(SessionEnd),
    /// A session has another client: the parked calls of the one before end, as if it had cancelled them.
    Resume(SessionEnd),
    /// What is due at the stamp of the slot happens: deadlines of parked calls, then timers.
    Tick {
        /// Its place in the batch of its slot.
        index: u32,
    },
}

/// The same, borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StepRef<'a> {
    /// Execute a call.
    Call(CallRef<'a>),
    /// A session is over.
    End(SessionEnd),
    /// A session has another client: the parked calls of the one before end, as if it had cancelled them.
    Resume(SessionEnd),
    /// What is due at the stamp of the slot happens: deadlines of parked calls, then timers.
    Tick {
        /// Its place in the batch of its slot.
        index: u32,
    },
}

/// Steps in execution order. Those of a decided slot share its batch: none is copied.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotSteps(Source);

#[derive(Clone, PartialEq, Debug)]
enum Source {
    /// Invariant: each index names a call of the batch, a command that ends or resumes a session, or a tick.
    Batch { batch: Batch, indices: Vec<u32> },
    /// Steps that were never ordered.
    List(Vec<Step>),
}

/// What came of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepResult {
    /// The call is answered.
    Answered(Outcome),
    /// The call waits: a later step answers it.
    Parked,
    /// The step is no call.
    Done,
}

/// The answer of a call that was parked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaterAnswer {
    /// The index of the step that answers it.
    pub by: u32,
    /// The call.
    pub id: CommandId,
    /// The answer.
    pub outcome: Outcome,
}

/// What came of the steps of one slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlotResults {
    /// One result for each step.
    pub steps: Vec<StepResult>,
    /// The parked calls that they answered, in that order. A call that a step of this slot parked may be among them.
    pub answers: Vec<LaterAnswer>,
}

impl Step {
    /// Its place in the batch of its slot.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.borrowed().index()
    }

    /// The same, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> StepRef<'_> {
        match self {
            Step::Call(call) => StepRef::Call(call.borrowed()),
            Step::End(end) => StepRef::End(*end),
            Step::Resume(resume) => StepRef::Resume(*resume),
            Step::Tick { index } => StepRef::Tick { index: *index },
        }
    }

    /// The call, if it is one.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match self {
            Step::Call(call) => Some(call),
            Step::End(_) | Step::Resume(_) | Step::Tick { .. } => None,
        }
    }
}

impl Call {
    /// The same, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> CallRef<'_> {
        CallRef {
            index: self.index,
            id: self.id,
            object: self.object,
            payload: &self.payload,
        }
    }
}

impl<'a> StepRef<'a> {
    /// Its place in the batch of its slot.
    #[must_use]
    pub fn index(&self) -> u32 {
        match self {
            StepRef::Call(call) => call.index,
            StepRef::End(step) | StepRef::Resume(step) => step.index,
            StepRef::Tick { index } => *index,
        }
    }

    /// The call, if it is one.
    #[must_use]
    pub fn call(&self) -> Option<CallRef<'a>> {
        match self {
            StepRef::Call(call) => Some(*call),
            StepRef::End(_) | StepRef::Resume(_) | StepRef::Tick { .. } => None,
        }
    }

    fn to_owned(self) -> Step {
        match self {
            StepRef::Call(call) => Step::Call(Call {
                index: call.index,
                id: call.id,
                object: call.object,
                payload: call.payload.clone(),
            }),
            StepRef::End(end) => Step::End(end),
            StepRef::Resume(resume) => Step::Resume(resume),
            StepRef::Tick { index } => Step::Tick { index },
        }
    }
}

impl SlotSteps {
    /// The steps of `batch` with these indices.
    #[must_use]
    pub fn of_batch(batch: Batch, indices: Vec<u32>) -> SlotSteps {
        SlotSteps(Source::Batch { batch, indices })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Batch { indices, .. } => indices.len(),
            Source::List(steps) => steps.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The step at a place of this list.
    #[inline]
    #[must_use]
    pub fn at(&self, place: usize) -> StepRef<'_> {
        match &self.0 {
            Source::Batch { batch, indices } => {
                let index = indices[place];
                let command = &batch.commands()[index as usize];
                match &command.body {
                    Body::Call { object, payload } => StepRef::Call(CallRef {
                        index,
                        id: command.id,
                        object: *object,
                        payload,
                    }),
                    Body::Tick => StepRef::Tick { index },
                    Body::Resume { session, .. } => StepRef::Resume(SessionEnd {
                        index,
                        session: *session,
                    }),
                    body => StepRef::End(SessionEnd {
                        index,
                        session: body.ended_session(command.id).expect(
                            "only calls, ends and resumes of sessions and ticks are listed",
                        ),
                    }),
                }
            }
            Source::List(steps) => steps[place].borrowed(),
        }
    }

    /// All steps.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = StepRef<'_>> + Clone {
        (0..self.len()).map(|place| self.at(place))
    }

    /// All steps, each for itself.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Step> {
        self.iter().map(StepRef::to_owned).collect()
    }
}

impl From<Vec<Step>> for SlotSteps {
    fn from(steps: Vec<Step>) -> SlotSteps {
        SlotSteps(Source::List(steps))
    }
}

impl From<Vec<Call>> for SlotSteps {
    fn from(calls: Vec<Call>) -> SlotSteps {
        SlotSteps::from(calls.into_iter().map(Step::Call).collect::<Vec<_>>())
    }
}

impl From<Vec<Outcome>> for SlotResults {
    /// Of steps that are calls and wake nobody.
    fn from(outcomes: Vec<Outcome>) -> SlotResults {
        SlotResults {
            steps: outcomes.into_iter().map(StepResult::Answered).collect(),
            answers: Vec::new(),
        }
    }
}

impl SlotResults {
    /// The outcomes of the steps that were calls and are answered.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.steps.iter().filter_map(StepResult::outcome)
    }
}

impl StepResult {
    /// The outcome, if the step was a call that is answered.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            StepResult::Answered(outcome) => Some(outcome),
            StepResult::Parked | StepResult::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Slot, Stamp};

    #[test]
    fn the_steps_of_a_batch_are_its_commands_with_the_indices() {
        let id = |sequence| CommandId {
            session: SessionId(1),
            sequence,
        };
        let command = |sequence, body| Command {
            id: id(sequence),
            acknowledged: 0,
            body,
        };
        let payload = Value::from_static(b"add");
        let object = ObjectId(3);
        let body = Body::Call {
            object,
            payload: payload.clone(),
        };
        let gone = Body::Expire {
            session: SessionId(9),
            judged_by: Slot(4),
        };
        let commands = vec![
            command(1, body.clone()),
            command(0, Body::Close),
            command(3, body),
            command(8, gone),
            command(9, Body::Tick),
        ];
        let batch = Batch::new(Stamp::default(), commands);
        let steps = SlotSteps::of_batch(batch, vec![1, 2, 3, 4]);
        let call = Call {
            index: 2,
            id: id(3),
            object,
            payload,
        };
        let end = |index, session| {
            let session = SessionId(session);
            Step::End(SessionEnd { index, session })
        };
        let tick = Step::Tick { index: 4 };
        let all = [end(1, 1), Step::Call(call), end(3, 9), tick];
        assert_eq!(steps.to_vec(), all);
        assert_eq!(SlotSteps::from(steps.to_vec()).at(1), steps.at(1));
        assert!(SlotSteps::from(Vec::<Step>::new()).is_empty());
    }
}
