//! A few replicas, their objects and one log, driven by hand.

mod objects;
mod ordering;

pub(crate) use objects::{IMAGE_BYTES, Objects, value, woken};
pub(crate) use ordering::{Instant, Shared};

use quorate_ordering::{Effect, LinkState, Role};
use quorate_replica::{
    Input, Output, PeerMessage, Recovered, Remembered, Replica, ReplicaConfig, ReplicaMessage,
    limits,
};
use quorate_types::{
    Ask, Attachment, Ballot, Batch, Body, Command, CommandId, ConnectionId, Duration, FromClient,
    GroupLimits, Incarnation, LinkEpoch, Member, NodeId, NodeSet, ObjectId, ObjectSpec, Outcome,
    Persistence, Quorums, ReadLevel, Refusal, Secret, SessionId, SessionTerms, Slot, Stamp, Time,
    ToClient, Value, View, ViewNumber, Wall,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(crate) type Message = u32;

/// Every link that stands.
pub(crate) const LINK: LinkEpoch = LinkEpoch(2);

/// Replicas `n0`, `n1`, ... of one group; `n0` leads at first.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) shared: Rc<RefCell<Shared>>,
    pub(crate) nodes: Vec<Node>,
    /// Replies of all nodes, in order.
    pub(crate) told: Vec<(ConnectionId, ToClient)>,
    /// Outputs that no test object performs.
    pub(crate) seen: Vec<(usize, Output<Message>)>,
    /// The secrets of the sessions that were opened.
    pub(crate) secrets: BTreeMap<SessionId, Secret>,
    /// What clients ask of their sessions.
    pub(crate) terms: SessionTerms,
    /// While time passes, the nodes that are not cut off know that a leader has a quorum.
    pub(crate) is_led: bool,
    /// Questions for snapshots are lost.
    pub(crate) loses_fetches: bool,
    /// Questions for snapshots that nodes asked.
    pub(crate) fetches_asked: usize,
    /// Digests of outcomes are lost, so that only snapshots show differences.
    pub(crate) loses_outcomes: bool,
    /// Trails of outcomes that asked for those of others.
    pub(crate) trails_asked: usize,
    /// Words of nodes that have no say are lost.
    pub(crate) loses_no_say: bool,
    /// Those words: who said them, after and up to which slot they count.
    pub(crate) no_say: Vec<(usize, Slot, Slot)>,
    mail: VecDeque<(usize, usize, PeerMessage<Message>)>,
}

pub(crate) struct Node {
    pub(crate) replica: Replica<Instant>,
    pub(crate) objects: Objects,
    /// Messages to and from the node are lost.
    pub(crate) is_cut: bool,
    /// How far its wall clock is ahead.
    pub(crate) skew: i64,
}

pub(crate) fn view(nodes: u16) -> View {
    let all: NodeSet = (0..nodes).map(NodeId).collect();
    let member = |node| Member {
        node,
        incarnation: Incarnation(1),
        address: String::new(),
    };
    View {
        first_ballot: None,
        limits: GroupLimits::default(),
        number: ViewNumber(1),
        first_slot: Slot(1),
        members: all.iter().map(member).collect(),
        replicas: all,
        acceptors: all,
        quorums: Quorums::majority(usize::from(nodes)).unwrap(),
        window: 64,
        rejoined: BTreeMap::new(),
        level: quorate_types::Level::UNNAMED,
        ordering: quorate_types::OrderingName::Paxos,
        persistence: Persistence::Memory,
        objects: vec![ObjectSpec {
            name: "chain".into(),
            class: "rust:chain".into(),
            arguments: Value::new(),
        }],
    }
}

pub(crate) fn config(nodes: u16, own: usize) -> ReplicaConfig {
    ReplicaConfig::new(NodeId(own as u16), 1, view(nodes))
}

impl World {
    pub(crate) fn new(nodes: u16) -> World {
        World::with(nodes, |_| {})
    }

    pub(crate) fn with(nodes: u16, adjust: impl Fn(&mut ReplicaConfig)) -> World {
        let mut world = World::without_leader(nodes, adjust);
        world.lead(0);
        world
    }

    /// A world in which nothing is ordered yet, and no clock is told.
    pub(crate) fn without_leader(nodes: u16, adjust: impl Fn(&mut ReplicaConfig)) -> World {
        objects::forget_images();
        let shared = Rc::new(RefCell::new(Shared::default()));
        let mut world = World {
            now: Time(1_000_000_000),
            shared,
            nodes: Vec::new(),
            told: Vec::new(),
            seen: Vec::new(),
            secrets: BTreeMap::new(),
            is_led: false,
            terms: SessionTerms::expiring_after(Duration::from_millis(30_000)),
            loses_fetches: false,
            fetches_asked: 0,
            loses_outcomes: false,
            trails_asked: 0,
            loses_no_say: false,
            no_say: Vec::new(),
            mail: VecDeque::new(),
        };
        for own in 0..usize::from(nodes) {
            let mut config = config(nodes, own);
            adjust(&mut config);
            world.add(config, None, Objects::default());
        }
        world
    }

    /// Starts one more node.
    pub(crate) fn add(
        &mut self,
        config: ReplicaConfig,
        recovered: Option<Recovered>,
        objects: Objects,
    ) {
        let remembered = Remembered {
            snapshot: recovered,
            ..Remembered::default()
        };
        self.add_remembering(config, remembered, objects);
    }

    /// Starts one more node, which has lived before.
    pub(crate) fn add_remembering(
        &mut self,
        config: ReplicaConfig,
        remembered: Remembered,
        objects: Objects,
    ) {
        let ordering = Instant::new(config.own, Rc::clone(&self.shared));
        let (replica, outputs) = Replica::new(config, ordering, remembered, self.now);
        let at = self.nodes.len();
        self.nodes.push(Node {
            replica,
            objects,
            is_cut: false,
            skew: 0,
        });
        self.perform(at, outputs);
        self.run();
    }

    /// Ends node `at` and starts it again: it has the log, and nothing else.
    pub(crate) fn restart(&mut self, at: usize, boot: u64) {
        let mut config = config(self.nodes.len() as u16, at);
        config.boot = boot;
        self.restart_as(at, config);
    }

    /// The same, with another configuration.
    pub(crate) fn restart_as(&mut self, at: usize, config: ReplicaConfig) {
        self.restart_remembering(at, config, Remembered::default());
    }

    /// The same, with more than the log.
    pub(crate) fn restart_remembering(
        &mut self,
        at: usize,
        config: ReplicaConfig,
        remembered: Remembered,
    ) {
        let ordering = Instant::new(config.own, Rc::clone(&self.shared));
        let (replica, outputs) = Replica::new(config, ordering, remembered, self.now);
        self.nodes[at].replica = replica;
        self.nodes[at].objects = Objects::default();
        self.perform(at, outputs);
        self.run();
    }

    /// Makes node `at` the leader of the next ballot, seen by all.
    pub(crate) fn lead(&mut self, at: usize) {
        let ballot = self.shared.borrow_mut().next_ballot(at);
        for node in 0..self.nodes.len() {
            let role = if node == at {
                Role::Leader { ballot }
            } else {
                Role::Follower {
                    leader: Some(NodeId(at as u16)),
                }
            };
            self.effect(node, Effect::Role(role));
        }
        self.run();
    }

    /// What a right wall clock shows.
    pub(crate) fn right_wall(&self) -> Wall {
        Wall(self.now.0 + (1 << 60))
    }

    /// Lets node `at` know who leads, and that this leader has heard it.
    pub(crate) fn follow(&mut self, at: usize, leader: usize) {
        let leader = Some(NodeId(leader as u16));
        self.effect(at, Effect::Role(Role::Follower { leader }));
        let (slot, now) = (self.shared.borrow().last(), self.now);
        self.effect(at, Effect::Current { slot, at: now });
        self.run();
    }

    /// Lets only node `at` believe that it leads in `ballot`.
    pub(crate) fn believe(&mut self, at: usize, ballot: Ballot) {
        self.effect(at, Effect::Role(Role::Leader { ballot }));
        self.run();
    }

    /// The ordering of `at` emits `effect`.
    pub(crate) fn effect(&mut self, at: usize, effect: Effect<Message>) {
        self.shared.borrow_mut().emit(at, effect);
        self.input(at, Input::Wake);
    }

    /// One input and its turn's end.
    pub(crate) fn input(&mut self, at: usize, input: Input<Message>) {
        self.half_turn(at, input);
        self.end_turn(at);
    }

    /// One input of a longer turn.
    pub(crate) fn half_turn(&mut self, at: usize, input: Input<Message>) {
        let mut out = Vec::new();
        self.nodes[at].replica.handle(self.now, input, &mut out);
        self.perform(at, out);
        self.nodes[at].replica.check();
    }

    pub(crate) fn end_turn(&mut self, at: usize) {
        let wall = Wall(
            self.right_wall()
                .0
                .saturating_add_signed(self.nodes[at].skew),
        );
        self.half_turn(at, Input::TurnEnd { wall, entropy: 7 });
    }

    fn perform(&mut self, at: usize, outputs: Vec<Output<Message>>) {
        for output in outputs {
            match output {
                Output::Send { to, message, .. } => {
                    for peer in to.iter() {
                        self.mail
                            .push_back((at, usize::from(peer.0), message.clone()));
                    }
                }
                Output::SendChunk {
                    to,
                    slot,
                    offset,
                    length,
                } => {
                    let chunk = self.nodes[at].objects.piece(slot, offset, length);
                    let message = PeerMessage::Replica(chunk);
                    self.mail.push_back((at, usize::from(to.0), message));
                }
                Output::Reply { to, message } => self.told.push((to, message)),
                other => {
                    self.seen.push((at, other.clone()));
                    self.nodes[at].objects.perform(other);
                }
            }
        }
    }

    /// Runs until nobody has anything to do.
    pub(crate) fn run(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some((from, to, message)) = self.mail.pop_front() {
                is_quiet = false;
                if to >= self.nodes.len() || self.nodes[from].is_cut || self.nodes[to].is_cut {
                    continue;
                }
                let fetch = ReplicaMessage::Fetch {
                    slot: Slot(0),
                    offset: 0,
                };
                let kind = std::mem::discriminant(&fetch);
                if let PeerMessage::Replica(message) = &message
                    && std::mem::discriminant(message) == kind
                {
                    self.fetches_asked += 1;
                    assert!(self.fetches_asked < 10_000, "this fetch has no end");
                    if self.loses_fetches {
                        continue;
                    }
                }
                let is_of_outcomes = matches!(
                    &message,
                    PeerMessage::Replica(
                        ReplicaMessage::Outcomes { .. } | ReplicaMessage::Trail { .. }
                    )
                );
                let asks = matches!(
                    &message,
                    PeerMessage::Replica(ReplicaMessage::Trail { asks: true, .. })
                );
                self.trails_asked += usize::from(asks);
                if self.loses_outcomes && is_of_outcomes {
                    continue;
                }
                if let PeerMessage::Replica(ReplicaMessage::NoSay { after, upto }) = &message {
                    self.no_say.push((from, *after, *upto));
                    if self.loses_no_say {
                        continue;
                    }
                }
                let input = Input::Peer {
                    from: NodeId(from as u16),
                    link: LINK,
                    message,
                };
                self.input(to, input);
            }
            for at in 0..self.nodes.len() {
                while let Some(input) = self.nodes[at].objects.next() {
                    is_quiet = false;
                    self.input(at, input);
                }
                if self.shared.borrow().has_news(at) {
                    is_quiet = false;
                    self.input(at, Input::Wake);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Lets time pass, with a wake and a turn on every node.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.is_led && self.now + limits::SERVED_GAP < end {
            self.now = self.now + limits::SERVED_GAP;
            self.heartbeat();
        }
        self.now = end;
        for at in 0..self.nodes.len() {
            self.input(at, Input::Wake);
        }
        if self.is_led {
            self.heartbeat();
        }
        self.run();
    }

    fn heartbeat(&mut self) {
        let (slot, now) = (self.shared.borrow().last(), self.now);
        for at in 0..self.nodes.len() {
            if !self.nodes[at].is_cut {
                self.effect(at, Effect::Current { slot, at: now });
            }
        }
    }

    pub(crate) fn link_up(&mut self, at: usize, peer: usize) {
        let state = LinkState::Up(LINK);
        let peer = NodeId(peer as u16);
        self.input(at, Input::Link { peer, state });
        self.run();
    }

    /// A client's message, in a turn of its own; everything that follows happens too.
    pub(crate) fn say(&mut self, at: usize, from: u64, message: FromClient) {
        let from = ConnectionId(from);
        self.input(at, Input::Client { from, message });
        self.run();
    }

    pub(crate) fn open(&mut self, at: usize, from: u64) -> SessionId {
        let secret = secret(from * 1000 + self.told.len() as u64);
        let terms = self.terms;
        self.say(at, from, FromClient::Open { secret, terms });
        let opened = self.told.iter().rev().find_map(|(_, told)| match told {
            ToClient::Opened { hash, session, .. } if *hash == secret.hash() => Some(*session),
            _ => None,
        });
        let opened = opened.expect("an open is answered");
        self.secrets.insert(opened, secret);
        opened
    }

    pub(crate) fn call(&mut self, at: usize, from: u64, id: CommandId, text: &str) {
        self.call_acknowledging(at, from, id, 0, text);
    }

    pub(crate) fn call_acknowledging(
        &mut self,
        at: usize,
        from: u64,
        id: CommandId,
        acknowledged: u64,
        text: &str,
    ) {
        self.attach(at, from, id.session);
        let message = FromClient::Call {
            id,
            acknowledged,
            object: ObjectId(0),
            payload: payload(text),
        };
        self.say(at, from, message);
    }

    /// Shows node `at` the secret of a session that was opened here, on connection `from`.
    pub(crate) fn attach(&mut self, at: usize, from: u64, session: SessionId) {
        if let Some(secret) = self.secrets.get(&session).copied() {
            self.say(
                at,
                from,
                FromClient::Attach {
                    session,
                    secret,
                    attachment: Attachment::NONE,
                },
            );
        }
    }

    pub(crate) fn read(&mut self, at: usize, from: u64, request: u64, level: ReadLevel) {
        self.say(at, from, read(request, level, Slot::ZERO));
    }

    /// A read of any state by a client that has seen `after`.
    pub(crate) fn read_after(&mut self, at: usize, from: u64, request: u64, after: Slot) {
        self.say(at, from, read(request, ReadLevel::Any, after));
    }

    /// Decides `commands` in the next slot, as if another node had submitted them.
    pub(crate) fn decide(&mut self, commands: Vec<Command>) -> Slot {
        let slot = self.shared.borrow_mut().append(stamp(self.now), commands);
        self.run();
        slot
    }

    /// Asks node `at` for a checkpoint; the slot that it is told.
    pub(crate) fn checkpoint(&mut self, at: usize) -> Slot {
        let from = 900 + self.told.len() as u64;
        self.say(at, from, FromClient::Checkpoint { request: 1 });
        let told = self
            .take_told(from)
            .into_iter()
            .find_map(|told| match told {
                ToClient::Checkpointed { slot, .. } => Some(slot),
                _ => None,
            });
        told.expect("a checkpoint is answered")
    }

    /// What connection `to` was told since the last time.
    pub(crate) fn take_told(&mut self, to: u64) -> Vec<ToClient> {
        let (own, other) = std::mem::take(&mut self.told)
            .into_iter()
            .partition(|(connection, _)| *connection == ConnectionId(to));
        self.told = other;
        let own: Vec<(ConnectionId, ToClient)> = own;
        own.into_iter()
            .map(|(_, told)| told)
            .filter(|told| !matches!(told, ToClient::Leader { .. }))
            .collect()
    }

    /// The outcome that connection `to` got last, if that is the last thing it was told.
    pub(crate) fn outcome(&mut self, to: u64) -> Option<Outcome> {
        match self.take_told(to).pop() {
            Some(ToClient::Replied { outcome, .. } | ToClient::Read { outcome, .. }) => {
                Some(outcome)
            }
            _ => None,
        }
    }
}

/// A client's secret, by its number.
pub(crate) fn secret(number: u64) -> Secret {
    Secret::new(u128::from(number).to_le_bytes())
}

/// The request of client `number` for a session.
pub(crate) fn open(number: u64) -> FromClient {
    opening(secret(number))
}

/// The request for a session with this secret.
pub(crate) fn opening(secret: Secret) -> FromClient {
    let terms = SessionTerms::default();
    FromClient::Open { secret, terms }
}

pub(crate) fn payload(text: &str) -> Value {
    Value::copy_from_slice(text.as_bytes())
}

pub(crate) fn stamp(now: Time) -> Stamp {
    Stamp {
        wall: Wall(now.0),
        entropy: 7,
    }
}

pub(crate) fn id(session: SessionId, sequence: u64) -> CommandId {
    CommandId { session, sequence }
}

pub(crate) fn call(session: SessionId, sequence: u64, acknowledged: u64, text: &str) -> Command {
    Command {
        id: id(session, sequence),
        acknowledged,
        body: Body::Call {
            object: ObjectId(0),
            payload: payload(text),
        },
    }
}

pub(crate) fn meta(body: Body) -> Command {
    Command {
        id: id(SessionId::NONE, 1 << 60),
        acknowledged: 0,
        body,
    }
}

pub(crate) fn refused(ask: Ask, refusal: Refusal) -> ToClient {
    ToClient::Refused { ask, refusal }
}

pub(crate) fn batch(commands: Vec<Command>) -> Batch {
    Batch::new(stamp(Time(1)), commands)
}

fn read(request: u64, level: ReadLevel, after: Slot) -> FromClient {
    FromClient::Read {
        request,
        object: ObjectId(0),
        payload: payload("?"),
        level,
        after,
    }
}
