//! The state machine: what a client sends, when it sends it again, and how each operation ends.

use crate::outstanding::{Outstanding, Pending};
use crate::route::Route;
use crate::{Answer, Cause, Failure, Operation, Preference, SessionConfig, Ticket};
use quorate_types::{
    Ask, CommandId, Duration, FromClient, NodeId, PAYLOAD_BYTES_MAX, Refusal, SessionId, Time,
    ToClient,
};

/// What happens to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// The dialled node welcomed us and named the group's members.
    Connected {
        /// The node.
        node: NodeId,
        /// All members with their addresses.
        members: Vec<(NodeId, String)>,
    },
    /// The connection failed, could not be made, or ended.
    Disconnected,
    /// A replica said this.
    Received(ToClient),
    /// The time asked for by `next_wake` has come.
    Wake,
}

/// What a client wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Drop the connection, if any, and connect to this address.
    Dial {
        /// `host:port`.
        address: String,
    },
    /// Send on the connection.
    Send(FromClient),
    /// An operation ended.
    Done {
        /// Which.
        ticket: Ticket,
        /// How.
        result: Result<Answer, Failure>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// Not connected; dial when the time comes.
    Down { dial_at: Time },
    /// Dialled, not welcomed yet; given up at the time.
    Dialling { until: Time },
    /// Connected.
    Up,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Registration {
    /// None; `nonce` names the open that is asked for on the present connection.
    Wanted { nonce: u64 },
    /// Open.
    Open { id: SessionId, expiry: Duration },
}

/// One client's session with one group.
///
/// Tickets of calls are even, tickets of other operations odd, both rising.
#[derive(Clone, Debug)]
pub struct ClientSession {
    config: SessionConfig,
    route: Route,
    link: Link,
    registration: Registration,
    /// Ticket number of a call less its sequence in the present session.
    sequence_base: u64,
    calls: Outstanding,
    requests: Outstanding,
    silence: Duration,
    last_heard: Time,
    last_sent: Time,
    /// When the client moved to a hinted leader last; `None` until it does.
    last_move: Option<Time>,
    /// Nodes in a row that had no room on their disk for a session.
    full_nodes: usize,
    /// Nothing is due before; recomputed when it comes.
    wake_hint: Time,
}

impl ClientSession {
    /// A client of the group at `addresses`, which begins with the `seed`-th of them. `seed` also
    /// makes nonces: no two clients may share it.
    #[must_use]
    pub fn new(
        config: SessionConfig,
        addresses: Vec<String>,
        seed: u64,
        now: Time,
    ) -> ClientSession {
        let first = (seed % addresses.len().max(1) as u64) as usize;
        ClientSession {
            config,
            route: Route::new(addresses, first),
            link: Link::Down { dial_at: now },
            registration: Registration::Wanted { nonce: seed },
            sequence_base: 0,
            calls: Outstanding::starting_at(1),
            requests: Outstanding::starting_at(1),
            silence: config.silence,
            last_heard: now,
            last_sent: now,
            last_move: None,
            full_nodes: 0,
            wake_hint: now,
        }
    }

    /// Says whether a session is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.registration, Registration::Open { .. }) && self.link == Link::Up
    }

    /// Operations without an answer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.calls.len() + self.requests.len()
    }

    /// Begins an operation; `None` when as many are in flight as the bound allows.
    pub fn begin(
        &mut self,
        now: Time,
        operation: Operation,
        deadline: Time,
        out: &mut Vec<Output>,
    ) -> Option<Ticket> {
        let span = self.calls.next_number() - self.calls.first();
        if self.in_flight() >= self.config.in_flight_max
            || span >= 2 * self.config.in_flight_max as u64
        {
            return None;
        }
        if self.in_flight() == 0 {
            self.last_heard = now;
        }
        self.wake_hint = self.wake_hint.min(deadline).min(now + self.silence);
        let is_call = matches!(operation, Operation::Call { .. });
        let pending = Pending {
            operation,
            deadline,
            copies: 0,
            full_nodes: 0,
            resend_at: None,
        };
        if pending.operation.payload_len() > PAYLOAD_BYTES_MAX {
            // No node would read it. It gets a request's number, for a call's would be missed in the session.
            let number = self.requests.push(pending);
            self.finish_request(number, Err(Failure::refused(Refusal::TooLarge)), out);
            return Some(Ticket(number * 2 + 1));
        }
        let (number, ticket) = if is_call {
            let number = self.calls.push(pending);
            (number, Ticket(number * 2))
        } else {
            let number = self.requests.push(pending);
            (number, Ticket(number * 2 + 1))
        };
        self.send_one(now, is_call, number, out);
        Some(ticket)
    }

    /// Takes one input to its end.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Connected { node, members } => self.on_connected(now, node, members, out),
            Input::Disconnected => self.on_disconnected(now),
            Input::Received(message) => self.on_message(now, message, out),
            Input::Wake => {}
        }
        if now >= self.wake_hint || self.link != Link::Up {
            self.on_wake(now, out);
        }
    }

    /// When [`Input::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Time {
        self.wake_hint
    }

    fn on_connected(
        &mut self,
        now: Time,
        node: NodeId,
        members: Vec<(NodeId, String)>,
        out: &mut Vec<Output>,
    ) {
        self.route.welcomed(node, members);
        self.link = Link::Up;
        self.last_heard = now;
        if let Registration::Wanted { nonce } = self.registration {
            out.push(Output::Send(FromClient::Open { nonce }));
            self.last_sent = now;
        }
        self.send_all(now, out);
        self.wake_hint = now;
    }

    fn on_disconnected(&mut self, now: Time) {
        self.route.advance();
        let pause = if self.route.is_exhausted() {
            self.config.retry_pause
        } else {
            Duration::ZERO
        };
        self.link = Link::Down {
            dial_at: now + pause,
        };
    }

    fn on_message(&mut self, now: Time, message: ToClient, out: &mut Vec<Output>) {
        self.last_heard = now;
        self.silence = self.config.silence;
        match message {
            ToClient::Opened {
                nonce,
                session,
                expiry,
            } => {
                if self.registration == (Registration::Wanted { nonce }) {
                    self.registration = Registration::Open {
                        id: session,
                        expiry,
                    };
                    self.full_nodes = 0;
                    self.send_all(now, out);
                    self.wake_hint = now;
                }
            }
            ToClient::Replied { id, outcome } => {
                if let Some(number) = self.call_number(id) {
                    self.finish_call(number, Ok(Answer::Called(outcome)), out);
                }
            }
            ToClient::Read {
                request,
                slot,
                age,
                outcome,
            } => {
                self.finish_request(request, Ok(Answer::Read { outcome, slot, age }), out);
            }
            ToClient::Checkpointed { request, slot } => {
                self.finish_request(request, Ok(Answer::Checkpointed(slot)), out);
            }
            ToClient::Refused { ask, refusal } => self.on_refused(now, ask, refusal, out),
            ToClient::KeptAlive { .. } => {}
            ToClient::Leader { leader } => self.on_leader(now, leader, out),
        }
    }

    fn on_leader(&mut self, now: Time, leader: Option<NodeId>, out: &mut Vec<Output>) {
        let Some(leader) = leader else { return };
        let may_move = self.config.preference == Preference::Leader
            && self
                .last_move
                .is_none_or(|last| now.since(last) >= self.config.retry_pause);
        if may_move && self.route.hinted(leader) {
            self.last_move = Some(now);
            self.dial(now, out);
        }
    }

    fn on_refused(&mut self, now: Time, ask: Ask, refusal: Refusal, out: &mut Vec<Output>) {
        if !refusal.may_have_executed()
            && let Some(pending) = self.pending_mut(ask)
        {
            pending.copies = pending.copies.saturating_sub(1);
        }
        match (ask, refusal) {
            (Ask::Session(session), Refusal::SessionExpired)
            | (Ask::Call(CommandId { session, .. }), Refusal::SessionExpired) => {
                self.on_expired(now, session, out);
            }
            (_, Refusal::NotServing) => {
                self.delay(now, ask);
                self.on_disconnected(now);
                self.wake_hint = now;
            }
            (_, Refusal::StorageFull) => self.on_storage_full(now, ask, out),
            (Ask::Call(id), refusal) if is_final(refusal) => {
                if let Some(number) = self.call_number(id) {
                    self.finish_call(number, Err(Failure::refused(refusal)), out);
                }
            }
            (Ask::Request(number), refusal) if is_final(refusal) => {
                self.finish_request(number, Err(Failure::refused(refusal)), out);
            }
            (_, _) => self.delay(now, ask),
        }
    }

    /// The node's disk is full: another node may have room. Once every node had none, whatever can have
    /// happened nowhere fails.
    fn on_storage_full(&mut self, now: Time, ask: Ask, out: &mut Vec<Output>) {
        let nodes = self.route.len();
        let failed: Vec<u64> = match ask {
            Ask::Open(_) => {
                self.full_nodes += 1;
                let unsent = |(number, pending): (u64, &mut Pending)| {
                    (!pending.is_in_doubt()).then_some(number)
                };
                if self.full_nodes >= nodes {
                    self.calls.iter_mut().filter_map(unsent).collect()
                } else {
                    Vec::new()
                }
            }
            Ask::Call(_) | Ask::Request(_) | Ask::Session(_) => {
                let is_full_everywhere = self.pending_mut(ask).is_some_and(|pending| {
                    pending.full_nodes += 1;
                    pending.full_nodes >= nodes && !pending.is_in_doubt()
                });
                match ask {
                    Ask::Call(id) if is_full_everywhere => {
                        self.call_number(id).into_iter().collect()
                    }
                    Ask::Request(number) if is_full_everywhere => {
                        let full = Failure::refused(Refusal::StorageFull);
                        self.finish_request(number, Err(full), out);
                        Vec::new()
                    }
                    Ask::Open(_) | Ask::Call(_) | Ask::Request(_) | Ask::Session(_) => Vec::new(),
                }
            }
        };
        for number in failed {
            self.finish_call(number, Err(Failure::refused(Refusal::StorageFull)), out);
        }
        self.delay(now, ask);
        if self.link == Link::Up {
            self.route.shun();
            self.on_disconnected(now);
            self.wake_hint = now;
        }
    }

    /// The operation that a refusal speaks of.
    fn pending_mut(&mut self, ask: Ask) -> Option<&mut Pending> {
        match ask {
            Ask::Call(id) => self.call_number(id).and_then(|n| self.calls.pending_mut(n)),
            Ask::Request(number) => self.requests.pending_mut(number),
            Ask::Open(_) | Ask::Session(_) => None,
        }
    }

    /// Sends what was refused for the moment again after a pause.
    fn delay(&mut self, now: Time, ask: Ask) {
        let at = now + self.config.retry_pause;
        if let Some(pending) = self.pending_mut(ask) {
            pending.resend_at = Some(at);
        }
        self.wake_hint = self.wake_hint.min(at);
    }

    /// The session is over: what a replica may have got has an unknown outcome, the rest goes on
    /// in a new session.
    fn on_expired(&mut self, now: Time, session: SessionId, out: &mut Vec<Output>) {
        let Registration::Open { id, .. } = self.registration else {
            return;
        };
        if id != session {
            return;
        }
        let nonce = id.0.rotate_left(17) ^ now.0;
        self.registration = Registration::Wanted { nonce };
        let sent: Vec<u64> = self
            .calls
            .iter_mut()
            .filter(|(_, p)| p.is_in_doubt())
            .map(|(n, _)| n)
            .collect();
        for number in sent {
            self.finish_call(number, Err(Failure::refused(Refusal::SessionExpired)), out);
        }
        self.sequence_base = self.calls.first() - 1;
        if self.link == Link::Up {
            out.push(Output::Send(FromClient::Open { nonce }));
            self.last_sent = now;
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Vec<Output>) {
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
        self.wake_hint = self.due(now);
    }

    /// Looks after a connection that is up: silence, refused operations, keepalives.
    fn tend(&mut self, now: Time, out: &mut Vec<Output>) {
        let waits = self.in_flight() > 0 || !self.is_open();
        if waits && now.since(self.last_heard) >= self.silence {
            self.note_silence();
            self.on_disconnected(now);
            self.dial(now, out);
            return;
        }
        let due = |pending: &Pending| pending.resend_at.is_some_and(|at| now >= at);
        let calls: Vec<u64> = self
            .calls
            .iter_mut()
            .filter(|(_, p)| due(p))
            .map(|(n, _)| n)
            .collect();
        let requests: Vec<u64> = self
            .requests
            .iter_mut()
            .filter(|(_, p)| due(p))
            .map(|(n, _)| n)
            .collect();
        for number in calls {
            self.send_one(now, true, number, out);
        }
        for number in requests {
            self.send_one(now, false, number, out);
        }
        if let Registration::Open { id, expiry } = self.registration
            && now.since(self.last_sent).0 >= expiry.0 / 3
        {
            out.push(Output::Send(FromClient::KeepAlive { session: id }));
            self.last_sent = now;
        }
    }

    /// Nothing was heard for too long: the node in use is not gone back to on the word of nodes that
    /// have not missed it yet, and the next silence may be longer.
    fn note_silence(&mut self) {
        self.silence = Duration((self.silence.0 * 2).min(self.config.silence_max.0));
        self.route.shun();
    }

    fn fail_overdue(&mut self, now: Time, out: &mut Vec<Output>) {
        let overdue = |(number, pending): (u64, &mut Pending)| {
            (now >= pending.deadline).then_some((number, pending.is_in_doubt()))
        };
        let calls: Vec<(u64, bool)> = self.calls.iter_mut().filter_map(overdue).collect();
        let requests: Vec<(u64, bool)> = self.requests.iter_mut().filter_map(overdue).collect();
        for (number, is_in_doubt) in calls {
            let failure = Failure {
                cause: Cause::DeadlinePassed,
                may_have_executed: is_in_doubt,
            };
            self.finish_call(number, Err(failure), out);
        }
        for (number, _) in requests {
            let failure = Failure {
                cause: Cause::DeadlinePassed,
                may_have_executed: false,
            };
            self.finish_request(number, Err(failure), out);
        }
    }

    fn dial(&mut self, now: Time, out: &mut Vec<Output>) {
        self.link = Link::Dialling {
            until: now + self.silence,
        };
        out.push(Output::Dial {
            address: self.route.address().to_string(),
        });
    }

    fn send_all(&mut self, now: Time, out: &mut Vec<Output>) {
        let calls: Vec<u64> = self.calls.iter_mut().map(|(n, _)| n).collect();
        let requests: Vec<u64> = self.requests.iter_mut().map(|(n, _)| n).collect();
        for number in calls {
            self.send_one(now, true, number, out);
        }
        for number in requests {
            self.send_one(now, false, number, out);
        }
    }

    /// Sends one operation if it can go now: calls need a session, both need a connection.
    fn send_one(&mut self, now: Time, is_call: bool, number: u64, out: &mut Vec<Output>) {
        if self.link != Link::Up {
            return;
        }
        let session = match self.registration {
            Registration::Open { id, .. } => Some(id),
            Registration::Wanted { .. } => None,
        };
        let message = if is_call {
            let Some(session) = session else { return };
            let acknowledged =
                self.calls.first() - 1 - self.sequence_base.min(self.calls.first() - 1);
            let sequence = number - self.sequence_base;
            let Some(pending) = self.calls.pending_mut(number) else {
                return;
            };
            pending.copies += 1;
            pending.resend_at = None;
            let Operation::Call { object, payload } = &pending.operation else {
                return;
            };
            let id = CommandId { session, sequence };
            FromClient::Call {
                id,
                acknowledged,
                object: *object,
                payload: payload.clone(),
            }
        } else {
            let Some(pending) = self.requests.pending_mut(number) else {
                return;
            };
            pending.copies += 1;
            pending.resend_at = None;
            match &pending.operation {
                Operation::Read {
                    object,
                    payload,
                    level,
                } => FromClient::Read {
                    request: number,
                    object: *object,
                    payload: payload.clone(),
                    level: *level,
                },
                Operation::Checkpoint => FromClient::Checkpoint { request: number },
                Operation::Call { .. } => return,
            }
        };
        self.last_sent = now;
        out.push(Output::Send(message));
    }

    fn finish_call(&mut self, number: u64, result: Result<Answer, Failure>, out: &mut Vec<Output>) {
        if self.calls.take(number).is_some() {
            out.push(Output::Done {
                ticket: Ticket(number * 2),
                result,
            });
        }
    }

    fn finish_request(
        &mut self,
        number: u64,
        result: Result<Answer, Failure>,
        out: &mut Vec<Output>,
    ) {
        if self.requests.take(number).is_some() {
            out.push(Output::Done {
                ticket: Ticket(number * 2 + 1),
                result,
            });
        }
    }

    fn call_number(&self, id: CommandId) -> Option<u64> {
        match self.registration {
            Registration::Open { id: own, .. } if own == id.session => {
                id.sequence.checked_add(self.sequence_base)
            }
            Registration::Open { .. } | Registration::Wanted { .. } => None,
        }
    }

    /// The earliest thing that time alone brings about.
    fn due(&self, now: Time) -> Time {
        let link = match self.link {
            Link::Down { dial_at } => Some(dial_at),
            Link::Dialling { until } => Some(until),
            Link::Up if self.in_flight() > 0 || !self.is_open() => {
                Some(self.last_heard + self.silence)
            }
            Link::Up => None,
        };
        let keepalive = match self.registration {
            Registration::Open { expiry, .. } => Some(self.last_sent + Duration(expiry.0 / 3)),
            Registration::Wanted { .. } => None,
        };
        let times = [
            link,
            keepalive,
            self.calls.next_wake(),
            self.requests.next_wake(),
        ];
        times
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + Duration::from_millis(1000))
    }
}

/// Says whether sending the request again cannot help.
fn is_final(refusal: Refusal) -> bool {
    match refusal {
        Refusal::ReplyGone
        | Refusal::SequenceReused
        | Refusal::NoSuchObject
        | Refusal::TooLarge
        | Refusal::NoSnapshots => true,
        Refusal::NotOrdered
        | Refusal::Unknown
        | Refusal::Overloaded
        | Refusal::SessionExpired
        | Refusal::NotServing
        | Refusal::NoLeader
        | Refusal::StorageFull => false,
    }
}
