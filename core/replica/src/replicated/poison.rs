//! Poison calls, which end every host that executes them: reports of deaths at a call and of survivals.
//!
//! Reports are decided commands, so every replica skips the same call at the same place of the log. Snapshots
//! do not contain reports. A call that no replica has passed is in no snapshot, and a replica that has passed
//! one never reports it as new. So reports from before a snapshot decide nothing after it.

use crate::limits::POISON_CALLS;
use quorate_types::{CallPlace, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;

/// Decided reports, by call. Invariant: at most [`POISON_CALLS`] that are never skipped, and one more for
/// each replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoisonCalls {
    calls: BTreeMap<CallPlace, Reports>,
}

/// The reports about one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Reports {
    /// Hosts that died at it for good.
    died: NodeSet,
    /// Replicas whose objects are past it.
    survived: NodeSet,
    /// Its effects may have been seen: no reports skip it any more.
    is_kept: bool,
}

/// What the death of a host at a call means for the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// No earlier start of the reporter executed it.
    First,
    /// An earlier start may have executed and answered it.
    Again,
}

impl PoisonCalls {
    /// A death is decided. Returns whether the call is skipped now: all `replicas` died at it and none of them
    /// can ever have executed it.
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
        // A host dies at one call at a time: it has passed the calls at which it died before.
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

    /// A replica is past the call: reports never skip it.
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

    /// Whether a replica is past the call.
    pub(crate) fn has_survivor(&self, place: CallPlace) -> bool {
        let reports = self.calls.get(&place);
        reports.is_some_and(|reports| !reports.survived.is_empty())
    }

    /// Replicas that are known not to be past a call up to `slot` that another one survived: they cannot take
    /// a snapshot there by themselves.
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

    /// The first call up to `slot` at which a host died and for which `own` has not reported that it is past.
    pub(crate) fn to_tell(&self, own: NodeId, slot: Slot) -> Option<CallPlace> {
        let mut passed = self
            .calls
            .iter()
            .filter(|(place, reports)| place.slot <= slot && !reports.survived.contains(own));
        passed.next().map(|(place, _)| *place)
    }

    /// Forgets the oldest calls that are never skipped. This is safe: a replica that may have executed such a
    /// call does not report it as new, so it is not skipped later either.
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
