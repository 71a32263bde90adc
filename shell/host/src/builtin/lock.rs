//! `rust:lock`: one session holds it at a time, and the others wait in the order in which they came.

use super::patience::Patience;
use crate::arguments::{
    Arguments, CallView, Mistake, mistake, raised, returned_bool, returned_int, returned_none,
    unknown_method,
};
use crate::live::overloaded;
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Holder, Object, RestoreError};
use crate::turn::{Ending, Turn};
use bytes::{Buf, BufMut};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Deadline, Outcome, SessionId, Tenancy, Wall};
use std::collections::VecDeque;

/// A lock that belongs to the session that acquired it; the methods of `quorate.objects.Lock`.
///
/// `acquire(blocking=True, timeout=None)` returns a fencing token, larger than all before, or 0 where the lock is not free in time.
/// `release()` gives it to who waits longest, `locked()` says whether somebody holds it, `token()` with which token. When a session
/// ends, the lock that it holds goes to the next. A client that has resumed the session acquires what the one before held at once,
/// with another token.
///
/// Invariant: who waits finds the lock held, but for those who wait no more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitingLock {
    holder: Option<SessionId>,
    /// The tenancy of the client that acquired it.
    tenancy: Tenancy,
    /// Since when; what it was at the last grant while nobody holds the lock.
    since: Wall,
    last_token: u64,
    line: VecDeque<Waiter>,
}

/// A call that waits, and its place in the log as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waiter {
    id: CommandId,
    token: u64,
}

impl WaitingLock {
    fn acquire(
        &mut self,
        mut arguments: Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Ending, Mistake> {
        let patience = Patience::read(&mut arguments)?;
        arguments.finish()?;
        let Some(id) = turn.caller() else {
            return Ok(Ending::Now(overloaded()));
        };
        let caller = Waiter {
            id,
            token: turn.token(),
        };
        let is_resumed = self.holder == Some(id.session) && self.tenancy < id.tenancy();
        if self.holder.is_none() || is_resumed {
            let token = self.grant(caller, turn);
            return Ok(Ending::Now(returned_int(token)));
        }
        let deadline = match patience {
            Patience::None => return Ok(Ending::Now(returned_int(0))),
            Patience::Endless => None,
            Patience::For(span) => Some(Deadline {
                at: turn.after(span),
                otherwise: returned_int(0),
            }),
        };
        if !turn.has_room() {
            return Ok(Ending::Now(overloaded()));
        }
        // Those whose time is over stay in line until they are in the majority.
        if self.line.len() > 2 * turn.parked() {
            self.line.retain(|waiter| turn.is_parked(waiter.id));
        }
        self.line.push_back(caller);
        Ok(deadline.map_or(Ending::Parked, Ending::ParkedUntil))
    }

    /// The token as callers get it.
    fn grant(&mut self, to: Waiter, turn: &Turn<'_>) -> i64 {
        self.holder = Some(to.id.session);
        self.tenancy = to.id.tenancy();
        self.since = turn.now();
        self.last_token = to.token.max(self.last_token + 1);
        i64::try_from(self.last_token).unwrap_or(i64::MAX)
    }

    fn release(
        &mut self,
        mut arguments: Arguments<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, Mistake> {
        arguments.finish()?;
        let caller = turn.caller().map(|caller| caller.session);
        if self.holder.is_none() || self.holder != caller {
            let message = "this session does not hold the lock".to_owned();
            return Err(mistake("RuntimeError", message));
        }
        self.holder = None;
        self.serve(turn);
        Ok(returned_none())
    }

    /// Gives the free lock to the first who still waits.
    fn serve(&mut self, turn: &mut Turn<'_>) {
        while self.holder.is_none()
            && let Some(first) = self.line.pop_front()
        {
            if turn.is_parked(first.id) {
                let token = self.grant(first, turn);
                turn.answer(first.id, returned_int(token));
            }
        }
    }

    fn token(&self) -> i64 {
        let token = self.holder.map_or(0, |_| self.last_token);
        i64::try_from(token).unwrap_or(i64::MAX)
    }
}

impl Object for WaitingLock {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        self.read(call)
    }

    fn run(&mut self, mut call: CallView<'_>, env: &Environment, turn: &mut Turn<'_>) -> Ending {
        let ended = match call.method {
            "acquire" | "__enter__" => self.acquire(call.arguments, turn),
            "release" => self.release(call.arguments, turn).map(Ending::Now),
            "__exit__" => {
                // What the block raised.
                let skipped = (0..3).try_for_each(|_| call.arguments.next_item().map(|_| ()));
                let released = skipped.and_then(|()| self.release(call.arguments, turn));
                released.map(Ending::Now)
            }
            _ => Ok(Ending::Now(self.apply(call, env))),
        };
        ended.unwrap_or_else(|mistake| Ending::Now(mistake.into()))
    }

    fn session_ended(&mut self, session: SessionId, _env: &Environment, turn: &mut Turn<'_>) {
        self.line.retain(|waiter| waiter.id.session != session);
        if self.holder == Some(session) && !planted(Plant::HolderOutlivesSession) {
            self.holder = None;
            self.serve(turn);
        }
    }

    fn read(&self, mut call: CallView<'_>) -> Outcome {
        let answer = match call.method {
            "locked" => returned_bool(self.holder.is_some()),
            "token" => returned_int(self.token()),
            name @ ("acquire" | "release" | "__enter__" | "__exit__") => {
                let message = format!("`{name}` changes the lock: call it, do not read it");
                return raised("TypeError", message);
            }
            unknown => return unknown_method("Lock", unknown),
        };
        match call.arguments.finish() {
            Ok(()) => answer,
            Err(mistake) => mistake.into(),
        }
    }

    fn methods(&self) -> Methods {
        let all = const {
            &[
                Method::call(
                    "acquire(blocking: bool = True, timeout: float | None = None) -> int",
                    "Take the lock; its fencing token, or 0 where it is not free, or not within `timeout` seconds.",
                ),
                Method::read("locked() -> bool", "Whether somebody holds the lock."),
                Method::call(
                    "release() -> None",
                    "Give the lock to who waits longest. Raises RuntimeError if this session does not hold it.",
                ),
                Method::read(
                    "token() -> int",
                    "The fencing token with which the lock is held; 0 if nobody holds it.",
                ),
            ]
        };
        let class = "Lock";
        Methods { class, all }
    }

    fn holders(&self) -> Vec<Holder> {
        let (since, token) = (self.since, self.last_token);
        let holder = self.holder.map(|session| Holder {
            session,
            since,
            token,
        });
        holder.into_iter().collect()
    }

    fn snapshot(&self) -> FrozenState {
        let lock = self.clone();
        Box::new(move || {
            let mut image = Vec::new();
            image.put_u64_le(lock.last_token);
            image.put_u64_le(lock.holder.map_or(0, |holder| holder.0));
            image.put_u32_le(lock.tenancy.number());
            image.put_u64_le(lock.since.0);
            for waiter in &lock.line {
                image.put_u64_le(waiter.id.session.0);
                image.put_u64_le(waiter.id.sequence);
                image.put_u64_le(waiter.token);
            }
            image.into()
        })
    }

    fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let cut = |_| RestoreError::new("a lock's image is cut");
        let mut lock = WaitingLock {
            last_token: image.try_get_u64_le().map_err(cut)?,
            holder: Some(SessionId(image.try_get_u64_le().map_err(cut)?))
                .filter(|holder| holder.0 != 0),
            tenancy: Tenancy::new(image.try_get_u32_le().map_err(cut)?)
                .ok_or_else(|| RestoreError::new("a lock's image names no tenancy"))?,
            since: Wall(image.try_get_u64_le().map_err(cut)?),
            line: VecDeque::new(),
        };
        while !image.is_empty() {
            let session = SessionId(image.try_get_u64_le().map_err(cut)?);
            let sequence = image.try_get_u64_le().map_err(cut)?;
            let token = image.try_get_u64_le().map_err(cut)?;
            let id = CommandId { session, sequence };
            lock.line.push_back(Waiter { id, token });
        }
        *self = lock;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::call_payload;
    use crate::live::{LiveObject, LiveObjects};
    use bytes::Bytes;
    use quorate_types::{
        CallRef, Duration, LaterAnswer, ObjectId, SessionEnd, Slot, SlotResults, Stamp, StepRef,
        StepResult, Wall,
    };
    use quorate_wire::value::Value;

    const LOCK: ObjectId = ObjectId(0);

    fn objects() -> LiveObjects {
        let lock = LiveObject::new(Box::new(WaitingLock::default()));
        LiveObjects::from_iter([(LOCK, lock)])
    }

    fn id(session: u64, sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence,
        }
    }

    /// Slots are a millisecond apart.
    fn step(objects: &mut LiveObjects, slot: u64, step: StepRef<'_>) -> SlotResults {
        let wall = Wall(Duration::from_millis(slot).0);
        let mut results = SlotResults::default();
        objects.step(Slot(slot), Stamp { wall, entropy: 0 }, step, &mut results);
        results
    }

    fn call(objects: &mut LiveObjects, slot: u64, id: CommandId, payload: &Bytes) -> SlotResults {
        let call = CallRef {
            index: 0,
            id,
            object: LOCK,
            payload,
        };
        step(objects, slot, StepRef::Call(call))
    }

    fn end(objects: &mut LiveObjects, slot: u64, session: u64) -> Vec<LaterAnswer> {
        let (index, session) = (0, SessionId(session));
        let end = StepRef::End(SessionEnd { index, session });
        step(objects, slot, end).answers
    }

    fn acquire(arguments: &[Value]) -> Bytes {
        quorate_wire::value::call::encode("acquire", arguments, &[]).unwrap()
    }

    fn release() -> Bytes {
        call_payload("release", &[])
    }

    fn token(slot: u64) -> Outcome {
        returned_int((slot << 16) as i64)
    }

    fn answered(results: &SlotResults) -> &Outcome {
        match &results.steps[..] {
            [StepResult::Answered(outcome)] => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn told(answers: &[LaterAnswer]) -> Vec<(CommandId, Outcome)> {
        let answers = answers.iter();
        answers
            .map(|answer| (answer.id, answer.outcome.clone()))
            .collect()
    }

    fn is_refused(outcome: &Outcome, class: &str) -> bool {
        let Outcome::Raised(bytes) = outcome else {
            return false;
        };
        quorate_wire::value::Raised::decode(bytes).unwrap().class == class
    }

    #[test]
    fn it_goes_from_session_to_session_in_the_order_in_which_they_came() {
        let mut objects = objects();
        assert_eq!(
            answered(&call(&mut objects, 1, id(1, 1), &acquire(&[]))),
            &token(1)
        );
        for session in [2, 3, 4] {
            let parked = call(&mut objects, session, id(session, 1), &acquire(&[]));
            assert_eq!(parked.steps, [StepResult::Parked]);
        }
        let image = objects.get(LOCK).unwrap().snapshot()().whole();
        let mut copy = LiveObject::new(Box::new(WaitingLock::default()));
        copy.restore(&image).unwrap();
        objects.insert(LOCK, copy);
        let stranger = call(&mut objects, 5, id(2, 2), &release());
        assert!(is_refused(answered(&stranger), "builtins.RuntimeError"));
        assert_eq!(end(&mut objects, 6, 2), [], "who waits holds nothing");
        let released = call(&mut objects, 7, id(1, 2), &release());
        assert_eq!(told(&released.answers), [(id(3, 1), token(3))]);
        assert_eq!(told(&end(&mut objects, 8, 3)), [(id(4, 1), token(4))]);
        assert_eq!(
            answered(&call(&mut objects, 9, id(4, 2), &release())),
            &returned_none()
        );
        let twice = call(&mut objects, 10, id(4, 3), &release());
        assert!(is_refused(answered(&twice), "builtins.RuntimeError"));
    }

    #[test]
    fn it_tells_who_holds_it_and_since_when() {
        let mut objects = objects();
        let holders = |objects: &LiveObjects| objects.get(LOCK).unwrap().holders();
        assert_eq!(holders(&objects), []);
        call(&mut objects, 1, id(1, 1), &acquire(&[]));
        call(&mut objects, 2, id(2, 1), &acquire(&[]));
        let held = |session: u64, slot: u64, by: u64| Holder {
            session: SessionId(session),
            since: Wall(Duration::from_millis(slot).0),
            token: by << 16,
        };
        assert_eq!(holders(&objects), [held(1, 1, 1)]);
        call(&mut objects, 7, id(1, 2), &release());
        assert_eq!(holders(&objects), [held(2, 7, 2)]);
        end(&mut objects, 8, 2);
        assert_eq!(holders(&objects), []);
    }

    #[test]
    fn who_does_not_wait_or_not_for_long_gets_0() {
        let mut objects = objects();
        call(&mut objects, 1, id(1, 1), &acquire(&[]));
        for arguments in [
            &[Value::Bool(false)][..],
            &[Value::Bool(true), Value::Int(0)],
            &[Value::Bool(false), Value::Int(-1)],
        ] {
            let results = call(&mut objects, 2, id(2, 1), &acquire(arguments));
            assert_eq!(answered(&results), &returned_int(0), "{arguments:?}");
        }
        let short = acquire(&[Value::Bool(true), Value::Float(0.01)]);
        call(&mut objects, 3, id(2, 2), &short);
        assert!(
            step(&mut objects, 12, StepRef::Tick { index: 0 })
                .answers
                .is_empty()
        );
        let late = step(&mut objects, 13, StepRef::Tick { index: 0 }).answers;
        assert_eq!(told(&late), [(id(2, 2), returned_int(0))]);
        assert!(
            call(&mut objects, 14, id(1, 2), &release())
                .answers
                .is_empty()
        );
        assert_eq!(
            answered(&call(&mut objects, 15, id(3, 1), &acquire(&[]))),
            &token(15)
        );
    }

    #[test]
    fn times_that_are_none_are_refused_and_change_nothing() {
        let mut objects = objects();
        let before = objects.get(LOCK).unwrap().snapshot()().whole();
        for (arguments, class) in [
            (
                &[Value::Bool(true), Value::Int(-2)][..],
                "builtins.ValueError",
            ),
            (
                &[Value::Bool(true), Value::Float(f64::NAN)],
                "builtins.ValueError",
            ),
            (&[Value::Bool(false), Value::Int(1)], "builtins.ValueError"),
            (
                &[Value::Bool(true), Value::Float(1e10)],
                "builtins.OverflowError",
            ),
            (
                &[Value::Bool(true), Value::Text("1".to_owned())],
                "builtins.TypeError",
            ),
            (&[Value::Text("no".to_owned())], "builtins.TypeError"),
            (
                &[Value::Bool(true), Value::Null, Value::Null],
                "builtins.TypeError",
            ),
        ] {
            let results = call(&mut objects, 1, id(1, 1), &acquire(arguments));
            assert!(is_refused(answered(&results), class), "{arguments:?}");
        }
        let after = objects.get(LOCK).unwrap().snapshot()().whole();
        assert_eq!(after[after.len() - 16..], before[before.len() - 16..]);
    }

    #[test]
    fn a_cut_image_is_refused() {
        let mut lock = WaitingLock::default();
        assert!(lock.restore(&[1, 0]).is_err());
        assert!(lock.restore(&[0; 16]).is_err());
        assert!(lock.restore(&[0; 29]).is_err());
        assert!(lock.restore(&[0; 28]).is_ok());
    }
}
