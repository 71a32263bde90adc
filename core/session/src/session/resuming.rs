//! Asking for a session: a new one, or that of a client before, in whose place this one goes on.

use super::{ClientSession, Link, Registration, SessionOutput};
use crate::SessionConfig;
use quorate_types::{FromClient, Secret, Tenancy, Time};

impl ClientSession {
    /// A client that goes on with the session of this secret, in the place of the client that has it, or opens one where there is
    /// none. `tenant` must be random, and drawn anew by each process.
    #[must_use]
    pub fn resuming(
        config: SessionConfig,
        addresses: Vec<String>,
        first: u64,
        (secret, tenant): (Secret, Secret),
        now: Time,
    ) -> ClientSession {
        let mut client = ClientSession::new(config, addresses, first, secret, now);
        client.tenant = Some(tenant);
        client.reader = tenant.hash();
        client
    }

    /// In which this client has its session; a later one than the first if another client had it before.
    #[must_use]
    pub fn tenancy(&self) -> Tenancy {
        self.tenancy
    }

    /// What a connection of this client says before anything about its session: it asks for one, or shows that the open one
    /// is its own.
    #[must_use]
    pub fn introduction(&self) -> FromClient {
        let secret = self.secret;
        match self.registration {
            Registration::Wanted => match self.tenant {
                Some(tenant) => FromClient::Resume {
                    secret,
                    tenant: tenant.hash(),
                    terms: self.config.terms,
                },
                None => FromClient::Open {
                    secret,
                    terms: self.config.terms,
                },
            },
            Registration::Open { id, .. } => FromClient::Attach {
                session: id,
                secret,
                attachment: self.life.attachment(),
            },
        }
    }

    /// There is no session any more: another one is asked for. Clients that had the same one ask for different ones.
    pub(super) fn want_next(
        &mut self,
        now: Time,
        is_superseded: bool,
        out: &mut Vec<SessionOutput>,
    ) {
        self.secret = self.tenant.unwrap_or(self.secret).next();
        self.tenant = self.tenant.map(|tenant| tenant.next().next());
        self.tenancy = Tenancy::FIRST;
        self.life.ended(is_superseded);
        if self.link == Link::Up {
            out.push(SessionOutput::Send(self.introduction()));
            self.active_at = now;
            self.life.asked(now);
            self.unanswered_keepalive = None;
        }
    }
}
