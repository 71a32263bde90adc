//! Rust objects: executed on the node's own thread, once it has sent what does not depend on them.
//!
//! Encoding and restoring happen on a side thread. While a restore runs, work waits in order.

use crate::arguments::CallView;
use crate::builtin::create;
use crate::config::HostedObject;
use crate::encoder::{Encoder, EncoderDone, EncoderJob, made_again};
use crate::error::HostError;
use crate::event::HostEvent;
use crate::image::ObjectImage;
use crate::limits::EXECUTES_FOR;
use crate::live::{LiveObject, LiveObjects, no_such_object};
use crate::object::FrozenState;
use crate::outcomes::{fit, fitting};
use crate::telling::told;
use bytes::Bytes;
use mio::Waker;
use quorate_ordering::ReadId;
use quorate_types::{ObjectId, Outcome, Slot, SlotResults, SlotSteps, Stamp, StepResult, Wall};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Rust objects of one group.
pub(crate) struct InProcess {
    specs: Vec<HostedObject>,
    objects: LiveObjects,
    encoder: Encoder,
    events: Vec<HostEvent>,
    /// What was told of [`LiveObjects::next_due`].
    due: Option<Wall>,
    /// The restore under way.
    restoring: Option<Slot>,
    /// What was handed in since the last flush, or waits for the restore. Bounded by the replica's execution window, which counts
    /// slots handed out and not answered.
    waiting: VecDeque<Work>,
    /// Calls that are not executed; an entry goes with its slot, once that is decided and executed.
    skips: BTreeSet<(Slot, u32)>,
    /// How long it works at a time.
    pub(crate) executes_for: Duration,
    /// The newest slot executed.
    executed: Slot,
    /// A state that is encoded once [`InProcess::encode`] says so.
    frozen: Option<(Slot, Vec<(ObjectId, FrozenState)>)>,
    /// The states before slots that were executed and are not decided: as many as the replica speculates.
    before: VecDeque<(Slot, Vec<(ObjectId, FrozenState)>)>,
    /// Everything up to here is decided.
    confirmed: Slot,
}

enum Work {
    Execute(Slot, Stamp, SlotSteps),
    Confirm(Slot),
    Undo(Slot),
    Query(ReadId, ObjectId, Bytes),
    Snapshot(Slot),
    Encode(Slot),
    Restore(Slot, Vec<ObjectImage>),
}

impl InProcess {
    pub(crate) fn open(
        specs: Vec<HostedObject>,
        waker: Arc<Waker>,
    ) -> Result<InProcess, HostError> {
        let mut objects = LiveObjects::default();
        for spec in &specs {
            let object =
                create(spec.builtin(), &spec.arguments).map_err(|e| HostError::Object {
                    name: spec.name.clone(),
                    reason: e.to_string(),
                })?;
            objects.insert(spec.id, LiveObject::new(object));
        }
        Ok(InProcess {
            specs,
            objects,
            encoder: Encoder::start(waker)?,
            events: Vec::new(),
            due: None,
            restoring: None,
            waiting: VecDeque::new(),
            skips: BTreeSet::new(),
            executes_for: EXECUTES_FOR,
            executed: Slot::ZERO,
            frozen: None,
            before: VecDeque::new(),
            confirmed: Slot::ZERO,
        })
    }

    pub(crate) fn execute(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.confirm(slot);
        self.speculate(slot, stamp, steps);
    }

    pub(crate) fn speculate(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.waiting.push_back(Work::Execute(slot, stamp, steps));
    }

    pub(crate) fn confirm(&mut self, slot: Slot) {
        self.waiting.push_back(Work::Confirm(slot));
    }

    pub(crate) fn undo(&mut self, after: Slot) {
        self.waiting.push_back(Work::Undo(after));
    }

    /// A call that waits or comes next is not executed; one that was executed stays so, unless that is about to be undone.
    pub(crate) fn skip(&mut self, slot: Slot, index: u32) {
        let is_undone = |work: &Work| matches!(work, Work::Undo(after) if *after < slot);
        if slot > self.executed || self.waiting.iter().any(is_undone) {
            self.skips.insert((slot, index));
        }
    }

    pub(crate) fn query(&mut self, read: ReadId, object: ObjectId, payload: Bytes) {
        self.waiting.push_back(Work::Query(read, object, payload));
    }

    pub(crate) fn take_snapshot(&mut self, slot: Slot) {
        self.waiting.push_back(Work::Snapshot(slot));
    }

    /// Encodes the state that was frozen at `slot`.
    pub(crate) fn encode(&mut self, slot: Slot) {
        self.waiting.push_back(Work::Encode(slot));
    }

    pub(crate) fn restore(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        self.waiting.push_back(Work::Restore(slot, images));
    }

    /// Does what waits, up to the next restore, for a bounded time: on this thread the node votes, too.
    pub(crate) fn flush(&mut self) {
        self.work_until(Instant::now() + self.executes_for);
    }

    /// Whether there was no time for everything.
    pub(crate) fn is_behind(&self) -> bool {
        self.restoring.is_none() && !self.waiting.is_empty()
    }

    fn work_until(&mut self, until: Instant) {
        while self.restoring.is_none()
            && let Some(work) = self.waiting.pop_front()
        {
            match work {
                Work::Execute(slot, stamp, steps) => self.execute_now(slot, stamp, &steps),
                Work::Confirm(slot) => self.confirm_now(slot),
                Work::Undo(after) => self.begin_undo(after),
                Work::Query(read, object, payload) => self.query_now(read, object, &payload),
                Work::Snapshot(slot) => self.freeze(slot),
                Work::Encode(slot) => self.encode_now(slot),
                Work::Restore(slot, images) => self.begin_restore(slot, images),
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    fn execute_now(&mut self, slot: Slot, stamp: Stamp, steps: &SlotSteps) {
        if slot > self.confirmed {
            self.before.push_back((slot, self.freeze_all()));
        }
        let mut done = SlotResults::default();
        done.steps.reserve_exact(steps.len());
        for step in steps.iter() {
            if self.skips.contains(&(slot, step.index())) && step.call().is_some() {
                done.steps.push(StepResult::Answered(Outcome::Skipped));
            } else {
                self.objects.step(slot, stamp, step, &mut done);
            }
        }
        let results = fitting(done);
        self.executed = slot;
        self.forget_skips(self.confirmed);
        self.tell_due();
        self.events.push(HostEvent::Executed { slot, results });
    }

    /// The states before these slots are not gone back to.
    fn confirm_now(&mut self, slot: Slot) {
        self.confirmed = slot;
        self.forget_skips(slot);
        let is_left = |(at, _): &(Slot, _)| *at > slot;
        let first = self.before.iter().position(is_left);
        self.before.drain(..first.unwrap_or(self.before.len()));
    }

    /// What is executed and decided up to here is not executed again.
    fn forget_skips(&mut self, decided: Slot) {
        let upto = decided.min(self.executed);
        self.skips.retain(|(slot, _)| *slot > upto);
    }

    fn tell_due(&mut self) {
        let at = self.objects.next_due();
        if at != self.due {
            self.due = at;
            self.events.push(HostEvent::Due { at });
        }
    }

    fn query_now(&mut self, read: ReadId, object: ObjectId, payload: &Bytes) {
        let outcome = match (self.objects.get(object), CallView::parse(payload)) {
            (Some(object), Ok(view)) => object.read(view),
            (None, Ok(view)) if object == ObjectId::DIRECTORY => {
                told(&self.specs, &self.objects, view)
            }
            (Some(_), Err(mistake)) => mistake.into(),
            (None, _) => no_such_object(object),
        };
        let outcome = fit(outcome);
        self.events.push(HostEvent::Queried { read, outcome });
    }

    fn freeze(&mut self, slot: Slot) {
        // One that was frozen before and not encoded is given up.
        self.frozen = Some((slot, self.freeze_all()));
    }

    fn freeze_all(&self) -> Vec<(ObjectId, FrozenState)> {
        let objects = self.objects.iter();
        objects
            .map(|(id, object)| (id, object.snapshot()))
            .collect()
    }

    /// Makes the objects anew that were there before the first slot after `after`.
    fn begin_undo(&mut self, after: Slot) {
        self.executed = self.executed.min(after);
        let first = self.before.iter().position(|(slot, _)| *slot > after);
        let mut undone = first.map(|first| self.before.split_off(first));
        let Some((_, frozen)) = undone.as_mut().and_then(VecDeque::pop_front) else {
            self.events.push(HostEvent::Undone { after });
            return;
        };
        let specs = self.specs.clone();
        let job = EncoderJob::Undo {
            after,
            specs,
            frozen,
        };
        match self.encoder.submit(job) {
            Ok(()) => self.restoring = Some(after),
            // Snapshots are still being encoded: it cannot wait for them.
            Err(EncoderJob::Undo { specs, frozen, .. }) => {
                self.undone(after, made_again(&specs, frozen));
            }
            Err(_) => unreachable!("it is given back as it was"),
        }
    }

    fn encode_now(&mut self, slot: Slot) {
        let Some((_, frozen)) = self.frozen.take_if(|(at, _)| *at == slot) else {
            return;
        };
        if self
            .encoder
            .submit(EncoderJob::Encode { slot, frozen })
            .is_err()
        {
            self.events.push(HostEvent::ImageFailed {
                slot,
                reason: "earlier snapshots are still being encoded".to_owned(),
            });
        }
    }

    fn begin_restore(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        self.frozen = None;
        let job = EncoderJob::Restore {
            slot,
            specs: self.specs.clone(),
            images,
        };
        match self.encoder.submit(job) {
            Ok(()) => self.restoring = Some(slot),
            Err(_) => self.events.push(HostEvent::RestoreFailed {
                slot,
                reason: "snapshots are still being encoded: try again".to_owned(),
            }),
        }
    }

    /// Whether the side thread owes an answer.
    pub(crate) fn is_waiting_for_thread(&self) -> bool {
        self.encoder.is_busy()
    }

    pub(crate) fn poll(&mut self, events: &mut Vec<HostEvent>) {
        while let Some(done) = self.encoder.take() {
            match done {
                EncoderDone::Encoded {
                    slot,
                    images,
                    parts,
                } => self.events.push(HostEvent::Imaged {
                    slot,
                    images,
                    parts,
                }),
                EncoderDone::Restored { slot, outcome } => self.restored(slot, outcome),
                EncoderDone::Undone { after, outcome } => {
                    self.restoring = None;
                    self.undone(after, outcome);
                }
            }
        }
        events.append(&mut self.events);
    }

    fn replace(&mut self, objects: LiveObjects) {
        for (id, object) in objects {
            if let Some(old) = self.objects.insert(id, object) {
                // A full queue means the old state is freed here, with a pause.
                drop(self.encoder.submit(EncoderJob::Drop(Box::new(old))));
            }
        }
        self.tell_due();
    }

    fn undone(&mut self, after: Slot, outcome: Result<LiveObjects, String>) {
        match outcome {
            Ok(objects) => {
                self.replace(objects);
                self.events.push(HostEvent::Undone { after });
            }
            Err(reason) => self.events.push(HostEvent::Down {
                reason: format!("the state after {after} cannot be restored: {reason}"),
                call: None,
                is_final: true,
            }),
        }
    }

    fn restored(&mut self, slot: Slot, outcome: Result<LiveObjects, String>) {
        assert_eq!(self.restoring.take(), Some(slot), "restores end in order");
        match outcome {
            Ok(objects) => {
                self.before.clear();
                self.skips.retain(|(at, _)| *at > slot);
                self.replace(objects);
                self.events.push(HostEvent::Restored { slot });
            }
            Err(reason) => self.events.push(HostEvent::RestoreFailed { slot, reason }),
        }
    }
}
