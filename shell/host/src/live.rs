//! The Rust objects of a group with their agendas: what executes the steps of a slot.
//!
//! The node's host and the simulator execute steps here and nowhere else.

use crate::arguments::{CallView, raised, raised_as, returned_none};
use crate::binding::{bound, by_place};
use crate::image::Image;
use crate::limits::{PARKED_MAX, TIMERS_AT_ONCE, TIMERS_MAX};
use crate::method::{Methods, WHICH_METHODS, WHICH_READS};
use crate::object::{Environment, FrozenState, Holder, Object, RestoreError};
use crate::telling::returned;
use crate::turn::{Ending, RunningStep, Turn};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Agenda, CallPlace, CallRef, CommandId, LaterAnswer, ObjectId, Outcome, ParkedCall, ParkedCalls,
    SessionEnd, Slot, SlotResults, Stamp, StepRef, StepResult, Timers, Wall, cancelled,
};
use std::collections::{BTreeMap, BTreeSet};

/// A Rust object, the calls that it parked and its timers: together they make up its state.
pub struct LiveObject {
    object: Box<dyn Object>,
    agenda: Agenda,
}

/// All of a group.
#[derive(Default)]
pub struct LiveObjects {
    objects: BTreeMap<ObjectId, LiveObject>,
    /// Calls that all of them have parked.
    parked: usize,
    /// When each has something to do first, if ever.
    dues: BTreeSet<(Wall, ObjectId)>,
}

impl LiveObject {
    /// An object for which nothing is to come.
    #[must_use]
    pub fn new(object: Box<dyn Object>) -> LiveObject {
        LiveObject {
            object,
            agenda: Agenda::new(),
        }
    }

    /// Answers a call that changes nothing, and what clients ask of any object.
    #[must_use]
    pub fn read(&self, call: CallView<'_>) -> Outcome {
        let told = match call.method {
            WHICH_METHODS => self.methods().listed(),
            WHICH_READS => self.methods().reads(),
            _ => {
                let bound = bound(self.object.methods(), &call);
                let read = bound.and_then(|bound| match &bound {
                    None => Ok(self.object.read(call)),
                    Some(payload) => Ok(self.object.read(CallView::parse(payload)?)),
                });
                return read.unwrap_or_else(Outcome::from);
            }
        };
        returned(&told).unwrap_or_else(Outcome::from)
    }

    /// The methods of the object.
    #[must_use]
    pub fn methods(&self) -> Methods {
        self.object.methods()
    }

    /// Who holds something of the object.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        self.object.holders()
    }

    /// The calls that wait at the object.
    pub fn waiting(&self) -> impl Iterator<Item = (CommandId, CallPlace)> {
        self.agenda.parked.iter()
    }

    /// Freezes the state, as [`Object::snapshot`] does.
    #[must_use]
    pub fn snapshot(&self) -> FrozenState {
        let state = self.object.snapshot();
        let mut agenda = self.agenda.clone();
        Box::new(move || {
            let mut head = Vec::new();
            if planted(Plant::ParkedNotInImage) {
                agenda.parked = ParkedCalls::new();
            }
            if planted(Plant::TimersNotInImage) {
                agenda.timers = Timers::new();
            }
            agenda.put(&mut head);
            let mut image = Image::from(head);
            image.append_all(state());
            image
        })
    }

    /// Takes over the state that [`LiveObject::snapshot`] encoded.
    ///
    /// # Errors
    /// When `image` is not such an encoding. The object is then thrown away.
    pub fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let agenda = Agenda::take_from(&mut image);
        self.agenda = agenda.map_err(|_| RestoreError::new("its agenda is cut"))?;
        self.object.restore(image)
    }

    fn call(
        &mut self,
        place: CallPlace,
        stamp: Stamp,
        call: CallRef<'_>,
        parked: usize,
        answers: &mut Vec<LaterAnswer>,
    ) -> StepResult {
        if let Some(ids) = cancelled(call.payload) {
            return self.cancel(call, ids, place.index, answers);
        }
        let mut placed = None;
        let view = match by_place(self.object.methods(), call.payload, &mut placed) {
            Ok(view) => view,
            Err(mistake) => return StepResult::Answered(mistake.into()),
        };
        let index = place.index;
        let env = Environment { stamp, index };
        let step = RunningStep::of_call(place, stamp, call.id);
        let mut turn = Turn::new(step, &mut self.agenda, parked, answers);
        let deadline = match self.object.run(view, &env, &mut turn) {
            Ending::Now(outcome) => return StepResult::Answered(outcome),
            Ending::Parked => None,
            Ending::ParkedUntil(deadline) => Some(deadline),
        };
        if parked >= PARKED_MAX {
            return StepResult::Answered(overloaded());
        }
        let again = None;
        let parked = ParkedCall {
            place,
            deadline,
            again,
        };
        self.agenda.parked.park(call.id, parked);
        StepResult::Parked
    }

    /// Nobody waits any more for these calls, if they are the caller's: they end with `None`.
    #[cold]
    fn cancel(
        &mut self,
        call: CallRef<'_>,
        ids: impl Iterator<Item = CommandId>,
        by: u32,
        answers: &mut Vec<LaterAnswer>,
    ) -> StepResult {
        for id in ids {
            let is_own = id.session == call.id.session;
            if is_own && !planted(Plant::CancelForgotten) && self.agenda.parked.take(id) {
                let outcome = returned_none();
                answers.push(LaterAnswer { by, id, outcome });
            }
        }
        StepResult::Answered(returned_none())
    }

    fn session_ended(
        &mut self,
        end: SessionEnd,
        stamp: Stamp,
        parked: usize,
        answers: &mut Vec<LaterAnswer>,
    ) {
        let index = end.index;
        let env = Environment { stamp, index };
        let step = RunningStep::new(index, stamp);
        let mut turn = Turn::new(step, &mut self.agenda, parked, answers);
        self.object.session_ended(end.session, &env, &mut turn);
    }

    /// What is due happens: calls that have waited for as long as they may get their answers, then timers run.
    fn tick(&mut self, index: u32, stamp: Stamp, parked: usize, answers: &mut Vec<LaterAnswer>) {
        let now = due_upto(stamp);
        if planted(Plant::TimersBeforeDeadlines) {
            self.run_timers(index, stamp, parked, answers);
        }
        while let Some((id, outcome)) = self.agenda.parked.take_overdue(now) {
            let by = index;
            answers.push(LaterAnswer { by, id, outcome });
        }
        self.run_timers(index, stamp, parked, answers);
    }

    fn run_timers(
        &mut self,
        index: u32,
        stamp: Stamp,
        parked: usize,
        answers: &mut Vec<LaterAnswer>,
    ) {
        let last = self.agenda.timers.last();
        let before = answers.len();
        for _ in 0..TIMERS_AT_ONCE {
            let Some(payload) = self.agenda.timers.take_due(due_upto(stamp), last) else {
                return;
            };
            if planted(Plant::LastTimerAnswers) {
                answers.truncate(before);
            }
            let env = Environment { stamp, index };
            let step = RunningStep::new(index, stamp);
            let mut turn = Turn::new(step, &mut self.agenda, parked, answers);
            self.object.timer(&payload, &env, &mut turn);
        }
    }
}

/// A tick of this stamp has happen what is due up to this time.
fn due_upto(stamp: Stamp) -> Wall {
    let early = u64::from(planted(Plant::TickFiresEarly)) * 1_000_000_000;
    Wall(stamp.wall.0 + early)
}

impl LiveObjects {
    /// Adds an object, or puts it in the place of another one, which is returned.
    pub fn insert(&mut self, id: ObjectId, object: LiveObject) -> Option<LiveObject> {
        self.parked += object.agenda.parked.len();
        self.dues
            .extend(object.agenda.next_due().map(|due| (due, id)));
        let old = self.objects.insert(id, object)?;
        self.parked -= old.agenda.parked.len();
        if let Some(due) = old.agenda.next_due()
            && self.objects[&id].agenda.next_due() != Some(due)
        {
            self.dues.remove(&(due, id));
        }
        Some(old)
    }

    /// An object.
    #[must_use]
    pub fn get(&self, id: ObjectId) -> Option<&LiveObject> {
        self.objects.get(&id)
    }

    /// All, ascending by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &LiveObject)> {
        self.objects.iter().map(|(id, object)| (*id, object))
    }

    /// Calls that all of them have parked.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked
    }

    /// The agreed time at which the first of them has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// Does one step of a slot, and appends what came of it.
    #[inline]
    pub fn step(&mut self, slot: Slot, stamp: Stamp, step: StepRef<'_>, results: &mut SlotResults) {
        let answers = &mut results.answers;
        let result = match step {
            StepRef::Call(call) => {
                let index = call.index;
                let place = CallPlace { slot, index };
                let called = self.with(call.object, |object, parked| {
                    object.call(place, stamp, call, parked, answers)
                });
                called.unwrap_or_else(|| StepResult::Answered(no_such_object(call.object)))
            }
            StepRef::End(end) => {
                self.session_ended(end, stamp, answers);
                StepResult::Done
            }
            StepRef::Resume(resume) => {
                self.session_resumed(resume, answers);
                StepResult::Done
            }
            StepRef::Tick { index } => {
                self.tick(index, stamp, answers);
                StepResult::Done
            }
        };
        results.steps.push(result);
    }

    /// Has an object do something, which gets the number of calls that all have parked.
    #[inline]
    fn with<R>(
        &mut self,
        id: ObjectId,
        act: impl FnOnce(&mut LiveObject, usize) -> R,
    ) -> Option<R> {
        let object = self.objects.get_mut(&id)?;
        let (parked, due) = (object.agenda.parked.len(), object.agenda.next_due());
        let done = act(object, self.parked);
        self.parked = self.parked + object.agenda.parked.len() - parked;
        let next = object.agenda.next_due();
        if next != due {
            if let Some(due) = due {
                self.dues.remove(&(due, id));
            }
            self.dues.extend(next.map(|next| (next, id)));
        }
        Some(done)
    }

    /// The parked calls of the session go first, so that no object answers one of them.
    fn session_ended(&mut self, end: SessionEnd, stamp: Stamp, answers: &mut Vec<LaterAnswer>) {
        if planted(Plant::EndKeepsParked) {
            return;
        }
        let ids: Vec<ObjectId> = self.objects.keys().copied().collect();
        let mut told = ids;
        told.retain(|id| {
            let known = self.with(*id, |object, _| object.agenda.parked.end(end.session));
            known == Some(true)
        });
        for id in told {
            self.with(id, |object, parked| {
                object.session_ended(end, stamp, parked, answers);
            });
        }
    }

    /// Nobody waits any more for what the client before had parked.
    fn session_resumed(&mut self, resume: SessionEnd, answers: &mut Vec<LaterAnswer>) {
        if planted(Plant::ResumeKeepsParked) {
            return;
        }
        let ids: Vec<ObjectId> = self.objects.keys().copied().collect();
        for id in ids {
            self.with(id, |object, _| {
                for id in object.agenda.parked.of_session(resume.session) {
                    object.agenda.parked.take(id);
                    answers.push(LaterAnswer {
                        by: resume.index,
                        id,
                        outcome: returned_none(),
                    });
                }
            });
        }
    }

    /// What is due at the stamp happens, object by object.
    fn tick(&mut self, index: u32, stamp: Stamp, answers: &mut Vec<LaterAnswer>) {
        let dues = self
            .dues
            .iter()
            .take_while(|(due, _)| *due <= due_upto(stamp));
        let mut ids: Vec<ObjectId> = dues.map(|(_, id)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            self.with(id, |object, parked| {
                object.tick(index, stamp, parked, answers);
            });
        }
    }
}

impl IntoIterator for LiveObjects {
    type Item = (ObjectId, LiveObject);
    type IntoIter = std::collections::btree_map::IntoIter<ObjectId, LiveObject>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.into_iter()
    }
}

impl FromIterator<(ObjectId, LiveObject)> for LiveObjects {
    fn from_iter<T: IntoIterator<Item = (ObjectId, LiveObject)>>(objects: T) -> LiveObjects {
        let mut all = LiveObjects::default();
        for (id, object) in objects {
            all.insert(id, object);
        }
        all
    }
}

/// The answer to a call of an object that is not there.
pub(crate) fn no_such_object(object: ObjectId) -> Outcome {
    if object == ObjectId::DIRECTORY {
        return raised_as(
            "quorate.NotFound".to_owned(),
            "no such object: this group serves an object written in Rust, and can create no others"
                .to_owned(),
        );
    }
    raised(
        "LookupError",
        format!("this group has no object number {}", object.0),
    )
}

/// The answer to a call that would set a timer where as many are set as may be.
#[must_use]
pub(crate) fn too_many_timers() -> Outcome {
    raised_as(
        "quorate.Overloaded".to_owned(),
        format!("{TIMERS_MAX} timers of this object are set already: cancel some"),
    )
}

/// The answer to a call that would wait where as many wait as may.
#[must_use]
pub fn overloaded() -> Outcome {
    raised_as(
        "quorate.Overloaded".to_owned(),
        format!("{PARKED_MAX} calls of this group wait already: try again when some were answered"),
    )
}
