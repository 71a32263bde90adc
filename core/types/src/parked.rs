//! The calls of one object that are parked: they were executed, and a later step answers them.
//!
//! Part of the object's image, equal on all replicas. Kept by whoever executes the object's calls; it knows nothing of clients.

use crate::image_bytes::{number4, number8, value};
use crate::zoo::{Plant, planted};
use crate::{CallPlace, CommandId, Outcome, SessionId, Slot, Value, Wall};
use bytes::{Buf, BufMut};
use std::collections::{BTreeMap, BTreeSet};

/// Parked calls of one object, and the sessions whose end it wants to hear of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParkedCalls {
    calls: BTreeMap<CommandId, ParkedCall>,
    /// Those that wait for a time at most, by that time. Invariant: one for each call with a deadline.
    deadlines: BTreeSet<(Wall, CommandId)>,
    /// Those that are tried again, first come, first served. Invariant: one for each such call.
    tried: BTreeSet<(CallPlace, CommandId)>,
    /// The object knows them: it has asked who calls. At most as many as are open.
    sessions: BTreeSet<SessionId>,
}

/// One call that is parked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParkedCall {
    /// Where it was called.
    pub place: CallPlace,
    /// How long it waits at most.
    pub deadline: Option<Deadline>,
    /// The call, if it is to be tried again from its start whenever the object may have changed.
    pub again: Option<Value>,
}

/// How long a call waits, in agreed time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// Until this time.
    pub at: Wall,
    /// Its answer if nobody has answered it then.
    pub otherwise: Outcome,
}

/// The bytes do not say what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnAgenda;

const NO_DEADLINE: u8 = 0;
const RETURNS: u8 = 1;
const RAISES: u8 = 2;

impl ParkedCalls {
    /// None, known to be so before anything runs.
    #[must_use]
    pub const fn new() -> ParkedCalls {
        ParkedCalls {
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            tried: BTreeSet::new(),
            sessions: BTreeSet::new(),
        }
    }

    /// A call parks.
    pub fn park(&mut self, id: CommandId, call: ParkedCall) {
        let deadline = call.deadline.iter();
        self.deadlines
            .extend(deadline.map(|deadline| (deadline.at, id)));
        self.tried
            .extend(call.again.iter().map(|_| (call.place, id)));
        let before = self.calls.insert(id, call);
        assert!(before.is_none(), "a call is executed once");
    }

    /// The calls that are to be tried again, first come, first served.
    #[must_use]
    pub fn tried(&self) -> Vec<CommandId> {
        self.tried.iter().map(|(_, id)| *id).collect()
    }

    /// Whether there are calls to try again.
    #[must_use]
    pub fn has_tried(&self) -> bool {
        !self.tried.is_empty()
    }

    /// The object learns who calls.
    pub fn know(&mut self, session: SessionId) {
        self.sessions.insert(session);
    }

    /// Whether the object has learnt that this session calls.
    #[must_use]
    pub fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// Whether a call is parked.
    #[must_use]
    pub fn is_parked(&self, id: CommandId) -> bool {
        self.calls.contains_key(&id)
    }

    /// A call is answered; says whether it was parked.
    pub fn take(&mut self, id: CommandId) -> bool {
        self.take_call(id).is_some()
    }

    /// Takes the first call that has waited for as long as it may at agreed time `now`; returns it with its answer.
    pub fn take_overdue(&mut self, now: Wall) -> Option<(CommandId, Outcome)> {
        let (at, id) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        let deadline = self.take_call(id)?.deadline;
        Some((id, deadline.expect("it is among the deadlines").otherwise))
    }

    /// When the first deadline is over.
    #[must_use]
    pub fn next_due(&self) -> Option<Wall> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes a call, if it is parked.
    pub fn take_call(&mut self, id: CommandId) -> Option<ParkedCall> {
        let call = self.calls.remove(&id)?;
        self.tried.remove(&(call.place, id));
        if let Some(deadline) = &call.deadline {
            self.deadlines.remove(&(deadline.at, id));
        }
        Some(call)
    }

    /// A session is over: nobody may get the answers of its calls. Says whether the object knows it.
    pub fn end(&mut self, session: SessionId) -> bool {
        for id in self.of_session(session) {
            self.take_call(id);
        }
        self.sessions.remove(&session)
    }

    /// The calls of one session.
    #[must_use]
    pub fn of_session(&self, session: SessionId) -> Vec<CommandId> {
        let of_session = |sequence| CommandId { session, sequence };
        let all = of_session(0)..=of_session(u64::MAX);
        self.calls.range(all).map(|(id, _)| *id).collect()
    }

    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls, by session and sequence.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, CallPlace)> {
        self.calls.iter().map(|(id, call)| (*id, call.place))
    }

    /// Appends them to an image.
    pub fn put(&self, buf: &mut impl BufMut) {
        buf.put_u32_le(self.calls.len() as u32);
        for (id, call) in &self.calls {
            let ParkedCall {
                place, deadline, ..
            } = call;
            buf.put_u64_le(id.session.0);
            buf.put_u64_le(id.sequence);
            buf.put_u64_le(place.slot.0);
            buf.put_u32_le(place.index);
            put_deadline(buf, deadline.as_ref());
            let again = call.again.as_deref().unwrap_or_default();
            buf.put_u32_le(again.len() as u32);
            buf.put_slice(again);
        }
        buf.put_u32_le(self.sessions.len() as u32);
        for session in &self.sessions {
            buf.put_u64_le(session.0);
        }
    }

    /// Takes them off the front of an image.
    ///
    /// # Errors
    /// When `image` does not begin with such calls and sessions, both ascending.
    pub fn take_from(image: &mut impl Buf) -> Result<ParkedCalls, NotAnAgenda> {
        let mut found = ParkedCalls::new();
        for _ in 0..number4(image)? {
            let id = CommandId {
                session: SessionId(number8(image)?),
                sequence: number8(image)?,
            };
            let place = CallPlace {
                slot: Slot(number8(image)?),
                index: number4(image)?,
            };
            let last = found.calls.last_key_value();
            if last.is_some_and(|(last, _)| *last >= id) {
                return Err(NotAnAgenda);
            }
            let deadline = deadline(image)?;
            let again = Some(value(image)?).filter(|call| !call.is_empty());
            let call = ParkedCall {
                place,
                deadline,
                again,
            };
            found.park(id, call);
        }
        for _ in 0..number4(image)? {
            let session = SessionId(number8(image)?);
            if found.sessions.last().is_some_and(|last| *last >= session) {
                return Err(NotAnAgenda);
            }
            found.sessions.insert(session);
        }
        Ok(found)
    }
}

fn put_deadline(buf: &mut impl BufMut, deadline: Option<&Deadline>) {
    let deadline = deadline.filter(|_| !planted(Plant::DeadlinesNotInImage));
    let Some(Deadline { at, otherwise }) = deadline else {
        return buf.put_u8(NO_DEADLINE);
    };
    let (kind, value): (u8, &[u8]) = match otherwise {
        Outcome::Returned(value) => (RETURNS, value),
        Outcome::Raised(value) => (RAISES, value),
        Outcome::Skipped => unreachable!("nobody waits for a skip"),
    };
    buf.put_u8(kind);
    buf.put_u64_le(at.0);
    buf.put_u32_le(value.len() as u32);
    buf.put_slice(value);
}

fn deadline(image: &mut impl Buf) -> Result<Option<Deadline>, NotAnAgenda> {
    let answer: fn(Value) -> Outcome = match image.try_get_u8().map_err(|_| NotAnAgenda)? {
        NO_DEADLINE => return Ok(None),
        RETURNS => Outcome::Returned,
        RAISES => Outcome::Raised,
        _ => return Err(NotAnAgenda),
    };
    let at = Wall(number8(image)?);
    let otherwise = answer(value(image)?);
    Ok(Some(Deadline { at, otherwise }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(session: u64, sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence,
        }
    }

    fn place(slot: u64) -> CallPlace {
        CallPlace {
            slot: Slot(slot),
            index: 3,
        }
    }

    fn deadline(at: u64, otherwise: Outcome) -> Option<Deadline> {
        Some(Deadline {
            at: Wall(at),
            otherwise,
        })
    }

    fn call(slot: u64, deadline: Option<Deadline>) -> ParkedCall {
        ParkedCall {
            place: place(slot),
            deadline,
            again: None,
        }
    }

    fn again(slot: u64, deadline: Option<Deadline>) -> ParkedCall {
        ParkedCall {
            again: Some(Value::from_static(b"call")),
            ..call(slot, deadline)
        }
    }

    fn gone() -> Outcome {
        Outcome::Returned(Value::from_static(b"gone"))
    }

    #[test]
    fn a_parked_call_is_answered_once_and_goes_with_its_session() {
        let mut parked = ParkedCalls::default();
        for (session, sequence) in [(1, 1), (1, 2), (2, 1)] {
            parked.park(id(session, sequence), call(7, None));
        }
        parked.know(SessionId(2));
        assert!(parked.is_parked(id(1, 2)));
        assert!(parked.take(id(1, 2)));
        assert!(!parked.take(id(1, 2)), "it was answered");
        assert!(!parked.end(SessionId(1)), "the object does not know it");
        assert_eq!(parked.iter().collect::<Vec<_>>(), [(id(2, 1), place(7))]);
        assert!(parked.end(SessionId(2)));
        assert_eq!(parked, ParkedCalls::default());
    }

    #[test]
    fn calls_that_are_tried_again_come_in_the_order_of_their_places() {
        let mut parked = ParkedCalls::default();
        for (sequence, slot) in [(1, 9), (2, 7), (3, 8), (4, 6)] {
            parked.park(id(1, sequence), again(slot, None));
        }
        parked.park(id(1, 5), call(5, None));
        assert!(parked.take(id(1, 3)));
        assert_eq!(parked.tried(), [id(1, 4), id(1, 2), id(1, 1)]);
        let first = parked.take_call(id(1, 4)).unwrap();
        assert_eq!(parked.tried(), [id(1, 2), id(1, 1)]);
        parked.park(id(1, 4), first);
        assert_eq!(parked.tried().first(), Some(&id(1, 4)));
        parked.end(SessionId(1));
        assert!(!parked.has_tried());
    }

    #[test]
    fn a_call_waits_until_its_deadline_and_no_longer_than_its_session() {
        let mut parked = ParkedCalls::default();
        for (sequence, at) in [(1, 30), (2, 20), (3, 10), (4, 20)] {
            parked.park(id(1, sequence), call(7, deadline(at, gone())));
        }
        parked.park(id(1, 5), call(7, None));
        assert!(parked.take(id(1, 3)), "somebody answers it in time");
        assert_eq!(parked.next_due(), Some(Wall(20)));
        assert_eq!(parked.take_overdue(Wall(19)), None);
        assert_eq!(parked.take_overdue(Wall(20)), Some((id(1, 2), gone())));
        assert_eq!(parked.take_overdue(Wall(20)), Some((id(1, 4), gone())));
        assert_eq!(parked.take_overdue(Wall(20)), None);
        assert!(!parked.is_parked(id(1, 2)));
        parked.end(SessionId(1));
        assert_eq!(parked, ParkedCalls::default());
    }

    #[test]
    fn what_was_written_is_read_and_what_is_wrong_is_refused() {
        let mut parked = ParkedCalls::default();
        parked.park(id(2, 1), call(9, None));
        let raises = Outcome::Raised(Value::from_static(b"late"));
        parked.park(id(2, 2), call(9, deadline(8, raises)));
        parked.park(id(2, 3), again(9, deadline(7, gone())));
        parked.park(id(1, 5), call(4, None));
        parked.know(SessionId(2));
        parked.know(SessionId(7));
        let mut image = Vec::new();
        parked.put(&mut image);
        let length = image.len();
        image.extend_from_slice(b"state");
        let mut rest = &image[..];
        assert_eq!(ParkedCalls::take_from(&mut rest), Ok(parked));
        assert_eq!(rest, b"state");
        for cut in 0..length {
            let read = ParkedCalls::take_from(&mut &image[..cut]);
            assert_eq!(read, Err(NotAnAgenda));
        }
        let calls = [&image[37..70], &image[4..37]].concat();
        let swapped = [&image[..4], &calls, &image[70..]].concat();
        let read = ParkedCalls::take_from(&mut &swapped[..]);
        assert_eq!(read, Err(NotAnAgenda));
        let (first, last) = (length - 16, length - 8);
        let sessions = [&image[last..length], &image[first..last]].concat();
        let swapped = [&image[..first], &sessions].concat();
        let read = ParkedCalls::take_from(&mut &swapped[..]);
        assert_eq!(read, Err(NotAnAgenda));
        let mut kind = image.clone();
        kind[32] = 3;
        assert_eq!(ParkedCalls::take_from(&mut &kind[..]), Err(NotAnAgenda));
    }
}
