//! Poison calls, which end every host that executes them: reports of deaths at a call and of survivals.
//!
//! Reports are decided commands, so every replica skips the same call at the same place of the log. Snapshots
//! do not contain reports. A call that no replica has passed is in no snapshot, and a replica that has passed
//! one never reports it as new. So reports from before a snapshot decide nothing after it.

use crate::limits::POISON_CALLS;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CallPlace, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;

/// Decided reports, by call. Invariant: at most [`POISON_CALLS`] that are never skipped, and one more for
/// each replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoisonCalls {
    calls: BTreeMap<CallPlace, Reports>,
}

/// Who says something about which call. Reports of one replica count in the order of their numbers, which its command ids
/// give them: they rise within one start and from start to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) reporter: NodeId,
    pub(crate) place: CallPlace,
    pub(crate) number: u64,
}

/// The reports about one call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Reports {
    /// Hosts that died at it for good.
    died: NodeSet,
    /// Those of them that may execute it again: they may answer it yet.
    retrying: NodeSet,
    /// Replicas whose objects are past it.
    survived: NodeSet,
    /// The newest report of each replica; an older one that is decided later does nothing.
    newest: BTreeMap<NodeId, u64>,
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
    pub(crate) fn died(&mut self, replicas: NodeSet, report: Report, death: Death) -> bool {
        let Report {
            reporter,
            place,
            number,
        } = report;
        if !replicas.contains(reporter) {
            return false;
        }
        // An old report is true about the lives before it all the same.
        self.calls.entry(place).or_default().is_kept |= death == Death::Again;
        let Some(reports) = self.news(report) else {
            return false;
        };
        reports.died.insert(reporter);
        reports.retrying.remove(reporter);
        // It was past the call, and began again before it.
        reports.survived.remove(reporter);
        let has_died = |node| reports.died.contains(node) && !reports.retrying.contains(node);
        let is_everywhere = replicas.iter().all(has_died)
            || planted(Plant::SkipWithoutAllReports) && 2 * reports.died.len() > replicas.len();
        let is_skipped = is_everywhere && (!reports.is_kept || planted(Plant::SkipOfAnswered));
        if is_skipped {
            self.calls.remove(&place);
        }
        // A host dies at one call at a time: it has passed the calls at which it died before.
        for (at, reports) in &mut self.calls {
            let is_before = reports.newest.get(&reporter);
            let is_before = is_before.is_some_and(|newest| is_newer(number, *newest));
            if *at != place && !reports.is_kept && is_before {
                reports.died = reports.died.without(reporter);
            }
        }
        self.bound();
        is_skipped
    }

    /// A replica is about to execute a call again at which its host died: it may answer it.
    pub(crate) fn retries(&mut self, report: Report) {
        if planted(Plant::RetryNotCounted) {
            return;
        }
        if let Some(reports) = self.news(report) {
            reports.retrying.insert(report.reporter);
        }
        self.bound();
    }

    /// The reports about the call, unless the replica has said something newer about it.
    fn news(&mut self, report: Report) -> Option<&mut Reports> {
        let reports = self.calls.entry(report.place).or_default();
        let newest = reports.newest.entry(report.reporter);
        let newest = newest.or_insert(report.number);
        if is_newer(*newest, report.number) {
            return None;
        }
        *newest = report.number;
        Some(reports)
    }

    /// A replica is past the call: reports never skip it.
    pub(crate) fn survived(&mut self, report: Report) {
        if let Some(reports) = self.news(report) {
            reports.survived.insert(report.reporter);
        }
        // An old report is true all the same: the effects of the call may have been seen.
        let reports = self.calls.entry(report.place).or_default();
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

    /// Whether reports never skip the call.
    pub(crate) fn is_kept(&self, place: CallPlace) -> bool {
        self.calls
            .get(&place)
            .is_some_and(|reports| reports.is_kept)
    }

    /// Replicas that are known not to be past a call up to `slot` that another one survived: they cannot take
    /// a snapshot there by themselves.
    pub(crate) fn stuck(&self, slot: Slot) -> NodeSet {
        if planted(Plant::StuckHaveTheirSay) {
            return NodeSet::empty();
        }
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
        if planted(Plant::SurvivalNotTold) {
            return None;
        }
        let mut passed = self
            .calls
            .iter()
            .filter(|(place, reports)| place.slot <= slot && !reports.survived.contains(own));
        passed.next().map(|(place, _)| *place)
    }

    /// Forgets the oldest calls that are not about to be skipped. This is safe: a replica that may have executed such a
    /// call does not report it as new, so it is not skipped later either.
    fn bound(&mut self) {
        while self.settled().count() > POISON_CALLS {
            let oldest = self.settled().next().expect("there are some");
            self.calls.remove(&oldest);
        }
    }

    fn settled(&self) -> impl Iterator<Item = CallPlace> {
        let is_settled = |reports: &Reports| reports.is_kept || reports.died.is_empty();
        let settled = self
            .calls
            .iter()
            .filter(move |(_, reports)| is_settled(reports));
        settled.map(|(place, _)| *place)
    }

    pub(crate) fn check(&self) {
        assert!(self.settled().count() <= POISON_CALLS);
    }
}

/// Whether a report was made after another one of the same replica. The count of starts in the numbers begins again after 65,535.
fn is_newer(number: u64, other: u64) -> bool {
    let ahead = number.wrapping_sub(other) << 16;
    ahead != 0 && ahead < 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot(7);

    /// A report about one call.
    fn by(reporter: NodeId, number: u64) -> Report {
        let place = CallPlace {
            slot: SLOT,
            index: 0,
        };
        Report {
            reporter,
            place,
            number,
        }
    }

    #[test]
    fn a_replica_that_dies_again_at_a_call_it_was_past_has_no_say_about_later_snapshots() {
        let (one, other) = (NodeId(1), NodeId(2));
        let replicas: NodeSet = [one, other].into_iter().collect();
        let mut calls = PoisonCalls::default();
        assert!(!calls.died(replicas, by(one, 1), Death::First));
        calls.survived(by(other, 1));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
        calls.survived(by(one, 2));
        assert_eq!(calls.stuck(SLOT), NodeSet::empty());
        assert!(!calls.died(replicas, by(one, 3), Death::Again));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
        assert!(calls.has_survivor(by(one, 3).place));
    }

    #[test]
    fn a_replica_that_retries_a_call_is_waited_for_until_it_dies_at_it_again() {
        let (one, other) = (NodeId(1), NodeId(2));
        let replicas: NodeSet = [one, other].into_iter().collect();
        let mut calls = PoisonCalls::default();
        assert!(!calls.died(replicas, by(one, 1), Death::First));
        calls.retries(by(one, 3));
        assert!(!calls.died(replicas, by(other, 1), Death::First));
        assert!(
            !calls.died(replicas, by(one, 2), Death::First),
            "a report of the life before is decided late"
        );
        assert!(calls.died(replicas, by(one, 4), Death::First));
    }

    #[test]
    fn an_old_survival_that_is_decided_late_does_not_end_the_wait_for_a_state() {
        let (one, other) = (NodeId(1), NodeId(2));
        let replicas: NodeSet = [one, other].into_iter().collect();
        let mut calls = PoisonCalls::default();
        calls.survived(by(other, 1));
        assert!(!calls.died(replicas, by(one, 2), Death::Again));
        calls.survived(by(one, 1));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
    }
}
