//! The own host's end at a poison call, until its report is decided.
//!
//! What reports bring about is replicated and stands in `replicated/poison.rs`. A report that ordering
//! refused is submitted again, and so is one that was on its way when slots were passed over.

use crate::limits::POISON_REPORT_EVERY;
use crate::local::internal::Purpose;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::{Body, CallPlace, NodeId, Time};

/// Whether the own host died for good, and where.
#[derive(Debug, Default)]
pub(crate) struct OwnDeath(Option<Report>);

#[derive(Debug)]
struct Report {
    place: CallPlace,
    is_submitted: bool,
    due: Time,
}

impl OwnDeath {
    /// The own host died for good.
    pub(crate) fn host_died(&mut self, now: Time, place: CallPlace) {
        self.0 = Some(Report {
            place,
            is_submitted: false,
            due: now,
        });
    }

    /// The own host works: there is nothing to report.
    pub(crate) fn host_works(&mut self) {
        self.0 = None;
    }

    /// The report may not be decided: it is submitted again after a while.
    pub(crate) fn lost_sight(&mut self) {
        if let Some(report) = &mut self.0 {
            report.is_submitted = false;
        }
    }

    /// When the report is to be submitted, if one waits.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let waiting = self.0.as_ref().filter(|report| !report.is_submitted);
        waiting.map(|report| report.due)
    }
}

impl<O: Ordering> Replica<O> {
    /// At the end of a turn: submits the own report if one is due.
    pub(crate) fn tend_poison(&mut self, now: Time) {
        let reporter = self.config.own;
        let Some(report) = &mut self.own_death.0 else {
            return;
        };
        if report.is_submitted || report.due > now {
            return;
        }
        report.is_submitted = true;
        report.due = now + POISON_REPORT_EVERY;
        let CallPlace { slot, index } = report.place;
        let body = Body::Died {
            reporter,
            slot,
            index,
        };
        self.submit(Purpose::Died, body);
    }

    /// A report is decided: skips the call if every replica of the view has now reported it.
    pub(crate) fn died(
        &mut self,
        reporter: NodeId,
        place: CallPlace,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if reporter == self.config.own {
            self.own_death.0.take_if(|report| report.place == place);
        }
        let replicas = self.config.view.replicas;
        if self.replicated.poison.died(replicas, reporter, place) {
            self.skip(place, out);
        }
    }

    /// The group skips a call; where its outcome is known already, that outcome stays.
    pub(crate) fn skip(&mut self, place: CallPlace, out: &mut Vec<Output<O::Message>>) {
        let CallPlace { slot, index } = place;
        if self.pipeline.skip(slot, index) {
            out.push(Output::Skip { slot, index });
        }
    }
}
