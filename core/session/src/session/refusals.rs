//! Handling of refusals: end the operation, send it again later, or send it to another node.

use super::{ClientSession, Link, Registration, SessionOutput};
use crate::limits::DIAL_DOUBLINGS;
use crate::outstanding::{Attempts, Pending};
use crate::{Failure, Operation};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ask, CommandId, Duration, ReadLevel, Refusal, SessionId, Time};

impl ClientSession {
    pub(super) fn on_refused(
        &mut self,
        now: Time,
        ask: Ask,
        refusal: Refusal,
        out: &mut Vec<SessionOutput>,
    ) {
        if !refusal.may_have_executed()
            && !self.is_parked(ask)
            && let Some(pending) = self.pending_mut(ask)
        {
            pending.copies = pending.copies.saturating_sub(1);
        }
        self.finish_attempt(ask, refusal, out);
        match (ask, refusal) {
            (
                Ask::Session(session) | Ask::Call(CommandId { session, .. }),
                Refusal::SessionExpired | Refusal::Superseded,
            ) => self.on_expired(now, session, refusal, out),
            (Ask::Open(hash), Refusal::Superseded) => {
                // Another client has resumed it before this one heard that it was open.
                if self.registration == Registration::Wanted && hash == self.secret.hash() {
                    self.want_next(now, true, out);
                }
            }
            (_, Refusal::NotServing | Refusal::Behind) => {
                self.delay(now, ask);
                // A node refuses all that it was asked at once, and is left once.
                if self.link == Link::Up || planted(Plant::EachRefusalLeaves) {
                    if !self.reads_any_state(ask) {
                        // The next node may name this one as the leader before it has answered anything itself.
                        self.route.shun();
                    }
                    self.on_disconnected(now);
                    self.wake_hint = now;
                }
            }
            (_, Refusal::StorageFull) => self.on_storage_full(now, ask, out),
            (Ask::Call(id), refusal) if is_final(refusal) => {
                if let Some(number) = self.call_number(id) {
                    self.finish_call(number, Err(Failure::refused(refusal)), out);
                }
            }
            (Ask::Request(number), refusal) if is_final(refusal) => {
                self.finish_request(number, Err(Failure::refused(refusal)), out);
            }
            (_, _) => self.delay(now, ask),
        }
    }

    /// Ends an operation whose only copy was refused.
    fn finish_attempt(&mut self, ask: Ask, refusal: Refusal, out: &mut Vec<SessionOutput>) {
        let is_last = |pending: &mut Pending| pending.attempts == Attempts::One;
        if !self.pending_mut(ask).is_some_and(is_last) {
            return;
        }
        let refused = Failure::refused(refusal);
        let failure = Err(Failure {
            may_have_executed: refused.may_have_executed || self.is_parked(ask),
            ..refused
        });
        match ask {
            Ask::Call(id) => {
                if let Some(number) = self.call_number(id) {
                    self.finish_call(number, failure, out);
                }
            }
            Ask::Request(number) => self.finish_request(number, failure, out),
            Ask::Open(_) | Ask::Session(_) => {}
        }
    }

    /// The node's disk is full; another node may have room. Once every node has refused, the operations that no
    /// node can have executed fail.
    pub(super) fn on_storage_full(&mut self, now: Time, ask: Ask, out: &mut Vec<SessionOutput>) {
        let nodes = self.route.len();
        let failed: Vec<u64> = match ask {
            Ask::Open(_) => {
                self.full_nodes += 1;
                let unsent = |(number, pending): (u64, &mut Pending)| {
                    (!pending.is_in_doubt()).then_some(number)
                };
                if self.is_full_everywhere() {
                    self.calls.iter_mut().filter_map(unsent).collect()
                } else {
                    Vec::new()
                }
            }
            Ask::Call(_) | Ask::Request(_) | Ask::Session(_) => {
                let is_full_everywhere = self.pending_mut(ask).is_some_and(|pending| {
                    pending.full_nodes += 1;
                    pending.full_nodes >= nodes && !pending.is_in_doubt()
                });
                match ask {
                    Ask::Call(id) if is_full_everywhere => {
                        self.call_number(id).into_iter().collect()
                    }
                    Ask::Request(number) if is_full_everywhere => {
                        let full = Failure::refused(Refusal::StorageFull);
                        self.finish_request(number, Err(full), out);
                        Vec::new()
                    }
                    Ask::Open(_) | Ask::Call(_) | Ask::Request(_) | Ask::Session(_) => Vec::new(),
                }
            }
        };
        for number in failed {
            self.finish_call(number, Err(Failure::refused(Refusal::StorageFull)), out);
        }
        self.delay(now, ask);
        if self.link == Link::Up && !self.stays_though_full(ask) {
            self.route.shun();
            self.on_disconnected(now);
            self.wake_hint = now;
        }
    }

    /// Where every node has refused this for want of room, reads are answered all the same, which takes a connection that stays.
    /// Each round of refusals ends with a move: another node may have room before this one.
    fn stays_though_full(&mut self, ask: Ask) -> bool {
        let nodes = self.route.len();
        let full_nodes = match ask {
            Ask::Open(_) => self.full_nodes,
            Ask::Call(_) | Ask::Request(_) | Ask::Session(_) => self
                .pending_mut(ask)
                .map_or(0, |pending| pending.full_nodes),
        };
        full_nodes >= nodes && !full_nodes.is_multiple_of(nodes.max(2))
    }

    /// Whether the refusal says only that a node does not know how old its state is, or that it is behind: it may know soon.
    fn reads_any_state(&mut self, ask: Ask) -> bool {
        let pending = self.pending_mut(ask);
        pending.is_some_and(|pending| match pending.operation {
            Operation::Read { level, .. } => match level {
                ReadLevel::Any | ReadLevel::Loose => true,
                ReadLevel::Ordered
                | ReadLevel::Confirmed
                | ReadLevel::Broadcast
                | ReadLevel::Lease => false,
            },
            Operation::Call { .. }
            | Operation::EarlyCall { .. }
            | Operation::Checkpoint
            | Operation::Reset { .. }
            | Operation::Skip { .. }
            | Operation::Invite { .. }
            | Operation::ChangeGroups { .. }
            | Operation::MoveLeader { .. }
            | Operation::Join { .. }
            | Operation::SetLevel { .. }
            | Operation::SwitchOrdering { .. }
            | Operation::SetQuorums { .. }
            | Operation::SetLimit { .. }
            | Operation::ChangeView { .. } => false,
        })
    }

    /// Whether it is a call that waits in the group: it was executed, whatever a node says of it now.
    fn is_parked(&self, ask: Ask) -> bool {
        match ask {
            Ask::Call(id) => self
                .call_number(id)
                .is_some_and(|number| self.calls.is_parked(number)),
            Ask::Request(_) | Ask::Open(_) | Ask::Session(_) => false,
        }
    }

    /// The operation that a refusal is about.
    pub(super) fn pending_mut(&mut self, ask: Ask) -> Option<&mut Pending> {
        match ask {
            Ask::Call(id) => self.call_number(id).and_then(|n| self.calls.pending_mut(n)),
            Ask::Request(number) => self.requests.pending_mut(number),
            Ask::Open(_) | Ask::Session(_) => None,
        }
    }

    /// Sends an operation or an open that was refused for the moment again after a pause.
    pub(super) fn delay(&mut self, now: Time, ask: Ask) {
        let pause = self.pause_of(ask);
        let at = now + pause;
        match ask {
            Ask::Call(id) => {
                if let Some(number) = self.call_number(id) {
                    self.calls.resend(number, at);
                }
            }
            Ask::Request(number) => self.requests.resend(number, at),
            Ask::Open(_) => self.delay_open(now),
            Ask::Session(_) => {}
        }
        self.wake_hint = self.wake_hint.min(at);
    }

    /// How long to wait before an operation is sent again. One that is parked is in no hurry, and there may be many.
    fn pause_of(&mut self, ask: Ask) -> Duration {
        let (pause, longest) = (self.config.retry_pause, self.config.silence_max);
        let number = match ask {
            Ask::Call(id) => self.call_number(id),
            Ask::Request(_) | Ask::Open(_) | Ask::Session(_) => None,
        };
        let Some(number) = number.filter(|number| self.calls.is_parked(*number)) else {
            return pause;
        };
        self.calls.pending_mut(number).map_or(pause, |pending| {
            let doublings = pending.parked_refusals.min(DIAL_DOUBLINGS);
            pending.parked_refusals = pending.parked_refusals.saturating_add(1);
            Duration((pause.0 << doublings).min(longest.0))
        })
    }

    /// Room for a session comes when another one ends, which takes long: the pauses grow, up to half of the shortest
    /// silence, so that a pause is not taken for one.
    fn delay_open(&mut self, now: Time) {
        self.open_at = Some(now + self.open_pause);
        let longest = (self.config.silence.0 / 2).max(self.config.retry_pause.0);
        self.open_pause = Duration((self.open_pause.0 * 2).min(longest));
    }

    /// The session has ended, or is another client's. Calls that a replica may have received have an unknown outcome; the others are
    /// sent in a new session, unless they are for that one alone.
    pub(super) fn on_expired(
        &mut self,
        now: Time,
        session: SessionId,
        refusal: Refusal,
        out: &mut Vec<SessionOutput>,
    ) {
        let Registration::Open { id, .. } = self.registration else {
            return;
        };
        if id != session {
            return;
        }
        self.registration = Registration::Wanted;
        let over: Vec<u64> = self
            .calls
            .iter_mut()
            .filter(|(_, p)| p.is_of_session())
            .map(|(n, _)| n)
            .collect();
        for number in over {
            self.finish_call(number, Err(Failure::refused(refusal)), out);
        }
        self.given_up.forget();
        for (_, unsent) in self.calls.iter_mut() {
            unsent.sent_at = None;
        }
        self.sequence_base = self.calls.first() - 1;
        self.want_next(now, refusal == Refusal::Superseded, out);
    }
}

/// Whether the refusal is final: sending the request again cannot succeed.
fn is_final(refusal: Refusal) -> bool {
    match refusal {
        Refusal::ReplyGone
        | Refusal::SequenceReused
        | Refusal::NoSuchObject
        | Refusal::TooLarge
        | Refusal::NoSnapshots
        | Refusal::NotFrozen
        | Refusal::NoSuchSnapshot
        | Refusal::NoStuckCall
        | Refusal::NotSkipped
        | Refusal::Frozen
        | Refusal::ViewConflict
        | Refusal::NoSuchView
        | Refusal::ViewNotReady
        | Refusal::NotInvited
        | Refusal::GroupExists
        | Refusal::UnknownGroup
        | Refusal::ImpossibleGroup
        | Refusal::LevelNotSpoken => true,
        Refusal::NotOrdered
        | Refusal::Unknown
        | Refusal::Overloaded
        | Refusal::SessionExpired
        | Refusal::Superseded
        | Refusal::NotServing
        | Refusal::NoLeader
        | Refusal::StorageFull
        | Refusal::Behind => false,
    }
}
