//! The executed commands of one session: the sequences above a floor.
//!
//! Everything here is replicated state: only decided commands and their outcomes change it, in slot order,
//! so that it is equal on every replica. The table of sessions calls it.

use crate::limits::{SEQUENCE_MAX, SESSION_WINDOW};
use crate::{ReplyImage, SessionImage};
use quorate_types::{ObjectId, Outcome, SecretHash, SessionId, Slot, Value};
use std::collections::VecDeque;
use twox_hash::XxHash3_64;

/// A hash of payload and object, so that a sequence used twice is noticed.
pub(crate) fn fingerprint(object: ObjectId, payload: &Value) -> u64 {
    XxHash3_64::oneshot_with_seed(u64::from(object.0), payload)
}

/// What a session remembers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Session {
    /// What proves that a client is its own.
    pub(crate) hash: SecretHash,
    /// The slot of its newest command.
    pub(crate) active: Slot,
    /// Wall time (ns) of that command's batch.
    pub(crate) active_wall: u64,
    /// Every sequence up to this one is acknowledged or given up by the client.
    floor: u64,
    /// Sequence `floor + 1 + i`. Invariant: at most `SESSION_WINDOW` long.
    window: VecDeque<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    fingerprint: u64,
    reply: Reply,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Reply {
    /// The sequence was not seen.
    Never,
    /// Admitted, not executed yet.
    Pending,
    /// Executed.
    Kept(Outcome),
    /// Executed; no reply is kept.
    Gone,
}

/// How a command of the session is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It was never seen: execute it.
    New,
    /// It is admitted and waits for its outcome.
    InFlight,
    /// It was executed and its reply is kept.
    Answered,
    /// It was executed or given up; no reply is kept.
    Gone,
    /// Its sequence names another command.
    Reused,
    /// Its sequence is too far above the floor.
    Beyond,
}

impl Session {
    pub(crate) fn opened(hash: SecretHash, slot: Slot, wall: u64) -> Session {
        Session {
            hash,
            active: slot,
            active_wall: wall,
            floor: 0,
            window: VecDeque::new(),
        }
    }

    /// Returns how a command would be treated, and changes nothing.
    pub(crate) fn look(&self, sequence: u64, fingerprint: u64) -> Admission {
        if sequence <= self.floor {
            return Admission::Gone;
        }
        let offset = sequence - self.floor - 1;
        if offset >= SESSION_WINDOW {
            return Admission::Beyond;
        }
        match self.window.get(offset as usize) {
            None => Admission::New,
            Some(entry) => entry.meets(fingerprint),
        }
    }

    /// Like [`Session::look`], for a command that is not yet decided: its own `acknowledged` makes room for
    /// it then, even if no other command does.
    pub(crate) fn look_ahead(
        &self,
        sequence: u64,
        acknowledged: u64,
        fingerprint: u64,
    ) -> Admission {
        let floor = acknowledged.min(sequence.saturating_sub(1));
        match self.look(sequence, fingerprint) {
            Admission::Beyond if sequence - floor <= SESSION_WINDOW => Admission::New,
            met => met,
        }
    }

    /// Takes a decided command: frees what it acknowledges, then admits it at most once.
    pub(crate) fn admit(
        &mut self,
        sequence: u64,
        acknowledged: u64,
        fingerprint: u64,
    ) -> Admission {
        if sequence > SEQUENCE_MAX {
            return Admission::Beyond;
        }
        self.acknowledge(acknowledged.min(sequence.saturating_sub(1)));
        let admission = self.look(sequence, fingerprint);
        if admission == Admission::New {
            let offset = (sequence - self.floor - 1) as usize;
            while self.window.len() <= offset {
                self.window.push_back(Entry::never());
            }
            self.window[offset] = Entry {
                fingerprint,
                reply: Reply::Pending,
            };
        }
        admission
    }

    /// Every sequence up to this one needs no reply.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    fn acknowledge(&mut self, upto: u64) {
        if upto <= self.floor {
            return;
        }
        let passed = (upto - self.floor).min(self.window.len() as u64);
        self.window.drain(..passed as usize);
        self.floor = upto;
    }

    /// Whether `sequence` is admitted and waits for its outcome.
    pub(crate) fn is_pending(&self, sequence: u64) -> bool {
        let entry = self.entry(sequence);
        entry.is_some_and(|entry| entry.reply == Reply::Pending)
    }

    /// The kept reply of `sequence`.
    pub(crate) fn reply(&self, sequence: u64) -> Option<&Outcome> {
        match &self.entry(sequence)?.reply {
            Reply::Kept(outcome) => Some(outcome),
            Reply::Never | Reply::Pending | Reply::Gone => None,
        }
    }

    /// Keeps the outcome of an admitted command, or records that there is none to keep. It is dropped if the
    /// client acknowledged the command before it was executed here.
    pub(crate) fn record(&mut self, sequence: u64, outcome: Option<Outcome>) {
        let Some(offset) = sequence.checked_sub(self.floor + 1) else {
            return;
        };
        if let Some(entry) = self.window.get_mut(offset as usize)
            && entry.reply == Reply::Pending
        {
            entry.reply = outcome.map_or(Reply::Gone, Reply::Kept);
        }
    }

    /// Drops a kept reply: its sequence stays used.
    pub(crate) fn drop_reply(&mut self, sequence: u64) {
        let offset = sequence.checked_sub(self.floor + 1);
        if let Some(entry) = offset.and_then(|offset| self.window.get_mut(offset as usize))
            && matches!(entry.reply, Reply::Kept(_))
        {
            entry.reply = Reply::Gone;
        }
    }

    /// Fingerprint of a sequence above the floor.
    pub(crate) fn print(&self, sequence: u64) -> Option<u64> {
        Some(self.entry(sequence)?.fingerprint)
    }

    fn entry(&self, sequence: u64) -> Option<&Entry> {
        let offset = sequence.checked_sub(self.floor.checked_add(1)?)?;
        self.window.get(usize::try_from(offset).ok()?)
    }

    /// How many commands wait for their outcome.
    pub(crate) fn pending(&self) -> usize {
        self.window
            .iter()
            .filter(|entry| entry.reply == Reply::Pending)
            .count()
    }

    /// Takes outcomes that are missing here from the same session in a snapshot.
    pub(crate) fn adopt(&mut self, image: &SessionImage) {
        for reply in &image.replies {
            self.record(reply.sequence, reply.outcome.clone());
            if reply.outcome.is_none() {
                self.drop_reply(reply.sequence);
            }
        }
    }

    /// Takes all outcomes from the same session in a snapshot.
    pub(crate) fn overwrite(&mut self, image: &SessionImage) {
        for reply in &image.replies {
            let offset = reply.sequence.checked_sub(self.floor + 1);
            if let Some(entry) = offset.and_then(|offset| self.window.get_mut(offset as usize)) {
                entry.reply = reply.outcome.clone().map_or(Reply::Gone, Reply::Kept);
            }
        }
    }

    /// The session as a snapshot keeps it.
    pub(crate) fn image(&self, id: SessionId) -> SessionImage {
        let replies = self.window.iter().zip(self.floor + 1..);
        SessionImage {
            id,
            hash: self.hash,
            active: self.active,
            active_wall: self.active_wall,
            floor: self.floor,
            replies: replies
                .filter(|(entry, _)| entry.reply != Reply::Never)
                .map(|(entry, sequence)| entry.image(sequence))
                .collect(),
        }
    }

    /// The session as a snapshot kept it.
    pub(crate) fn restored(image: &SessionImage) -> Session {
        let mut session = Session::opened(image.hash, image.active, image.active_wall);
        session.floor = image.floor;
        for reply in &image.replies {
            session.admit(reply.sequence, 0, reply.fingerprint);
            session.record(reply.sequence, reply.outcome.clone());
        }
        session
    }

    pub(crate) fn check(&self) {
        assert!(self.window.len() as u64 <= SESSION_WINDOW);
    }
}

impl Entry {
    fn never() -> Entry {
        Entry {
            fingerprint: 0,
            reply: Reply::Never,
        }
    }

    fn meets(&self, fingerprint: u64) -> Admission {
        match &self.reply {
            Reply::Never => Admission::New,
            _ if self.fingerprint != fingerprint => Admission::Reused,
            Reply::Pending => Admission::InFlight,
            Reply::Kept(_) => Admission::Answered,
            Reply::Gone => Admission::Gone,
        }
    }

    fn image(&self, sequence: u64) -> ReplyImage {
        ReplyImage {
            sequence,
            fingerprint: self.fingerprint,
            outcome: match &self.reply {
                Reply::Kept(outcome) => Some(outcome.clone()),
                Reply::Never | Reply::Pending | Reply::Gone => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::opened(SecretHash::default(), Slot(1), 0)
    }

    fn returned(text: &'static str) -> Outcome {
        Outcome::Returned(Value::from_static(text.as_bytes()))
    }

    #[test]
    fn a_sequence_is_admitted_once_in_any_order() {
        let mut session = session();
        assert_eq!(session.admit(3, 0, 30), Admission::New);
        assert_eq!(session.admit(1, 0, 10), Admission::New);
        assert_eq!(session.admit(3, 0, 30), Admission::InFlight);
        session.record(3, Some(returned("x")));
        assert_eq!(session.admit(3, 0, 30), Admission::Answered);
        assert_eq!(session.reply(3), Some(&returned("x")));
        assert_eq!(session.admit(2, 0, 20), Admission::New);
    }

    #[test]
    fn an_acknowledged_reply_is_gone_and_its_sequence_stays_used() {
        let mut session = session();
        session.admit(1, 0, 10);
        session.record(1, Some(returned("x")));
        assert_eq!(session.admit(2, 1, 20), Admission::New);
        assert_eq!(session.admit(1, 0, 10), Admission::Gone);
        assert_eq!(session.reply(1), None);
    }

    #[test]
    fn another_payload_under_a_used_sequence_is_noticed() {
        let mut session = session();
        session.admit(1, 0, 10);
        assert_eq!(session.admit(1, 0, 11), Admission::Reused);
        session.record(1, Some(returned("x")));
        assert_eq!(session.admit(1, 0, 11), Admission::Reused);
    }

    #[test]
    fn the_window_is_bounded_and_hostile_numbers_do_not_overflow() {
        let mut session = session();
        assert_eq!(session.admit(SESSION_WINDOW, 0, 1), Admission::New);
        assert_eq!(session.admit(SESSION_WINDOW + 1, 0, 1), Admission::Beyond);
        assert_eq!(session.admit(0, u64::MAX, 1), Admission::Gone);
        assert_eq!(session.admit(u64::MAX, u64::MAX, 1), Admission::Beyond);
        assert_eq!(session.admit(SEQUENCE_MAX, u64::MAX, 1), Admission::New);
        session.record(SEQUENCE_MAX, Some(returned("x")));
        assert_eq!(session.reply(SEQUENCE_MAX), Some(&returned("x")));
        assert_eq!(session.admit(5, 0, 1), Admission::Gone);
        session.check();
    }

    #[test]
    fn a_restored_session_behaves_as_the_original() {
        let mut session = session();
        for sequence in [2, 5, 3] {
            session.admit(sequence, 1, sequence * 10);
            session.record(sequence, Some(returned("x")));
        }
        let restored = Session::restored(&session.image(SessionId(9)));
        assert_eq!(restored, session);
        assert_eq!(restored.look(4, 40), Admission::New);
        assert_eq!(restored.look(5, 50), Admission::Answered);
    }
}
