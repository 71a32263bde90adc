//! What a client may count on by its own clock: whether its session lives, and until when at least.

use super::{ClientSession, Registration};
use crate::limits::{KEEPALIVES_MAX, LOSS_MARGIN_PARTS};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Attachment, ClosedBy, Duration, SessionId, Tenancy, Time};
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
    /// How many sessions of this client the group has ended, or given to another one.
    pub ended: u64,
    /// The last of them was given to another client, which has resumed it.
    pub is_superseded: bool,
    /// Another client had the present one before.
    pub is_resumed: bool,
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
    is_superseded: bool,
    /// The latest connection on which the session was used, if its client numbers them.
    attachment: Attachment,
    standing: Standing,
    /// When this client closed a connection of the session, first of all since a keepalive was last acknowledged on the
    /// connection in use. A node may report that as the client's death.
    closed_at: Option<Time>,
}

/// What the group knows of the latest numbered connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Standing {
    /// There is none, or it has ended.
    #[default]
    Ended,
    /// It is in use, and the group may not know.
    InUse,
    /// A keepalive was acknowledged on it: no report of an earlier one counts.
    Settled,
}

impl SignsOfLife {
    pub(super) fn asked(&mut self, now: Time) {
        self.asked_at.get_or_insert(now);
    }

    /// The session is open. The group may count from its first copy. The node of a client that had it before may yet report that
    /// one's death: the shorter time counts from when the session was asked for, until a keepalive is acknowledged.
    pub(super) fn opened(&mut self, now: Time, tenancy: Tenancy) {
        self.acknowledged = self.asked_at.take().unwrap_or(now);
        self.attachment = tenancy.attachment();
        if tenancy > Tenancy::FIRST {
            self.closed_at = Some(self.acknowledged);
        }
    }

    pub(super) fn connected(&mut self) {
        self.keepalives.clear();
    }

    /// The session is used on another connection.
    pub(super) fn attached(&mut self) {
        self.attachment.0 += 1;
        self.standing = Standing::InUse;
    }

    pub(super) fn attachment(&self) -> Attachment {
        self.attachment
    }

    pub(super) fn is_settled(&self) -> bool {
        self.standing == Standing::Settled
    }

    /// The connection is over. What the node closes, no node reports.
    pub(super) fn disconnected(&mut self, now: Time, by: ClosedBy) {
        let was_in_use = std::mem::take(&mut self.standing) != Standing::Ended;
        if was_in_use && by == ClosedBy::Client {
            self.closed_at.get_or_insert(now);
        }
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
            if self.standing == Standing::InUse {
                self.standing = Standing::Settled;
                self.closed_at = None;
            }
        }
    }

    pub(super) fn acknowledge(&mut self, sent_at: Time) {
        self.acknowledged = self.acknowledged.max(sent_at);
    }

    pub(super) fn sessions_ended(&self) -> u64 {
        self.ended
    }

    /// The group has ended the session, or given it to another client.
    pub(super) fn ended(&mut self, is_superseded: bool) {
        self.ended += 1;
        self.is_superseded = is_superseded;
        self.asked_at = None;
        self.keepalives.clear();
        self.attachment = Attachment::NONE;
        self.standing = Standing::Ended;
        self.closed_at = None;
    }
}

impl ClientSession {
    /// Claim rp-71. What the client may count on.
    #[must_use]
    pub fn session_life(&self, now: Time) -> SessionLife {
        let Registration::Open { expiry, .. } = self.registration else {
            return self.lost(now);
        };
        let whole = match planted(Plant::LifeBeyondExpiry) {
            true => self.life.acknowledged + Duration(expiry.0 + expiry.0 / 2),
            false => self.life.acknowledged + counted_on(expiry),
        };
        let closed_at = self.life.closed_at;
        let lives = |shorter: Option<(Time, Duration)>| {
            shorter.map_or(whole, |(from, short)| whole.min(from + counted_on(short)))
        };
        let shorter = self.shorter_life(closed_at);
        let until = lives(shorter);
        // It may close its connection at any time, and what was told as certain is not taken back then.
        let certain = lives(self.shorter_life(Some(closed_at.unwrap_or(now))));
        let half = self.life.acknowledged + Duration(expiry.0 / 2);
        let suspended_at =
            shorter.map_or(half, |(from, short)| half.min(from + Duration(short.0 / 2)));
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
            is_superseded: self.life.is_superseded,
            is_resumed: self.tenancy() > Tenancy::FIRST,
            until: certain,
            changes_at,
        }
    }

    /// Claim rp-89. From when on the shorter time counts where a node reports that this client closed its connection then, and that
    /// time.
    fn shorter_life(&self, closed_at: Option<Time>) -> Option<(Time, Duration)> {
        let (short, closed_at) = (self.terms.on_disconnect?, closed_at?);
        let is_told = !planted(Plant::LifeBeyondClose);
        is_told.then(|| (self.life.acknowledged.max(closed_at), short))
    }

    /// Whether the client asked that its session ends earlier when its connection is closed, and has one.
    pub(super) fn is_short_lived(&self) -> bool {
        let is_open = matches!(self.registration, Registration::Open { .. });
        is_open && self.terms.on_disconnect.is_some()
    }

    fn lost(&self, now: Time) -> SessionLife {
        SessionLife {
            state: SessionState::Lost,
            ended: self.life.ended,
            is_superseded: self.life.is_superseded,
            is_resumed: self.tenancy() > Tenancy::FIRST,
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

/// How long a client counts on a session that the group keeps for `span`.
fn counted_on(span: Duration) -> Duration {
    Duration(span.0 - span.0 / LOSS_MARGIN_PARTS)
}
