//! `rust:queue`: values that wait for takers, and takers that wait for values, both first come, first served.

use crate::arguments::{
    Arguments, CallView, Mistake, raised, returned_int, returned_none, unknown_method,
};
use crate::live::overloaded;
use crate::object::{Environment, FrozenState, Object, RestoreError};
use crate::turn::{Ending, Turn};
use bytes::{Buf, BufMut, Bytes};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Outcome, SessionId};
use std::collections::VecDeque;

/// A queue without a bound. `put(item)` never waits; `get()` waits for an item; `qsize()` says how many there are.
///
/// Invariant: one of both lines is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitingQueue {
    items: VecDeque<Bytes>,
    takers: VecDeque<CommandId>,
}

impl WaitingQueue {
    /// The first taker that still waits gets it.
    fn put(&mut self, mut arguments: Arguments<'_>, turn: &mut Turn<'_>) -> Result<(), Mistake> {
        let item = arguments.value("item")?;
        arguments.finish()?;
        while let Some(taker) = self.next_taker() {
            if turn.answer(taker, Outcome::Returned(item.clone())) {
                return Ok(());
            }
        }
        self.items.push_back(item);
        Ok(())
    }

    fn next_taker(&mut self) -> Option<CommandId> {
        if planted(Plant::NewestTakerFirst) {
            return self.takers.pop_back();
        }
        self.takers.pop_front()
    }

    fn get(
        &mut self,
        mut arguments: Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Ending, Mistake> {
        arguments.finish()?;
        if let Some(item) = self.items.pop_front() {
            return Ok(Ending::Now(Outcome::Returned(item)));
        }
        match turn.caller() {
            Some(caller) if turn.has_room() => {
                self.takers.push_back(caller);
                Ok(Ending::Parked)
            }
            Some(_) | None => Ok(Ending::Now(overloaded())),
        }
    }
}

impl Object for WaitingQueue {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        self.read(call)
    }

    fn run(&mut self, call: CallView<'_>, env: &Environment, turn: &mut Turn<'_>) -> Ending {
        let ended = match call.method {
            "put" => self
                .put(call.arguments, turn)
                .map(|()| Ending::Now(returned_none())),
            "get" => self.get(call.arguments, turn),
            _ => Ok(Ending::Now(self.apply(call, env))),
        };
        ended.unwrap_or_else(|mistake| Ending::Now(mistake.into()))
    }

    fn session_ended(&mut self, session: SessionId, _env: &Environment, _turn: &mut Turn<'_>) {
        self.takers.retain(|taker| taker.session != session);
    }

    fn read(&self, mut call: CallView<'_>) -> Outcome {
        match call.method {
            "qsize" => match call.arguments.finish() {
                Ok(()) => returned_int(self.items.len() as i64),
                Err(mistake) => mistake.into(),
            },
            name @ ("put" | "get") => raised(
                "TypeError",
                format!("`{name}` changes the queue: call it, do not read it"),
            ),
            unknown => unknown_method("queue", unknown),
        }
    }

    fn snapshot(&self) -> FrozenState {
        let queue = self.clone();
        Box::new(move || {
            let mut image = Vec::new();
            image.put_u64_le(queue.takers.len() as u64);
            for taker in &queue.takers {
                image.put_u64_le(taker.session.0);
                image.put_u64_le(taker.sequence);
            }
            for item in &queue.items {
                image.put_u64_le(item.len() as u64);
                image.put_slice(item);
            }
            image.into()
        })
    }

    fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let cut = |_| RestoreError::new("a queue's image is cut");
        let mut queue = WaitingQueue::default();
        for _ in 0..image.try_get_u64_le().map_err(cut)? {
            let session = SessionId(image.try_get_u64_le().map_err(cut)?);
            let sequence = image.try_get_u64_le().map_err(cut)?;
            queue.takers.push_back(CommandId { session, sequence });
        }
        while !image.is_empty() {
            let length = image.try_get_u64_le().map_err(cut)? as usize;
            let (item, rest) = image
                .split_at_checked(length)
                .ok_or_else(|| RestoreError::new("a queue's image is cut"))?;
            queue.items.push_back(Bytes::copy_from_slice(item));
            image = rest;
        }
        *self = queue;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::call_payload;
    use crate::live::{LiveObject, LiveObjects};
    use quorate_types::{
        CallRef, ObjectId, SessionEnd, Slot, SlotResults, Stamp, StepRef, StepResult,
    };

    const QUEUE: ObjectId = ObjectId(0);

    fn objects() -> LiveObjects {
        let queue = LiveObject::new(Box::new(WaitingQueue::default()));
        LiveObjects::from_iter([(QUEUE, queue)])
    }

    fn id(session: u64, sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence,
        }
    }

    /// Executes one call in a slot of its own.
    fn call(objects: &mut LiveObjects, slot: u64, id: CommandId, payload: &Bytes) -> SlotResults {
        let mut results = SlotResults::default();
        let call = CallRef {
            index: 0,
            id,
            object: QUEUE,
            payload,
        };
        let step = StepRef::Call(call);
        objects.step(Slot(slot), Stamp::default(), step, &mut results);
        results
    }

    fn put(item: i64) -> Bytes {
        call_payload("put", &[item])
    }

    fn get() -> Bytes {
        call_payload("get", &[])
    }

    #[test]
    fn takers_are_answered_in_the_order_in_which_they_came_also_after_a_restore() {
        let mut objects = objects();
        for slot in 1..=3 {
            let parked = call(&mut objects, slot, id(slot, 1), &get());
            assert_eq!(parked.steps, [StepResult::Parked]);
        }
        let image = objects.get(QUEUE).unwrap().snapshot()().whole();
        let mut copy = LiveObject::new(Box::new(WaitingQueue::default()));
        copy.restore(&image).unwrap();
        objects.insert(QUEUE, copy);
        assert_eq!(objects.parked(), 3);
        for slot in 1..=3 {
            let results = call(&mut objects, 10 + slot, id(9, slot), &put(slot as i64));
            assert_eq!(results.steps, [StepResult::Answered(returned_none())]);
            let answers: Vec<_> = results.answers.iter().map(|a| (a.id, &a.outcome)).collect();
            assert_eq!(answers, [(id(slot, 1), &returned_int(slot as i64))]);
        }
        assert_eq!(objects.parked(), 0);
    }

    #[test]
    fn an_item_goes_past_takers_whose_session_is_over() {
        let mut objects = objects();
        call(&mut objects, 1, id(1, 1), &get());
        call(&mut objects, 2, id(2, 1), &get());
        let mut results = SlotResults::default();
        let end = StepRef::End(SessionEnd {
            index: 0,
            session: SessionId(1),
        });
        objects.step(Slot(3), Stamp::default(), end, &mut results);
        assert_eq!(results.steps, [StepResult::Done]);
        let results = call(&mut objects, 4, id(9, 1), &put(5));
        assert_eq!(results.answers[0].id, id(2, 1));
        let results = call(&mut objects, 5, id(9, 2), &put(6));
        assert!(results.answers.is_empty());
        let results = call(&mut objects, 6, id(3, 1), &get());
        assert_eq!(results.steps, [StepResult::Answered(returned_int(6))]);
    }

    #[test]
    fn one_call_more_than_may_wait_is_refused_and_changes_nothing() {
        let mut objects = objects();
        let most = crate::limits::PARKED_MAX as u64;
        for sequence in 1..=most {
            call(&mut objects, sequence, id(1, sequence), &get());
        }
        let before = objects.get(QUEUE).unwrap().snapshot()().whole();
        let refused = call(&mut objects, most + 1, id(1, most + 1), &get());
        assert_eq!(refused.steps, [StepResult::Answered(overloaded())]);
        assert_eq!(objects.get(QUEUE).unwrap().snapshot()().whole(), before);
    }

    #[test]
    fn a_cut_image_is_refused() {
        let mut queue = WaitingQueue::default();
        assert!(queue.restore(&[1, 0]).is_err());
        assert!(queue.restore(&[0, 0, 0, 0, 0, 0, 0, 0, 9]).is_err());
    }
}
