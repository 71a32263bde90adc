//! The calls of one object that are parked: they were executed, and a later step answers them.
//!
//! Part of the object's image, equal on all replicas. Kept by whoever executes the object's calls; it knows nothing of clients.

use crate::{CallPlace, CommandId, SessionId, Slot};
use bytes::{Buf, BufMut};
use std::collections::{BTreeMap, BTreeSet};

/// Parked calls of one object, and the sessions whose end it wants to hear of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParkedCalls {
    /// With the place at which each was called.
    calls: BTreeMap<CommandId, CallPlace>,
    /// The object knows them: it has asked who calls. At most as many as are open.
    sessions: BTreeSet<SessionId>,
}

/// The bytes are no parked calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotParkedCalls;

impl ParkedCalls {
    /// None, known to be so before anything runs.
    #[must_use]
    pub const fn new() -> ParkedCalls {
        ParkedCalls {
            calls: BTreeMap::new(),
            sessions: BTreeSet::new(),
        }
    }

    /// A call parks.
    pub fn park(&mut self, id: CommandId, place: CallPlace) {
        let before = self.calls.insert(id, place);
        assert!(before.is_none(), "a call is executed once");
    }

    /// The object learns who calls.
    pub fn know(&mut self, session: SessionId) {
        self.sessions.insert(session);
    }

    /// Whether a call is parked.
    #[must_use]
    pub fn is_parked(&self, id: CommandId) -> bool {
        self.calls.contains_key(&id)
    }

    /// A call is answered; says whether it was parked.
    pub fn take(&mut self, id: CommandId) -> bool {
        self.calls.remove(&id).is_some()
    }

    /// A session is over: nobody may get the answers of its calls. Says whether the object knows it.
    pub fn end(&mut self, session: SessionId) -> bool {
        let of_session = |sequence| CommandId { session, sequence };
        let all = of_session(0)..=of_session(u64::MAX);
        let ended: Vec<CommandId> = self.calls.range(all).map(|(id, _)| *id).collect();
        for id in ended {
            self.calls.remove(&id);
        }
        self.sessions.remove(&session)
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
        self.calls.iter().map(|(id, place)| (*id, *place))
    }

    /// Appends them to an image.
    pub fn put(&self, buf: &mut impl BufMut) {
        buf.put_u32_le(self.calls.len() as u32);
        for (id, place) in &self.calls {
            buf.put_u64_le(id.session.0);
            buf.put_u64_le(id.sequence);
            buf.put_u64_le(place.slot.0);
            buf.put_u32_le(place.index);
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
    pub fn take_from(image: &mut impl Buf) -> Result<ParkedCalls, NotParkedCalls> {
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
                return Err(NotParkedCalls);
            }
            found.calls.insert(id, place);
        }
        for _ in 0..number4(image)? {
            let session = SessionId(number8(image)?);
            if found.sessions.last().is_some_and(|last| *last >= session) {
                return Err(NotParkedCalls);
            }
            found.sessions.insert(session);
        }
        Ok(found)
    }
}

fn number4(image: &mut impl Buf) -> Result<u32, NotParkedCalls> {
    image.try_get_u32_le().map_err(|_| NotParkedCalls)
}

fn number8(image: &mut impl Buf) -> Result<u64, NotParkedCalls> {
    image.try_get_u64_le().map_err(|_| NotParkedCalls)
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

    #[test]
    fn a_parked_call_is_answered_once_and_goes_with_its_session() {
        let mut parked = ParkedCalls::default();
        for (session, sequence) in [(1, 1), (1, 2), (2, 1)] {
            parked.park(id(session, sequence), place(7));
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
    fn what_was_written_is_read_and_what_is_wrong_is_refused() {
        let mut parked = ParkedCalls::default();
        parked.park(id(2, 1), place(9));
        parked.park(id(1, 5), place(4));
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
            assert_eq!(read, Err(NotParkedCalls));
        }
        let calls = [&image[32..60], &image[4..32]].concat();
        let swapped = [&image[..4], &calls, &image[60..]].concat();
        let read = ParkedCalls::take_from(&mut &swapped[..]);
        assert_eq!(read, Err(NotParkedCalls));
        let sessions = [&image[72..80], &image[64..72]].concat();
        let swapped = [&image[..64], &sessions].concat();
        let read = ParkedCalls::take_from(&mut &swapped[..]);
        assert_eq!(read, Err(NotParkedCalls));
    }
}
