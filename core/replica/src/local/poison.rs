//! This node's part in poison calls: reports that its host died at one, or that it is past one.
//!
//! The effect of reports is replicated state, in `replicated/poison.rs`. A replica whose host died at a call
//! that another replica survived takes over that replica's snapshot; `docs/sessions.md` has the rule.

use crate::limits::{HEAL_EVERY, POISON_REPORT_EVERY};
use crate::local::internal::Purpose;
use crate::replicated::poison::{Death, Report};
use crate::{Output, Remembered, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, CallPlace, Slot, Time};
use std::collections::BTreeSet;

/// The calls that earlier starts of this node may have executed, and so may have answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EarlierLives {
    /// There was none, or none executed anything.
    #[default]
    None,
    /// Calls up to this slot.
    Upto(Slot),
    /// Anything that was decided before this start.
    Unknown,
}

/// This node's reports, and the snapshot that it waits for.
#[derive(Debug, Default)]
pub(crate) struct OwnPoison {
    earlier: EarlierLives,
    /// The call at which the own host died for good, until the host works again.
    died_at: Option<CallPlace>,
    /// Calls at which the hosts of earlier starts died for good. Those reports bind this start: it executes none of the calls
    /// before the log takes the report back or keeps the call from being skipped.
    barred: BTreeSet<CallPlace>,
    /// The report that the log lacks.
    report: Option<Unsaid>,
    /// A snapshot past the call is asked for; a checkpoint is asked for again at this time.
    stranded: Option<Time>,
}

#[derive(Debug)]
struct Unsaid {
    place: CallPlace,
    kind: Kind,
    is_submitted: bool,
    due: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Died,
    Survived,
    Retry,
}

impl OwnPoison {
    pub(crate) fn new(remembered: &Remembered) -> OwnPoison {
        let begun = remembered.snapshot.as_ref().map(|begun| begun.core.slot);
        let died = remembered.died.iter().copied();
        OwnPoison {
            earlier: remembered.earlier,
            barred: died.filter(|place| Some(place.slot) > begun).collect(),
            ..OwnPoison::default()
        }
    }

    /// The report may not be decided: it is submitted again after a while.
    pub(crate) fn lost_sight(&mut self) {
        if let Some(report) = &mut self.report {
            report.is_submitted = planted(Plant::PoisonReportForgotten);
        }
    }

    /// When a report is to be submitted or a checkpoint to be asked for, if at all.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let waiting = self.report.as_ref().filter(|report| !report.is_submitted);
        let report = waiting.map(|report| report.due);
        report.into_iter().chain(self.stranded).min()
    }

    /// Whether the own host died for good.
    pub(crate) fn is_down(&self) -> bool {
        self.died_at.is_some()
    }

    /// Whether the objects wait for a survivor's snapshot.
    pub(crate) fn is_stranded(&self) -> bool {
        self.stranded.is_some()
    }

    /// The first slot that must not be executed yet.
    pub(crate) fn barred(&self) -> Option<Slot> {
        self.barred.first().map(|place| place.slot)
    }

    /// The objects have the state after `slot`, which is past the call.
    pub(crate) fn passed(&mut self, slot: Slot) {
        self.barred.retain(|place| place.slot > slot);
        self.died_at = None;
        self.stranded = None;
        self.report.take_if(|report| report.kind == Kind::Died);
    }

    /// A report of this start is decided.
    pub(crate) fn landed(&mut self, body: &Body) {
        let (kind, slot, index) = match *body {
            Body::Died { slot, index, .. } => (Kind::Died, slot, index),
            Body::Survived { slot, index, .. } => (Kind::Survived, slot, index),
            Body::Retry { slot, index, .. } => (Kind::Retry, slot, index),
            Body::Call { .. }
            | Body::Open { .. }
            | Body::Close
            | Body::Expire { .. }
            | Body::Lead { .. }
            | Body::Read { .. }
            | Body::Checkpoint
            | Body::Skip { .. } => return,
        };
        let place = CallPlace { slot, index };
        if kind == Kind::Retry {
            // The log counts reports by slot.
            self.barred.retain(|barred| barred.slot != slot);
        }
        self.report
            .take_if(|report| report.kind == kind && report.place == place);
    }

    fn want(&mut self, now: Time, place: CallPlace, kind: Kind) {
        self.report = Some(Unsaid {
            place,
            kind,
            is_submitted: false,
            due: now,
        });
    }
}

impl<O: Ordering> Replica<O> {
    /// The own host died for good.
    pub(crate) fn host_died(&mut self, now: Time, place: CallPlace) {
        self.own_poison.died_at = Some(place);
        self.own_poison.want(now, place, Kind::Died);
    }

    /// The own host works: nothing is to be reported, and it continues unless a snapshot is being installed.
    pub(crate) fn host_works(&mut self) {
        self.own_poison.died_at = None;
        if let Some(report) = &self.own_poison.report
            && report.kind == Kind::Died
        {
            self.own_poison.report = None;
        }
        if self.own_poison.stranded.take().is_some() && !self.fetch.is_installing() {
            self.pipeline.release();
        }
    }

    /// At the end of a turn: reports, and asks for a survivor's snapshot.
    pub(crate) fn tend_poison(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let own = self.config.own;
        self.tend_barred(now);
        if self.own_poison.report.is_none()
            && self.is_replica()
            && let Some(place) = self.replicated.poison.to_tell(own, self.reached())
        {
            self.own_poison.want(now, place, Kind::Survived);
        }
        self.submit_report(now);
        let is_survived = |place| self.replicated.poison.has_survivor(place);
        if self.own_poison.died_at.is_some_and(is_survived) && !self.own_poison.is_stranded() {
            // Nothing more is sent to the objects, so that a snapshot can be ahead of them.
            self.pipeline.hold(self.replicated.applied);
            let least = self.pipeline.handed_out(self.replicated.applied);
            self.own_poison.stranded = Some(now);
            self.fetch_at_least(now, least, out);
        }
        if self.own_poison.stranded.is_some_and(|due| due <= now) {
            self.own_poison.stranded = Some(now + HEAL_EVERY);
            self.want_checkpoint();
        }
    }

    /// The highest slot whose state the objects have, or can make again: a host that executes its calls anew for their state may
    /// die at one that it had executed before.
    fn reached(&self) -> Slot {
        let executed = self.pipeline.executed(self.replicated.applied);
        let died_at = self.own_poison.died_at;
        let died_at = died_at.filter(|_| !planted(Plant::SurvivalToldWhileDown));
        died_at.map_or(executed, |at| executed.min(at.slot.previous()))
    }

    /// Takes the reports of earlier starts back, so that the calls can be executed again.
    fn tend_barred(&mut self, now: Time) {
        let poison = &self.replicated.poison;
        self.own_poison
            .barred
            .retain(|place| !poison.is_kept(*place));
        let barred = &self.own_poison.barred;
        (self.own_poison.report)
            .take_if(|report| report.kind == Kind::Retry && !barred.contains(&report.place));
        if self.own_poison.report.is_none()
            && let Some(&place) = self.own_poison.barred.first()
        {
            self.own_poison.want(now, place, Kind::Retry);
        }
    }

    fn submit_report(&mut self, now: Time) {
        let reporter = self.config.own;
        let executed = self.pipeline.executed(self.replicated.applied);
        let earlier = self.own_poison.earlier;
        let Some(report) = &mut self.own_poison.report else {
            return;
        };
        if report.is_submitted || report.due > now {
            return;
        }
        report.is_submitted = true;
        report.due = now + POISON_REPORT_EVERY;
        let CallPlace { slot, index } = report.place;
        let body = match report.kind {
            Kind::Died => Body::Died {
                reporter,
                slot,
                index,
                may_have_answered: match earlier {
                    EarlierLives::None => slot <= executed,
                    EarlierLives::Upto(upto) => slot <= upto.max(executed),
                    EarlierLives::Unknown => true,
                },
            },
            Kind::Survived => Body::Survived {
                reporter,
                slot,
                index,
            },
            Kind::Retry => Body::Retry {
                reporter,
                slot,
                index,
            },
        };
        self.submit(Purpose::Poison, body);
    }

    /// A death is decided: skips the calls at which hosts are down if that makes it a slot that nobody can have executed.
    pub(crate) fn died(&mut self, report: Report, death: Death, out: &mut Vec<Output<O::Message>>) {
        let replicas = self.config.view.replicas;
        for place in self.replicated.poison.died(replicas, report, death) {
            self.skip(place, out);
        }
    }

    /// The group skips a call; where its outcome is known already, that outcome stays.
    pub(crate) fn skip(&mut self, place: CallPlace, out: &mut Vec<Output<O::Message>>) {
        self.replicated.poison.skipped(place);
        self.own_poison.barred.remove(&place);
        let CallPlace { slot, index } = place;
        if self.pipeline.skip(slot, index) {
            out.push(Output::Skip { slot, index });
        }
    }
}
