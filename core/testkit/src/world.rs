//! A random world for an ordering protocol: a few nodes, their disks and links, one virtual clock, and what may befall them.

use crate::views::{VIEW, call};
use crate::world_disk::WorldDisk;
use quorate_ordering::{
    Config, Decision, Effect, Event, LinkState, Ordering, ReadId, Record, Role, Standing,
};
use quorate_types::{
    Batch, BroadcastId, CommandId, Digest, Duration, Level, LinkEpoch, NodeId, Persistence,
    SecretHash, Slot, Time, View, Wall,
};
use std::collections::{BTreeMap, BTreeSet};

/// A protocol whose nodes inhabit random worlds.
pub trait WorldProtocol {
    /// The state machine under test.
    type Instance: Ordering;

    /// A node starts, with what its log holds.
    fn start(config: Config, records: Vec<Record>, now: Time) -> Self::Instance;
}

type MessageIn<P> = <<P as WorldProtocol>::Instance as Ordering>::Message;

pub(crate) struct WorldDice(u64);

impl WorldDice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One node of the world.
pub struct Inhabitant<P: WorldProtocol> {
    /// What orders there, while it is up.
    pub instance: Option<P::Instance>,
    boot: u64,
    standing: Standing,
    disk: WorldDisk,
    sync_at: Option<Time>,
    snapshot: Slot,
    /// The highest slot executed in this life.
    pub executed: Slot,
    /// Its role, as it told.
    pub role: Role,
    /// Submissions without an answer.
    pub open: BTreeSet<CommandId>,
    wake_at: Option<Time>,
}

enum Arrival<M> {
    Message(NodeId, NodeId, M),
    Fetch(NodeId, Slot),
    /// A read reaches the replica that is to answer it.
    Read(NodeId, ReadId),
    /// A node hears of a read that another one is to answer.
    Announced(NodeId, ReadId),
}

fn name_of(read: ReadId) -> BroadcastId {
    let client = SecretHash::default();
    BroadcastId {
        client,
        number: read.0,
    }
}

/// The nodes of one seed. It checks agreement, one resolution of each submission, and barriers of reads.
pub struct World<P: WorldProtocol> {
    pub(crate) dice: WorldDice,
    now: Time,
    /// The view that all order.
    pub view: View,
    /// Whose disk loses a record now and then where it stops.
    damaged: Option<NodeId>,
    /// All nodes, up or down.
    pub nodes: BTreeMap<NodeId, Inhabitant<P>>,
    network: BTreeMap<(Time, u64), Arrival<MessageIn<P>>>,
    count: u64,
    loss: u64,
    repeat: u64,
    delay: u64,
    cut: BTreeSet<(NodeId, NodeId)>,
    epoch: u64,
    epochs: BTreeMap<(NodeId, NodeId), LinkEpoch>,
    chosen: BTreeMap<Slot, Batch>,
    /// Commands decided.
    pub decided: BTreeSet<CommandId>,
    /// How often a command was decided in a further slot.
    pub copies: u64,
    submitted: u64,
    /// Reads without an answer, and what each must reflect.
    pub read_floor: BTreeMap<(NodeId, ReadId), Slot>,
    reads: u64,
    /// Reads confirmed.
    pub confirmed: u64,
    /// Submissions refused.
    pub refused: u64,
    /// The highest slot decided.
    pub highest: Slot,
    /// When each higher slot was first decided.
    heights: Vec<(Time, Slot)>,
}

impl<P: WorldProtocol> World<P> {
    /// A world at rest.
    ///
    /// # Panics
    /// Like every method of it, when the protocol broke a promise.
    #[must_use]
    pub fn new(seed: u64, view: View, damaged: Option<NodeId>) -> World<P> {
        let mut world = World {
            dice: WorldDice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Time(1_000_000_000),
            nodes: BTreeMap::new(),
            network: BTreeMap::new(),
            count: 0,
            loss: 0,
            repeat: 0,
            delay: 2_000_000,
            cut: BTreeSet::new(),
            epoch: 0,
            epochs: BTreeMap::new(),
            chosen: BTreeMap::new(),
            decided: BTreeSet::new(),
            copies: 0,
            submitted: 0,
            read_floor: BTreeMap::new(),
            reads: 0,
            confirmed: 0,
            refused: 0,
            highest: Slot::ZERO,
            heights: Vec::new(),
            damaged,
            view,
        };
        for node in world.view.nodes().iter() {
            world.nodes.insert(
                node,
                Inhabitant {
                    instance: None,
                    boot: 0,
                    standing: Standing::Voter,
                    disk: WorldDisk::default(),
                    sync_at: None,
                    snapshot: Slot::ZERO,
                    executed: Slot::ZERO,
                    role: Role::Follower { leader: None },
                    open: BTreeSet::new(),
                    wake_at: None,
                },
            );
        }
        for node in world.view.nodes().iter() {
            world.start(node);
        }
        world
    }

    fn start(&mut self, id: NodeId) {
        let now = self.now;
        let seed = self.dice.next();
        let node = self.nodes.get_mut(&id).unwrap();
        node.boot += 1;
        let mut config = Config::new(VIEW.group, id, node.boot, self.view.clone(), seed);
        config.standing = node.standing;
        let past = node.disk.past();
        config.damage = past.damage;
        node.instance = Some(P::start(config, past.records, now));
        node.executed = node.snapshot;
        let slot = node.snapshot;
        self.event(id, Event::Executed { slot });
        for peer in self.view.nodes().without(id).iter() {
            if self.nodes[&peer].instance.is_some() {
                self.link(id, peer, true);
            }
        }
    }

    fn link(&mut self, a: NodeId, b: NodeId, up: bool) {
        self.epoch += 1;
        let state = if up {
            LinkState::Up(LinkEpoch(self.epoch))
        } else {
            LinkState::Down
        };
        for (own, peer) in [(a, b), (b, a)] {
            self.epochs.insert((own, peer), LinkEpoch(self.epoch));
            if self.nodes[&own].instance.is_some() {
                self.event(own, Event::Link { peer, state });
            }
        }
    }

    /// A node stops; of its unsynced writes some are lost.
    pub fn crash(&mut self, id: NodeId) {
        let keep = self.dice.below(3);
        let node = self.nodes.get_mut(&id).unwrap();
        if node.instance.take().is_none() {
            return;
        }
        node.disk.crash(50 * keep);
        if self.damaged == Some(id) && self.dice.chance(50) {
            let place = self.dice.below(6) as usize;
            let is_named = self.dice.chance(75);
            self.nodes.get_mut(&id).unwrap().disk.lose(place, is_named);
        }
        let node = self.nodes.get_mut(&id).unwrap();
        node.sync_at = None;
        node.wake_at = None;
        node.open.clear();
        node.role = Role::Follower { leader: None };
        if self.view.persistence == Persistence::Memory {
            node.standing = Standing::Observer;
        }
        self.read_floor.retain(|(node, _), _| *node != id);
        let flying: Vec<_> = (self.network.iter())
            .filter(|(_, arrival)| match arrival {
                Arrival::Message(_, to, _) => *to == id,
                Arrival::Fetch(to, _) | Arrival::Read(to, _) | Arrival::Announced(to, _) => {
                    *to == id
                }
            })
            .map(|(key, _)| *key)
            .collect();
        for key in flying {
            self.network.remove(&key);
        }
        for peer in self.view.nodes().without(id).iter() {
            self.link(id, peer, false);
        }
    }

    fn event(&mut self, id: NodeId, event: Event<MessageIn<P>>) {
        let mut effects = Vec::new();
        let now = self.now;
        let entropy = self.dice.next();
        let Some(instance) = self.nodes.get_mut(&id).unwrap().instance.as_mut() else {
            return;
        };
        instance.handle(now, event, &mut effects);
        instance.check();
        let wall = Wall(now.0 + id.0 as u64 * 1_000_000_000);
        instance.handle(now, Event::TurnEnd { wall, entropy }, &mut effects);
        instance.check();
        let mut executed = None;
        for effect in effects {
            self.perform(id, effect, &mut executed);
        }
        let node = self.nodes.get_mut(&id).unwrap();
        node.wake_at = node.instance.as_ref().and_then(Ordering::next_wake);
        if let Some(slot) = executed {
            self.event(id, Event::Executed { slot });
            if slot.0 % 40 == 0 {
                self.snapshot(id, slot);
            }
        }
    }

    fn snapshot(&mut self, id: NodeId, slot: Slot) {
        self.nodes.get_mut(&id).unwrap().snapshot = slot;
        let holders = self
            .nodes
            .values()
            .filter(|node| node.snapshot >= slot)
            .count();
        if holders >= self.view.replica_majority() {
            let able: Vec<NodeId> = (self.nodes.iter())
                .filter(|(_, node)| node.snapshot >= slot)
                .map(|(id, _)| *id)
                .collect();
            for id in able {
                self.event(
                    id,
                    Event::Trimmable {
                        slot,
                        digest: Digest::default(),
                    },
                );
            }
        }
    }

    fn rise(&mut self, slot: Slot) {
        if slot > self.highest {
            self.highest = slot;
            self.heights.push((self.now, slot));
        }
    }

    /// What a node is told about the age of its state is true.
    fn check_current(&self, id: NodeId, slot: Slot, at: Time) {
        let before = self.heights.partition_point(|(since, _)| *since < at);
        let newest = before.checked_sub(1).map(|index| self.heights[index].1);
        assert!(
            newest <= Some(slot),
            "{id} is told that {slot} was the newest at {at:?}, after {newest:?}"
        );
    }

    fn decide(&mut self, id: NodeId, slot: Slot, batch: Batch) {
        let node = self.nodes.get_mut(&id).unwrap();
        assert_eq!(slot, node.executed.next(), "{id}: slots come in order");
        node.executed = slot;
        let is_first = !self.chosen.contains_key(&slot);
        for command in batch.commands() {
            node.open.remove(&command.id);
            let is_known = !self.decided.insert(command.id);
            self.copies += u64::from(is_first && is_known);
        }
        let known = self.chosen.entry(slot).or_insert_with(|| batch.clone());
        assert_eq!(*known, batch, "{id} {slot}: nodes agree");
        self.rise(slot);
    }

    fn perform(&mut self, id: NodeId, effect: Effect<MessageIn<P>>, executed: &mut Option<Slot>) {
        let now = self.now;
        match effect {
            Effect::Send { to, message, .. } => {
                assert!(!to.contains(id), "nobody sends to itself");
                for peer in to.iter() {
                    self.transmit(id, peer, message.clone());
                }
            }
            Effect::Persist { mark, record } => {
                assert_eq!(self.view.persistence, Persistence::Disk);
                let delay = 200_000 + self.dice.below(2_000_000);
                let node = self.nodes.get_mut(&id).unwrap();
                node.disk.write(mark, record);
                node.sync_at.get_or_insert(now + Duration(delay));
            }
            Effect::Decide { slot, decision } => {
                let Decision::Batch(batch) = decision;
                *executed = Some(slot);
                self.decide(id, slot, batch);
            }
            Effect::Role(role) => self.nodes.get_mut(&id).unwrap().role = role,
            Effect::Confirmed { read, barrier, .. } => {
                let floor = self.read_floor.remove(&(id, read)).expect("answered once");
                assert!(barrier >= floor, "{id}: barrier {barrier} below {floor}");
                self.confirmed += 1;
            }
            Effect::Unconfirmed { read } => {
                self.read_floor.remove(&(id, read)).expect("answered once");
            }
            Effect::Current { slot, at } => self.check_current(id, slot, at),
            Effect::Repaired => self.nodes.get_mut(&id).unwrap().disk.repaired(),
            Effect::Tentative { .. } | Effect::Unordered { .. } => {}
            Effect::Conflict(conflict) => panic!("{conflict}"),
            Effect::NeedSnapshot { upto } => {
                self.count += 1;
                let key = (Time(now.0 + 5_000_000), self.count);
                self.network.insert(key, Arrival::Fetch(id, upto));
            }
            Effect::Refuse { command, .. } => {
                let node = self.nodes.get_mut(&id).unwrap();
                let is_open = node.open.remove(&command);
                assert!(is_open, "{id}: {command} is resolved once");
                self.refused += 1;
            }
            Effect::Discard { upto, base } => {
                let node = self.nodes.get_mut(&id).unwrap();
                let last = node.disk.sync();
                node.disk.discard(upto, base);
                if let Some(mark) = last {
                    node.sync_at = None;
                    self.event(id, Event::Persisted { mark });
                }
            }
        }
    }

    fn transmit(&mut self, from: NodeId, to: NodeId, message: MessageIn<P>) {
        if self.cut.contains(&(from, to)) || self.nodes[&to].instance.is_none() {
            return;
        }
        if self.dice.chance(self.loss) {
            return;
        }
        let copies = 1 + u64::from(self.dice.chance(self.repeat));
        for _ in 0..copies {
            self.count += 1;
            let delay = 50_000 + self.dice.below(self.delay);
            let key = (Time(self.now.0 + delay), self.count);
            let arrival = Arrival::Message(from, to, message.clone());
            self.network.insert(key, arrival);
        }
    }

    /// Performs the next thing that happens; says whether it lies before `until`.
    fn step(&mut self, until: Time) -> bool {
        let network = self.network.first_key_value().map(|(key, _)| key.0);
        let wake = (self.nodes.iter())
            .filter_map(|(id, node)| node.wake_at.map(|at| (at.max(self.now), 1, *id)))
            .min();
        let sync = (self.nodes.iter())
            .filter_map(|(id, node)| node.sync_at.map(|at| (at.max(self.now), 2, *id)))
            .min();
        let local = [wake, sync].into_iter().flatten().min();
        let net_first = match (network, local) {
            (Some(at), Some((local, ..))) => at <= local,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if net_first {
            let at = network.unwrap();
            if at > until {
                self.now = until;
                return false;
            }
            self.now = self.now.max(at);
            let (_, arrival) = self.network.pop_first().unwrap();
            match arrival {
                Arrival::Message(from, to, message) => {
                    let link = self.epochs.get(&(from, to)).copied();
                    let link = link.unwrap_or(LinkEpoch(0));
                    self.event(
                        to,
                        Event::Receive {
                            from,
                            link,
                            view: VIEW,
                            message,
                        },
                    );
                }
                Arrival::Fetch(id, upto) => self.fetch(id, upto),
                Arrival::Read(node, id) if self.read_floor.contains_key(&(node, id)) => {
                    let read = name_of(id);
                    self.event(node, Event::ReadAnnounced { id, read });
                }
                Arrival::Announced(id, read) if self.nodes[&id].instance.is_some() => {
                    let read = name_of(read);
                    self.event(id, Event::Announced { read });
                }
                Arrival::Read(..) | Arrival::Announced(..) => {}
            }
            return true;
        }
        let Some((at, kind, id)) = local else {
            self.now = until;
            return false;
        };
        if at > until {
            self.now = until;
            return false;
        }
        self.now = at;
        if kind == 1 {
            self.nodes.get_mut(&id).unwrap().wake_at = None;
            self.event(id, Event::Wake);
        } else {
            let node = self.nodes.get_mut(&id).unwrap();
            node.sync_at = None;
            let mark = node.disk.sync().expect("a sync is due for writes");
            self.event(id, Event::Persisted { mark });
        }
        true
    }

    fn fetch(&mut self, id: NodeId, upto: Slot) {
        let best = self.nodes.values().map(|node| node.snapshot).max().unwrap();
        let node = self.nodes.get_mut(&id).unwrap();
        if best >= upto && best > node.executed && node.instance.is_some() {
            node.executed = best;
            node.snapshot = best;
            self.event(id, Event::Executed { slot: best });
        }
    }

    /// Time passes.
    pub fn run(&mut self, millis: u64) {
        let until = Time(self.now.0 + millis * 1_000_000);
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 2_000_000, "the world does not come to rest");
        }
    }

    /// A replica submits a command.
    pub fn submit(&mut self, id: NodeId) {
        if self.nodes[&id].instance.is_none() {
            return;
        }
        self.submitted += 1;
        let command = call(1, self.submitted, b"x");
        self.nodes.get_mut(&id).unwrap().open.insert(command.id);
        let commands = vec![command];
        self.event(id, Event::Submit { commands });
    }

    /// A replica asks for the barrier of a read.
    pub fn read(&mut self, id: NodeId) {
        if self.nodes[&id].instance.is_none() {
            return;
        }
        self.reads += 1;
        let read = ReadId(self.reads);
        self.read_floor.insert((id, read), self.highest);
        if self.view.level >= Level::BROADCAST && self.dice.chance(60) {
            return self.announce(id, read);
        }
        let lease = self.dice.chance(50);
        self.event(id, Event::Read { id: read, lease });
    }

    /// A read is on its way to `id`, and word of it to the others: each comes, if it comes, in its own time.
    fn announce(&mut self, id: NodeId, read: ReadId) {
        let others = self.view.nodes().without(id);
        let others = others.iter().map(|node| Arrival::Announced(node, read));
        let all: Vec<_> = std::iter::once(Arrival::Read(id, read))
            .chain(others)
            .collect();
        for arrival in all {
            let is_read = matches!(arrival, Arrival::Read(..));
            if !is_read && self.dice.chance(self.loss) {
                continue;
            }
            let longest = match self.dice.chance(30) {
                true => 200_000_000,
                false => self.delay,
            };
            self.count += 1;
            let delay = 50_000 + self.dice.below(longest);
            let key = (Time(self.now.0 + delay), self.count);
            self.network.insert(key, arrival);
        }
    }

    /// Any node.
    pub fn some_node(&mut self) -> NodeId {
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        nodes[self.dice.below(nodes.len() as u64) as usize]
    }

    /// A fault begins or ends.
    pub fn misfortune(&mut self) {
        let id = self.some_node();
        let other = self.some_node();
        let majority = self.nodes.len() / 2 + 1;
        let up = (self.nodes.values())
            .filter(|node| node.instance.is_some() && node.standing == Standing::Voter)
            .count();
        match self.dice.below(8) {
            0 | 1 if self.view.persistence == Persistence::Disk || up > majority => self.crash(id),
            2 | 3 if self.nodes[&id].instance.is_none() => self.start(id),
            4 if id != other => {
                self.cut.insert((id, other));
                if self.dice.chance(50) {
                    self.cut.insert((other, id));
                    self.link(id, other, false);
                }
            }
            5 => self.heal_links(),
            6 => self.loss = self.dice.below(20),
            7 => self.repeat = self.dice.below(30),
            _ => {
                self.delay = 200_000 + self.dice.below(20_000_000);
                let to = self.view.nodes();
                self.event(id, Event::TransferLeadership { to });
            }
        }
    }

    fn heal_links(&mut self) {
        let cut = std::mem::take(&mut self.cut);
        for (a, b) in cut {
            if self.nodes[&a].instance.is_some() && self.nodes[&b].instance.is_some() {
                self.link(a, b, true);
            }
        }
    }

    /// All faults end, and all nodes are up.
    pub fn heal(&mut self) {
        self.heal_links();
        self.loss = 0;
        self.repeat = 0;
        self.delay = 2_000_000;
        for id in self.view.nodes().iter() {
            if self.nodes[&id].instance.is_none() {
                self.start(id);
            }
        }
    }
}
