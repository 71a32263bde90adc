//! Watches sessions: an acknowledged keepalive, or an answered call, keeps the session for the expiry time from when it
//! was sent; and a client that is connected gives a sign of life in time.
//!
//! Fed by the seeded world with what clients send and receive, and with the moments at which the log ends sessions, all
//! in true time. An acknowledgement does not say which keepalive it is for: the oldest that is unanswered is assumed.

use std::collections::{BTreeMap, VecDeque};

use quorate_types::{CommandId, SessionId};

use super::{Property, Violation};

/// Signs of life and what they promised.
#[derive(Debug, Default)]
pub struct Keepalives {
    sessions: BTreeMap<SessionId, Kept>,
    /// When a call was first sent.
    calls: BTreeMap<CommandId, u64>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The least time for which any clock of the group keeps it; 0 while its client does not know of it.
    expiry_ns: u64,
    /// The same once its client has closed a connection, if it asked for that.
    short_ns: Option<u64>,
    /// When its client closed one, first of all since a keepalive was acknowledged on the present one; and how long somebody had
    /// led then.
    closed: Option<(u64, u64)>,
    /// Keepalives without an answer on the present connection, by when they were sent.
    unanswered: VecDeque<u64>,
    /// When the newest sign of life was sent that was answered.
    answered: Option<u64>,
    ended: Option<u64>,
}

impl Keepalives {
    /// Takes note that a client has a session, which is kept for `expiry_ns`, whatever clock measures it.
    pub fn opened(&mut self, session: SessionId, expiry_ns: u64) {
        self.sessions.entry(session).or_default().expiry_ns = expiry_ns;
    }

    /// Takes note that its client asked that it ends earlier once it has closed its connection.
    pub fn is_short(&mut self, session: SessionId, short_ns: u64) {
        self.sessions.entry(session).or_default().short_ns = Some(short_ns);
    }

    /// Takes note that a client of `session` closes its connection, when somebody has led for `led_ns` in all.
    pub fn closed(&mut self, now_ns: u64, session: SessionId, led_ns: u64) {
        let kept = self.sessions.entry(session).or_default();
        kept.closed.get_or_insert((now_ns, led_ns));
    }

    /// Takes note that another client has a session from here on, when somebody has led for `led_ns` in all. Somebody may report the
    /// death of the client before: it counts from here at the earliest.
    pub fn resumed(&mut self, now_ns: u64, session: SessionId, led_ns: u64) {
        let kept = self.sessions.entry(session).or_default();
        kept.unanswered.clear();
        kept.closed.get_or_insert((now_ns, led_ns));
    }

    /// Takes note that a client sends a keepalive.
    pub fn sent(&mut self, now_ns: u64, session: SessionId) {
        let kept = self.sessions.entry(session).or_default();
        kept.unanswered.push_back(now_ns);
    }

    /// Takes note that a client sends a call, for the first time or again.
    pub fn called(&mut self, now_ns: u64, call: CommandId) {
        self.calls.entry(call).or_insert(now_ns);
    }

    /// When a call was first sent.
    pub fn first_sent(&self, call: CommandId) -> Option<u64> {
        self.calls.get(&call).copied()
    }

    /// Takes note that a client of `session` drops its connection: nothing sent on it will be answered.
    pub fn dropped(&mut self, session: SessionId) {
        if let Some(kept) = self.sessions.get_mut(&session) {
            kept.unanswered.clear();
        }
    }

    /// Takes note that a keepalive is acknowledged.
    ///
    /// # Errors
    /// [`Property::SessionKept`] when the session had ended before the expiry time was over.
    pub fn acknowledged(&mut self, session: SessionId) -> Result<(), Violation> {
        let kept = self.sessions.entry(session).or_default();
        match kept.unanswered.pop_front() {
            Some(sent_ns) => {
                kept.closed = None;
                self.answered(session, sent_ns)
            }
            None => Ok(()),
        }
    }

    /// Takes note that a call is answered, or waits in the group.
    ///
    /// # Errors
    /// As for [`Keepalives::acknowledged`].
    pub fn replied(&mut self, call: CommandId) -> Result<(), Violation> {
        match self.calls.get(&call) {
            Some(sent_ns) => self.answered(call.session, *sent_ns),
            None => Ok(()),
        }
    }

    fn answered(&mut self, session: SessionId, sent_ns: u64) -> Result<(), Violation> {
        let kept = self.sessions.entry(session).or_default();
        kept.answered = kept.answered.max(Some(sent_ns));
        self.check(session)
    }

    /// Whether only a closed connection can have ended a session at this time.
    pub fn is_early(&self, now_ns: u64, session: SessionId) -> bool {
        let kept = self.sessions.get(&session);
        kept.is_some_and(|kept| {
            let lives_on = |sent_ns| now_ns < sent_ns + kept.expiry_ns;
            kept.closed.is_some() && kept.answered.is_some_and(lives_on)
        })
    }

    /// Takes note that the log ends a session that its client did not end.
    ///
    /// # Errors
    /// As for [`Keepalives::acknowledged`], and when it ended because its client closed its connection, and somebody has led since
    /// for less than its shorter time.
    pub fn ended(&mut self, now_ns: u64, session: SessionId, led_ns: u64) -> Result<(), Violation> {
        let is_early = self.is_early(now_ns, session);
        let kept = self.sessions.entry(session).or_default();
        kept.ended = Some(now_ns);
        self.check(session)?;
        let Some(Kept {
            short_ns: Some(short_ns),
            closed: Some((_, led_then_ns)),
            ..
        }) = self.sessions.get(&session)
        else {
            return Ok(());
        };
        if !is_early || led_ns >= led_then_ns + short_ns {
            return Ok(());
        }
        broken(format!(
            "{session} ended at {now_ns} ns, {short_ns} ns after its connection was closed; somebody had led for {} ns of them",
            led_ns - led_then_ns
        ))
    }

    fn check(&self, session: SessionId) -> Result<(), Violation> {
        let Some(Kept {
            expiry_ns,
            short_ns,
            closed,
            answered: Some(sent_ns),
            ended: Some(ended_ns),
            ..
        }) = self.sessions.get(&session)
        else {
            return Ok(());
        };
        let until = match (short_ns, closed) {
            (Some(short_ns), Some((closed_ns, _))) => {
                (sent_ns + expiry_ns).min(sent_ns.max(closed_ns) + short_ns)
            }
            (None, _) | (_, None) => sent_ns + expiry_ns,
        };
        // An answer that an ended session still gets says nothing about its future.
        let is_kept = sent_ns <= ended_ns && *ended_ns < until;
        if !is_kept {
            return Ok(());
        }
        broken(format!(
            "{session} ended at {ended_ns} ns; what was sent at {sent_ns} ns and answered keeps it until {until} ns (closed: {closed:?})"
        ))
    }

    /// Takes a look at a client that is connected and has an open session: when it sent the newest keepalive or
    /// answered call, was connected, or got the session, is so long ago.
    ///
    /// # Errors
    /// [`Property::SessionKept`] when it lets more than half of the expiry time pass.
    pub fn idled(&self, session: SessionId, idle_ns: u64) -> Result<(), Violation> {
        let kept = self.sessions.get(&session);
        let expiry_ns = kept.map_or(u64::MAX, |kept| kept.expiry_ns);
        if idle_ns <= expiry_ns / 2 {
            return Ok(());
        }
        broken(format!(
            "the connected client of {session} gave no sign of life for {idle_ns} ns of {expiry_ns} ns"
        ))
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::SessionKept, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: SessionId = SessionId(7);
    const CALL: CommandId = CommandId {
        session: S,
        sequence: 1,
    };

    fn kept() -> Keepalives {
        let mut seen = Keepalives::default();
        seen.opened(S, 100);
        seen
    }

    #[test]
    fn an_acknowledged_keepalive_keeps_its_session_for_the_expiry_time() {
        let mut seen = kept();
        seen.sent(10, S);
        seen.acknowledged(S).unwrap();
        let early = seen.ended(109, S, 0).unwrap_err();
        assert_eq!(early.property, Property::SessionKept);
        let mut seen = kept();
        seen.sent(10, S);
        seen.acknowledged(S).unwrap();
        seen.ended(110, S, 0).unwrap();
    }

    #[test]
    fn an_acknowledgement_that_comes_after_the_end_of_its_session_is_found() {
        let mut seen = kept();
        seen.sent(10, S);
        seen.ended(50, S, 0).unwrap();
        assert!(seen.acknowledged(S).is_err());
    }

    #[test]
    fn an_acknowledgement_counts_for_the_oldest_keepalive_of_its_connection() {
        let mut seen = kept();
        seen.sent(10, S);
        seen.sent(60, S);
        seen.acknowledged(S).unwrap();
        seen.ended(115, S, 0).unwrap();
        let mut seen = kept();
        seen.sent(10, S);
        seen.dropped(S);
        seen.sent(60, S);
        seen.acknowledged(S).unwrap();
        assert!(seen.ended(115, S, 0).is_err());
    }

    #[test]
    fn an_answered_call_counts_from_when_it_was_first_sent() {
        let mut seen = kept();
        seen.called(10, CALL);
        seen.called(50, CALL);
        seen.replied(CALL).unwrap();
        seen.called(60, CALL);
        seen.replied(CALL).unwrap();
        seen.ended(115, S, 0).unwrap();
        let mut seen = kept();
        seen.called(10, CALL);
        seen.replied(CALL).unwrap();
        assert!(seen.ended(105, S, 0).is_err());
    }

    #[test]
    fn a_connected_client_that_lets_its_session_grow_old_is_found() {
        let seen = kept();
        seen.idled(S, 50).unwrap();
        assert!(seen.idled(S, 51).is_err());
    }

    #[test]
    fn a_closed_connection_shortens_what_was_promised_until_another_is_heard() {
        let closed = || {
            let mut seen = kept();
            seen.is_short(S, 20);
            seen.sent(10, S);
            seen.acknowledged(S).unwrap();
            seen.closed(30, S, 5);
            seen
        };
        closed().ended(50, S, 25).unwrap();
        assert!(closed().ended(49, S, 25).is_err());
        let mut seen = closed();
        seen.dropped(S);
        seen.sent(35, S);
        seen.acknowledged(S).unwrap();
        assert!(seen.ended(60, S, 99).is_err());
    }

    #[test]
    fn a_resume_counts_as_a_closed_connection_and_owes_nothing_for_earlier_keepalives() {
        let mut seen = kept();
        seen.is_short(S, 20);
        seen.sent(10, S);
        seen.acknowledged(S).unwrap();
        seen.sent(25, S);
        seen.resumed(30, S, 5);
        seen.acknowledged(S).unwrap();
        assert!(seen.ended(49, S, 25).is_err());
    }

    #[test]
    fn a_session_that_ends_early_while_nobody_led_is_found() {
        let mut seen = kept();
        seen.is_short(S, 20);
        seen.sent(10, S);
        seen.acknowledged(S).unwrap();
        seen.closed(30, S, 5);
        assert!(seen.ended(60, S, 24).is_err());
    }
}
