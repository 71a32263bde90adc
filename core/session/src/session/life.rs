//! What a client may count on by its own clock: whether its session lives, and until when at least.

use super::{ClientSession, Registration};
use crate::limits::{KEEPALIVES_MAX, LOSS_MARGIN_PARTS};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, SessionId, Time};
use std::collections::VecDeque;

/// Whether a session lives, as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// The group has acknowledged a sign of life lately.
    Connected,
    /// No node answers, or no sign of life was acknowledged for half of the expiry time. The session may live.
    Suspended,
    /// The session is over, or may be: what it owned may be another's.
    Lost,
}

/// What a client may count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionLife {
    /// Whether the session lives.
    pub state: SessionState,
    /// How many sessions of this client the group has ended.
    pub ended: u64,
    /// Until when the session lives in any case. The group gives nothing that it owns to others before.
    pub until: Time,
    /// When the state changes if nothing is heard.
    pub changes_at: Option<Time>,
}

/// Signs of life, and which of them the group has acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct SignsOfLife {
    /// When the newest acknowledged one was sent.
    acknowledged: Time,
    /// When the session was asked for first.
    asked_at: Option<Time>,
    /// When the keepalives of this connection without an answer were sent. An answer counts for the oldest: it may be that one's.
    keepalives: VecDeque<Time>,
    ended: u64,
}

impl SignsOfLife {
    pub(super) fn asked(&mut self, now: Time) {
        self.asked_at.get_or_insert(now);
    }

    /// The session is open. The group may count from its first copy.
    pub(super) fn opened(&mut self, now: Time) {
        self.acknowledged = self.asked_at.take().unwrap_or(now);
    }

    pub(super) fn connected(&mut self) {
        self.keepalives.clear();
    }

    pub(super) fn sent_keepalive(&mut self, now: Time) {
        if self.keepalives.len() < KEEPALIVES_MAX {
            self.keepalives.push_back(now);
        }
    }

    pub(super) fn kept_alive(&mut self) {
        if planted(Plant::LifeOfNewestKeepalive) {
            self.keepalives
                .drain(..self.keepalives.len().saturating_sub(1));
        }
        if let Some(sent_at) = self.keepalives.pop_front() {
            self.acknowledge(sent_at);
        }
    }

    pub(super) fn acknowledge(&mut self, sent_at: Time) {
        self.acknowledged = self.acknowledged.max(sent_at);
    }

    pub(super) fn sessions_ended(&self) -> u64 {
        self.ended
    }

    /// The group has ended the session.
    pub(super) fn ended(&mut self) {
        self.ended += 1;
        self.asked_at = None;
        self.keepalives.clear();
    }
}

impl ClientSession {
    /// Claim rp-71. What the client may count on.
    #[must_use]
    pub fn session_life(&self, now: Time) -> SessionLife {
        let Registration::Open { expiry, .. } = self.registration else {
            return self.lost(now);
        };
        let span = match planted(Plant::LifeBeyondExpiry) {
            true => expiry.0 + expiry.0 / 2,
            false => expiry.0 - expiry.0 / LOSS_MARGIN_PARTS,
        };
        let until = self.life.acknowledged + Duration(span);
        let suspended_at = self.life.acknowledged + Duration(expiry.0 / 2);
        let is_unanswered = self.route.rounds() > 0;
        let (state, changes_at) = if now >= until {
            (SessionState::Lost, None)
        } else if now >= suspended_at || is_unanswered {
            (SessionState::Suspended, Some(until))
        } else {
            (SessionState::Connected, Some(suspended_at))
        };
        SessionLife {
            state,
            ended: self.life.ended,
            until,
            changes_at,
        }
    }

    fn lost(&self, now: Time) -> SessionLife {
        SessionLife {
            state: SessionState::Lost,
            ended: self.life.ended,
            until: self.life.acknowledged.min(now),
            changes_at: None,
        }
    }

    pub(super) fn on_kept_alive(&mut self, now: Time, session: SessionId) {
        self.unanswered_keepalive = None;
        if matches!(self.registration, Registration::Open { id, .. } if id == session) {
            self.life.kept_alive();
            if planted(Plant::LifeFromAnswer) {
                self.life.acknowledge(now);
            }
        }
    }
}
