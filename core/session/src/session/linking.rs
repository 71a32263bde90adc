//! How a client comes to a node and leaves it: connections that are made and lost, and hints of the leader.

use super::{ClientSession, Link, Registration, SessionOutput};
use crate::limits::DIAL_DOUBLINGS;
use crate::{Cause, Preference};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{ClosedBy, Duration, NodeId, Time};

impl ClientSession {
    pub(super) fn on_connected(
        &mut self,
        now: Time,
        node: NodeId,
        members: Vec<(NodeId, String)>,
        out: &mut Vec<SessionOutput>,
    ) {
        self.route.welcomed(node, members);
        self.foreign = None;
        self.link = Link::Up;
        self.last_heard = now;
        if let Some(before) = self.unanswered_keepalive.take() {
            self.active_at = before;
        }
        self.open_at = None;
        self.is_in_line = false;
        self.life.connected();
        if self.is_short_lived() {
            self.life.attached();
        }
        out.push(SessionOutput::Send(self.introduction()));
        if self.is_short_lived() {
            self.send_keepalive(now, out);
        }
        if self.registration == Registration::Wanted {
            self.active_at = now;
            self.life.asked(now);
        }
        self.forget_tentative();
        self.send_calls(now, out);
        self.send_requests(now, out);
        self.wake_hint = now;
    }

    /// Other addresses may still be those of the own cluster. Once none is, operations end at once.
    pub(super) fn on_other_cluster(
        &mut self,
        now: Time,
        cause: Cause,
        out: &mut Vec<SessionOutput>,
    ) {
        self.foreign = Some(cause);
        if self.route.found_foreign() {
            self.fail_all(cause, |_| true, out);
        }
        self.on_disconnected(now);
    }

    pub(super) fn on_disconnected(&mut self, now: Time) {
        if let Link::Down { .. } = self.link
            && !planted(Plant::EachRefusalLeaves)
        {
            // The connection that ends was left before.
            return;
        }
        if self.route.rounds() > 0 {
            // Hints would lead back to it past nodes that may answer.
            self.route.shun();
        }
        self.route.advance();
        let pause = match self.route.rounds() {
            0 => Duration::ZERO,
            rounds => Duration(self.config.retry_pause.0 << (rounds - 1).min(DIAL_DOUBLINGS)),
        };
        self.is_in_line = false;
        self.link = Link::Down {
            dial_at: now + pause,
        };
    }

    pub(super) fn on_leader(
        &mut self,
        now: Time,
        leader: Option<NodeId>,
        out: &mut Vec<SessionOutput>,
    ) {
        let Some(leader) = leader else { return };
        // A move leaves the connection, and with it what was sent for the only time.
        let holds_spent = self.calls.iter_mut().any(|(_, p)| p.is_spent())
            || self.requests.iter_mut().any(|(_, p)| p.is_spent());
        let may_move = self.config.preference == Preference::Leader
            && !holds_spent
            && self
                .last_move
                .is_none_or(|last| now.since(last) >= self.config.retry_pause);
        if may_move && self.route.hinted(leader) {
            self.last_move = Some(now);
            self.dial(now, out);
        }
    }

    pub(super) fn dial(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        self.life.disconnected(now, ClosedBy::Client);
        self.link = Link::Dialling {
            until: now + self.silence,
        };
        out.push(SessionOutput::Dial {
            address: self.route.address().to_string(),
        });
    }
}
