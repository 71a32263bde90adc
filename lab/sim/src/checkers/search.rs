//! Finds an order in which operations could have taken effect: the search of Wing and Gong with Lowe's memory of
//! configurations already seen.
//!
//! A configuration is the set of placed operations and the state they lead to. The set is kept as the words between
//! the first operation not placed and the last one placed, so a step costs the same however long the history is.
//! Five cuts keep it small: a call that never changes state is placed as soon as its answer fits; an unfinished
//! operation is tried only after all finished ones; of equal unfinished calls only the oldest is tried; a configuration
//! reached with more unfinished operations than before is not visited again; a
//! state that an operation still needs and none can bring back is not left (`demand`). None of them loses an order.
//! Called by `linearizability`, which prepares operations and words the verdict.

use std::collections::HashMap;
use std::rc::Rc;

use super::demand::Demand;
use super::limits::STATES_SHOWN_MAX;
use super::model::Model;
use super::timeline::{HEAD, Timeline, TimelineEntry, TimelineNode};

/// An operation whose return is known.
pub(super) struct Finished<'a, M: Model> {
    pub(super) index: usize,
    pub(super) call: &'a M::Call,
    pub(super) reply: Option<&'a M::Reply>,
    pub(super) invoke_ns: u64,
    pub(super) return_ns: u64,
}

/// An operation that may take effect at any time after its call, or never.
pub(super) struct Pending<'a, M: Model> {
    pub(super) index: usize,
    pub(super) call: &'a M::Call,
    pub(super) invoke_ns: u64,
}

/// How a search ended; operations are named by the caller's indices.
pub(super) enum Found {
    /// All finished operations fit in this order.
    Order(Vec<usize>),
    /// No order exists.
    Nothing(Stuck),
    /// The configurations or the steps allowed were spent.
    Spent(Stuck),
}

/// Where the search got furthest.
#[derive(Default)]
pub(super) struct Stuck {
    /// The longest order that leads up to the operation that cannot be placed.
    pub(super) prefix: Vec<usize>,
    /// The operation that cannot be placed before its return.
    pub(super) blocker: Option<usize>,
    /// States that were possible there, as text.
    pub(super) states: Vec<String>,
    return_ns: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Finished(usize),
    Pending(usize),
}

/// What to try next in a configuration.
#[derive(Clone, Copy)]
enum Cursor {
    Unchanging,
    Finished(TimelineNode),
    Pending(usize),
}

struct Frame<S> {
    step: Step,
    before: Rc<S>,
    /// `None` when no other choice at this point can do better.
    resume: Option<Cursor>,
}

/// What is placed and the state it leads to; the unfinished operations used to get there stand beside it.
#[derive(PartialEq, Eq, Hash)]
struct Configuration<S> {
    offset: usize,
    placed: Box<[u64]>,
    state: Rc<S>,
}

pub(super) struct Search<'a, M: Model> {
    model: &'a M,
    finished: Vec<Finished<'a, M>>,
    unchanging: Vec<bool>,
    pending: Vec<Pending<'a, M>>,
    /// For each unfinished operation the older one with an equal call, which is tried first.
    older_twin: Vec<Option<usize>>,
    timeline: Timeline,
    placed: Bits,
    taken: Bits,
    state: Rc<M::State>,
    stack: Vec<Frame<M::State>>,
    /// For each configuration the sets of unfinished operations that led to it: a set that holds another one can
    /// reach nothing that the smaller one cannot.
    seen: HashMap<Configuration<M::State>, Vec<Box<[u64]>>>,
    visited: usize,
    /// Calls tried and visits compared: what the search costs between two new configurations.
    steps: usize,
    left: usize,
    stuck: Stuck,
    demand: Demand<M::State>,
}

impl<'a, M: Model> Search<'a, M> {
    /// `finished` and `pending` must each be sorted by the time of their call.
    pub(super) fn new(
        model: &'a M,
        initial: M::State,
        finished: Vec<Finished<'a, M>>,
        pending: Vec<Pending<'a, M>>,
    ) -> Self {
        assert!(finished.is_sorted_by_key(|op| op.invoke_ns));
        assert!(pending.is_sorted_by_key(|op| op.invoke_ns));
        let times: Vec<_> = finished
            .iter()
            .map(|op| (op.invoke_ns, op.return_ns))
            .collect();
        Self {
            model,
            unchanging: finished
                .iter()
                .map(|op| model.never_changes(op.call, op.reply))
                .collect(),
            older_twin: older_twins(&pending),
            demand: Demand::new(model, &finished, &pending),
            timeline: Timeline::new(&times),
            placed: Bits::new(finished.len()),
            taken: Bits::new(pending.len()),
            state: Rc::new(initial),
            stack: vec![],
            seen: HashMap::new(),
            visited: 0,
            steps: 0,
            left: finished.len(),
            stuck: Stuck::default(),
            finished,
            pending,
        }
    }

    /// Lets the search run into what it would foresee: slower, and stuck where a person sees why.
    pub(super) fn without_foresight(mut self) -> Self {
        self.demand.forget();
        self
    }

    /// Searches until an order is found, none is left, or so many configurations were visited or steps taken.
    pub(super) fn run(mut self, configurations_max: usize, steps_max: usize) -> Found {
        if let Some(op) = self.demand.impossible(&self.state) {
            self.stuck.blocker = Some(self.finished[op].index);
            self.stuck.states.push("none that allows it".to_owned());
            return Found::Nothing(self.stuck);
        }
        let mut cursor = Cursor::Unchanging;
        while self.left > 0 {
            if self.visited > configurations_max || self.steps > steps_max {
                self.note_stuck();
                return Found::Spent(self.stuck);
            }
            if let Some((step, after, resume)) = self.choose(cursor) {
                self.take(step, after, resume);
                cursor = Cursor::Unchanging;
            } else {
                self.note_stuck();
                match self.back() {
                    Some(resume) => cursor = resume,
                    None => return Found::Nothing(self.stuck),
                }
            }
        }
        Found::Order(self.order())
    }

    fn choose(&mut self, mut cursor: Cursor) -> Option<(Step, Rc<M::State>, Option<Cursor>)> {
        loop {
            match cursor {
                Cursor::Unchanging => {
                    if let Some(op) = self.fitting_unchanging() {
                        return Some((Step::Finished(op), Rc::clone(&self.state), None));
                    }
                    cursor = Cursor::Finished(self.timeline.after(HEAD));
                }
                Cursor::Finished(node) => match self.timeline.at(node) {
                    TimelineEntry::Return(_) => cursor = Cursor::Pending(0),
                    TimelineEntry::Invoke(op) => {
                        cursor = Cursor::Finished(self.timeline.after(node));
                        if let Some(after) = self.try_finished(op) {
                            return Some((Step::Finished(op), after, Some(cursor)));
                        }
                    }
                },
                Cursor::Pending(op) => {
                    let until = self.timeline.first_return()?;
                    let called = self.pending.get(op)?.invoke_ns;
                    if called > self.finished[until].return_ns {
                        return None;
                    }
                    cursor = Cursor::Pending(op + 1);
                    if let Some(after) = self.try_pending(op) {
                        return Some((Step::Pending(op), after, Some(cursor)));
                    }
                }
            }
        }
    }

    fn fitting_unchanging(&mut self) -> Option<usize> {
        let mut node = self.timeline.after(HEAD);
        while let TimelineEntry::Invoke(op) = self.timeline.at(node) {
            self.steps += 1;
            let candidate = &self.finished[op];
            if self.unchanging[op] && self.fits(candidate).is_some() {
                return Some(op);
            }
            node = self.timeline.after(node);
        }
        None
    }

    fn fits(&self, candidate: &Finished<'a, M>) -> Option<M::State> {
        let (after, reply) = self.model.apply(&self.state, candidate.call);
        candidate
            .reply
            .is_none_or(|expected| *expected == reply)
            .then_some(after)
    }

    fn try_finished(&mut self, op: usize) -> Option<Rc<M::State>> {
        self.steps += 1;
        if self.unchanging[op] {
            return None;
        }
        let after = Rc::new(self.fits(&self.finished[op])?);
        let needed = self.demand.finished[op].needed.as_ref();
        if after != self.state && self.demand.is_last(&self.state, needed) {
            return None;
        }
        self.placed.set(op);
        let new = self.first_visit(&after);
        self.placed.clear(op);
        new.then_some(after)
    }

    fn try_pending(&mut self, op: usize) -> Option<Rc<M::State>> {
        self.steps += 1;
        let waits_for_twin = self.older_twin[op].is_some_and(|twin| !self.taken.has(twin));
        if self.taken.has(op) || waits_for_twin {
            return None;
        }
        let (after, _) = self.model.apply(&self.state, self.pending[op].call);
        if after == *self.state || self.demand.is_last(&self.state, None) {
            return None;
        }
        let after = Rc::new(after);
        self.taken.set(op);
        let new = self.first_visit(&after);
        self.taken.clear(op);
        new.then_some(after)
    }

    /// Says that nothing visited before can reach all that this configuration can, and remembers it.
    fn first_visit(&mut self, state: &Rc<M::State>) -> bool {
        let (offset, placed) = self.placed.window();
        let configuration = Configuration {
            offset,
            placed: placed.into(),
            state: Rc::clone(state),
        };
        let used = self.taken.words.as_slice();
        let visits = self.seen.entry(configuration).or_default();
        self.steps += visits.len();
        if visits.iter().any(|fewer| is_subset(fewer, used)) {
            return false;
        }
        visits.retain(|more| !is_subset(used, more));
        visits.push(used.into());
        self.visited += 1;
        true
    }

    fn take(&mut self, step: Step, after: Rc<M::State>, resume: Option<Cursor>) {
        match step {
            Step::Finished(op) => {
                self.placed.set(op);
                self.timeline.lift(op);
                self.left -= 1;
                self.demand.placed(Step::Finished(op));
            }
            Step::Pending(op) => {
                self.taken.set(op);
                self.demand.placed(step);
            }
        }
        let before = std::mem::replace(&mut self.state, after);
        self.stack.push(Frame {
            step,
            before,
            resume,
        });
    }

    /// Undoes choices up to and including the last that had an alternative.
    fn back(&mut self) -> Option<Cursor> {
        loop {
            let frame = self.stack.pop()?;
            match frame.step {
                Step::Finished(op) => {
                    self.timeline.put_back(op);
                    self.placed.clear(op);
                    self.left += 1;
                }
                Step::Pending(op) => self.taken.clear(op),
            }
            self.demand.put_back(frame.step);
            self.state = frame.before;
            if frame.resume.is_some() {
                return frame.resume;
            }
        }
    }

    fn note_stuck(&mut self) {
        let Some(op) = self.timeline.first_return() else {
            return;
        };
        let blocker = &self.finished[op];
        let further = self.stuck.blocker.is_none() || blocker.return_ns > self.stuck.return_ns;
        if further {
            self.stuck = Stuck {
                prefix: self.order(),
                blocker: Some(blocker.index),
                states: vec![],
                return_ns: blocker.return_ns,
            };
        }
        if self.stuck.blocker != Some(blocker.index) {
            return;
        }
        if self.stack.len() > self.stuck.prefix.len() {
            self.stuck.prefix = self.order();
        }
        if self.stuck.states.len() < STATES_SHOWN_MAX {
            let state = format!("{:?}", self.state);
            if !self.stuck.states.contains(&state) {
                self.stuck.states.push(state);
            }
        }
    }

    fn order(&self) -> Vec<usize> {
        let index = |frame: &Frame<M::State>| match frame.step {
            Step::Finished(op) => self.finished[op].index,
            Step::Pending(op) => self.pending[op].index,
        };
        self.stack.iter().map(index).collect()
    }
}

fn older_twins<M: Model>(pending: &[Pending<'_, M>]) -> Vec<Option<usize>> {
    let mut newest: HashMap<&M::Call, usize> = HashMap::new();
    pending
        .iter()
        .enumerate()
        .map(|(op, operation)| newest.insert(operation.call, op))
        .collect()
}

fn is_subset(fewer: &[u64], more: &[u64]) -> bool {
    fewer.iter().zip(more).all(|(few, many)| few & !many == 0)
}

/// A set of operation numbers that knows the words in which anything but leading ones and trailing zeros stands.
struct Bits {
    words: Vec<u64>,
    /// Invariant: all words before it are full.
    low: usize,
    /// Invariant: all words from it on are empty.
    high: usize,
}

impl Bits {
    fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            low: 0,
            high: 0,
        }
    }

    fn has(&self, bit: usize) -> bool {
        self.words[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn set(&mut self, bit: usize) {
        self.words[bit / 64] |= 1 << (bit % 64);
        self.high = self.high.max(bit / 64 + 1);
        while self.low < self.words.len() && self.words[self.low] == u64::MAX {
            self.low += 1;
        }
    }

    fn clear(&mut self, bit: usize) {
        self.words[bit / 64] &= !(1 << (bit % 64));
        self.low = self.low.min(bit / 64);
        while self.high > 0 && self.words[self.high - 1] == 0 {
            self.high -= 1;
        }
    }

    /// The words between, and the number of the first: equal for equal sets only.
    fn window(&self) -> (usize, &[u64]) {
        (self.low, &self.words[self.low..self.high.max(self.low)])
    }
}
