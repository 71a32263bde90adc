//! The Rust objects of a group with their parked calls: what executes the steps of a slot.
//!
//! The node's host and the simulator execute steps here and nowhere else.

use crate::arguments::{CallView, raised, raised_as};
use crate::image::Image;
use crate::limits::PARKED_MAX;
use crate::object::{Environment, FrozenState, Object, RestoreError};
use crate::turn::{Ending, Turn};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    CallPlace, CallRef, LaterAnswer, ObjectId, Outcome, ParkedCalls, SessionEnd, Slot, SlotResults,
    Stamp, StepRef, StepResult,
};
use std::collections::BTreeMap;

/// A Rust object and the calls that it parked: both make up its state.
pub struct LiveObject {
    object: Box<dyn Object>,
    parked: ParkedCalls,
}

/// All of a group.
#[derive(Default)]
pub struct LiveObjects(BTreeMap<ObjectId, LiveObject>);

impl LiveObject {
    /// An object that has parked nothing.
    #[must_use]
    pub fn new(object: Box<dyn Object>) -> LiveObject {
        LiveObject {
            object,
            parked: ParkedCalls::default(),
        }
    }

    /// Answers a call that changes nothing.
    #[must_use]
    pub fn read(&self, call: CallView<'_>) -> Outcome {
        self.object.read(call)
    }

    /// Freezes the state, as [`Object::snapshot`] does.
    #[must_use]
    pub fn snapshot(&self) -> FrozenState {
        let state = self.object.snapshot();
        let parked = self.parked.clone();
        Box::new(move || {
            let mut head = Vec::new();
            if planted(Plant::ParkedNotInImage) {
                ParkedCalls::new().put(&mut head);
            } else {
                parked.put(&mut head);
            }
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
        let parked = ParkedCalls::take_from(&mut image);
        self.parked = parked.map_err(|_| RestoreError::new("its parked calls are cut"))?;
        self.object.restore(image)
    }

    fn call(
        &mut self,
        place: CallPlace,
        stamp: Stamp,
        call: CallRef<'_>,
        has_room: bool,
        answers: &mut Vec<LaterAnswer>,
    ) -> StepResult {
        let view = match CallView::parse_shared(call.payload) {
            Ok(view) => view,
            Err(mistake) => return StepResult::Answered(mistake.into()),
        };
        let index = place.index;
        let env = Environment { stamp, index };
        let caller = Some(call.id);
        let mut turn = Turn::new(index, caller, &mut self.parked, has_room, answers);
        match self.object.run(view, &env, &mut turn) {
            Ending::Now(outcome) => StepResult::Answered(outcome),
            Ending::Parked if !has_room => StepResult::Answered(overloaded()),
            Ending::Parked => {
                self.parked.park(call.id, place);
                StepResult::Parked
            }
        }
    }

    fn session_ended(
        &mut self,
        end: SessionEnd,
        stamp: Stamp,
        has_room: bool,
        answers: &mut Vec<LaterAnswer>,
    ) {
        let index = end.index;
        let env = Environment { stamp, index };
        let mut turn = Turn::new(index, None, &mut self.parked, has_room, answers);
        self.object.session_ended(end.session, &env, &mut turn);
    }
}

impl LiveObjects {
    /// Adds an object, or puts it in the place of another one, which is returned.
    pub fn insert(&mut self, id: ObjectId, object: LiveObject) -> Option<LiveObject> {
        self.0.insert(id, object)
    }

    /// An object.
    #[must_use]
    pub fn get(&self, id: ObjectId) -> Option<&LiveObject> {
        self.0.get(&id)
    }

    /// All, ascending by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &LiveObject)> {
        self.0.iter().map(|(id, object)| (*id, object))
    }

    /// Calls that all of them have parked.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.0.values().map(|object| object.parked.len()).sum()
    }

    /// Does one step of a slot, and appends what came of it.
    #[inline]
    pub fn step(&mut self, slot: Slot, stamp: Stamp, step: StepRef<'_>, results: &mut SlotResults) {
        let result = match step {
            StepRef::Call(call) => self.call(slot, stamp, call, &mut results.answers),
            StepRef::End(end) => {
                self.session_ended(end, stamp, &mut results.answers);
                StepResult::Done
            }
        };
        results.steps.push(result);
    }

    fn call(
        &mut self,
        slot: Slot,
        stamp: Stamp,
        call: CallRef<'_>,
        answers: &mut Vec<LaterAnswer>,
    ) -> StepResult {
        let has_room = self.parked() < PARKED_MAX;
        let index = call.index;
        match self.0.get_mut(&call.object) {
            Some(object) => object.call(CallPlace { slot, index }, stamp, call, has_room, answers),
            None => StepResult::Answered(no_such_object(call.object)),
        }
    }

    /// The parked calls of the session go first, so that no object answers one of them.
    fn session_ended(&mut self, end: SessionEnd, stamp: Stamp, answers: &mut Vec<LaterAnswer>) {
        let mut told = Vec::new();
        for (id, object) in &mut self.0 {
            if !planted(Plant::EndKeepsParked) && object.parked.end(end.session) {
                told.push(*id);
            }
        }
        let has_room = self.parked() < PARKED_MAX;
        for id in told {
            let object = self.0.get_mut(&id).expect("found above");
            object.session_ended(end, stamp, has_room, answers);
        }
    }
}

impl IntoIterator for LiveObjects {
    type Item = (ObjectId, LiveObject);
    type IntoIter = std::collections::btree_map::IntoIter<ObjectId, LiveObject>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(ObjectId, LiveObject)> for LiveObjects {
    fn from_iter<T: IntoIterator<Item = (ObjectId, LiveObject)>>(objects: T) -> LiveObjects {
        LiveObjects(objects.into_iter().collect())
    }
}

/// The answer to a call of an object that is not there.
pub(crate) fn no_such_object(object: ObjectId) -> Outcome {
    raised(
        "LookupError",
        format!("this group has no object number {}", object.0),
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
