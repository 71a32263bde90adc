//! Calls that end every host: who reported dying at which, and the decision to skip one.
//!
//! Reports are decided commands, so every replica skips the same call at the same place of the log. No
//! snapshot holds them: a report decided up to a snapshot's slot is about a call before it, whose
//! outcome the snapshot has. One report per replica is kept, the newest: a host dies at one call.

use crate::limits::DEATH_REPORT_EVERY;
use crate::local::internal::Purpose;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::{Body, NodeId, Slot, Time};
use std::collections::BTreeMap;

/// A call's slot and its index there.
type Place = (Slot, u32);

/// What is known of hosts that died for good.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Decided reports, the newest of each replica.
    reports: BTreeMap<NodeId, Place>,
    /// The own host's end, until its report is decided or the host works again.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    place: Place,
    is_submitted: bool,
    due: Time,
}

impl Deaths {
    /// The own host died for good.
    pub(crate) fn host_died(&mut self, now: Time, place: Place) {
        self.own = Some(Own {
            place,
            is_submitted: false,
            due: now,
        });
    }

    /// The own host works: there is nothing to report.
    pub(crate) fn host_works(&mut self) {
        self.own = None;
    }

    /// The report may not be decided: it is submitted again after a while.
    pub(crate) fn lost_sight(&mut self) {
        if let Some(own) = &mut self.own {
            own.is_submitted = false;
        }
    }

    /// When the report is to be submitted, if one waits.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let waiting = self.own.as_ref().filter(|own| !own.is_submitted);
        waiting.map(|own| own.due)
    }
}

impl<O: Ordering> Replica<O> {
    /// At the end of a turn: submits the own report if one is due.
    pub(crate) fn tend_deaths(&mut self, now: Time) {
        let reporter = self.config.own;
        let Some(own) = &mut self.deaths.own else {
            return;
        };
        if own.is_submitted || own.due > now {
            return;
        }
        own.is_submitted = true;
        own.due = now + DEATH_REPORT_EVERY;
        let (slot, index) = own.place;
        let body = Body::Died {
            reporter,
            slot,
            index,
        };
        self.submit(Purpose::Died, body);
    }

    /// A report is decided. Says whether every replica of the view has now reported this call.
    pub(crate) fn is_death_everywhere(&mut self, reporter: NodeId, place: Place) -> bool {
        let replicas = self.config.view.replicas;
        if !replicas.contains(reporter) {
            return false;
        }
        let deaths = &mut self.deaths;
        deaths.reports.insert(reporter, place);
        if reporter == self.config.own {
            deaths.own.take_if(|own| own.place == place);
        }
        let is_everywhere = replicas
            .iter()
            .all(|node| deaths.reports.get(&node) == Some(&place));
        if is_everywhere {
            deaths.reports.clear();
        }
        is_everywhere
    }

    /// The group skips a call; where its outcome is known already, that outcome stays.
    pub(crate) fn skip(&mut self, slot: Slot, index: u32, out: &mut Vec<Output<O::Message>>) {
        if self.pipeline.skip(slot, index) {
            out.push(Output::Skip { slot, index });
        }
    }
}
