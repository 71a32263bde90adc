//! The bytes of the replies that sessions keep, and which replies go when there are too many.
//!
//! Replies are kept when calls are executed, and acknowledged when the log is applied, which may be ahead by more on one
//! replica than on another. So this ledger follows the slots in the order of execution: it depends on the log alone, all
//! replicas drop the same replies, and a snapshot's sessions are enough to go on from. For the same reason another limit holds from
//! the first slot on that is executed in its view, however far the log is applied, and what is too much goes then.

use crate::limits::WOKEN_BYTES;
use crate::{KeptLimits, ReplyImage, ReplyState, SessionImage};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Outcome, SessionId, Slot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use twox_hash::XxHash3_64;

/// Replies that are kept no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// The client needs no reply up to this sequence.
    Acknowledged(SessionId, u64),
    /// The session is over.
    Ended(SessionId),
}

/// The large replies that are kept once a slot is executed: the same on all replicas, whenever each of them executes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptAfter {
    /// The slot.
    pub slot: Slot,
    /// Bytes of all sessions.
    pub bytes: usize,
    /// Of each reply a hash, [`KeptAfter::mark`], all of them joined by exclusive or.
    pub digest: u64,
}

impl KeptAfter {
    /// Stands for a reply that takes so many `bytes`, of a call that was parked or of another one.
    #[must_use]
    pub fn mark(id: CommandId, bytes: usize, was_parked: bool) -> u64 {
        let numbers = [id.session.0, id.sequence, bytes as u64, was_parked.into()];
        XxHash3_64::oneshot(numbers.map(u64::to_le_bytes).as_flattened())
    }
}

/// The large replies of one session, and all those of calls that were parked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Held {
    /// Bytes by sequence.
    replies: BTreeMap<u64, usize>,
    /// The same of calls that were parked: what is acknowledged around them frees none of them.
    woken: BTreeMap<u64, usize>,
    bytes: usize,
}

/// The large replies of all sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptReplies {
    limits: KeptLimits,
    held: BTreeMap<SessionId, Held>,
    /// Sessions by what they hold, for the one that holds most, and of several the oldest.
    order: BTreeSet<(usize, Reverse<SessionId>)>,
    bytes: usize,
    /// The marks of all of them.
    digest: u64,
    /// After the newest slot that this start has executed.
    after: Option<KeptAfter>,
}

impl KeptReplies {
    pub(crate) fn new(limits: KeptLimits) -> KeptReplies {
        KeptReplies {
            limits,
            held: BTreeMap::new(),
            order: BTreeSet::new(),
            bytes: 0,
            digest: 0,
            after: None,
        }
    }

    /// What the sessions of a snapshot keep. That may be too much by a limit that is new with the next slot: it goes when that is executed,
    /// as it does where no snapshot was restored.
    pub(crate) fn restored(limits: KeptLimits, images: &[SessionImage]) -> KeptReplies {
        let mut kept = KeptReplies::new(limits);
        for image in images {
            for ReplyImage {
                sequence, state, ..
            } in &image.replies
            {
                let id = CommandId {
                    session: image.id,
                    sequence: *sequence,
                };
                match state {
                    ReplyState::Kept(outcome) => kept.add(id, weight(outcome)),
                    ReplyState::Woken(outcome) => kept.add_woken(id, outcome),
                    ReplyState::Gone | ReplyState::Parked => {}
                }
            }
        }
        kept.limits.group_bytes = limits.group_bytes.max(kept.bytes);
        kept
    }

    /// So much is kept from here on. Returns the replies that are dropped for it.
    pub(crate) fn limit(&mut self, group_bytes: usize) -> Vec<CommandId> {
        self.limits.group_bytes = group_bytes;
        // Of one that is lowered nobody's reply is the newest.
        self.shrink(CommandId::default())
    }

    /// A reply is kept. Returns the replies that are dropped for it: of its own session, of the whole group those of the session
    /// that holds most.
    pub(crate) fn keep(&mut self, id: CommandId, outcome: &Outcome) -> Vec<CommandId> {
        let bytes = weight(outcome);
        if bytes < self.limits.counted_min {
            return Vec::new();
        }
        self.add(id, bytes);
        self.make_room(id)
    }

    /// The answer of a parked call is kept. Returns the replies that are dropped for it.
    pub(crate) fn keep_woken(&mut self, id: CommandId, outcome: &Outcome) -> Vec<CommandId> {
        self.add_woken(id, outcome);
        self.make_room(id)
    }

    fn make_room(&mut self, newest: CommandId) -> Vec<CommandId> {
        let session = newest.session;
        let mut dropped = Vec::new();
        if planted(Plant::KeptRepliesUnbounded) {
            return dropped;
        }
        while self.of(session) > self.limits.session_bytes {
            dropped.extend(self.drop_first(session, newest));
        }
        dropped.extend(self.shrink(newest));
        dropped
    }

    /// Drops replies of the session that holds most, until all of them have room.
    fn shrink(&mut self, newest: CommandId) -> Vec<CommandId> {
        let mut dropped = Vec::new();
        while self.bytes > self.limits.group_bytes
            && !planted(Plant::KeptRepliesUnbounded)
            && let Some((_, Reverse(largest))) = self.order.last().copied()
        {
            dropped.extend(self.drop_first(largest, newest));
        }
        dropped
    }

    fn add(&mut self, id: CommandId, bytes: usize) {
        if bytes >= self.limits.counted_min {
            self.change(id.session, |held| {
                let before = held.replies.insert(id.sequence, bytes);
                held.bytes = held.bytes + bytes - before.unwrap_or(0);
                let replaced = before.map_or(0, |before| KeptAfter::mark(id, before, false));
                replaced ^ KeptAfter::mark(id, bytes, false)
            });
        }
    }

    fn add_woken(&mut self, id: CommandId, outcome: &Outcome) {
        // Nothing acknowledges it, so small ones count too.
        let bytes = weight(outcome) + WOKEN_BYTES;
        self.change(id.session, |held| {
            let before = held.woken.insert(id.sequence, bytes);
            held.bytes = held.bytes + bytes - before.unwrap_or(0);
            let replaced = before.map_or(0, |before| KeptAfter::mark(id, before, true));
            replaced ^ KeptAfter::mark(id, bytes, true)
        });
    }

    /// Drops the answer of the lowest parked call, or else the lowest reply. The client has had most of those answers: it
    /// acknowledges none, while it acknowledges a reply soon. The newest answer goes last.
    fn drop_first(&mut self, session: SessionId, newest: CommandId) -> Option<CommandId> {
        let mut dropped = None;
        self.change(session, |held| {
            let is_newest = |sequence: u64| newest == CommandId { session, sequence };
            let older = held.woken.keys().find(|sequence| !is_newest(**sequence));
            let (first, was_parked) = match older.copied() {
                Some(sequence) => (held.woken.remove_entry(&sequence), true),
                None => match held.replies.pop_first() {
                    Some(reply) => (Some(reply), false),
                    None => (held.woken.pop_first(), true),
                },
            };
            let Some((sequence, bytes)) = first else {
                return 0;
            };
            let id = CommandId { session, sequence };
            held.bytes -= bytes;
            dropped = Some(id);
            KeptAfter::mark(id, bytes, was_parked)
        });
        dropped
    }

    pub(crate) fn free(&mut self, freed: Freed) {
        match freed {
            Freed::Acknowledged(session, sequence) => {
                if self.held.contains_key(&session) {
                    self.change(session, |held| {
                        let later = held.replies.split_off(&(sequence + 1));
                        let freed = std::mem::replace(&mut held.replies, later);
                        held.bytes -= freed.values().sum::<usize>();
                        marks(session, &freed, false)
                    });
                }
            }
            Freed::Ended(session) => self.change(session, |held| {
                let Held { replies, woken, .. } = std::mem::take(held);
                marks(session, &replies, false) ^ marks(session, &woken, true)
            }),
        }
    }

    /// A slot is executed, and what it frees is freed.
    pub(crate) fn executed(&mut self, slot: Slot) {
        self.after = Some(KeptAfter {
            slot,
            bytes: self.bytes,
            digest: self.digest,
        });
    }

    /// What was kept once the newest slot was executed that this start has executed.
    pub(crate) fn after(&self) -> Option<KeptAfter> {
        self.after
    }

    /// `change` returns the marks of what comes and of what goes.
    fn change(&mut self, session: SessionId, change: impl FnOnce(&mut Held) -> u64) {
        let held = self.held.entry(session).or_default();
        let before = held.bytes;
        self.digest ^= change(held);
        let after = held.bytes;
        if held.replies.is_empty() && held.woken.is_empty() {
            self.held.remove(&session);
        }
        self.order.remove(&(before, Reverse(session)));
        if after > 0 {
            self.order.insert((after, Reverse(session)));
        }
        self.bytes = self.bytes - before + after;
    }

    fn of(&self, session: SessionId) -> usize {
        self.held.get(&session).map_or(0, |held| held.bytes)
    }

    /// Whether a client must acknowledge replies before it may have more of them, where all sessions may keep `group_bytes`.
    pub(crate) fn is_too_much(
        &self,
        (session, acknowledged): (SessionId, u64),
        group_bytes: usize,
    ) -> bool {
        let unacknowledged = self.above(session, acknowledged);
        let is_crowded = self.bytes > group_bytes / 8;
        unacknowledged > self.limits.session_bytes / 2
            || is_crowded && unacknowledged > self.limits.session_bytes / 16
    }

    /// Bytes that a session holds above what its client acknowledges.
    fn above(&self, session: SessionId, acknowledged: u64) -> usize {
        let held = self.held.get(&session);
        held.map_or(0, |held| {
            held.replies
                .range(acknowledged + 1..)
                .map(|(_, bytes)| bytes)
                .sum()
        })
    }

    /// Bytes that all sessions may keep of what is executed.
    pub(crate) fn most(&self) -> usize {
        self.limits.group_bytes
    }

    /// Bytes of all sessions.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn check(&self) {
        let sum: usize = self.held.values().map(|held| held.bytes).sum();
        assert_eq!(sum, self.bytes, "every kept byte is counted");
        let with_bytes = self.held.values().filter(|held| held.bytes > 0);
        assert_eq!(self.order.len(), with_bytes.count());
        let held = self.held.iter().map(|(session, held)| {
            marks(*session, &held.replies, false) ^ marks(*session, &held.woken, true)
        });
        let digest = held.fold(0, |all, marks| all ^ marks);
        assert_eq!(digest, self.digest, "every kept reply is in the digest");
        assert!(
            self.bytes <= self.limits.group_bytes,
            "kept replies stay in their bound"
        );
    }
}

/// The marks of these replies.
fn marks(session: SessionId, replies: &BTreeMap<u64, usize>, were_parked: bool) -> u64 {
    let marks = replies.iter().map(|(&sequence, &bytes)| {
        KeptAfter::mark(CommandId { session, sequence }, bytes, were_parked)
    });
    marks.fold(0, |all, mark| all ^ mark)
}

pub(crate) fn weight(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Returned(value) | Outcome::Raised(value) => value.len(),
        Outcome::Skipped => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Value;

    fn id(session: u64, sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence,
        }
    }

    fn reply(bytes: usize) -> Outcome {
        Outcome::Returned(Value::from(vec![0; bytes]))
    }

    #[test]
    fn a_session_keeps_its_newest_replies_within_its_share() {
        let mut kept = KeptReplies::new(KeptLimits::default());
        let third = reply(KeptLimits::default().session_bytes / 3);
        for sequence in 1..=3 {
            assert_eq!(kept.keep(id(1, sequence), &third), []);
        }
        assert_eq!(kept.keep(id(1, 4), &third), [id(1, 1)]);
        kept.free(Freed::Acknowledged(SessionId(1), 3));
        assert_eq!(
            kept.above(SessionId(1), 3),
            KeptLimits::default().session_bytes / 3
        );
        assert_eq!(kept.keep(id(1, 5), &third), []);
        kept.free(Freed::Ended(SessionId(1)));
        assert_eq!(kept.bytes(), 0);
        kept.check();
    }

    #[test]
    fn the_session_that_holds_most_gives_way_when_the_group_holds_too_much() {
        let mut kept = KeptReplies::new(KeptLimits::default());
        let small = reply(KeptLimits::default().counted_min);
        kept.keep(id(1, 1), &small);
        let sessions =
            (KeptLimits::default().group_bytes / KeptLimits::default().session_bytes) as u64;
        let half = reply(KeptLimits::default().session_bytes / 2);
        let mut dropped = Vec::new();
        for session in 2..2 + sessions {
            dropped.extend(kept.keep(id(session, 1), &half));
            dropped.extend(kept.keep(id(session, 2), &half));
        }
        assert_eq!(dropped, [id(2, 1)], "the oldest of those that hold as much");
        assert_eq!(
            kept.above(SessionId(1), 0),
            KeptLimits::default().counted_min
        );
        kept.check();
    }

    #[test]
    fn the_newest_answer_of_a_parked_call_stays_however_long_that_has_waited() {
        let mut kept = KeptReplies::new(KeptLimits::default());
        let half = reply(KeptLimits::default().session_bytes / 2 - WOKEN_BYTES);
        assert_eq!(kept.keep_woken(id(1, 2), &half), []);
        assert_eq!(kept.keep_woken(id(1, 3), &half), []);
        assert_eq!(kept.keep_woken(id(1, 1), &half), [id(1, 2)]);
        assert_eq!(kept.keep(id(1, 4), &half), [id(1, 1)]);
        kept.check();
    }

    #[test]
    fn small_replies_are_bounded_by_their_number() {
        let mut kept = KeptReplies::new(KeptLimits::default());
        kept.keep(id(1, 1), &reply(KeptLimits::default().counted_min - 1));
        assert_eq!(kept.bytes(), 0);
    }
}
