//! The seeded world: nodes, disks, links, clocks and clients in one thread and in virtual time.
//!
//! A [`World`] is made from a [`Schedule`] and runs to its end or to the first broken property. Every choice comes from
//! the seed, so a run repeats to the last bit. The nodes are the real replica, ordering, log, snapshots and wire formats;
//! only what a computer would do for them is simulated. Called by the bins and tests of this crate.

mod adversary;
mod announcing;
mod clients;
mod clock;
mod damage;
mod diverging;
mod durable;
mod early;
mod ends;
mod events;
mod fault;
mod fault_text;
mod faults;
mod feed;
mod freezing;
mod generate;
mod grouping;
mod harm;
mod hearing;
mod hours;
mod judge;
mod keeping;
mod lag;
mod leading;
mod ledger;
mod levels;
mod life;
mod limit_asking;
mod links;
mod log_thread;
mod moving;
mod multicasting;
mod network;
mod node;
mod notes;
mod objects;
mod orderings;
mod outputs;
mod poison;
mod prompt;
mod quiet;
mod quorum_asking;
mod random;
mod reply_ledger;
mod row;
mod run;
mod schedule;
mod serve;
pub(crate) mod setup;
mod shape;
mod shrink;
mod sightings;
mod skipping;
mod speculating;
mod stages;
mod stall;
mod stamping;
mod trace;
mod view_changing;
mod watched;
mod watchers;
mod workload;
mod writing;

pub use clock::Moment;
pub use fault::{BadCall, Fault, KillStep, Lost, Part, Who};
pub use hours::run_hours;
pub use row::{Exercised, QUOTA_SEEDS, Row};
pub use run::{
    Failure, Report, has_witnesses, run, run_nodes, run_orderings, run_seed, speculates,
};
pub use schedule::{Schedule, ScheduleError, Timed};
pub use shape::Shape;
pub use shrink::shrink;
pub use trace::Telling;

use crate::checkers::Violation;
use crate::checkers::footprint::Footprint;
use crate::checkers::liveness::Liveness;
use crate::checkers::memory::Memory;
use clients::{Client, Connection};
use clock::Clock;
use early::EarlyWords;
use events::{Event, Events};
use harm::Harm;
use judge::Judge;
use keeping::Keeping;
use leading::Leading;
use levels::Upgrading;
use multicasting::Multicasting;
use network::Network;
use node::{Node, Nodes};
use prompt::Prompt;
use quiet::{Quiet, Rest};
use quorate_replica::limits as replica_limits;
use quorate_session::{ClientSession, Preference, SessionConfig};
use quorate_types::{ConnectionId, Duration, Level, NodeId};
use quorate_wire::SPEAKS;
use random::Random;
use setup::{Setup, founding};
use sightings::Sightings;
use stages::Stage;
use std::collections::{BTreeMap, BTreeSet};
use trace::Trace;
use watchers::Watcher;
use workload::Workload;

/// Everything of one run.
pub struct World {
    now: Moment,
    setup: Setup,
    schedule: Schedule,
    events: Events,
    nodes: Nodes,
    network: Network,
    multicasting: Multicasting,
    clients: BTreeMap<u64, Client>,
    connections: BTreeMap<ConnectionId, Connection>,
    connections_made: u64,
    judge: Judge,
    leading: Leading,
    prompt: Prompt,
    keeping: Keeping,
    quiet: Quiet,
    memory: Memory,
    /// What nodes keep over hours; none in runs that are shorter.
    footprint: Option<Footprint>,
    stage: Stage,
    /// What nodes have to execute since faults stopped.
    replay: Option<lag::Replay>,
    harm: Harm,
    sightings: Sightings,
    early: EarlyWords,
    upgrading: Upgrading,
    trace: Trace,
    /// The first broken property: nothing happens after it.
    broken: Option<Violation>,
    random: Random,
    turns: u64,
}

/// Once faults stop, an operation ends within this: a few silences of a client, elections and a fetched snapshot.
const LIVE_WITHIN: Duration = Duration::from_millis(5_000);

/// A place in a full table of sessions comes free when one expires that nobody uses: after the whole expiry time under one
/// leader, which looks often, dates what it applied last by its next look, and ends it by the one after; and it counts time only
/// once it knows that a quorum heard it.
fn liveness(setup: &Setup) -> Liveness {
    let (sweep, gap) = (replica_limits::SWEEP_EVERY.0, replica_limits::SERVED_GAP.0);
    Liveness::new(LIVE_WITHIN.0, setup.expiry_max().0 + 3 * sweep + 4 * gap)
}

impl World {
    /// The world of `schedule`, at its beginning.
    pub fn new(schedule: Schedule, telling: Telling) -> World {
        let mut setup = Setup::from_seed(schedule.seed);
        if let Some(shape) = &schedule.shape {
            setup.reshape(shape);
        }
        if let Some(clients) = schedule.clients {
            // A full table opens no session: clients beyond its size would never get one.
            setup.sessions_max += clients.saturating_sub(setup.clients) as usize;
            setup.clients = clients;
        }
        (setup.waiters, setup.watchers) = (schedule.waiters, schedule.watchers);
        setup.draw_steps();
        if schedule.policies {
            setup.draw_policies();
        }
        if !schedule.levels {
            setup.ordering = setup.draw_ordering(schedule.ordering);
        }
        setup.draw_multicast();
        setup.sessions_max += (schedule.waiters + schedule.watchers) as usize;
        if schedule.collects {
            setup.ordering.0 = setup.ordering.0.max(Level::COLLECTED);
        }
        setup.witnesses = schedule.witnesses;
        setup.speculation = schedule.speculation;
        if setup.witnesses > 0 {
            setup.ordering.0 = setup.ordering.0.max(Level::WITNESSES);
        }
        setup.ask_quorums();
        setup.ask_limits();
        World::of(setup, schedule, telling)
    }

    /// The world of `schedule` in which everything else is as `setup` says.
    fn of(mut setup: Setup, schedule: Schedule, telling: Telling) -> World {
        let quiet = Quiet::draw(&mut setup);
        let seed = setup.seed;
        let mut world = World {
            now: Moment::default(),
            events: Events::default(),
            nodes: Nodes::default(),
            network: Network::new(setup.network, Random::new(seed, "network", 0)),
            multicasting: Multicasting::new(&setup),
            clients: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            judge: Judge::new(liveness(&setup), &setup.view()),
            leading: Leading::new(&setup),
            prompt: Prompt::new(&setup),
            keeping: Keeping::new(&setup),
            quiet,
            memory: stages::bounds(&setup),
            stage: Stage::Faults,
            replay: None,
            harm: Harm::new(view_changing::ViewChanging::new(&setup)),
            footprint: None,
            sightings: Sightings::default(),
            early: EarlyWords::default(),
            upgrading: Upgrading::new(schedule.levels, seed, schedule.until),
            trace: Trace::new(telling),
            broken: None,
            random: Random::new(seed, "world", 0),
            turns: 0,
            schedule,
            setup,
        };
        let kept = world.setup.kept;
        world.judge.sessions_keep(kept.session_bytes as u64);
        world.judge.keeps_replies(kept, world.setup.sessions_max);
        world.note_shape();
        world.make_nodes();
        world.make_clients();
        for index in 0..world.schedule.faults.len() {
            let at = world.schedule.faults[index].at;
            world.events.push(at, Event::FaultBegins(index));
        }
        world.events.push(Moment::default(), Event::Tick);
        world
    }

    fn make_nodes(&mut self) {
        let drift_max = self.setup.timing.clock_drift_ppm as i64;
        for id in self.setup.node_ids() {
            let mut random = Random::new(self.setup.seed, "node", u64::from(id.0));
            let drift = random.below(2 * drift_max as u64 + 1) as i64 - drift_max;
            let wall_ms = random.below(4000) as i64 - 2000;
            let clock = Clock::new(random.millis(0, 5_000_000), drift, wall_ms);
            let node = Node {
                quarantine: None,
                notes: notes::Notes::default(),
                answered: quorate_types::Slot::ZERO,
                id,
                disks: durable::Disks::init(id.0, founding(id), self.setup.persistence),
                clock,
                life: 0,
                running: None,
                is_wiped: false,
                is_new: false,
                known: None,
                is_old_copy: false,
                speaks: SPEAKS,
                next_build: None,
                paused: 0,
                stall_due: None,
                stalled: None,
                bad_call: BadCall::Write,
                felt: std::collections::BTreeSet::new(),
                isolated: 0,
                hung: 0,
                full: 0,
                slow: Duration::ZERO,
                doom: None,
                random,
            };
            self.nodes.add(node);
            self.watch_clock(id);
            let at = Moment(self.random.millis(0, 100).0);
            self.events.push(at, Event::Start { node: id });
        }
    }

    fn make_clients(&mut self) {
        let addresses: Vec<String> = self.setup.node_ids().map(|node| node.to_string()).collect();
        let watching_from = self.setup.clients + self.setup.waiters;
        for number in 1..=self.setup.all_clients() {
            let mut random = Random::new(self.setup.seed, "client", number);
            let config = SessionConfig {
                preference: if number > self.setup.load.readers && random.chance(700) {
                    Preference::Leader
                } else {
                    Preference::Anyone
                },
                silence: Duration::from_millis(*random.pick(&[250, 250, 1000, 4000])),
                terms: self.setup.draw_terms(number),
                ..SessionConfig::default()
            };
            let nonce = random.bits() | 1;
            let mut session = ClientSession::new(
                config,
                addresses.clone(),
                nonce,
                clients::secret(nonce),
                self.now.as_time(),
            );
            announcing::draw_announcing(self.setup.seed, number, &mut session);
            let workload = Workload::new(
                Random::new(self.setup.seed, "workload", number),
                number,
                self.setup.load.reads_per_mille,
            );
            let watcher = (number > watching_from)
                .then(|| Watcher::new(Random::new(self.setup.seed, "watching", number), number));
            self.clients.insert(
                number,
                Client {
                    session,
                    workload,
                    connection: None,
                    open: BTreeMap::new(),
                    hears: None,
                    copied: BTreeSet::new(),
                    early: BTreeMap::new(),
                    cut: 0,
                    has_felt_cut: false,
                    is_reader: number <= self.setup.load.readers,
                    is_waiter: number > self.setup.clients && watcher.is_none(),
                    watcher,
                    secret: clients::secret(nonce),
                    random,
                    config,
                    life: None,
                    rest: Rest::None,
                    put_off: Vec::new(),
                    alarm: None,
                },
            );
            let at = Moment(self.random.millis(0, 300).0);
            self.events.push(at, Event::ClientThinks { client: number });
        }
    }

    /// Runs to the end or to the first broken property.
    fn play(&mut self) -> Result<(), Violation> {
        while self.broken.is_none() && self.stage != Stage::Over {
            let (at, event) = self.events.pop().expect("ticks never end before the run");
            assert!(at >= self.now, "time goes forward");
            self.watch_time(at);
            self.now = at;
            self.happen(event);
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Notes a broken property, if it is the first.
    fn judged(&mut self, outcome: Result<(), Violation>) {
        if let Err(violation) = outcome
            && self.broken.is_none()
        {
            self.broken = Some(violation);
        }
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        self.nodes.node(id)
    }
}
