//! Makes a failing schedule small: fewer faults, shorter ones, fewer clients, an earlier end; as long as it still breaks
//! the same property.
//!
//! Each try is a whole run, so the search is bounded by a number of tries that the caller gives.

use super::run::run;
use super::schedule::Schedule;
use super::trace::Telling;
use crate::checkers::Property;
use quorate_types::Duration;

/// Runs with at most `tries` tries; returns the smallest schedule found that breaks `property`.
pub fn shrink(schedule: &Schedule, property: Property, tries: usize) -> Schedule {
    let mut search = Search {
        property,
        tries,
        best: schedule.clone(),
    };
    search.drop_faults();
    search.drop_clients();
    search.end_sooner();
    search.drop_faults();
    search.best
}

struct Search {
    property: Property,
    tries: usize,
    best: Schedule,
}

impl Search {
    /// Takes `candidate` if it breaks the property too.
    fn try_out(&mut self, candidate: Schedule) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let failure = run(candidate.clone(), Telling::Hash).failure;
        let breaks = failure.is_some_and(|failure| failure.violation.property == self.property);
        if breaks {
            self.best = candidate;
        }
        breaks
    }

    /// Leaves out halves, quarters and at last single faults.
    fn drop_faults(&mut self) {
        let mut size = self.best.faults.len().div_ceil(2);
        while size > 0 && self.tries > 0 {
            let mut start = 0;
            while start < self.best.faults.len() {
                let mut candidate = self.best.clone();
                let end = (start + size).min(candidate.faults.len());
                candidate.faults.drain(start..end);
                if !self.try_out(candidate) {
                    start += size;
                }
            }
            if size == 1 {
                break;
            }
            size = size.div_ceil(2);
        }
    }

    fn drop_clients(&mut self) {
        for clients in 1..=3 {
            let mut candidate = self.best.clone();
            candidate.clients = Some(clients);
            if self.try_out(candidate) {
                return;
            }
        }
    }

    /// Ends soon after the last fault, and later if that is too soon.
    fn end_sooner(&mut self) {
        let last = self.best.faults.last().map_or(0, |timed| timed.at.0);
        for extra in [500, 2000, 5000] {
            let until = Duration(last) + Duration::from_millis(extra);
            if until < self.best.until {
                let candidate = Schedule {
                    until,
                    ..self.best.clone()
                };
                if self.try_out(candidate) {
                    return;
                }
            }
        }
    }
}
