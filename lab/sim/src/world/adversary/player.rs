//! One node under the adversarial scheduler: its ordering, its log, and what it was told to write.

use super::Adversary;
use crate::checkers::Property;
use crate::world::durable::GROUP;
use crate::world::random::Random;
use crate::world::trace::Tag;
use quorate_any::{AnyMessage, AnyOrdering, fast_paxos, paxos};
use quorate_ordering::{
    Config, Decision, Effect, Entry, Event, LostRecord, Mark, Ordering, Past, Record, Standing,
};
use quorate_replica::PeerMessage;
use quorate_types::{
    Ballot, Body, Command, CommandId, Duration, LinkEpoch, NodeId, ObjectId, OrderingName,
    Persistence, Slot, Value, Wall,
};
use std::collections::BTreeMap;

/// A node.
#[derive(Default)]
pub(super) struct Player {
    /// `None` while its process is down.
    pub(super) ordering: Option<AnyOrdering>,
    /// Peers that it is linked with.
    pub(super) links: BTreeMap<NodeId, LinkEpoch>,
    /// The slot of its durable snapshot.
    pub(super) snapshot: Slot,
    /// What it has executed in this life.
    pub(super) executed: Slot,
    /// The least slot of a snapshot that it needs.
    pub(super) wanted: Option<Slot>,
    life: u64,
    boot: u64,
    pub(super) disk: Vec<Kept>,
    pub(super) unsynced: Vec<Write>,
    /// It ran in memory mode and stopped.
    has_forgotten: bool,
    /// It died when its log was repaired.
    pub(super) has_relapsed: bool,
    /// How far its wall clock is ahead.
    ahead: Duration,
}

/// What a log holds in one place.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Record(Record),
    /// One record of the log, which is read or lost as a whole.
    Base(Vec<Record>),
    Lost(LostRecord),
}

/// What waits for the disk.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Record(Mark, Record),
    Discard(Slot, Vec<Record>),
    Repaired,
}

/// What an operator has a node told that is to lead.
pub(super) fn take_over(ordering: OrderingName, ballot: Ballot) -> AnyMessage {
    match ordering {
        OrderingName::Paxos
        | OrderingName::Libpaxos
        | OrderingName::LibpaxosPlus
        | OrderingName::RingPaxos
        | OrderingName::SPaxos => {
            let ask = paxos::message::TakeOver { ballot };
            AnyMessage::Paxos(paxos::Message::TakeOver(ask))
        }
        OrderingName::FastPaxos => {
            let ask = fast_paxos::message::TakeOver { ballot };
            AnyMessage::FastPaxos(fast_paxos::Message::TakeOver(ask))
        }
    }
}

/// The `number`-th command of the run.
pub(super) fn command(number: u64) -> Command {
    Command {
        id: CommandId {
            session: super::replay::session(),
            sequence: number,
        },
        acknowledged: 0,
        body: Body::Call {
            object: ObjectId(0),
            payload: Value::copy_from_slice(&number.to_be_bytes()),
        },
    }
}

impl Adversary {
    /// Starts a node on what its log holds, of which a record may be lost meanwhile.
    pub(super) fn start(&mut self, id: NodeId) {
        self.damage(id);
        let mut past = Past::default();
        for kept in self.players[&id].disk.clone() {
            match kept {
                Kept::Record(record) => past.read(record),
                Kept::Base(base) => base.into_iter().for_each(|record| past.read(record)),
                Kept::Lost(lost) => past.lost(lost),
            }
        }
        let (seed, now) = (self.random.bits(), self.now.as_time());
        let view = self.setup.view();
        let player = self.player(id);
        player.boot += 1;
        player.life += 1;
        player.executed = player.snapshot;
        player.wanted = None;
        let (boot, slot, has_forgotten) = (player.boot, player.snapshot, player.has_forgotten);
        let mut config = Config::new(GROUP, id, boot, view, seed);
        config.timing = self.setup.timing;
        config.limits = self.setup.limits;
        config.damage = past.damage.clone();
        if has_forgotten {
            config.standing = Standing::Observer;
        }
        let has_lost = past.damage.was_found() || has_forgotten;
        if past.damage.needs_survey() || has_forgotten {
            self.judge.forgot(id, quorate_types::ViewNumber(1));
        }
        self.note(Tag::Life, id, || {
            format!("{id} starts, boot {boot}, lost {:?}", past.damage)
        });
        let (records, damage) = (past.records.clone(), past.damage.clone());
        let ordering = AnyOrdering::new(config, past.records, now)
            .expect("a log holds its own group's records");
        let promised = ordering.status().promised;
        self.player(id).ordering = Some(ordering);
        self.judge.begun_at(id, slot);
        self.judge.keeps(id, slot);
        let found = self.judge.found(id, &records, &damage, has_lost);
        self.judged(found);
        if self.setup.persistence == Persistence::Disk && !has_lost {
            let restarted = self.judge.restarted((id, None), promised, &records);
            self.judged(restarted);
        } else if !past.damage.needs_survey() && !has_forgotten {
            let restarted = self.judge.restarted_on_damage((id, None), promised);
            self.judged(restarted);
        }
        self.happen(id, Event::Executed { slot });
        for peer in self.others(id) {
            self.link(id, peer);
        }
        if damage.needs_survey() {
            self.falls_behind_in_repair(id);
        }
    }

    /// Makes a record of a node's log unreadable, if it may lose one.
    fn damage(&mut self, id: NodeId) {
        if self.relapses(id) {
            return;
        }
        let is_durable = self.setup.persistence == Persistence::Disk;
        let has_peers = self.setup.acceptors().len() > 1;
        let length = self.players[&id].disk.len() as u64;
        let is_drawn = self.random.chance(self.mood.damage);
        if !is_durable || !has_peers || length == 0 || !is_drawn || !self.may_maim(id) {
            return;
        }
        let drawn = self.random.below(length) as usize;
        let index = self.tempting(id).unwrap_or(drawn);
        let is_vague = self.random.chance(300);
        let place = &mut self.player(id).disk[index];
        let lost = match place {
            Kept::Record(record) => record.slot().map_or(LostRecord::Promise, LostRecord::Slot),
            // What it restated may have been anything.
            Kept::Base(_) => LostRecord::Anything,
            Kept::Lost(_) => return,
        };
        *place = Kept::Lost(if is_vague { LostRecord::Anything } else { lost });
    }

    /// Ends a node's process: of what it has not synced, the first part may be on the disk.
    pub(super) fn crash(&mut self, id: NodeId) {
        let is_memory = self.setup.persistence == Persistence::Memory;
        let player = self.player(id);
        if player.ordering.take().is_none() {
            return;
        }
        player.life += 1;
        player.has_forgotten |= is_memory;
        let writes = std::mem::take(&mut player.unsynced);
        let kept = self.random.below(writes.len() as u64 + 1) as usize;
        for write in writes.into_iter().take(kept) {
            self.player(id).apply(write);
        }
        self.note(Tag::Life, id, || format!("{id} dies"));
        for peer in self.others(id) {
            self.player(id).links.remove(&peer);
            self.unlink(id, peer);
        }
    }

    /// A commit ends: the first part of what some node wants written is durable.
    pub(super) fn sync(&mut self) {
        let waiting = self.players.iter();
        let waiting: Vec<NodeId> = waiting
            .filter(|(_, player)| !player.unsynced.is_empty())
            .map(|(id, _)| *id)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let id = *self.random.pick(&waiting);
        let count = self.players[&id].unsynced.len() as u64;
        let count = self.random.between(1, count) as usize;
        let writes: Vec<Write> = self.player(id).unsynced.drain(..count).collect();
        let mut durable = None;
        for (place, write) in writes.iter().enumerate() {
            let records = match write {
                Write::Record(mark, record) => {
                    durable = Some(*mark);
                    std::slice::from_ref(record)
                }
                Write::Discard(_, base) => base.as_slice(),
                Write::Repaired => &[],
            };
            for record in records {
                let wrote = self.judge.wrote(id, record);
                self.judged(wrote);
            }
            self.player(id).apply(write.clone());
            if matches!(write, Write::Repaired) && self.dies_repaired(id) {
                let lost = writes.len() - place - 1;
                self.note(Tag::Fault, id, || format!("{id} loses {lost} writes"));
                return;
            }
        }
        if let Some(mark) = durable {
            self.happen(id, Event::Persisted { mark });
        }
    }

    /// Something happens at a node, and its turn ends.
    pub(super) fn happen(&mut self, id: NodeId, event: Event<AnyMessage>) {
        let (now, entropy) = (self.now.as_time(), self.random.bits());
        let player = self.player(id);
        let wall = Wall(now.0 + player.ahead.0);
        let Some(ordering) = player.ordering.as_mut() else {
            return;
        };
        let mut effects = Vec::new();
        ordering.handle(now, event, &mut effects);
        ordering.handle(now, Event::TurnEnd { wall, entropy }, &mut effects);
        ordering.check();
        let before = self.players[&id].executed;
        for effect in effects {
            self.perform(id, effect);
        }
        let executed = self.players[&id].executed;
        if executed > before && self.broken.is_none() {
            self.happen(id, Event::Executed { slot: executed });
        }
        if self.broken.is_none() {
            self.trim_due(id);
        }
    }

    // Longer than a screen: one arm an effect.
    fn perform(&mut self, id: NodeId, effect: Effect<AnyMessage>) {
        match effect {
            Effect::Send { to, message, .. } => {
                let ordering = self.players[&id].ordering.as_ref();
                let decided = ordering.map_or(Slot::ZERO, |ordering| ordering.decided());
                self.judge.knows(id, decided);
                let life = self.players[&id].life;
                let told = PeerMessage::Ordering {
                    view: self.view,
                    message: message.clone(),
                };
                let sent = self.judge.sent(id, life, &told);
                self.judged(sent);
                self.note(Tag::Output, id, || {
                    format!("{id} -> {to:?} says {message:?}")
                });
                for peer in to.iter() {
                    self.post(id, peer, &message);
                }
            }
            Effect::Persist { mark, record } => {
                if let Entry::Vote { slot, ballot, .. } = &record.entry {
                    self.judge.votes(id, *slot, *ballot);
                }
                self.player(id).unsynced.push(Write::Record(mark, record));
            }
            Effect::Discard { upto, base } => {
                let trimmed = self.judge.trims(id, upto);
                self.judged(trimmed);
                let replaced = self.judge.replaces(id, upto, &base);
                self.judged(replaced);
                self.player(id).unsynced.push(Write::Discard(upto, base));
            }
            Effect::Repaired => self.player(id).unsynced.push(Write::Repaired),
            Effect::Decide { slot, decision } => {
                let Decision::Batch(batch) = decision;
                let next = self.players[&id].executed.next();
                if slot != next {
                    let detail = format!("{id} decides {slot} where {next} is next");
                    self.blame(Property::Invariant, detail);
                }
                self.player(id).executed = slot;
                self.note(Tag::Output, id, || format!("{id} decides {slot} {batch:?}"));
                let decided = self.judge.decided(id, slot, &batch);
                self.judged(decided);
                self.note_trims(id, slot, &batch);
            }
            Effect::Conflict(conflict) => {
                let detail = format!("{id} is told otherwise: {conflict}");
                self.blame(Property::Agreement, detail);
            }
            Effect::NeedSnapshot { upto } => {
                let executed = self.players[&id].executed;
                if upto <= executed {
                    let detail = format!("{id} needs a snapshot of {upto}, and holds {executed}");
                    self.blame(Property::Invariant, detail);
                }
                self.player(id).wanted = Some(upto);
            }
            Effect::Role(role) => self.note(Tag::Output, id, || format!("{id} is {role:?}")),
            Effect::Tentative { .. }
            | Effect::Confirmed { .. }
            | Effect::Unconfirmed { .. }
            | Effect::Current { .. }
            | Effect::Refuse { .. }
            | Effect::Unordered { .. } => {}
        }
    }
}

impl Player {
    /// A node that has never run; its clock is ahead by up to some elections.
    pub(super) fn new(seed: u64, id: NodeId) -> Player {
        Player {
            ahead: Random::new(seed, "clock", u64::from(id.0)).millis(0, 300),
            ..Player::default()
        }
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::Record(_, record) => self.disk.push(Kept::Record(record)),
            Write::Discard(upto, base) => {
                self.disk.retain(|kept| match kept {
                    Kept::Record(record) => record.slot().is_none_or(|slot| slot > upto),
                    Kept::Base(_) => false,
                    Kept::Lost(_) => true,
                });
                self.disk.push(Kept::Base(base));
            }
            Write::Repaired => self.disk.retain(|kept| !matches!(kept, Kept::Lost(_))),
        }
    }
}
