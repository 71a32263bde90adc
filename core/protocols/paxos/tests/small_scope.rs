//! Every reachable state of a small world, visited on the real `MultiPaxos`: three acceptors of which
//! two propose, lost and repeated messages, one crash with recovery from what was written; and, with a
//! replica without a vote, what a superseded leader learns late and announces.
//!
//! Abstracted away: time stands still (no timer fires, leases and pre-vote are off; a node stands for
//! election by an action of its own), heartbeats are not delivered, and a write becomes durable at once
//! unless the node crashes right after the event that made it. A message that is never delivered is a
//! lost one; refusals and forwards are always lost, and announcements where none are allowed. Everything else is the code that
//! ships. The worlds are as large as a minute allows; the feature `long` visits more.

use quorate_ordering::{Config, Decision, Effect, Event, LinkState, Mark, Ordering, Record, Role};
use quorate_paxos::message::{Learn, TakeOver};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Batch, Duration, LinkEpoch, NodeId, OrderingName, Persistence, Quorums, Slot, Time, View, Wall,
};
use stateright::{Checker, Model, Property};
use std::cell::RefCell;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const NOW: Time = Time(0);

/// What may happen at most.
#[derive(Clone)]
struct World {
    /// Slots that may be proposed.
    slots: u64,
    /// Ballots of each proposer.
    ballots: [u8; 2],
    /// Deliveries of each message.
    deliveries: u8,
    crashes: u8,
    /// How many vote, how many of them elect, and how many decide.
    quorums: (u16, usize, usize),
    /// Replicas without a vote.
    observers: u16,
    /// How often leaders announce what is decided. Where they do, each proposer's question for decided
    /// slots, sent before anything else happened, may still arrive at the third acceptor.
    announcements: u8,
    /// How often a node installs a snapshot of everything that is decided anywhere.
    installs: u8,
    ordering: OrderingName,
    /// Votes that are told to all arrive at all. Otherwise at the leader and at the third acceptor.
    all_count: bool,
}

impl World {
    /// One slot, two proposers with a ballot each, every message delivered once at most.
    fn least() -> World {
        World {
            slots: 1,
            ballots: [1, 1],
            deliveries: 1,
            crashes: 0,
            quorums: (3, 2, 2),
            observers: 0,
            announcements: 0,
            installs: 0,
            ordering: OrderingName::Paxos,
            all_count: false,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (1..=self.quorums.0 + self.observers).map(NodeId)
    }

    fn config(&self, own: NodeId, boot: u64) -> Config {
        let (acceptors, phase1, phase2) = self.quorums;
        let view = View {
            quorums: Quorums::flexible(acceptors.into(), phase1, phase2).unwrap(),
            window: self.slots,
            level: self.ordering.level(),
            ordering: self.ordering,
            ..view(acceptors + self.observers, acceptors, Persistence::Disk)
        };
        let mut config = Config::new(VIEW.group, own, boot, view, 1);
        config.timing.lease = Duration::ZERO;
        config.timing.retry_min = Duration::ZERO;
        config.timing.retry_max = Duration::ZERO;
        config.timing.election_max = config.timing.election_min;
        config.limits.batch_commands = 1;
        config.limits.step_first_slots = 0;
        if self.announcements > 0 {
            config.timing.announce = Duration::ZERO;
        }
        config
    }
}

#[derive(Clone, Debug)]
struct Node {
    paxos: Arc<MultiPaxos>,
    disk: Arc<Vec<Record>>,
    boot: u64,
    stands: u8,
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
    decided: Vec<Option<Batch>>,
    crashes: u8,
    announcements: u8,
    installs: u8,
    has_conflict: bool,
}

impl State {
    fn tell_apart<H: Hasher>(&self, state: &mut H) {
        for node in &self.nodes {
            (&node.key, node.boot, node.stands).hash(state);
        }
        for (text, _, _, _, left) in &self.network {
            (text, left).hash(state);
        }
        (self.crashes, self.announcements, self.installs).hash(state);
        self.has_conflict.hash(state);
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tell_apart(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        let ends = |state: &State| {
            let nodes: Vec<_> = state.nodes.iter().map(|node| node.key).collect();
            let network = state.network.iter().map(|entry| (entry.0.clone(), entry.4));
            let spent = (state.crashes, state.announcements, state.installs);
            (nodes, network.collect::<Vec<_>>(), spent)
        };
        ends(self) == ends(other)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Deliver { index: usize, crashes: bool },
    Stand { node: usize, crashes: bool },
    Announce { node: usize },
    Install { node: usize, slot: Slot },
}

thread_local! {
    /// The text of one state after the other, in a buffer that has grown to the longest.
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A digest of the node's whole state as text, without the numbers of its writes: they only count. It has 64 bits, as
/// the fingerprints by which the explorer tells whole states apart.
fn key(paxos: &MultiPaxos, disk: &[Record]) -> u64 {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        write!(text, "{paxos:?} {disk:?}").expect("a string takes any text");
        let mut digest = XxHash3_64::new();
        for part in text.split("Mark(") {
            let unnumbered = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
            unnumbered.hash(&mut digest);
        }
        digest.finish()
    })
}

impl World {
    fn start(&self, state: &mut State, index: usize, boot: u64) {
        let own = NodeId(index as u16 + 1);
        let disk = state
            .nodes
            .get(index)
            .map(|node| node.disk.clone())
            .unwrap_or_default();
        let config = self.config(own, boot);
        let mut paxos = MultiPaxos::new(config, (*disk).clone(), NOW).unwrap();
        let mut effects = Vec::new();
        let slot = Slot::ZERO;
        paxos.handle(NOW, Event::Executed { slot }, &mut effects);
        for peer in self.nodes().filter(|peer| *peer != own) {
            let up = LinkState::Up(LinkEpoch(1));
            paxos.handle(NOW, Event::Link { peer, state: up }, &mut effects);
        }
        if index < 2 {
            let session = u64::from(own.0);
            let commands = (1..=self.slots).map(|sequence| call(session, sequence, b""));
            let commands = commands.collect();
            paxos.handle(NOW, Event::Submit { commands }, &mut effects);
        }
        let stands = state.nodes.get(index).map_or(0, |node| node.stands);
        let node = Node {
            key: key(&paxos, &disk),
            paxos: Arc::new(paxos),
            disk,
            boot,
            stands,
        };
        if index < state.nodes.len() {
            state.nodes[index] = node;
        } else {
            state.nodes.push(node);
        }
        self.settle(state, index, effects);
    }

    /// One event at one node, with everything durable after it, or nothing and a crash.
    fn event(&self, state: &mut State, index: usize, event: Event<Message>, crashes: bool) {
        let mut paxos = (*state.nodes[index].paxos).clone();
        let mut effects = Vec::new();
        let turn = Event::TurnEnd {
            wall: Wall(1),
            entropy: 0,
        };
        paxos.handle(NOW, event, &mut effects);
        paxos.handle(NOW, turn.clone(), &mut effects);
        paxos.check();
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
            paxos.handle(NOW, Event::Persisted { mark }, &mut effects);
            paxos.handle(NOW, turn.clone(), &mut effects);
            paxos.check();
        }
        let node = &mut state.nodes[index];
        node.key = key(&paxos, &disk);
        node.paxos = Arc::new(paxos);
        node.disk = Arc::new(disk);
        self.settle(state, index, effects);
        if crashes {
            state.crashes += 1;
            let boot = state.nodes[index].boot + 1;
            self.start(state, index, boot);
        }
    }

    fn settle(&self, state: &mut State, index: usize, effects: Vec<Effect<Message>>) {
        let from = NodeId(index as u16 + 1);
        for effect in effects {
            match effect {
                Effect::Send { to, message, .. } => {
                    for peer in to.iter().filter(|peer| self.carries(from, *peer, &message)) {
                        self.post(state, from, peer, &message);
                    }
                }
                Effect::Decide { slot, decision } => {
                    let Decision::Batch(batch) = decision;
                    let place = &mut state.decided[slot.0 as usize - 1];
                    match place {
                        None => *place = Some(batch),
                        Some(known) => state.has_conflict |= *known != batch,
                    }
                }
                Effect::Conflict(_) => state.has_conflict = true,
                Effect::Persist { .. }
                | Effect::Tentative { .. }
                | Effect::Role(_)
                | Effect::Confirmed { .. }
                | Effect::Unconfirmed { .. }
                | Effect::Current { .. }
                | Effect::Repaired
                | Effect::Unordered { .. }
                | Effect::NeedSnapshot { .. }
                | Effect::Refuse { .. }
                | Effect::Discard { .. } => {}
            }
        }
    }

    /// Says whether `message` may arrive at all. Where there is an observer, the proposers are cut off
    /// from each other, which keeps those worlds small: what one of them decides, the other learns late.
    fn carries(&self, from: NodeId, to: NodeId, message: &Message) -> bool {
        let is_modelled = matches!(
            message,
            Message::Prepare(_)
                | Message::Promise(_)
                | Message::Accept(_)
                | Message::Accepted(_)
                | Message::Learn(_)
                | Message::Learned(_)
        );
        let is_announced = matches!(message, Message::Decided(_)) && self.announcements > 0;
        let is_cut = self.observers > 0 && from.0 < 3 && to.0 < 3;
        let is_unheard = match message {
            Message::Accepted(vote) => !self.all_count && to != vote.ballot.node && to != NodeId(3),
            _ => false,
        };
        (is_modelled || is_announced) && !is_cut && !is_unheard
    }

    fn post(&self, state: &mut State, from: NodeId, to: NodeId, message: &Message) {
        let text: Arc<str> = format!("{from}{to}{message:?}").into();
        match state.network.binary_search_by(|entry| entry.0.cmp(&text)) {
            Ok(_) => {}
            Err(place) => {
                let entry = (text, from, to, Arc::new(message.clone()), self.deliveries);
                state.network.insert(place, entry);
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            nodes: Vec::new(),
            network: Vec::new(),
            // Above an installed snapshot the window is open again.
            decided: vec![None; self.slots as usize + usize::from(self.installs)],
            crashes: 0,
            announcements: 0,
            installs: 0,
            has_conflict: false,
        };
        for index in 0..self.nodes().count() {
            self.start(&mut state, index, 1);
        }
        if self.announcements > 0 {
            for proposer in [NodeId(1), NodeId(2)] {
                let question = Message::Learn(Learn { from: Slot(1) });
                self.post(&mut state, proposer, NodeId(3), &question);
            }
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
                if entry.4 > 0 {
                    actions.push(Action::Deliver { index, crashes });
                }
            }
            for node in 0..2 {
                let role = state.nodes[node].paxos.status().role;
                let is_free = matches!(role, Role::Follower { .. });
                if is_free && state.nodes[node].stands < self.ballots[node] {
                    actions.push(Action::Stand { node, crashes });
                }
            }
        }
        for node in 0..2 {
            let leads = matches!(state.nodes[node].paxos.status().role, Role::Leader { .. });
            if leads && state.announcements < self.announcements {
                actions.push(Action::Announce { node });
            }
            let decided = state.decided.iter().take_while(|batch| batch.is_some());
            let slot = Slot(decided.count() as u64);
            let is_behind = state.nodes[node].paxos.status().decided < slot;
            if is_behind && state.installs < self.installs {
                actions.push(Action::Install { node, slot });
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Announce { node } => {
                let count = state.network.len();
                self.event(&mut state, node, Event::Wake, false);
                state.announcements += 1;
                (state.network.len() > count).then_some(state)
            }
            Action::Install { node, slot } => {
                state.installs += 1;
                self.event(&mut state, node, Event::Executed { slot }, false);
                Some(state)
            }
            Action::Stand { node, crashes } => {
                let ballot = state.nodes[node].paxos.status().promised;
                state.nodes[node].stands += 1;
                let event = Event::Receive {
                    from: NodeId(3),
                    link: LinkEpoch(1),
                    view: VIEW,
                    message: Message::TakeOver(TakeOver { ballot }),
                };
                self.event(&mut state, node, event, crashes);
                Some(state)
            }
            Action::Deliver { index, crashes } => {
                state.network[index].4 -= 1;
                let (_, from, to, message, _) = state.network[index].clone();
                let event = Event::Receive {
                    from,
                    link: LinkEpoch(1),
                    view: VIEW,
                    message: (*message).clone(),
                };
                let node = to.0 as usize - 1;
                let before = state.nodes[node].key;
                let count = state.network.len();
                self.event(&mut state, node, event, crashes);
                let is_idle = before == state.nodes[node].key && count == state.network.len();
                // An arrival that changes nothing is as good as one that never comes.
                (!is_idle || crashes).then_some(state)
            }
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one batch a slot", |_, state: &State| !state.has_conflict),
            Property::sometimes("something is decided", |_, state: &State| {
                state.decided.iter().all(Option::is_some)
            }),
        ]
    }
}

fn explore(world: World) -> usize {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn rivals_agree_on_a_slot_when_every_message_may_be_lost_or_come_twice() {
    let world = World {
        deliveries: 2,
        ..World::least()
    };
    assert_eq!(explore(world), 17_711);
}

#[test]
fn rivals_agree_on_a_slot_when_one_node_crashes_at_any_point() {
    let world = World {
        crashes: 1,
        ..World::least()
    };
    assert_eq!(explore(world), 44_474);
}

#[test]
fn rivals_agree_on_a_slot_over_three_ballots() {
    let world = World {
        ballots: [2, 1],
        ..World::least()
    };
    assert_eq!(explore(world), 67_704);
}

/// Two of four decide, and two such quorums need not meet: whoever leads next has asked three. Claim mp-85.
#[test]
fn rivals_agree_on_a_slot_that_two_of_four_decide() {
    let world = World {
        quorums: (4, 3, 2),
        ..World::least()
    };
    assert_eq!(explore(world), 81_144);
}

/// One node decides, and all are asked by whoever leads next. Claim mp-85.
#[test]
fn rivals_agree_on_a_slot_that_one_of_three_decides_when_a_node_crashes() {
    let world = World {
        quorums: (3, 3, 1),
        crashes: 1,
        ..World::least()
    };
    assert_eq!(explore(world), 2_560);
}

/// All nodes decide, and nobody is asked by whoever leads next. Claim mp-85.
#[test]
fn rivals_agree_on_a_slot_that_all_of_three_decide_when_a_node_crashes() {
    let world = World {
        quorums: (3, 1, 3),
        crashes: 1,
        ..World::least()
    };
    assert_eq!(explore(world), 102_483);
}

#[test]
fn a_superseded_leader_misleads_nobody_when_it_learns_late() {
    let world = World {
        ballots: [2, 1],
        observers: 1,
        announcements: 2,
        ..World::least()
    };
    assert_eq!(explore(world), 3_741);
}

#[test]
fn a_superseded_leader_misleads_nobody_when_it_installs_a_snapshot() {
    let world = World {
        ballots: [2, 1],
        observers: 1,
        announcements: 2,
        installs: 1,
        ..World::least()
    };
    assert_eq!(explore(world), 24_099);
}

/// Claim mp-57.
#[test]
fn rivals_agree_on_a_slot_that_an_acceptor_counts_for_itself() {
    let world = World {
        ordering: OrderingName::Libpaxos,
        ..World::least()
    };
    assert_eq!(explore(world), 138_032);
}

/// Claim mp-58.
#[test]
fn rivals_agree_on_a_slot_that_each_asks_its_best_majority_for() {
    let world = World {
        ordering: OrderingName::LibpaxosPlus,
        all_count: true,
        ..World::least()
    };
    assert_eq!(explore(world), 18_581);
}

/// Claim mp-57.
#[cfg(feature = "long")]
#[test]
fn rivals_agree_on_a_slot_that_everybody_counts_for_itself() {
    let world = World {
        ordering: OrderingName::Libpaxos,
        all_count: true,
        ..World::least()
    };
    assert_eq!(explore(world), 1_257_969);
}

/// Two slots with two ballots each do not end; this much of them is visited, nearest states first.
#[cfg(feature = "long")]
#[test]
fn rivals_agree_on_two_slots_over_four_ballots_with_a_crash() {
    const STATES: usize = 2_000_000;
    let world = World {
        slots: 2,
        ballots: [2, 2],
        deliveries: 2,
        crashes: 1,
        ..World::least()
    };
    let checker = world
        .checker()
        .threads(2)
        .target_state_count(STATES)
        .spawn_bfs()
        .join();
    assert!(checker.discovery("one batch a slot").is_none());
    assert!(checker.state_count() >= STATES);
}
