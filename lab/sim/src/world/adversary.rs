//! Orderings alone, under an adversarial scheduler: any message may arrive at any time, twice or never.
//!
//! In the world of nodes and clients messages are quick and elections slow, as in a real group, so that a message which
//! arrives an election too late is rare, and three leaders within one pipeline are rarer. Here they are common: time runs
//! only when the scheduler says so, some messages wait for as long as it likes, and leaders change every few slots. There
//! are no replicas, clients and snapshots' contents, and nothing is promised about time: only the checkers of agreement
//! judge. Each seed runs both worlds.

mod collecting;
mod player;
mod relapse;
mod replay;
mod scheme;

use super::judge::Judge;
use super::random::Random;
use super::run::Failure;
use super::setup::Setup;
use super::shape::Shape;
use super::trace::{Tag, Telling, Trace};
use super::{Moment, liveness};
use crate::checkers::{Property, Violation};
use collecting::DueTrims;
use player::Player;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_ordering::{Event, LinkState, Ordering, Role, Timing};
use quorate_replica::PeerMessage;
use quorate_types::{
    Digest, Duration, Level, LinkEpoch, NodeId, OrderingName, Persistence, Slot, ViewId,
};
use std::collections::{BTreeMap, BTreeSet};

/// Choices of the scheduler in one run.
const STEPS: u64 = 2000;

/// Messages under way; of more the oldest is lost.
const POSTED_MAX: usize = 300;

/// Messages in a thousand from or to a slow node that are late.
const SLOW: u64 = 950;

/// A message under way.
#[derive(Clone, Debug)]
struct Posted {
    from: NodeId,
    to: NodeId,
    epoch: LinkEpoch,
    /// It waits until the scheduler picks it among all.
    is_late: bool,
    message: AnyMessage,
}

/// How often the scheduler of one run does what, in a thousand choices, and how it picks.
#[derive(Clone, Copy, Debug)]
struct Mood {
    /// Messages that are late, and those of them that ask what is decided or tell it.
    late: u64,
    late_learning: u64,
    /// Answers to damaged nodes that are late.
    late_surveys: u64,
    /// Deliveries that pick among all messages and not the oldest.
    disorder: u64,
    /// Messages that are lost, and that arrive twice.
    loss: u64,
    repeat: u64,
    /// A node is told to lead.
    stand: u64,
    /// A leader is superseded while it waits for what it asked long ago.
    schemes: u64,
    /// A process ends.
    crash: u64,
    /// A link breaks, or lets nothing pass for a while.
    links: u64,
    /// A start finds a record of the log lost.
    damage: u64,
    /// A node dies as soon as its log is repaired, and the next start finds damage again.
    relapse: u64,
}

/// The orderings of one group, and what is on its way between them.
pub(super) struct Adversary {
    setup: Setup,
    view: ViewId,
    random: Random,
    mood: Mood,
    now: Moment,
    players: BTreeMap<NodeId, Player>,
    posted: Vec<Posted>,
    /// Nodes from and to which most messages are late.
    slow: BTreeSet<NodeId>,
    /// Directions that let nothing pass.
    blocked: BTreeSet<(NodeId, NodeId)>,
    epochs: u64,
    submitted: u64,
    /// Logs are trimmed for decided commands only.
    collects: bool,
    due_trims: DueTrims,
    /// Nodes that have lost or may lose a vote for ever.
    maimed: BTreeSet<NodeId>,
    judge: Judge,
    trace: Trace,
    broken: Option<Violation>,
}

impl Adversary {
    /// The group of `seed`, all nodes down.
    pub(super) fn new(seed: u64, ordering: Option<OrderingName>, telling: Telling) -> Adversary {
        let mut random = Random::new(seed, "adversary", 0);
        let mut setup = Setup::from_seed(seed);
        setup.reshape(&shape(&mut random));
        setup.timing = timing(*random.pick(&[10, 10, 2, 1]));
        setup.limits.batch_commands = random.between(1, 2) as usize;
        setup.limits.chunk_slots = *random.pick(&[1, 3, 8, 16]);
        setup.limits.credit_messages = random.between(1, 8) as usize;
        setup.ordering = setup.draw_ordering(ordering);
        setup.draw_steps();
        if setup.draws_policies() {
            setup.draw_policies();
        }
        let collects = collecting::is_drawn(seed);
        if collects {
            setup.ordering.0 = setup.ordering.0.max(Level::COLLECTED);
        }
        let view = setup.view();
        let players = setup.node_ids().map(|id| (id, Player::new(seed, id)));
        Adversary {
            view: ViewId {
                group: super::durable::GROUP,
                number: view.number,
            },
            mood: mood(&mut random)
                .with_relapses(seed)
                .with_long_repairs(seed),
            now: Moment(1_000_000_000),
            players: players.collect(),
            posted: Vec::new(),
            slow: BTreeSet::new(),
            blocked: BTreeSet::new(),
            epochs: 0,
            submitted: 0,
            collects,
            due_trims: DueTrims::new(),
            maimed: BTreeSet::new(),
            judge: Judge::new(liveness(&setup), &view),
            trace: Trace::new(telling),
            broken: None,
            random,
            setup,
        }
    }

    /// Runs to the end or to the first broken property.
    pub(super) fn play(&mut self) -> Result<(), Violation> {
        for id in self.setup.node_ids() {
            self.start(id);
        }
        for _ in 0..STEPS {
            self.step();
            if let Some(violation) = self.broken.take() {
                return Err(violation);
            }
        }
        self.replay();
        self.broken.take().map_or(Ok(()), Err)
    }

    /// A broken property, with the last lines of the story.
    pub(super) fn failure(&self, violation: Violation) -> Failure {
        Failure {
            violation,
            tail: self.trace.tail().map(str::to_owned).collect(),
        }
    }

    fn judged(&mut self, outcome: Result<(), Violation>) {
        if let Err(violation) = outcome {
            self.broken.get_or_insert(violation);
        }
    }

    fn blame(&mut self, property: Property, detail: String) {
        self.judged(Err(Violation::new(property, detail)));
    }

    fn note(&mut self, tag: Tag, id: NodeId, text: impl FnOnce() -> String) {
        self.trace
            .note(self.now, &[tag as u64, u64::from(id.0)], text);
    }

    fn step(&mut self) {
        let mood = self.mood;
        let choices = [
            (500, Adversary::deliver as fn(&mut Adversary)),
            (200, Adversary::sync),
            (70, Adversary::pass),
            (90, Adversary::submit_one),
            (mood.stand, Adversary::stand_one),
            (mood.schemes, Adversary::scheme),
            (mood.crash, Adversary::crash_one),
            (25, Adversary::start_one),
            (mood.links, Adversary::disturb),
            (10, Adversary::mend),
            (15, Adversary::snapshot),
            (25, Adversary::install),
        ];
        let total: u64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.random.below(total);
        for (weight, act) in choices {
            if drawn < weight {
                act(self);
                return;
            }
            drawn -= weight;
        }
    }

    /// One message arrives: usually the oldest that is not late, sometimes any.
    fn deliver(&mut self) {
        let prompt = |posted: &Posted| !posted.is_late && self.can_arrive(posted);
        if let Some(index) = self.posted.iter().position(prompt)
            && !self.random.chance(self.mood.disorder)
        {
            return self.arrive(index);
        }
        let able: Vec<usize> = (0..self.posted.len())
            .filter(|index| self.can_arrive(&self.posted[*index]))
            .collect();
        if !able.is_empty() {
            let index = *self.random.pick(&able);
            self.arrive(index);
        }
    }

    fn can_arrive(&self, posted: &Posted) -> bool {
        !self.blocked.contains(&(posted.from, posted.to))
            && self.players[&posted.to].ordering.is_some()
    }

    /// A message under way arrives.
    fn arrive(&mut self, index: usize) {
        self.now = self.now + self.random.micros(1, 200);
        let posted = if self.random.chance(self.mood.repeat) {
            self.posted[index].clone()
        } else {
            self.posted.remove(index)
        };
        let (from, to) = (posted.from, posted.to);
        self.note(Tag::Arrive, to, || {
            format!("{from} -> {to} {:?}", posted.message)
        });
        let message = PeerMessage::Ordering {
            view: self.view,
            message: posted.message,
        };
        let ordering = self.players[&to].ordering.as_ref();
        let decided = ordering.map_or(Slot::ZERO, |ordering| ordering.decided());
        self.judge.knows(to, decided);
        self.judge.arrived(to, from, &message);
        let PeerMessage::Ordering { view, message } = message else {
            return;
        };
        let event = Event::Receive {
            from,
            link: posted.epoch,
            view,
            message,
        };
        self.happen(to, event);
    }

    /// Puts a message on its way.
    fn post(&mut self, from: NodeId, to: NodeId, message: &AnyMessage) {
        let Some(epoch) = self.players[&from].links.get(&to).copied() else {
            return;
        };
        if self.random.chance(self.mood.loss) {
            return;
        }
        if self.posted.len() == POSTED_MAX {
            self.posted.remove(0);
        }
        let said = message.testimony();
        let is_learning = matches!(
            said,
            Testimony::AsksDecided { .. }
                | Testimony::TellsDecided { .. }
                | Testimony::AsksPreVote { .. }
                | Testimony::AnswersPreVote { .. }
        );
        let late = if self.slow.contains(&from) || self.slow.contains(&to) {
            SLOW
        } else if is_learning {
            self.mood.late.max(self.mood.late_learning)
        } else if matches!(said, Testimony::Surveyed { .. }) {
            self.mood.late.max(self.mood.late_surveys)
        } else {
            self.mood.late
        };
        self.posted.push(Posted {
            from,
            to,
            epoch,
            is_late: self.random.chance(late),
            message: message.clone(),
        });
    }

    /// Time passes, and most of those who wait for it notice.
    fn pass(&mut self) {
        self.now = self.now + self.random.millis(1, 12);
        for id in self.up() {
            let player = &self.players[&id];
            let due = player
                .ordering
                .as_ref()
                .and_then(|ordering| ordering.next_wake());
            if due.is_some_and(|due| due <= self.now.as_time()) && self.random.chance(850) {
                self.happen(id, Event::Wake);
            }
        }
    }

    fn submit_one(&mut self) {
        if let Some(id) = self.some_up() {
            self.submit(id);
        }
    }

    fn submit(&mut self, id: NodeId) {
        self.submitted += 1;
        let commands = vec![player::command(self.submitted)];
        self.happen(id, Event::Submit { commands });
    }

    fn stand_one(&mut self) {
        if let Some(id) = self.some_up() {
            self.stand(id);
        }
    }

    /// An operator wants a node to lead: it may, whoever leads.
    fn stand(&mut self, id: NodeId) {
        let ordering = self.players[&id].ordering.as_ref();
        let ballot = ordering.map(|ordering| ordering.status().promised);
        let Some(ballot) = ballot.filter(|ballot| ballot.round > 0) else {
            return;
        };
        let message = player::take_over(self.setup.ordering.1, ballot);
        self.note(Tag::Fault, id, || format!("{id} is told to lead"));
        let event = Event::Receive {
            from: *self.random.pick(&self.others(id)),
            link: LinkEpoch(0),
            view: self.view,
            message,
        };
        self.happen(id, event);
    }

    fn crash_one(&mut self) {
        let Some(id) = self.some_up() else {
            return;
        };
        if self.setup.persistence == Persistence::Disk || self.may_maim(id) {
            self.crash(id);
        }
    }

    fn start_one(&mut self) {
        let down: Vec<NodeId> = self.setup.node_ids().collect();
        let down: Vec<NodeId> = down
            .into_iter()
            .filter(|id| self.players[id].ordering.is_none())
            .collect();
        if !down.is_empty() {
            let id = *self.random.pick(&down);
            self.start(id);
        }
    }

    /// A link breaks and is connected again, lets nothing pass, or all of a node's messages are late.
    fn disturb(&mut self) {
        let leader = self.leader().filter(|_| self.random.chance(600));
        let Some(one) = leader.or_else(|| self.some_up()) else {
            return;
        };
        let other = *self.random.pick(&self.others(one));
        match self.random.below(5) {
            0 => {
                self.unlink(one, other);
                self.link(one, other);
            }
            1 => {
                self.blocked.insert((one, other));
            }
            2 | 3 => {
                self.slow.insert(one);
            }
            _ => {
                for other in self.others(one) {
                    self.blocked.insert((one, other));
                    self.blocked.insert((other, one));
                }
                // One friend may stay.
                if self.random.chance(500) {
                    let friend = *self.random.pick(&self.others(one));
                    self.blocked.remove(&(one, friend));
                    self.blocked.remove(&(friend, one));
                }
            }
        }
    }

    fn mend(&mut self) {
        if self.random.chance(500) {
            self.blocked.clear();
            self.slow.clear();
        } else if let Some(id) = self.some_up() {
            self.blocked.retain(|(from, to)| *from != id && *to != id);
        }
    }

    /// Whether `id` may lose what it told others: quorums of those who remember remain.
    fn may_maim(&mut self, id: NodeId) -> bool {
        if self.maimed.contains(&id) {
            return true;
        }
        let is_allowed = self.maimed.len() < usize::from(self.setup.losable());
        if is_allowed {
            self.maimed.insert(id);
        }
        is_allowed
    }

    /// Who leads by its own word, in the highest ballot.
    fn leader(&self) -> Option<NodeId> {
        let roles = self.players.iter().filter_map(|(id, player)| {
            let status = player.ordering.as_ref()?.status();
            match status.role {
                Role::Leader { ballot } => Some((ballot, *id)),
                Role::Candidate { .. } | Role::Follower { .. } => None,
            }
        });
        roles.max().map(|(_, id)| id)
    }

    fn up(&self) -> Vec<NodeId> {
        let up = self.players.iter();
        up.filter(|(_, player)| player.ordering.is_some())
            .map(|(id, _)| *id)
            .collect()
    }

    fn some_up(&mut self) -> Option<NodeId> {
        let up = self.up();
        (!up.is_empty()).then(|| *self.random.pick(&up))
    }

    fn others(&self, id: NodeId) -> Vec<NodeId> {
        self.setup.node_ids().filter(|other| *other != id).collect()
    }

    /// Both ends of a link are told that it is up, if both run.
    fn link(&mut self, one: NodeId, other: NodeId) {
        if [one, other].map(|id| self.players[&id].ordering.is_some()) != [true, true] {
            return;
        }
        self.epochs += 1;
        let epoch = LinkEpoch(self.epochs);
        for (id, peer) in [(one, other), (other, one)] {
            self.player(id).links.insert(peer, epoch);
            let state = LinkState::Up(epoch);
            self.happen(id, Event::Link { peer, state });
        }
    }

    /// A link ends; what is late on it may still arrive.
    fn unlink(&mut self, one: NodeId, other: NodeId) {
        let ways = [(one, other), (other, one)];
        self.posted
            .retain(|posted| posted.is_late || !ways.contains(&(posted.from, posted.to)));
        for (id, peer) in ways {
            if self.player(id).links.remove(&peer).is_some() {
                let state = LinkState::Down;
                self.happen(id, Event::Link { peer, state });
            }
        }
    }

    /// Some replica keeps a snapshot, and those who hold one that a majority holds may trim their logs.
    fn snapshot(&mut self) {
        let Some(id) = self.some_up() else {
            return;
        };
        let player = self.player(id);
        player.snapshot = player.executed;
        let (slot, executed) = (player.snapshot, player.executed);
        self.judge.keeps(id, executed);
        let mut kept: Vec<Slot> = self
            .players
            .values()
            .map(|player| player.snapshot)
            .collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let slot = slot.min(kept[self.setup.view().replica_majority() - 1]);
        if slot > Slot::ZERO && self.random.chance(500) {
            if self.collects {
                return self.submit_trim(id, slot);
            }
            // Nobody has objects here: all states are equal.
            let digest = Digest::default();
            self.happen(id, Event::Trimmable { slot, digest });
        }
    }

    /// A node that lacks what others have trimmed gets the newest snapshot.
    fn install(&mut self) {
        let Some(id) = self.some_up() else {
            return;
        };
        let newest = self.players.values().map(|player| player.snapshot).max();
        let slot = newest.unwrap_or(Slot::ZERO);
        let player = self.player(id);
        let Some(wanted) = player.wanted else {
            return;
        };
        if slot < wanted || slot <= player.executed {
            return;
        }
        player.wanted = None;
        player.snapshot = slot;
        player.executed = slot;
        self.judge.keeps(id, slot);
        self.judge.moved(id, slot);
        self.note(Tag::Work, id, || format!("{id} installs {slot}"));
        self.happen(id, Event::Executed { slot });
    }

    fn player(&mut self, id: NodeId) -> &mut Player {
        self.players.get_mut(&id).expect("all nodes play")
    }
}

/// Three to six nodes, sometimes with replicas that do not vote, or with unequal quorums.
fn shape(random: &mut Random) -> Shape {
    let nodes = *random.pick(&[3, 3, 4, 5, 5, 6]);
    let acceptors = if nodes > 3 && random.chance(400) {
        random.between(3, nodes)
    } else {
        nodes
    };
    let majority = acceptors / 2 + 1;
    let phase2 = if random.chance(150) {
        random.between(2, acceptors)
    } else {
        majority
    };
    let phase1 = if phase2 == majority {
        majority
    } else {
        acceptors + 1 - phase2
    };
    Shape {
        nodes: nodes as u16,
        acceptors: acceptors as u16,
        phase1: phase1 as usize,
        phase2: phase2 as usize,
        depth: 1,
        readers: 0,
    }
}

/// The usual spans with elections so many times quicker, and short leases: nobody reads here, and a start keeps to one blindly.
fn timing(quicker: u64) -> Timing {
    let usual = Timing::default();
    Timing {
        election_min: Duration(usual.election_min.0 / quicker),
        election_max: Duration(usual.election_max.0 / quicker),
        lease: Duration::from_millis(5),
        resend: Duration(usual.resend.0 / 4),
        ..usual
    }
}

fn mood(random: &mut Random) -> Mood {
    Mood {
        late: *random.pick(&[10, 50, 150, 300]),
        late_learning: *random.pick(&[0, 500, 900]),
        disorder: *random.pick(&[20, 100, 300]),
        loss: *random.pick(&[0, 10, 50, 150]),
        repeat: *random.pick(&[0, 20, 100]),
        schemes: *random.pick(&[0, 12, 24, 48]),
        stand: *random.pick(&[2, 5, 12, 25]),
        crash: *random.pick(&[0, 2, 6, 15]),
        links: *random.pick(&[0, 5, 20, 40]),
        damage: *random.pick(&[0, 0, 200, 500]),
        late_surveys: 0,
        relapse: 0,
    }
}
