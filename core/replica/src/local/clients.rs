//! Requests of clients, up to the point where a command is submitted or a read is opened.

use crate::limits::{CLOSES_WAITING, OPENS_WAITING, SEQUENCE_MAX};
use crate::local::internal::Purpose;
use crate::local::opens::Opener;
use crate::local::reads::{Keeper, Read};
use crate::local::waiting::Joined;
use crate::replicated::window::{Admission, Session, fingerprint};
use crate::{Output, Replica, Snapshots};
use quorate_ordering::{Event, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Attachment, Body, CallPlace, ClosedBy, Command, CommandId, ConnectionId, Duration,
    FromClient, MemberChange, ObjectId, Refusal, Secret, SecretHash, SessionId, Slot, Tenancy,
    Time, ToClient, Value,
};

impl<O: Ordering> Replica<O> {
    // Longer than a screen: one arm a request.
    pub(crate) fn client(
        &mut self,
        now: Time,
        from: ConnectionId,
        message: FromClient,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let leader = self.named_leader();
        if self.connections.heard(from, self.config.own, leader) {
            reply(out, from, ToClient::Leader { leader });
        }
        match message {
            FromClient::Open { secret, terms } => {
                let opener = Opener::new(from, SecretHash::default(), terms);
                self.open(now, secret.hash(), opener, out);
            }
            FromClient::Resume {
                secret,
                tenant,
                terms,
            } => {
                let opener = Opener::new(from, tenant, terms);
                self.open(now, secret.hash(), opener, out);
            }
            FromClient::Attach {
                session,
                secret,
                attachment,
            } => self.attach((now, from), (session, attachment), secret, out),
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
            FromClient::Early { id } => self.wanted_early(from, id, out),
            FromClient::Read {
                request,
                object,
                payload,
                level,
                after,
            } => {
                let read = Read {
                    to: from,
                    request,
                    object,
                    payload,
                };
                if let Err(refusal) = self.read(now, read, level, after, out) {
                    refuse(out, from, Ask::Request(request), refusal);
                }
            }
            FromClient::Broadcast {
                read: name,
                object,
                payload,
            } => {
                let request = name.number;
                let read = Read {
                    to: from,
                    request,
                    object,
                    payload,
                };
                if let Err(refusal) = self.read_announced(read, name) {
                    refuse(out, from, Ask::Request(request), refusal);
                }
            }
            FromClient::Announce { read } => self.order(now, Event::Announced { read }, out),
            FromClient::KeepAlive { session } => self.kept_alive(now, from, session, out),
            FromClient::Close { session } => {
                if let Err(refusal) = self.close(from, session) {
                    refuse(out, from, Ask::Session(session), refusal);
                }
            }
            FromClient::Checkpoint { request } => self.client_checkpoint(from, request, out),
            FromClient::Reset { .. } => self.client_reset(from, &message, out),
            FromClient::ChangeView {
                request,
                change,
                leaves,
            } => {
                let who = leaves.map_or(MemberChange::Same, MemberChange::Leaves);
                self.client_change_view((from, request), (change, who), out);
            }
            FromClient::Join {
                request,
                change,
                member,
                secret,
                speaks,
                role,
            } => self.client_joins((from, request), change, (member, secret, role, speaks), out),
            FromClient::SetLevel {
                request,
                change,
                level,
            } => {
                let who = MemberChange::Level(level);
                self.client_change_view((from, request), (change, who), out);
            }
            FromClient::SwitchOrdering {
                request,
                change,
                ordering,
            } => {
                let who = MemberChange::Ordering(ordering);
                self.client_change_view((from, request), (change, who), out);
            }
            FromClient::SetQuorums {
                request,
                change,
                rule,
            } => {
                let who = MemberChange::Quorums(rule);
                self.client_change_view((from, request), (change, who), out);
            }
            FromClient::SetLimit {
                request,
                change,
                limit,
            } => {
                let who = MemberChange::Limit(limit);
                self.client_change_view((from, request), (change, who), out);
            }
            FromClient::MoveLeader { request, node } => {
                self.client_move_leader((from, request), node, out);
            }
            FromClient::ChangeGroups { request, change } => {
                self.client_change_groups((from, request), change, out);
            }
            FromClient::Invite {
                request,
                invitation,
                lasts,
            } => self.client_invite((from, request), (invitation, lasts), out),
            FromClient::Skip {
                request,
                slot,
                index,
                is_unsafe,
            } => {
                let place = CallPlace { slot, index };
                self.client_skip((from, request), place, is_unsafe, out);
            }
        }
    }

    fn kept_alive(
        &mut self,
        now: Time,
        from: ConnectionId,
        session: SessionId,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if let Err(refusal) = self.is_attached(from, session) {
            refuse(out, from, Ask::Session(session), refusal);
            return;
        }
        let attachment = self.connections.attachment(from, session);
        let sign = (session, attachment.unwrap_or(Attachment::NONE));
        self.keepalive(now, sign, Keeper::Client(from), out);
    }

    pub(crate) fn disconnected(&mut self, now: Time, connection: ConnectionId, by: ClosedBy) {
        let sessions = self.connections.remove(connection);
        match by {
            ClosedBy::Client => self.closed_by_client(now, &sessions),
            ClosedBy::Node => {}
        }
        let sessions = sessions.into_iter().map(|(session, _)| session);
        self.waiting.disconnected(connection, sessions);
        self.expiry.disconnected(connection);
        self.reads.disconnected(connection);
    }

    fn open(
        &mut self,
        now: Time,
        hash: SecretHash,
        opener: Opener,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let from = opener.to;
        let is_other = |waiter: &Opener| waiter.tenant != opener.tenant;
        let is_taken = self.opens.get(&hash).is_some_and(is_other);
        if let Some(waiter) = self.opens.get_mut(&hash)
            && !is_taken
        {
            let before = std::mem::replace(&mut waiter.to, from);
            self.connections.end_open(before);
            self.connections.begin_open(from);
            return;
        }
        let refusal = if self.is_leaving() {
            Some(Refusal::NotServing)
        } else if !self.can_order() {
            Some(Refusal::StorageFull)
        } else if is_taken || self.opens.len() >= OPENS_WAITING || self.is_log_full() {
            Some(Refusal::Overloaded)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            refuse(out, from, Ask::Open(hash), refusal);
        } else if let Err(retry_after) = self.gives_place(now, hash) {
            reply(out, from, ToClient::Full { hash, retry_after });
        } else if !self.connections.begin_open(from) {
            refuse(out, from, Ask::Open(hash), Refusal::Overloaded);
        } else {
            self.opens.insert(hash, opener);
            self.submit_open(hash, opener);
        }
    }

    /// Says whether an open can come to something, or when to ask again. Where this node is behind the log, the log decides.
    fn gives_place(&mut self, now: Time, hash: SecretHash) -> Result<(), Duration> {
        let sessions = &self.replicated.sessions;
        if sessions.knows(hash) {
            return Ok(());
        }
        let free = self.replicated.room().saturating_sub(self.opens.len());
        self.line.admit(now, hash, free)
    }

    /// Lets a connection use a session once it has shown the session's secret. A wrong secret is answered as a session that
    /// does not exist.
    fn attach(
        &mut self,
        (now, from): (Time, ConnectionId),
        (session, attachment): (SessionId, Attachment),
        secret: Secret,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let hash = secret.hash();
        let known = self.replicated.sessions.session(session);
        let is_any = planted(Plant::SecretOfAnySession) && self.replicated.sessions.knows(hash);
        let proven = known.filter(|known| known.hash == hash || is_any);
        let opened = opened_in(session);
        let refusal = match proven.map(Session::tenancy) {
            Some(tenancy) if attachment.tenancy() > tenancy => {
                // The resume is not applied here yet.
                self.connections.not_judged(from, opened);
                Refusal::NotServing
            }
            Some(_) => match self.is_of_client(session, attachment.tenancy()) {
                Ok(()) if self.attach_to(from, session, attachment) => {
                    if attachment > Attachment::NONE {
                        self.attached(now, (session, attachment), out);
                    }
                    return;
                }
                // The connection has too many.
                Ok(()) => Refusal::SessionExpired,
                Err(refusal) => refusal,
            },
            None if opened > self.replicated.applied => {
                self.connections.not_judged(from, opened);
                Refusal::NotServing
            }
            None => Refusal::SessionExpired,
        };
        refuse(out, from, Ask::Session(session), refusal);
    }

    /// The client of this connection has proven that the session is its own. Says whether it may use it there.
    pub(crate) fn attach_to(
        &mut self,
        connection: ConnectionId,
        session: SessionId,
        attachment: Attachment,
    ) -> bool {
        let sessions = &self.replicated.sessions;
        let is_open = |open| sessions.session(open).is_some();
        self.connections
            .attach(connection, session, attachment, is_open);
        self.connections.is_attached(connection, session)
    }

    /// Refuses what a connection asks for a session that it has not proven to be its own. While this replica may only be
    /// behind the log that opened the session, or was when the proof came, another one can judge.
    fn is_attached(&self, from: ConnectionId, session: SessionId) -> Result<(), Refusal> {
        let opened = opened_in(session);
        if let Some(attachment) = self.connections.attachment(from, session) {
            self.is_of_client(session, attachment.tenancy())
        } else if opened > self.replicated.applied || self.connections.is_unjudged(from, opened) {
            Err(Refusal::NotServing)
        } else {
            Err(Refusal::SessionExpired)
        }
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
        self.serves_objects()?;
        if self.is_leaving() {
            return Err(Refusal::NotServing);
        }
        self.admits_request(object, &payload)?;
        if id.sequence == 0 || id.sequence > SEQUENCE_MAX {
            return Err(Refusal::SequenceReused);
        }
        self.is_attached(from, id.session)?;
        let print = fingerprint(object, &payload);
        let admission = self.look(id, acknowledged, print)?;
        if admission == Admission::New {
            self.admits_calls()?;
        }
        // The client cannot acknowledge more before its lowest call has an answer.
        let is_lowest = id.sequence == acknowledged + 1;
        let kept = &self.replicated.kept;
        let most = match planted(Plant::CrowdedAtExecution) {
            true => kept.most(),
            false => self.replicated.replies_max(),
        };
        let above = (id.session, acknowledged);
        if admission == Admission::New && !is_lowest && kept.is_too_much(above, most) {
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
            Admission::New | Admission::InFlight | Admission::Parked => {}
        }
        if admission == Admission::Parked {
            return self.join_parked(from, id, print, out);
        }
        match self.waiting.join(id.session, id.sequence, print, from) {
            Joined::Full => Err(Refusal::Overloaded),
            Joined::Reused => Err(Refusal::SequenceReused),
            Joined::Later => Ok(()),
            Joined::First => {
                if admission == Admission::New {
                    self.waiting.submitted(id, object, payload.clone());
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

    /// A connection waits for a parked call with those that do already.
    fn join_parked(
        &mut self,
        from: ConnectionId,
        id: CommandId,
        print: u64,
        out: &mut Vec<Output<O::Message>>,
    ) -> Result<(), Refusal> {
        let CommandId { session, sequence } = id;
        match self.waiting.join_parked(session, sequence, print, from) {
            Joined::Full => return Err(Refusal::Overloaded),
            Joined::Reused => return Err(Refusal::SequenceReused),
            Joined::First | Joined::Later => {}
        }
        if let Some(line) = self.waiting.line(session) {
            if planted(Plant::ParkedNotJoined) {
                line.give_up(sequence, |_| {});
            }
            line.park(sequence, print, |_| {});
        }
        self.waiting.landed(session, 0);
        reply(out, from, ToClient::Parked { id });
        Ok(())
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
            None => Err(Refusal::SessionExpired),
        }
    }

    /// Refuses requests that no replica would execute.
    pub(crate) fn admits_request(&self, object: ObjectId, payload: &Value) -> Result<(), Refusal> {
        if !self.view().may_have(object) {
            return Err(Refusal::NoSuchObject);
        }
        if payload.len() > self.config.payload_max {
            return Err(Refusal::TooLarge);
        }
        Ok(())
    }

    /// Refuses calls that would have to be ordered while there is no room for more.
    fn admits_calls(&self) -> Result<(), Refusal> {
        if !self.can_order() {
            return Err(Refusal::StorageFull);
        }
        if self.pipeline.is_behind() || self.is_log_full() {
            return Err(Refusal::Overloaded);
        }
        Ok(())
    }

    /// Refuses while this node's objects must not or cannot answer.
    pub(crate) fn serves_objects(&self) -> Result<(), Refusal> {
        let serves = self.is_replica()
            && self.host_down_at.is_none()
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

    /// One close of a session is ordered at a time, and closes are admitted like calls.
    fn close(&mut self, from: ConnectionId, session: SessionId) -> Result<(), Refusal> {
        self.is_attached(from, session)?;
        if self.is_leaving() {
            return Err(Refusal::NotServing);
        }
        if self.closes.len() >= CLOSES_WAITING || self.is_log_full() {
            return Err(Refusal::Overloaded);
        }
        if !self.can_order() {
            return Err(Refusal::StorageFull);
        }
        if !self.closes.insert(session) {
            return Ok(());
        }
        let attachment = self.connections.attachment(from, session);
        let tenancy = attachment.map_or(Tenancy::FIRST, Attachment::tenancy);
        // No call has this sequence, and it tells the tenancy.
        let id = CommandId {
            session,
            sequence: tenancy.floor(),
        };
        self.turn.push(Command {
            id,
            acknowledged: 0,
            body: Body::Close,
        });
        Ok(())
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
            Some(Purpose::Open(hash)) => {
                if let Some(Opener { to, .. }) = self.opens.remove(&hash) {
                    self.connections.end_open(to);
                    refuse(out, to, Ask::Open(hash), refusal);
                }
            }
            Some(Purpose::Expire(session)) => self.expiry.expiry_refused(session, id, refusal),
            Some(Purpose::Lead) => self.expiry.lead_refused(),
            Some(Purpose::Tick) => self.ticks.lost(),
            Some(Purpose::Checkpoint) => self.checkpoint_refused(refusal, out),
            Some(Purpose::Poison) => self.own_poison.lost_sight(),
            Some(Purpose::Read(read)) => self.unconfirmed(read, out),
            Some(Purpose::Reset(to, request)) => refuse(out, to, Ask::Request(request), refusal),
            // It is said again.
            Some(Purpose::Thaw) => {}
            Some(Purpose::Collect) => self.collecting.lost(),
            Some(Purpose::Rejoin) => self.rejoining.answered(),
            Some(
                Purpose::ChangeView(to, request)
                | Purpose::Invite(to, request)
                | Purpose::ChangeGroups(to, request)
                | Purpose::Skip(to, request),
            ) => refuse(out, to, Ask::Request(request), refusal),
            None if id.sequence == id.tenancy().floor() => drop(self.closes.remove(&id.session)),
            None => self.call_refused(id, refusal, out),
        }
    }

    /// A copy of the call that was submitted elsewhere may be decided and have no answer; then the wait is kept.
    fn call_refused(&mut self, id: CommandId, refusal: Refusal, out: &mut Vec<Output<O::Message>>) {
        let session = self.replicated.sessions.session(id.session);
        let Some(line) = self.waiting.line(id.session) else {
            return;
        };
        let landed = usize::from(line.refused(id.sequence));
        let is_awaited = session.is_some_and(|session| session.is_unanswered(id.sequence));
        if !is_awaited {
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
