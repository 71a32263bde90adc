//! The objects of a run as one sequential object, for the witness of the log.

use super::super::workload;
use crate::checkers::model::Model;
use crate::checkers::recorded::{Call, Kind, RecordedObject};
use quorate_types::ObjectId;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// All objects of the group as one sequential object; its state lists objects, and keys of maps, that were changed.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Group;

/// A call of one of the group's objects.
pub(in super::super) type GroupCall = (ObjectId, Call);

impl Model for Group {
    type State = BTreeMap<(ObjectId, Option<String>), Json>;
    type Call = GroupCall;
    type Reply = Json;

    fn apply(&self, state: &Self::State, call: &GroupCall) -> (Self::State, Json) {
        let mut state = state.clone();
        let reply = self.advance(&mut state, call);
        (state, reply)
    }

    fn advance(&self, state: &mut Self::State, (object, call): &GroupCall) -> Json {
        let part = (*object, call.key().map(str::to_owned));
        let held = state.entry(part).or_insert_with(|| {
            let name = workload::OBJECTS[object.0 as usize].0;
            Kind::of_object(name)
                .expect("the workload names kinds")
                .initial()
        });
        RecordedObject.advance(held, call)
    }

    fn never_changes(&self, (_, call): &GroupCall, reply: Option<&Json>) -> bool {
        RecordedObject.never_changes(call, reply)
    }
}
