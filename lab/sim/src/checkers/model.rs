//! The sequential object that a history or a log is compared with.
//!
//! Open on purpose: the recorded objects implement it, and the seeded world implements it for whole replicas.

use std::fmt::Debug;
use std::hash::Hash;

/// A deterministic sequential object.
pub trait Model {
    /// All that decides how later calls are answered.
    type State: Clone + Eq + Hash + Debug;
    /// A call with its arguments.
    type Call: Clone + Eq + Hash + Debug;
    /// An answer.
    type Reply: Clone + Eq + Debug;

    /// The state after `call` in `state`, and its answer. Must not depend on anything else.
    fn apply(&self, state: &Self::State, call: &Self::Call) -> (Self::State, Self::Reply);

    /// Takes `state` to the state after `call`, and answers it.
    fn advance(&self, state: &mut Self::State, call: &Self::Call) -> Self::Reply {
        let (after, reply) = self.apply(state, call);
        *state = after;
        reply
    }

    /// Says that `call`, answered with `reply` (`None`: the answer is not known), changes no state whatever the state was.
    ///
    /// The search then places it at once. `false` is always correct, and slower.
    fn never_changes(&self, call: &Self::Call, reply: Option<&Self::Reply>) -> bool;

    /// The only state in which `call` can be answered with `reply`; `None`: there may be several. `None` is always correct.
    fn needs(&self, _call: &Self::Call, _reply: Option<&Self::Reply>) -> Option<Self::State> {
        None
    }

    /// The only state to which `call` can change any other; `None`: it depends. `None` is always correct.
    fn leaves(&self, _call: &Self::Call) -> Option<Self::State> {
        None
    }
}
