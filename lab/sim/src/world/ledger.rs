//! Decides by the rules of sessions alone which commands of a log take effect: a second opinion on the replica's table.
//!
//! Reads the decided log from its start, in order. Shares no code with the replica: sessions open while there is room, expire and
//! end here by the words of the design, and each call is admitted at most once.

use quorate_types::{Ballot, Batch, Body, Command, SecretHash, SessionId, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The upper part of a sequence is its tenancy.
const TENANCY_SHIFT: u32 = 40;

/// Sequences above a session's floor that are remembered.
const WINDOW: u64 = 4096;

/// Places of calls that take effect: slot and index in the batch.
pub(super) type Places = BTreeSet<(Slot, u32)>;

#[derive(Debug, Default)]
struct Session {
    hash: SecretHash,
    tenant: SecretHash,
    tenancy: u64,
    active: Slot,
    floor: u64,
    seen: BTreeSet<u64>,
}

/// Sessions that end, by the place of the command that ends each.
pub(super) type Ends = BTreeMap<(Slot, u32), SessionId>;

/// A session that a slot of the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was judged inactive.
    Expired(SessionId),
    /// Its client ended it.
    Closed(SessionId),
    /// It goes on with another client.
    Resumed(SessionId),
}

/// The sessions of a group as the log alone has them.
#[derive(Debug)]
pub(super) struct Ledger {
    sessions: BTreeMap<SessionId, Session>,
    lead: (Ballot, Slot),
    effective: Places,
    ended: Vec<Ended>,
    ends: Ends,
    resumes: Ends,
    /// Of sessions that were resumed.
    tenancies: BTreeMap<SessionId, u64>,
}

/// The places at which calls of `log` take effect in a group that keeps at most `capacity` sessions in each slot.
pub(super) fn effective(log: &BTreeMap<Slot, Batch>, capacity: impl Fn(Slot) -> usize) -> Places {
    let mut ledger = Ledger::new();
    for (slot, batch) in log {
        ledger.apply((*slot, capacity(*slot)), batch);
    }
    ledger.effective
}

/// The sessions that `log` ends in a group that keeps at most `capacity` in each slot, and those that it gives to other clients.
pub(super) fn ends(log: &BTreeMap<Slot, Batch>, capacity: impl Fn(Slot) -> usize) -> (Ends, Ends) {
    let mut ledger = Ledger::new();
    for (slot, batch) in log {
        ledger.apply((*slot, capacity(*slot)), batch);
    }
    (ledger.ends, ledger.resumes)
}

impl Ledger {
    /// A group without sessions.
    pub(super) fn new() -> Ledger {
        Ledger {
            sessions: BTreeMap::new(),
            lead: (Ballot::ZERO, Slot::ZERO),
            effective: Places::new(),
            ended: Vec::new(),
            ends: Ends::new(),
            resumes: Ends::new(),
            tenancies: BTreeMap::new(),
        }
    }

    /// Takes the next slot, in which so many sessions may be open; says which sessions it ended.
    pub(super) fn apply(&mut self, at: (Slot, usize), batch: &Batch) -> Vec<Ended> {
        for (index, command) in batch.commands().iter().enumerate() {
            self.take(at, index as u32, command);
        }
        std::mem::take(&mut self.ended)
    }

    /// Whether a session is open.
    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Up to which sequence the client of a session needs no reply, while it is open.
    pub(super) fn floor(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|session| session.floor)
    }

    /// The newest tenancy of a session, also of one that has ended.
    pub(super) fn tenancy(&self, session: SessionId) -> u64 {
        self.tenancies.get(&session).copied().unwrap_or(0)
    }

    /// Open sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    fn take(&mut self, (slot, capacity): (Slot, usize), index: u32, command: &Command) {
        match &command.body {
            Body::Call { object, .. } => {
                let is_known = (object.0 as usize) < super::workload::OBJECTS.len();
                if self.admits(slot, command) && is_known {
                    self.effective.insert((slot, index));
                }
            }
            Body::Open { hash, tenant, .. } => {
                let id = SessionId::opened_at(slot, index as usize);
                self.open((*hash, *tenant), (slot, capacity), id);
            }
            Body::Resume {
                session,
                tenant,
                after,
            } => {
                if self.resume(*session, *tenant, u64::from(after.number()), slot) {
                    self.ended.push(Ended::Resumed(*session));
                    self.resumes.insert((slot, index), *session);
                }
            }
            Body::Close => {
                let session = command.id.session;
                let known = self.sessions.get(&session);
                let is_of_client = known
                    .is_some_and(|known| known.tenancy == command.id.sequence >> TENANCY_SHIFT);
                if is_of_client && self.sessions.remove(&session).is_some() {
                    self.ended.push(Ended::Closed(session));
                    self.ends.insert((slot, index), session);
                }
            }
            Body::Expire { session, judged_by } => {
                let known = self.sessions.get(session);
                let is_silent = known.is_some_and(|known| known.active <= *judged_by);
                if is_silent && *judged_by >= self.lead.1 {
                    if self.sessions.remove(session).is_some() {
                        self.ends.insert((slot, index), *session);
                    }
                    self.ended.push(Ended::Expired(*session));
                }
            }
            Body::Lead { ballot } if *ballot > self.lead.0 => self.lead = (*ballot, slot),
            Body::Lead { .. }
            | Body::Tick
            | Body::Read { .. }
            | Body::Checkpoint
            | Body::Died { .. }
            | Body::Survived { .. }
            | Body::Retry { .. }
            | Body::Keep { .. }
            | Body::Skip { .. }
            | Body::Reset { .. }
            | Body::Thaw { .. }
            | Body::Collect { .. }
            | Body::Invite { .. }
            | Body::ChangeGroups { .. }
            | Body::ChangeView { .. } => {}
        }
    }

    fn open(
        &mut self,
        (hash, tenant): (SecretHash, SecretHash),
        (slot, capacity): (Slot, usize),
        id: SessionId,
    ) {
        let mut known = self.sessions.values_mut();
        if let Some(session) = known.find(|session| session.hash == hash) {
            if session.tenant == tenant {
                session.active = slot;
            }
            return;
        }
        if self.sessions.len() >= capacity {
            return;
        }
        let session = Session {
            hash,
            tenant,
            active: slot,
            ..Session::default()
        };
        self.sessions.insert(id, session);
    }

    /// Says whether the session has another client from here on.
    fn resume(&mut self, id: SessionId, tenant: SecretHash, after: u64, slot: Slot) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if session.tenant == tenant {
            session.active = slot;
            return false;
        }
        let is_next = session.tenancy == after;
        if is_next {
            (session.tenant, session.active) = (tenant, slot);
            session.tenancy += 1;
            session.floor = session.tenancy << TENANCY_SHIFT;
            self.tenancies.insert(id, session.tenancy);
            session.seen.clear();
        }
        is_next
    }

    fn admits(&mut self, slot: Slot, command: &Command) -> bool {
        let Some(session) = self.sessions.get_mut(&command.id.session) else {
            return false;
        };
        let sequence = command.id.sequence;
        if sequence >> TENANCY_SHIFT != session.tenancy {
            return false;
        }
        session.active = slot;
        session.floor = session
            .floor
            .max(command.acknowledged.min(sequence.saturating_sub(1)));
        let is_inside = sequence > session.floor && sequence <= session.floor + WINDOW;
        is_inside && session.seen.insert(sequence)
    }
}
