//! Rust objects: executed on the node's own thread, once it has sent what does not depend on them.
//!
//! Encoding and restoring happen on a side thread. While a restore runs, work waits in order.

use crate::arguments::CallView;
use crate::builtin::create;
use crate::config::HostedObject;
use crate::encoder::{Encoder, EncoderDone, EncoderJob};
use crate::error::HostError;
use crate::event::HostEvent;
use crate::image::ObjectImage;
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
    /// Calls that are not executed; an entry goes with its slot.
    skips: BTreeSet<(Slot, u32)>,
    /// The newest slot executed.
    executed: Slot,
    /// A state that is encoded once [`InProcess::encode`] says so.
    frozen: Option<(Slot, Vec<(ObjectId, FrozenState)>)>,
}

enum Work {
    Execute(Slot, Stamp, SlotSteps),
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
            executed: Slot::ZERO,
            frozen: None,
        })
    }

    pub(crate) fn execute(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.waiting.push_back(Work::Execute(slot, stamp, steps));
    }

    /// A call that waits or comes next is not executed; one that was executed stays so.
    pub(crate) fn skip(&mut self, slot: Slot, index: u32) {
        // What was handed in before comes first.
        self.flush();
        if slot > self.executed {
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

    /// Does what waits, up to the next restore.
    pub(crate) fn flush(&mut self) {
        while self.restoring.is_none()
            && let Some(work) = self.waiting.pop_front()
        {
            match work {
                Work::Execute(slot, stamp, steps) => self.execute_now(slot, stamp, &steps),
                Work::Query(read, object, payload) => self.query_now(read, object, &payload),
                Work::Snapshot(slot) => self.freeze(slot),
                Work::Encode(slot) => self.encode_now(slot),
                Work::Restore(slot, images) => self.begin_restore(slot, images),
            }
        }
    }

    fn execute_now(&mut self, slot: Slot, stamp: Stamp, steps: &SlotSteps) {
        let mut done = SlotResults::default();
        done.steps.reserve_exact(steps.len());
        for step in steps.iter() {
            if self.skips.remove(&(slot, step.index())) && step.call().is_some() {
                done.steps.push(StepResult::Answered(Outcome::Skipped));
            } else {
                self.objects.step(slot, stamp, step, &mut done);
            }
        }
        let results = fitting(done);
        self.executed = slot;
        self.tell_due();
        self.events.push(HostEvent::Executed { slot, results });
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
        let frozen = self
            .objects
            .iter()
            .map(|(id, object)| (id, object.snapshot()))
            .collect();
        // One that was frozen before and not encoded is given up.
        self.frozen = Some((slot, frozen));
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
            }
        }
        events.append(&mut self.events);
    }

    fn restored(&mut self, slot: Slot, outcome: Result<LiveObjects, String>) {
        assert_eq!(self.restoring.take(), Some(slot), "restores end in order");
        match outcome {
            Ok(objects) => {
                for (id, object) in objects {
                    if let Some(old) = self.objects.insert(id, object) {
                        // A full queue means the old state is freed here, with a pause.
                        drop(self.encoder.submit(EncoderJob::Drop(Box::new(old))));
                    }
                }
                self.tell_due();
                self.events.push(HostEvent::Restored { slot });
            }
            Err(reason) => self.events.push(HostEvent::RestoreFailed { slot, reason }),
        }
        self.flush();
    }
}
