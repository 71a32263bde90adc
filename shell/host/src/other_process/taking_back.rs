//! Calls that are taken back from the process: those that the group skips, those that took too many steps, and those of slots that
//! were decided otherwise than they were executed.

use super::{Death, Life, OtherProcess};
use crate::ended_reads::EndedReads;
use crate::event::{HostEvent, RunningCall};
use crate::limits::{LIARS_MAX, UNDO_PATIENCE};
use crate::outcomes::fit;
use crate::process_end::{ProcessEnd, undo_ended};
use crate::protocol::put_undo;
use crate::work_log::Sent;
use quorate_types::{ObjectId, Outcome, Slot};
use std::time::{Duration, Instant};

impl OtherProcess {
    /// A call is not executed, unless its outcome was told. A process that has it already is replaced by
    /// one that does not get it.
    pub(crate) fn skip(&mut self, slot: Slot, index: u32) {
        let sent = match self.work_log.open_execution(slot) {
            Some(sent) => sent,
            None if slot > self.newest => Sent::NotYet,
            None => return,
        };
        self.left_out.insert((slot, index), Outcome::Skipped);
        let is_down_for_it = self
            .last_death
            .as_ref()
            .and_then(|death| death.call.as_ref())
            .is_some_and(|call| call.slot == Some(slot) && call.index == index);
        match &self.life {
            Life::Over if is_down_for_it => {
                let until = Instant::now();
                self.life = Life::Waiting { until };
            }
            Life::Up { .. } if sent == Sent::Already => {
                let skipped = std::io::Error::other("the group skips a call that it has");
                self.died(&ProcessEnd::Stream(Some(skipped)));
            }
            Life::Over
            | Life::Up { .. }
            | Life::Starting { .. }
            | Life::Restoring { .. }
            | Life::Waiting { .. } => {}
        }
        if is_down_for_it {
            self.last_death = None;
            self.watch.release();
        }
    }

    /// As if the call had never begun: the next process gets all but that call.
    pub(super) fn spent(&mut self, slot: Slot, index: u32, outcome: Outcome) {
        if self.work_log.executing().is_none_or(|(at, _)| at != slot) {
            return self.out_of_step();
        }
        self.left_out.insert((slot, index), fit(outcome));
        self.died(&ProcessEnd::Spent);
    }

    /// A process that has something that is undone undoes it, if it can. Else it is replaced by one that does not get it, and one that
    /// has not begun by one that knows what was printed.
    pub(crate) fn undo(&mut self, after: Slot) {
        let can_undo = self.undoing.is_none() && self.work_log.can_undo(after);
        let undone = self.work_log.undo(after);
        self.left_out.retain(|(slot, _), _| *slot <= after);
        self.newest = self.newest.min(after);
        // What is executed in place of it may print. What earlier starts printed is not printed again.
        let told = self.told.min(after.max(self.config.quiet_upto));
        let is_told = std::mem::replace(&mut self.told, told) > told;
        // In the undone state.
        self.ended_reads = EndedReads::default();
        self.undecided.take_if(|(slot, _)| *slot > after);
        self.scratch.undo(after);
        self.is_shortening = self.undecided.is_some() || self.work_log.is_shortening();
        let is_at = |death: &mut Death| {
            death
                .call
                .as_ref()
                .is_some_and(|call| call.slot > Some(after))
        };
        if self.last_death.take_if(is_at).is_some() {
            self.watch.release();
            if matches!(self.life, Life::Over) {
                let until = Instant::now();
                self.life = Life::Waiting { until };
            }
        }
        let is_up = matches!(self.life, Life::Up { .. });
        let is_busy = self.undoing.is_some();
        if is_busy || is_told || undone == Some(Sent::Already) || undone.is_some() && !is_up {
            if can_undo && undone == Some(Sent::Already) && self.ask_undo(after) {
                return;
            }
            self.replace();
        }
        self.work_log.forget_undone();
        self.events.push(HostEvent::Undone { after });
    }

    /// Asks the process to undo what it has of slots after `after`.
    fn ask_undo(&mut self, after: Slot) -> bool {
        let Life::Up { process } = &mut self.life else {
            return false;
        };
        let Some(outbox) = process.outbox() else {
            return false;
        };
        put_undo(outbox, after);
        self.undoing = Some((after, Instant::now() + UNDO_PATIENCE));
        true
    }

    /// Whether the process owes an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.undoing.is_some() || self.work_log.is_waiting()
    }

    /// The process has undone what it was asked to.
    pub(super) fn undone(&mut self, after: Slot) {
        match self.undoing.take() {
            Some((asked, _)) if asked == after => {
                self.work_log.forget_undone();
                self.events.push(HostEvent::Undone { after });
            }
            Some(_) | None => self.out_of_step(),
        }
    }

    /// What a class says does not undo a method: it is not used again. Nobody is to blame where there is no method.
    pub(super) fn undo_failed(&mut self, object: ObjectId, method: String, reason: String) {
        if !method.is_empty() {
            self.distrust(object, method);
        }
        self.died(&ProcessEnd::NotUndone(reason));
    }

    /// What undoes the method is not used again. No class names so many that lie; where they do, nothing is undone in place.
    pub(super) fn distrust(&mut self, object: ObjectId, method: String) {
        if self.undoes_in_place() {
            self.liars.undos.insert((object, method));
        }
    }

    /// What undoes a call has ended the process, or did not end: it is not used again. Returns why the host is down.
    pub(super) fn undo_ended(
        &mut self,
        undo: RunningCall,
        ended: &ProcessEnd,
        status: &str,
    ) -> String {
        let reason = undo_ended(&undo, ended, status);
        self.distrust(undo.object, undo.method);
        reason
    }

    /// Whether the process is asked to keep what undoing needs.
    pub(super) fn undoes_in_place(&self) -> bool {
        self.liars.undos.len() < LIARS_MAX
    }

    /// The process is busy for too long with undoing, or with what that needs before a call.
    pub(super) fn undo_is_late(&mut self, patience: Duration) {
        let late = format!(
            "the host process has not undone calls within {patience:?}: the state is made anew without them"
        );
        self.died(&ProcessEnd::NotUndone(late));
    }

    /// The process has ended: the next one gets nothing of what it was to undo.
    pub(super) fn undone_by_the_next(&mut self) {
        if let Some((after, _)) = self.undoing.take() {
            // The next process tells what is due, if anything is.
            self.events.push(HostEvent::Due { at: None });
            self.events.push(HostEvent::Undone { after });
        }
    }

    /// What the process has executed before the read is in the work log, so a new one has the right state.
    pub(super) fn read_wrote(&mut self, object: ObjectId, method: String) {
        if self.liars.reads.len() < LIARS_MAX {
            self.liars.reads.insert((object, method.clone()));
        }
        self.died(&ProcessEnd::ReadWrote { object, method });
    }

    fn replace(&mut self) {
        let until = Instant::now();
        self.life = match std::mem::replace(&mut self.life, Life::Over) {
            Life::Starting { mut process, .. }
            | Life::Restoring { mut process }
            | Life::Up { mut process } => {
                process.kill();
                Life::Waiting { until }
            }
            ended @ (Life::Waiting { .. } | Life::Over) => ended,
        };
        self.undoing = None;
        self.gathered.take();
        self.is_unread = false;
        self.watch.release();
        self.work_log.rewind();
        self.catching_up.begins_again();
        // The next process tells what is due, if anything is.
        self.events.push(HostEvent::Due { at: None });
    }
}
