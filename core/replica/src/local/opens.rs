//! Clients that wait here for a session: one that is opened for them, or one that they go on with in the place of another client.
//!
//! The log decides who has a session; `docs/sessions.md` says what becomes of what the client before had asked.

use crate::limits::LINE_RETRY_MIN;
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::replicated::kept::Freed;
use crate::replicated::sessions::{Opening, Resumption};
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::{
    Ask, Body, CommandId, ConnectionId, Refusal, SecretHash, SessionId, SessionTerms, Tenancy,
    ToClient,
};

/// A client that waits for its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener {
    pub(crate) to: ConnectionId,
    /// Of all zeros: it resumes no session.
    pub(crate) tenant: SecretHash,
    pub(crate) terms: SessionTerms,
}

impl Opener {
    pub(crate) fn new(to: ConnectionId, tenant: SecretHash, terms: SessionTerms) -> Opener {
        Opener { to, tenant, terms }
    }

    /// Whether it goes on with the session of a client before.
    pub(crate) fn resumes(&self) -> bool {
        self.tenant != SecretHash::default()
    }
}

impl<O: Ordering> Replica<O> {
    /// Has a client's session opened, or resumed where it is known here.
    pub(crate) fn submit_open(&mut self, hash: SecretHash, opener: Opener) {
        let Opener { tenant, terms, .. } = opener;
        let known = self.replicated.sessions.of_hash(hash);
        let body = match known.filter(|_| opener.resumes()) {
            Some((session, known)) => Body::Resume {
                session,
                tenant,
                after: known.tenancy(),
            },
            None => Body::Open {
                hash,
                terms: terms.granted(self.config.expiry_max),
                tenant,
            },
        };
        self.submit(Purpose::Open(hash), body);
    }

    /// An open is decided.
    pub(crate) fn opened(
        &mut self,
        session: SessionId,
        (hash, tenant): (SecretHash, SecretHash),
        terms: SessionTerms,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let (slot, wall) = (self.replicated.applied, self.replicated.stamp.wall.0);
        let capacity = self.replicated.sessions_max();
        let sessions = &mut self.replicated.sessions;
        let place = (session, capacity);
        match sessions.open((hash, tenant), terms, place, slot, wall) {
            Opening::Opened(session) => self.has_session(hash, session, out),
            Opening::Full => {
                if let Some(Opener { to, .. }) = self.opens.remove(&hash) {
                    self.connections.end_open(to);
                    let retry_after = LINE_RETRY_MIN;
                    reply(out, to, ToClient::Full { hash, retry_after });
                }
            }
        }
    }

    /// There is a session for this secret: tells the client that waits for it here whether it has it.
    fn has_session(
        &mut self,
        hash: SecretHash,
        session: SessionId,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let known = self.replicated.sessions.session(session);
        let (Some(opener), Some(known)) = (self.opens.get(&hash).copied(), known) else {
            return;
        };
        let (to, tenancy, terms) = (opener.to, known.tenancy(), known.terms);
        let has_it = known.tenant == opener.tenant;
        if !has_it && opener.resumes() {
            // The log had a session of which this node did not know.
            self.submit_open(hash, opener);
            return;
        }
        self.opens.remove(&hash);
        self.connections.end_open(to);
        if !has_it {
            refuse(out, to, Ask::Open(hash), Refusal::Superseded);
            return;
        }
        self.attach_to(to, session, tenancy.attachment());
        let answer = if tenancy == Tenancy::FIRST {
            ToClient::Opened {
                hash,
                session,
                expiry: terms.expiry,
            }
        } else {
            ToClient::Resumed {
                hash,
                session,
                terms,
                tenancy,
            }
        };
        reply(out, to, answer);
    }

    /// A resume is decided. Says whether another tenancy begins, which is a step of the objects.
    pub(crate) fn resume_decided(
        &mut self,
        session: SessionId,
        (tenant, after): (SecretHash, Tenancy),
        asked: Option<Purpose>,
        out: &mut Vec<Output<O::Message>>,
    ) -> bool {
        let at = (self.replicated.applied, self.replicated.stamp.wall.0);
        let sessions = &mut self.replicated.sessions;
        let resumption = sessions.resume(session, tenant, after, at);
        if let Resumption::Begun(tenancy) = resumption {
            self.begin_tenancy(session, tenancy, out);
        }
        let hash = self
            .replicated
            .sessions
            .session(session)
            .map(|known| known.hash);
        match (resumption, hash) {
            (Resumption::Begun(_) | Resumption::Had(_), Some(hash)) => {
                let waiter = self.opens.get(&hash);
                if waiter.is_some_and(|waiter| waiter.tenant == tenant) {
                    self.has_session(hash, session, out);
                }
            }
            // The client asks again: another one came first, or there is no session any more.
            (_, _) => {
                if let Some(Purpose::Open(hash)) = asked
                    && let Some(Opener { to, .. }) = self.opens.remove(&hash)
                {
                    self.connections.end_open(to);
                    refuse(out, to, Ask::Open(hash), Refusal::NotOrdered);
                }
            }
        }
        matches!(resumption, Resumption::Begun(_))
    }

    /// What clients of earlier tenancies wait for here is refused, and they are told.
    fn begin_tenancy(
        &mut self,
        session: SessionId,
        tenancy: Tenancy,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let freed = Freed::Acknowledged(session, tenancy.floor());
        self.freed.here.push(freed);
        for (sequence, to) in self.waiting.take_line(session) {
            let id = CommandId { session, sequence };
            refuse(out, to, Ask::Call(id), Refusal::Superseded);
        }
        for (to, attachment) in self.connections.of_session(session) {
            if attachment.tenancy() < tenancy {
                refuse(out, to, Ask::Session(session), Refusal::Superseded);
            }
        }
    }
}
