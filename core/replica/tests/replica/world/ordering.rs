//! An ordering that decides every submission at once in a log that all nodes share.

use super::Message;
use quorate_ordering::{
    Decision, Effect, Effects, Event, LinkState, MulticastStatus, Ordering, OrderingStatus,
    PeerStatus, ReadId, Record, Role, Standing, ViewPast,
};
use quorate_types::{
    Ballot, Batch, BroadcastId, Command, GroupId, NodeId, NodeSet, Slot, Stamp, Time, View, ViewId,
    ViewNumber, Wall,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The log, and what a test wants the orderings to do.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) log: Vec<Batch>,
    /// Slots up to this one are decided only at nodes that have them.
    pub(crate) trimmed: Slot,
    /// Nodes that learn nothing.
    pub(crate) deaf: BTreeSet<usize>,
    /// Submissions are kept here and not ordered.
    pub(crate) holds_submissions: bool,
    pub(crate) submitted: Vec<(usize, Command)>,
    /// Confirmations are kept here and not given.
    pub(crate) holds_reads: bool,
    pub(crate) asked: Vec<(usize, ReadId, bool)>,
    /// How long a lease holds from when it is asked for.
    pub(crate) lease_ends: Option<Time>,
    /// Announced reads, at their leader or elsewhere.
    pub(crate) announced: Vec<(usize, BroadcastId)>,
    pub(crate) trimmable: Vec<(usize, Slot)>,
    pub(crate) transferred: Vec<(usize, NodeSet)>,
    /// To whom every node is linked.
    pub(crate) linked: Vec<u16>,
    /// By how many slots some of these lag.
    pub(crate) lags: BTreeMap<u16, u64>,
    /// What instances of the ordering were told by others: at which node, in which view.
    pub(crate) received: Vec<(usize, ViewNumber, Message)>,
    /// The links that stand, as instances were told: at which node, in which view.
    pub(crate) linked_up: Vec<(usize, ViewNumber, NodeId)>,
    /// Where views end, as instances were told: at which node, in which view.
    pub(crate) closed: Vec<(usize, ViewNumber, Slot)>,
    /// Which instances were told that others are past them: at which node, in which view.
    pub(crate) passed: Vec<(usize, ViewNumber)>,
    /// Which nodes were told whether clients have sessions.
    pub(crate) attended: Vec<(usize, bool)>,
    /// As what instances of later views were made: at which node, in which view.
    pub(crate) standings: BTreeMap<(usize, ViewNumber), Standing>,
    /// And with what of their views in the node's log.
    pub(crate) pasts: BTreeMap<(usize, ViewNumber), ViewPast>,
    emitted: BTreeMap<usize, Vec<Effect<Message>>>,
    cursors: BTreeMap<usize, Slot>,
    ballot: Ballot,
}

impl Shared {
    pub(crate) fn append(&mut self, stamp: Stamp, commands: Vec<Command>) -> Slot {
        self.log.push(Batch::new(stamp, commands));
        Slot(self.log.len() as u64)
    }

    pub(crate) fn emit(&mut self, at: usize, effect: Effect<Message>) {
        self.emitted.entry(at).or_default().push(effect);
    }

    pub(crate) fn next_ballot(&mut self, at: usize) -> Ballot {
        self.ballot = self.ballot.next(ViewNumber(1), NodeId(at as u16), 1);
        self.ballot
    }

    pub(crate) fn last(&self) -> Slot {
        Slot(self.log.len() as u64)
    }

    /// Says whether node `at` has something to learn.
    pub(crate) fn has_news(&self, at: usize) -> bool {
        let cursor = self.cursors.get(&at).copied().unwrap_or_default();
        !self.deaf.contains(&at) && cursor < self.last() && cursor >= self.trimmed
    }
}

/// One node's ordering.
pub(crate) struct Instant {
    own: usize,
    view: ViewId,
    role: Role,
    shared: Rc<RefCell<Shared>>,
    waiting: Vec<Command>,
    is_asking: bool,
    /// The replica has applied all slots of its view: the next one's instance decides.
    is_over: bool,
}

impl Instant {
    pub(crate) fn new(own: NodeId, shared: Rc<RefCell<Shared>>) -> Instant {
        let own = usize::from(own.0);
        shared.borrow_mut().cursors.insert(own, Slot::ZERO);
        Instant {
            own,
            view: ViewId {
                group: GroupId::default(),
                number: ViewNumber(1),
            },
            role: Role::Follower { leader: None },
            shared,
            waiting: Vec::new(),
            is_asking: false,
            is_over: false,
        }
    }

    fn learn(&mut self, effects: &mut Effects<Message>) {
        let mut shared = self.shared.borrow_mut();
        if self.is_over || shared.deaf.contains(&self.own) {
            return;
        }
        let mut cursor = shared.cursors[&self.own];
        if cursor < shared.trimmed {
            if !std::mem::replace(&mut self.is_asking, true) {
                let upto = shared.trimmed;
                effects.push(Effect::NeedSnapshot { upto });
            }
            return;
        }
        while cursor < shared.last() {
            let batch = shared.log[cursor.0 as usize].clone();
            cursor = cursor.next();
            effects.push(Effect::Decide {
                slot: cursor,
                decision: Decision::Batch(batch),
            });
        }
        shared.cursors.insert(self.own, cursor);
    }

    fn read(&mut self, id: ReadId, lease: bool, effects: &mut Effects<Message>) {
        let mut shared = self.shared.borrow_mut();
        if shared.holds_reads {
            shared.asked.push((self.own, id, lease));
        } else {
            effects.push(Effect::Confirmed {
                read: id,
                barrier: shared.last(),
                until: shared.lease_ends.filter(|_| lease),
            });
        }
    }

    fn end_turn(&mut self, wall: Wall, entropy: u64) {
        let mut shared = self.shared.borrow_mut();
        if wall == Wall::UNKNOWN && !shared.holds_submissions {
            return;
        }
        let commands = std::mem::take(&mut self.waiting);
        if shared.holds_submissions {
            let own = self.own;
            shared
                .submitted
                .extend(commands.into_iter().map(|command| (own, command)));
        } else if !commands.is_empty() {
            shared.append(Stamp { wall, entropy }, commands);
        }
    }
}

impl Ordering for Instant {
    type Message = Message;

    fn view(&self) -> ViewId {
        self.view
    }

    fn statement(&self) -> Vec<Record> {
        Vec::new()
    }

    fn of_view(&self, _now: Time, view: View, standing: Standing, past: ViewPast) -> Instant {
        let group = self.view.group;
        let of_node = (self.own, view.number);
        self.shared.borrow_mut().standings.insert(of_node, standing);
        self.shared.borrow_mut().pasts.insert(of_node, past);
        Instant {
            own: self.own,
            view: ViewId {
                group,
                number: view.number,
            },
            role: Role::Follower { leader: None },
            shared: Rc::clone(&self.shared),
            waiting: Vec::new(),
            is_asking: false,
            is_over: false,
        }
    }

    fn gone(message: &Message, upto: Slot) -> Option<Message> {
        // Questions have large numbers.
        (*message > 50).then_some(upto.0 as Message)
    }

    fn handle(&mut self, _now: Time, event: Event<Message>, effects: &mut Effects<Message>) {
        match event {
            Event::Submit { commands } => self.waiting.extend(commands),
            Event::Read { id, lease } => self.read(id, lease, effects),
            Event::ReadAnnounced { id, read } => {
                self.shared.borrow_mut().announced.push((self.own, read));
                self.read(id, false, effects);
            }
            Event::Announced { read } => {
                self.shared.borrow_mut().announced.push((self.own, read));
            }
            Event::TurnEnd { wall, entropy } => self.end_turn(wall, entropy),
            Event::Executed { slot } => {
                let mut shared = self.shared.borrow_mut();
                if slot > shared.cursors[&self.own] {
                    shared.cursors.insert(self.own, slot);
                    self.is_asking = false;
                }
            }
            Event::Trimmable { slot, .. } => {
                self.shared.borrow_mut().trimmable.push((self.own, slot));
            }
            Event::TransferLeadership { to } => {
                self.shared.borrow_mut().transferred.push((self.own, to));
            }
            Event::Resubmit { commands } => self.waiting.extend(commands),
            Event::Over => {
                self.is_over = true;
                let commands = std::mem::take(&mut self.waiting);
                effects.push(Effect::Unordered { commands });
            }
            Event::Receive { message, .. } => {
                let received = (self.own, self.view.number, message);
                self.shared.borrow_mut().received.push(received);
            }
            Event::Close { last } => {
                let closed = (self.own, self.view.number, last);
                self.shared.borrow_mut().closed.push(closed);
            }
            Event::Link {
                peer,
                state: LinkState::Up(_),
            } => {
                let linked = (self.own, self.view.number, peer);
                self.shared.borrow_mut().linked_up.push(linked);
            }
            Event::Passed => {
                let passed = (self.own, self.view.number);
                self.shared.borrow_mut().passed.push(passed);
            }
            Event::Attended(is_attended) => {
                let attended = (self.own, is_attended);
                self.shared.borrow_mut().attended.push(attended);
            }
            Event::Persisted { .. } | Event::Link { .. } | Event::Wake => {}
        }
        if self.is_over {
            return;
        }
        let emitted = self.shared.borrow_mut().emitted.remove(&self.own);
        for effect in emitted.into_iter().flatten() {
            if let Effect::Role(role) = &effect {
                self.role = *role;
            }
            effects.push(effect);
        }
        self.learn(effects);
    }

    fn next_wake(&self) -> Option<Time> {
        Some(Time::default())
    }

    fn status(&self) -> OrderingStatus {
        let shared = self.shared.borrow();
        OrderingStatus {
            role: self.role,
            votes: true,
            promised: Ballot::ZERO,
            decided: shared.cursors[&self.own],
            known: shared.last(),
            voted: shared.last(),
            trimmed: shared.trimmed,
            window_left: 0,
            waiting: self.waiting.len(),
            held_bytes: 0,
            elections: 0,
            foreign: 0,
            spared: 0,
            suspicions: 0,
            deferred: 0,
            multicast: MulticastStatus::default(),
            rounds: None,
            peers: shared
                .linked
                .iter()
                .map(|node| linked(*node, &shared.lags))
                .collect(),
        }
    }

    fn check(&self) {}
}

fn linked(node: u16, lags: &BTreeMap<u16, u64>) -> PeerStatus {
    PeerStatus {
        node: NodeId(node),
        connected: true,
        lag: lags.get(&node).copied().unwrap_or_default(),
        in_flight: 0,
        in_flight_bytes: 0,
    }
}
