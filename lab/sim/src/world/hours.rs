//! Hours of a light and steady load with faults now and then: what nodes keep stays bounded and does not grow.
//!
//! Random worlds last half a minute. Here a group of three or five nodes on disk serves a few calls a second for hours, while nodes
//! crash, links are cut, an operator changes the view and moves members, a node loses its log, and one is down for the whole of
//! every fourth span, so that it comes back by a snapshot. All bounds follow from the configuration of the run. Called by
//! `sim --hours` and by a test that runs an hour.

use super::World;
use super::durable::LIMITS;
use super::generate;
use super::random::Random;
use super::run::{Report, play};
use super::setup::Setup;
use super::trace::Telling;
use super::view_changing::WINDOW_BEYOND_PIPELINE;
use crate::checkers::footprint::{Bounded, Footprint, SPANS};
use quorate_replica::limits::{INSTANCES_KEPT, INVITATIONS_MAX};
use quorate_replica::{CheckpointPolicy, KeptLimits, SnapshotCore};
use quorate_storage::{Disk, SECTOR_BYTES, SNAPSHOTS_KEPT};
use quorate_types::{Duration, NodeId, Persistence, Quorums};
use std::rc::Rc;

/// Clients that call, and one that waits for items and the lock.
const CLIENTS: u64 = 3;

/// Sessions of one client that may be open at a time: its own, and those that processes before it left behind and that have not
/// expired.
const SESSIONS_OF_CLIENT: u64 = 4;

/// A snapshot is due after so many commands.
const SNAPSHOT_COMMANDS: u64 = 40;

/// And is asked for after so many, however small they are.
const SNAPSHOT_COMMANDS_HARD: u64 = 80;

/// Views change so often in a span.
const CHANGES_OF_SPAN: u64 = 6;

/// Two copies of a sector, and one that is being written.
const IDENTITY_BYTES: u64 = 3 * SECTOR_BYTES as u64;

/// Between two looks at what nodes keep.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Runs a group for so long, with everything else as the seed says.
pub fn run_hours(seed: u64, lasts: Duration, telling: Telling) -> Report {
    let span = Duration::from_millis(lasts.as_millis() / SPANS);
    let setup = setup(seed, span);
    let schedule = generate::hours(&setup, span);
    let footprint = Footprint::new(span, bounds(&setup));
    let mut world = World::of(setup, schedule, telling);
    world.footprint = Some(footprint);
    world.quiet.often();
    play(world)
}

/// The configuration of a run of hours: small limits, so that all is full and let go many times in an hour.
fn setup(seed: u64, span: Duration) -> Setup {
    let mut random = Random::new(seed, "hours", 0);
    let mut setup = Setup::from_seed(seed);
    setup.nodes = *random.pick(&[3, 3, 5]);
    setup.acceptors = setup.nodes;
    setup.quorums = Quorums::majority(usize::from(setup.nodes)).expect("there are nodes");
    setup.persistence = Persistence::Disk;
    (setup.clients, setup.waiters) = (CLIENTS, 1);
    setup.sessions_max = 64;
    setup.timing = super::setup::scaled_timing(250);
    setup.checkpoints = CheckpointPolicy {
        commands: SNAPSHOT_COMMANDS,
        commands_hard: SNAPSHOT_COMMANDS_HARD,
        ..setup.checkpoints
    };
    setup.kept = KeptLimits {
        counted_min: 1,
        session_bytes: 16 << 10,
        group_bytes: 64 << 10,
    };
    setup.network.late_per_mille = 0;
    setup.load.depth = 1;
    setup.load.readers = 0;
    setup.load.think_max = Duration::from_millis(3_000);
    setup.pace = Some(Duration(span.0 / CHANGES_OF_SPAN));
    setup
}

/// Bytes of a slot in the log: a sector with its vote, one that says that it is decided.
const SLOT_BYTES: u64 = 2 * SECTOR_BYTES as u64;

/// Segments beside those that hold slots: the one being written, and the next one.
const SEGMENTS_OPEN: u64 = 2;

/// Bytes of one snapshot: the objects of the workload hold a few hundred, a session with its replies as many.
const SNAPSHOT_BYTES: u64 = 8 << 10;

/// Snapshots beside the newest ones that a store keeps: the agreed one, one being written, one being fetched.
const SNAPSHOTS_BESIDE: u64 = 3;

/// What each node keeps at most, by its configuration.
fn bounds(setup: &Setup) -> Vec<Bounded> {
    let bound = |what, most, grain| Bounded { what, most, grain };
    // The log goes back to the agreed snapshot before the one that is being agreed on, while a third one is due; and a view
    // ends with as many slots as its window has.
    let window_max = setup.limits.pipeline as u64 + WINDOW_BEYOND_PIPELINE;
    let slots = 3 * SNAPSHOT_COMMANDS_HARD + window_max;
    let segment = LIMITS.segment_bytes;
    let segments = (slots * SLOT_BYTES).div_ceil(segment) + SEGMENTS_OPEN;
    let snapshots = SNAPSHOTS_KEPT as u64 + SNAPSHOTS_BESIDE;
    let (log, images) = (segments * segment, snapshots * SNAPSHOT_BYTES);
    let clients = setup.clients + setup.waiters;
    let sessions = clients * SESSIONS_OF_CLIENT;
    let nodes = u64::from(setup.nodes);
    let session = setup.kept.session_bytes as u64;
    vec![
        bound("slots in the log", slots, window_max),
        bound("segments", segments, 1),
        bound("bytes of log", log, segment),
        bound(
            "bytes of batches held",
            slots * SECTOR_BYTES as u64,
            session,
        ),
        bound("snapshots", snapshots, 1),
        bound("bytes of snapshots", images, SNAPSHOT_BYTES),
        bound(
            "bytes of all files",
            log + images + IDENTITY_BYTES,
            segment + SNAPSHOT_BYTES,
        ),
        bound("sessions", sessions, clients),
        bound("sessions in snapshots", sessions, clients),
        bound(
            "bytes of kept replies",
            setup.kept.group_bytes as u64,
            session,
        ),
        // A copy of a call comes on a connection of its own.
        bound("clients connected", sessions, clients),
        bound("orderings of views", INSTANCES_KEPT as u64, 1),
        bound("members noted", nodes, 0),
        bound("incarnations noted", nodes, nodes),
        bound("peers noted", nodes - 1, 0),
        bound("invitations", INVITATIONS_MAX as u64, 4),
    ]
}

impl World {
    /// Looks at what all nodes keep, on disk also while they are down.
    pub(super) fn watch_footprint(&mut self) {
        if self.footprint.is_none() || !self.now.0.is_multiple_of(LOOK_EVERY.0) {
            return;
        }
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        for id in ids {
            for (what, size) in self.samples(id) {
                let Some(footprint) = &mut self.footprint else {
                    return;
                };
                let judged = footprint.sampled(self.now.0, id, what, size);
                self.judged(judged);
            }
        }
    }

    /// A node writes the replica's part of a snapshot.
    pub(super) fn watch_core(&mut self, id: NodeId, core: &SnapshotCore) {
        let Some(footprint) = &mut self.footprint else {
            return;
        };
        let samples = [
            ("sessions in snapshots", core.sessions.len()),
            ("invitations", core.invitations.len()),
            ("incarnations noted", core.view.rejoined.len()),
        ];
        let mut judged = samples
            .into_iter()
            .map(|(what, size)| footprint.sampled(self.now.0, id, what, size as u64));
        let judged = judged.find(Result::is_err).unwrap_or(Ok(()));
        self.judged(judged);
    }

    fn samples(&self, id: NodeId) -> Vec<(&'static str, u64)> {
        let node = &self.nodes[&id];
        let [log, snapshots, _identity] = node.disks.each();
        let count = |disk: &quorate_storage::SimDisk| disk.list().map_or(0, |names| names.len());
        let all: u64 = node.disks.each().into_iter().map(|disk| disk.used()).sum();
        let known = node.known.as_ref();
        let peers = self.sightings.keys().filter(|(watcher, _)| *watcher == id);
        let mut samples = vec![
            ("segments", count(log) as u64),
            ("bytes of log", log.used()),
            ("snapshots", count(snapshots) as u64),
            ("bytes of snapshots", snapshots.used()),
            ("bytes of all files", all),
            (
                "members noted",
                known.map_or(0, |view| view.members.len() as u64),
            ),
            ("peers noted", peers.count() as u64),
        ];
        let Some(running) = &node.running else {
            return samples;
        };
        let status = running.replica.status();
        let slots = status.ordering.decided.since(status.ordering.trimmed);
        samples.extend([
            ("slots in the log", slots),
            ("sessions", status.sessions as u64),
            ("bytes of kept replies", status.kept_bytes as u64),
            (
                "orderings of views",
                Rc::strong_count(&running.seen) as u64 - 1,
            ),
            ("bytes of batches held", status.ordering.held_bytes as u64),
            ("clients connected", status.connections as u64),
        ]);
        samples
    }
}
