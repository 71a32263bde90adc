//! Poison calls, which end every host that executes them: who died at which, and who came past it.
//!
//! Reports are decided commands, so every replica skips the same call at the same place of the log. No
//! snapshot holds them. A call that nobody came past stands in no snapshot, and whoever came past one
//! never reports it as deadly again, so what was reported before a snapshot decides nothing after it.

use crate::limits::POISON_CALLS;
use quorate_types::{CallPlace, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;

/// Decided reports, by call. Invariant: at most [`POISON_CALLS`] that are never skipped, and one more for
/// each replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoisonCalls {
    calls: BTreeMap<CallPlace, Reports>,
}

/// What replicas said of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Reports {
    /// Hosts that died at it for good.
    died: NodeSet,
    /// Replicas whose objects are past it.
    survived: NodeSet,
    /// Its effects may have been seen: no reports skip it any more.
    is_kept: bool,
}

/// What a host's end at a call says of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// No earlier life of the reporter executed it.
    First,
    /// An earlier life may have executed it, and answered for it.
    Again,
}

impl PoisonCalls {
    /// A death is decided. Says whether the call is skipped for it: every one of `replicas` died at it and
    /// none of them can ever have executed it.
    pub(crate) fn died(
        &mut self,
        replicas: NodeSet,
        reporter: NodeId,
        place: CallPlace,
        death: Death,
    ) -> bool {
        if !replicas.contains(reporter) {
            return false;
        }
        // A host dies at one call: it has come past what it died at before.
        self.calls.retain(|at, reports| {
            if *at != place && !reports.is_kept {
                reports.died = reports.died.without(reporter);
            }
            reports.is_kept || !reports.died.is_empty()
        });
        let reports = self.calls.entry(place).or_default();
        reports.died.insert(reporter);
        reports.is_kept |= death == Death::Again;
        let is_everywhere = replicas.iter().all(|node| reports.died.contains(node));
        let is_skipped = is_everywhere && !reports.is_kept;
        if is_skipped {
            self.calls.remove(&place);
        }
        self.bound();
        is_skipped
    }

    /// A replica is past the call: it is never skipped for reports.
    pub(crate) fn survived(&mut self, reporter: NodeId, place: CallPlace) {
        let reports = self.calls.entry(place).or_default();
        reports.survived.insert(reporter);
        reports.is_kept = true;
        self.bound();
    }

    /// The call is skipped by decision.
    pub(crate) fn skipped(&mut self, place: CallPlace) {
        self.calls.remove(&place);
    }

    /// Says whether somebody is past the call.
    pub(crate) fn has_survivor(&self, place: CallPlace) -> bool {
        let reports = self.calls.get(&place);
        reports.is_some_and(|reports| !reports.survived.is_empty())
    }

    /// Replicas that are known not to be past a call up to `slot` which another one survived: they can take
    /// no snapshot there by themselves.
    pub(crate) fn stuck(&self, slot: Slot) -> NodeSet {
        let survived = self
            .calls
            .iter()
            .filter(|(place, reports)| place.slot <= slot && !reports.survived.is_empty());
        survived
            .flat_map(|(_, reports)| {
                let stuck = reports.died.iter();
                stuck.filter(|node| !reports.survived.contains(*node))
            })
            .collect()
    }

    /// The first call up to `slot` at which somebody died, and of which `own` has not said that it is past.
    pub(crate) fn to_tell(&self, own: NodeId, slot: Slot) -> Option<CallPlace> {
        let mut passed = self
            .calls
            .iter()
            .filter(|(place, reports)| place.slot <= slot && !reports.survived.contains(own));
        passed.next().map(|(place, _)| *place)
    }

    /// The oldest of the calls that are never skipped are forgotten: who may have executed one does not
    /// report it as if it never had, so it is not skipped then either.
    fn bound(&mut self) {
        while self.kept().count() > POISON_CALLS {
            let oldest = self.kept().next().expect("there are some");
            self.calls.remove(&oldest);
        }
    }

    fn kept(&self) -> impl Iterator<Item = CallPlace> {
        let kept = self.calls.iter().filter(|(_, reports)| reports.is_kept);
        kept.map(|(place, _)| *place)
    }

    pub(crate) fn check(&self) {
        assert!(self.kept().count() <= POISON_CALLS);
    }
}
