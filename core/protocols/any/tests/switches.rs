//! Views that switch from one ordering to another and back, while messages are lost and links end: each submission is answered exactly
//! once, with its decision or a refusal, and what is refused as certainly without effect has none.

use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{
    Config, Decision, Effect, Event, LinkState, Ordering, Role, Standing, ViewPast,
};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Batch, Command, CommandId, Duration, Level, LinkEpoch, NodeId, OrderingName, Persistence,
    Refusal, Slot, Time, View, ViewId, ViewNumber, Wall,
};
use std::collections::{BTreeMap, BTreeSet};

const NODES: u16 = 3;

/// ω: a view ends so many slots after the slot that switches.
const WINDOW: u64 = 8;

/// The session of commands that switch to the next view; their sequence is the number of the view that they end.
const SWITCHES: u64 = 99;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % bound
    }
}

/// A node: its instances by view, the newest of which orders, and what its replica knows.
struct Node {
    instances: BTreeMap<ViewNumber, AnyOrdering>,
    executed: Slot,
    /// Where the newest view ends, once that is decided.
    last: Option<Slot>,
    /// Submissions without an answer.
    open: BTreeSet<CommandId>,
    /// Messages of views that have not begun here.
    early: Vec<(NodeId, LinkEpoch, ViewId, AnyMessage)>,
}

/// What is on its way.
struct Letter {
    from: u16,
    to: u16,
    link: LinkEpoch,
    view: ViewId,
    message: AnyMessage,
}

struct World {
    dice: Dice,
    now: Time,
    orderings: Vec<OrderingName>,
    nodes: BTreeMap<u16, Node>,
    letters: BTreeMap<(Time, u64), Letter>,
    count: u64,
    links: BTreeMap<(u16, u16), LinkEpoch>,
    epoch: u64,
    loss: u64,
    decided: BTreeMap<Slot, Batch>,
    /// Commands refused as certainly without effect.
    undone: BTreeSet<CommandId>,
    submitted: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64, orderings: &[OrderingName]) -> World {
        let mut world = World {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Time(1_000_000_000),
            orderings: orderings.to_vec(),
            nodes: BTreeMap::new(),
            letters: BTreeMap::new(),
            count: 0,
            links: BTreeMap::new(),
            epoch: 0,
            loss: 0,
            decided: BTreeMap::new(),
            undone: BTreeSet::new(),
            submitted: 0,
            refused: 0,
        };
        for own in 1..=NODES {
            let first = world.view(ViewNumber(1), Slot(1));
            let config = Config::new(VIEW.group, NodeId(own), 1, first, u64::from(own) + seed);
            let instance = AnyOrdering::new(config, Vec::new(), world.now).unwrap();
            let node = Node {
                instances: BTreeMap::from([(ViewNumber(1), instance)]),
                executed: Slot::ZERO,
                last: None,
                open: BTreeSet::new(),
                early: Vec::new(),
            };
            world.nodes.insert(own, node);
        }
        for own in 1..=NODES {
            let slot = Slot::ZERO;
            world.event(own, ViewNumber(1), Event::Executed { slot });
        }
        for own in 1..=NODES {
            for peer in own + 1..=NODES {
                world.join(own, peer);
            }
        }
        world
    }

    fn view(&self, number: ViewNumber, first_slot: Slot) -> View {
        View {
            number,
            first_slot,
            window: WINDOW,
            level: Level::SPREAD_VALUES,
            ordering: self.orderings[number.0 as usize - 1],
            ..view(NODES, NODES, Persistence::Memory)
        }
    }

    fn newest(&self, own: u16) -> ViewNumber {
        *self.nodes[&own].instances.last_key_value().unwrap().0
    }

    fn join(&mut self, a: u16, b: u16) {
        self.epoch += 1;
        let epoch = LinkEpoch(self.epoch);
        for (own, peer) in [(a, b), (b, a)] {
            self.links.insert((own, peer), epoch);
            self.tell_link(own, peer, LinkState::Up(epoch));
        }
    }

    fn cut(&mut self, a: u16, b: u16) {
        for (own, peer) in [(a, b), (b, a)] {
            if self.links.remove(&(own, peer)).is_some() {
                self.tell_link(own, peer, LinkState::Down);
            }
        }
    }

    fn tell_link(&mut self, own: u16, peer: u16, state: LinkState) {
        let views = self.nodes[&own].instances.keys().copied();
        let peer = NodeId(peer);
        for number in views.collect::<Vec<ViewNumber>>() {
            self.event(own, number, Event::Link { peer, state });
        }
    }

    fn event(&mut self, own: u16, number: ViewNumber, event: Event<AnyMessage>) {
        let node = self.nodes.get_mut(&own).unwrap();
        let instance = node.instances.get_mut(&number).unwrap();
        let mut effects = Vec::new();
        instance.handle(self.now, event, &mut effects);
        let (wall, entropy) = (Wall(self.now.0), self.count);
        instance.handle(self.now, Event::TurnEnd { wall, entropy }, &mut effects);
        instance.check();
        let view = instance.view();
        let before = node.executed;
        for effect in effects {
            self.perform(own, view, effect);
        }
        let slot = self.nodes[&own].executed;
        if slot > before {
            let last = self.nodes[&own].last;
            if let Some(last) = last.filter(|_| number == self.newest(own)) {
                // Before the instance may propose above it.
                self.event(own, number, Event::Close { last });
            }
            self.event(own, number, Event::Executed { slot });
            self.turn(own, number);
        }
    }

    fn perform(&mut self, own: u16, view: ViewId, effect: Effect<AnyMessage>) {
        match effect {
            Effect::Send { to, message, .. } => {
                for peer in to.iter() {
                    self.post(own, peer.0, view, message.clone());
                }
            }
            Effect::Decide { slot, decision } => {
                let Decision::Batch(batch) = decision;
                self.decide(own, slot, batch);
            }
            Effect::Refuse { command, refusal } => {
                let node = self.nodes.get_mut(&own).unwrap();
                assert!(node.open.remove(&command), "{own}: {command} is open");
                self.refused += 1;
                // Others ask for a switch under the same id.
                if refusal != Refusal::Unknown && command.session.0 != SWITCHES {
                    self.undone.insert(command);
                }
            }
            Effect::Unordered { commands } => {
                let open = &self.nodes[&own].open;
                let is_open = |command: &Command| open.contains(&command.id);
                assert!(commands.iter().all(is_open), "{own}: {commands:?}");
                let newest = self.newest(own);
                self.event(own, newest, Event::Resubmit { commands });
            }
            Effect::NeedSnapshot { .. } | Effect::Persist { .. } | Effect::Conflict(_) => {
                panic!("{own}: nothing is trimmed or written, and nobody errs: {effect:?}")
            }
            Effect::Tentative { .. }
            | Effect::Role(_)
            | Effect::Confirmed { .. }
            | Effect::Unconfirmed { .. }
            | Effect::Current { .. }
            | Effect::Repaired
            | Effect::Discard { .. } => {}
        }
    }

    fn decide(&mut self, own: u16, slot: Slot, batch: Batch) {
        let newest = self.newest(own);
        let node = self.nodes.get_mut(&own).unwrap();
        assert_eq!(slot, node.executed.next(), "{own}: slots come in order");
        assert!(
            node.last.is_none_or(|last| slot <= last),
            "{own}: {slot} is above {:?} in {}",
            node.last,
            newest.0
        );
        node.executed = slot;
        for command in batch.commands() {
            node.open.remove(&command.id);
            let id = command.id;
            if (id.session.0, id.sequence) == (SWITCHES, newest.0) {
                node.last.get_or_insert(slot.plus(WINDOW));
            }
        }
        let known = self.decided.entry(slot).or_insert_with(|| batch.clone());
        assert_eq!(*known, batch, "{own} {slot}: nodes agree");
    }

    /// Follows what is executed: the next view begins.
    fn turn(&mut self, own: u16, number: ViewNumber) {
        let node = &self.nodes[&own];
        let last = node.last.filter(|_| number == self.newest(own));
        let Some(last) = last.filter(|last| node.executed >= *last) else {
            return;
        };
        let next = ViewNumber(number.0 + 1);
        let view = self.view(next, last.next());
        let node = self.nodes.get_mut(&own).unwrap();
        let before = &node.instances[&number];
        let instance = before.of_view(self.now, view, Standing::Voter, ViewPast::None);
        node.instances.insert(next, instance);
        node.last = None;
        self.event(own, next, Event::Executed { slot: last });
        self.event(own, number, Event::Over);
        let early = std::mem::take(&mut self.nodes.get_mut(&own).unwrap().early);
        for (from, link, view, message) in early {
            self.receive(own, from, link, view, message);
        }
    }

    fn post(&mut self, from: u16, to: u16, view: ViewId, message: AnyMessage) {
        let Some(link) = self.links.get(&(from, to)).copied() else {
            return;
        };
        if self.dice.below(100) < self.loss {
            return;
        }
        self.count += 1;
        let at = Time(self.now.0 + 50_000 + self.dice.below(4_000_000));
        let letter = Letter {
            from,
            to,
            link,
            view,
            message,
        };
        self.letters.insert((at, self.count), letter);
    }

    fn receive(
        &mut self,
        own: u16,
        from: NodeId,
        link: LinkEpoch,
        view: ViewId,
        message: AnyMessage,
    ) {
        let newest = self.newest(own);
        if view.number > newest {
            let early = &mut self.nodes.get_mut(&own).unwrap().early;
            early.push((from, link, view, message));
            return self.event(own, newest, Event::Passed);
        }
        let event = Event::Receive {
            from,
            link,
            view,
            message,
        };
        self.event(own, view.number, event);
    }

    fn next_wake(&self) -> Option<(Time, u16, ViewNumber)> {
        let nodes = self.nodes.iter();
        let instances = nodes.flat_map(|(own, node)| {
            let instances = node.instances.iter();
            instances.map(|(number, instance)| (*own, *number, instance))
        });
        let wakes = instances.filter_map(|(own, number, instance)| {
            let at = instance.next_wake()?;
            Some((at.max(self.now), own, number))
        });
        wakes.min()
    }

    fn run(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        for _ in 0..1_000_000 {
            let letter = self.letters.first_key_value().map(|(key, _)| key.0);
            let wake = self.next_wake();
            let at = Time::earlier(letter, wake.map(|(at, ..)| at));
            let Some(at) = at.filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(at);
            if letter == Some(at) {
                let (_, letter) = self.letters.pop_first().unwrap();
                let from = NodeId(letter.from);
                self.receive(letter.to, from, letter.link, letter.view, letter.message);
            } else if let Some((_, own, number)) = wake {
                self.event(own, number, Event::Wake);
            }
        }
        panic!("the world does not come to rest");
    }

    fn submit(&mut self, own: u16, command: Command) {
        let node = self.nodes.get_mut(&own).unwrap();
        node.open.insert(command.id);
        let number = self.newest(own);
        let commands = vec![command];
        self.event(own, number, Event::Submit { commands });
    }

    fn submit_call(&mut self) {
        let own = 1 + self.dice.below(u64::from(NODES)) as u16;
        self.submitted += 1;
        let size = [1, 100, 40_000][self.dice.below(3) as usize];
        self.submit(own, call(1, self.submitted, &vec![b'x'; size]));
    }

    /// A fault begins or ends.
    fn misfortune(&mut self) {
        let a = 1 + self.dice.below(u64::from(NODES)) as u16;
        let b = 1 + (a + self.dice.below(u64::from(NODES) - 1) as u16) % NODES;
        match self.dice.below(6) {
            0 => self.loss = self.dice.below(25),
            1 if a != b => self.cut(a, b),
            3 => {
                for peer in (1..=NODES).filter(|peer| *peer != a) {
                    self.cut(a, peer);
                }
            }
            2 => {
                let number = self.newest(a);
                let to = (1..=NODES).map(NodeId).collect();
                self.event(a, number, Event::TransferLeadership { to });
            }
            _ => self.heal(),
        }
    }

    fn heal(&mut self) {
        for own in 1..=NODES {
            for peer in own + 1..=NODES {
                if !self.links.contains_key(&(own, peer)) {
                    self.join(own, peer);
                }
            }
        }
    }

    /// The seed's life in each view, and what must hold at its end.
    fn live(&mut self) {
        for number in 1..=self.orderings.len() as u64 {
            for _ in 0..12 {
                for _ in 0..self.dice.below(8) {
                    self.submit_call();
                }
                if self.dice.below(100) < 40 {
                    self.misfortune();
                }
                // Rarely so long that submissions expire.
                let longest = if self.dice.below(100) < 3 { 4_000 } else { 80 };
                let pause = 1 + self.dice.below(longest);
                self.run(pause);
            }
            if number < self.orderings.len() as u64 {
                self.switch(number);
            }
        }
        self.heal();
        self.loss = 0;
        self.run(4_000);
        let ends: BTreeSet<Slot> = self.nodes.values().map(|node| node.executed).collect();
        assert_eq!(ends.len(), 1, "all nodes reach the same slot: {ends:?}");
        for (own, node) in &self.nodes {
            assert!(node.open.is_empty(), "{own} left {:?} open", node.open);
        }
        let decided = self.decided.values().flat_map(Batch::commands);
        let decided: BTreeSet<CommandId> = decided.map(|command| command.id).collect();
        let both: Vec<_> = self.undone.intersection(&decided).collect();
        assert!(
            both.is_empty(),
            "refused without effect, and decided: {both:?}"
        );
        let roles = self.nodes.iter().map(|(own, node)| {
            let newest = self.newest(*own);
            node.instances[&newest].status().role
        });
        let is_leader = |role: &Role| matches!(role, Role::Leader { .. });
        assert_eq!(roles.filter(is_leader).count(), 1, "one leads");
    }

    /// Some node asks for the next view until one turns to it, while calls go on.
    fn switch(&mut self, number: u64) {
        for _ in 0..400 {
            let turned = (1..=NODES).any(|own| self.newest(own).0 > number);
            if turned {
                return;
            }
            let own = 1 + self.dice.below(u64::from(NODES)) as u16;
            let command = call(SWITCHES, number, b"");
            if !self.nodes[&own].open.contains(&command.id) {
                self.submit(own, command);
            }
            self.submit_call();
            self.run(20);
            if self.dice.below(100) < 10 {
                self.heal();
                self.loss = 0;
            }
        }
        panic!("nobody turns to view {}", number + 1);
    }
}

fn switches(other: OrderingName, seeds: u64) {
    let orderings = [other, OrderingName::SPaxos, other, OrderingName::SPaxos];
    let (mut submitted, mut refused, mut slots) = (0, 0, 0);
    for seed in 1..=seeds {
        let told = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, &orderings);
            world.live();
            world
        });
        let world = told.unwrap_or_else(|_| panic!("{other} failed with seed {seed}"));
        submitted += world.submitted;
        refused += world.refused;
        slots += world.decided.len();
    }
    println!("{other}: {submitted} submitted, {refused} refused, {slots} slots");
    assert!(submitted > 100 * seeds, "views are busy when they end");
    assert!(refused > 0, "some submissions expire");
}

/// Claim mp-73.
#[test]
fn switches_to_and_from_spread_values_answer_each_submission_once() {
    let others = OrderingName::ALL.into_iter();
    for other in others.filter(|name| *name != OrderingName::SPaxos) {
        switches(other, 25);
    }
}
