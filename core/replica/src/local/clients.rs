//! Requests of clients, up to the point where a command is submitted or a read is opened.

use crate::limits::{OPENS_WAITING, SEQUENCE_MAX};
use crate::local::internal::Purpose;
use crate::local::reads::Keeper;
use crate::local::waiting::Joined;
use crate::replicated::window::{Admission, fingerprint};
use crate::{Output, Replica, Snapshots};
use quorate_ordering::{Ordering, Role};
use quorate_types::{
    Ask, Body, Command, CommandId, ConnectionId, FromClient, ObjectId, Refusal, SessionId, Slot,
    Time, ToClient, Value,
};

impl<O: Ordering> Replica<O> {
    pub(crate) fn client(
        &mut self,
        now: Time,
        from: ConnectionId,
        message: FromClient,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let leader = self.leader();
        if self.connections.heard(from, self.config.own, leader) {
            reply(out, from, ToClient::Leader { leader });
        }
        match message {
            FromClient::Open { nonce } => self.open(from, nonce, out),
            FromClient::Call {
                id,
                acknowledged,
                object,
                payload,
            } => {
                if let Err(refusal) = self.call(from, id, acknowledged, object, payload, out) {
                    refuse(out, from, Ask::Call(id), refusal);
                }
            }
            FromClient::Read {
                request,
                object,
                payload,
                level,
            } => {
                if let Err(refusal) = self.read(now, from, request, object, payload, level, out) {
                    refuse(out, from, Ask::Request(request), refusal);
                }
            }
            FromClient::KeepAlive { session } => {
                self.keepalive(now, session, Keeper::Client(from), out);
            }
            FromClient::Close { session } => self.close(session),
            FromClient::Checkpoint { request } => self.client_checkpoint(from, request, out),
        }
    }

    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        let sessions = self.connections.remove(connection);
        self.waiting.disconnected(connection, &sessions);
        self.expiry.disconnected(connection);
    }

    /// Tells every client the new leader.
    pub(crate) fn tell_leader(&mut self, out: &mut Vec<Output<O::Message>>) {
        let leader = self.leader();
        for connection in self.connections.take_untold(leader) {
            reply(out, connection, ToClient::Leader { leader });
        }
    }

    fn open(&mut self, from: ConnectionId, nonce: u64, out: &mut Vec<Output<O::Message>>) {
        if let Some(waiter) = self.opens.get_mut(&nonce) {
            *waiter = from;
            return;
        }
        let refusal = if self.is_leaving() {
            Some(Refusal::NotServing)
        } else if !self.can_order() {
            Some(Refusal::StorageFull)
        } else if self.opens.len() >= OPENS_WAITING || self.is_log_full() || !self.has_place(nonce)
        {
            Some(Refusal::Overloaded)
        } else {
            None
        };
        match refusal {
            Some(refusal) => refuse(out, from, Ask::Open(nonce), refusal),
            None => {
                self.opens.insert(nonce, from);
                self.submit(Purpose::Open(nonce), Body::Open { nonce });
            }
        }
    }

    /// Says whether an open can come to something. Where this node is behind the log, the client asks again.
    fn has_place(&self, nonce: u64) -> bool {
        let sessions = &self.replicated.sessions;
        !sessions.is_full() || sessions.knows(nonce)
    }

    fn call(
        &mut self,
        from: ConnectionId,
        id: CommandId,
        acknowledged: u64,
        object: ObjectId,
        payload: Value,
        out: &mut Vec<Output<O::Message>>,
    ) -> Result<(), Refusal> {
        self.admits_calls()?;
        self.admits_request(object, &payload)?;
        if id.sequence == 0 || id.sequence > SEQUENCE_MAX {
            return Err(Refusal::SequenceReused);
        }
        let print = fingerprint(object, &payload);
        let admission = self.look(id, acknowledged, print)?;
        if admission == Admission::New && !self.can_order() {
            return Err(Refusal::StorageFull);
        }
        // The client cannot acknowledge more before its lowest call has an answer.
        let is_lowest = id.sequence == acknowledged + 1;
        let kept = &self.replicated.kept;
        if admission == Admission::New && !is_lowest && kept.is_too_much(id.session, acknowledged) {
            return Err(Refusal::Overloaded);
        }
        match admission {
            Admission::Answered => {
                let session = self.replicated.sessions.session(id.session);
                let outcome = session
                    .and_then(|session| session.reply(id.sequence))
                    .cloned();
                let outcome = outcome.expect("an answered call has a reply");
                reply(out, from, ToClient::Replied { id, outcome });
                return Ok(());
            }
            Admission::Gone => return Err(Refusal::ReplyGone),
            Admission::Reused => return Err(Refusal::SequenceReused),
            Admission::Beyond => return Err(Refusal::Overloaded),
            Admission::New | Admission::InFlight => {}
        }
        if !self.connections.speaks_for(from, id.session) {
            return Err(Refusal::Overloaded);
        }
        match self.waiting.join(id.session, id.sequence, print, from) {
            Joined::Full => Err(Refusal::Overloaded),
            Joined::Reused => Err(Refusal::SequenceReused),
            Joined::Later => Ok(()),
            Joined::First => {
                if admission == Admission::New {
                    self.waiting.submitted(id.session, id.sequence);
                    self.turn.push(Command {
                        id,
                        acknowledged,
                        body: Body::Call { object, payload },
                    });
                }
                Ok(())
            }
        }
    }

    /// How the call would be treated, as far as this replica has applied the log.
    fn look(
        &self,
        id: CommandId,
        acknowledged: u64,
        fingerprint: u64,
    ) -> Result<Admission, Refusal> {
        match self.replicated.sessions.session(id.session) {
            Some(session) => Ok(session.look_ahead(id.sequence, acknowledged, fingerprint)),
            // A session that another replica opened counts as open until its slot is applied here.
            None if opened_in(id.session) > self.replicated.applied => Ok(Admission::New),
            None => Err(Refusal::SessionExpired),
        }
    }

    /// Refuses requests that no replica would execute.
    pub(crate) fn admits_request(&self, object: ObjectId, payload: &Value) -> Result<(), Refusal> {
        if object.0 as usize >= self.config.view.objects.len() {
            return Err(Refusal::NoSuchObject);
        }
        if payload.len() > self.config.payload_max {
            return Err(Refusal::TooLarge);
        }
        Ok(())
    }

    fn admits_calls(&self) -> Result<(), Refusal> {
        self.serves_objects()?;
        if self.is_leaving() {
            return Err(Refusal::NotServing);
        }
        if self.pipeline.is_behind() || self.is_log_full() {
            return Err(Refusal::Overloaded);
        }
        Ok(())
    }

    /// Refuses while this node's objects must not or cannot answer.
    pub(crate) fn serves_objects(&self) -> Result<(), Refusal> {
        let serves = self.is_replica()
            && self.is_host_up
            && !self.quarantine.is_set()
            && !self.fetch.is_active();
        if serves {
            Ok(())
        } else {
            Err(Refusal::NotServing)
        }
    }

    fn is_leaving(&self) -> bool {
        self.is_draining && !matches!(self.role, Role::Leader { .. })
    }

    fn close(&mut self, session: SessionId) {
        let id = CommandId {
            session,
            sequence: 0,
        };
        self.turn.push(Command {
            id,
            acknowledged: 0,
            body: Body::Close,
        });
    }

    fn client_checkpoint(
        &mut self,
        from: ConnectionId,
        request: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if matches!(self.config.snapshots, Snapshots::Disabled) {
            refuse(out, from, Ask::Request(request), Refusal::NoSnapshots);
        } else if !self.can_order() {
            refuse(out, from, Ask::Request(request), Refusal::StorageFull);
        } else if self.checkpoints.requests.len() >= OPENS_WAITING {
            refuse(out, from, Ask::Request(request), Refusal::Overloaded);
        } else {
            self.checkpoints.requests.push((from, request));
            self.want_checkpoint();
        }
    }

    /// Submits an internal command with this turn's batch.
    pub(crate) fn submit(&mut self, purpose: Purpose, body: Body) {
        let command = self.internals.command(purpose, body);
        self.turn.push(command);
    }

    /// The ordering protocol refused this submission.
    pub(crate) fn refused(
        &mut self,
        id: CommandId,
        refusal: Refusal,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match self.internals.landed(id) {
            Some(Purpose::Open(nonce)) => {
                if let Some(to) = self.opens.remove(&nonce) {
                    refuse(out, to, Ask::Open(nonce), refusal);
                }
            }
            Some(Purpose::Expire(session)) => self.expiry.expiry_refused(session, id, refusal),
            Some(Purpose::Lead) => self.expiry.lead_refused(),
            Some(Purpose::Checkpoint) => self.checkpoint_refused(refusal, out),
            Some(Purpose::Poison) => self.own_poison.lost_sight(),
            Some(Purpose::Read(read)) => self.unconfirmed(read, out),
            None => self.call_refused(id, refusal, out),
        }
    }

    /// A copy of the call that was submitted elsewhere may still be decided; then the wait is kept.
    fn call_refused(&mut self, id: CommandId, refusal: Refusal, out: &mut Vec<Output<O::Message>>) {
        let session = self.replicated.sessions.session(id.session);
        let Some(line) = self.waiting.line(id.session) else {
            return;
        };
        let landed = usize::from(line.refused(id.sequence));
        let is_decided = session.is_some_and(|session| session.is_pending(id.sequence));
        if !is_decided {
            line.give_up(id.sequence, |to| refuse(out, to, Ask::Call(id), refusal));
        }
        self.waiting.landed(id.session, landed);
    }
}

/// The slot in which a session was opened.
pub(crate) fn opened_in(session: SessionId) -> Slot {
    Slot(session.0 >> 16)
}

/// Answers a client.
pub(crate) fn reply<M>(out: &mut Vec<Output<M>>, to: ConnectionId, message: ToClient) {
    out.push(Output::Reply { to, message });
}

/// Refuses a client's request.
pub(crate) fn refuse<M>(out: &mut Vec<Output<M>>, to: ConnectionId, ask: Ask, refusal: Refusal) {
    out.push(Output::Reply {
        to,
        message: ToClient::Refused { ask, refusal },
    });
}
