//! One node: what survives a crash, and what runs. A turn hands something in and performs what comes out.

use crate::disk::KeptDisk;
use crate::limits::SESSION_EXPIRY;
use crate::objects::{ExecutedCall, RehearsedObjects};
use crate::rehearsal::{GROUP, Rehearsal};
use crate::schedule::Occurrence;
use bytes::Bytes;
use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{Config, LinkState};
use quorate_replica::{
    CheckpointPolicy, Input, Output, PeerMessage, Recovered, Remembered, Replica, ReplicaConfig,
    Snapshots,
};
use quorate_types::{
    Digest, Duration, NodeId, Slot, SlotResults, SlotSteps, Stamp, StepRef, StepResult, Time,
    ToClient, Wall,
};
use quorate_wire::Snapshot;
use std::collections::{BTreeMap, VecDeque};

/// A node, up or down.
#[derive(Default)]
pub(crate) struct RehearsedNode {
    pub(crate) disk: KeptDisk,
    /// Counts starts and stops: what was meant for an earlier life is void.
    pub(crate) life: u64,
    pub(crate) boot: u64,
    pub(crate) running: Option<Box<Live>>,
    /// By how much its wall clock is off.
    pub(crate) clock_off: i64,
    /// Links to peers carry nothing.
    pub(crate) is_cut: bool,
    /// Nor do connections of clients.
    pub(crate) is_hidden: bool,
    /// Why it cannot start or go on.
    pub(crate) failure: Option<String>,
}

/// What is lost when the process ends.
pub(crate) struct Live {
    pub(crate) replica: Replica<AnyOrdering>,
    alarm: Option<Time>,
    /// The stamp of the newest batch: reads see its time.
    stamp: Stamp,
    /// Images that wait for the replica's part, and the other way round.
    pub(crate) images: BTreeMap<Slot, Bytes>,
    pub(crate) cores: BTreeMap<Slot, (Box<quorate_replica::SnapshotCore>, Slot)>,
    pub(crate) fetched: Option<(Slot, Vec<u8>)>,
}

type Inbox = VecDeque<Input<AnyMessage>>;

impl Rehearsal {
    /// Starts a node on its disk.
    pub(crate) fn begin_life(&mut self, id: NodeId, objects: &mut dyn RehearsedObjects) {
        let now = self.now;
        let seed = self.dice.bits();
        let view = self.view.clone();
        let every = self.config.snapshot_every;
        let node = self.node(id);
        node.boot += 1;
        node.life += 1;
        node.failure = None;
        let newest = node.disk.newest();
        let read = newest.map(|(_, kept)| (Snapshot::take(&kept.bytes), kept.clone()));
        let (snapshot, kept) = match read {
            Some((Ok(snapshot), kept)) => (Some(snapshot), Some(kept)),
            Some((Err(_), _)) | None => (None, None),
        };
        let image = snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.images.first().map(|stored| stored.image.clone()));
        let past = node.disk.past();
        let mut config = Config::new(GROUP, id, node.boot, view.clone(), seed);
        config.damage = past.damage.clone();
        let mut replica_config = ReplicaConfig::new(id, node.boot, view);
        replica_config.speaks = quorate_wire::SPEAKS;
        replica_config.expiry_max = SESSION_EXPIRY;
        replica_config.snapshots = Snapshots::Every(CheckpointPolicy {
            commands: every,
            bytes: 0,
            commands_hard: every,
            ..CheckpointPolicy::default()
        });
        let recovered = snapshot.zip(kept).map(|(snapshot, kept)| Recovered {
            due: None,
            core: snapshot.core,
            digest: kept.digest.state,
            bytes: kept.bytes.len() as u64,
        });
        let stamp = recovered.as_ref().map(|known| known.core.stamp);
        let remembered = Remembered {
            snapshot: recovered,
            others: node.disk.others(),
            agreed: past.agreed(),
            quarantine: node.disk.quarantine,
            ..Remembered::default()
        };
        if let Err(reason) = objects.start(id, image.as_ref()) {
            self.node(id).failure = Some(reason);
            return;
        }
        let ordering = AnyOrdering::new(config, past.records, now)
            .expect("a disk holds its own group's records");
        let (replica, outputs) = Replica::new(replica_config, ordering, remembered, now);
        self.node(id).running = Some(Box::new(Live {
            replica,
            alarm: None,
            stamp: stamp.unwrap_or_default(),
            images: BTreeMap::new(),
            cores: BTreeMap::new(),
            fetched: None,
        }));
        let mut inbox = Inbox::new();
        for output in outputs {
            self.perform(id, output, objects, &mut inbox);
        }
        self.take_turns(id, inbox, objects);
        for other in self.ids().filter(|other| *other != id) {
            let at = self.now + self.latency();
            self.schedule
                .push(at, Occurrence::Connects { one: id, other });
        }
    }

    /// The node's process ends: what it had not made durable is lost.
    pub(crate) fn end_life(&mut self, id: NodeId) {
        let node = self.node(id);
        node.life += 1;
        node.running = None;
        node.disk.crash();
        self.links_end(id);
        self.connections_end(id);
    }

    /// Hands something to a node that runs.
    pub(crate) fn hand_in(
        &mut self,
        id: NodeId,
        input: Input<AnyMessage>,
        objects: &mut dyn RehearsedObjects,
    ) {
        self.take_turns(id, Inbox::from([input]), objects);
    }

    /// Turns follow each other until nothing is left to hand in.
    fn take_turns(&mut self, id: NodeId, mut inbox: Inbox, objects: &mut dyn RehearsedObjects) {
        loop {
            let (now, entropy) = (self.now, self.dice.bits());
            let wall = self.wall(id);
            let Some(running) = &mut self.node(id).running else {
                return;
            };
            let mut out = Vec::new();
            for input in inbox.drain(..) {
                running.replica.handle(now, input, &mut out);
            }
            if running.replica.next_wake().is_some_and(|due| due <= now) {
                running.replica.handle(now, Input::Wake, &mut out);
            }
            let end = Input::TurnEnd { wall, entropy };
            running.replica.handle(now, end, &mut out);
            for output in out {
                self.perform(id, output, objects, &mut inbox);
            }
            if inbox.is_empty() {
                break;
            }
        }
        self.set_alarm(id);
    }

    fn set_alarm(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        let life = node.life;
        let Some(running) = &mut node.running else {
            return;
        };
        let Some(due) = running.replica.next_wake() else {
            return;
        };
        // A due that stays would be asked for again in the same moment for ever.
        let due = due.max(now + Duration::from_micros(10));
        if running.alarm.is_none_or(|at| at <= now || due < at) {
            running.alarm = Some(due);
            self.schedule
                .push(due, Occurrence::Wakes { node: id, life });
        }
    }

    pub(crate) fn woken(&mut self, id: NodeId, life: u64, objects: &mut dyn RehearsedObjects) {
        let now = self.now;
        let node = self.node(id);
        if node.life != life {
            return;
        }
        if let Some(running) = &mut node.running {
            running.alarm.take_if(|at| *at <= now);
        }
        self.take_turns(id, Inbox::new(), objects);
    }

    // Longer than a screen: one arm an output.
    fn perform(
        &mut self,
        id: NodeId,
        output: Output<AnyMessage>,
        objects: &mut dyn RehearsedObjects,
        inbox: &mut Inbox,
    ) {
        match output {
            Output::Send { to, lane, message } => self.send(id, to, lane, &message),
            Output::Reply { to, message } => self.answer(to, message),
            Output::Persist { mark, record } => {
                let drawn = Duration::from_micros(self.dice.between(20, 200));
                let after = self.trace.as_ref().map_or(drawn, |trace| trace.write);
                let at = self.now + after;
                let node = self.node(id);
                node.disk.write(mark, record);
                let life = node.life;
                let durable = Occurrence::Durable {
                    node: id,
                    life,
                    mark,
                };
                self.schedule.push(at, durable);
            }
            Output::Discard { upto, base } => self.node(id).disk.discard(upto, base),
            Output::Execute { slot, stamp, steps } => {
                let results = self.execute(id, slot, stamp, &steps, objects);
                inbox.push_back(Input::Executed { slot, results });
            }
            Output::Query { read, payload, .. } => {
                let stamp = self.live(id).stamp;
                let outcome = objects.query(id, stamp, &payload);
                inbox.push_back(Input::Queried { read, outcome });
            }
            Output::TakeSnapshot { slot } => match objects.image(id) {
                Ok(image) => {
                    self.live(id).images.insert(slot, image);
                    self.save(id, slot, inbox);
                }
                Err(reason) => {
                    self.node(id).failure = Some(reason);
                    inbox.push_back(Input::SnapshotFailed { slot });
                }
            },
            Output::FinishSnapshot { core, agreed } => {
                let slot = core.slot;
                self.live(id).cores.insert(slot, (core, agreed));
                self.save(id, slot, inbox);
            }
            Output::SendChunk {
                to,
                slot,
                offset,
                length,
            } => self.send_chunk(id, to, slot, offset, length),
            Output::StoreChunk {
                slot, offset, data, ..
            } => self.store_chunk(id, slot, offset, &data),
            Output::Install { slot, digest } => self.install(id, slot, digest, objects, inbox),
            Output::Quarantined(quarantine) => self.node(id).disk.quarantine = Some(quarantine),
            Output::Healed { .. } => self.node(id).disk.quarantine = None,
            // Its view never changes.
            Output::BeginView { .. } => {}
            Output::LevelNotSpoken { level, view } => {
                unreachable!("{id} speaks all levels of a rehearsal, not {level} of {view:?}")
            }
            Output::Conflict(conflict) => self.node(id).failure = Some(conflict.to_string()),
            Output::Speculate { .. } | Output::Confirm { .. } | Output::Undo { .. } => {
                unreachable!("a rehearsal executes what is decided")
            }
            // No host dies here, so no call is skipped.
            Output::Skip { .. }
            | Output::Role(_)
            | Output::Repaired
            | Output::OutcomesDiffer(_)
            | Output::ClocksDiffer(_) => {}
        }
    }

    fn execute(
        &mut self,
        id: NodeId,
        slot: Slot,
        stamp: Stamp,
        steps: &SlotSteps,
        objects: &mut dyn RehearsedObjects,
    ) -> SlotResults {
        self.live(id).stamp = stamp;
        let steps = steps.iter().map(|step| match step {
            StepRef::Call(call) => {
                let executed = ExecutedCall {
                    caller: self.caller_of(call.id.session),
                    sequence: call.id.sequence,
                    slot,
                    index: call.index,
                    stamp,
                    payload: call.payload,
                };
                StepResult::Answered(objects.execute(id, &executed))
            }
            StepRef::End(_) | StepRef::Resume(_) | StepRef::Tick { .. } => StepResult::Done,
        });
        SlotResults {
            steps: steps.collect(),
            answers: Vec::new(),
        }
    }

    fn answer(&mut self, to: quorate_types::ConnectionId, message: ToClient) {
        let at = self.after_last_answer(to);
        if let Some(at) = at {
            if self.is_traced() {
                self.trace_answer(to, &message, at);
            }
            let answered = Occurrence::Answered {
                connection: to,
                message,
            };
            self.schedule.push(at, answered);
        }
    }

    pub(crate) fn live(&mut self, id: NodeId) -> &mut Live {
        let running = self.node(id).running.as_mut();
        running.expect("only a running node lets something out")
    }

    fn wall(&mut self, id: NodeId) -> Wall {
        let (start, now) = (self.config.wall, self.now);
        let off = self.node(id).clock_off;
        Wall(start.0.saturating_add(now.0).saturating_add_signed(off))
    }

    /// A link changed at one of its ends.
    pub(crate) fn link_changed(
        &mut self,
        id: NodeId,
        peer: NodeId,
        state: LinkState,
        objects: &mut dyn RehearsedObjects,
    ) {
        self.hand_in(id, Input::Link { peer, state }, objects);
    }

    /// A message of a peer arrives.
    pub(crate) fn arrived(
        &mut self,
        id: NodeId,
        from: NodeId,
        link: quorate_types::LinkEpoch,
        message: PeerMessage<AnyMessage>,
        objects: &mut dyn RehearsedObjects,
    ) {
        let input = Input::Peer {
            from,
            link,
            message,
        };
        self.hand_in(id, input, objects);
    }
}

/// What replicas compare of an object's image.
pub(crate) fn state_digest(image: &Bytes) -> [u8; 32] {
    *blake3::hash(image).as_bytes()
}

/// The digest of a whole snapshot.
pub(crate) fn digest_of(core: &quorate_replica::SnapshotCore, image: &Bytes) -> Digest {
    Digest {
        replicated: core.digest(),
        state: state_digest(image),
    }
}
