//! The work of a host process since the last image of its state, so that a new process can catch up.
//!
//! Work stays here until an image contains its effect. A new process gets the image and then this work
//! again; outcomes that were reported before are dropped. Owned by `other_process`.

use crate::activity::{Activity, Doing};
use crate::arguments::CallView;
use crate::event::RunningCall;
use crate::image::ObjectImage;
use crate::protocol::Undoable;
use bytes::Bytes;
use quorate_ordering::ReadId;
use quorate_types::{ObjectId, Slot, Stamp, Step};
use std::collections::VecDeque;

/// One thing that the process was asked to do.
pub(crate) enum HostWork {
    Execute {
        slot: Slot,
        stamp: Stamp,
        steps: Vec<Step>,
    },
    Query {
        read: ReadId,
        object: ObjectId,
        payload: Bytes,
    },
    /// `is_private` when the host itself wants the image, to shorten the work log.
    Snapshot { slot: Slot, is_private: bool },
    Restore {
        slot: Slot,
        images: Vec<ObjectImage>,
    },
}

/// What runs at the end of a session.
const ON_SESSION_END: &str = "on_session_end";

/// How a timer's method is called here: which one runs is known to the process alone.
const TIMER: &str = "(timer)";

/// Whether a process has a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    NotYet,
    Already,
}

struct Entry {
    work: HostWork,
    /// Whether its outcome was told: a new process repeats calls and restores silently, and skips
    /// queries and snapshots.
    is_told: bool,
    /// Whether the present process has executed it and can undo it.
    undoable: Undoable,
}

/// The work since the base image.
#[derive(Default)]
pub(crate) struct WorkLog {
    entries: VecDeque<Entry>,
    /// State before the first entry; `None` for the state after construction.
    base: Option<(Slot, Vec<ObjectImage>)>,
    /// Entries handed to the present process.
    sent: usize,
    /// Entries that the present process has answered, or that need no answer of it.
    /// Invariant: at most `sent`.
    answered: usize,
    weight: usize,
    /// What the present process is to undo.
    undone: Vec<HostWork>,
}

impl WorkLog {
    pub(crate) fn push(&mut self, work: HostWork) {
        self.weight += weight(&work);
        self.entries.push_back(Entry {
            work,
            is_told: false,
            undoable: Undoable::No,
        });
    }

    /// Makes the host's own snapshot of `slot`, if one is under way, the node's as well.
    pub(crate) fn adopt_snapshot(&mut self, slot: Slot) -> bool {
        let own = self
            .entries
            .iter_mut()
            .rev()
            .find_map(|entry| match &mut entry.work {
                HostWork::Snapshot {
                    slot: at,
                    is_private,
                } if *at == slot && !entry.is_told => Some(is_private),
                _ => None,
            });
        own.map(|is_private| *is_private = false).is_some()
    }

    /// Whether the steps of `slot` have no result yet, and if so whether the present process has them.
    pub(crate) fn open_execution(&self, slot: Slot) -> Option<Sent> {
        let is_open = |entry: &Entry| match entry.work {
            HostWork::Execute { slot: at, .. } => at == slot && !entry.is_told,
            HostWork::Query { .. } | HostWork::Snapshot { .. } | HostWork::Restore { .. } => false,
        };
        let index = self.entries.iter().position(is_open)?;
        Some(if index < self.sent {
            Sent::Already
        } else {
            Sent::NotYet
        })
    }

    /// Bytes that the entries weigh.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether the present process owes answers.
    pub(crate) fn is_waiting(&self) -> bool {
        self.answered < self.sent
    }

    /// The state from which a new process starts.
    pub(crate) fn base(&self) -> Option<&(Slot, Vec<ObjectImage>)> {
        self.base.as_ref()
    }

    /// A new process begins: everything is to be sent again.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
        self.answered = 0;
        for entry in &mut self.entries {
            entry.undoable = Undoable::No;
        }
        self.undone.clear();
    }

    /// The next work to send, if any is left.
    pub(crate) fn next_to_send(&mut self) -> Option<&HostWork> {
        loop {
            let entry = self.entries.get(self.sent)?;
            self.sent += 1;
            match entry.work {
                HostWork::Query { .. } | HostWork::Snapshot { .. } if entry.is_told => continue,
                HostWork::Execute { .. }
                | HostWork::Query { .. }
                | HostWork::Snapshot { .. }
                | HostWork::Restore { .. } => {
                    return self.entries.get(self.sent - 1).map(|e| &e.work);
                }
            }
        }
    }

    /// The process answered the next execution, query or restore. Returns that work, and whether the
    /// outcome is news; `None` when nothing was asked.
    pub(crate) fn answer(&mut self) -> Option<(&HostWork, bool)> {
        while self.answered < self.sent {
            let entry = &mut self.entries[self.answered];
            self.answered += 1;
            let was_told = entry.is_told;
            match entry.work {
                HostWork::Snapshot { .. } => continue,
                HostWork::Query { .. } if was_told => continue,
                HostWork::Execute { .. } | HostWork::Query { .. } | HostWork::Restore { .. } => {
                    entry.is_told = true;
                    let entry = &self.entries[self.answered - 1];
                    return Some((&entry.work, !was_told));
                }
            }
        }
        None
    }

    /// The slot and the steps of the execution that is answered next, if that comes next.
    pub(crate) fn executing(&self) -> Option<(Slot, &[Step])> {
        let owed = self.entries.range(self.answered..self.sent);
        let next = owed.into_iter().find(|entry| match entry.work {
            HostWork::Snapshot { .. } => false,
            HostWork::Query { .. } => !entry.is_told,
            HostWork::Execute { .. } | HostWork::Restore { .. } => true,
        })?;
        match &next.work {
            HostWork::Execute { slot, steps, .. } => Some((*slot, steps)),
            HostWork::Query { .. } | HostWork::Snapshot { .. } | HostWork::Restore { .. } => None,
        }
    }

    /// The image of `slot` was made or failed; returns whether the host itself had wanted it, and
    /// `None` when no snapshot was asked for.
    pub(crate) fn snapshot_ended(&mut self, slot: Slot) -> Option<bool> {
        self.entries.iter_mut().find_map(|entry| match entry.work {
            HostWork::Snapshot {
                slot: at,
                is_private,
            } if at == slot && !entry.is_told => {
                entry.is_told = true;
                Some(is_private)
            }
            _ => None,
        })
    }

    /// The state at the snapshot or restore of `slot` is `images`: older work is done with. No image takes an
    /// older one away that is awaited: they are written side by side, and the node waits for each that it asked for.
    pub(crate) fn rebase(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        let last = self.entries.iter().rposition(|entry| match entry.work {
            HostWork::Snapshot { slot: at, .. } | HostWork::Restore { slot: at, .. } => {
                at == slot && entry.is_told
            }
            HostWork::Execute { .. } | HostWork::Query { .. } => false,
        });
        let Some(last) = last else { return };
        // A process that is still catching up answers older work first, and must find it here.
        let is_owed = |entry: &Entry| match entry.work {
            HostWork::Execute { .. } | HostWork::Restore { .. } => true,
            HostWork::Query { .. } => !entry.is_told,
            HostWork::Snapshot { .. } => false,
        };
        let answered = self.answered.min(last + 1);
        if self.entries.range(answered..=last).any(is_owed) {
            return;
        }
        if self.sent <= last {
            return;
        }
        let is_image = |entry: &Entry| matches!(entry.work, HostWork::Snapshot { .. });
        let is_awaited = |entry: &Entry| is_image(entry) && !entry.is_told;
        if is_image(&self.entries[last]) && self.entries.range(..last).any(is_awaited) {
            return;
        }
        for entry in self.entries.drain(..=last) {
            self.weight -= weight(&entry.work);
        }
        self.sent -= last + 1;
        self.answered = self.answered.saturating_sub(last + 1);
        self.base = Some((slot, images));
    }

    /// The execution that was answered last can be undone in the present process, or not.
    pub(crate) fn answered_so(&mut self, undoable: Undoable) {
        let last = self.answered.checked_sub(1);
        if let Some(entry) = last.and_then(|last| self.entries.get_mut(last)) {
            entry.undoable = undoable;
        }
    }

    /// Whether the present process can undo all that it has of slots after `after`.
    pub(crate) fn can_undo(&self, after: Slot) -> bool {
        let sent = self.entries.range(..self.sent);
        sent.into_iter().all(|entry| match entry.work {
            HostWork::Execute { slot, .. } => slot <= after || entry.undoable == Undoable::Yes,
            // It may be on its way from the process.
            HostWork::Snapshot { slot, .. } => slot <= after || entry.is_told,
            HostWork::Query { .. } | HostWork::Restore { .. } => true,
        })
    }

    /// Takes out the calls of slots after `after`, and images of such states. Says whether the present process has one of them, if
    /// there were any.
    pub(crate) fn undo(&mut self, after: Slot) -> Option<Sent> {
        let (sent, answered) = (self.sent, self.answered);
        let mut undone = None;
        for (place, entry) in std::mem::take(&mut self.entries).into_iter().enumerate() {
            let is_kept = match entry.work {
                HostWork::Execute { slot, .. } | HostWork::Snapshot { slot, .. } => slot <= after,
                HostWork::Query { .. } | HostWork::Restore { .. } => true,
            };
            if is_kept {
                self.entries.push_back(entry);
                continue;
            }
            self.weight -= weight(&entry.work);
            self.sent -= usize::from(place < sent);
            self.answered -= usize::from(place < answered);
            let was_sent = place < sent || undone == Some(Sent::Already);
            undone = Some(if was_sent {
                Sent::Already
            } else {
                Sent::NotYet
            });
            self.undone.push(entry.work);
        }
        undone
    }

    /// The process has undone what it was to undo, or is not asked.
    pub(crate) fn forget_undone(&mut self) {
        self.undone = Vec::new();
    }

    /// Whether an image of the host's own is asked for and not made.
    pub(crate) fn is_shortening(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| match entry.work {
            HostWork::Snapshot { is_private, .. } => is_private && !entry.is_told,
            HostWork::Execute { .. } | HostWork::Query { .. } | HostWork::Restore { .. } => false,
        })
    }

    /// Drops all calls: the next process takes over `images`, and then answers what it is asked.
    pub(crate) fn begin_with(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        let queries = self.entries.drain(..).filter_map(|entry| match entry.work {
            HostWork::Query { .. } if !entry.is_told => Some(entry.work),
            HostWork::Query { .. }
            | HostWork::Execute { .. }
            | HostWork::Snapshot { .. }
            | HostWork::Restore { .. } => None,
        });
        let queries: Vec<HostWork> = queries.collect();
        self.weight = 0;
        self.rewind();
        self.push(HostWork::Restore { slot, images });
        for query in queries {
            self.push(query);
        }
    }

    /// The newest restore that no process has taken over yet.
    pub(crate) fn waiting_restore(&self) -> Option<(Slot, Vec<ObjectImage>)> {
        let mut newest = self.entries.iter().rev();
        newest.find_map(|entry| match &entry.work {
            HostWork::Restore { slot, images } if !entry.is_told => Some((*slot, images.clone())),
            HostWork::Execute { .. }
            | HostWork::Query { .. }
            | HostWork::Snapshot { .. }
            | HostWork::Restore { .. } => None,
        })
    }

    /// The restore that was answered last changed nothing: it is not repeated.
    pub(crate) fn forget_restore(&mut self) {
        let index = self.answered - 1;
        if let Some(entry) = self.entries.remove(index) {
            self.weight -= weight(&entry.work);
            self.answered -= 1;
            self.sent -= 1;
        }
    }

    /// Gives up the query that the activity shows, and all that ask the same. Others before it may be answered
    /// and not yet told: they are asked again.
    pub(crate) fn drop_queries(
        &mut self,
        activity: Activity,
    ) -> Option<(ObjectId, Bytes, Vec<ReadId>)> {
        let shown = self.entries.iter().find_map(|entry| match &entry.work {
            HostWork::Query {
                read,
                object,
                payload,
            } if !entry.is_told && is_shown(*read, activity) => Some((*object, payload.clone())),
            HostWork::Query { .. }
            | HostWork::Execute { .. }
            | HostWork::Snapshot { .. }
            | HostWork::Restore { .. } => None,
        });
        let (object, payload) = shown?;
        let mut dropped = Vec::new();
        for entry in &mut self.entries {
            if let HostWork::Query {
                read,
                object: at,
                payload: asked,
            } = &entry.work
                && !entry.is_told
                && (*at, asked) == (object, &payload)
            {
                entry.is_told = true;
                dropped.push(*read);
            }
        }
        Some((object, payload, dropped))
    }

    /// Names the call that the activity shows.
    pub(crate) fn running_call(&self, activity: Activity) -> Option<RunningCall> {
        let mut entries = self.entries.iter();
        entries.find_map(|entry| match &entry.work {
            HostWork::Query { .. } if entry.is_told => None,
            work => shown_call(work, activity),
        })
    }

    /// Names the call whose undo the activity shows.
    pub(crate) fn running_undo(&self, activity: Activity) -> Option<RunningCall> {
        if !activity.is_undo {
            return None;
        }
        let mut undone = self.undone.iter();
        undone
            .find_map(|work| shown_call(work, activity))
            .or_else(|| self.running_call(activity))
    }
}

fn shown_call(work: &HostWork, activity: Activity) -> Option<RunningCall> {
    let named = |slot, object, method: &str| RunningCall {
        slot,
        index: activity.index,
        object,
        name: None,
        method: method.to_owned(),
    };
    let method_of = |payload| CallView::method_of(payload).unwrap_or("?");
    match (work, activity.doing) {
        (HostWork::Execute { slot, steps, .. }, Doing::Call(at)) if *slot == at => {
            let mut steps = steps.iter();
            let step = steps.find(|step| step.index() == activity.index)?;
            let (object, method) = match step {
                Step::Call(call) => (call.object, method_of(&call.payload)),
                Step::End(_) | Step::Resume(_) => (activity.object, ON_SESSION_END),
                Step::Tick { .. } => (activity.object, TIMER),
            };
            Some(named(Some(at), object, method))
        }
        (
            HostWork::Query {
                read,
                object,
                payload,
            },
            Doing::Query,
        ) if is_shown(*read, activity) => Some(named(None, *object, method_of(payload))),
        _ => None,
    }
}

/// The activity shows the lower half of a query's id: far more than wait at once.
fn is_shown(read: ReadId, activity: Activity) -> bool {
    activity.doing == Doing::Query && read.0 as u32 == activity.index
}

fn weight(work: &HostWork) -> usize {
    const FIXED: usize = 64;
    match work {
        HostWork::Execute { steps, .. } => {
            let payload = |step: &Step| step.call().map_or(0, |call| call.payload.len());
            FIXED
                + steps
                    .iter()
                    .map(|step| FIXED + payload(step))
                    .sum::<usize>()
        }
        HostWork::Query { payload, .. } => FIXED + payload.len(),
        HostWork::Snapshot { .. } | HostWork::Restore { .. } => FIXED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_log_of(slots: u64) -> WorkLog {
        let mut work_log = WorkLog::default();
        for slot in 1..=slots {
            work_log.push(HostWork::Execute {
                slot: Slot(slot),
                stamp: Stamp::default(),
                steps: Vec::new(),
            });
        }
        work_log
    }

    fn sent(work_log: &mut WorkLog) -> usize {
        std::iter::from_fn(|| work_log.next_to_send().map(|_| ())).count()
    }

    #[test]
    fn a_new_process_gets_calls_again_and_their_outcomes_are_no_news() {
        let mut work_log = work_log_of(3);
        assert_eq!(sent(&mut work_log), 3);
        assert!(matches!(
            work_log.answer(),
            Some((HostWork::Execute { .. }, true))
        ));
        work_log.rewind();
        assert_eq!(sent(&mut work_log), 3);
        let news: Vec<bool> = std::iter::from_fn(|| work_log.answer().map(|(_, n)| n)).collect();
        assert_eq!(news, [false, true, true]);
        assert!(!work_log.is_waiting());
    }

    #[test]
    fn an_image_shortens_the_work_log_only_when_all_before_it_is_answered() {
        let mut work_log = work_log_of(2);
        let slot = Slot(2);
        let is_private = true;
        work_log.push(HostWork::Snapshot { slot, is_private });
        assert_eq!(sent(&mut work_log), 3);
        work_log.answer();
        work_log.answer();
        assert_eq!(work_log.snapshot_ended(slot), Some(true));
        work_log.rewind();
        assert_eq!(
            sent(&mut work_log),
            2,
            "an image that was told is not taken again"
        );
        work_log.rebase(slot, Vec::new());
        assert!(
            work_log.base().is_none(),
            "the new process still owes two answers"
        );
        work_log.answer();
        work_log.answer();
        work_log.rebase(slot, Vec::new());
        assert!(
            work_log.base().is_some(),
            "now it stands where the image was taken"
        );
    }

    #[test]
    fn an_image_that_is_there_first_takes_no_older_one_away() {
        let mut work_log = work_log_of(1);
        let asked = |slot, is_private| HostWork::Snapshot { slot, is_private };
        work_log.push(asked(Slot(1), false));
        work_log.push(asked(Slot(2), true));
        sent(&mut work_log);
        work_log.answer();
        assert_eq!(work_log.snapshot_ended(Slot(2)), Some(true));
        work_log.rebase(Slot(2), Vec::new());
        assert_eq!(
            work_log.snapshot_ended(Slot(1)),
            Some(false),
            "the node waits for it"
        );
        work_log.rebase(Slot(1), Vec::new());
        assert_eq!(work_log.base().map(|(slot, _)| *slot), Some(Slot(1)));
    }

    #[test]
    fn an_image_becomes_the_base_of_the_next_process() {
        let mut work_log = work_log_of(1);
        let slot = Slot(1);
        let is_private = true;
        work_log.push(HostWork::Snapshot { slot, is_private });
        assert!(work_log.adopt_snapshot(slot));
        sent(&mut work_log);
        work_log.answer();
        assert_eq!(
            work_log.snapshot_ended(slot),
            Some(false),
            "the node wanted it, too"
        );
        work_log.rebase(slot, Vec::new());
        assert_eq!(work_log.base().map(|base| base.0), Some(slot));
        assert_eq!((work_log.weight(), sent(&mut work_log)), (0, 0));
    }
}
