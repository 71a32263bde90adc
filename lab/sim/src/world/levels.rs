//! Nodes of different builds in one group: what each life speaks, links that levels keep apart, and an operator who raises and
//! lowers the level of the group.
//!
//! In some runs only, whose schedule says so: there each start draws anew what the node speaks. A node that ends because of a level,
//! or that others refuse for long, is started with the newest build, as are all towards the end of the faults. The transport's part
//! is played here: who is linked, and who can read what is sent. Levels are those of real builds and one more.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::life::Death;
use super::node::Node;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use crate::checkers::Property;
use crate::checkers::levels::SpokenLives;
use quorate_any::AnyMessage;
use quorate_replica::{Input, PeerMessage};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Duration, FromClient, Level, Levels, NodeId, NodeSet, Persistence, View, ViewChange, ViewNumber,
};
use quorate_wire::peer_level;
use std::collections::BTreeMap;

/// The levels that the operator asks for.
const ASKED: [Level; 9] = [
    Level(19),
    Level(20),
    Level(21),
    Level::WITNESSES,
    Level::SPREAD_VALUES,
    Level::BROADCAST,
    Level::EARLY,
    Level::FIRST_BALLOT,
    Level::LIMITS,
];

/// Before the faults stop, all nodes become of the newest build, and nobody asks for levels any more.
const LAST: Duration = Duration::from_millis(3_000);

/// A node that ends for a level is started again after this, by somebody who reads why.
const STARTED_AGAIN: Duration = Duration::from_millis(300);

/// How late a node may believe that another one is still linked, beyond the network's patience.
const BELIEVED: Duration = Duration::from_millis(2_000);

/// Who speaks what, and who asks for levels.
#[derive(Debug, Default)]
pub(super) struct Upgrading {
    random: Option<Random>,
    due: Moment,
    until: Moment,
    /// The place in `ASKED` of the level to which the operator brings the group.
    wanted: usize,
    lives: SpokenLives,
    /// When each level was asked for first, of the view after which it would be.
    asked: BTreeMap<(ViewNumber, Level), Moment>,
}

impl Upgrading {
    /// What follows from the seed, where levels are told apart.
    pub(super) fn new(is_on: bool, seed: u64, until: Duration) -> Upgrading {
        Upgrading {
            random: is_on.then(|| Random::new(seed, "levels", 0)),
            until: Moment(until.0.saturating_sub(LAST.0)),
            ..Upgrading::default()
        }
    }
}

impl Setup {
    /// Whether logs are trimmed for decided commands in this run, whose nodes are all of one build.
    pub(super) fn draw_collects(&self) -> bool {
        let is_drawn = Random::new(self.seed, "collects", 0).chance(650);
        is_drawn && !self.draw_levels()
    }

    /// Whether nodes of this run are of different builds: one in memory that is started with another build has lost its votes.
    pub(super) fn draw_levels(&self) -> bool {
        let is_drawn = Random::new(self.seed, "builds", 0).chance(160);
        is_drawn && self.persistence == Persistence::Disk && self.pace.is_none()
    }
}

/// The newest build speaks all.
fn newest() -> Levels {
    builds()[ASKED.len() - 1]
}

fn builds() -> [Levels; ASKED.len()] {
    let upto = |newest| Levels::new(ASKED[0], newest).expect("ascending");
    ASKED.map(upto)
}

impl Node {
    fn is_fit_for(&self, level: Level) -> bool {
        self.speaks.has(level) || planted(Plant::BelowLevelTakesPart)
    }
}

impl World {
    /// Whether nodes are of different builds in this run.
    pub(super) fn tells_levels(&self) -> bool {
        self.upgrading.random.is_some()
    }

    /// A node is about to start: with this build.
    pub(super) fn draw_build(&mut self, id: NodeId) {
        let (now, until) = (self.now, self.upgrading.until);
        let Some(random) = &mut self.upgrading.random else {
            return;
        };
        let drawn = match random.chance(300) {
            true => *random.pick(&builds()),
            false => builds()[self.upgrading.wanted],
        };
        let node = self.nodes.node(id);
        let chosen = node.next_build.take().unwrap_or(drawn);
        node.speaks = if now >= until { newest() } else { chosen };
        let speaks = node.speaks;
        self.upgrading.lives.begins(id, now.0, speaks);
        self.judge.speaks(id, speaks);
    }

    /// Whether a node's build cannot go on from a view that its directory has. Then it ends, and another build is started.
    pub(super) fn is_unfit(&mut self, id: NodeId, view: &View) -> bool {
        if self.nodes[&id].is_fit_for(view.level) || !self.tells_levels() {
            return false;
        }
        self.exercised(Row::BuildBelowLevel);
        let node = self.node(id);
        node.next_build = Some(newest());
        node.disks.crash(|outcomes| outcomes - 1);
        let at = self.now + STARTED_AGAIN;
        self.events.push(at, Event::Start { node: id });
        true
    }

    /// A node is in a view whose level it does not speak.
    pub(super) fn ends_below_level(&mut self, id: NodeId) {
        self.exercised(Row::BuildBelowLevel);
        self.start_build(id, newest());
    }

    /// A node is started again with another build.
    fn start_build(&mut self, id: NodeId, build: Levels) {
        self.node(id).next_build = Some(build);
        self.die(id, Death::Killed, STARTED_AGAIN);
    }

    /// Says whether levels keep two nodes from a link. The one that is refused for long is started with the newest build.
    pub(super) fn refuse_levels(&mut self, one: NodeId, other: NodeId) -> bool {
        if !self.tells_levels() {
            return false;
        }
        for (asks, id) in [(one, other), (other, one)] {
            let Some(level) = self.level_asked(asks) else {
                continue;
            };
            if self.nodes[&id].is_fit_for(level) {
                continue;
            }
            self.exercised(Row::LinkBelowLevel);
            self.is_refused(id);
            return true;
        }
        false
    }

    /// Others do not take what a node speaks. It ends sooner or later, because most of them say so; somebody reads why.
    fn is_refused(&mut self, id: NodeId) {
        let is_calm = self.stage.is_calm();
        let random = self.upgrading.random.as_mut();
        if is_calm || random.is_some_and(|random| random.chance(60)) {
            self.start_build(id, newest());
        }
    }

    fn level_asked(&self, id: NodeId) -> Option<Level> {
        let running = self.nodes[&id].running.as_ref()?;
        Some(running.replica.level_asked().0)
    }

    /// Two nodes are about to be linked: each hears which start of the other it is, and what it speaks.
    pub(super) fn greet(&mut self, one: NodeId, other: NodeId) {
        for (id, peer) in [(one, other), (other, one)] {
            let other = &self.nodes[&peer];
            let levels = other.speaks;
            if let Some(boot) = other.running.as_ref().map(|running| running.boot) {
                self.hand_in(id, Input::Greeted { peer, boot, levels });
            }
        }
    }

    /// After a turn of a node: it ends the links to those that do not speak what it asks for.
    pub(super) fn follow_level(&mut self, id: NodeId) {
        let Some(level) = self.level_asked(id).filter(|_| self.tells_levels()) else {
            return;
        };
        let peers: Vec<NodeId> = self.nodes.ids().filter(|peer| *peer != id).collect();
        for peer in peers {
            let is_linked = self.network.epoch(id, peer).is_some();
            if is_linked && !self.nodes[&peer].is_fit_for(level) {
                self.break_link(id, peer);
            }
        }
    }

    /// Those of `to` that can read a message of `from`; the others lose their links.
    pub(super) fn readers(
        &mut self,
        from: NodeId,
        to: NodeSet,
        message: &PeerMessage<AnyMessage>,
    ) -> NodeSet {
        if !self.tells_levels() {
            return to;
        }
        let level = peer_level(message);
        let (mut readers, mut cannot) = (NodeSet::empty(), Vec::new());
        for node in to.iter() {
            match self.nodes[&node].speaks.newest() >= level {
                true => drop(readers.insert(node)),
                false if planted(Plant::UnreadableSent) => drop(readers.insert(node)),
                false => cannot.push(node),
            }
        }
        for node in cannot {
            self.exercised(Row::UnreadableKept);
            self.break_link(from, node);
            self.is_refused(node);
        }
        readers
    }

    /// Whether a node reads what has arrived; nobody may send it what it does not. A copy that comes late finds another build.
    pub(super) fn reads(
        &mut self,
        (from, to): (NodeId, NodeId),
        message: &PeerMessage<AnyMessage>,
        is_stray: bool,
    ) -> bool {
        let (level, speaks) = (peer_level(message), self.nodes[&to].speaks);
        if !self.tells_levels() || level <= speaks.newest() {
            return true;
        }
        if !is_stray {
            let detail =
                format!("{to} speaks {speaks} and {from} sends it what is of level {level}");
            self.blame(Property::LevelSpoken, detail);
        }
        false
    }

    /// The views of a snapshot that a node takes over are of levels that it speaks.
    pub(super) fn check_snapshot_levels(&mut self, id: NodeId, views: &[&View]) {
        let speaks = self.nodes[&id].speaks;
        let above = views.iter().find(|view| view.level > speaks.newest());
        if let Some(view) = above.filter(|_| self.tells_levels()) {
            let detail = format!("{id} speaks {speaks} and is given a snapshot with {view:?}");
            self.blame(Property::LevelSpoken, detail);
        }
    }

    /// The operator, who is about to bring the group to a level, asks for it or starts a node with the build of that level, if it is
    /// time.
    pub(super) fn tend_levels(&mut self) {
        let now = self.now;
        if now >= self.upgrading.until || self.upgrading.due > now {
            return;
        }
        let awake: Vec<NodeId> = (self.setup.node_ids())
            .filter(|id| self.nodes[id].is_awake())
            .collect();
        let Some(random) = self.upgrading.random.as_mut().filter(|_| !awake.is_empty()) else {
            return;
        };
        self.upgrading.due = now + random.millis(50, 700);
        if random.chance(70) {
            self.upgrading.wanted = random.between(0, ASKED.len() as u64 - 1) as usize;
        }
        let wanted = self.upgrading.wanted;
        let (asked, level, build) = (*random.pick(&awake), ASKED[wanted], builds()[wanted]);
        // Most operators lower the level before they go back to an older build.
        let running = self.nodes[&asked].running.as_ref();
        let is_early = running.is_some_and(|up| !build.has(up.replica.view().level));
        let mut other = awake.iter().filter(|id| {
            let node = &self.nodes[*id];
            node.speaks != build && node.doom.is_none()
        });
        if let Some(other) = other.next().copied()
            && random.chance(if is_early { 60 } else { 500 })
        {
            self.exercised(Row::OtherBuild);
            return self.start_build(other, build);
        }
        let Some(running) = &self.nodes[&asked].running else {
            return;
        };
        let view = running.replica.view();
        if view.level == level {
            return;
        }
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        let first = self.upgrading.asked.entry((change.after, level));
        first.or_insert(now);
        let random = self.upgrading.random.as_mut().expect("asked above");
        let hasty = if random.chance(250) {
            random.between(1, 2)
        } else {
            0
        };
        self.ask_operator((asked, Some(change)), |request| FromClient::SetLevel {
            request,
            change,
            level,
        });
        // Somebody starts others with the oldest build before it is decided.
        let others = awake.iter().filter(|id| **id != asked);
        for other in others.take(hasty as usize) {
            if self.nodes[other].doom.is_none() {
                self.start_build(*other, builds()[0]);
            }
        }
    }

    /// Levels that were decided since the last look: every member speaks them, or did when somebody asked.
    pub(super) fn check_levels(&mut self) {
        for (number, before, level) in self.judge.take_levels() {
            let after = ViewNumber(number.0 - 1);
            let asked = self.upgrading.asked.get(&(after, level)).copied();
            let believed = self.network.patience().0 + BELIEVED.0;
            let since = asked.unwrap_or_default().0.saturating_sub(believed);
            let members = self.judge.governing(number).members;
            let judged = self.upgrading.lives.set(level, members, since);
            self.judged(judged);
            self.exercised(match level > before {
                true => Row::LevelRaised,
                false => Row::LevelLowered,
            });
        }
    }
}
