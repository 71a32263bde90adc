//! An ordering that decides every submission at once in a log that all nodes share.

use super::Message;
use quorate_ordering::{Decision, Effect, Effects, Event, Ordering, OrderingStatus, ReadId, Role};
use quorate_types::{Ballot, Batch, Command, NodeId, Slot, Stamp, Time, ViewId, ViewNumber, Wall};
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
    pub(crate) trimmable: Vec<(usize, Slot)>,
    pub(crate) transferred: Vec<usize>,
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
    role: Role,
    shared: Rc<RefCell<Shared>>,
    waiting: Vec<Command>,
    is_asking: bool,
}

impl Instant {
    pub(crate) fn new(own: NodeId, shared: Rc<RefCell<Shared>>) -> Instant {
        let own = usize::from(own.0);
        shared.borrow_mut().cursors.insert(own, Slot::ZERO);
        Instant {
            own,
            role: Role::Follower { leader: None },
            shared,
            waiting: Vec::new(),
            is_asking: false,
        }
    }

    fn learn(&mut self, effects: &mut Effects<Message>) {
        let mut shared = self.shared.borrow_mut();
        if shared.deaf.contains(&self.own) {
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
        ViewId::default()
    }

    fn handle(&mut self, _now: Time, event: Event<Message>, effects: &mut Effects<Message>) {
        match event {
            Event::Submit { commands } => self.waiting.extend(commands),
            Event::Read { id, lease } => self.read(id, lease, effects),
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
            Event::TransferLeadership => self.shared.borrow_mut().transferred.push(self.own),
            Event::Receive { .. } | Event::Persisted { .. } | Event::Link { .. } | Event::Wake => {}
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
            promised: Ballot::ZERO,
            decided: shared.cursors[&self.own],
            known: shared.cursors[&self.own],
            voted: shared.last(),
            trimmed: shared.trimmed,
            window_left: 0,
            waiting: self.waiting.len(),
            held_bytes: 0,
            elections: 0,
            foreign: 0,
            peers: Vec::new(),
        }
    }

    fn check(&self) {}
}
