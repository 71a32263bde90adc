//! `rust:queue`: values that wait for takers, and takers that wait for values, both first come, first served.

use super::patience::Patience;
use crate::arguments::{
    Arguments, CallView, Mistake, raised, raised_as, returned_bool, returned_int, returned_none,
    unknown_method,
};
use crate::live::{overloaded, too_many_timers};
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use crate::turn::{Ending, Turn};
use bytes::{Buf, BufMut, Bytes};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Deadline, Duration, Outcome, SessionId};
use std::collections::VecDeque;

/// A queue without a bound, with methods of `quorate.objects.Queue`. `put(item, block=True, timeout=None)` never waits;
/// `put_later(item, seconds)` has the item come that much later. `get(block=True, timeout=None)` waits for an item, at most so many
/// seconds, and then raises `queue.Empty`. `put_nowait(item)`, `get_nowait()`, `qsize()`, `empty()` and `full()` are those of Python.
///
/// Invariant: one of both lines is empty, but for takers who wait no more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitingQueue {
    items: VecDeque<Bytes>,
    takers: VecDeque<CommandId>,
}

impl WaitingQueue {
    /// There is room always, but a time that is none is refused.
    fn put(
        &mut self,
        mut arguments: Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Ending, Mistake> {
        let item = arguments.value("item")?;
        Patience::read(&mut arguments)?;
        arguments.finish()?;
        self.offer(item, turn);
        Ok(Ending::Now(returned_none()))
    }

    fn put_later(
        &mut self,
        mut arguments: Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Ending, Mistake> {
        let item = arguments.value("item")?;
        let delay = arguments.seconds("seconds")?;
        arguments.finish()?;
        let at = turn.after(delay.unwrap_or(Duration::ZERO));
        let set = turn.set_timer(at, Duration::ZERO, item);
        Ok(Ending::Now(
            set.map_or_else(too_many_timers, |_| returned_none()),
        ))
    }

    /// The first taker that still waits gets it.
    fn offer(&mut self, item: Bytes, turn: &mut Turn<'_>) {
        while let Some(taker) = self.next_taker() {
            if turn.answer(taker, Outcome::Returned(item.clone())) {
                return;
            }
        }
        self.items.push_back(item);
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
        let patience = Patience::read(&mut arguments)?;
        arguments.finish()?;
        if let Some(item) = self.items.pop_front() {
            return Ok(Ending::Now(Outcome::Returned(item)));
        }
        let deadline = match patience {
            Patience::None => return Ok(Ending::Now(empty())),
            Patience::Endless => None,
            Patience::For(span) => Some(Deadline {
                at: turn.after(span),
                otherwise: empty(),
            }),
        };
        let Some(caller) = turn.caller().filter(|_| turn.has_room()) else {
            return Ok(Ending::Now(overloaded()));
        };
        // Those whose time is over stay in line until they are in the majority.
        if self.takers.len() > 2 * turn.parked() {
            self.takers.retain(|taker| turn.is_parked(*taker));
        }
        self.takers.push_back(caller);
        Ok(deadline.map_or(Ending::Parked, Ending::ParkedUntil))
    }

    fn get_now(&mut self, mut arguments: Arguments<'_>) -> Result<Ending, Mistake> {
        arguments.finish()?;
        let item = self.items.pop_front();
        Ok(Ending::Now(item.map_or_else(empty, Outcome::Returned)))
    }
}

/// What a taker is told who got nothing.
fn empty() -> Outcome {
    raised_as("quorate.objects._queue.Empty".to_owned(), String::new())
}

impl Object for WaitingQueue {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        self.read(call)
    }

    fn run(&mut self, call: CallView<'_>, env: &Environment, turn: &mut Turn<'_>) -> Ending {
        let ended = match call.method {
            "put" | "put_nowait" => self.put(call.arguments, turn),
            "put_later" => self.put_later(call.arguments, turn),
            "get" => self.get(call.arguments, turn),
            "get_nowait" => self.get_now(call.arguments),
            _ => Ok(Ending::Now(self.apply(call, env))),
        };
        ended.unwrap_or_else(|mistake| Ending::Now(mistake.into()))
    }

    fn session_ended(&mut self, session: SessionId, _env: &Environment, _turn: &mut Turn<'_>) {
        self.takers.retain(|taker| taker.session != session);
    }

    fn timer(&mut self, payload: &[u8], _env: &Environment, turn: &mut Turn<'_>) {
        self.offer(Bytes::copy_from_slice(payload), turn);
    }

    fn read(&self, mut call: CallView<'_>) -> Outcome {
        let answer = match call.method {
            "qsize" => returned_int(self.items.len() as i64),
            "empty" => returned_bool(self.items.is_empty()),
            "full" => returned_bool(false),
            name @ ("put" | "put_nowait" | "put_later" | "get" | "get_nowait") => {
                let message = format!("`{name}` changes the queue: call it, do not read it");
                return raised("TypeError", message);
            }
            unknown => return unknown_method("Queue", unknown),
        };
        match call.arguments.finish() {
            Ok(()) => answer,
            Err(mistake) => mistake.into(),
        }
    }

    fn methods(&self) -> Methods {
        let all = const {
            &[
                Method::read("empty() -> bool", "Whether there is no item."),
                Method::read("full() -> bool", "Whether there is no room."),
                Method::call(
                    "get(block: bool = True, timeout: float | None = None) -> T",
                    "Remove an item and return it, and wait for one if there is none.",
                ),
                Method::call(
                    "get_nowait() -> T",
                    "Remove an item and return it. Raises Empty if there is none.",
                ),
                Method::call(
                    "put(item: T, block: bool = True, timeout: float | None = None) -> None",
                    "Add an item, and wait for room if there is none.",
                ),
                Method::call(
                    "put_later(item: T, seconds: float | None = None) -> None",
                    "Add an item when these seconds are over.",
                ),
                Method::call(
                    "put_nowait(item: T) -> None",
                    "Add an item. Raises Full if there is no room.",
                ),
                Method::read("qsize() -> int", "How many items there are."),
            ]
        };
        let class = "Queue";
        Methods { class, all }
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
        CallRef, ObjectId, SessionEnd, Slot, SlotResults, Stamp, StepRef, StepResult, Wall,
        cancel_payload,
    };
    use quorate_wire::value::Value;

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

    /// The slot of this number has this time in milliseconds too.
    fn stamp(slot: u64) -> Stamp {
        let wall = Wall(slot * 1_000_000);
        Stamp { wall, entropy: 0 }
    }

    fn tick(objects: &mut LiveObjects, slot: u64) -> Vec<(CommandId, Outcome)> {
        let mut results = SlotResults::default();
        let step = StepRef::Tick { index: 0 };
        objects.step(Slot(slot), stamp(slot), step, &mut results);
        assert_eq!(results.steps, [StepResult::Done]);
        let answers = results.answers.into_iter();
        answers.map(|answer| (answer.id, answer.outcome)).collect()
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
        objects.step(Slot(slot), stamp(slot), step, &mut results);
        results
    }

    fn with_seconds(method: &str, mut arguments: Vec<Value>, seconds: f64) -> Bytes {
        arguments.push(Value::Float(seconds));
        quorate_wire::value::call::encode(method, &arguments, &[]).unwrap()
    }

    /// Both go through an image.
    fn moved(objects: &mut LiveObjects) {
        let image = objects.get(QUEUE).unwrap().snapshot()().whole();
        let mut copy = LiveObject::new(Box::new(WaitingQueue::default()));
        copy.restore(&image).unwrap();
        objects.insert(QUEUE, copy);
    }

    #[test]
    fn takers_wait_for_as_long_as_they_said_by_agreed_time() {
        let mut objects = objects();
        for (session, seconds) in [(1, 0.3), (2, 0.1), (3, 9.0)] {
            let get = with_seconds("get", vec![Value::Bool(true)], seconds);
            call(&mut objects, session, id(session, 1), &get);
        }
        moved(&mut objects);
        assert_eq!(objects.next_due(), Some(stamp(102).wall));
        assert_eq!(tick(&mut objects, 101), []);
        assert_eq!(
            tick(&mut objects, 400),
            [(id(2, 1), empty()), (id(1, 1), empty())]
        );
        assert_eq!(objects.parked(), 1);
        let results = call(&mut objects, 401, id(9, 1), &put(5));
        assert_eq!(results.answers[0].id, id(3, 1), "who gave up gets nothing");
        assert_eq!(objects.next_due(), None);
    }

    #[test]
    fn a_delayed_item_comes_when_its_time_has_come() {
        let mut objects = objects();
        call(&mut objects, 1, id(1, 1), &get());
        for (slot, item, seconds) in [(2, 70, 0.5), (3, 80, 0.1)] {
            let put = with_seconds("put_later", vec![Value::Int(item)], seconds);
            let results = call(&mut objects, slot, id(9, slot), &put);
            assert_eq!(results.steps, [StepResult::Answered(returned_none())]);
        }
        moved(&mut objects);
        assert_eq!(tick(&mut objects, 102), []);
        assert_eq!(tick(&mut objects, 103), [(id(1, 1), returned_int(80))]);
        assert_eq!(tick(&mut objects, 502), []);
        let results = call(&mut objects, 503, id(2, 1), &get());
        assert_eq!(results.steps, [StepResult::Answered(returned_int(70))]);
    }

    /// Claim rp-69.
    #[test]
    fn a_client_cancels_its_own_calls_and_no_other_ones() {
        let mut objects = objects();
        for session in [1, 2, 3] {
            call(&mut objects, session, id(session, 1), &get());
        }
        let cancel = |of, sequences: &[u64]| cancel_payload(SessionId(of), sequences);
        let results = call(&mut objects, 4, id(3, 2), &cancel(1, &[1]));
        assert_eq!(results.steps, [StepResult::Answered(returned_none())]);
        assert_eq!(results.answers, [], "it is another client's");
        let results = call(&mut objects, 5, id(1, 2), &cancel(1, &[7, 1, 1]));
        let told: Vec<_> = results.answers.iter().map(|a| (a.by, a.id)).collect();
        assert_eq!(told, [(0, id(1, 1))]);
        assert_eq!(results.answers[0].outcome, returned_none());
        let results = call(&mut objects, 6, id(9, 1), &put(5));
        assert_eq!(results.answers[0].id, id(2, 1));
    }

    #[test]
    fn who_gave_up_takes_no_place_for_ever() {
        let mut objects = objects();
        call(&mut objects, 1, id(1, 1), &get());
        let mut most = 0;
        for slot in 2..200 {
            let get = with_seconds("get", vec![Value::Bool(true)], 1e-9);
            call(&mut objects, slot, id(2, slot), &get);
            assert_eq!(tick(&mut objects, slot + 1).len(), 1);
            most = most.max(objects.get(QUEUE).unwrap().snapshot()().whole().len());
        }
        assert!(most < 300, "{most} bytes");
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let mut objects = objects();
        for seconds in [-2.0, f64::NAN, f64::INFINITY] {
            let get = with_seconds("get", vec![Value::Bool(true)], seconds);
            let results = call(&mut objects, 1, id(1, 1), &get);
            assert!(matches!(
                &results.steps[..],
                [StepResult::Answered(Outcome::Raised(_))]
            ));
        }
        assert_eq!(objects.parked(), 0);
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
    fn each_object_that_knows_a_session_hears_of_its_end() {
        let mut objects = objects();
        let other = LiveObject::new(Box::new(WaitingQueue::default()));
        objects.insert(ObjectId(1), other);
        let empty: Vec<_> = images(&objects);
        for object in [QUEUE, ObjectId(1)] {
            let payload = &get();
            let call = StepRef::Call(CallRef {
                index: object.0,
                id: id(1, 1 + u64::from(object.0)),
                object,
                payload,
            });
            objects.step(Slot(1), Stamp::default(), call, &mut SlotResults::default());
        }
        let (index, session) = (0, SessionId(1));
        let end = StepRef::End(SessionEnd { index, session });
        objects.step(Slot(2), Stamp::default(), end, &mut SlotResults::default());
        assert_eq!(images(&objects), empty, "nothing of the session is left");
    }

    fn images(objects: &LiveObjects) -> Vec<Bytes> {
        let images = objects
            .iter()
            .map(|(_, object)| object.snapshot()().whole());
        images.collect()
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
