//! The executed commands of one session: the sequences above a floor.
//!
//! Everything here is replicated state: only decided commands and their outcomes change it, in slot order,
//! so that it is equal on every replica. The table of sessions calls it.

use crate::limits::{SEQUENCE_MAX, SESSION_WINDOW};
use crate::{ReplyImage, ReplyState, SessionImage};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Command, ObjectId, Outcome, SecretHash, SessionId, SessionTerms, Slot, Tenancy, Value,
};
use std::collections::{BTreeMap, VecDeque};
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
    /// Stands for the client that has it.
    pub(crate) tenant: SecretHash,
    /// What its client asked of it.
    pub(crate) terms: SessionTerms,
    /// The slot of its newest command.
    pub(crate) active: Slot,
    /// Wall time (ns) of that command's batch.
    pub(crate) active_wall: u64,
    /// Every sequence up to this one is acknowledged or given up by the client, or stands apart.
    floor: u64,
    /// Sequence `floor + 1 + i`. Invariant: at most `SESSION_WINDOW` long.
    window: VecDeque<Entry>,
    /// Calls up to the floor that are parked or woken, or not executed yet and may park: they hold up no others. What is
    /// kept of it after a slot is executed depends on the log alone, however far the floor was ahead of that.
    apart: BTreeMap<u64, Entry>,
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
    Executed(ReplyState),
}

/// How a command of the session is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It was never seen: execute it.
    New,
    /// It is admitted and waits for its outcome.
    InFlight,
    /// It was executed and waits for the call that answers it.
    Parked,
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
    pub(crate) fn opened(
        (hash, tenant): (SecretHash, SecretHash),
        terms: SessionTerms,
        slot: Slot,
        wall: u64,
    ) -> Session {
        Session {
            hash,
            tenant,
            terms,
            active: slot,
            active_wall: wall,
            floor: 0,
            window: VecDeque::new(),
            apart: BTreeMap::new(),
        }
    }

    /// Returns how a command would be treated, and changes nothing.
    pub(crate) fn look(&self, sequence: u64, fingerprint: u64) -> Admission {
        if sequence <= self.floor {
            let entry = self.apart.get(&sequence);
            return entry.map_or(Admission::Gone, |entry| entry.meets(fingerprint));
        }
        let offset = sequence - self.floor - 1;
        if offset >= SESSION_WINDOW {
            return Admission::Beyond;
        }
        match self.window.get(offset as usize) {
            None => Admission::New,
            Some(entry) if planted(Plant::WokenExecutesAgain) && entry.is_woken() => Admission::New,
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

    /// Whether the call is executed if it is decided next.
    pub(crate) fn will_admit(&self, command: &Command) -> bool {
        let sequence = command.id.sequence;
        let is_of_tenant = sequence <= SEQUENCE_MAX && Tenancy::of(sequence) == self.tenancy();
        // Whatever was seen under this sequence is not new, with any fingerprint.
        is_of_tenant && self.look_ahead(sequence, command.acknowledged, 0) == Admission::New
    }

    /// Takes a decided command: frees what it acknowledges, then admits it at most once.
    pub(crate) fn admit(
        &mut self,
        sequence: u64,
        acknowledged: u64,
        fingerprint: u64,
    ) -> Admission {
        if sequence > SEQUENCE_MAX || Tenancy::of(sequence) > self.tenancy() {
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

    /// The tenancy whose calls are admitted.
    pub(crate) fn tenancy(&self) -> Tenancy {
        Tenancy::of(self.floor)
    }

    /// Another client has the session from here on: all that earlier ones asked in it is acknowledged or refused. Says whether
    /// there can be another tenancy.
    pub(crate) fn resume(&mut self, tenant: SecretHash) -> bool {
        let Some(next) = self.tenancy().next() else {
            return false;
        };
        self.tenant = tenant;
        self.acknowledge(next.floor());
        true
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
        let passed = self.window.drain(..passed as usize).zip(self.floor + 1..);
        let apart = passed.filter(|(entry, _)| entry.stands_apart());
        self.apart
            .extend(apart.map(|(entry, sequence)| (sequence, entry)));
        self.floor = upto;
    }

    /// Whether `sequence` is admitted and waits for its outcome, or is parked.
    pub(crate) fn is_unanswered(&self, sequence: u64) -> bool {
        self.entry(sequence)
            .is_some_and(|entry| match &entry.reply {
                Reply::Pending | Reply::Executed(ReplyState::Parked) => true,
                Reply::Never | Reply::Executed(_) => false,
            })
    }

    /// The kept reply of `sequence`.
    pub(crate) fn reply(&self, sequence: u64) -> Option<&Outcome> {
        match &self.entry(sequence)?.reply {
            Reply::Executed(state) => state.outcome(),
            Reply::Never | Reply::Pending => None,
        }
    }

    /// Records what came of an admitted command. Its reply is dropped if the client acknowledged the command before it was
    /// executed here.
    pub(crate) fn record(&mut self, sequence: u64, state: ReplyState) {
        let is_pending = |entry: &Entry| entry.reply == Reply::Pending;
        self.set(sequence, is_pending, state);
    }

    /// A parked command has its answer.
    pub(crate) fn wake(&mut self, sequence: u64, outcome: Outcome) {
        let is_parked = |entry: &Entry| entry.reply == Reply::Executed(ReplyState::Parked);
        self.set(sequence, is_parked, ReplyState::Woken(outcome));
    }

    /// Drops a kept reply: its sequence stays used.
    pub(crate) fn drop_reply(&mut self, sequence: u64) {
        self.set(
            sequence,
            |entry| entry.outcome().is_some(),
            ReplyState::Gone,
        );
    }

    /// Changes an entry if it is so. Of those that stand apart, one stays only while it is parked or woken.
    fn set(&mut self, sequence: u64, is_so: impl Fn(&Entry) -> bool, state: ReplyState) {
        let Some(entry) = self.entry_mut(sequence).filter(|entry| is_so(entry)) else {
            return;
        };
        entry.reply = Reply::Executed(state);
        if !entry.stands_apart() {
            self.apart.remove(&sequence);
        }
    }

    /// Fingerprint of a sequence that is remembered.
    pub(crate) fn print(&self, sequence: u64) -> Option<u64> {
        Some(self.entry(sequence)?.fingerprint)
    }

    fn entry(&self, sequence: u64) -> Option<&Entry> {
        match sequence.checked_sub(self.floor.checked_add(1)?) {
            Some(offset) => self.window.get(usize::try_from(offset).ok()?),
            None => self.apart.get(&sequence),
        }
    }

    fn entry_mut(&mut self, sequence: u64) -> Option<&mut Entry> {
        match sequence.checked_sub(self.floor.checked_add(1)?) {
            Some(offset) => self.window.get_mut(usize::try_from(offset).ok()?),
            None => self.apart.get_mut(&sequence),
        }
    }

    /// How many commands wait for their execution.
    pub(crate) fn pending(&self) -> usize {
        self.window
            .iter()
            .chain(self.apart.values())
            .filter(|entry| entry.reply == Reply::Pending)
            .count()
    }

    /// The objects have the state of a snapshot, up to which this session is admitted: what was executed up to there is as the
    /// same session in the snapshot says. Commands admitted after it stay as they are.
    pub(crate) fn merge(&mut self, image: &SessionImage) {
        let has = |sequence: u64| {
            let found = image
                .replies
                .binary_search_by_key(&sequence, |r| r.sequence);
            found.is_ok()
        };
        // Executed, and acknowledged with its reply.
        self.apart
            .retain(|sequence, _| *sequence > image.floor || has(*sequence));
        for reply in &image.replies {
            let entry = Entry {
                fingerprint: reply.fingerprint,
                reply: Reply::Executed(reply.state.clone()),
            };
            let is_parked = |own: &Entry| own.reply == Reply::Executed(ReplyState::Parked);
            if planted(Plant::MergeKeepsParked) && self.entry(reply.sequence).is_some_and(is_parked)
            {
                continue;
            }
            if reply.sequence > self.floor {
                if let Some(own) = self.entry_mut(reply.sequence) {
                    *own = entry;
                }
            } else if entry.stands_apart() {
                self.apart.insert(reply.sequence, entry);
            } else {
                self.apart.remove(&reply.sequence);
            }
        }
    }

    /// The session as a snapshot keeps it.
    pub(crate) fn image(&self, id: SessionId) -> SessionImage {
        let apart = self
            .apart
            .iter()
            .map(|(sequence, entry)| (entry, *sequence));
        let replies = apart.chain(self.window.iter().zip(self.floor + 1..));
        SessionImage {
            id,
            hash: self.hash,
            tenant: match planted(Plant::TenantNotInSnapshot) {
                true => SecretHash::default(),
                false => self.tenant,
            },
            terms: self.terms,
            active: self.active,
            active_wall: self.active_wall,
            floor: self.floor,
            replies: replies
                .filter_map(|(entry, sequence)| entry.image(sequence))
                .collect(),
        }
    }

    /// The session as a snapshot kept it.
    pub(crate) fn restored(image: &SessionImage) -> Session {
        let known_by = (image.hash, image.tenant);
        let mut session = Session::opened(known_by, image.terms, image.active, image.active_wall);
        session.floor = image.floor;
        for reply in &image.replies {
            session.admit(reply.sequence, 0, reply.fingerprint);
        }
        session.merge(image);
        session
    }

    pub(crate) fn check(&self) {
        assert!(self.window.len() as u64 <= SESSION_WINDOW);
        assert!(self.apart.keys().all(|sequence| *sequence <= self.floor));
        assert!(self.apart.values().all(Entry::stands_apart));
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
            Reply::Executed(ReplyState::Parked) if planted(Plant::ParkedExecutesAgain) => {
                Admission::New
            }
            Reply::Executed(ReplyState::Parked) => Admission::Parked,
            Reply::Executed(ReplyState::Kept(_) | ReplyState::Woken(_)) => Admission::Answered,
            Reply::Executed(ReplyState::Gone) => Admission::Gone,
        }
    }

    fn is_woken(&self) -> bool {
        matches!(self.reply, Reply::Executed(ReplyState::Woken(_)))
    }

    /// Whether it is kept although the client has acknowledged what is around it.
    fn stands_apart(&self) -> bool {
        match &self.reply {
            Reply::Pending => !planted(Plant::AcknowledgedDropsPending),
            Reply::Executed(state) => match state {
                ReplyState::Parked if planted(Plant::AcknowledgedDropsParked) => false,
                ReplyState::Parked | ReplyState::Woken(_) => true,
                ReplyState::Kept(_) | ReplyState::Gone => false,
            },
            Reply::Never => false,
        }
    }

    fn outcome(&self) -> Option<&Outcome> {
        match &self.reply {
            Reply::Executed(state) => state.outcome(),
            Reply::Never | Reply::Pending => None,
        }
    }

    /// As a snapshot keeps it; it waits for all that are pending.
    fn image(&self, sequence: u64) -> Option<ReplyImage> {
        let Reply::Executed(state) = &self.reply else {
            return None;
        };
        let is_left_out = match state {
            ReplyState::Woken(_) => planted(Plant::WokenNotInSnapshot),
            ReplyState::Parked => planted(Plant::ParkedNotInSnapshot),
            ReplyState::Kept(_) | ReplyState::Gone => false,
        };
        if is_left_out {
            return None;
        }
        Some(ReplyImage {
            sequence,
            fingerprint: self.fingerprint,
            state: state.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let known_by = (SecretHash::default(), SecretHash::default());
        Session::opened(known_by, SessionTerms::default(), Slot(1), 0)
    }

    fn returned(text: &'static str) -> Outcome {
        Outcome::Returned(Value::from_static(text.as_bytes()))
    }

    fn kept(text: &'static str) -> ReplyState {
        ReplyState::Kept(returned(text))
    }

    #[test]
    fn a_sequence_is_admitted_once_in_any_order() {
        let mut session = session();
        assert_eq!(session.admit(3, 0, 30), Admission::New);
        assert_eq!(session.admit(1, 0, 10), Admission::New);
        assert_eq!(session.admit(3, 0, 30), Admission::InFlight);
        session.record(3, kept("x"));
        assert_eq!(session.admit(3, 0, 30), Admission::Answered);
        assert_eq!(session.reply(3), Some(&returned("x")));
        assert_eq!(session.admit(2, 0, 20), Admission::New);
    }

    #[test]
    fn an_acknowledged_reply_is_gone_and_its_sequence_stays_used() {
        let mut session = session();
        session.admit(1, 0, 10);
        session.record(1, kept("x"));
        assert_eq!(session.admit(2, 1, 20), Admission::New);
        assert_eq!(session.admit(1, 0, 10), Admission::Gone);
        assert_eq!(session.reply(1), None);
    }

    #[test]
    fn another_payload_under_a_used_sequence_is_noticed() {
        let mut session = session();
        session.admit(1, 0, 10);
        assert_eq!(session.admit(1, 0, 11), Admission::Reused);
        session.record(1, kept("x"));
        assert_eq!(session.admit(1, 0, 11), Admission::Reused);
    }

    #[test]
    fn the_window_is_bounded_and_hostile_numbers_do_not_overflow() {
        let mut session = session();
        assert_eq!(session.admit(SESSION_WINDOW, 0, 1), Admission::New);
        assert_eq!(session.admit(SESSION_WINDOW + 1, 0, 1), Admission::Beyond);
        assert_eq!(session.admit(0, u64::MAX, 1), Admission::Gone);
        assert_eq!(session.admit(u64::MAX, u64::MAX, 1), Admission::Beyond);
        let last = Tenancy::FIRST.next().unwrap().floor() - 1;
        assert_eq!(session.admit(last + 1, u64::MAX, 1), Admission::Beyond);
        assert_eq!(session.admit(last, u64::MAX, 1), Admission::New);
        session.record(last, kept("x"));
        assert_eq!(session.reply(last), Some(&returned("x")));
        assert_eq!(session.admit(5, 0, 1), Admission::Gone);
        session.check();
    }

    #[test]
    fn a_resumed_session_admits_nothing_of_the_client_before() {
        let mut session = session();
        for sequence in [1, 2, 3] {
            session.admit(sequence, 0, 10);
        }
        session.record(1, kept("x"));
        session.record(2, ReplyState::Parked);
        let tenant = SecretHash::from_bytes([7; 16]);
        assert!(session.resume(tenant));
        let floor = session.tenancy().floor();
        assert_eq!(session.reply(1), None);
        assert_eq!(session.admit(4, 3, 10), Admission::Gone);
        assert_eq!(session.admit(floor, floor, 10), Admission::Gone);
        assert_eq!(session.admit(floor + 1, floor, 10), Admission::New);
        session.record(3, kept("late"));
        session.wake(2, returned("cancelled"));
        session.record(floor + 1, kept("new"));
        session.check();
        let restored = Session::restored(&session.image(SessionId(9)));
        assert_eq!(restored, session);
        assert_eq!(restored.tenant, tenant);
        assert_eq!(restored.tenancy(), Tenancy::FIRST.next().unwrap());
    }

    #[test]
    fn after_the_last_tenancy_a_session_stays_with_its_client() {
        let mut session = session();
        session.floor = Tenancy::MAX.floor();
        assert!(!session.resume(SecretHash::from_bytes([7; 16])));
        assert_eq!(session.tenant, SecretHash::default());
    }

    #[test]
    fn what_a_snapshot_has_executed_and_the_client_acknowledged_is_not_waited_for_after_it_is_merged()
     {
        let (mut own, mut executed) = (session(), session());
        for session in [&mut own, &mut executed] {
            session.admit(1, 0, 10);
            session.admit(2, 0, 20);
            session.admit(3, 2, 30);
        }
        executed.record(1, kept("x"));
        executed.record(2, ReplyState::Parked);
        executed.record(3, kept("y"));
        own.admit(4, 3, 40);
        assert_eq!(own.pending(), 4);
        own.merge(&executed.image(SessionId(9)));
        own.check();
        assert_eq!(own.look(2, 20), Admission::Parked);
        assert_eq!(own.pending(), 1, "only what was admitted after it");
    }

    #[test]
    fn a_restored_session_behaves_as_the_original() {
        let mut session = session();
        for sequence in [2, 5, 3] {
            session.admit(sequence, 1, sequence * 10);
            session.record(sequence, kept("x"));
        }
        let restored = Session::restored(&session.image(SessionId(9)));
        assert_eq!(restored, session);
        assert_eq!(restored.look(4, 40), Admission::New);
        assert_eq!(restored.look(5, 50), Admission::Answered);
    }
}
