//! The stages of a run: faults, then calm in which everything must work, a power cut of all nodes, and the final check.

use super::clients::Client;
use super::durable::DiskFound;
use super::events::Event;
use super::life::Death;
use super::setup::Setup;
use super::workload::{Drawn, RECORDED};
use super::{Moment, World};
use crate::checkers::Property;
use crate::checkers::memory::Memory;
use quorate_ordering::{Entry, Flow};
use quorate_types::{
    CommandId, Duration, NodeId, ObjectId, OrderingName, Persistence, ReadLevel, Slot, Wall,
};
use std::collections::BTreeSet;

/// Between two looks at how far the run is.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// How long clients go on in calm, and again after the power cut.
const CALM: Duration = Duration::from_millis(2_000);

/// How long all nodes are without power at the end.
const DARK: Duration = Duration::from_millis(300);

/// Clocks that are wrong by hours come up with agreed time; those that are further behind never do, and are not waited for.
const BEHIND_MAX: Duration = Duration::from_millis(24 * 3_600_000);

/// Within this all nodes that run have executed the same.
const CONVERGED_WITHIN: Duration = Duration::from_millis(20_000);

/// Whatever is due in agreed time has happened so long after the newest stamp that is known: takers wait for less.
const PATIENCE: Duration = Duration::from_millis(6_000);

/// A deadline that only a broken promise reaches.
const NEVER: Duration = Duration::from_millis(3_600_000);

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Faults happen, clients work.
    Faults,
    /// Everything is mended, clients work.
    Calm { since: Moment },
    /// Clients wait for their last answers.
    Drain { since: Moment },
    /// All nodes lost power and come back.
    Dark { until: Moment },
    /// Clients work again and read everything.
    Last { since: Moment },
    /// Clients wait for their very last answers; nodes come to one state, within a bound from when those that lag have caught up.
    Settle { since: Moment },
    /// The run has ended.
    Over,
}

impl Stage {
    /// The run goes on.
    pub(super) fn is_working(self) -> bool {
        !matches!(self, Stage::Over)
    }

    /// Faults may begin.
    pub(super) fn is_faulty(self) -> bool {
        self == Stage::Faults
    }

    /// Everything must be answered.
    pub(super) fn is_calm(self) -> bool {
        self != Stage::Faults
    }

    /// Clients may begin operations.
    pub(super) fn wants_operations(self) -> bool {
        matches!(
            self,
            Stage::Faults | Stage::Calm { .. } | Stage::Last { .. }
        )
    }
}

/// The bounds of everything that is sampled.
pub(super) fn bounds(setup: &Setup) -> Memory {
    let mut memory = Memory::default();
    let limits = &setup.limits;
    let nodes = u64::from(setup.nodes);
    memory.bound("commands waiting", 2 * limits.queue_commands as u64 + 64);
    let (credit, bytes) = match limits.flow {
        Flow::Credit | Flow::Blocking(_) => {
            let bytes = limits.credit_bytes as u64 + limits.batch_bytes as u64 + 4096;
            (limits.credit_messages as u64, bytes)
        }
        // What is sent without credit is all that a run orders, at most.
        Flow::Unbounded | Flow::Retry(_) => (1 << 16, 64 << 20),
    };
    memory.bound("bytes in flight to a peer", bytes);
    memory.bound("values in flight to a peer", credit);
    // What is proposed in classic rounds and what is proposed to all have a credit each.
    memory.bound("values of both rounds in flight to a peer", 2 * credit);
    memory.bound("bytes of both rounds in flight to a peer", 2 * bytes);
    memory.bound("bytes of batches held", 4 << 20);
    memory.bound("bytes of log on disk", 16 << 20);
    memory.bound("calls waiting", 64 * setup.clients * nodes + 4096);
    memory.bound("reads waiting", 64 * setup.clients * nodes + 4096);
    memory.bound("sessions", setup.most_sessions());
    memory.bound("bytes of kept replies", setup.most_replies());
    memory
}

impl World {
    pub(super) fn tick(&mut self) {
        self.events.push(self.now + TICK, Event::Tick);
        self.tend_replay();
        let judged = self.judge.liveness.check(self.now.0);
        self.judged(judged);
        self.watch_health();
        self.watch_footprint();
        self.watch_drift();
        self.tend_poison();
        self.tend_skipping();
        if self.stage.is_faulty() {
            self.tend_views();
            self.tend_levels();
        }
        self.tell_reaches();
        match self.stage {
            Stage::Faults if self.now.0 >= self.schedule.until.0 => {
                self.mend();
                self.faults_stopped();
                self.stage = Stage::Calm { since: self.now };
            }
            Stage::Calm { since } if self.now.since(since) >= CALM => {
                self.stage = Stage::Drain { since: self.now };
            }
            Stage::Drain { .. } if self.is_idle() => self.darken(),
            Stage::Drain { since } => self.feed_takers(since),
            Stage::Dark { until } if self.now >= until => {
                self.faults_stopped();
                self.stage = Stage::Last { since: self.now };
                self.read_everything();
            }
            Stage::Last { since } if self.now.since(since) >= CALM => {
                let since = self.now + self.catching_up();
                self.stage = Stage::Settle { since };
            }
            Stage::Settle { since } => self.settle(since),
            _ => {}
        }
        self.tend_freezing();
    }

    fn is_idle(&self) -> bool {
        let mut clients = self.clients.values();
        clients.all(|client| client.open.is_empty() && !client.session.has_given_up())
    }

    /// Nobody works any more: waits until the time of those who wait and named one is over, and gives the others what they wait for.
    fn feed_takers(&mut self, since: Moment) {
        self.feed(since, |client| client.is_waiter, Property::Rendezvous);
        self.feed(since, |client| client.watcher.is_some(), Property::Watching);
    }

    fn feed(&mut self, since: Moment, is_kind: fn(&Client) -> bool, owed: Property) {
        let mut waiters = self.clients.iter().filter(|(_, client)| is_kind(client));
        if !waiters.clone().any(|(_, client)| client.takes() > 0) {
            return;
        }
        if self.is_overdue(since) {
            let detail =
                "calls wait for ever though their time is over or they are given something";
            return self.blame(owed, detail.to_owned());
        }
        let mut open = waiters.clone().flat_map(|(_, client)| client.open.values());
        if open.any(|open| open.takes() && !open.takes_patiently()) {
            return;
        }
        let free = waiters.find(|(_, client)| client.open.len() == client.takes());
        if let Some(number) = free.map(|(number, _)| *number) {
            let client = self.clients.get_mut(&number).expect("found above");
            let drawn = match &mut client.watcher {
                Some(watcher) => watcher.draw_publish(None),
                None => client.workload.draw_offer(0),
            };
            self.begin(number, drawn, NEVER);
        }
    }

    /// Whether everything that was begun must have ended. Agreed time may have been ahead: then what is due waits for the clocks.
    fn is_overdue(&self, since: Moment) -> bool {
        let mut walls = self.nodes.values().map(|node| node.clock.wall(self.now));
        let due = self.judge.agreed_time().0 + PATIENCE.0;
        let comes_up = |wall: Wall| wall.0 <= due && due - wall.0 < BEHIND_MAX.0;
        // Where the table is full, who lost a session waits for a place until that is over.
        let lives = self
            .clients
            .values()
            .map(|client| client.config.terms.expiry.0);
        let longest = CONVERGED_WITHIN.0 + lives.max().unwrap_or(0);
        self.now.since(since).0 > longest && !walls.any(comes_up)
    }

    /// All nodes lose power at once; in memory mode nobody does, for nothing would be left.
    fn darken(&mut self) {
        if self.setup.persistence == Persistence::Memory {
            self.stage = Stage::Last { since: self.now };
            self.read_everything();
            return;
        }
        self.judge.liveness.faults_began();
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        for id in ids {
            self.die(id, Death::PowerCut, DARK);
        }
        self.check_disks();
        self.stage = Stage::Dark {
            until: self.now + DARK,
        };
    }

    fn check_disks(&mut self) {
        // Looks through another pair of eyes: the nodes themselves start later and find the same.
        let alive = self.nodes.values().filter(|node| !node.is_wiped);
        let found: Vec<(NodeId, DiskFound)> = alive
            .filter_map(|node| Some((node.id, node.disks.fork().start().ok()?)))
            .collect();
        let covered = self.covered(&found);
        // A node that lost records is in no quorum before it has heard the others.
        let changes = self.harm.views.is_on();
        let acceptors = self.setup.acceptors();
        let disks: Vec<(NodeId, BTreeSet<CommandId>)> = found
            .iter()
            .filter(|(id, found)| {
                (changes || acceptors.contains(*id))
                    && !found.past.damage.was_found()
                    && !found.has_forgotten
            })
            .map(|(id, found)| (*id, held_commands(&self.judge, found, covered)))
            .collect();
        // Those who vote now learned what others voted for before: all together hold it.
        let quorum = match changes {
            true => disks.len().max(1),
            false => self.setup.quorums.phase1(),
        };
        if disks.len() >= quorum {
            let judged = self.judge.check_disks(&disks, quorum);
            self.judged(judged);
        }
    }

    /// What the snapshots of a majority cover, which lets others trim. A start may begin with an older one than the newest that is
    /// there. A disk that was harmed counts with what it had held: the others of that majority hold it.
    fn covered(&self, found: &[(NodeId, DiskFound)]) -> Slot {
        let newest = |id: NodeId| {
            let found = found.iter().find(|(node, _)| *node == id);
            let there = found.map_or(Slot::ZERO, |(_, found)| found.storage.newest_snapshot());
            let is_harmed = self.harm.maimed.contains(&id);
            there.max(
                self.judge
                    .newest_kept(id)
                    .filter(|_| is_harmed)
                    .unwrap_or_default(),
            )
        };
        let replicas = self.setup.replicas();
        let mut snapshots: Vec<Slot> = replicas.iter().map(newest).collect();
        snapshots.sort_unstable();
        let spare = snapshots.len() - self.judge.least_majority();
        snapshots[spare]
    }

    fn read_everything(&mut self) {
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        for number in clients {
            for object in (0..RECORDED as u32).map(ObjectId) {
                let client = self.clients.get_mut(&number).expect("clients stay");
                let call = client.workload.read_of(object);
                let level = Some(ReadLevel::Confirmed);
                let drawn = Drawn {
                    object,
                    call,
                    level,
                };
                self.begin(number, drawn, NEVER);
            }
        }
    }

    fn settle(&mut self, since: Moment) {
        let states: Vec<(NodeId, Slot, Slot, u64)> = self
            .nodes
            .values()
            .filter_map(|node| {
                let replica = &node.running.as_ref()?.replica;
                let status = replica.status();
                Some((node.id, status.decided, status.executed, status.digest))
            })
            .collect();
        self.feed_takers(since);
        let last = self.judge.last_decided();
        let are_kept = self.has_witnesses_settled();
        let has_converged = states.iter().all(|(_, _, executed, _)| *executed == last) && are_kept;
        let unsettled = self.unsettled();
        let must_heal = self.must_heal();
        if has_converged && self.is_idle() && unsettled.is_empty() && !must_heal {
            self.compare(&states);
            self.note_poison();
            self.stage = Stage::Over;
        } else if self.is_overdue(since) {
            let detail = format!(
                "nodes do not come to {last}: (node, decided, executed, digest) {states:?}; \
                 submitted and neither decided nor refused: {unsettled:?}; objects differ: {must_heal}"
            );
            self.blame(Property::Liveness, detail);
        }
    }

    /// Whether each witness keeps the snapshot that it was after.
    fn has_witnesses_settled(&self) -> bool {
        let mut witnesses = self
            .nodes
            .values()
            .filter(|node| self.setup.is_witness(node.id));
        witnesses.all(|node| {
            let running = node.running.as_ref();
            running.is_none_or(|running| running.replica.awaited_snapshot().is_none())
        })
    }

    /// Commands that somewhere wait for their decision or refusal.
    fn unsettled(&self) -> BTreeSet<CommandId> {
        let running = self.nodes.values().filter_map(|node| node.running.as_ref());
        running
            .flat_map(|running| running.seen.borrow().unsettled.clone())
            .collect()
    }

    fn compare(&mut self, states: &[(NodeId, Slot, Slot, u64)]) {
        let executing = states
            .iter()
            .filter(|(node, ..)| !self.setup.is_witness(*node));
        let digests: BTreeSet<u64> = executing.map(|(.., digest)| *digest).collect();
        let images: BTreeSet<_> = self
            .nodes
            .values()
            .filter(|node| !self.setup.is_witness(node.id))
            .filter_map(|node| Some(node.running.as_ref()?.objects.images()))
            .collect();
        if digests.len() > 1 {
            self.blame(
                Property::Digest,
                format!("digests of replies differ: {states:?}"),
            );
        }
        if images.len() > 1 {
            self.blame(
                Property::Digest,
                "states of objects differ at the end".to_owned(),
            );
        }
    }

    /// Takes samples of a node's sizes.
    pub(super) fn sample(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let status = running.replica.status();
        let peers = &status.ordering.peers;
        let in_flight = peers.iter().map(|peer| peer.in_flight_bytes).max();
        let values = peers.iter().map(|peer| peer.in_flight).max();
        let (applied, sessions) = (status.applied, status.sessions);
        let (bytes_in_flight, values_in_flight) = match running.replica.view().ordering {
            OrderingName::Paxos
            | OrderingName::Libpaxos
            | OrderingName::LibpaxosPlus
            | OrderingName::RingPaxos
            | OrderingName::SPaxos => ("bytes in flight to a peer", "values in flight to a peer"),
            OrderingName::FastPaxos => (
                "bytes of both rounds in flight to a peer",
                "values of both rounds in flight to a peer",
            ),
        };
        let samples = [
            ("commands waiting", status.ordering.waiting as u64),
            (bytes_in_flight, in_flight.unwrap_or(0) as u64),
            (values_in_flight, values.unwrap_or(0) as u64),
            ("bytes of batches held", status.ordering.held_bytes as u64),
            ("bytes of log on disk", running.storage.log.disk_bytes()),
            ("calls waiting", status.waiting as u64),
            ("reads waiting", status.reads as u64),
            ("sessions", status.sessions as u64),
            ("bytes of kept replies", status.kept_bytes as u64),
        ];
        for (quantity, size) in samples {
            let judged = self.memory.sampled(self.now.0, id, quantity, size);
            self.judged(judged);
        }
        self.watch_table(id, applied, sessions);
    }
}

/// The commands that a dead node's disks hold, or that it knows to be in the snapshots of a majority: those reach up to
/// `covered`.
fn held_commands(
    judge: &super::judge::Judge,
    found: &DiskFound,
    covered: Slot,
) -> BTreeSet<CommandId> {
    let trimmed = found
        .past
        .records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Trimmed { upto } => Some(*upto),
            Entry::Promise { .. }
            | Entry::Vote { .. }
            | Entry::Chosen { .. }
            | Entry::Decided { .. }
            | Entry::Agreed { .. } => None,
        });
    let trimmed = trimmed.max().unwrap_or(Slot::ZERO);
    let mut held = judge.commands_upto(found.slot().max(trimmed.min(covered)));
    for record in &found.past.records {
        match &record.entry {
            Entry::Vote { batch, .. } | Entry::Chosen { batch, .. } => {
                held.extend(batch.commands().iter().map(|command| command.id));
            }
            Entry::Promise { .. }
            | Entry::Decided { .. }
            | Entry::Trimmed { .. }
            | Entry::Agreed { .. } => {}
        }
    }
    held
}
