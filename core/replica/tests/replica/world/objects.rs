//! Objects whose every reply depends on all calls before it, and which never take a call twice.

use super::Message;
use quorate_replica::{Input, Output, Recovered, ReplicaMessage, SnapshotCore};
use quorate_types::{
    Call, CommandId, Digest, LaterAnswer, Outcome, Slot, SlotResults, Stamp, Step, StepResult,
    Value, Wall,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Length of every image, so that it takes three pieces.
pub(crate) const IMAGE_BYTES: u64 = 600 << 10;

#[derive(Default)]
pub(crate) struct Objects {
    /// Hash of all calls so far.
    pub(crate) state: u64,
    pub(crate) executed: BTreeSet<CommandId>,
    /// Calls `park` that no call `wake` has answered.
    pub(crate) parked: VecDeque<CommandId>,
    /// The agreed times of ticks.
    pub(crate) ticks: Vec<Wall>,
    /// After a tick as much is due as before.
    pub(crate) is_never_done: bool,
    inputs: VecDeque<Input<Message>>,
    /// Slots that wait for their execution, while the host is dead.
    work: VecDeque<(Slot, Stamp, Vec<Step>)>,
    /// Slots whose state is to be frozen once the host executes again.
    freezes: VecDeque<Slot>,
    skipped: BTreeSet<(Slot, u32)>,
    /// Where the host died.
    died_at: Option<(Slot, u32)>,
    /// The states before slots that are not decided.
    before: BTreeMap<Slot, (u64, BTreeSet<CommandId>, VecDeque<CommandId>)>,
    /// This host survives the call that kills others.
    pub(crate) is_immune: bool,
    /// This host survives only the calls with these words.
    pub(crate) survives: Vec<&'static str>,
    /// How many answers still leave; `None` is no bound.
    pub(crate) answers_left: Option<usize>,
    frozen: BTreeMap<Slot, (u64, BTreeSet<CommandId>, VecDeque<CommandId>)>,
    pub(crate) images: BTreeMap<Slot, Image>,
    /// Images being fetched, by which node's.
    incoming: BTreeMap<Slot, Image>,
    /// So many images cannot be installed.
    pub(crate) unusable_images: u32,
}

#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) core: SnapshotCore,
    pub(crate) state: u64,
    pub(crate) executed: BTreeSet<CommandId>,
    parked: VecDeque<CommandId>,
    number: u8,
}

thread_local! {
    /// Images travel beside their pieces, whose every byte is the image's number.
    static IMAGES: std::cell::RefCell<Vec<Image>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A world begins: the numbers of images are few.
pub(super) fn forget_images() {
    IMAGES.with_borrow_mut(Vec::clear);
}

impl Image {
    /// The image as a restarted node finds it.
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered {
            due: None,
            core: self.core.clone(),
            digest: digest(self.state),
            bytes: IMAGE_BYTES,
        }
    }
}

impl Objects {
    pub(crate) fn restored(image: &Image) -> Objects {
        Objects {
            state: image.state,
            executed: image.executed.clone(),
            parked: image.parked.clone(),
            ..Objects::default()
        }
    }

    /// Answers that have not left: of slots that were sent to the objects and count as not executed.
    pub(crate) fn unanswered(&self) -> usize {
        self.inputs.len()
    }

    /// What the objects answer next.
    pub(crate) fn next(&mut self) -> Option<Input<Message>> {
        match &mut self.answers_left {
            Some(0) => return None,
            Some(left) if !self.inputs.is_empty() => *left -= 1,
            Some(_) | None => {}
        }
        self.inputs.pop_front()
    }

    /// Reads that are not answered are answered after all else that waits, of the present state.
    pub(crate) fn answers_reads_anew(&mut self) {
        let is_answer = |input: &Input<Message>| matches!(input, Input::Queried { .. });
        let inputs = std::mem::take(&mut self.inputs).into_iter();
        let (mut reads, others): (VecDeque<_>, VecDeque<_>) = inputs.partition(is_answer);
        for read in &mut reads {
            if let Input::Queried { outcome, .. } = read {
                *outcome = value(self.state);
            }
        }
        self.inputs = others;
        self.inputs.append(&mut reads);
    }

    pub(crate) fn perform(&mut self, output: Output<Message>) {
        match output {
            Output::Execute { slot, stamp, steps } => {
                self.work.push_back((slot, stamp, steps.to_vec()));
                self.work_on();
            }
            Output::Speculate { slot, stamp, steps } => {
                self.before.insert(slot, self.held());
                self.work.push_back((slot, stamp, steps.to_vec()));
                self.work_on();
            }
            Output::Confirm { slot } => {
                self.before.remove(&slot);
            }
            Output::Undo { after } => self.undo(after),
            Output::Skip { slot, index } => {
                self.skipped.insert((slot, index));
                if self.died_at == Some((slot, index)) {
                    self.died_at = None;
                    self.inputs.push_back(Input::Host { is_up: true });
                    self.work_on();
                }
            }
            Output::Query { read, .. } => {
                let outcome = value(self.state);
                self.inputs.push_back(Input::Queried { read, outcome });
            }
            Output::TakeSnapshot { slot } if self.died_at.is_some() => {
                self.freezes.push_back(slot);
            }
            Output::TakeSnapshot { slot } => self.freeze(slot),
            Output::FinishSnapshot { core, .. } => self.finish(*core),
            Output::StoreChunk { slot, data, .. } => {
                let image = IMAGES.with_borrow(|images| images.get(usize::from(data[0])).cloned());
                if let Some(image) = image {
                    self.incoming.insert(slot, image);
                }
            }
            Output::Install { slot, digest } => self.install(slot, digest),
            Output::Persist { .. }
            | Output::Repaired
            | Output::Conflict(_)
            | Output::Discard { .. }
            | Output::Role(_)
            | Output::BeginView { .. }
            | Output::Quarantined(_)
            | Output::OutcomesDiffer(_)
            | Output::ClocksDiffer(_)
            | Output::Healed { .. }
            | Output::LevelNotSpoken { .. }
            | Output::Send { .. }
            | Output::SendChunk { .. }
            | Output::Reply { .. } => {}
        }
    }

    /// The host ended for another reason, executed its calls again for their state, and died at this one.
    pub(crate) fn dies_again(&mut self, slot: Slot, index: u32) {
        self.died_at = Some((slot, index));
        self.inputs.push_back(Input::Host { is_up: false });
        self.inputs.push_back(Input::HostDied { slot, index });
    }

    fn held(&self) -> (u64, BTreeSet<CommandId>, VecDeque<CommandId>) {
        (self.state, self.executed.clone(), self.parked.clone())
    }

    fn freeze(&mut self, slot: Slot) {
        self.frozen.insert(slot, self.held());
    }

    fn undo(&mut self, after: Slot) {
        self.work.retain(|(slot, ..)| *slot <= after);
        let undone = self.before.split_off(&after.next());
        if let Some((_, held)) = undone.into_iter().next() {
            (self.state, self.executed, self.parked) = held;
        }
        self.inputs.push_back(Input::Undone { after });
    }

    /// Executes what waits, up to a call that kills the host.
    fn work_on(&mut self) {
        self.work_upto_death();
        while self.died_at.is_none()
            && let Some(slot) = self.freezes.pop_front()
        {
            self.freeze(slot);
        }
    }

    // Longer than a screen: one arm a step.
    fn work_upto_death(&mut self) {
        while self.died_at.is_none()
            && let Some((slot, stamp, steps)) = self.work.pop_front()
        {
            while let Some(&freeze) = self.freezes.front()
                && freeze < slot
            {
                self.freezes.pop_front();
                self.freeze(freeze);
            }
            let kills = |call: &&Call| {
                let is_skipped = self.skipped.contains(&(slot, call.index));
                let survives = |word: &&str| word.as_bytes() == &call.payload[..];
                let is_immune = self.is_immune || self.survives.iter().any(survives);
                call.payload.starts_with(b"poison") && !is_skipped && !is_immune
            };
            if let Some(call) = steps.iter().filter_map(Step::call).find(kills) {
                let index = call.index;
                self.died_at = Some((slot, index));
                self.work.push_front((slot, stamp, steps));
                self.inputs.push_back(Input::Host { is_up: false });
                self.inputs.push_back(Input::HostDied { slot, index });
                return;
            }
            let mut results = SlotResults::default();
            for step in &steps {
                let result = match step {
                    Step::Call(call) if self.skipped.contains(&(slot, call.index)) => {
                        StepResult::Answered(Outcome::Skipped)
                    }
                    Step::Call(call) if &call.payload[..] == b"park" => {
                        self.call(call.id, &call.payload);
                        self.parked.push_back(call.id);
                        StepResult::Parked
                    }
                    Step::Call(call) => StepResult::Answered(self.call(call.id, &call.payload)),
                    Step::End(end) => {
                        self.parked.retain(|id| id.session != end.session);
                        StepResult::Done
                    }
                    Step::Resume(resume) => {
                        let (by, session) = (resume.index, resume.session);
                        let ended = self.parked.iter().filter(|id| id.session == session);
                        let answers = ended.map(|id| LaterAnswer {
                            by,
                            id: *id,
                            outcome: woken(),
                        });
                        results.answers.extend(answers);
                        self.parked.retain(|id| id.session != session);
                        StepResult::Done
                    }
                    Step::Tick { .. } => {
                        self.ticks.push(stamp.wall);
                        if !self.is_never_done {
                            self.inputs.push_back(Input::Due { at: None });
                        }
                        StepResult::Done
                    }
                };
                results.steps.push(result);
                if step.call().is_some_and(|call| &call.payload[..] == b"wake")
                    && let Some(id) = self.parked.pop_front()
                {
                    let (by, outcome) = (step.index(), woken());
                    results.answers.push(LaterAnswer { by, id, outcome });
                }
            }
            self.inputs.push_back(Input::Executed { slot, results });
        }
    }

    fn call(&mut self, id: CommandId, payload: &Value) -> Outcome {
        assert!(self.executed.insert(id), "{id} is executed twice");
        for byte in payload {
            self.state = (self.state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3) + 1;
        }
        value(self.state)
    }

    fn finish(&mut self, core: SnapshotCore) {
        let slot = core.slot;
        let Some((state, executed, parked)) = self.frozen.remove(&slot) else {
            assert!(self.died_at.is_some(), "frozen before");
            return;
        };
        let number = IMAGES.with_borrow(Vec::len) as u8;
        let image = Image {
            core,
            state,
            executed,
            parked,
            number,
        };
        IMAGES.with_borrow_mut(|images| images.push(image.clone()));
        self.images.insert(slot, image);
        self.inputs.push_back(Input::SnapshotTaken {
            slot,
            digest: digest(state),
            bytes: IMAGE_BYTES,
        });
    }

    fn install(&mut self, slot: Slot, agreed: Digest) {
        let image = self.incoming.remove(&slot).expect("stored before");
        let held = Digest {
            replicated: image.core.digest(),
            state: digest(image.state),
        };
        let is_unusable = self.unusable_images > 0;
        self.unusable_images = self.unusable_images.saturating_sub(1);
        if is_unusable || held != agreed {
            self.inputs.push_back(Input::InstallFailed { slot });
            return;
        }
        self.state = image.state;
        self.executed = image.executed.clone();
        self.parked = image.parked.clone();
        self.work.clear();
        self.freezes.clear();
        if self.died_at.take().is_some() {
            self.inputs.push_back(Input::Host { is_up: true });
        }
        self.images.insert(slot, image.clone());
        self.inputs.push_back(Input::Installed {
            core: Box::new(image.core),
            digest: digest(image.state),
            bytes: IMAGE_BYTES,
        });
    }

    /// A piece of a stored image.
    pub(crate) fn piece(&self, slot: Slot, offset: u64, length: u32) -> ReplicaMessage {
        let number = self.images[&slot].number;
        let length = u64::from(length).min(IMAGE_BYTES - offset);
        ReplicaMessage::Chunk {
            slot,
            offset,
            total: IMAGE_BYTES,
            data: Value::from(vec![number; length as usize]),
        }
    }
}

/// What a parked call is answered.
pub(crate) fn woken() -> Outcome {
    Outcome::Returned(Value::from_static(b"woken"))
}

pub(crate) fn digest(state: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&state.to_le_bytes());
    digest
}

pub(crate) fn value(state: u64) -> Outcome {
    Outcome::Returned(Value::copy_from_slice(format!("{state:x}").as_bytes()))
}
