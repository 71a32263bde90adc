//! From decided slots to executed slots: the queue of calls for the objects, in slot order.
//!
//! The meta layer never waits for the objects. It queues admitted calls; the objects get as many as they
//! may hold; outcomes come back in the same order. A queued slot shares its batch with the ordering's log.
//! When the queue passes its bound, which is larger where the image is, and a stable snapshot covers its front, that part is
//! dropped and the snapshot is installed instead, so a hung host costs bounded memory.

use crate::limits::{BACKLOG_BYTES, BACKLOG_CALLS, HANDED_BYTES, HANDED_CALLS};
use crate::objects::outcomes::Outcomes;
use crate::replicated::kept::Freed;
use quorate_types::{Batch, Body, CallPlace, Command, CommandId, Slot, Stamp};
use std::collections::VecDeque;

/// Calls of one slot that execute.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) slot: Slot,
    /// The environment that all replicas agree on.
    pub(crate) stamp: Stamp,
    pub(crate) batch: Batch,
    /// The commands of the batch that are steps of the objects, ascending: calls that execute now, and ends of sessions.
    pub(crate) admitted: Vec<u32>,
    /// Those among them that the group decided to skip.
    pub(crate) skipped: Vec<u32>,
    /// Kept replies that were freed in earlier slots, since the last slot that had calls.
    pub(crate) freed_before: Vec<Freed>,
    /// Kept replies that this slot frees.
    pub(crate) freed: Vec<Freed>,
    /// Bytes of replies that may be kept by the view that governs the slot.
    pub(crate) replies_max: usize,
}

/// The next work for the objects.
#[derive(Debug)]
pub(crate) enum Work {
    /// Execute.
    Calls(Calls),
    /// Freeze the state.
    Snapshot(Slot),
}

/// Slots whose work was dropped, because a snapshot will bring their state.
#[derive(Clone, Copy, Debug)]
struct Gap {
    after: Slot,
    upto: Slot,
}

#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    queue: VecDeque<Work>,
    queued: Load,
    handed: VecDeque<Calls>,
    handed_load: Load,
    gap: Option<Gap>,
    /// The objects are about to be restored: they get no calls beyond this slot, whatever is applied
    /// meanwhile.
    held: Option<Slot>,
    /// Nothing after this slot is sent to the objects: another state may replace theirs there.
    stop: Option<Slot>,
    /// The first slot that the objects must not get yet: their host died at a call of it in an earlier start.
    barred: Option<Slot>,
    pub(crate) outcomes: Outcomes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    calls: usize,
    bytes: usize,
}

impl Pipeline {
    /// Appends the work of a newly decided slot.
    pub(crate) fn push(&mut self, work: Work) {
        self.queued.add(work.load());
        self.queue.push_back(work);
    }

    /// The work that comes next.
    pub(crate) fn front_work(&self) -> Option<&Work> {
        self.queue.front()
    }

    /// Whether nothing but room holds work back.
    pub(crate) fn is_open(&self) -> bool {
        self.held.is_none() && self.gap.is_none() && self.stop.is_none() && self.barred.is_none()
    }

    /// Whether the objects have decided calls that they have not answered.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.handed.is_empty()
    }

    /// Whether the objects have everything that is decided.
    pub(crate) fn is_clear(&self) -> bool {
        self.is_open() && self.queue.is_empty()
    }

    /// Takes the next work for the objects, if they may have more; the caller sends it.
    pub(crate) fn next(&mut self) -> Option<Work> {
        if self.held.is_some() || self.gap.is_some() {
            return None;
        }
        let front = self.queue.front()?;
        if self.barred.is_some_and(|barred| front.slot() >= barred)
            || self.stop.is_some_and(|stop| front.slot() > stop)
        {
            return None;
        }
        let load = front.load();
        let is_room = self.handed.is_empty()
            || (self.handed_load.calls + load.calls <= HANDED_CALLS
                && self.handed_load.bytes + load.bytes <= HANDED_BYTES);
        if !is_room {
            return None;
        }
        self.queued.sub(load);
        self.queue.pop_front()
    }

    /// Remembers calls that were sent to the objects.
    pub(crate) fn hand(&mut self, calls: Calls) {
        self.handed_load.add(calls.load());
        self.handed.push_back(calls);
    }

    /// Marks a call as skipped, if its outcome has not come. Returns whether the objects must be told,
    /// because they have the call already.
    pub(crate) fn skip(&mut self, slot: Slot, index: u32) -> bool {
        if let Some(calls) = self.handed.iter_mut().find(|calls| calls.slot == slot) {
            return calls.skip(index);
        }
        for work in &mut self.queue {
            if let Work::Calls(calls) = work
                && calls.slot == slot
            {
                calls.skip(index);
            }
        }
        false
    }

    /// The first slot that is not executed, if it has calls.
    fn front(&self) -> Option<&Calls> {
        let queued = self.queue.iter().find_map(|work| match work {
            Work::Calls(calls) => Some(calls),
            Work::Snapshot(_) => None,
        });
        self.handed.front().or(queued)
    }

    /// A step for which the objects stand still: it is of the first slot that is not executed.
    pub(crate) fn open_call(&self, place: CallPlace) -> Option<&Command> {
        let front = self.front().filter(|calls| calls.slot == place.slot)?;
        front.step(place.index)
    }

    /// Takes the calls of `slot` whose outcomes came; `None` for a slot that is past.
    pub(crate) fn finish(&mut self, slot: Slot) -> Option<Calls> {
        let front = self.handed.front()?.slot;
        if slot < front {
            return None;
        }
        assert_eq!(slot, front, "outcomes come in the order of handing out");
        let calls = self.handed.pop_front()?;
        self.handed_load.sub(calls.load());
        Some(calls)
    }

    /// The highest slot whose calls, and those of all before, are executed.
    pub(crate) fn executed(&self, applied: Slot) -> Slot {
        match self.handed.front() {
            Some(calls) => calls.slot.previous(),
            None => self.handed_out(applied),
        }
    }

    /// The highest slot whose calls, and those of all before, were sent to the objects.
    pub(crate) fn handed_out(&self, applied: Slot) -> Slot {
        let upto = match (self.held, self.gap, self.queue.front()) {
            (Some(held), _, _) => held,
            (None, Some(gap), _) => gap.after,
            (None, None, Some(work)) => work.slot().previous(),
            (None, None, None) => applied,
        };
        self.stop.map_or(upto, |stop| upto.min(stop))
    }

    /// Whether more calls are decided and not executed than admission allows.
    pub(crate) fn is_behind(&self) -> bool {
        let load = self.queued.plus(self.handed_load);
        load.calls > BACKLOG_CALLS || load.bytes > BACKLOG_BYTES
    }

    /// Whether the queue is past its bound, and not much smaller than an image of `image` bytes, which would come instead.
    fn is_worth_an_image(&self, image: u64) -> bool {
        let load = self.queued.plus(self.handed_load);
        let bytes_max = (image / 2).max(BACKLOG_BYTES as u64);
        load.calls > BACKLOG_CALLS || load.bytes as u64 > bytes_max
    }

    /// Drops queued work up to the stable snapshot `upto` when the queue is past its bound, for images of `image` bytes. Returns
    /// whether the objects' state must come from a snapshot at or above `upto`.
    pub(crate) fn shed(&mut self, upto: Slot, applied: Slot, image: u64) -> bool {
        let covers = self.queue.front().is_some_and(|work| work.slot() <= upto);
        if !covers || !self.is_worth_an_image(image) {
            return false;
        }
        let after = self.handed_out(applied);
        self.drop_queued(upto);
        self.gap = Some(Gap { after, upto });
        true
    }

    fn drop_queued(&mut self, upto: Slot) {
        while let Some(work) = self.queue.front()
            && work.slot() <= upto
        {
            self.queued.sub(work.load());
            self.queue.pop_front();
        }
    }

    /// Sends the objects nothing after `slot`, or everything again.
    pub(crate) fn stop(&mut self, slot: Option<Slot>) {
        self.stop = slot;
    }

    /// Sends the objects no slot from this one on.
    pub(crate) fn bar(&mut self, from: Option<Slot>) {
        self.barred = from;
    }

    /// Sends no calls to the objects until [`Pipeline::installed`] or [`Pipeline::release`].
    pub(crate) fn hold(&mut self, applied: Slot) {
        self.held = Some(self.handed_out(applied));
    }

    /// Whether the objects are about to be restored.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Sends calls to the objects again.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    /// The objects have the state after `slot`.
    pub(crate) fn installed(&mut self, slot: Slot, replies_digest: u64) {
        while let Some(calls) = self.handed.pop_front() {
            assert!(calls.slot <= slot, "nothing is handed out during a restore");
            self.handed_load.sub(calls.load());
        }
        self.drop_queued(slot);
        if self.gap.is_some_and(|gap| gap.upto <= slot) {
            self.gap = None;
        }
        self.outcomes = Outcomes::after(slot, replies_digest);
        self.held = None;
    }

    /// Calls decided and not executed here.
    pub(crate) fn backlog(&self) -> usize {
        self.queued.calls + self.handed_load.calls
    }

    pub(crate) fn check(&self, applied: Slot) {
        assert!(self.executed(applied) <= self.handed_out(applied));
        assert!(self.handed_out(applied) <= applied);
        let queued = self.queue.iter().map(Work::load);
        assert_eq!(queued.fold(Load::default(), Load::plus), self.queued);
        let handed = self.handed.iter().map(Calls::load);
        assert_eq!(handed.fold(Load::default(), Load::plus), self.handed_load);
        let order = self.queue.iter().map(Work::slot);
        assert!(order.is_sorted(), "the queue is in slot order");
    }
}

impl Calls {
    /// Marks one call; says whether it is one that executes and was not marked before.
    fn skip(&mut self, index: u32) -> bool {
        let is_new = self.step(index).is_some() && !self.skipped.contains(&index);
        if is_new {
            self.skipped.push(index);
        }
        is_new
    }

    /// The command with this index, if it is a step.
    fn step(&self, index: u32) -> Option<&Command> {
        let is_step = self.admitted.contains(&index);
        let command = self.batch.commands().get(index as usize);
        command.filter(|_| is_step)
    }

    /// The steps that are calls: the place of each among all steps, and its id.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (usize, CommandId)> {
        let commands = self.batch.commands();
        let steps = self.admitted.iter().map(|index| &commands[*index as usize]);
        let calls = steps
            .enumerate()
            .filter(|(_, command)| matches!(command.body, Body::Call { .. }));
        calls.map(|(place, command)| (place, command.id))
    }

    fn load(&self) -> Load {
        Load {
            calls: self.admitted.len(),
            bytes: self.batch.weight(),
        }
    }
}

impl Work {
    fn slot(&self) -> Slot {
        match self {
            Work::Calls(calls) => calls.slot,
            Work::Snapshot(slot) => *slot,
        }
    }

    fn load(&self) -> Load {
        match self {
            Work::Calls(calls) => calls.load(),
            Work::Snapshot(_) => Load::default(),
        }
    }
}

impl Load {
    fn plus(self, other: Load) -> Load {
        Load {
            calls: self.calls + other.calls,
            bytes: self.bytes + other.bytes,
        }
    }

    fn add(&mut self, other: Load) {
        *self = self.plus(other);
    }

    fn sub(&mut self, other: Load) {
        self.calls -= other.calls;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{ObjectId, Value};

    /// A pipeline with `slots` slots of one call of 1 MiB each, the first of them slot 1.
    fn queued(slots: u64) -> Pipeline {
        let payload = Value::from(vec![0; 1 << 20]);
        let mut pipeline = Pipeline::default();
        for slot in 1..=slots {
            let (object, payload) = (ObjectId(0), payload.clone());
            let command = Command {
                id: CommandId::default(),
                acknowledged: 0,
                body: Body::Call { object, payload },
            };
            let stamp = Stamp::default();
            pipeline.push(Work::Calls(Calls {
                slot: Slot(slot),
                stamp,
                batch: Batch::new(stamp, vec![command]),
                admitted: vec![0],
                skipped: Vec::new(),
                freed_before: Vec::new(),
                freed: Vec::new(),
                replies_max: usize::MAX,
            }));
        }
        pipeline
    }

    #[test]
    fn a_backlog_is_executed_where_a_much_larger_image_would_come_instead() {
        let slots = (BACKLOG_BYTES >> 20) as u64 + 10;
        let bytes = slots << 20;
        let (upto, applied) = (Slot(slots - 5), Slot(slots));
        let mut pipeline = queued(slots);
        assert!(pipeline.is_behind(), "no more calls are admitted");
        assert!(!pipeline.shed(upto, applied, 3 * bytes));
        assert_eq!(pipeline.backlog() as u64, slots);
        assert!(pipeline.shed(upto, applied, bytes));
        assert_eq!(pipeline.backlog(), 5);
        assert!(queued(slots).shed(upto, applied, 0), "however small it is");
    }

    #[test]
    fn calls_that_the_objects_hold_count_as_backlog_and_the_first_of_them_is_open() {
        let slots = (BACKLOG_BYTES >> 20) as u64 + 1;
        let mut pipeline = queued(slots);
        for _ in 0..2 {
            let Some(Work::Calls(calls)) = pipeline.next() else {
                panic!("the objects may have two slots");
            };
            pipeline.hand(calls);
        }
        let call = |slot, index| CallPlace {
            slot: Slot(slot),
            index,
        };
        assert!(pipeline.open_call(call(1, 0)).is_some());
        assert!(
            pipeline.open_call(call(2, 0)).is_none(),
            "it is not reached"
        );
        assert!(pipeline.open_call(call(1, 1)).is_none(), "no such call");
        assert!(pipeline.shed(Slot(slots), Slot(slots), 0));
    }
}
