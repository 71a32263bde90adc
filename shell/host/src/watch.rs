//! How long the call that a host process executes has taken, and which call keeps its host from going on.
//!
//! `other_process` shows it the activity; it decides nothing about the process.

use crate::activity::{Activity, Doing};
use crate::event::RunningCall;
use crate::limits::HANG_REPORTED_AFTER;
use std::time::{Duration, Instant};

/// What the activity was when it was looked at last.
pub(crate) struct Watch {
    number: u64,
    since: Instant,
    report_after: Duration,
    /// The call that keeps the host from going on, and since when. It outlives the processes that it ends.
    stuck: Option<(RunningCall, Instant)>,
}

impl Watch {
    /// Nothing is stuck.
    pub(crate) fn new(now: Instant) -> Watch {
        Watch {
            number: 0,
            since: now,
            report_after: HANG_REPORTED_AFTER,
            stuck: None,
        }
    }

    /// A new process counts its activities from the start.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.number = 0;
        self.since = now;
        self.report_after = HANG_REPORTED_AFTER;
    }

    /// How long the present call has taken, at least.
    pub(crate) fn look(&mut self, activity: Activity, now: Instant) -> Duration {
        if activity.number != self.number || activity.doing == Doing::Idle {
            self.begin(now);
            self.number = activity.number;
        }
        now - self.since
    }

    /// Whether a call that has taken `span` is to be reported.
    pub(crate) fn is_report_due(&mut self, span: Duration) -> bool {
        let is_due = span >= self.report_after;
        while span >= self.report_after {
            self.report_after *= 2;
        }
        is_due
    }

    /// `call` keeps the host from going on, at least since `since`.
    pub(crate) fn hold(&mut self, call: RunningCall, since: Instant) {
        match &self.stuck {
            Some((held, _)) if *held == call => {}
            Some(_) | None => self.stuck = Some((call, since)),
        }
    }

    /// The host went on.
    pub(crate) fn release(&mut self) {
        self.stuck = None;
    }

    /// When the present call was seen first.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The call that keeps the host from going on, and since when.
    pub(crate) fn stuck(&self) -> Option<(&RunningCall, Instant)> {
        self.stuck.as_ref().map(|(call, since)| (call, *since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::ObjectId;

    #[test]
    fn a_call_is_reported_after_a_second_and_again_when_its_span_has_doubled() {
        let began = Instant::now();
        let mut watch = Watch::new(began);
        let activity = Activity {
            number: 7,
            doing: Doing::Query,
            index: 0,
            object: ObjectId(0),
            is_undo: false,
        };
        let mut reported = Vec::new();
        for second in 0..=9 {
            let span = watch.look(activity, began + Duration::from_secs(second));
            if watch.is_report_due(span) {
                reported.push(second);
            }
        }
        assert_eq!(reported, [1, 2, 4, 8]);
    }

    #[test]
    fn the_first_call_of_a_new_process_is_not_taken_for_the_last_of_the_old_one() {
        let began = Instant::now();
        let mut watch = Watch::new(began);
        let activity = Activity {
            number: 1,
            doing: Doing::Query,
            index: 0,
            object: ObjectId(0),
            is_undo: false,
        };
        watch.look(activity, began);
        let later = began + Duration::from_secs(60);
        watch.begin(later);
        assert_eq!(watch.look(activity, later), Duration::ZERO);
    }
}
