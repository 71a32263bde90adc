//! Calls that do not return: reported, ended, and told as what keeps the objects from going on.

use super::{Life, OtherProcess};
use crate::activity::Activity;
use crate::event::{HostEvent, StuckCall, StuckUntil};
use crate::limits::KEEP_PATIENCE;
use crate::process_end::ProcessEnd;
use std::time::Instant;

impl OtherProcess {
    /// Reports a call that does not return, and kills its process when it has taken too long.
    pub(super) fn watch(&mut self, activity: Activity, now: Instant) {
        let since = self.watch.look(activity, now);
        if activity.is_undo {
            let limit = self.config.call_timeout.unwrap_or(KEEP_PATIENCE);
            if since >= limit.min(KEEP_PATIENCE) {
                self.undo_is_late(limit.min(KEEP_PATIENCE));
            }
            return;
        }
        if self.watch.is_report_due(since)
            && let Some(call) = self.work_log.running_call(activity)
        {
            let call = match &self.life {
                Life::Up { process } => process.named(call),
                Life::Starting { .. }
                | Life::Restoring { .. }
                | Life::Waiting { .. }
                | Life::Over => call,
            };
            self.watch.hold(call.clone(), self.watch.since());
            self.events.push(HostEvent::Hanging { call, since });
        }
        if let Some(limit) = self.config.call_timeout
            && since >= limit
        {
            self.died(&ProcessEnd::Late(limit));
        }
    }

    /// The call that keeps the objects from going on.
    pub(crate) fn stuck(&self) -> Option<StuckCall> {
        let (call, since) = self.watch.stuck()?;
        let held = match (&self.life, self.config.call_timeout) {
            (Life::Over, _) => StuckUntil::Down,
            (
                Life::Starting { .. }
                | Life::Restoring { .. }
                | Life::Up { .. }
                | Life::Waiting { .. },
                timeout,
            ) => timeout.map_or(StuckUntil::Endless, StuckUntil::Timeout),
        };
        Some(StuckCall {
            call: call.clone(),
            since: since.elapsed(),
            held,
        })
    }
}
