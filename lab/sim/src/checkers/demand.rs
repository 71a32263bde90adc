//! Counts which states operations not yet placed still need and can bring back, so that the search does not leave a
//! state for good that an answer proves to be needed.
//!
//! Called by `search` only. Counts nothing when some operation may lead to many states, as an addition may.

use std::collections::HashMap;
use std::hash::Hash;

use super::model::Model;
use super::search::{Finished, Pending, Step};

/// What one operation needs and brings.
pub(super) struct Effect<S> {
    /// The only state in which its answer is possible.
    pub(super) needed: Option<S>,
    /// The only state to which it can change another.
    left: Option<S>,
}

/// Needs and means of the operations not placed.
pub(super) struct Demand<S> {
    pub(super) finished: Vec<Effect<S>>,
    pending: Vec<Effect<S>>,
    /// Invariant: for each state, how many operations not placed need it and how many can lead to it.
    counts: HashMap<S, (usize, usize)>,
    counted: bool,
}

impl<S: Clone + Eq + Hash> Demand<S> {
    pub(super) fn new<M: Model<State = S>>(
        model: &M,
        finished: &[Finished<'_, M>],
        pending: &[Pending<'_, M>],
    ) -> Self {
        let mut counted = true;
        let mut left = |call, reply| {
            let left = model.leaves(call);
            counted &= left.is_some() || model.never_changes(call, reply);
            left
        };
        let mut demand = Self {
            finished: finished
                .iter()
                .map(|op| Effect {
                    needed: model.needs(op.call, op.reply),
                    left: left(op.call, op.reply),
                })
                .collect(),
            pending: pending
                .iter()
                .map(|op| Effect {
                    needed: None,
                    left: left(op.call, None),
                })
                .collect(),
            counts: HashMap::new(),
            counted: false,
        };
        demand.counted = counted;
        (0..finished.len()).for_each(|op| demand.put_back(Step::Finished(op)));
        (0..pending.len()).for_each(|op| demand.put_back(Step::Pending(op)));
        demand
    }

    /// Says that another operation than the one at hand, which needs `own`, still needs `state` and that none can
    /// lead to it again.
    pub(super) fn is_last(&self, state: &S, own: Option<&S>) -> bool {
        self.counts
            .get(state)
            .is_some_and(|(needs, means)| *means == 0 && *needs > usize::from(own == Some(state)))
    }

    /// Stops counting, so that a search gets as far as it can before it is stuck: for explanations.
    pub(super) fn forget(&mut self) {
        self.counted = false;
        self.counts.clear();
    }

    /// A finished operation that needs a state which is not `initial` and to which nothing leads.
    pub(super) fn impossible(&self, initial: &S) -> Option<usize> {
        self.finished.iter().position(|effect| {
            effect.needed.as_ref().is_some_and(|state| {
                state != initial && self.counts.get(state).is_some_and(|(_, means)| *means == 0)
            })
        })
    }

    pub(super) fn placed(&mut self, step: Step) {
        self.count(step, |count| *count -= 1);
    }

    pub(super) fn put_back(&mut self, step: Step) {
        self.count(step, |count| *count += 1);
    }

    fn count(&mut self, step: Step, change: impl Fn(&mut usize)) {
        if !self.counted {
            return;
        }
        let effect = match step {
            Step::Finished(op) => &self.finished[op],
            Step::Pending(op) => &self.pending[op],
        };
        if let Some(state) = &effect.needed {
            change(&mut self.counts.entry(state.clone()).or_default().0);
        }
        if let Some(state) = &effect.left {
            change(&mut self.counts.entry(state.clone()).or_default().1);
        }
    }
}
