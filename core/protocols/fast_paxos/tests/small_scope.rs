//! Every reachable state of a small world, visited on the real `FastPaxos`: acceptors that a leader has opened to any value, two
//! nodes that propose for one slot at the same time, and a rival that takes the next ballot; lost and repeated messages, one crash
//! with recovery from what was written.
//!
//! What is decided is read from the disks: a value is decided once a quorum has written votes for it in one round, whoever hears
//! of that. Abstracted away: time stands still (no timer fires and there is no pre-vote; the rival stands by an action of its own),
//! heartbeats are not delivered, the window has one slot, votes are told to the leader of their ballot, and a write becomes durable at once
//! unless the node crashes right after the event that made it. A message that is never delivered is a lost one.

use quorate_fast_paxos::message::TakeOver;
use quorate_fast_paxos::{FastPaxos, Message};
use quorate_ordering::{Config, Effect, Entry, Event, LinkState, Mark, Ordering, Record, Role};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Batch, Command, FastQuorums, LinkEpoch, NodeId, Persistence, Slot, Time, View,
    VoteKind, Wall,
};
use stateright::{Checker, Model, Property};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const NOW: Time = Time(0);
const LEADER: NodeId = NodeId(1);
const RIVAL: NodeId = NodeId(2);

/// What may happen at most.
#[derive(Clone)]
struct World {
    acceptors: u16,
    /// Ballots that the rival tries.
    stands: u8,
    /// Deliveries of each message.
    deliveries: u8,
    /// Crashes of the third acceptor, which proposes nothing.
    crashes: u8,
}

#[derive(Clone, Debug)]
struct Node {
    fast: Arc<FastPaxos>,
    disk: Arc<Vec<Record>>,
    boot: u64,
    /// What tells two states of the node apart.
    key: u64,
}

/// Text, sender, receiver, message, arrivals left.
type Posted = (Arc<str>, NodeId, NodeId, Arc<Message>, u8);

#[derive(Clone, Debug)]
struct State {
    nodes: Vec<Node>,
    /// Messages sent, sorted by their text, and how often each may still arrive.
    network: Vec<Posted>,
    stands: u8,
    crashes: u8,
    /// Batches that a quorum has written votes for, or that a node decided.
    decided: Vec<Batch>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for node in &self.nodes {
            (&node.key, node.boot).hash(state);
        }
        for (text, _, _, _, left) in &self.network {
            (text, left).hash(state);
        }
        (self.stands, self.crashes, self.decided.len()).hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        let ends = |state: &State| {
            let nodes: Vec<_> = state
                .nodes
                .iter()
                .map(|node| (node.key, node.boot))
                .collect();
            let network = state.network.iter().map(|entry| (entry.0.clone(), entry.4));
            let spent = (state.stands, state.crashes, state.decided.len());
            (nodes, network.collect::<Vec<_>>(), spent)
        };
        ends(self) == ends(other)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Deliver { index: usize, crashes: bool },
    Stand,
}

/// A digest of the node's whole state as text, without the numbers of its writes: they only count.
fn key(fast: &FastPaxos, disk: &[Record]) -> u64 {
    let mut text = String::new();
    write!(text, "{fast:?} {disk:?}").expect("a string takes any text");
    let mut digest = XxHash3_64::new();
    for part in text.split("Mark(") {
        let unnumbered = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        unnumbered.hash(&mut digest);
    }
    digest.finish()
}

impl World {
    fn view(&self) -> View {
        View {
            window: 1,
            ..view(self.acceptors, self.acceptors, Persistence::Disk)
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.acceptors).map(NodeId)
    }

    fn start(&self, state: &mut State, own: NodeId, boot: u64) {
        let index = usize::from(own.0) - 1;
        let disk = state.nodes.get(index).map(|node| node.disk.clone());
        let disk = disk.unwrap_or_default();
        let config = Config::new(VIEW.group, own, boot, self.view(), 1);
        let mut fast = FastPaxos::new(config, (*disk).clone(), NOW).unwrap();
        let mut effects = Vec::new();
        let slot = Slot::ZERO;
        fast.handle(NOW, Event::Executed { slot }, &mut effects);
        for peer in self.nodes().filter(|peer| *peer != own) {
            let up = LinkState::Up(LinkEpoch(1));
            fast.handle(NOW, Event::Link { peer, state: up }, &mut effects);
        }
        let node = Node {
            key: key(&fast, &disk),
            fast: Arc::new(fast),
            disk,
            boot,
        };
        if index < state.nodes.len() {
            state.nodes[index] = node;
        } else {
            state.nodes.push(node);
        }
        self.settle(state, own, effects);
    }

    /// One event at one node, with everything durable after it, or nothing and a crash.
    fn event(&self, state: &mut State, own: NodeId, event: Event<Message>, crashes: bool) {
        let index = usize::from(own.0) - 1;
        let mut fast = (*state.nodes[index].fast).clone();
        let mut effects = Vec::new();
        let turn = Event::TurnEnd {
            wall: Wall(1),
            entropy: 0,
        };
        fast.handle(NOW, event, &mut effects);
        fast.handle(NOW, turn.clone(), &mut effects);
        fast.check();
        let mut disk = (*state.nodes[index].disk).clone();
        let mut done = 0;
        loop {
            if crashes {
                break;
            }
            let mut mark: Option<Mark> = None;
            for effect in &effects[done..] {
                if let Effect::Persist { mark: own, record } = effect {
                    disk.push(record.clone());
                    mark = Some(*own);
                }
            }
            done = effects.len();
            let Some(mark) = mark else { break };
            fast.handle(NOW, Event::Persisted { mark }, &mut effects);
            fast.handle(NOW, turn.clone(), &mut effects);
            fast.check();
        }
        let node = &mut state.nodes[index];
        node.key = key(&fast, &disk);
        node.fast = Arc::new(fast);
        node.disk = Arc::new(disk);
        self.settle(state, own, effects);
        if crashes {
            state.crashes += 1;
            let boot = state.nodes[index].boot + 1;
            self.start(state, own, boot);
        }
        self.judge(state);
    }

    fn settle(&self, state: &mut State, from: NodeId, effects: Vec<Effect<Message>>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message, .. } => {
                    for peer in to.iter().filter(|peer| carries(*peer, &message)) {
                        self.post(state, from, peer, &message);
                    }
                }
                Effect::Decide { decision, .. } => {
                    let quorate_ordering::Decision::Batch(batch) = decision;
                    note(&mut state.decided, batch);
                }
                _ => {}
            }
        }
    }

    fn post(&self, state: &mut State, from: NodeId, to: NodeId, message: &Message) {
        let text: Arc<str> = format!("{from}{to}{message:?}").into();
        if let Err(place) = state.network.binary_search_by(|entry| entry.0.cmp(&text)) {
            let entry = (text, from, to, Arc::new(message.clone()), self.deliveries);
            state.network.insert(place, entry);
        }
    }

    /// Notes the batches for which a quorum has written votes of one round.
    fn judge(&self, state: &mut State) {
        let quorums = FastQuorums::least(self.view().quorums);
        let mut rounds: Vec<(Ballot, VoteKind, &Batch, usize)> = Vec::new();
        for node in &state.nodes {
            let mut own: Vec<(Ballot, VoteKind, &Batch)> = Vec::new();
            for record in node.disk.iter() {
                if let Entry::Vote {
                    ballot,
                    kind,
                    batch,
                    ..
                } = &record.entry
                    && !own.contains(&(*ballot, *kind, batch))
                {
                    own.push((*ballot, *kind, batch));
                }
            }
            for (ballot, kind, batch) in own {
                let of_round =
                    |known: &&mut (_, _, &Batch, _)| (known.0, known.1) == (ballot, kind);
                match rounds.iter_mut().find(of_round) {
                    Some(known) => known.3 += 1,
                    None => rounds.push((ballot, kind, batch, 1)),
                }
            }
        }
        let has_quorum = |(_, kind, _, count): &&(_, VoteKind, _, usize)| match kind {
            VoteKind::Fast(_) => *count >= quorums.fast(),
            VoteKind::Classic => *count >= quorums.classic().phase2(),
        };
        let won = rounds.iter().filter(has_quorum);
        let won: Vec<Batch> = won.map(|(_, _, batch, _)| (*batch).clone()).collect();
        for batch in won {
            note(&mut state.decided, batch);
        }
    }

    fn deliver_all(&self, state: &mut State) {
        while let Some(index) = state.network.iter().position(|entry| entry.4 > 0) {
            state.network[index].4 = 0;
            let (_, from, to, message, _) = state.network[index].clone();
            self.event(state, to, received(from, &message), false);
        }
        state.network.clear();
    }
}

fn note(decided: &mut Vec<Batch>, batch: Batch) {
    if !decided.contains(&batch) {
        decided.push(batch);
    }
}

/// Says whether `message` may arrive at all.
fn carries(to: NodeId, message: &Message) -> bool {
    match message {
        Message::Voted(voted) => to == voted.ballot.node,
        Message::Prepare(_)
        | Message::Promise(_)
        | Message::Any(_)
        | Message::Propose(_)
        | Message::Accept(_) => true,
        _ => false,
    }
}

fn received(from: NodeId, message: &Message) -> Event<Message> {
    Event::Receive {
        from,
        link: LinkEpoch(1),
        view: VIEW,
        message: message.clone(),
    }
}

fn stand(ballot: Ballot) -> Event<Message> {
    received(NodeId(3), &Message::TakeOver(TakeOver { ballot }))
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            nodes: Vec::new(),
            network: Vec::new(),
            stands: 0,
            crashes: 0,
            decided: Vec::new(),
        };
        for own in self.nodes() {
            self.start(&mut state, own, 1);
        }
        // The leader is elected, and hears by heartbeats that all acceptors follow it: it opens its ballot.
        self.event(&mut state, LEADER, stand(Ballot::ZERO), false);
        self.deliver_all(&mut state);
        let ballot = state.nodes[0].fast.status().promised;
        for node in self.nodes().filter(|node| *node != LEADER) {
            let heard = Message::Heard(quorate_fast_paxos::message::Heard {
                ballot,
                beat: 1,
                number: 1,
                decided: Slot::ZERO,
                voted: Slot::ZERO,
                is_voter: true,
            });
            self.event(&mut state, LEADER, received(node, &heard), false);
        }
        self.deliver_all(&mut state);
        assert!(state.nodes.iter().all(|node| node.fast.is_fast()));
        for own in [LEADER, RIVAL] {
            let commands: Vec<Command> = vec![call(u64::from(own.0), 1, b"")];
            self.event(&mut state, own, Event::Submit { commands }, false);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let fates: &[bool] = if state.crashes < self.crashes {
            &[false, true]
        } else {
            &[false]
        };
        for &crashes in fates {
            for (index, entry) in state.network.iter().enumerate() {
                if entry.4 > 0 && (!crashes || entry.2 == NodeId(3)) {
                    actions.push(Action::Deliver { index, crashes });
                }
            }
            let role = state.nodes[1].fast.status().role;
            let is_free = matches!(role, Role::Follower { .. });
            if is_free && !crashes && state.stands < self.stands {
                actions.push(Action::Stand);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Stand => {
                let ballot = state.nodes[1].fast.status().promised;
                state.stands += 1;
                self.event(&mut state, RIVAL, stand(ballot), false);
                Some(state)
            }
            Action::Deliver { index, crashes } => {
                state.network[index].4 -= 1;
                let (_, from, to, message, _) = state.network[index].clone();
                let index = usize::from(to.0) - 1;
                let before = state.nodes[index].key;
                let count = state.network.len();
                self.event(&mut state, to, received(from, &message), crashes);
                let is_idle = before == state.nodes[index].key && count == state.network.len();
                // An arrival that changes nothing is as good as one that never comes.
                (!is_idle || crashes).then_some(state)
            }
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let fast = |_: &World, state: &State| {
            let ballot = state.nodes[0].fast.status().promised;
            state.decided.len() == 1 && ballot.round == 1 && state.stands == 0
        };
        vec![
            Property::always("one batch a slot", |_, state: &State| {
                state.decided.len() < 2
            }),
            Property::sometimes("something is decided in the first ballot", fast),
        ]
    }
}

fn explore(world: World) -> usize {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

const LEAST: World = World {
    acceptors: 3,
    stands: 1,
    deliveries: 1,
    crashes: 0,
};

#[test]
fn three_acceptors_agree_when_two_values_cross_and_a_rival_stands() {
    assert_eq!(explore(LEAST), 38_764);
}

#[test]
fn three_acceptors_agree_when_one_crashes_at_any_point() {
    let world = World {
        crashes: 1,
        stands: 0,
        ..LEAST
    };
    assert_eq!(explore(world), 1_280);
}

#[test]
fn four_acceptors_agree_when_two_values_cross() {
    let world = World {
        acceptors: 4,
        stands: 0,
        ..LEAST
    };
    assert_eq!(explore(world), 1_488);
}

/// The states of three acceptors with repeated messages or a crash, all of them, and of four with a rival, as many as a few minutes allow.
#[cfg(feature = "long")]
#[test]
fn larger_worlds_agree() {
    const STATES: usize = 1_000_000;
    let twice = World {
        deliveries: 2,
        ..LEAST
    };
    assert_eq!(explore(twice), 118_692);
    let crash = World {
        crashes: 1,
        ..LEAST
    };
    assert_eq!(explore(crash), 180_208);
    let four = World {
        acceptors: 4,
        ..LEAST
    };
    let checker = four.checker().threads(2).target_state_count(STATES);
    let checker = checker.spawn_bfs().join();
    assert!(checker.discovery("one batch a slot").is_none());
    assert!(checker.state_count() >= STATES);
}
