//! A small world, its states and what may happen in each.

use crate::node::{Given, Node, Posted, Start, Step};
use crate::truth::Truth;
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::TakeOver;
use quorate_ordering::Role;
use quorate_types::{
    Duration, FromClient, GroupLimits, Incarnation, Level, Member, NodeId, NodeSet, Persistence,
    Quorums, SecretHash, Slot, View, ViewChange, ViewNumber,
};
use stateright::{Model, Property};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, RwLock};

/// Nodes of the largest world.
const NODES_MAX: usize = 4;

/// What may happen at most.
#[derive(Clone)]
pub(crate) struct World {
    /// Who votes in the first view.
    pub(crate) acceptors: NodeSet,
    /// ω of the first view.
    pub(crate) window: u64,
    /// Who is asked to change the view, and who is to vote then. Where a change names who leads, it is asked of a node that leads.
    pub(crate) changes: Vec<(NodeId, NodeSet)>,
    /// Who is asked for something else before that.
    pub(crate) invites: NodeSet,
    /// The group's level. From [`Level::FIRST_BALLOT`] on a change names who leads first.
    pub(crate) level: Level,
    /// How often each node stands in each view.
    pub(crate) stands: [[u8; NODES_MAX]; 2],
    /// Deliveries of each message.
    pub(crate) deliveries: u8,
    /// The last slot that others hear of.
    pub(crate) slots: u64,
    pub(crate) crashes: u8,
    #[cfg(feature = "zoo")]
    pub(crate) plant: Option<quorate_types::zoo::Plant>,
    /// What came of each message at each state of a node. Most states of the world differ from a neighbour in one node only.
    pub(crate) steps: Arc<RwLock<HashMap<StepKey, KnownStep>>>,
}

/// The state of a node, what it is given, and whether it crashes at that.
pub(crate) type StepKey = (u64, u64, bool);

/// `None`: the node panics.
pub(crate) type KnownStep = Option<Arc<Step>>;

#[derive(Clone, Debug)]
pub(crate) struct State {
    nodes: Vec<Arc<Node>>,
    /// How often each node has stood in each view.
    stood: [[u8; NODES_MAX]; 2],
    /// Which nodes were asked for a change while they led, and which have looked at their clocks in the second view: who is to stand at
    /// once does then.
    asked: NodeSet,
    woken: NodeSet,
    /// Messages sent, sorted by their keys, and how often each may still arrive.
    network: Vec<(Arc<Posted>, u8)>,
    crashes: u8,
    pub(crate) breach: Option<Breach>,
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// Two batches are decided in one slot.
    TwoBatches,
    /// A node takes a batch for decided for which no quorum of the slot's view has voted.
    NoQuorum,
    /// Somebody proposes or votes in a slot of the other view, or votes without being an acceptor.
    OtherView,
    /// A node takes part in the second view before it has applied all slots of the first one.
    TooEarly,
    /// A node panics.
    Panic,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Deliver { index: usize, crashes: bool },
    Stand { node: usize, crashes: bool },
    Ask { node: usize, crashes: bool },
    Wake { node: usize, crashes: bool },
}

impl State {
    /// What tells it from other states.
    fn key(&self) -> impl Hash + PartialEq {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.key).collect();
        let network = self
            .network
            .iter()
            .map(|(posted, left)| (posted.key, *left));
        let network: Vec<_> = network.collect();
        (
            nodes,
            (self.stood, self.asked, self.woken),
            network,
            self.crashes,
            self.breach,
        )
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.key() == other.key()
    }
}

impl World {
    /// Every message delivered once at most, nobody crashes, nobody stands; `first` vote in the first view, and node 1 is asked to
    /// have `second` vote.
    pub(crate) fn of(first: &[u16], second: &[u16]) -> World {
        World {
            acceptors: nodes(first),
            window: 1,
            changes: vec![(NodeId(1), nodes(second))],
            invites: NodeSet::empty(),
            level: Level::UNNAMED,
            stands: [[0; NODES_MAX]; 2],
            deliveries: 1,
            slots: 2,
            crashes: 0,
            #[cfg(feature = "zoo")]
            plant: None,
            steps: Arc::default(),
        }
    }

    /// Everybody who votes in some view: these are the group's members all the time.
    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let changed = self.changes.iter().map(|(_, acceptors)| *acceptors);
        let all = changed.chain([self.acceptors]);
        let all: NodeSet = all.flat_map(|acceptors| acceptors.iter()).collect();
        (1..=all.len() as u16).map(NodeId)
    }

    fn truth<'a>(&self, nodes: &'a [Arc<Node>]) -> Truth<'a> {
        Truth::of(nodes, self.acceptors, self.window)
    }

    fn first_view(&self) -> View {
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
            members: self.nodes().map(member).collect(),
            replicas: self.nodes().collect(),
            acceptors: self.acceptors,
            quorums: Quorums::majority(self.acceptors.len()).unwrap(),
            window: self.window,
            rejoined: BTreeMap::new(),
            level: self.level,
            ordering: quorate_types::OrderingName::Paxos,
            persistence: Persistence::Disk,
            objects: Vec::new(),
        }
    }

    fn requests(&self, own: NodeId) -> Vec<FromClient> {
        let mut requests = Vec::new();
        if self.invites.contains(own) {
            requests.push(FromClient::Invite {
                request: 1,
                invitation: SecretHash::default(),
                lasts: Duration::from_millis(1),
            });
        }
        for (_, acceptors) in self.changes.iter().filter(|(node, _)| *node == own) {
            let change = ViewChange {
                after: ViewNumber(1),
                acceptors: *acceptors,
                window: 1,
            };
            requests.push(FromClient::ChangeView {
                request: 2,
                change,
                leaves: None,
            });
        }
        requests
    }

    /// Says whether `message` may arrive at all.
    fn carries(&self, message: &AnyMessage) -> bool {
        let AnyMessage::Paxos(message) = message else {
            return false;
        };
        match message {
            Message::Accept(accept) => accept.slot.0 <= self.slots,
            Message::Accepted(accepted) => accepted.last.0 <= self.slots,
            Message::Prepare(_)
            | Message::Promise(_)
            | Message::Decided(_)
            | Message::Learn(_)
            | Message::Learned(_) => true,
            _ => false,
        }
    }

    /// Plants this world's bug in this thread.
    fn plant(&self) {
        #[cfg(feature = "zoo")]
        quorate_types::zoo::plant(self.plant);
    }

    fn step(&self, node: &Node, given: &Given, crashes: bool) -> KnownStep {
        let key = (node.key, given.key(), crashes);
        let known = self.steps.read().unwrap().get(&key).cloned();
        known.unwrap_or_else(|| {
            self.plant();
            let step = catch_unwind(AssertUnwindSafe(|| node.step(given, crashes)));
            let step = step.ok().map(Arc::new);
            self.steps.write().unwrap().insert(key, step.clone());
            step
        })
    }

    /// A node is given something. Returns whether anything comes of it.
    fn gives(&self, state: &mut State, index: usize, given: &Given, crashes: bool) -> bool {
        let before = state.nodes[index].clone();
        let Some(step) = self.step(&before, given, crashes) else {
            state.breach = Some(Breach::Panic);
            return true;
        };
        let count = state.network.len();
        state.nodes[index] = step.node.clone();
        self.post(state, &step);
        state.crashes += u8::from(crashes);
        state.breach = self.breach(state, &before, &step);
        let is_idle = before.key == step.node.key && count == state.network.len();
        // An arrival that changes nothing is as good as one that never comes.
        !is_idle || crashes || state.breach.is_some()
    }

    fn post(&self, state: &mut State, step: &Step) {
        for posted in step.sent.iter().filter(|sent| self.carries(&sent.message)) {
            let place = (state.network).binary_search_by_key(&posted.key, |entry| entry.0.key);
            if let Err(place) = place {
                let entry = (posted.clone(), self.deliveries);
                state.network.insert(place, entry);
            }
        }
    }

    /// A node has just turned from `before` to what `step` tells.
    fn breach(&self, state: &State, before: &Node, step: &Step) -> Option<Breach> {
        let truth = self.truth(&state.nodes);
        let mut decided = step.decided.iter();
        let mut sent = step.sent.iter();
        if truth.has_two || step.has_conflict {
            Some(Breach::TwoBatches)
        } else if !decided.all(|(slot, batch)| truth.is_decided(*slot, batch)) {
            Some(Breach::NoQuorum)
        } else if !truth.allows_votes(&state.nodes) || !sent.all(|sent| truth.allows(sent)) {
            Some(Breach::OtherView)
        } else if !truth.has_waited(before, &step.node) {
            Some(Breach::TooEarly)
        } else {
            None
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            nodes: Vec::new(),
            stood: [[0; NODES_MAX]; 2],
            asked: NodeSet::empty(),
            woken: NodeSet::empty(),
            network: Vec::new(),
            crashes: 0,
            breach: None,
        };
        self.plant();
        for own in self.nodes() {
            let step = Node::start(Start {
                own,
                view: self.first_view(),
                requests: self.requests(own),
                boot: 1,
                disk: Arc::default(),
                begun: ViewNumber(1),
            });
            state.nodes.push(step.node.clone());
            self.post(&mut state, &step);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some() {
            return;
        }
        let fates: &[bool] = if state.crashes < self.crashes {
            &[false, true]
        } else {
            &[false]
        };
        for &crashes in fates {
            for (index, (_, left)) in state.network.iter().enumerate() {
                if *left > 0 {
                    actions.push(Action::Deliver { index, crashes });
                }
            }
            for (node, its) in state.nodes.iter().enumerate() {
                let view = its.view.number.0 as usize - 1;
                let is_free = matches!(its.role, Role::Follower { .. });
                if is_free && view < 2 && state.stood[view][node] < self.stands[view][node] {
                    actions.push(Action::Stand { node, crashes });
                }
                if self.level < Level::FIRST_BALLOT {
                    continue;
                }
                let own = its.start.own;
                let leads = matches!(its.role, Role::Leader { .. });
                let is_asked = its.start.requests.is_empty() || state.asked.contains(own);
                if leads && view == 0 && !is_asked {
                    actions.push(Action::Ask { node, crashes });
                }
                if is_free && view == 1 && !state.woken.contains(own) {
                    actions.push(Action::Wake { node, crashes });
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let (node, given, crashes) = match action {
            Action::Deliver { index, crashes } => {
                state.network[index].1 -= 1;
                let posted = last.network[index].0.clone();
                let node = usize::from(posted.to.0) - 1;
                (node, Given::Message(posted), crashes)
            }
            Action::Stand { node, crashes } => {
                let its = &last.nodes[node];
                state.stood[its.view.number.0 as usize - 1][node] += 1;
                let ballot = its.promised;
                let message = AnyMessage::Paxos(Message::TakeOver(TakeOver { ballot }));
                let own = its.start.own;
                let mut others = self.nodes().filter(|other| *other != own);
                let other = others.next().expect("nobody is alone");
                let posted = Posted::new(other, own, its.view, &message);
                (node, Given::Message(Arc::new(posted)), crashes)
            }
            Action::Ask { node, crashes } => {
                state.asked.insert(last.nodes[node].start.own);
                (node, Given::Requests, crashes)
            }
            Action::Wake { node, crashes } => {
                state.woken.insert(last.nodes[node].start.own);
                (node, Given::Wake, crashes)
            }
        };
        let is_news = self.gives(&mut state, node, &given, crashes);
        is_news.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one batch a slot", |_, state: &State| {
                state.breach != Some(Breach::TwoBatches)
            }),
            Property::always("a quorum of the slot's view decides", |_, state: &State| {
                state.breach != Some(Breach::NoQuorum)
            }),
            Property::always(
                "a view's acceptors propose and vote in its slots only",
                |_, state: &State| state.breach != Some(Breach::OtherView),
            ),
            Property::always(
                "who takes part in a view has applied all before it",
                |_, state: &State| state.breach != Some(Breach::TooEarly),
            ),
            Property::always("nobody panics", |_, state: &State| {
                state.breach != Some(Breach::Panic)
            }),
            Property::sometimes(
                "somebody leads the second view without promises, where a change names it",
                |world: &World, state: &State| {
                    let mut roles = state.nodes.iter().map(|node| node.role);
                    let leads = |role| matches!(role, Role::Leader { ballot } if ballot.round == 0);
                    world.level < Level::FIRST_BALLOT || roles.any(leads)
                },
            ),
            Property::sometimes("both views decide", |world: &World, state: &State| {
                world.truth(&state.nodes).has_second()
            }),
            Property::sometimes(
                "the second view decides while a node is in the first",
                |world: &World, state: &State| {
                    let mut views = state.nodes.iter().map(|node| node.view.number);
                    views.any(|view| view == ViewNumber(1))
                        && world.truth(&state.nodes).has_second()
                },
            ),
        ]
    }
}

/// These nodes.
pub(crate) fn nodes(of: &[u16]) -> NodeSet {
    of.iter().copied().map(NodeId).collect()
}

/// What happened on a path, one line each, and what the disks show in the end.
pub(crate) fn told(path: &[(State, Option<Action>)]) -> String {
    let mut text = String::new();
    for (state, action) in path {
        let line = match action {
            Some(Action::Deliver { index, crashes }) => {
                let (posted, _) = &state.network[*index];
                let Posted {
                    from,
                    to,
                    view,
                    message,
                    ..
                } = &**posted;
                let fate = if *crashes { ", which crashes" } else { "" };
                writeln!(text, "{from} -> {to}{fate}: {view} {message:?}")
            }
            Some(Action::Stand { node, crashes }) => {
                let node = &state.nodes[*node];
                let fate = if *crashes { " and crashes" } else { "" };
                writeln!(text, "{} stands in {}{fate}", node.start.own, node.view)
            }
            Some(Action::Ask { node, crashes }) => {
                let node = &state.nodes[*node];
                let fate = if *crashes { " and crashes" } else { "" };
                writeln!(text, "{} is asked for its change{fate}", node.start.own)
            }
            Some(Action::Wake { node, crashes }) => {
                let node = &state.nodes[*node];
                let fate = if *crashes { " and crashes" } else { "" };
                writeln!(text, "{} looks at its clock{fate}", node.start.own)
            }
            None => {
                let disks = state.nodes.iter().map(|node| (node.start.own, &node.disk));
                let disks: Vec<_> = disks.collect();
                writeln!(text, "{:?}, disks {disks:#?}", state.breach)
            }
        };
        line.expect("a string takes any text");
    }
    text
}
