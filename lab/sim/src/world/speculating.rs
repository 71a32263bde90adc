//! Objects that go ahead of decisions: what they execute is judged once its slot is decided as it was executed.

use super::World;
use super::row::Row;
use super::trace::Tag;
use quorate_types::{NodeId, Slot, SlotResults, Stamp, Step};
use std::collections::BTreeMap;

/// What came of a slot that is not decided.
pub(super) struct Undecided {
    stamp: Stamp,
    pub(super) steps: Vec<Step>,
    pub(super) results: SlotResults,
}

/// Slots that were sent out before they were decided, at one node; what came of them, once that is known.
pub(super) type Ahead = BTreeMap<Slot, Option<Undecided>>;

impl World {
    pub(super) fn speculate(&mut self, id: NodeId, slot: Slot, stamp: Stamp, steps: Vec<Step>) {
        let running = self.running(id);
        running.ahead.insert(slot, None);
        running.objects.speculate(slot, stamp, steps);
    }

    /// The objects executed a slot.
    pub(super) fn executed(
        &mut self,
        id: NodeId,
        (slot, stamp): (Slot, Stamp),
        steps: &[Step],
        results: &SlotResults,
    ) {
        if let Some(ahead) = self.running(id).ahead.get_mut(&slot) {
            *ahead = Some(Undecided {
                stamp,
                steps: steps.to_vec(),
                results: results.clone(),
            });
            return;
        }
        let judged = self.judge.executed(id, slot, stamp, steps, results);
        self.judged(judged);
        self.note_woken(steps, results);
    }

    pub(super) fn confirm(&mut self, id: NodeId, slot: Slot) {
        self.watch_handed(id, slot);
        self.judged(
            self.judge
                .goes_on(id, slot.previous(), "executes what follows"),
        );
        self.exercised(Row::Ahead);
        let running = self.running(id);
        running.objects.confirm(slot);
        if let Some(Some(ahead)) = running.ahead.remove(&slot) {
            self.executed(id, (slot, ahead.stamp), &ahead.steps, &ahead.results);
        }
    }

    pub(super) fn undo(&mut self, id: NodeId, after: Slot) {
        let words = [Tag::Work as u64, u64::from(id.0), after.0];
        self.trace
            .note(self.now, &words, || format!("{id} goes back to {after}"));
        self.exercised(Row::Undone);
        let running = self.running(id);
        running.ahead.split_off(&after.next());
        if running.objects.undo(after) {
            self.host_starts_soon(id);
        }
        self.begin_work(id);
    }
}
