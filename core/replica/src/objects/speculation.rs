//! Execution ahead of decisions (High Performance State-Machine Replication, 3.2): calls execute in the order that this node votes
//! for, while the votes are counted.
//!
//! Only the objects go ahead. Sessions, replies, digests and parked calls of the replica change when a slot is decided, as ever: the
//! results wait here until then. If the slot is decided as it was executed they count at once, and the wait was the longer one
//! of ordering and executing instead of both. Otherwise the objects go back to the state after the last slot that was right.
//! A read that saw such a state is answered once that is decided, or asked again.

use crate::limits::{SPECULATION_BYTES, SPECULATION_OFFERS, SPECULATION_PATIENCE};
use crate::objects::pipeline::{Calls, Work};
use crate::replicated::kept::weight;
use crate::replicated::rising;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Batch, Body, Command, CommandId, Slot, SlotResults, SlotSteps, Stamp, StepResult, Time, Wall,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often a replica has executed ahead of decisions since it started, in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Speculated {
    /// Decided as they had been executed.
    pub kept: u64,
    /// Undone.
    pub undone: u64,
}

/// A slot that the objects got before it was decided.
#[derive(Debug)]
struct Ahead {
    slot: Slot,
    stamp: Stamp,
    batch: Batch,
    since: Time,
    /// What came of it, once that is known.
    results: Option<SlotResults>,
    /// What was told of when the objects have something to do, with what came of it.
    due: Option<Option<Wall>>,
    /// Bytes of the calls, and of what came of them.
    weight: usize,
}

/// What the objects have executed, or are executing, of slots that are not decided.
#[derive(Debug, Default)]
pub(crate) struct Speculation {
    /// Orders that were told and are not decided.
    offered: BTreeMap<Slot, Batch>,
    /// In the order of slots; all behind what the pipeline has handed out.
    ahead: VecDeque<Ahead>,
    /// Their calls.
    calls: BTreeSet<CommandId>,
    bytes: usize,
    /// The last slot that was looked at: one without calls is not in `ahead`.
    upto: Slot,
    /// The objects are going back to the state after this slot: what they tell of later ones is of before.
    undoing: Option<Slot>,
    counted: Speculated,
}

impl Speculation {
    /// The newest slot of which a read that is handed out now shows something undecided.
    pub(crate) fn observed(&self) -> Option<Slot> {
        self.ahead.back().map(|ahead| ahead.slot)
    }

    /// Whether everything up to `slot` that was executed ahead is decided.
    pub(crate) fn is_decided(&self, slot: Slot) -> bool {
        self.undecided().is_none_or(|undecided| undecided > slot)
    }

    /// The first slot that the objects have executed and that is not decided.
    pub(crate) fn undecided(&self) -> Option<Slot> {
        self.ahead.front().map(|ahead| ahead.slot)
    }

    /// Whether what the objects tell of `slot`, or told of a state with it, is undone.
    pub(crate) fn is_undone(&self, slot: Slot) -> bool {
        self.undoing.is_some_and(|after| slot > after)
    }

    pub(crate) fn is_undoing(&self) -> bool {
        self.undoing.is_some()
    }

    /// Whether the objects have not answered everything that they were given ahead.
    pub(crate) fn is_awaited(&self) -> bool {
        let last = self.ahead.back();
        last.is_some_and(|ahead| ahead.results.is_none())
    }

    pub(crate) fn counted(&self) -> Speculated {
        self.counted
    }

    /// Keeps what came of a slot that is not decided. Gives it back for any other slot.
    pub(crate) fn keep(&mut self, slot: Slot, results: SlotResults) -> Option<SlotResults> {
        let Some(ahead) = self.ahead.iter_mut().find(|ahead| ahead.slot == slot) else {
            return Some(results);
        };
        let weight: usize = results.outcomes().map(weight).sum();
        ahead.weight += weight;
        self.bytes += weight;
        ahead.results = Some(results);
        None
    }

    /// What a slot that is executed ahead holds.
    pub(crate) fn batch_of(&self, slot: Slot) -> Option<&Batch> {
        let mut ahead = self.ahead.iter();
        Some(&ahead.find(|ahead| ahead.slot == slot)?.batch)
    }

    /// What came of a call that is executed ahead, once that is known.
    pub(crate) fn result_of(&self, id: CommandId) -> Option<(&Command, &StepResult)> {
        if !self.calls.contains(&id) {
            return None;
        }
        let mut ahead = self.ahead.iter();
        ahead.find_map(|ahead| {
            let mut calls = ahead.batch.commands().iter().enumerate();
            let (place, command) = calls.find(|(_, command)| command.id == id)?;
            Some((command, ahead.results.as_ref()?.steps.get(place)?))
        })
    }

    /// The calls of slots behind `after`.
    fn calls_after(&self, after: Slot) -> Vec<CommandId> {
        let undone = self.ahead.iter().filter(|ahead| ahead.slot > after);
        let calls = undone.flat_map(|ahead| ahead.batch.commands());
        calls.map(|command| command.id).collect()
    }

    /// When it is given up to wait for the decision of the first slot.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let front = self.ahead.front().filter(|_| self.undoing.is_none())?;
        Some(front.since + SPECULATION_PATIENCE)
    }

    /// Drops what is behind `after`.
    fn go_back(&mut self, after: Slot) {
        while self.ahead.back().is_some_and(|last| last.slot > after)
            && let Some(last) = self.ahead.pop_back()
        {
            self.bytes -= last.weight;
            self.forget(&last.batch);
            self.counted.undone += 1;
        }
        self.upto = self.upto.min(after);
    }

    fn forget(&mut self, batch: &Batch) {
        for command in batch.commands() {
            self.calls.remove(&command.id);
        }
    }

    /// Takes the first slot out, which is decided as it was executed.
    fn confirm(&mut self) -> Option<Ahead> {
        let front = self.ahead.pop_front()?;
        self.bytes -= front.weight;
        self.forget(&front.batch);
        self.counted.kept += 1;
        Some(front)
    }

    pub(crate) fn check(&self) {
        let bytes: usize = self.ahead.iter().map(|ahead| ahead.weight).sum();
        assert_eq!(bytes, self.bytes);
        let calls: usize = self
            .ahead
            .iter()
            .map(|ahead| ahead.batch.commands().len())
            .sum();
        assert_eq!(calls, self.calls.len(), "no call is executed ahead twice");
        assert!(self.ahead.iter().is_sorted_by_key(|ahead| ahead.slot));
        assert!(self.offered.len() <= SPECULATION_OFFERS);
    }
}

impl<O: Ordering> Replica<O> {
    /// The ordering tells what a slot will hold unless a later round decides otherwise.
    pub(crate) fn offered(&mut self, slot: Slot, batch: Batch, out: &mut Vec<Output<O::Message>>) {
        if self.config.speculation == 0 || slot <= self.replicated.applied {
            return;
        }
        let speculation = &mut self.speculation;
        let known = speculation.ahead.iter().find(|ahead| ahead.slot == slot);
        let is_other = slot <= speculation.upto && known.is_none_or(|known| known.batch != batch);
        speculation.offered.insert(slot, batch);
        if speculation.offered.len() > SPECULATION_OFFERS {
            speculation.offered.pop_last();
        }
        if is_other {
            self.undo(slot.previous(), out);
        }
    }

    /// The work that comes next, after it was compared with what the objects have of it. `None` while they go back.
    pub(crate) fn next_work(
        &mut self,
        now: Time,
        out: &mut Vec<Output<O::Message>>,
    ) -> Option<Work> {
        if let Some(after) = self.wrong_after(now) {
            self.undo(after, out);
        }
        if self.speculation.is_undoing() && !planted(Plant::UndoneNotAwaited) {
            return None;
        }
        self.pipeline.next()
    }

    /// The last slot of the objects' state that is right, if a later one is not, or is not waited for any longer.
    fn wrong_after(&mut self, now: Time) -> Option<Slot> {
        let front = self.speculation.ahead.front()?;
        let is_late = front.since + SPECULATION_PATIENCE <= now;
        if is_late {
            self.speculation.offered.clear();
        }
        let is_fit = self.host_down_at.is_none() && self.is_replica() && self.pipeline.is_open();
        let is_like = match self.pipeline.front_work() {
            None => front.slot > self.replicated.applied,
            Some(Work::Snapshot(_)) => planted(Plant::AheadInSnapshot),
            Some(Work::Calls(calls)) => front.is_like(calls),
        };
        let is_right = is_fit && (is_like || planted(Plant::TentativeNotCompared)) && !is_late;
        let is_wrong = !is_right;
        is_wrong.then(|| self.decided_upto(front))
    }

    /// The slot of the objects' state without what they have ahead. A slot before `front` may be decided with calls that was voted for
    /// without.
    fn decided_upto(&self, front: &Ahead) -> Slot {
        let handed = self.pipeline.handed_out(self.replicated.applied);
        handed.min(front.slot.previous())
    }

    /// Gives the calls back unless the objects have them already: then it is as if they had got and executed them now.
    pub(crate) fn not_ahead(
        &mut self,
        now: Time,
        calls: Calls,
        out: &mut Vec<Output<O::Message>>,
    ) -> Option<Calls> {
        let slot = calls.slot;
        if self
            .speculation
            .ahead
            .front()
            .is_none_or(|front| front.slot != slot)
        {
            return Some(calls);
        }
        let ahead = self.speculation.confirm()?;
        out.push(Output::Confirm { slot });
        self.pipeline.hand(calls);
        if let Some(due) = ahead.due {
            self.ticks.told(due);
        }
        if let Some(results) = ahead.results {
            self.executed(slot, results, out);
        }
        self.answer_observed(now, out);
        None
    }

    /// The objects tell when they have something to do first. It comes before what came of the slot that changed it, and counts with
    /// that.
    pub(crate) fn due_told(&mut self, at: Option<Wall>) {
        let is_of_decided = self.speculation.is_undoing() || self.pipeline.is_awaited();
        let mut ahead = self.speculation.ahead.iter_mut();
        match ahead.find(|ahead| ahead.results.is_none()) {
            Some(ahead) if !is_of_decided => ahead.due = Some(at),
            Some(_) | None => self.ticks.told(at),
        }
    }

    /// The objects go back to the state after `after`: nothing is sent to them until they have.
    pub(crate) fn undo(&mut self, after: Slot, out: &mut Vec<Output<O::Message>>) {
        let is_ahead = self.speculation.observed().is_some_and(|last| last > after);
        self.forget_early(&self.speculation.calls_after(after), out);
        self.speculation.go_back(after);
        if !is_ahead {
            return;
        }
        let earlier = self.speculation.undoing;
        self.speculation.undoing = Some(earlier.map_or(after, |earlier| earlier.min(after)));
        out.push(Output::Undo { after });
        self.ask_undone(after, out);
    }

    /// All of it is undone: the objects are to have another state.
    pub(crate) fn undo_all(&mut self, out: &mut Vec<Output<O::Message>>) {
        if let Some(front) = self.speculation.ahead.front() {
            let after = self.decided_upto(front);
            self.undo(after, out);
        }
    }

    /// The objects have the state after `after`, which they were to go back to.
    pub(crate) fn undone(&mut self, after: Slot) {
        if self.speculation.undoing == Some(after) {
            self.speculation.undoing = None;
            let executed = self.pipeline.handed_out(self.replicated.applied);
            let shown = (executed, self.speculation.observed());
            self.reads.shows(after, shown);
        }
    }

    /// Sends the objects what is ordered and not decided, as far as they may go ahead.
    pub(crate) fn speculate(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if self.speculation.offered.is_empty() {
            return;
        }
        let applied = self.replicated.applied;
        let later = self.speculation.offered.split_off(&applied.next());
        self.speculation.offered = later;
        self.speculation.upto = self.speculation.upto.max(applied);
        while self.may_go_ahead() {
            let slot = self.speculation.upto.next();
            let Some(batch) = self.speculation.offered.get(&slot) else {
                return;
            };
            let batch = batch.clone();
            let is_marked = |command: &Command| command.body == Body::Checkpoint;
            let is_passed =
                planted(Plant::AheadInSnapshot) && batch.commands().iter().all(is_marked);
            if !batch.commands().is_empty() && !is_passed {
                if !self.are_new_calls(batch.commands()) {
                    return;
                }
                self.go_ahead(now, slot, batch, out);
            }
            self.speculation.upto = slot;
        }
    }

    fn may_go_ahead(&self) -> bool {
        let speculation = &self.speculation;
        speculation.undoing.is_none()
            && speculation.ahead.len() < self.config.speculation
            && speculation.bytes < SPECULATION_BYTES
            && self.pipeline.is_clear()
            && self.host_down_at.is_none()
            && self.is_replica()
            && self.serves_objects().is_ok()
    }

    /// Whether the batch has only calls, each of which will be executed if it is decided here. What else it may hold, and calls that
    /// were seen before, wait for the decision.
    fn are_new_calls(&self, commands: &[Command]) -> bool {
        let view = self.replicated.views.current();
        let mut seen = BTreeSet::new();
        commands.iter().all(|command| {
            let Body::Call { object, .. } = &command.body else {
                return false;
            };
            let session = self.replicated.sessions.session(command.id.session);
            view.may_have(*object)
                && session.is_some_and(|session| session.will_admit(command))
                && (!self.speculation.calls.contains(&command.id) || planted(Plant::AheadTwice))
                && seen.insert(command.id)
        })
    }

    fn go_ahead(&mut self, now: Time, slot: Slot, batch: Batch, out: &mut Vec<Output<O::Message>>) {
        let before = self.speculation.ahead.back().map(|ahead| ahead.stamp);
        let stamp = rising(before.unwrap_or(self.replicated.stamp), batch.stamp());
        let all = (0..).take(batch.commands().len()).collect();
        out.push(Output::Speculate {
            slot,
            stamp,
            steps: SlotSteps::of_batch(batch.clone(), all),
        });
        let ids = batch.commands().iter().map(|command| command.id);
        self.speculation.calls.extend(ids);
        let weight = batch.weight();
        self.speculation.bytes += weight;
        self.speculation.ahead.push_back(Ahead {
            slot,
            stamp,
            batch,
            since: now,
            results: None,
            due: None,
            weight,
        });
    }
}

impl Ahead {
    /// Whether the decided slot is executed as this one was.
    fn is_like(&self, calls: &Calls) -> bool {
        self.slot == calls.slot
            && self.stamp == calls.stamp
            && calls.skipped.is_empty()
            && calls.admitted.len() == self.batch.commands().len()
            && self.batch == calls.batch
    }
}
