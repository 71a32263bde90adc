//! Timers: deadlines, silence, repeated dialling, keepalives.

use super::{ClientSession, Link, Registration, SessionOutput};
use crate::outstanding::Pending;
use crate::{Cause, Failure, Ticket};
use quorate_types::{Duration, FromClient, Time};

impl ClientSession {
    pub(super) fn on_wake(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        self.fail_overdue(now, out);
        match self.link {
            Link::Down { dial_at } if now >= dial_at => self.dial(now, out),
            Link::Dialling { until } if now >= until => {
                self.note_silence();
                self.on_disconnected(now);
                if let Link::Down { dial_at } = self.link
                    && now >= dial_at
                {
                    self.dial(now, out);
                }
            }
            Link::Down { .. } | Link::Dialling { .. } => {}
            Link::Up => self.tend(now, out),
        }
        // Also where the connection was left just before, for its silence: the next one gets no second copy.
        if self.link != Link::Up {
            self.fail_all(Cause::ConnectionLost, Pending::is_spent, out);
        }
        self.wake_hint = self.due(now);
    }

    /// Looks after a connection that is up: silence, refused operations, keepalives.
    pub(super) fn tend(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        if self.silence_ends().is_some_and(|at| now >= at) {
            self.note_silence();
            self.on_disconnected(now);
            self.dial(now, out);
            return;
        }
        let (calls, requests) = (self.calls.due(now), self.requests.due(now));
        for number in calls {
            self.send_one(now, Ticket::Call(number), out);
        }
        for number in requests {
            self.send_one(now, Ticket::Request(number), out);
        }
        self.send_cancels(now, out);
        if self.registration == Registration::Wanted && self.open_at.is_some_and(|at| now >= at) {
            self.open_at = None;
            self.last_heard = now;
            out.push(SessionOutput::Send(self.introduction()));
        }
        if self.keepalive_due().is_some_and(|at| now >= at) {
            self.send_keepalive(now, out);
        }
    }

    pub(super) fn send_keepalive(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        let Registration::Open { id, .. } = self.registration else {
            return;
        };
        out.push(SessionOutput::Send(FromClient::KeepAlive { session: id }));
        if self.silence_ends().is_none() {
            self.last_heard = now;
        }
        self.unanswered_keepalive.get_or_insert(self.active_at);
        self.life.sent_keepalive(now);
        self.active_at = now;
    }

    /// When the next keepalive is due. While none was acknowledged on this connection, those that ended may end the session.
    fn keepalive_due(&self) -> Option<Time> {
        Some(self.active_at + Duration(self.patience()?.0 / 3))
    }

    /// How long the session may live without another sign of life.
    fn patience(&self) -> Option<Duration> {
        let Registration::Open { expiry, .. } = self.registration else {
            return None;
        };
        let short = self.terms.on_disconnect;
        let short = short.filter(|_| !self.life.is_settled());
        Some(short.map_or(expiry, |short| short.min(expiry)))
    }

    /// When a silent connection is given up. If only the answer to a keepalive is missing, which a quorum has to confirm, the
    /// connection may be silent for longer; but half of the expiry time is left then to ask other nodes.
    fn silence_ends(&self) -> Option<Time> {
        if let Some(at) = self.open_at.filter(|_| self.requests.len() == 0) {
            // The node has said when to ask again.
            return Some(at.max(self.last_heard) + self.silence);
        }
        if self.in_flight() > 0 || !self.is_open() {
            return Some(self.last_heard + self.silence);
        }
        let patience = Duration(self.patience()?.0 / 6).max(self.config.silence);
        let owes = self.unanswered_keepalive.is_some();
        owes.then_some(self.last_heard + patience.min(self.config.silence_max))
    }

    /// Nothing was heard for too long. Leader hints of nodes that have not noticed it yet do not lead back to
    /// the node in use, and the next silence may be longer.
    pub(super) fn note_silence(&mut self) {
        self.silence = Duration((self.silence.0 * 2).min(self.config.silence_max.0));
        self.route.shun();
    }

    pub(super) fn fail_overdue(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        let deadlines = [self.calls.next_deadline(), self.requests.next_deadline()];
        if deadlines.into_iter().flatten().all(|first| now < first) {
            return;
        }
        let cause = self.foreign.unwrap_or(Cause::DeadlinePassed);
        self.fail_all(cause, |pending| now >= pending.deadline, out);
    }

    /// Ends every operation that `is_meant`, without an answer.
    pub(super) fn fail_all(
        &mut self,
        cause: Cause,
        is_meant: impl Fn(&Pending) -> bool,
        out: &mut Vec<SessionOutput>,
    ) {
        let meant = |(number, pending): (u64, &mut Pending)| {
            is_meant(pending).then_some((number, pending.is_in_doubt()))
        };
        let calls: Vec<(u64, bool)> = self.calls.iter_mut().filter_map(meant).collect();
        let requests: Vec<(u64, bool)> = self.requests.iter_mut().filter_map(meant).collect();
        for (number, is_in_doubt) in calls {
            self.note_overdue(number);
            let failure = Failure {
                cause,
                may_have_executed: is_in_doubt,
            };
            self.finish_call(number, Err(failure), out);
        }
        for (number, _) in requests {
            let failure = Failure {
                cause,
                may_have_executed: false,
            };
            self.finish_request(number, Err(failure), out);
        }
    }

    /// The earliest time at which something is to be done. Messages that need a connection or a session are not due while
    /// there is none: the client could not send them and would be woken again at once.
    pub(super) fn due(&self, now: Time) -> Time {
        let is_open = self.is_open();
        let link = match self.link {
            Link::Down { dial_at } => [Some(dial_at), None],
            Link::Dialling { until } => [Some(until), None],
            Link::Up => [self.silence_ends(), self.open_at],
        };
        let keepalive = self.keepalive_due();
        let times = [
            self.calls.next_deadline(),
            self.requests.next_deadline(),
            self.calls.next_resend().filter(|_| is_open),
            self.requests
                .next_resend()
                .filter(|_| self.link == Link::Up),
            keepalive.filter(|_| is_open),
        ];
        times
            .into_iter()
            .chain(link)
            .flatten()
            .min()
            .unwrap_or(now + Duration::from_millis(1000))
    }
}
