//! The rehearsal itself: what it is made from, how time passes, and the faults that its owner orders.

use crate::callers::{Caller, CallerLink, EndedOperation};
use crate::dice::Dice;
use crate::limits::{CALLERS_MAX, NODES_MAX, STEPS_MAX};
use crate::links::RehearsedLinks;
use crate::objects::RehearsedObjects;
use crate::running::RehearsedNode;
use crate::schedule::{Occurrence, Schedule};
use crate::tracing::Trace;
use quorate_types::{
    ConnectionId, Duration, GroupId, GroupLimits, Incarnation, Level, Member, NodeId, NodeSet,
    ObjectSpec, OrderingName, Persistence, Quorums, SessionId, Slot, Time, Value, View, ViewNumber,
    Wall,
};
use std::collections::BTreeMap;

/// The only group.
pub(crate) const GROUP: GroupId = GroupId(1);

/// Slots that may run ahead of what is applied.
const WINDOW: u64 = 64;

/// What a rehearsal is made from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RehearsalConfig {
    /// Nodes, which all vote and execute.
    pub nodes: u16,
    /// Clients.
    pub callers: usize,
    /// Determines everything that the objects do not.
    pub seed: u64,
    /// Commands after which a snapshot is due.
    pub snapshot_every: u64,
    /// What the clocks show at the beginning.
    pub wall: Wall,
    /// How many of a thousand calls arrive a second time, anywhere.
    pub copies_per_mille: u64,
    /// How the group orders commands.
    pub ordering: OrderingName,
    /// The level of the group, where its ordering takes no higher one.
    pub level: Level,
}

/// How a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RehearsedState {
    /// Whether its process runs.
    pub is_running: bool,
    /// Whether it is cut off from its peers.
    pub is_cut: bool,
    /// The leader, as far as it knows.
    pub leader: Option<NodeId>,
    /// The highest slot that its object has executed.
    pub executed: Slot,
    /// The highest slot that it knows to be decided, with all before.
    pub decided: Slot,
    /// Its newest snapshot.
    pub snapshot: Slot,
    /// The slot at which its state differs from the majority's.
    pub diverged: Option<Slot>,
    /// Why it could not start, or not take or install a snapshot.
    pub failure: Option<String>,
}

/// A group with its clients.
pub struct Rehearsal {
    pub(crate) config: RehearsalConfig,
    pub(crate) view: View,
    pub(crate) nodes: BTreeMap<NodeId, RehearsedNode>,
    pub(crate) links: RehearsedLinks,
    pub(crate) callers: Vec<Caller>,
    pub(crate) connections: BTreeMap<ConnectionId, CallerLink>,
    pub(crate) sessions: BTreeMap<SessionId, usize>,
    pub(crate) schedule: Schedule,
    pub(crate) dice: Dice,
    pub(crate) now: Time,
    pub(crate) opened: u64,
    pub(crate) ended: Vec<EndedOperation>,
    pub(crate) trace: Option<Trace>,
}

impl Rehearsal {
    /// A group whose nodes all start.
    #[must_use]
    pub fn new(config: RehearsalConfig, objects: &mut dyn RehearsedObjects) -> Rehearsal {
        assert!(
            (1..=NODES_MAX).contains(&config.nodes),
            "a group has 1 to 9 nodes"
        );
        assert!(
            (1..=CALLERS_MAX).contains(&config.callers),
            "a group has 1 to 64 clients"
        );
        let mut dice = Dice::new(config.seed);
        // Not at the beginning of time, where nothing can be before.
        let now = Time(1_000_000_000);
        let view = view(&config);
        let addresses: Vec<String> = view.members.iter().map(|m| m.address.clone()).collect();
        let callers = (0..config.callers)
            .map(|number| Caller::new(addresses.clone(), number, dice.bits(), now));
        let mut rehearsal = Rehearsal {
            callers: callers.collect(),
            nodes: (1..=config.nodes)
                .map(|id| (NodeId(id), RehearsedNode::default()))
                .collect(),
            config,
            view,
            links: RehearsedLinks::default(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            schedule: Schedule::default(),
            dice,
            now,
            opened: 0,
            ended: Vec::new(),
            trace: None,
        };
        let ids: Vec<NodeId> = rehearsal.ids().collect();
        for id in ids {
            rehearsal.begin_life(id, objects);
        }
        for caller in 0..config.callers {
            rehearsal.wake_caller(caller);
        }
        rehearsal
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.config.nodes).map(NodeId)
    }

    pub(crate) fn node(&mut self, id: NodeId) -> &mut RehearsedNode {
        let node = self.nodes.get_mut(&id);
        node.expect("the owner names nodes of the view")
    }

    /// How many clients there are.
    #[must_use]
    pub fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Virtual time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration(self.now.0 - 1_000_000_000)
    }

    /// The operations that have ended since this was asked last.
    pub fn take_ended(&mut self) -> Vec<EndedOperation> {
        std::mem::take(&mut self.ended)
    }

    /// Lets time pass until an operation has ended. Says whether one has; a group can be too busy with itself.
    pub fn run_until_ended(&mut self, objects: &mut dyn RehearsedObjects) -> bool {
        let mut left = STEPS_MAX;
        while self.ended.is_empty() && left > 0 {
            self.step(objects);
            left -= 1;
        }
        !self.ended.is_empty()
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Duration, objects: &mut dyn RehearsedObjects) {
        let until = self.now + span;
        let mut left = STEPS_MAX;
        while left > 0 && self.schedule.next_at().is_some_and(|at| at <= until) {
            self.step(objects);
            left -= 1;
        }
        self.now = self.now.max(until);
    }

    /// The next thing happens.
    pub fn step(&mut self, objects: &mut dyn RehearsedObjects) {
        let Some((at, occurrence)) = self.schedule.pop() else {
            return;
        };
        self.now = self.now.max(at);
        match occurrence {
            Occurrence::Arrives {
                from,
                to,
                epoch,
                message,
            } => {
                if self.delivers(from, to, epoch) {
                    self.arrived(to, from, epoch, *message, objects);
                }
            }
            Occurrence::Durable { node, life, mark } => {
                if self.nodes[&node].life == life {
                    self.node(node).disk.sync(mark);
                    self.hand_in(node, quorate_replica::Input::Persisted { mark }, objects);
                }
            }
            Occurrence::Wakes { node, life } => self.woken(node, life, objects),
            Occurrence::Connects { one, other } => self.connects(one, other, objects),
            Occurrence::Silent { one, other, epoch } => self.silent(one, other, epoch, objects),
            Occurrence::Notices { node, peer } => self.notices(node, peer, objects),
            Occurrence::Dialled { caller, dial, node } => self.dialled(caller, dial, node),
            Occurrence::Asked {
                connection,
                message,
            } => self.asked(connection, message, objects),
            Occurrence::Answered {
                connection,
                message,
            } => self.answered(connection, message),
            Occurrence::Ends { connection } => self.ends(connection, objects),
            Occurrence::CallerWakes { caller } => self.wake_caller(caller),
            Occurrence::Copied { node, attach, call } => self.copied(node, attach, call, objects),
        }
    }

    /// Ends a node's process. Nothing happens to one that is down.
    pub fn crash(&mut self, id: NodeId) {
        if self.node(id).running.is_some() {
            self.end_life(id);
        }
    }

    /// Starts a node again that was crashed, on its disk.
    pub fn restart(&mut self, id: NodeId, objects: &mut dyn RehearsedObjects) {
        if self.node(id).running.is_none() {
            self.begin_life(id, objects);
        }
    }

    /// Cuts a node off from its peers; from clients too if it is hidden.
    pub fn cut(&mut self, id: NodeId, is_hidden: bool) {
        let node = self.node(id);
        node.is_cut = true;
        node.is_hidden |= is_hidden;
        self.watch_links(id);
    }

    /// Undoes it.
    pub fn heal(&mut self, id: NodeId, objects: &mut dyn RehearsedObjects) {
        let node = self.node(id);
        if node.is_cut || node.is_hidden {
            node.is_cut = false;
            node.is_hidden = false;
            self.mend_links(id, objects);
        }
    }

    /// Sets a node's wall clock off by so many nanoseconds.
    pub fn set_clock_off(&mut self, id: NodeId, nanoseconds: i64) {
        self.node(id).clock_off = nanoseconds;
    }

    /// How a node is; `None` if there is none of this number.
    #[must_use]
    pub fn report(&self, id: NodeId) -> Option<RehearsedState> {
        let node = self.nodes.get(&id)?;
        let status = node.running.as_ref().map(|live| live.replica.status());
        let slot = |part: Option<Slot>| part.unwrap_or(Slot::ZERO);
        Some(RehearsedState {
            is_running: status.is_some(),
            is_cut: node.is_cut,
            leader: status
                .as_ref()
                .and_then(|status| status.ordering.role.leader(id)),
            executed: slot(status.as_ref().map(|status| status.executed)),
            decided: slot(status.as_ref().map(|status| status.decided)),
            snapshot: slot(status.as_ref().map(|status| status.snapshot)),
            diverged: status.as_ref().and_then(|status| status.diverged),
            failure: node.failure.clone(),
        })
    }
}

fn view(config: &RehearsalConfig) -> View {
    let (nodes, ordering) = (config.nodes, config.ordering);
    let ids = || (1..=nodes).map(NodeId);
    let all: NodeSet = ids().collect();
    View {
        first_ballot: None,
        limits: GroupLimits::default(),
        number: ViewNumber(1),
        first_slot: Slot(1),
        members: ids()
            .map(|node| Member {
                node,
                incarnation: Incarnation(u64::from(node.0)),
                address: node.to_string(),
            })
            .collect(),
        replicas: all,
        acceptors: all,
        quorums: Quorums::majority(all.len()).expect("there is a node"),
        window: WINDOW,
        rejoined: BTreeMap::new(),
        level: ordering.level().max(config.level),
        ordering,
        persistence: Persistence::Disk,
        objects: vec![ObjectSpec {
            name: "object".to_owned(),
            class: "rehearsed:Object".to_owned(),
            arguments: Value::new(),
        }],
    }
}
