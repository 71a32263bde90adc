//! The clients of a rehearsal: each drives the session that real clients use, over connections that may break.

use crate::limits::{COPY_WITHIN_MS, ENDED_MAX, PATIENCE, SESSION_EXPIRY};
use crate::objects::RehearsedObjects;
use crate::rehearsal::Rehearsal;
use crate::schedule::Occurrence;
use quorate_replica::Input;
use quorate_session::{
    Answer, ClientSession, Failure, Operation, SessionConfig, SessionInput, SessionOutput, Ticket,
};
use quorate_types::{
    BroadcastId, ClosedBy, ConnectionId, Duration, FromClient, NodeId, Secret, SessionId,
    SessionTerms, Time, ToClient,
};
use std::collections::BTreeMap;

/// How an operation of a client ended.
#[derive(Clone, PartialEq, Debug)]
pub struct EndedOperation {
    /// The client.
    pub caller: usize,
    /// The operation; the number of a call is also its sequence.
    pub ticket: Ticket,
    /// Its answer, or why it has none.
    pub result: Result<Answer, Failure>,
}

/// One client.
pub(crate) struct Caller {
    session: ClientSession,
    connection: Option<ConnectionId>,
    /// Those on which it announces its reads to other nodes. At most one for each node.
    announcers: BTreeMap<NodeId, ConnectionId>,
    /// Counts dials: an earlier one that arrives late is void.
    dial: u64,
    alarm: Option<Time>,
}

/// A connection to one life of a node.
#[derive(Debug)]
pub(crate) struct CallerLink {
    /// `None` for a copy that nobody hears of.
    pub(crate) caller: Option<usize>,
    pub(crate) node: NodeId,
    life: u64,
    /// Something was lost on it: nothing more passes.
    is_broken: bool,
    last_up: Time,
    last_down: Time,
}

/// Who ends connections: callers ask for no earlier end of their sessions, so it makes no difference.
const BY: ClosedBy = ClosedBy::Node;

impl Caller {
    pub(crate) fn new(addresses: Vec<String>, number: usize, secret: u64, now: Time) -> Caller {
        let secret = u128::from(secret) << 64 | u128::from(!secret);
        let secret = Secret::new(secret.to_le_bytes());
        let config = SessionConfig {
            terms: SessionTerms::expiring_after(SESSION_EXPIRY),
            ..SessionConfig::default()
        };
        let mut session = ClientSession::new(config, addresses, number as u64, secret, now);
        session.set_announcing(true);
        Caller {
            session,
            connection: None,
            announcers: BTreeMap::new(),
            dial: 0,
            alarm: None,
        }
    }
}

impl Rehearsal {
    /// The client of a session.
    pub(crate) fn caller_of(&self, session: SessionId) -> Option<usize> {
        self.sessions.get(&session).copied()
    }

    /// Begins an operation of a client; `None` when it has too many under way.
    pub fn begin(
        &mut self,
        caller: usize,
        operation: Operation,
        patience: Duration,
    ) -> Option<Ticket> {
        if self.ended.len() >= ENDED_MAX {
            return None;
        }
        let (now, mut out) = (self.now, Vec::new());
        let session = &mut self.callers[caller].session;
        let ticket = session.begin(now, operation, now + patience, &mut out);
        self.perform_for(caller, out);
        ticket
    }

    /// Something happens to a client.
    fn tell(&mut self, caller: usize, input: SessionInput) {
        let (now, mut out) = (self.now, Vec::new());
        self.callers[caller].session.handle(now, input, &mut out);
        self.perform_for(caller, out);
    }

    /// A client's session is woken for the first time, or again.
    pub(crate) fn wake_caller(&mut self, caller: usize) {
        let now = self.now;
        self.callers[caller].alarm.take_if(|at| *at <= now);
        self.tell(caller, SessionInput::Wake);
    }

    fn perform_for(&mut self, caller: usize, out: Vec<SessionOutput>) {
        for output in out {
            match output {
                SessionOutput::Dial { address } => self.dial(caller, &address),
                SessionOutput::Send(message) => self.ask(caller, message),
                SessionOutput::Announce(read) => self.announce(caller, read),
                // No caller asks for it.
                SessionOutput::Tentative { .. } => {}
                SessionOutput::Done { ticket, result } => self.ended.push(EndedOperation {
                    caller,
                    ticket,
                    result,
                }),
            }
        }
        let now = self.now;
        let due = self.callers[caller].session.next_wake();
        let due = due.max(now + Duration::from_micros(10));
        let alarm = &mut self.callers[caller].alarm;
        if alarm.is_none_or(|at| at <= now || due < at) {
            *alarm = Some(due);
            self.schedule.push(due, Occurrence::CallerWakes { caller });
        }
    }

    fn dial(&mut self, caller: usize, address: &str) {
        if let Some(connection) = self.callers[caller].connection.take() {
            let at = self.now + self.latency();
            self.schedule.push(at, Occurrence::Ends { connection });
        }
        self.callers[caller].dial += 1;
        let dial = self.callers[caller].dial;
        let node = self.ids().find(|id| id.to_string() == address);
        let node = node.expect("addresses are those of the view");
        let at = self.now + self.latency();
        let dialled = Occurrence::Dialled { caller, dial, node };
        self.schedule.push(at, dialled);
    }

    /// A dial arrives. One to a node that is cut off from clients is never answered.
    pub(crate) fn dialled(&mut self, caller: usize, dial: u64, node: NodeId) {
        if self.callers[caller].dial != dial || self.nodes[&node].is_hidden {
            return;
        }
        if self.nodes[&node].running.is_none() {
            self.tell(caller, SessionInput::Disconnected { by: BY });
            return;
        }
        let connection = self.open(Some(caller), node);
        self.callers[caller].connection = Some(connection);
        let members = self.view.members.iter();
        let members = members.map(|member| (member.node, member.address.clone()));
        let members = members.collect();
        self.tell(caller, SessionInput::Connected { node, members });
    }

    fn open(&mut self, caller: Option<usize>, node: NodeId) -> ConnectionId {
        self.opened += 1;
        let connection = ConnectionId(self.opened);
        let link = CallerLink {
            caller,
            node,
            life: self.nodes[&node].life,
            is_broken: false,
            last_up: self.now,
            last_down: self.now,
        };
        self.connections.insert(connection, link);
        connection
    }

    fn ask(&mut self, caller: usize, message: FromClient) {
        let Some(connection) = self.callers[caller].connection else {
            return;
        };
        if let FromClient::Call { id, .. } = &message {
            self.sessions.insert(id.session, caller);
            self.copy(caller, &message);
        }
        self.say(caller, connection, message);
    }

    /// A client tells the nodes beside the one in use of a read.
    fn announce(&mut self, caller: usize, read: BroadcastId) {
        let used = self.callers[caller].connection;
        let used = used.and_then(|connection| self.connections.get(&connection));
        let used = used.map(|link| link.node);
        let others: Vec<NodeId> = self.ids().filter(|id| Some(*id) != used).collect();
        for node in others {
            let known = self.callers[caller].announcers.get(&node).copied();
            let life = self.nodes[&node].life;
            let is_of_life = |connection: &ConnectionId| {
                let link = self.connections.get(connection);
                link.is_some_and(|link| link.life == life && !link.is_broken)
            };
            let connection = match known.filter(is_of_life) {
                Some(connection) => connection,
                None => self.open(Some(caller), node),
            };
            self.callers[caller].announcers.insert(node, connection);
            self.say(caller, connection, FromClient::Announce { read });
        }
    }

    /// Something leaves a client on one of its connections.
    fn say(&mut self, caller: usize, connection: ConnectionId, message: FromClient) {
        let at = self.now + self.latency();
        if let Some(link) = self.connections.get_mut(&connection) {
            link.last_up = at.max(Time(link.last_up.0 + 1));
            let (at, node) = (link.last_up, link.node);
            if self.is_traced() {
                self.trace_request((caller, node), &message, at);
            }
            let asked = Occurrence::Asked {
                connection,
                message,
            };
            self.schedule.push(at, asked);
        }
    }

    /// Now and then a copy of a call arrives at any node, as if the network had kept it.
    fn copy(&mut self, caller: usize, call: &FromClient) {
        if !self.dice.chance(self.config.copies_per_mille) {
            return;
        }
        let nodes: Vec<NodeId> = self.ids().collect();
        let node = nodes[self.dice.below(nodes.len() as u64) as usize];
        let after = Duration::from_millis(self.dice.below(COPY_WITHIN_MS));
        let attach = self.callers[caller].session.introduction();
        let call = call.clone();
        let copied = Occurrence::Copied { node, attach, call };
        self.schedule.push(self.now + after, copied);
    }

    pub(crate) fn copied(
        &mut self,
        node: NodeId,
        attach: FromClient,
        call: FromClient,
        objects: &mut dyn RehearsedObjects,
    ) {
        if self.nodes[&node].running.is_none() || self.nodes[&node].is_hidden {
            return;
        }
        let from = self.open(None, node);
        for message in [attach, call] {
            self.hand_in(node, Input::Client { from, message }, objects);
        }
        let ends = Occurrence::Ends { connection: from };
        self.schedule.push(self.now + PATIENCE, ends);
    }

    pub(crate) fn asked(
        &mut self,
        from: ConnectionId,
        message: FromClient,
        objects: &mut dyn RehearsedObjects,
    ) {
        if let Some(node) = self.carries(from) {
            self.hand_in(node, Input::Client { from, message }, objects);
        }
    }

    /// The node at the other end, unless what is on the way is lost.
    fn carries(&mut self, connection: ConnectionId) -> Option<NodeId> {
        let link = self.connections.get_mut(&connection)?;
        let node = &self.nodes[&link.node];
        if node.is_hidden && !link.is_broken {
            link.is_broken = true;
            let ends = Occurrence::Ends { connection };
            self.schedule.push(self.now + PATIENCE, ends);
        }
        let passes = !link.is_broken && node.running.is_some() && node.life == link.life;
        passes.then_some(link.node)
    }

    /// When an answer that leaves at this moment arrives; `None` if nobody hears it.
    pub(crate) fn after_last_answer(&mut self, connection: ConnectionId) -> Option<Time> {
        let at = self.now + self.latency();
        let link = self.connections.get_mut(&connection)?;
        link.caller?;
        link.last_down = at.max(Time(link.last_down.0 + 1));
        Some(link.last_down)
    }

    pub(crate) fn answered(&mut self, connection: ConnectionId, message: ToClient) {
        let Some(link) = self.connections.get(&connection) else {
            return;
        };
        let caller = link.caller;
        let Some(caller) = caller.filter(|caller| {
            // An answer that left before a crash still arrives.
            self.callers[*caller].connection == Some(connection)
        }) else {
            return;
        };
        if self.nodes[&link.node].running.is_some() && self.carries(connection).is_none() {
            return;
        }
        self.tell(caller, SessionInput::Received(message));
    }

    /// Both ends of a connection notice its end.
    pub(crate) fn ends(&mut self, connection: ConnectionId, objects: &mut dyn RehearsedObjects) {
        let Some(link) = self.connections.remove(&connection) else {
            return;
        };
        let node = &self.nodes[&link.node];
        if node.running.is_some() && node.life == link.life {
            self.hand_in(
                link.node,
                Input::Disconnected { connection, by: BY },
                objects,
            );
        }
        let Some(caller) = link.caller else { return };
        if self.callers[caller].connection == Some(connection) {
            self.callers[caller].connection = None;
            self.tell(caller, SessionInput::Disconnected { by: BY });
        }
    }

    /// A node's process has ended, and its system says so, unless nobody hears it.
    pub(crate) fn connections_end(&mut self, id: NodeId) {
        let own = self.connections.iter().filter(|(_, link)| link.node == id);
        let own: Vec<ConnectionId> = own.map(|(connection, _)| *connection).collect();
        let is_hidden = self.nodes[&id].is_hidden;
        for connection in own {
            let after = match is_hidden {
                true => PATIENCE,
                false => self.latency(),
            };
            let ends = Occurrence::Ends { connection };
            self.schedule.push(self.now + after, ends);
        }
    }
}
