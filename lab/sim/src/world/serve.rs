//! Clients and nodes talk: dialling, requests, answers, and copies of calls that arrive late from elsewhere.
//!
//! A connection keeps order and loses nothing, as TCP does: what cannot pass breaks it for good.

use super::World;
use super::clients::Connection;
use super::clock::Moment;
use super::early;
use super::events::Event;
use super::judge::Source;
use super::links::MESSAGE_BYTES;
use super::row::Row;
use super::trace::Tag;
use super::workload;
use crate::checkers::Property;
use bytes::{Bytes, BytesMut};
use quorate_replica::Input as ToReplica;
use quorate_replica::KeptLimits;
use quorate_session::{Answer, Cause, Failure, Operation, SessionInput, SessionOutput, Ticket};
use quorate_types::{
    Ask, Attachment, ClosedBy, CommandId, ConnectionId, Duration, FromClient, NodeId, Refusal,
    Secret, ToClient,
};
use quorate_wire::{answers, put_answer, put_request, requests};

/// How long operations may take while faults last; the shortest and the longest.
const DEADLINE_MS: (u64, u64) = (300, 8000);

/// A deadline that only a broken promise reaches.
const NEVER: Duration = Duration::from_millis(3_600_000);

/// A connection on which something was lost is found broken after this.
pub(super) const BROKEN_AFTER: Duration = Duration::from_millis(2000);

/// Connections of thieves are numbered from here; what they are told is not carried.
const THIEVES: u64 = 1 << 40;

/// The latest copy of a call.
const GHOST_MS_MAX: u64 = 12_000;

impl World {
    pub(super) fn client_thinks(&mut self, number: u64) {
        if !self.stage.is_working() {
            return;
        }
        let (now, load) = (self.now, self.setup.load);
        let client = self.clients.get_mut(&number).expect("clients stay");
        let next = now + Duration(client.random.below(load.think_max.0) + 1_000_000);
        self.events
            .push(next, Event::ClientThinks { client: number });
        if !self.is_quiet(number) {
            self.watch_idle(number);
            self.client_gives_up(number);
            self.client_begins(number);
        }
    }

    /// Begins an operation if the client has fewer under way than it may have.
    pub(super) fn client_begins(&mut self, number: u64) {
        let load = self.setup.load;
        let is_calm = self.stage.is_calm();
        let client = self.clients.get_mut(&number).expect("clients stay");
        let takes = client.takes();
        // The others' load is what the limits of a run suit.
        let is_light = client.is_waiter || client.watcher.is_some();
        let depth = if is_light { 1 } else { load.depth };
        let is_busy = (client.open.len() - takes) as u64 >= depth;
        if is_busy || !self.stage.wants_operations() {
            return;
        }
        // In a run of hours every second pace is dry: a queue that is offered as much as is taken would grow like a random walk.
        let drains = |pace: Duration| (self.now.0 / pace.0) % 2 == 1;
        let is_dry = self.stage.is_faulty() && self.quiet.is_dry(self.now)
            || self.setup.pace.is_some_and(drains);
        let drawn = if let Some(watcher) = &mut client.watcher {
            watcher.draw(takes > 0, is_dry)
        } else if client.is_waiter {
            client.workload.draw_waiting(takes, is_dry)
        } else if client.is_reader {
            Some(client.workload.draw_read())
        } else {
            Some(client.workload.draw())
        };
        let Some(drawn) = drawn else {
            return;
        };
        let span = if is_calm {
            NEVER
        } else {
            client.random.millis(DEADLINE_MS.0, DEADLINE_MS.1)
        };
        self.begin(number, drawn, span);
    }

    /// Begins an operation for a client.
    pub(super) fn begin(&mut self, number: u64, drawn: workload::Drawn, span: Duration) {
        let now = self.now;
        let client = self.clients.get_mut(&number).expect("clients stay");
        let payload = workload::payload(&drawn.call);
        let object = drawn.object;
        let operation = match drawn.level {
            Some(level) => Operation::Read {
                object,
                payload: payload.clone(),
                level,
            },
            None => early::operation(&self.setup, number, object, payload.clone()),
        };
        let mut out = Vec::new();
        let time = now.as_time();
        let begun = client.session.begin(time, operation, time + span, &mut out);
        if let Some(ticket) = begun {
            let words = [Tag::Client as u64, number, ticket.index()];
            self.trace.note(now, &words, || {
                format!("c{number} begins {ticket:?} {drawn:?}")
            });
            let open = self.judge.calls(now, number, drawn, &payload);
            client.open.insert(ticket, open);
        }
        self.perform_client(number, out);
    }

    pub(super) fn client_alarm(&mut self, number: u64) {
        let now = self.now;
        let client = self.clients.get_mut(&number).expect("clients stay");
        if client.alarm.is_some_and(|set| set <= now) {
            client.alarm = None;
            self.tell_client(number, SessionInput::Wake);
        }
    }

    /// A client's session is new: it does what is due at once.
    pub(super) fn client_alarm_now(&mut self, number: u64) {
        self.tell_client(number, SessionInput::Wake);
    }

    pub(super) fn tell_client(&mut self, number: u64, input: SessionInput) {
        let why = self.watch_told(number, &input);
        let client = self.clients.get_mut(&number).expect("clients stay");
        let mut out = Vec::new();
        client.session.handle(self.now.as_time(), input, &mut out);
        self.watch_dials(number, why, &out);
        self.perform_client(number, out);
    }

    fn perform_client(&mut self, number: u64, outputs: Vec<SessionOutput>) {
        for output in outputs {
            match output {
                SessionOutput::Dial { address } => self.dial(number, &address),
                SessionOutput::Send(message) => self.client_sends(number, message),
                SessionOutput::Announce(read) => self.announce(number, read),
                SessionOutput::Tentative { ticket, value } => {
                    self.hears_early(number, ticket, value);
                }
                SessionOutput::Done { ticket, result } => {
                    self.operation_ends(number, ticket, result)
                }
            }
        }
        let now = self.now;
        let client = self.clients.get_mut(&number).expect("clients stay");
        let due = Moment(client.session.next_wake().0).max(now + Duration::from_micros(10));
        if client.alarm.is_none_or(|set| set > due) {
            client.alarm = Some(due);
            self.events.push(due, Event::ClientAlarm { client: number });
        }
    }

    fn operation_ends(&mut self, number: u64, ticket: Ticket, result: Result<Answer, Failure>) {
        let now = self.now;
        let client = self.clients.get_mut(&number).expect("clients stay");
        let Some(open) = client.open.remove(&ticket) else {
            self.blame(
                Property::Invariant,
                format!("c{number} ends {ticket:?}, which is not under way"),
            );
            return;
        };
        let words = [Tag::Client as u64, number, ticket.index(), 1];
        self.trace.note(now, &words, || {
            format!("c{number} ends {ticket:?} {result:?}")
        });
        self.ends_early(number, ticket, &result);
        let client = self.clients.get_mut(&number).expect("clients stay");
        let ended = match &result {
            Ok(Answer::Called(outcome)) => {
                let id = client.hears.expect("a call ends by the reply to it");
                self.judge.ended(now, open, outcome, Source::Command(id))
            }
            Ok(Answer::Read { outcome, slot, .. }) => {
                let source = Source::StateAfter(*slot);
                self.judge.ended(now, open, outcome, source)
            }
            Ok(Answer::Checkpointed(_)) => unreachable!("clients ask for no checkpoint"),
            Err(failure) => {
                // A call that its session ends by itself is not named, whatever it hears at that moment: it may be any.
                let is_copied = match (failure.cause, client.hears) {
                    (Cause::Refused(_), Some(id)) => client.copied.contains(&id),
                    (Cause::Refused(_), None)
                    | (
                        Cause::DeadlinePassed
                        | Cause::ConnectionLost
                        | Cause::TooManyParked
                        | Cause::OtherCluster { .. },
                        _,
                    ) => !client.copied.is_empty(),
                };
                // Where few bytes of replies are kept, a reply may go before its client has read it.
                let keeps_all = self.setup.kept == KeptLimits::default();
                if keeps_all && failure.cause == Cause::Refused(Refusal::ReplyGone) {
                    let detail = format!("c{number} waits for {ticket:?}, and its reply is gone");
                    self.blame(Property::AtMostOnce, detail);
                }
                let may_have_executed = failure.may_have_executed || is_copied;
                let judged = self.judge.gave_up(now, open, may_have_executed);
                self.judged(judged);
                return;
            }
        };
        match ended {
            Ok((call, result)) => {
                client.workload.saw(&call, &result);
                self.watcher_heard(number, &result);
            }
            Err(violation) => self.judged(Err(violation)),
        }
    }

    fn dial(&mut self, number: u64, address: &str) {
        let latency = self.network.latency();
        self.watch_reconnected(number);
        let client = self.clients.get_mut(&number).expect("clients stay");
        if let Some(old) = client.connection.take() {
            self.watch_closed(number);
            self.events
                .push(self.now + latency, Event::Closed { connection: old });
        }
        let node = node_at(address).expect("addresses are names of nodes");
        let connection = self.new_connection(Some(number), node);
        self.clients
            .get_mut(&number)
            .expect("clients stay")
            .connection = Some(connection);
        let words = [Tag::Client as u64, number, u64::from(node.0), 2];
        self.trace.note(self.now, &words, || {
            format!("c{number} dials {node} as {connection}")
        });
        let at = self.now + latency + latency;
        self.events.push(at, Event::Dialled { connection });
    }

    fn new_connection(&mut self, client: Option<u64>, node: NodeId) -> ConnectionId {
        self.connections_made += 1;
        let id = ConnectionId(self.connections_made);
        self.connections.insert(
            id,
            Connection {
                client,
                node,
                life: self.nodes[&node].life,
                is_open: false,
                is_broken: false,
                last_up: self.now,
                last_down: self.now,
            },
        );
        id
    }

    /// Whether a client and a node reach each other.
    pub(super) fn reaches(&self, client: Option<u64>, node: NodeId) -> bool {
        let is_cut = client.is_some_and(|number| self.clients[&number].cut > 0);
        !is_cut && self.nodes[&node].isolated == 0
    }

    /// Counts a client's cut that keeps something from passing, once.
    fn feel_cut(&mut self, client: Option<u64>) {
        let client = client.and_then(|number| self.clients.get_mut(&number));
        if let Some(client) = client.filter(|client| client.cut > 0)
            && !std::mem::replace(&mut client.has_felt_cut, true)
        {
            self.exercised(Row::ClientCut);
        }
    }

    pub(super) fn dialled(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id).copied() else {
            return;
        };
        let Some(number) = connection.client else {
            return;
        };
        if self.clients[&number].connection != Some(id) {
            return;
        }
        if !self.reaches(Some(number), connection.node) {
            self.feel_cut(Some(number));
            return;
        }
        let node = &self.nodes[&connection.node];
        if node.running.is_none() {
            self.connections.remove(&id);
            let by = ClosedBy::Node;
            self.tell_client(number, SessionInput::Disconnected { by });
            return;
        }
        let (node, life) = (node.id, node.life);
        let connection = self.connections.get_mut(&id).expect("looked a moment ago");
        connection.life = life;
        connection.is_open = true;
        let members = self
            .setup
            .node_ids()
            .map(|id| (id, id.to_string()))
            .collect();
        self.watch_reconnected(number);
        self.draw_early(number, node);
        self.tell_client(number, SessionInput::Connected { node, members });
    }

    fn client_sends(&mut self, number: u64, message: FromClient) {
        if let FromClient::Call {
            id,
            object,
            payload,
            ..
        } = &message
        {
            if !self.judge.was_called(*id) {
                self.first_sent(*id);
            }
            let judged = self.judge.called(number, *id, *object, payload);
            self.judged(judged);
            self.maybe_ghost(number, *id, &message);
        }
        if let FromClient::Open { secret, .. } | FromClient::Resume { secret, .. } = &message {
            let client = self.clients.get_mut(&number).expect("clients stay");
            client.secret = *secret;
        }
        let Some(id) = self.clients[&number].connection else {
            return;
        };
        self.watch_sent(number, &message);
        let words = [Tag::Client as u64, number, id.0, 3];
        self.trace
            .note(self.now, &words, || format!("c{number} sends {message:?}"));
        let mut bytes = BytesMut::with_capacity(MESSAGE_BYTES);
        put_request(&mut bytes, &message);
        let Some(at) = self.passes(id, true) else {
            return;
        };
        let event = Event::ToNode {
            connection: id,
            bytes: bytes.freeze(),
        };
        self.events.push(at, event);
    }

    /// When something sent on a connection arrives; `None` if it does not, which breaks the connection.
    fn passes(&mut self, id: ConnectionId, is_up: bool) -> Option<Moment> {
        let now = self.now;
        let connection = self.connections.get(&id).copied()?;
        if connection.is_broken {
            return None;
        }
        if !self.reaches(connection.client, connection.node) {
            self.feel_cut(connection.client);
            self.connections.get_mut(&id)?.is_broken = true;
            self.events
                .push(now + BROKEN_AFTER, Event::Broken { connection: id });
            return None;
        }
        let at = now + self.network.latency();
        let connection = self.connections.get_mut(&id)?;
        let last = if is_up {
            &mut connection.last_up
        } else {
            &mut connection.last_down
        };
        *last = at.max(*last + Duration(1));
        Some(*last)
    }

    fn maybe_ghost(&mut self, client: u64, id: CommandId, message: &FromClient) {
        if !self.random.chance(self.setup.load.ghosts_per_mille) {
            return;
        }
        let node = NodeId(self.random.between(1, u64::from(self.setup.nodes)) as u16);
        let at = self.now + self.random.millis(0, GHOST_MS_MAX);
        let message = Box::new(message.clone());
        let client = self.clients.get_mut(&client).expect("clients stay");
        client.copied.insert(id);
        let introduction = Box::new(unnumbered(client.session.introduction()));
        let ghost = Event::Ghost {
            node,
            introduction,
            message,
        };
        self.events.push(at, ghost);
    }

    /// Somebody sends a copy of a call to any node.
    pub(super) fn ghost(&mut self, node: NodeId, introduction: FromClient, message: FromClient) {
        if self.nodes[&node].running.is_none() {
            return;
        }
        self.exercised(Row::CallCopied);
        let connection = self.new_connection(None, node);
        let words = [Tag::Client as u64, 0, connection.0];
        self.trace.note(self.now, &words, || {
            format!("{node} gets a copy: {message:?}")
        });
        self.connections
            .get_mut(&connection)
            .expect("made a moment ago")
            .is_open = true;
        if let FromClient::Call { id, .. } = &message {
            // Who waits for a place uses the session no more that somebody else resumed.
            let open = self.clients.values().filter(|c| c.session.is_open());
            let mut lives = open.filter_map(|client| client.life);
            if lives.all(|(session, _)| session != id.session) {
                self.judge.liveness.left_session_called(self.now.0);
            }
        }
        let from = connection;
        for message in [introduction.clone(), message] {
            self.hand_in(node, ToReplica::Client { from, message });
        }
        self.steal(node, &introduction);
        self.events
            .push(self.now + BROKEN_AFTER, Event::Closed { connection });
    }

    /// Somebody who has read the log and a status document tries to take the client's session: it offers the hash for the
    /// secret, then the secret of a session of another client, and asks for the session's end. The ledger finds an end that no
    /// client asked for.
    fn steal(&mut self, node: NodeId, introduction: &FromClient) {
        let FromClient::Attach {
            session, secret, ..
        } = *introduction
        else {
            return;
        };
        let mut others = self.clients.values();
        let other = others.find_map(|client| {
            let FromClient::Attach {
                session: own,
                secret: other,
                ..
            } = client.session.introduction()
            else {
                return None;
            };
            // Who resumes a session has its secret, and another session if that one had ended.
            (own != session && other.hash() != secret.hash()).then_some(other)
        });
        let guess = Secret::new(*secret.hash().bytes());
        for secret in [Some(guess), other].into_iter().flatten() {
            let from = ConnectionId(THIEVES + self.connections_made);
            for message in [
                FromClient::Attach {
                    session,
                    secret,
                    attachment: Attachment(u64::from(u32::MAX)),
                },
                FromClient::KeepAlive { session },
                FromClient::Close { session },
            ] {
                self.hand_in(node, ToReplica::Client { from, message });
            }
            let (connection, by) = (from, ClosedBy::Client);
            self.hand_in(node, ToReplica::Disconnected { connection, by });
        }
    }

    pub(super) fn reach_node(&mut self, id: ConnectionId, bytes: &Bytes) {
        let Some(connection) = self.connections.get(&id).copied() else {
            return;
        };
        if !connection.is_open || self.nodes[&connection.node].life != connection.life {
            return;
        }
        for message in requests(bytes.clone()) {
            let message = message.expect("what was encoded decodes");
            self.watch_wanted(connection.node, &message);
            self.hand_in(connection.node, ToReplica::Client { from: id, message });
        }
    }

    /// Whether a client asked for a lease's answer with this request.
    pub(super) fn wants_lease(&self, id: ConnectionId, request: u64) -> bool {
        let client = self.connections.get(&id).and_then(|found| found.client);
        let client = client.and_then(|number| self.clients.get(&number));
        let open = client.and_then(|client| client.open.get(&Ticket::Request(request)));
        open.is_some_and(super::judge::Open::wants_lease)
    }

    /// Whether a client asked with this request for the state of any replica.
    pub(super) fn wants_any(&self, id: ConnectionId, request: u64) -> bool {
        let client = self.connections.get(&id).and_then(|found| found.client);
        let client = client.and_then(|number| self.clients.get(&number));
        let open = client.and_then(|client| client.open.get(&Ticket::Request(request)));
        open.is_some_and(super::judge::Open::wants_any)
    }

    /// A node answers a client.
    pub(super) fn reply(&mut self, id: ConnectionId, message: &ToClient) {
        if !self.connections.contains_key(&id) {
            return;
        }
        let mut bytes = BytesMut::with_capacity(MESSAGE_BYTES);
        put_answer(&mut bytes, message);
        if let Some(at) = self.passes(id, false) {
            let event = Event::ToClient {
                connection: id,
                bytes: bytes.freeze(),
            };
            self.events.push(at, event);
        }
    }

    pub(super) fn reach_client(&mut self, id: ConnectionId, bytes: &Bytes) {
        for message in answers(bytes.clone()) {
            let message = message.expect("what was encoded decodes");
            let Some(connection) = self.connections.get(&id).copied() else {
                return;
            };
            if let ToClient::Read { slot, .. } = &message {
                self.judged(
                    self.judge
                        .goes_on(connection.node, *slot, "answers a read at"),
                );
            }
            let meant = self.meant_by(id, &message);
            if let ToClient::Replied { id, outcome } = &meant {
                let judged = self.judge.replied(*id, outcome);
                self.judged(judged);
            }
            // A client hears nothing more on a connection that it has left.
            let clients = &self.clients;
            let hears = |number: &u64| clients[number].connection == Some(id);
            self.watch_answered(connection.client.filter(hears), &meant);
            let Some(number) = connection.client else {
                continue;
            };
            if self.clients[&number].connection == Some(id) {
                let words = [Tag::Client as u64, number, id.0, 4];
                self.trace
                    .note(self.now, &words, || format!("c{number} hears {message:?}"));
                self.watch_refused(number, &message);
                let client = self.clients.get_mut(&number).expect("clients stay");
                client.hears = match &meant {
                    ToClient::Replied { id, .. }
                    | ToClient::Tentative { id, .. }
                    | ToClient::Refused {
                        ask: Ask::Call(id), ..
                    } => Some(*id),
                    _ => None,
                };
                self.begins_telling(&message);
                self.tell_client(number, SessionInput::Received(message));
                self.watch_counting(number);
            }
        }
    }
}

/// What shows that a copy of a call is its client's own; the connection is none of those that the client numbers.
fn unnumbered(introduction: FromClient) -> FromClient {
    match introduction {
        FromClient::Attach {
            session,
            secret,
            attachment,
        } => FromClient::Attach {
            session,
            secret,
            attachment: attachment.tenancy().attachment(),
        },
        other => other,
    }
}

/// The node whose name is this address.
pub(super) fn node_at(address: &str) -> Option<NodeId> {
    let id = address.strip_prefix('n')?;
    let (id, _) = id.split_once(':').unwrap_or((id, ""));
    id.parse().ok().map(NodeId)
}
