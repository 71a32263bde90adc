//! The configuration of a group in one run: everything that the seed determines, except faults.
//!
//! Limits are small on purpose: windows fill, snapshots are taken and logs trimmed many times in half a simulated minute.

use super::random::Random;
use super::shape::Shape;
use quorate_ordering::{Limits, Timing};
use quorate_replica::{CheckpointPolicy, KeptLimits};
use quorate_types::{
    Duration, GroupLimits, Incarnation, Level, Member, NodeId, NodeSet, ObjectSpec, OrderingName,
    Persistence, Quorums, SessionTerms, Slot, Value, View, ViewNumber,
};
use std::collections::BTreeMap;

/// The configuration of one run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The seed it follows from.
    pub seed: u64,
    /// How many nodes; their ids begin at 1.
    pub nodes: u16,
    /// How many of them vote, the first ones.
    pub acceptors: u16,
    /// How many of those are witnesses, the last ones.
    pub witnesses: u16,
    /// How many slots replicas execute ahead of decisions.
    pub speculation: usize,
    /// How many acceptors each phase needs.
    pub quorums: Quorums,
    /// Whether votes are on disk.
    pub persistence: Persistence,
    /// The level of the first view, and how it orders commands.
    pub ordering: (Level, OrderingName),
    /// How many clients work.
    pub clients: u64,
    /// Clients beside them that only call the queue.
    pub waiters: u64,
    /// Clients beside all those that watch the feed, which no group without them has.
    pub watchers: u64,
    /// Spans of the ordering.
    pub timing: Timing,
    /// Bounds of the ordering.
    pub limits: Limits,
    /// ω.
    pub window: u64,
    /// When snapshots are due.
    pub checkpoints: CheckpointPolicy,
    /// The expiry time of most sessions: the other clients draw their own.
    pub session_expiry: Duration,
    /// Sessions that may be open at a time.
    pub sessions_max: usize,
    /// Bytes of replies that sessions keep; so few in some runs that replies are dropped.
    pub kept: KeptLimits,
    /// The network without faults.
    pub network: NetworkSetup,
    /// The disks without faults.
    pub disk: DiskSetup,
    /// How fast objects are.
    pub objects: ObjectsSetup,
    /// What clients do.
    pub load: LoadSetup,
    /// The mean time between two requests of an operator for another view, who moves members too; none: as the seed says.
    pub pace: Option<Duration>,
}

/// How links behave between faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkSetup {
    /// Shortest way of a message.
    pub latency_min: Duration,
    /// Longest way of most messages.
    pub latency_max: Duration,
    /// Messages in a thousand that take up to fifty times as long, until faults stop: elections have a patience of some
    /// hundred milliseconds, and no leader lasts where every quorum waits for seconds now and then.
    pub late_per_mille: u64,
    /// Whether messages of one link and lane keep their order.
    pub is_fifo: bool,
    /// Whether a silent partition keeps messages for its end, as a socket buffer does, or loses them.
    pub is_holding: bool,
    /// Copies in a thousand messages that arrive seconds later, whatever became of the link.
    pub stray_per_mille: u64,
    /// How long a link may be silent before both ends give it up.
    pub patience: Duration,
}

/// How long commits take between faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskSetup {
    /// The quickest.
    pub commit_min: Duration,
    /// The slowest.
    pub commit_max: Duration,
}

/// How long objects take.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectsSetup {
    /// The longest time that the work of one slot takes; zero: it is done at once.
    pub work_max: Duration,
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadSetup {
    /// Operations in flight at one client.
    pub depth: u64,
    /// The longest time that a client thinks.
    pub think_max: Duration,
    /// Reads in a thousand operations.
    pub reads_per_mille: u64,
    /// The first so many clients only read.
    pub readers: u64,
    /// Sent calls in a thousand that are sent again later, to any node, on a connection of their own.
    pub ghosts_per_mille: u64,
}

impl NetworkSetup {
    /// The longest way of any message between faults.
    pub(super) fn slowest(&self) -> Duration {
        let times = if self.late_per_mille > 0 { 50 } else { 1 };
        Duration(self.latency_max.0 * times)
    }
}

impl Setup {
    /// The configuration that follows from `seed`.
    // Longer than a screen: one line a field.
    pub(super) fn from_seed(seed: u64) -> Setup {
        let mut random = Random::new(seed, "setup", 0);
        let r = &mut random;
        let nodes = if r.chance(750) { 3 } else { 5 };
        let persistence = match r.chance(800) {
            true => Persistence::Disk,
            false => Persistence::Memory,
        };
        let clients = r.between(2, 6);
        let limits = limits(r);
        Setup {
            seed,
            nodes,
            acceptors: nodes,
            witnesses: 0,
            speculation: 0,
            quorums: Quorums::majority(usize::from(nodes)).expect("there are nodes"),
            persistence,
            ordering: (Level::UNNAMED, OrderingName::Paxos),
            clients,
            waiters: 0,
            watchers: 0,
            timing: timing(r),
            window: limits.pipeline as u64 + r.between(0, 56),
            limits,
            checkpoints: CheckpointPolicy {
                commands: r.between(10, 200),
                bytes: r.between(0, 4000),
                bytes_large: 16 << 10,
                image_percent: 100,
                bytes_dear: 4000,
                commands_hard: r.between(200, 2000),
                bytes_hard: 64 << 10,
                // The blocks of these logs are as small as their batches.
                slot_bytes: 0,
                execution: execution(seed),
            },
            session_expiry: r.millis(3000, 20_000),
            sessions_max: if r.chance(250) {
                clients as usize
            } else {
                clients as usize + 64
            },
            kept: kept(seed),
            network: network(r),
            disk: if r.chance(500) {
                DiskSetup {
                    commit_min: Duration::from_micros(50),
                    commit_max: Duration::from_micros(300),
                }
            } else {
                DiskSetup {
                    commit_min: Duration::from_micros(200),
                    commit_max: r.millis(1, 12),
                }
            },
            objects: ObjectsSetup {
                work_max: if r.chance(500) {
                    Duration::ZERO
                } else {
                    r.micros(100, 5000)
                },
            },
            load: LoadSetup {
                depth: r.between(1, 5),
                think_max: r.millis(20, 200),
                reads_per_mille: r.between(100, 600),
                readers: 0,
                ghosts_per_mille: *r.pick(&[0, 20, 100]),
            },
            pace: None,
        }
    }

    /// How many clients wait for each other: some in half of the runs. Nobody does where so few replies are kept that an answer may
    /// go before its taker has heard it.
    pub(super) fn draw_waiters(&self) -> u64 {
        let mut random = Random::new(self.seed, "waiters", 0);
        if random.chance(500) && self.kept == KeptLimits::default() {
            random.between(1, 3)
        } else {
            0
        }
    }

    /// How many clients watch the feed: some in a seventh of the runs, for their calls cost time. As for those who wait, no answer
    /// may go before it is heard.
    pub(super) fn draw_watchers(&self) -> u64 {
        let mut random = Random::new(self.seed, "watchers", 0);
        if random.chance(250) && self.kept == KeptLimits::default() {
            *random.pick(&[2, 2, 3, 4])
        } else {
            0
        }
    }

    /// How many clients there are of all kinds.
    pub(super) fn all_clients(&self) -> u64 {
        self.clients + self.waiters + self.watchers
    }

    /// What a client asks of its sessions.
    pub(super) fn draw_terms(&self, client: u64) -> SessionTerms {
        let mut random = Random::new(self.seed, "terms", client);
        let expiry = if random.chance(700) {
            self.session_expiry
        } else {
            random.millis(1000, 15_000)
        };
        // Half of the clients ask for an earlier end when they die, most of them for the earliest.
        let mut random = Random::new(self.seed, "disconnect", client);
        let (shortest, longest) = (SessionTerms::EXPIRY_MIN.as_millis(), expiry.as_millis());
        let is_short = random.chance(500) && longest > shortest;
        let short = match random.chance(700) {
            true => SessionTerms::EXPIRY_MIN,
            false => random.millis(shortest, longest.max(shortest)),
        };
        SessionTerms {
            expiry,
            on_disconnect: is_short.then_some(short),
        }
    }

    /// The longest expiry time of all clients.
    pub(super) fn expiry_max(&self) -> Duration {
        let clients = 1..=self.all_clients();
        let expiries = clients.map(|client| self.draw_terms(client).expiry);
        expiries.max().unwrap_or(self.session_expiry)
    }

    /// All nodes.
    pub(super) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.nodes).map(NodeId)
    }

    /// Gives the group and its load another shape.
    pub(super) fn reshape(&mut self, shape: &Shape) {
        let Shape { phase1, phase2, .. } = *shape;
        self.nodes = shape.nodes;
        self.acceptors = shape.acceptors;
        self.quorums = Quorums::flexible(usize::from(shape.acceptors), phase1, phase2)
            .expect("a schedule's quorums meet");
        self.load.depth = shape.depth;
        self.load.readers = shape.readers;
    }

    /// How far objects go ahead of decisions: in a third of the runs, as a rule by few slots.
    pub(super) fn draw_speculation(&self) -> usize {
        let mut random = Random::new(self.seed, "speculation", 0);
        if random.chance(330) {
            *random.pick(&[1, 2, 4, 4, 16, 64])
        } else {
            0
        }
    }

    /// How many witnesses there are: some in an eighth of the runs, with at least as many replicas.
    pub(super) fn draw_witnesses(&self) -> u16 {
        let mut random = Random::new(self.seed, "witnesses", 0);
        let is_drawn = random.chance(180) && self.acceptors >= 2 && !self.draw_levels();
        match is_drawn {
            true => random.between(1, u64::from(self.acceptors) / 2) as u16,
            false => 0,
        }
    }

    /// Whether a node has no objects.
    pub(super) fn is_witness(&self, id: NodeId) -> bool {
        (self.acceptors - self.witnesses + 1..=self.acceptors).contains(&id.0)
    }

    /// All nodes that execute.
    pub(super) fn replicas(&self) -> NodeSet {
        self.node_ids().filter(|id| !self.is_witness(*id)).collect()
    }

    /// All nodes that vote.
    pub(super) fn acceptors(&self) -> NodeSet {
        (1..=self.acceptors).map(NodeId).collect()
    }

    /// How many acceptors may be without a vote for ever.
    pub(super) fn losable(&self) -> u16 {
        let needed = self.quorums.phase1().max(self.quorums.phase2());
        self.acceptors - needed as u16
    }

    /// The one view of the run.
    pub(super) fn view(&self) -> View {
        View {
            first_ballot: None,
            limits: GroupLimits::default(),
            number: ViewNumber(1),
            first_slot: Slot(1),
            members: self
                .node_ids()
                .map(|node| Member {
                    node,
                    incarnation: founding(node),
                    address: node.to_string(),
                })
                .collect(),
            replicas: self.replicas(),
            acceptors: self.acceptors(),
            quorums: self.quorums,
            window: self.window,
            rejoined: BTreeMap::new(),
            level: self.ordering.0,
            ordering: self.ordering.1,
            persistence: self.persistence,
            objects: super::workload::OBJECTS
                .iter()
                .filter(|(_, class)| *class != "feed" || self.watchers > 0)
                .map(|(name, class)| ObjectSpec {
                    name: (*name).to_owned(),
                    class: format!("rust:{class}"),
                    arguments: Value::new(),
                })
                .collect(),
        }
    }
}

/// The incarnation with which a node's first directory is made.
pub(super) fn founding(node: NodeId) -> Incarnation {
    Incarnation(u64::from(node.0))
}

fn execution(seed: u64) -> Duration {
    let mut random = Random::new(seed, "execution", 0);
    match random.chance(500) {
        true => Duration(u64::MAX),
        false => random.millis(20, 2_000),
    }
}

fn kept(seed: u64) -> KeptLimits {
    let mut random = Random::new(seed, "kept", 0);
    if random.chance(600) {
        return KeptLimits::default();
    }
    // A reply of these objects takes a few bytes.
    let session_bytes = random.between(8, 40) as usize;
    KeptLimits {
        counted_min: *Random::new(seed, "counted", 0).pick(&[1, 1, 2, 3]),
        session_bytes,
        group_bytes: session_bytes * random.between(1, 4) as usize,
    }
}

fn timing(r: &mut Random) -> Timing {
    let usual = Timing::default();
    if r.chance(700) {
        return usual;
    }
    let percent = r.between(60, 250);
    scaled_timing(percent)
}

/// The usual spans, longer or shorter.
pub(super) fn scaled_timing(percent: u64) -> Timing {
    let usual = Timing::default();
    let scaled = |span: Duration| Duration(span.0 * percent / 100);
    Timing {
        heartbeat: scaled(usual.heartbeat),
        attended: scaled(usual.attended),
        election_min: scaled(usual.election_min),
        election_max: scaled(usual.election_max),
        retry_min: scaled(usual.retry_min),
        retry_max: scaled(usual.retry_max),
        lease: scaled(usual.lease),
        clock_drift_ppm: usual.clock_drift_ppm,
        announce: scaled(usual.announce),
        gap: scaled(usual.gap),
        resend: scaled(usual.resend),
        submit: scaled(usual.submit),
        read: scaled(usual.read),
    }
}

/// Where many calls are large: between the weights of the workload's calls.
const LARGE_BYTES: usize = 76;

fn limits(r: &mut Random) -> Limits {
    let batch_commands = r.between(1, 32) as usize;
    let batch_bytes = r.between(1, 8) as usize * 1024;
    let pipeline = r.between(1, 8) as usize;
    // In a quarter of the seeds many calls are large.
    let is_cut = batch_bytes % 4096 == 1024;
    Limits {
        batch_commands,
        batch_bytes,
        large_bytes: if is_cut { LARGE_BYTES } else { 32 << 10 },
        pipeline,
        pipeline_large: 4 * pipeline,
        queue_commands: r.between(64, 1024) as usize,
        queue_bytes: 1 << 20,
        credit_messages: r.between(2, 64) as usize,
        credit_bytes: r.between(4, 64) as usize * 1024,
        chunk_bytes: r.between(1, 16) as usize * 1024,
        chunk_slots: r.between(1, 64) as usize,
        resend: r.between(1, 16) as usize,
        reads: r.between(16, 256) as usize,
        epochs: r.between(1, 4) as usize,
        ..Limits::default()
    }
}

fn network(r: &mut Random) -> NetworkSetup {
    let is_near = r.chance(700);
    NetworkSetup {
        latency_min: Duration::from_micros(if is_near { 20 } else { 1000 }),
        latency_max: if is_near {
            r.micros(60, 1000)
        } else {
            r.millis(2, 30)
        },
        late_per_mille: *r.pick(&[0, 1, 10]),
        is_fifo: r.chance(600),
        is_holding: r.chance(500),
        stray_per_mille: *r.pick(&[0, 0, 2, 10]),
        patience: r.millis(500, 4000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::recorded::Call;
    use crate::world::workload::payload;
    use quorate_types::{Body, Command, CommandId, ObjectId, SessionId};

    #[test]
    fn some_calls_of_the_workload_are_large_where_calls_are_cut_and_some_are_not() {
        let weight = |call: &Call| {
            let (session, sequence) = (SessionId(1), 1);
            let object = ObjectId(0);
            let payload = payload(call);
            Command {
                id: CommandId { session, sequence },
                acknowledged: 0,
                body: Body::Call { object, payload },
            }
            .weight()
        };
        let put = Call::Put("k1".to_owned(), 3_000_017.into());
        let (small, large) = (weight(&Call::Add(5)), weight(&put));
        assert!(
            small < LARGE_BYTES && large >= LARGE_BYTES,
            "{small}, {large}"
        );
    }
}
