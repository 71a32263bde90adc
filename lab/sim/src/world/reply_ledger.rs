//! Decides by the words of `docs/sessions.md` and `docs/views.md` alone which large replies a group keeps: a second opinion on the
//! replica's table.
//!
//! Follows the slots in the order of the log, from what came of each, and knows of each what is kept after it. So replicas are judged
//! that lag, began with a snapshot or went ahead of decisions. Shares no code with the replica but the mark of a reply.

use super::ledger::Ledger;
use quorate_replica::limits::WOKEN_BYTES;
use quorate_replica::{KeptAfter, KeptLimits, ReplyState, SnapshotCore};
use quorate_types::{
    Batch, Body, Command, CommandId, LaterAnswer, Outcome, SessionId, Slot, SlotResults, Step,
};
use std::collections::{BTreeMap, BTreeSet};

/// So many slots that changed what is kept are remembered: a replica that is further behind is not judged.
const STATES_MAX: usize = 1 << 14;

/// Which replies of a session go first: answers of calls that were parked, for nothing acknowledges them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Woken,
    Reply,
}

/// How much may be open and kept in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Sessions.
    pub sessions: usize,
    /// Bytes of replies.
    pub replies: usize,
}

/// The large replies that a group keeps, as its log alone has them.
#[derive(Debug)]
pub(super) struct ReplyLedger {
    limits: KeptLimits,
    sessions: Ledger,
    upto: Slot,
    /// Bytes of each.
    held: BTreeMap<SessionId, BTreeMap<(Kind, u64), usize>>,
    bytes: usize,
    digest: u64,
    /// After each slot that changed it.
    states: BTreeMap<Slot, (usize, u64)>,
}

impl ReplyLedger {
    /// A group without sessions, in which replies count as `limits` say.
    pub(super) fn new(limits: KeptLimits) -> ReplyLedger {
        ReplyLedger {
            limits,
            sessions: Ledger::new(),
            upto: Slot::ZERO,
            held: BTreeMap::new(),
            bytes: 0,
            digest: 0,
            states: BTreeMap::from([(Slot::ZERO, (0, 0))]),
        }
    }

    /// The slots up to here are known.
    pub(super) fn upto(&self) -> Slot {
        self.upto
    }

    /// Takes the next slot, and what came of it where it has steps.
    pub(super) fn follow(
        &mut self,
        room: Room,
        batch: &Batch,
        came: Option<(&[Step], &SlotResults)>,
    ) {
        self.upto = self.upto.next();
        if let Some((steps, results)) = came {
            while self.bytes > room.replies {
                self.drop_of_largest(None);
            }
            for (step, result) in steps.iter().zip(&results.steps) {
                if let (Some(call), Some(outcome)) = (step.call(), result.outcome()) {
                    let bytes = weight(outcome);
                    if bytes >= self.limits.counted_min {
                        self.keep(call.id, (Kind::Reply, bytes), room.replies);
                    }
                }
            }
            for LaterAnswer { id, outcome, .. } in &results.answers {
                let bytes = weight(outcome) + WOKEN_BYTES;
                self.keep(*id, (Kind::Woken, bytes), room.replies);
            }
        }
        self.sessions.apply((self.upto, room.sessions), batch);
        let touched: BTreeSet<SessionId> = batch.commands().iter().filter_map(session_of).collect();
        for session in touched {
            self.free(session);
        }
        let state = (self.bytes, self.digest);
        if self.states.last_key_value().map(|(_, last)| *last) != Some(state) {
            self.states.insert(self.upto, state);
        }
        if self.states.len() > STATES_MAX {
            self.states.pop_first();
        }
    }

    /// What is kept after a slot, unless that is not known yet or no more.
    pub(super) fn after(&self, slot: Slot) -> Option<KeptAfter> {
        let (_, (bytes, digest)) = self.states.range(..=slot).next_back()?;
        (slot <= self.upto).then_some(KeptAfter {
            slot,
            bytes: *bytes,
            digest: *digest,
        })
    }

    /// What a snapshot keeps.
    pub(super) fn of_snapshot(&self, core: &SnapshotCore) -> KeptAfter {
        let mut kept = ReplyLedger::new(self.limits);
        for session in &core.sessions {
            for reply in &session.replies {
                let (kind, bytes) = match &reply.state {
                    ReplyState::Kept(outcome) => (Kind::Reply, weight(outcome)),
                    ReplyState::Woken(outcome) => (Kind::Woken, weight(outcome) + WOKEN_BYTES),
                    ReplyState::Gone | ReplyState::Parked => continue,
                };
                if kind == Kind::Woken || bytes >= self.limits.counted_min {
                    kept.add(session.id, (kind, reply.sequence), bytes);
                }
            }
        }
        KeptAfter {
            slot: core.slot,
            bytes: kept.bytes,
            digest: kept.digest,
        }
    }

    fn keep(&mut self, id: CommandId, (kind, bytes): (Kind, usize), most: usize) {
        let newest = (id.session, (kind, id.sequence));
        self.add(id.session, newest.1, bytes);
        while self.of(id.session) > self.limits.session_bytes {
            self.drop_of(id.session, Some(newest));
        }
        while self.bytes > most {
            self.drop_of_largest(Some(newest));
        }
    }

    fn of(&self, session: SessionId) -> usize {
        let held = self.held.get(&session);
        held.map_or(0, |held| held.values().sum())
    }

    /// The session that holds most loses a reply, of several that hold as much the oldest one.
    fn drop_of_largest(&mut self, newest: Option<(SessionId, (Kind, u64))>) {
        let mut largest = None;
        for session in self.held.keys() {
            let bytes = self.of(*session);
            if largest.is_none_or(|(_, most)| bytes > most) {
                largest = Some((*session, bytes));
            }
        }
        let (session, _) = largest.expect("something is kept");
        self.drop_of(session, newest);
    }

    /// The lowest answer of a call that was parked goes, or else the lowest reply. The newest such answer goes last.
    fn drop_of(&mut self, session: SessionId, newest: Option<(SessionId, (Kind, u64))>) {
        let held = &self.held[&session];
        let is_last =
            |reply: &(Kind, u64)| reply.0 == Kind::Woken && newest == Some((session, *reply));
        let first = held.keys().find(|reply| !is_last(reply));
        let first = *first.or(held.keys().next()).expect("it holds something");
        self.remove(session, first);
    }

    fn add(&mut self, session: SessionId, reply: (Kind, u64), bytes: usize) {
        let before = self.held.entry(session).or_default().insert(reply, bytes);
        assert_eq!(before, None, "a call is answered once");
        self.bytes += bytes;
        self.digest ^= mark(session, reply, bytes);
    }

    fn remove(&mut self, session: SessionId, reply: (Kind, u64)) {
        let held = self.held.get_mut(&session).expect("it holds the reply");
        let bytes = held.remove(&reply).expect("the reply is kept");
        if held.is_empty() {
            self.held.remove(&session);
        }
        self.bytes -= bytes;
        self.digest ^= mark(session, reply, bytes);
    }

    /// What a session's client acknowledges goes, but for answers of calls that were parked; with the session all goes.
    fn free(&mut self, session: SessionId) {
        let Some(held) = self.held.get(&session) else {
            return;
        };
        let floor = self.sessions.floor(session);
        let is_freed = |(kind, sequence): &(Kind, u64)| match floor {
            Some(floor) => *kind == Kind::Reply && *sequence <= floor,
            None => true,
        };
        let freed: Vec<(Kind, u64)> = held.keys().copied().filter(is_freed).collect();
        for reply in freed {
            self.remove(session, reply);
        }
    }
}

fn mark(session: SessionId, (kind, sequence): (Kind, u64), bytes: usize) -> u64 {
    KeptAfter::mark(CommandId { session, sequence }, bytes, kind == Kind::Woken)
}

fn weight(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Returned(value) | Outcome::Raised(value) => value.len(),
        Outcome::Skipped => 0,
    }
}

/// The session of which a command may free replies.
fn session_of(command: &Command) -> Option<SessionId> {
    match &command.body {
        Body::Call { .. } | Body::Close => Some(command.id.session),
        Body::Expire { session, .. } | Body::Resume { session, .. } => Some(*session),
        _ => None,
    }
}
