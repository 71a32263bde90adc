//! Performs the outputs of replicas: messages, writes, work for the objects, snapshots.
//!
//! A node that is due to crash dies between two outputs, anywhere.

use super::World;
use super::diverging::is_wrong;
use super::events::Event;
use super::fault::KillStep;
use super::life::Death;
use super::links::MESSAGE_BYTES;
use super::objects::{Done, Work, digest};
use super::row::Row;
use super::trace::Tag;
use super::writing::is_power_cut;
use crate::checkers::Property;
use bytes::{Bytes, BytesMut};
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_ordering::{Entry, Lane, Ordering, Role};
use quorate_replica::{Input, Output, PeerMessage, ReplicaMessage};
use quorate_storage::StorageError;
use quorate_types::{
    Ballot, CallPlace, ConnectionId, Digest, Duration, NodeId, NodeSet, Outcome, Slot, SlotResults,
    Step, ToClient, View, ViewNumber,
};
use quorate_wire::{Snapshot, put_peer};

/// A node that stopped for its disk is started again after this.
pub(super) const STOPPED_FOR: Duration = Duration::from_millis(700);

impl World {
    pub(super) fn perform(&mut self, id: NodeId, outputs: Vec<Output<AnyMessage>>) {
        let life = self.nodes[&id].life;
        for output in outputs {
            let node = self.node(id);
            if let Some(doom) = &mut node.doom {
                if doom.outputs == 0 {
                    let down = doom.down;
                    self.die(id, Death::Killed, down);
                } else {
                    doom.outputs -= 1;
                }
            }
            if self.nodes[&id].life != life || self.nodes[&id].running.is_none() {
                return;
            }
            if step_of(&output).is_some_and(|step| self.springs(id, step)) {
                return;
            }
            self.perform_one(id, life, output);
        }
        self.send_datagrams(id);
        self.begin_commit(id);
        self.begin_work(id);
    }

    /// A node answers a client. It notes before how far its objects have executed: its next life knows it.
    fn answer(&mut self, id: NodeId, to: ConnectionId, message: &ToClient) {
        let executed = self.running(id).replica.executed_upto();
        let node = self.node(id);
        node.answered = node.answered.max(executed);
        self.reply(to, message);
    }

    // Longer than a screen: one arm an output.
    fn perform_one(&mut self, id: NodeId, life: u64, output: Output<AnyMessage>) {
        match output {
            Output::Send { to, lane, message } => self.send_message(id, life, to, lane, &message),
            Output::Reply { to, message } if is_wrong(&message) => self.loses_answer(to),
            Output::Reply { to, message } => {
                self.watch_early(id, to, &message);
                self.answers_operator(id, to, &message);
                self.answers_view_operator(id, to, &message);
                self.answer(id, to, &message);
            }
            Output::Persist { mark, record } => {
                self.watch_vote(id, &record);
                if let Entry::Vote { slot, ballot, .. } = &record.entry {
                    self.judge.votes(id, *slot, *ballot);
                }
                self.running(id).storage.log.append(mark, record);
            }
            Output::BeginView { number, back } => self.begins_view(id, number, back),
            Output::LevelNotSpoken { .. } => self.ends_below_level(id),
            Output::Repaired => self.running(id).storage.log.repaired(),
            Output::Conflict(conflict) => {
                self.blame(Property::Agreement, format!("{id} stops: {conflict}"));
            }
            Output::Discard { upto, base } => {
                let judged = self.judge.trims(id, upto);
                self.judged(judged.and_then(|()| self.judge.replaces(id, upto, &base)));
                let full_until = self.running(id).full_until;
                let has_room = full_until <= self.now;
                let judged = self.judge.trims_for(id, upto, has_room);
                self.judged(judged);
                self.running(id).storage.log.discard(upto, base);
            }
            Output::Execute { slot, stamp, steps } => {
                self.is_no_witness(id, "executes");
                self.watch_handed(id, slot);
                // The calls of a reset's own slot are before it.
                self.judged(
                    self.judge
                        .goes_on(id, slot.previous(), "executes what follows"),
                );
                let steps = steps.to_vec();
                let objects = &mut self.running(id).objects;
                objects.push(Work::Execute { slot, stamp, steps });
            }
            Output::Speculate { slot, stamp, steps } => {
                self.is_no_witness(id, "executes");
                self.speculate(id, slot, stamp, steps.to_vec());
            }
            Output::Confirm { slot } => self.confirm(id, slot),
            Output::Undo { after } => self.undo(id, after),
            Output::Skip { slot, index } => self.skip(id, CallPlace { slot, index }),
            Output::Query {
                read,
                object,
                payload,
            } => {
                self.is_no_witness(id, "answers a read");
                let objects = &mut self.running(id).objects;
                objects.push(Work::Query {
                    read,
                    object,
                    payload,
                });
            }
            Output::TakeSnapshot { slot } => {
                self.is_no_witness(id, "takes a snapshot");
                let objects = &mut self.running(id).objects;
                objects.push(Work::Freeze { slot });
            }
            Output::FinishSnapshot { core, agreed } => {
                self.watch_core(id, &core);
                self.watch_kept_in(id, &core);
                self.running(id).cores.insert(core.slot, (core, agreed));
                self.try_save(id);
            }
            Output::SendChunk {
                to,
                slot,
                offset,
                length,
            } => self.send_chunk(id, life, to, slot, offset, length),
            Output::StoreChunk {
                slot, offset, data, ..
            } => self.store_chunk(id, slot, offset, &data),
            Output::Install { slot, digest } => self.install(id, slot, digest),
            Output::Role(role) => {
                if let Role::Leader { ballot } = role {
                    if ballot.round == 0 {
                        self.exercised(Row::LedFirst);
                        let before = ViewNumber(ballot.view.0 - 1);
                        if self.harm.views.led(before) != Some(id) {
                            self.exercised(Row::SuccessorLed);
                        }
                    }
                    self.is_no_witness(id, "leads");
                    self.leads_as_itself(id, ballot);
                    self.judge.liveness.leader_began(self.now.0);
                }
                self.tell(id, || format!("{id} is {role:?}"));
            }
            Output::Quarantined(quarantine) => self.quarantined(id, quarantine),
            Output::OutcomesDiffer(difference) => self.difference_named(id, &difference),
            Output::ClocksDiffer(offset) => {
                self.tell(id, || format!("{id} sees clocks differ: {offset:?}"));
            }
            Output::Healed { slot } => {
                self.node(id).quarantine = None;
                self.tell(id, || format!("{id} heals at {slot}"));
            }
        }
    }

    /// A witness has no objects, and orders nothing.
    fn is_no_witness(&mut self, id: NodeId, what: &str) {
        if self.setup.is_witness(id) {
            self.blame(Property::Invariant, format!("{id} is a witness and {what}"));
        }
    }

    /// A ballot is of the start that leads in it: no other one knows what was proposed there.
    fn leads_as_itself(&mut self, id: NodeId, ballot: Ballot) {
        let boot = self.running(id).boot;
        if (ballot.node, ballot.boot) != (id, boot) {
            let detail = format!("{id}, in boot {boot}, leads in {ballot}");
            self.blame(Property::BallotUnique, detail);
        }
    }

    fn tell(&mut self, id: NodeId, text: impl FnOnce() -> String) {
        let words = [Tag::Output as u64, u64::from(id.0)];
        self.trace.note(self.now, &words, text);
    }

    pub(super) fn running(&mut self, id: NodeId) -> &mut super::node::Running {
        let running = self.node(id).running.as_mut();
        running.expect("only a running node lets something out")
    }

    fn send_message(
        &mut self,
        id: NodeId,
        life: u64,
        to: NodeSet,
        lane: Lane,
        message: &PeerMessage<AnyMessage>,
    ) {
        if let PeerMessage::Ordering { message: told, .. } = message
            && matches!(
                told.testimony(),
                Testimony::Votes { .. } | Testimony::Gathers { .. } | Testimony::Promises(_)
            )
        {
            // A node that waits for a snapshot hands up nothing, and may know more slots to be decided.
            let decided = self.running(id).replica.ordering().decided();
            self.judge.knows(id, decided);
        }
        self.check_learners(id, to, message);
        let judged = self.judge.sent(id, life, message);
        self.judged(judged);
        self.watch_message(id, to, message);
        let words = [Tag::Output as u64, u64::from(id.0), to.len() as u64];
        self.trace.note(self.now, &words, || {
            format!("{id} -> {to:?} says {message:?}")
        });
        if lane == Lane::Multicast {
            return self.multicast(id, message);
        }
        let to = self.readers(id, to, message);
        let mut bytes = BytesMut::with_capacity(MESSAGE_BYTES);
        put_peer(&mut bytes, message);
        self.send(id, to, lane, &bytes.freeze());
    }

    fn send_chunk(
        &mut self,
        id: NodeId,
        life: u64,
        to: NodeId,
        slot: Slot,
        offset: u64,
        length: u32,
    ) {
        let held = self.running(id).storage.served(slot).cloned();
        let message = match held {
            Some(bytes) if offset < bytes.len() as u64 => {
                let total = bytes.len() as u64;
                if offset == 0 {
                    self.check_served(id, slot, &bytes);
                    if self.setup.is_witness(id) && !self.setup.is_witness(to) {
                        self.exercised(Row::TaughtByWitness);
                    }
                }
                let end = total.min(offset + u64::from(length));
                ReplicaMessage::Chunk {
                    slot,
                    offset,
                    total,
                    data: bytes.slice(offset as usize..end as usize),
                }
            }
            Some(_) | None => ReplicaMessage::NoSnapshot { slot },
        };
        let to = NodeSet::only(to);
        self.send_message(id, life, to, Lane::Bulk, &PeerMessage::Replica(message));
    }

    fn store_chunk(&mut self, id: NodeId, slot: Slot, offset: u64, data: &Bytes) {
        let running = self.running(id);
        if offset == 0 {
            running.fetched = Some((slot, Vec::new()));
        }
        let fits = matches!(&running.fetched, Some((kept, pieces))
            if *kept == slot && pieces.len() as u64 == offset);
        if !fits {
            let detail = format!("{id} stores a piece of {slot} at {offset} out of order");
            self.blame(Property::Invariant, detail);
            return;
        }
        if let Some((_, pieces)) = &mut running.fetched {
            pieces.extend_from_slice(data);
        }
    }

    fn install(&mut self, id: NodeId, slot: Slot, agreed: Digest) {
        self.check_agreed(id, slot, agreed);
        let running = self.running(id);
        let Some((fetched, pieces)) = running.fetched.take() else {
            let detail = format!("{id} installs {slot} and has fetched nothing");
            self.blame(Property::Invariant, detail);
            return;
        };
        let bytes = Bytes::from(pieces);
        let taken = Snapshot::take(&bytes);
        let is_witness = self.setup.is_witness(id);
        let running = self.running(id);
        let kept = match taken {
            Ok(snapshot) if snapshot.core.slot == slot && fetched == slot => {
                let images: Vec<Bytes> = snapshot
                    .images
                    .into_iter()
                    .map(|stored| stored.image)
                    .collect();
                let held = Digest {
                    replicated: snapshot.core.digest(),
                    state: digest(&images),
                };
                if held != agreed {
                    self.hand_in(id, Input::InstallFailed { slot });
                    return;
                }
                let saved = running.storage.keep(slot, held.state, bytes.clone(), slot);
                if saved.is_ok() {
                    self.judge.keeps(id, slot);
                    self.judge.holds(id, slot, held);
                    if self.springs(id, KillStep::Install) {
                        return;
                    }
                }
                if is_witness && saved.is_ok() {
                    // Nobody takes its state over.
                    self.exercised(Row::WitnessKept);
                    let done = Done::Restored {
                        core: Box::new(snapshot.core),
                        digest: held.state,
                        bytes: bytes.len() as u64,
                    };
                    return self.take_done(id, done);
                }
                saved.map(|()| {
                    self.restore(
                        id,
                        Work::Restore {
                            core: Box::new(snapshot.core),
                            images,
                            bytes: bytes.len() as u64,
                        },
                    );
                })
            }
            Ok(_) | Err(_) => Err(StorageError::BadSnapshot("not what was fetched".to_owned())),
        };
        match kept {
            Ok(()) => {}
            Err(error) if error.is_fatal() || is_power_cut(&error) => {
                self.stop(id, &error, Row::SaveCut);
            }
            Err(_) => self.hand_in(id, Input::InstallFailed { slot }),
        }
    }

    /// Saves each snapshot of which both parts are there.
    fn try_save(&mut self, id: NodeId) {
        let running = self.running(id);
        let ready: Vec<Slot> = running
            .cores
            .keys()
            .copied()
            .filter(|slot| running.images.contains_key(slot))
            .collect();
        for slot in ready {
            let running = self.running(id);
            let (core, agreed) = running.cores.remove(&slot).expect("looked a moment ago");
            let images = running.images.remove(&slot).expect("looked a moment ago");
            let digest = digest(&images);
            let whole = Digest {
                replicated: core.digest(),
                state: digest,
            };
            if let Some(changes) = self.cuts(id, KillStep::Save) {
                self.nodes[&id].disks.snapshots.stop_after(changes);
            }
            let running = self.running(id);
            match running.storage.save(&core, &images, digest, agreed) {
                Ok(bytes) => {
                    self.judge.keeps(id, slot);
                    self.judge.took(id, slot, whole);
                    let end = self.running(id).replica.earlier_starts_end();
                    if let Some(end) = end.filter(|end| *end <= slot) {
                        self.node(id).notes.bound(end);
                    }
                    let taken = Input::SnapshotTaken {
                        slot,
                        digest,
                        bytes,
                    };
                    self.hand_in(id, taken);
                }
                Err(error) if error.is_fatal() || is_power_cut(&error) => {
                    self.judge.cut_short(id, slot, whole);
                    self.stop(id, &error, Row::SaveCut);
                    return;
                }
                Err(_) => {
                    self.felt(id, Row::DiskFull);
                    self.hand_in(id, Input::SnapshotFailed { slot });
                }
            }
        }
    }

    /// Begins the next piece of work of a node's objects.
    pub(super) fn begin_work(&mut self, id: NodeId) {
        let (now, work_max) = (self.now, self.setup.objects.work_max);
        let node = self.node(id);
        let (life, is_still) = (node.life, node.hung > 0 || node.paused > 0);
        let span = node.random.below(work_max.0 + 1);
        let Some(running) = &mut node.running else {
            return;
        };
        if running.is_working || is_still || running.objects.is_idle() {
            return;
        }
        running.is_working = true;
        self.events
            .push(now + Duration(span), Event::Worked { node: id, life });
    }

    pub(super) fn worked(&mut self, id: NodeId, life: u64) {
        let at_once = self.setup.objects.work_max == Duration::ZERO;
        let (now, poison) = (self.now, &self.harm.poison);
        let node = self.nodes.node(id);
        if node.life != life {
            return;
        }
        let is_still = node.hung > 0 || node.paused > 0;
        let Some(running) = &mut node.running else {
            return;
        };
        running.is_working = false;
        if is_still {
            return;
        }
        let mut done = Vec::new();
        let is_lethal = |call| poison.ends(id, call, now);
        while let Some(step) = running.objects.step(is_lethal) {
            done.push(step);
            if !at_once {
                break;
            }
        }
        for step in done {
            if self.nodes[&id].life == life {
                self.take_done(id, step);
            }
        }
        if self.nodes[&id].life == life {
            self.begin_work(id);
        }
    }

    /// Counts the calls that did not wait in vain, and those that did.
    pub(super) fn note_woken(&mut self, steps: &[Step], results: &SlotResults) {
        for answer in &results.answers {
            let by = steps.iter().find(|step| step.index() == answer.by);
            let is_tick = matches!(by, Some(Step::Tick { .. }));
            let row = match &answer.outcome {
                Outcome::Raised(_) => Row::TimeOver,
                Outcome::Returned(_) if is_tick => Row::TimerRan,
                Outcome::Returned(_) | Outcome::Skipped => Row::Woken,
            };
            self.exercised(row);
        }
        let mut pairs = results.answers.windows(2);
        if pairs.any(|pair| pair[0].by == pair[1].by) {
            self.exercised(Row::WokenTogether);
        }
    }

    /// Tells a replica when its objects have something to do first, if that has changed.
    fn tell_due(&mut self, id: NodeId) {
        if let Some(at) = self.running(id).objects.due_news() {
            self.hand_in(id, Input::Due { at });
        }
    }

    fn take_done(&mut self, id: NodeId, done: Done) {
        match done {
            Done::Executed {
                slot,
                stamp,
                steps,
                mut results,
            } => {
                let words = [Tag::Work as u64, u64::from(id.0), slot.0];
                self.trace.note(self.now, &words, || {
                    format!("{id} executes {slot} {steps:?}")
                });
                self.executed(id, (slot, stamp), &steps, &results);
                self.answer_otherwise(id, slot, &steps, &mut results);
                self.tell_due(id);
                self.hand_in(id, Input::Executed { slot, results });
            }
            Done::Undone { after } => {
                self.tell_due(id);
                self.hand_in(id, Input::Undone { after });
            }
            Done::Queried { read, outcome } => self.hand_in(id, Input::Queried { read, outcome }),
            Done::Frozen { slot, images } => {
                self.running(id).images.insert(slot, images);
                self.try_save(id);
            }
            Done::Restored {
                core,
                digest,
                bytes,
            } => {
                let words = [Tag::Work as u64, u64::from(id.0), core.slot.0];
                self.trace
                    .note(self.now, &words, || format!("{id} installs {}", core.slot));
                if self.springs(id, KillStep::Install) {
                    return;
                }
                let next = core.next.as_ref();
                let views: Vec<&View> = [&core.view].into_iter().chain(next).collect();
                self.check_snapshot_levels(id, &views);
                self.judge.moved(id, core.slot);
                self.watch_installed(id, core.slot);
                self.wrong_is_replaced(id, core.slot);
                self.tell_due(id);
                self.hand_in(
                    id,
                    Input::Installed {
                        core,
                        digest,
                        bytes,
                    },
                );
            }
            Done::RestoreFailed { slot } => self.hand_in(id, Input::InstallFailed { slot }),
            Done::Died {
                id: call,
                place,
                steps,
                next,
            } => self.host_died(id, call, place, steps, next),
        }
    }
}

/// The step to which an output brings its node.
fn step_of(output: &Output<AnyMessage>) -> Option<KillStep> {
    match output {
        Output::Send { message, .. } => match message {
            PeerMessage::Ordering { message, .. } => {
                let is_opening = matches!(message.testimony(), Testimony::Opens { .. });
                is_opening.then_some(KillStep::PhaseOne)
            }
            PeerMessage::Replica(_) => None,
        },
        Output::StoreChunk { .. } => Some(KillStep::Fetch),
        Output::Install { .. } => Some(KillStep::Install),
        Output::Reply { .. }
        | Output::Persist { .. }
        | Output::BeginView { .. }
        | Output::LevelNotSpoken { .. }
        | Output::Execute { .. }
        | Output::Speculate { .. }
        | Output::Confirm { .. }
        | Output::Undo { .. }
        | Output::Skip { .. }
        | Output::Query { .. }
        | Output::TakeSnapshot { .. }
        | Output::FinishSnapshot { .. }
        | Output::SendChunk { .. }
        | Output::Discard { .. }
        | Output::Role(_)
        | Output::Quarantined(_)
        | Output::OutcomesDiffer(_)
        | Output::ClocksDiffer(_)
        | Output::Healed { .. }
        | Output::Repaired
        | Output::Conflict(_) => None,
    }
}
