//! The stage on which scripts run: nodes, the messages between them, their disks, one clock.
//!
//! Messages lie in flight until a line delivers, drops or repeats them. Writes are durable at once
//! unless the node's disk is slow. Decided slots count as executed at once. Heartbeats and their
//! answers are not listed among what follows from a line.

mod expecting;

use crate::protocol::{Memory, MessageOf, ScriptedProtocol, Start};
use crate::render;
use crate::views::{VIEW, call, view};
use crate::words::{millis, node, pair, slot};
use quorate_ordering::{
    Damage, Effect, Entry, Event, LinkState, LostRecord, Mark, Ordering, Past, ReadId, Record,
};
use quorate_types::{
    Body, BroadcastId, Digest, Duration, Level, LinkEpoch, NoOrdering, NodeId, OrderingName,
    Persistence, Quorums, SecretHash, Slot, Time, View, Wall,
};
use std::collections::{BTreeMap, BTreeSet};

struct Node<P: ScriptedProtocol> {
    instance: Option<P::Instance>,
    boot: u64,
    disk: Vec<Record>,
    unsynced: Vec<(Mark, Record)>,
    is_slow: bool,
}

/// Nodes that play a script of protocol `P`.
pub struct Stage<P: ScriptedProtocol> {
    now: Time,
    view: Option<View>,
    pipeline: Option<usize>,
    first_slots: Option<u64>,
    nodes: BTreeMap<NodeId, Node<P>>,
    in_flight: Vec<(NodeId, NodeId, MessageOf<P>)>,
    cut: BTreeSet<(NodeId, NodeId)>,
    epoch: u64,
    /// The epoch of each direction of a link since it was last made; what was in flight before is gone.
    epochs: BTreeMap<(NodeId, NodeId), LinkEpoch>,
    commands: u64,
    reads: u64,
    follows: Vec<String>,
}

type Done = Result<(), String>;

impl<P: ScriptedProtocol> Default for Stage<P> {
    fn default() -> Stage<P> {
        Stage {
            now: Time(0),
            view: None,
            pipeline: None,
            first_slots: None,
            nodes: BTreeMap::new(),
            in_flight: Vec::new(),
            cut: BTreeSet::new(),
            epoch: 0,
            epochs: BTreeMap::new(),
            commands: 0,
            reads: 0,
            follows: Vec::new(),
        }
    }
}

impl<P: ScriptedProtocol> Stage<P> {
    /// Performs one line and returns what followed from it.
    ///
    /// # Errors
    /// When the line says nothing that can be done, or expects what is not so.
    pub fn act(&mut self, line: &str) -> Result<Vec<String>, String> {
        self.follows.clear();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["nodes", count, options @ ..] => self.set(count, options)?,
            ["propose", who, texts @ ..] => self.propose(node(who)?, texts),
            ["copy", who, command, text] => self.copy(node(who)?, command, text)?,
            ["deliver", "all"] => self.deliver_all()?,
            ["deliver", link] => self.carry(pair(link)?, None, Carry::Deliver)?,
            ["deliver", link, kind] => self.carry(pair(link)?, Some(kind), Carry::Deliver)?,
            ["repeat", link, kind] => self.carry(pair(link)?, Some(kind), Carry::Repeat)?,
            ["drop", link] => self.carry(pair(link)?, None, Carry::Drop)?,
            ["drop", link, kind] => self.carry(pair(link)?, Some(kind), Carry::Drop)?,
            ["prepare", who] => self.prepare(node(who)?),
            ["lead", who] => self.lead(node(who)?)?,
            ["suspect", who] => self.suspect(node(who)?),
            ["slow", who] => self.find(who)?.is_slow = true,
            ["persist", who] => self.persist(node(who)?),
            ["crash", who] => self.crash(node(who)?),
            ["restart", who, how @ ..] => self.start(node(who)?, how)?,
            ["cut", a, b] => self.cut(node(a)?, node(b)?),
            ["mute", link] => self.mute(pair(link)?),
            ["join", a, b] => self.join(node(a)?, node(b)?),
            ["wait", span] => self.pass(millis(span)?, false)?,
            ["run", span] => self.pass(millis(span)?, true)?,
            ["read", who] => self.read(node(who)?, false),
            ["read", who, "lease"] => self.read(node(who)?, true),
            ["read", who, name] => {
                self.reads += 1;
                let (id, read) = (ReadId(self.reads), announced(name));
                self.event(node(who)?, Event::ReadAnnounced { id, read });
            }
            ["announce", who, name] => {
                let read = announced(name);
                self.event(node(who)?, Event::Announced { read });
            }
            ["trim", who, at] => {
                let slot = slot(at)?;
                self.event(
                    node(who)?,
                    Event::Trimmable {
                        slot,
                        digest: Digest::default(),
                    },
                );
            }
            ["collect", who, at] => self.collect(node(who)?, slot(at)?),
            ["snapshot", who, at] => {
                let slot = slot(at)?;
                self.event(node(who)?, Event::Executed { slot });
            }
            ["close", who, at] => {
                let last = slot(at)?;
                self.event(node(who)?, Event::Close { last });
            }
            ["over", who] => self.event(node(who)?, Event::Over),
            ["transfer", who] => {
                let view = self.view.as_ref();
                let to = view.ok_or("a script begins with `nodes`")?.nodes();
                self.event(node(who)?, Event::TransferLeadership { to });
            }
            ["expect", rest @ ..] => self.expect(rest)?,
            _ => return Err("no such line".into()),
        }
        Ok(std::mem::take(&mut self.follows))
    }

    fn set(&mut self, count: &str, options: &[&str]) -> Done {
        let count: u16 = count.parse().map_err(|_| "no number of nodes")?;
        let mut quorums = Quorums::majority(count as usize).map_err(|why| why.to_string())?;
        let mut persistence = Persistence::Disk;
        let mut window = 64;
        let mut acceptors = count;
        let mut ordering = OrderingName::Paxos;
        let mut level = Level::UNNAMED;
        for option in options {
            match option.split_once('=') {
                Some(("quorums", sizes)) => {
                    let (q1, q2) = sizes.split_once('+').ok_or("quorums=Q1+Q2")?;
                    let (q1, q2) = (q1.parse().unwrap(), q2.parse().unwrap());
                    quorums =
                        Quorums::flexible(count as usize, q1, q2).map_err(|why| why.to_string())?;
                }
                Some(("acceptors", voters)) => {
                    acceptors = voters.parse().unwrap();
                    quorums =
                        Quorums::majority(acceptors as usize).map_err(|why| why.to_string())?;
                }
                Some(("ordering", word)) => {
                    ordering = word.parse().map_err(|why: NoOrdering| why.to_string())?;
                }
                Some(("level", number)) => level = Level(number.parse().unwrap()),
                Some(("window", slots)) => window = slots.parse().unwrap(),
                Some(("pipeline", slots)) => self.pipeline = Some(slots.parse().unwrap()),
                Some(("first", slots)) => self.first_slots = Some(slots.parse().unwrap()),
                None if *option == "memory" => persistence = Persistence::Memory,
                Some(_) | None => return Err(format!("no option `{option}`")),
            }
        }
        let ids = (1..=count).map(NodeId);
        self.view = Some(View {
            quorums,
            window,
            level: level.max(ordering.level()),
            ordering,
            ..view(count, acceptors, persistence)
        });
        self.now = Time(1_000_000_000);
        for id in ids.clone() {
            self.nodes.insert(
                id,
                Node {
                    instance: None,
                    boot: 0,
                    disk: Vec::new(),
                    unsynced: Vec::new(),
                    is_slow: false,
                },
            );
        }
        for id in ids {
            self.start(id, &[])?;
        }
        self.follows.clear();
        Ok(())
    }

    fn find(&mut self, word: &str) -> Result<&mut Node<P>, String> {
        self.nodes
            .get_mut(&node(word)?)
            .ok_or(format!("no node `{word}`"))
    }

    fn start(&mut self, id: NodeId, how: &[&str]) -> Done {
        let view = self.view.clone().ok_or("a script begins with `nodes`")?;
        let others = view.nodes().without(id);
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        node.boot += 1;
        node.is_slow = false;
        let (how, at) = match how {
            [how @ .., "at", at] => (how, slot(at)?),
            how => (how, trimmed(&node.disk)),
        };
        let memory = match how {
            [] => Memory::Whole,
            ["damaged", what @ ..] => Memory::Damaged(lose(&mut node.disk, what)?),
            ["observer"] => Memory::Forgotten,
            other => return Err(format!("no options `{}`", other.join(" "))),
        };
        node.instance = Some(P::start(Start {
            own: id,
            boot: node.boot,
            view,
            pipeline: self.pipeline,
            first_slots: self.first_slots,
            memory,
            records: node.disk.clone(),
            now: self.now,
        }));
        self.event(id, Event::Executed { slot: at });
        for peer in others.iter() {
            if self.nodes[&peer].instance.is_some() {
                self.join(id, peer);
            }
        }
        Ok(())
    }

    fn event(&mut self, id: NodeId, event: Event<MessageOf<P>>) {
        let mut effects = Vec::new();
        let now = self.now;
        let Some(instance) = self
            .nodes
            .get_mut(&id)
            .and_then(|node| node.instance.as_mut())
        else {
            return;
        };
        instance.handle(now, event, &mut effects);
        instance.check();
        let turn = Event::TurnEnd {
            wall: Wall(now.0),
            entropy: 0,
        };
        instance.handle(now, turn, &mut effects);
        instance.check();
        let mut decided = None;
        let mut must_sync = false;
        for effect in effects {
            self.list(id, &effect);
            match effect {
                Effect::Send { to, message, .. } => {
                    for peer in to.iter() {
                        if !self.cut.contains(&(id, peer)) {
                            self.in_flight.push((id, peer, message.clone()));
                        }
                    }
                }
                Effect::Persist { mark, record } => {
                    let node = self.nodes.get_mut(&id).expect("it exists");
                    node.unsynced.push((mark, record));
                    must_sync = !node.is_slow;
                }
                Effect::Decide { slot, .. } => decided = Some(slot),
                Effect::Discard { upto, base } => {
                    let disk = &mut self.nodes.get_mut(&id).expect("it exists").disk;
                    disk.extend(base);
                    disk.retain(|record| record.slot().is_none_or(|slot| slot > upto));
                }
                Effect::Role(_)
                | Effect::Tentative { .. }
                | Effect::Confirmed { .. }
                | Effect::Unconfirmed { .. }
                | Effect::Current { .. }
                | Effect::Repaired
                | Effect::Unordered { .. }
                | Effect::Conflict(_)
                | Effect::NeedSnapshot { .. }
                | Effect::Refuse { .. } => {}
            }
        }
        if let Some(slot) = decided {
            self.event(id, Event::Executed { slot });
        }
        if must_sync {
            self.persist(id);
        }
    }

    fn list(&mut self, id: NodeId, effect: &Effect<MessageOf<P>>) {
        match effect {
            Effect::Send { message, .. } if P::is_unlisted(message) => return,
            Effect::Current { .. } => return,
            _ => {}
        }
        let colon = if matches!(effect, Effect::Send { .. }) {
            ""
        } else {
            ":"
        };
        self.follows
            .push(format!("{id}{colon} {}", render::effect::<P>(effect)));
    }

    fn propose(&mut self, id: NodeId, texts: &[&str]) {
        let mut commands = Vec::new();
        for text in texts {
            self.commands += 1;
            let payload = text.trim_matches('"').as_bytes();
            commands.push(call(1, self.commands, payload));
        }
        self.event(id, Event::Submit { commands });
    }

    fn collect(&mut self, id: NodeId, slot: Slot) {
        self.commands += 1;
        let digest = Digest::default();
        let mut command = call(1, self.commands, &[]);
        command.body = Body::Collect { slot, digest };
        let commands = vec![command];
        self.event(id, Event::Submit { commands });
    }

    fn copy(&mut self, id: NodeId, command: &str, text: &str) -> Done {
        let number = command.strip_prefix('c').and_then(|n| n.parse().ok());
        let number = number.ok_or("a command is c1, c2 and so on")?;
        let payload = text.trim_matches('"').as_bytes();
        let commands = vec![call(1, number, payload)];
        self.event(id, Event::Submit { commands });
        Ok(())
    }

    fn carry(&mut self, link: (NodeId, NodeId), kind: Option<&str>, how: Carry) -> Done {
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut taken = Vec::new();
        for (from, to, message) in in_flight {
            let is_meant =
                (from, to) == link && kind.is_none_or(|kind| render::kind(&message) == kind);
            if is_meant {
                taken.push(message.clone());
            }
            if !is_meant || matches!(how, Carry::Repeat) {
                self.in_flight.push((from, to, message));
            }
        }
        if taken.is_empty() {
            return Err("no such message is in flight".into());
        }
        for message in taken {
            if !matches!(how, Carry::Drop) {
                self.receive(link, message);
            }
        }
        Ok(())
    }

    fn receive(&mut self, (from, to): (NodeId, NodeId), message: MessageOf<P>) {
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

    fn deliver_all(&mut self) -> Done {
        for _ in 0..10_000 {
            if self.in_flight.is_empty() {
                return Ok(());
            }
            let (from, to, message) = self.in_flight.remove(0);
            self.receive((from, to), message);
        }
        Err("messages never end".into())
    }

    /// `id` begins phase 1 at once, as if it missed its leader.
    fn prepare(&mut self, id: NodeId) {
        let promised = self.nodes[&id]
            .instance
            .as_ref()
            .map(|instance| instance.status().promised);
        let peer = self.nodes.keys().copied().find(|node| *node != id);
        if let (Some(ballot), Some(peer)) = (promised, peer) {
            self.receive((peer, id), P::stand(ballot));
        }
    }

    fn lead(&mut self, id: NodeId) -> Done {
        self.prepare(id);
        self.deliver_all()?;
        self.expect(&[&id.to_string(), "leads"])
    }

    fn suspect(&mut self, id: NodeId) {
        let Some(instance) = &self.nodes[&id].instance else {
            return;
        };
        if let Some(at) = instance.next_wake() {
            self.now = self.now.max(at);
        }
        self.event(id, Event::Wake);
    }

    fn persist(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("it exists");
        let unsynced = std::mem::take(&mut node.unsynced);
        let Some(mark) = unsynced.last().map(|(mark, _)| *mark) else {
            return;
        };
        node.disk
            .extend(unsynced.into_iter().map(|(_, record)| record));
        self.event(id, Event::Persisted { mark });
    }

    fn crash(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("it exists");
        node.instance = None;
        node.unsynced.clear();
        self.in_flight.retain(|(_, to, _)| *to != id);
        let others: Vec<NodeId> = self
            .nodes
            .keys()
            .copied()
            .filter(|node| *node != id)
            .collect();
        for peer in others {
            let state = LinkState::Down;
            self.event(peer, Event::Link { peer: id, state });
        }
    }

    fn cut(&mut self, a: NodeId, b: NodeId) {
        for (from, to) in [(a, b), (b, a)] {
            self.mute((from, to));
            let state = LinkState::Down;
            self.event(from, Event::Link { peer: to, state });
        }
    }

    fn mute(&mut self, link: (NodeId, NodeId)) {
        self.cut.insert(link);
        self.in_flight.retain(|(from, to, _)| (*from, *to) != link);
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        self.epoch += 1;
        let epoch = LinkEpoch(self.epoch);
        let state = LinkState::Up(epoch);
        for (own, peer) in [(a, b), (b, a)] {
            self.cut.remove(&(own, peer));
            self.epochs.insert((own, peer), epoch);
            self.event(own, Event::Link { peer, state });
        }
    }

    /// Lets time pass. Of all that follows, only what the node's replica is told of its commands and
    /// reads is listed: the rest depends on random timeouts.
    fn pass(&mut self, span: u64, delivers: bool) -> Done {
        self.wait(span, delivers)?;
        let told = [" refuse ", " read ", " needs "];
        self.follows
            .retain(|line| told.iter().any(|word| line.contains(word)));
        Ok(())
    }

    /// Messages arrive at once or stay in flight.
    fn wait(&mut self, span: u64, delivers: bool) -> Done {
        let until = self.now + Duration::from_millis(span);
        for _ in 0..10_000 {
            if delivers {
                self.deliver_all()?;
            }
            let next = (self.nodes.iter())
                .filter_map(|(id, node)| Some((node.instance.as_ref()?.next_wake()?, *id)))
                .min();
            match next {
                Some((at, id)) if at <= until => {
                    self.now = self.now.max(at);
                    self.event(id, Event::Wake);
                }
                Some(_) | None => {
                    self.now = until;
                    return Ok(());
                }
            }
        }
        Err("timers never end".into())
    }

    fn read(&mut self, id: NodeId, lease: bool) {
        self.reads += 1;
        let read = ReadId(self.reads);
        self.event(id, Event::Read { id: read, lease });
    }
}

/// The read that a script calls so, and its clients announce.
fn announced(name: &str) -> BroadcastId {
    let number = name
        .bytes()
        .fold(0, |sum, byte| sum * 256 + u64::from(byte));
    let client = SecretHash::default();
    BroadcastId { client, number }
}

enum Carry {
    Deliver,
    Repeat,
    Drop,
}

/// The slot of the snapshot for which this log was trimmed.
fn trimmed(disk: &[Record]) -> Slot {
    let trimmed = disk.iter().filter_map(|record| match record.entry {
        Entry::Trimmed { upto } => Some(upto),
        _ => None,
    });
    trimmed.max().unwrap_or(Slot::ZERO)
}

/// Takes a record from a log, and says what its node knows of the loss: the newest one without a word of what it was, the
/// newest one of a slot, or the newest promise.
fn lose(disk: &mut Vec<Record>, what: &[&str]) -> Result<Damage, String> {
    let (lost, index) = match what {
        [] => (LostRecord::Anything, disk.len().checked_sub(1)),
        ["promise"] => {
            let is_promise = |record: &Record| matches!(record.entry, Entry::Promise { .. });
            (LostRecord::Promise, disk.iter().rposition(is_promise))
        }
        [at] => {
            let slot = slot(at)?;
            let is_there = |record: &Record| record.slot() == Some(slot);
            (LostRecord::Slot(slot), disk.iter().rposition(is_there))
        }
        other => return Err(format!("no loss `{}`", other.join(" "))),
    };
    let mut past = Past::default();
    let index = index.ok_or("no such record to lose")?;
    disk[..index]
        .iter()
        .cloned()
        .for_each(|record| past.read(record));
    past.lost(lost);
    disk.remove(index);
    disk[index..]
        .iter()
        .cloned()
        .for_each(|record| past.read(record));
    Ok(past.damage)
}
