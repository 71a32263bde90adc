//! The state machine: what a client sends, when it sends it again, and how each operation ends.

mod early;
mod giving_up;
mod life;
mod linking;
mod refusals;
mod resuming;
mod sending;
mod timers;

use self::giving_up::GivenUp;
use self::life::SignsOfLife;
pub use self::life::{SessionLife, SessionState};
use crate::limits::PARKED_MAX;
use crate::outstanding::{Attempts, Outstanding, Pending, Tentative};
use crate::route::Route;
use crate::{Answer, Cause, Failure, Operation, SessionConfig, Ticket};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    BroadcastId, ClosedBy, ClusterId, CommandId, Duration, FromClient, NodeId, PAYLOAD_BYTES_MAX,
    Refusal, Secret, SecretHash, SessionId, SessionTerms, Slot, Tenancy, Time, ToClient, Value,
};

/// What happens to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionInput {
    /// The node in use tells that the members of the group have changed.
    Members {
        /// All members with their addresses.
        members: Vec<(NodeId, String)>,
    },
    /// The dialled node welcomed us and named the group's members.
    Connected {
        /// The node.
        node: NodeId,
        /// All members with their addresses.
        members: Vec<(NodeId, String)>,
    },
    /// The dialled node belongs to another cluster than the one that the client first spoke to. Nothing may be sent to it.
    OtherCluster {
        /// The cluster that the client first spoke to.
        pinned: ClusterId,
        /// That of the node.
        found: ClusterId,
    },
    /// The connection failed, could not be made, or ended: by the node, as the system says, or by this client.
    Disconnected {
        /// Who ended it.
        by: ClosedBy,
    },
    /// A replica sent this message.
    Received(ToClient),
    /// The time that `next_wake` returned has come.
    Wake,
}

/// What the owner of the sockets has to do for a client.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionOutput {
    /// Drop the connection, if any, and connect to this address.
    Dial {
        /// `host:port`.
        address: String,
    },
    /// Send on the connection.
    Send(FromClient),
    /// Tell every other node that it can reach of this read.
    Announce(BroadcastId),
    /// A call that was wanted early returned this value where it was executed ahead of its decision. Told at most once; how the call ends
    /// is told after it.
    Tentative {
        /// The call.
        ticket: Ticket,
        /// What it returned there, which may be undone.
        value: Value,
    },
    /// An operation ended.
    Done {
        /// The operation.
        ticket: Ticket,
        /// Its answer, or why it has none.
        result: Result<Answer, Failure>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// Not connected; dial when the time comes.
    Down { dial_at: Time },
    /// Dialled, not welcomed yet; given up at `until`.
    Dialling { until: Time },
    /// Connected.
    Up,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Registration {
    /// There is none yet.
    Wanted,
    /// Open.
    Open { id: SessionId, expiry: Duration },
}

/// One client's session with one group.
///
/// Ticket numbers rise, those of calls and those of other operations independently.
#[derive(Clone, Debug)]
pub struct ClientSession {
    config: SessionConfig,
    route: Route,
    link: Link,
    registration: Registration,
    /// What proves to a node that the session is this client's.
    secret: Secret,
    /// Stands for this client where it goes on with the sessions of one before. Nobody else knows it.
    tenant: Option<Secret>,
    /// Those of the session, which another client may have opened.
    terms: SessionTerms,
    /// Names this client in its announced reads. No other client has it, nor one that goes on with the session.
    reader: SecretHash,
    /// Whether enough other nodes hear what is announced.
    can_announce: bool,
    /// Whether the node in use reads that a call is wanted early.
    tells_early: bool,
    /// A call of this client was wanted early. Until one is, none is looked at.
    wants_early: bool,
    /// In which this client has the session.
    tenancy: Tenancy,
    /// The ticket number of a call minus its place in the current tenancy.
    sequence_base: u64,
    calls: Outstanding,
    requests: Outstanding,
    given_up: GivenUp,
    silence: Duration,
    last_heard: Time,
    /// When the newest keepalive or answered call was sent. Both keep the session alive; reads do not, and a call that no node
    /// has executed may not either.
    active_at: Time,
    /// A keepalive is unanswered; before it was sent, `active_at` was this.
    unanswered_keepalive: Option<Time>,
    life: SignsOfLife,
    /// When the client moved to a hinted leader last; `None` until it does.
    last_move: Option<Time>,
    /// When an open that was refused is asked for again on the same connection.
    open_at: Option<Time>,
    /// The group has no place for another session: the client is in line.
    is_in_line: bool,
    /// The pause before that: it doubles with each refusal.
    open_pause: Duration,
    /// Nodes in a row that had no room on their disk for a session.
    full_nodes: usize,
    /// The highest slot that an answer to a read reflected.
    seen: Slot,
    /// Why operations fail while another cluster answers where the own one did.
    foreign: Option<Cause>,
    /// Nothing is due before this time; recomputed when it comes.
    wake_hint: Time,
}

impl ClientSession {
    /// A client of the group at `addresses`, which begins with the `first`-th of them. `secret` must be random: whoever
    /// knows it can use the client's session.
    #[must_use]
    pub fn new(
        config: SessionConfig,
        addresses: Vec<String>,
        first: u64,
        secret: Secret,
        now: Time,
    ) -> ClientSession {
        let first = (first % addresses.len().max(1) as u64) as usize;
        ClientSession {
            config,
            route: Route::new(addresses, first),
            link: Link::Down { dial_at: now },
            registration: Registration::Wanted,
            secret,
            tenant: None,
            reader: secret.hash(),
            can_announce: false,
            tells_early: false,
            wants_early: false,
            terms: config.terms,
            tenancy: Tenancy::FIRST,
            sequence_base: 0,
            calls: Outstanding::starting_at(1),
            requests: Outstanding::starting_at(1),
            given_up: GivenUp::default(),
            silence: config.silence,
            last_heard: now,
            active_at: now,
            unanswered_keepalive: None,
            life: SignsOfLife::default(),
            last_move: None,
            open_at: None,
            is_in_line: false,
            open_pause: config.retry_pause,
            full_nodes: 0,
            seen: Slot::ZERO,
            foreign: None,
            wake_hint: now,
        }
    }

    /// Says whether enough other nodes, with the one in use a majority, would hear what this client announces. Until then reads at
    /// level [`ReadLevel::Broadcast`](quorate_types::ReadLevel::Broadcast) are sent as confirmed ones.
    pub fn set_announcing(&mut self, can_announce: bool) {
        self.can_announce = can_announce;
    }

    /// Whether a session is open on a connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.registration, Registration::Open { .. }) && self.link == Link::Up
    }

    /// Whether reads can be sent: there is a connection, and a session, or no node has room on its disk for one.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_open() || (self.is_full_everywhere() && self.is_connected())
    }

    /// Whether the client has no session because the group has as many as it may.
    #[must_use]
    pub fn is_in_line(&self) -> bool {
        self.is_in_line
    }

    /// Whether there is a connection: reads of any state need no more.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.link == Link::Up
    }

    /// Whether every node has refused to open a session because its disk is full.
    fn is_full_everywhere(&self) -> bool {
        self.full_nodes >= self.route.len().max(1)
    }

    /// Operations without an answer, beside calls that wait in the group.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.calls.len() + self.requests.len()
    }

    /// Begins an operation, which is sent until it is answered; `None` if the bound of operations in flight is reached.
    pub fn begin(
        &mut self,
        now: Time,
        operation: Operation,
        deadline: Time,
        out: &mut Vec<SessionOutput>,
    ) -> Option<Ticket> {
        self.attempt(now, operation, deadline, Attempts::Many, out)
    }

    /// Begins an operation that is sent so often; `None` if the bound of operations in flight is reached.
    pub fn attempt(
        &mut self,
        now: Time,
        operation: Operation,
        deadline: Time,
        attempts: Attempts,
        out: &mut Vec<SessionOutput>,
    ) -> Option<Ticket> {
        if !self.has_room() {
            return None;
        }
        if self.in_flight() == 0 {
            self.last_heard = now;
        }
        self.wake_hint = self.wake_hint.min(deadline).min(now + self.silence);
        let pending = Pending {
            operation,
            deadline,
            attempts,
            copies: 0,
            sent_at: None,
            full_nodes: 0,
            resend_at: None,
            is_given_up: false,
            parked_refusals: 0,
            tentative: Tentative::default(),
        };
        if let Some(failure) = self.hopeless(&pending) {
            // It gets a request's number: a call's number would leave a gap in the session.
            let number = self.requests.push(pending);
            self.finish_request(number, Err(failure), out);
            return Some(Ticket::Request(number));
        }
        self.wants_early |= matches!(pending.operation, Operation::EarlyCall { .. });
        let ticket = match pending.operation {
            Operation::Call { .. } | Operation::EarlyCall { .. } => {
                Ticket::Call(self.calls.push(pending))
            }
            Operation::Read { .. }
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
            | Operation::ChangeView { .. } => Ticket::Request(self.requests.push(pending)),
        };
        self.send_one(now, ticket, out);
        Some(ticket)
    }

    /// Why it ends without being sent.
    fn hopeless(&self, pending: &Pending) -> Option<Failure> {
        if pending.operation.payload_len() > PAYLOAD_BYTES_MAX {
            return Some(Failure::refused(Refusal::TooLarge));
        }
        match pending.attempts {
            Attempts::InSession(ended) if ended != self.life.sessions_ended() => {
                return Some(Failure::refused(Refusal::SessionExpired));
            }
            Attempts::InSession(_) | Attempts::Many | Attempts::One => {}
        }
        // Whether it would park is not known before it has.
        let may_park = pending.operation.is_call();
        (may_park && self.calls.parked() >= PARKED_MAX).then_some(Failure {
            cause: Cause::TooManyParked,
            may_have_executed: false,
        })
    }

    /// Whether the bound of operations in flight lets another one begin. Calls that wait in the group take no room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let span = self.calls.next_number() - self.calls.first();
        self.in_flight() < self.config.in_flight_max && span < 2 * self.config.in_flight_max as u64
    }

    /// What is said when the client is closed: what its session waits for and owns in objects is free then.
    #[must_use]
    pub fn farewell(&self) -> Option<FromClient> {
        match self.registration {
            Registration::Open { id, .. } if self.link == Link::Up => {
                Some(FromClient::Close { session: id })
            }
            Registration::Open { .. } | Registration::Wanted => None,
        }
    }

    /// Takes one input to its end.
    pub fn handle(&mut self, now: Time, input: SessionInput, out: &mut Vec<SessionOutput>) {
        match input {
            SessionInput::Members { members } => self.route.changed(members),
            SessionInput::Connected { node, members } => self.on_connected(now, node, members, out),
            SessionInput::OtherCluster { pinned, found } => {
                self.on_other_cluster(now, Cause::OtherCluster { pinned, found }, out);
            }
            SessionInput::Disconnected { by } => {
                self.life.disconnected(now, by);
                self.on_disconnected(now);
            }
            SessionInput::Received(message) => self.on_message(now, message, out),
            SessionInput::Wake => {}
        }
        if now >= self.wake_hint || self.link != Link::Up {
            self.on_wake(now, out);
        }
        debug_assert!(self.wake_hint > now, "what was due is done");
    }

    /// When [`SessionInput::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Time {
        self.wake_hint
    }

    // Longer than a screen: one arm an answer.
    fn on_message(&mut self, now: Time, message: ToClient, out: &mut Vec<SessionOutput>) {
        self.last_heard = now;
        self.silence = self.config.silence;
        match message {
            ToClient::Leader { .. } if planted(Plant::HintCountsAsAnswer) => self.route.answered(),
            ToClient::Refused { .. } | ToClient::Leader { .. } | ToClient::Tentative { .. } => {}
            ToClient::Opened { .. }
            | ToClient::Resumed { .. }
            | ToClient::Full { .. }
            | ToClient::Replied { .. }
            | ToClient::Confirmed { .. }
            | ToClient::Parked { .. }
            | ToClient::Read { .. }
            | ToClient::Checkpointed { .. }
            | ToClient::KeptAlive { .. } => self.route.answered(),
        }
        match message {
            ToClient::Opened {
                hash,
                session,
                expiry,
            } => {
                let terms = SessionTerms {
                    expiry,
                    ..self.config.terms
                };
                if self.registration == Registration::Wanted && hash == self.secret.hash() {
                    self.on_opened(now, session, (terms, Tenancy::FIRST), out);
                }
            }
            ToClient::Resumed {
                hash,
                session,
                terms,
                tenancy,
            } => {
                if self.registration == Registration::Wanted && hash == self.secret.hash() {
                    self.on_opened(now, session, (terms, tenancy), out);
                }
            }
            ToClient::Full { hash, retry_after } => {
                if self.registration == Registration::Wanted && hash == self.secret.hash() {
                    let longest = self.config.place_pause_max;
                    self.open_at = Some(now + Duration(retry_after.0.min(longest.0)));
                    self.is_in_line = true;
                    self.wake_hint = now;
                }
            }
            ToClient::Replied { id, outcome } => {
                if let Some(number) = self.call_number(id) {
                    self.note_life(number);
                    self.finish_call(number, Ok(Answer::Called(outcome)), out);
                }
            }
            ToClient::Tentative { id, value } => self.on_tentative(id, value, out),
            ToClient::Confirmed { id } => self.on_confirmed(id, out),
            ToClient::Parked { id } => self.on_parked(now, id),
            ToClient::Read {
                request,
                slot,
                age,
                outcome,
            } => {
                self.seen = if planted(Plant::SeenFallsBack) {
                    slot
                } else {
                    self.seen.max(slot)
                };
                self.finish_request(request, Ok(Answer::Read { outcome, slot, age }), out);
            }
            ToClient::Checkpointed { request, slot } => {
                self.finish_request(request, Ok(Answer::Checkpointed(slot)), out);
            }
            ToClient::Refused { ask, refusal } => self.on_refused(now, ask, refusal, out),
            ToClient::KeptAlive { session } => self.on_kept_alive(now, session),
            ToClient::Leader { leader } => self.on_leader(now, leader, out),
        }
    }

    fn on_opened(
        &mut self,
        now: Time,
        id: SessionId,
        (terms, tenancy): (SessionTerms, Tenancy),
        out: &mut Vec<SessionOutput>,
    ) {
        let expiry = terms.expiry;
        self.registration = Registration::Open { id, expiry };
        (self.terms, self.tenancy) = (terms, tenancy);
        self.life.opened(now, tenancy);
        if self.is_short_lived() {
            self.life.attached();
            out.push(SessionOutput::Send(self.introduction()));
            self.send_keepalive(now, out);
        }
        self.full_nodes = 0;
        self.open_at = None;
        self.is_in_line = false;
        self.open_pause = self.config.retry_pause;
        // Requests need no session: they went out with the connection.
        self.send_calls(now, out);
        self.wake_hint = now;
    }

    fn on_parked(&mut self, now: Time, id: CommandId) {
        if let Some(number) = self.call_number(id) {
            self.note_life(number);
            self.calls.park(number);
            self.cancel_if_given_up(number);
            self.wake_hint = now;
        }
    }

    /// The group has executed a call, and keeps the session for its expiry time from when the call was sent.
    fn note_life(&mut self, number: u64) {
        let sent_at = self.calls.pending_mut(number).and_then(|p| p.sent_at);
        if let Some(sent_at) = sent_at {
            self.active_at = self.active_at.max(sent_at);
            self.life.acknowledge(sent_at);
        }
    }

    fn finish_call(
        &mut self,
        number: u64,
        result: Result<Answer, Failure>,
        out: &mut Vec<SessionOutput>,
    ) {
        let Some(ended) = self.calls.take(number) else {
            return;
        };
        if self.given_up.ended(number) {
            self.wake_hint = Time(0);
        }
        if !ended.is_given_up {
            out.push(SessionOutput::Done {
                ticket: Ticket::Call(number),
                result,
            });
        }
    }

    fn finish_request(
        &mut self,
        number: u64,
        result: Result<Answer, Failure>,
        out: &mut Vec<SessionOutput>,
    ) {
        let ended = self.requests.take(number);
        if ended.is_some_and(|ended| !ended.is_given_up) {
            out.push(SessionOutput::Done {
                ticket: Ticket::Request(number),
                result,
            });
        }
    }

    fn call_number(&self, id: CommandId) -> Option<u64> {
        match self.registration {
            Registration::Open { id: own, .. } if own == id.session => {
                let place = id.sequence.checked_sub(self.tenancy.floor())?;
                place.checked_add(self.sequence_base)
            }
            Registration::Open { .. } | Registration::Wanted => None,
        }
    }

    /// The sequence of a call in the session.
    fn sequence(&self, number: u64) -> u64 {
        self.tenancy.floor() + number.saturating_sub(self.sequence_base)
    }
}
