//! Poison calls, which end every host that executes them: reports of deaths at a call and of survivals.
//!
//! Reports are decided commands, so every replica skips the same calls at the same place of the log. They are counted by slot,
//! because outcomes leave the objects slot by slot: a replica whose host is down at any call of a slot has answered none of
//! them. Snapshots do not contain reports. A slot that no replica has passed is in no snapshot, and a replica that has passed
//! one never reports a death there as new. So reports from before a snapshot decide nothing after it.

mod reported;

pub use reported::PoisonReports;

use crate::limits::POISON_CALLS;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CallPlace, NodeId, NodeSet, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// Decided reports, by slot. Invariant: at most [`POISON_CALLS`] slots in which nothing is ever skipped, as many in which no
/// host is down, and one more for each replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoisonCalls {
    slots: BTreeMap<Slot, Reports>,
    /// Reports skip nothing up to this slot: reports about it were forgotten, or a replica does not know what its earlier starts
    /// said and answered.
    kept_upto: Slot,
    /// The replicas that had calls kept which they may have answered.
    keepers: NodeSet,
    /// From the first call that an operator had skipped in any case to the newest such word.
    forced: Option<(Slot, Slot)>,
}

/// Who says something about which call. Reports of one replica count in the order of their numbers, which its command ids
/// give them: they rise within one start and from start to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) reporter: NodeId,
    pub(crate) place: CallPlace,
    pub(crate) number: u64,
}

/// The reports about the calls of one slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Reports {
    /// What the newest report of each replica says; an older one that is decided later does nothing.
    newest: BTreeMap<NodeId, Said>,
    /// Calls that the group skips: no host is down at them any more.
    skipped: BTreeSet<u32>,
    /// Its effects may have been seen: no reports skip a call of it any more.
    is_kept: bool,
    /// Who may have been asked about its effects.
    answered: NodeSet,
}

/// The newest report of a replica about a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said {
    number: u64,
    standing: Standing,
}

/// Where a replica stands, as far as the log says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Its host died for good at the call with this index: it does not pass the slot unless the call is skipped, it says that it
    /// retries, or it gets the state of a replica that has passed it.
    Died(u32),
    /// It died there and may execute the slot again: it may answer it yet.
    Retries,
    /// Its objects are past the slot.
    Survived,
    /// Its report means nothing any more: the call is skipped, or the host has died elsewhere since.
    Over,
}

/// What the death of a host at a call means for the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// No earlier start of the reporter executed it.
    First,
    /// An earlier start may have executed and answered it.
    Again,
}

impl Reports {
    /// Takes the report over, unless the replica has said something newer about the slot. Says whether it counts.
    fn note(&mut self, report: Report, standing: Standing) -> bool {
        let Report { number, .. } = report;
        let said = Said { number, standing };
        let newest = self.newest.entry(report.reporter).or_insert(said);
        let counts = !is_newer(newest.number, number);
        if counts {
            *newest = said;
        }
        counts
    }

    fn standing(&self, node: NodeId) -> Option<Standing> {
        self.newest.get(&node).map(|said| said.standing)
    }

    /// The call at which the host of a replica is down for good.
    fn down_at(&self, node: NodeId) -> Option<u32> {
        match self.standing(node) {
            Some(Standing::Died(index)) => Some(index),
            Some(Standing::Retries | Standing::Survived | Standing::Over) | None => None,
        }
    }

    /// A replica that is known not to be past the slot.
    fn is_before(&self, node: NodeId) -> bool {
        matches!(
            self.standing(node),
            Some(Standing::Died(_) | Standing::Retries)
        )
    }

    /// The calls at which hosts are down, once every one of `replicas` is down in this slot and none has ever executed it.
    fn to_skip(&self, replicas: NodeSet) -> BTreeSet<u32> {
        let down = |node| self.down_at(node);
        let is_everywhere = replicas.iter().all(|node| down(node).is_some())
            || planted(Plant::SkipWithoutAllReports)
                && 2 * replicas.iter().filter_map(down).count() > replicas.len();
        if is_everywhere && (!self.is_kept || planted(Plant::SkipOfAnswered)) {
            replicas.iter().filter_map(down).collect()
        } else {
            BTreeSet::new()
        }
    }

    fn skip(&mut self, index: u32) {
        self.skipped.insert(index);
        for said in self.newest.values_mut() {
            if said.standing == Standing::Died(index) {
                said.standing = Standing::Over;
            }
        }
    }

    fn has_survivor(&self) -> bool {
        let mut newest = self.newest.values();
        newest.any(|said| said.standing == Standing::Survived)
    }

    fn is_any_before(&self) -> bool {
        self.newest.keys().any(|node| self.is_before(*node))
    }

    /// Whether no host is down in the slot.
    fn is_passable(&self) -> bool {
        !self.newest.keys().any(|node| self.down_at(*node).is_some())
    }
}

impl PoisonCalls {
    /// A death is decided. Returns the calls that are skipped now: all `replicas` died in the slot, each at one of them, and
    /// none of them can ever have executed the slot.
    pub(crate) fn died(
        &mut self,
        replicas: NodeSet,
        report: Report,
        death: Death,
    ) -> Vec<CallPlace> {
        let Report {
            reporter,
            place: CallPlace { slot, index },
            number,
        } = report;
        if !replicas.contains(reporter) {
            return Vec::new();
        }
        let reports = self.about(slot);
        // An old report is true about the lives before it all the same.
        if death == Death::Again {
            reports.is_kept = true;
            reports.answered.insert(reporter);
        }
        let standing = if reports.skipped.contains(&index) {
            Standing::Over
        } else {
            Standing::Died(index)
        };
        if !reports.note(report, standing) {
            self.bound();
            return Vec::new();
        }
        let skipped = reports.to_skip(replicas);
        for index in &skipped {
            reports.skip(*index);
        }
        // A host dies at one call at a time: it has passed the slots in which it died before.
        for (at, reports) in &mut self.slots {
            if *at != slot
                && !reports.is_kept
                && reports.is_before(reporter)
                && let Some(said) = reports.newest.get_mut(&reporter)
                && is_newer(number, said.number)
            {
                said.standing = Standing::Over;
            }
        }
        self.bound();
        let places = skipped.into_iter().map(|index| CallPlace { slot, index });
        places.collect()
    }

    /// A replica is about to execute a slot again in which its host died: it may answer it.
    pub(crate) fn retries(&mut self, report: Report) {
        if planted(Plant::RetryNotCounted) {
            return;
        }
        self.about(report.place.slot)
            .note(report, Standing::Retries);
        self.bound();
    }

    /// A replica is past the call: reports never skip it.
    pub(crate) fn survived(&mut self, report: Report) {
        let reports = self.about(report.place.slot);
        reports.note(report, Standing::Survived);
        // An old report is true all the same: the effects of the call may have been seen.
        reports.is_kept = true;
        reports.answered.insert(report.reporter);
        self.bound();
    }

    /// A replica may have answered any call before `slot`, or may do so from now on: reports never skip one there.
    pub(crate) fn keep_before(&mut self, reporter: NodeId, slot: Slot) {
        self.kept_upto = self.kept_upto.max(slot.previous());
        self.keepers.insert(reporter);
        for (_, reports) in self.slots.range_mut(..slot) {
            reports.is_kept = true;
            reports.answered.insert(reporter);
        }
        self.bound();
    }

    /// The call is skipped by decision.
    pub(crate) fn skipped(&mut self, place: CallPlace) {
        self.about(place.slot).skip(place.index);
        self.bound();
    }

    /// In `decided` an operator has a call skipped in any case. Replicas that were past it no longer judge alone what the state
    /// was between the two.
    pub(crate) fn forces(&mut self, place: CallPlace, decided: Slot) {
        let first = self
            .forced
            .map_or(place.slot, |(first, _)| first.min(place.slot));
        self.forced = Some((first, decided));
    }

    /// Whether an operator had a call skipped in any case that was decided at or before `slot`, by a word at or after it.
    pub(crate) fn is_forced_over(&self, slot: Slot) -> bool {
        self.forced
            .is_some_and(|(first, last)| (first..=last).contains(&slot))
    }

    /// The reports about a slot. A host was down in a slot after a forgotten one, so its replica is past that.
    fn about(&mut self, slot: Slot) -> &mut Reports {
        let is_kept = slot <= self.kept_upto;
        let answered = match is_kept {
            true => self.keepers,
            false => NodeSet::empty(),
        };
        self.slots.entry(slot).or_insert_with(|| Reports {
            is_kept,
            answered,
            ..Reports::default()
        })
    }

    /// Whether a replica is past the call.
    pub(crate) fn has_survivor(&self, place: CallPlace) -> bool {
        let reports = self.slots.get(&place.slot);
        reports.is_some_and(Reports::has_survivor)
    }

    /// Whether anything is remembered about the slot.
    pub(crate) fn is_about(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Whether the newest word of a replica about the slot is that it is past it; nothing more is to be said about a slot that is
    /// forgotten.
    pub(crate) fn has_survived(&self, node: NodeId, slot: Slot) -> bool {
        let reports = self.slots.get(&slot);
        reports.is_none_or(|reports| reports.standing(node) == Some(Standing::Survived))
    }

    /// Whether the group skips the call, as far as that is remembered.
    pub(crate) fn is_skipped(&self, place: CallPlace) -> bool {
        let reports = self.slots.get(&place.slot);
        reports.is_some_and(|reports| reports.skipped.contains(&place.index))
    }

    /// The replicas that have said that they are past the call.
    pub(crate) fn survivors(&self, place: CallPlace) -> usize {
        let reports = self.slots.get(&place.slot);
        reports.map_or(0, |reports| {
            let newest = reports.newest.values();
            newest
                .filter(|said| said.standing == Standing::Survived)
                .count()
        })
    }

    /// Whether a host is down at the call.
    pub(crate) fn is_anybody_down(&self, place: CallPlace) -> bool {
        let reports = self.slots.get(&place.slot);
        reports.is_some_and(|reports| {
            let mut nodes = reports.newest.keys();
            nodes.any(|node| reports.down_at(*node) == Some(place.index))
        })
    }

    /// Whether reports never skip the call.
    pub(crate) fn is_kept(&self, place: CallPlace) -> bool {
        let reports = self.slots.get(&place.slot);
        place.slot <= self.kept_upto || reports.is_some_and(|reports| reports.is_kept)
    }

    /// Replicas that are known not to be past a call up to `slot` that another one survived: they cannot take
    /// a snapshot there by themselves.
    pub(crate) fn stuck(&self, slot: Slot) -> NodeSet {
        if planted(Plant::StuckHaveTheirSay) {
            return NodeSet::empty();
        }
        let survived = self.slots.range(..=slot);
        let survived = survived.filter(|(_, reports)| reports.has_survivor());
        survived
            .flat_map(|(_, reports)| {
                let nodes = reports.newest.keys().copied();
                nodes.filter(|node| reports.is_before(*node))
            })
            .collect()
    }

    /// The first slot up to `slot` in which a host died and of which `own` has not reported that it is past, by one of its calls.
    /// Not one of `unheeded`.
    pub(crate) fn to_tell(
        &self,
        own: NodeId,
        slot: Slot,
        unheeded: &BTreeSet<Slot>,
    ) -> Option<CallPlace> {
        if planted(Plant::SurvivalNotTold) {
            return None;
        }
        let mut passed = self.slots.range(..=slot).filter(|(slot, reports)| {
            (reports.is_kept || reports.is_any_before())
                && reports.standing(own) != Some(Standing::Survived)
                && !unheeded.contains(slot)
        });
        let (slot, reports) = passed.next()?;
        let mut down = reports.newest.keys().filter_map(|at| reports.down_at(*at));
        Some(CallPlace {
            slot: *slot,
            index: down.next().unwrap_or(0),
        })
    }

    /// Forgets the oldest slots in which nothing is about to be skipped. This is safe: what is reported about them later skips
    /// nothing.
    fn bound(&mut self) {
        self.forget(|reports| reports.is_kept);
        self.forget(|reports| !reports.is_kept && reports.is_passable());
    }

    fn forget(&mut self, is_settled: impl Fn(&Reports) -> bool) {
        let settled = self.slots.iter().filter(|(_, reports)| is_settled(reports));
        let settled: Vec<Slot> = settled.map(|(slot, _)| *slot).collect();
        let surplus = settled.len().saturating_sub(POISON_CALLS);
        for slot in &settled[..surplus] {
            self.slots.remove(slot);
            self.kept_upto = self.kept_upto.max(*slot);
        }
    }

    pub(crate) fn check(&self) {
        let settled = self.slots.values();
        let settled = settled.filter(|reports| reports.is_kept || reports.is_passable());
        assert!(settled.count() <= 2 * POISON_CALLS);
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
        at(reporter, number, 0)
    }

    /// A report about a call of the slot.
    fn at(reporter: NodeId, number: u64, index: u32) -> Report {
        let place = CallPlace { slot: SLOT, index };
        Report {
            reporter,
            place,
            number,
        }
    }

    fn pair() -> (NodeId, NodeId, NodeSet, PoisonCalls) {
        let (one, other) = (NodeId(1), NodeId(2));
        let replicas: NodeSet = [one, other].into_iter().collect();
        (one, other, replicas, PoisonCalls::default())
    }

    #[test]
    fn a_replica_that_dies_again_at_a_call_it_was_past_has_no_say_about_later_snapshots() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, by(one, 1), Death::First), []);
        calls.survived(by(other, 1));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
        calls.survived(by(one, 2));
        assert_eq!(calls.stuck(SLOT), NodeSet::empty());
        assert_eq!(calls.died(replicas, by(one, 3), Death::Again), []);
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
        assert!(calls.has_survivor(by(one, 3).place));
    }

    #[test]
    fn a_replica_that_retries_a_call_is_waited_for_until_it_dies_at_it_again() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, by(one, 1), Death::First), []);
        calls.retries(by(one, 3));
        assert_eq!(calls.died(replicas, by(other, 1), Death::First), []);
        assert_eq!(
            calls.died(replicas, by(one, 2), Death::First),
            [],
            "a report of the life before is decided late"
        );
        let last = by(one, 4);
        assert_eq!(calls.died(replicas, last, Death::First), [last.place]);
    }

    #[test]
    fn an_old_survival_that_is_decided_late_does_not_end_the_wait_for_a_state() {
        let (one, other, replicas, mut calls) = pair();
        calls.survived(by(other, 1));
        assert_eq!(calls.died(replicas, by(one, 2), Death::Again), []);
        calls.survived(by(one, 1));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
    }

    #[test]
    fn replicas_that_are_down_at_different_calls_of_a_slot_go_past_all_of_these_calls() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, at(one, 1, 2), Death::First), []);
        calls.retries(at(one, 2, 2));
        assert_eq!(calls.died(replicas, at(other, 1, 2), Death::First), []);
        let last = at(one, 3, 5);
        let skipped = calls.died(replicas, last, Death::First);
        assert_eq!(skipped, [at(other, 1, 2).place, last.place]);
    }

    #[test]
    fn who_retries_a_call_that_another_one_survived_is_not_past_it() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, by(one, 1), Death::First), []);
        calls.survived(by(other, 1));
        calls.retries(by(one, 2));
        assert_eq!(calls.stuck(SLOT), NodeSet::only(one));
    }

    #[test]
    fn who_is_past_a_call_says_so_where_another_one_said_it_and_nobody_is_down() {
        let (one, other, _, mut calls) = pair();
        calls.survived(by(other, 1));
        let told = calls.to_tell(one, SLOT, &BTreeSet::new());
        assert_eq!(told, Some(by(one, 1).place));
        assert_eq!(calls.to_tell(one, SLOT, &BTreeSet::from([SLOT])), None);
    }

    #[test]
    fn a_slot_that_may_have_been_answered_is_kept_whichever_call_of_it_the_report_names() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, at(one, 1, 2), Death::Again), []);
        assert_eq!(calls.died(replicas, at(other, 1, 5), Death::First), []);
        assert_eq!(calls.died(replicas, at(one, 2, 5), Death::First), []);
        assert!(calls.is_kept(at(one, 2, 0).place));
    }

    #[test]
    fn a_second_report_about_a_call_that_is_skipped_already_does_not_count_its_replica_as_down() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, at(one, 1, 2), Death::First), []);
        let skipped = calls.died(replicas, at(other, 1, 2), Death::First);
        assert_eq!(skipped, [at(one, 1, 2).place]);
        assert_eq!(calls.died(replicas, at(one, 2, 2), Death::First), []);
        assert_eq!(calls.died(replicas, at(other, 2, 7), Death::First), []);
        assert_eq!(
            calls.to_tell(one, SLOT, &BTreeSet::new()),
            Some(at(other, 2, 7).place)
        );
    }

    #[test]
    fn nothing_is_skipped_in_a_slot_whose_reports_were_forgotten() {
        let (one, other, replicas, mut calls) = pair();
        for slot in 0..=POISON_CALLS as u64 {
            let slot = Slot(SLOT.0 + slot);
            calls.skipped(CallPlace { slot, index: 0 });
        }
        calls.check();
        assert_eq!(calls.died(replicas, at(one, 1, 3), Death::First), []);
        assert_eq!(calls.died(replicas, at(other, 1, 4), Death::First), []);
    }

    #[test]
    fn a_slot_that_an_older_report_says_may_have_been_answered_is_kept() {
        let (one, other, replicas, mut calls) = pair();
        calls.retries(by(one, 3));
        let late = by(one, 2);
        assert_eq!(calls.died(replicas, late, Death::Again), []);
        assert!(calls.is_kept(late.place));
        assert_eq!(calls.died(replicas, by(other, 1), Death::First), []);
        assert_eq!(calls.died(replicas, by(one, 4), Death::First), []);
    }

    #[test]
    fn nothing_is_skipped_before_the_slot_in_which_a_replica_had_all_calls_kept() {
        let (one, other, replicas, mut calls) = pair();
        assert_eq!(calls.died(replicas, by(one, 1), Death::First), []);
        calls.keep_before(one, SLOT.next());
        assert!(calls.is_kept(by(one, 1).place));
        assert_eq!(calls.died(replicas, by(other, 1), Death::First), []);
        let later = |reporter| Report {
            place: CallPlace {
                slot: SLOT.next(),
                index: 0,
            },
            ..by(reporter, 2)
        };
        assert_eq!(calls.died(replicas, later(one), Death::First), []);
        let last = later(other);
        assert_eq!(calls.died(replicas, last, Death::First), [last.place]);
    }

    #[test]
    fn who_had_calls_kept_may_have_answered_one_that_is_reported_later() {
        let (one, other, replicas, mut calls) = pair();
        calls.keep_before(one, SLOT.next());
        assert_eq!(calls.died(replicas, by(other, 1), Death::First), []);
        let reports = calls.reports(replicas);
        assert_eq!(reports[0].may_have_answered, NodeSet::only(one));
    }

    #[test]
    fn a_slot_stays_forgotten_when_an_earlier_one_is_forgotten_after_it() {
        let (one, other, replicas, mut calls) = pair();
        let many = POISON_CALLS as u64;
        let at = |slot| CallPlace {
            slot: Slot(slot),
            index: 0,
        };
        let report = |reporter, slot| Report {
            reporter,
            place: at(slot),
            number: 1,
        };
        (1..=many).for_each(|slot| calls.skipped(at(slot)));
        let kept = 2 * many;
        (kept..=kept + many).for_each(|slot| calls.survived(report(other, slot)));
        calls.skipped(at(4 * many));
        assert_eq!(calls.died(replicas, report(one, kept), Death::First), []);
        assert_eq!(calls.died(replicas, report(other, kept), Death::First), []);
    }

    #[test]
    fn words_of_operators_cover_the_slots_from_the_first_call_to_the_newest_word() {
        let place = |slot| CallPlace {
            slot: Slot(slot),
            index: 0,
        };
        let mut calls = PoisonCalls::default();
        assert!(!calls.is_forced_over(Slot(0)));
        calls.forces(place(4), Slot(6));
        calls.forces(place(7), Slot(9));
        let covered: Vec<u64> = (0..12)
            .filter(|slot| calls.is_forced_over(Slot(*slot)))
            .collect();
        assert_eq!(covered, [4, 5, 6, 7, 8, 9]);
    }
}
