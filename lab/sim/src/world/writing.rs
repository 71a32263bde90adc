//! When the threads of a node's log do their work: commits, tries on a full disk, removals of files.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::fault::{BadCall, KillStep};
use super::life::{Death, INJECTED};
use super::log_thread::Committed;
use super::node::LogStep;
use super::outputs::STOPPED_FOR;
use super::row::Row;
use super::trace::Tag;
use crate::checkers::Property;
use quorate_ordering::Record;
use quorate_replica::{DiskRoom, Input};
use quorate_storage::StorageError;
use quorate_types::{Duration, NodeId};

/// How long the removal of a file takes: what a file system takes for a large one.
const REMOVAL: Duration = Duration::from_millis(10);

/// A replica knows that its disk has room again within this.
const BELIEVED_FULL: Duration = Duration::from_millis(100);

impl World {
    /// Begins a commit if something is due and none is under way.
    pub(super) fn begin_commit(&mut self, id: NodeId) {
        // Drawn at each turn, so that runs differ by nothing else whether a commit begins or not.
        let span = self.commit_span(id);
        let Some(running) = &mut self.node(id).running else {
            return;
        };
        if !running.commit.is_under_way() && running.storage.log.is_due() {
            self.begin_step(id, span);
        }
    }

    /// The wait of a full disk's next try is over.
    pub(super) fn log_retried(&mut self, id: NodeId, life: u64) {
        let now = self.now;
        let node = self.node(id);
        let Some(running) = node.running.as_ref().filter(|_| node.life == life) else {
            return;
        };
        if running.commit == LogStep::WaitsUntil(now) {
            let span = self.commit_span(id);
            self.begin_step(id, span);
        }
    }

    fn commit_span(&mut self, id: NodeId) -> Duration {
        let disk = self.setup.disk;
        let random = &mut self.node(id).random;
        Duration(random.between(disk.commit_min.0, disk.commit_max.0))
    }

    fn begin_step(&mut self, id: NodeId, span: Duration) {
        let now = self.now;
        let node = self.node(id);
        let (life, slow) = (node.life, node.slow);
        let Some(running) = &mut node.running else {
            return;
        };
        let trims = running.storage.log.begin();
        running.commit = if trims {
            LogStep::Trims
        } else {
            LogStep::Commits
        };
        if slow > Duration::ZERO {
            self.felt(id, Row::SlowDisk);
        }
        if trims && let Some(changes) = self.cuts(id, KillStep::Trim) {
            self.nodes[&id].disks.log.stop_after(changes);
        }
        self.events
            .push(now + span + slow, Event::Committed { node: id, life });
    }

    pub(super) fn committed(&mut self, id: NodeId, life: u64) {
        let node = self.node(id);
        if node.life != life {
            return;
        }
        let Some(running) = &mut node.running else {
            return;
        };
        let step = std::mem::replace(&mut running.commit, LogStep::Waits);
        let is_trim = step == LogStep::Trims || running.is_removing;
        match running.storage.log.commit() {
            Ok(done) => self.tell_committed(id, done),
            Err(StorageError::TooLarge { bytes, limit }) => {
                let detail = format!("{id} writes a record of {bytes} bytes, the limit is {limit}");
                self.blame(Property::BoundedMemory, detail);
            }
            Err(error) => {
                let row = if is_trim { Row::TrimCut } else { Row::PowerCut };
                self.stop(id, &error, row);
            }
        }
    }

    fn tell_committed(&mut self, id: NodeId, done: Committed) {
        let now = self.now;
        let mark = done.mark.unwrap_or_default();
        let entries = done.records.len() as u64;
        let words = [Tag::Commit as u64, u64::from(id.0), mark.0, entries];
        self.trace.note(now, &words, || {
            format!("{id} has {entries} entries on disk")
        });
        self.note_writes(id, &done.records);
        if let Some(mark) = done.mark {
            self.hand_in(id, Input::Persisted { mark });
        }
        if let Some(room) = done.room {
            self.running(id).full_until = match room {
                DiskRoom::Full => Moment(u64::MAX),
                DiskRoom::Plenty | DiskRoom::Scarce => self.now + BELIEVED_FULL,
            };
            self.hand_in(id, Input::Storage { room });
        }
        if done.removes {
            self.begin_removal(id);
        }
        self.wait_for_room(id);
        self.begin_commit(id);
    }

    /// A log that is short of room tries again after a while.
    fn wait_for_room(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        let life = node.life;
        let Some(running) = &mut node.running else {
            return;
        };
        let Some(retry) = running.storage.log.retry() else {
            return;
        };
        let at: Moment = now + retry;
        running.commit = LogStep::WaitsUntil(at);
        self.events.push(at, Event::LogRetried { node: id, life });
        self.felt(id, Row::DiskFull);
    }

    fn begin_removal(&mut self, id: NodeId) {
        let at = self.now + REMOVAL;
        let node = self.node(id);
        let life = node.life;
        let Some(running) = &mut node.running else {
            return;
        };
        if !std::mem::replace(&mut running.is_removing, true) {
            self.events
                .push(at, Event::SegmentRemoved { node: id, life });
        }
    }

    /// The thread that removes files has done one thing.
    pub(super) fn segment_removed(&mut self, id: NodeId, life: u64) {
        let node = self.node(id);
        let Some(running) = node.running.as_mut().filter(|_| node.life == life) else {
            return;
        };
        running.is_removing = false;
        match running.storage.log.remove() {
            Ok(is_more) => {
                if is_more {
                    self.begin_removal(id);
                }
                self.begin_commit(id);
            }
            Err(error) => self.stop(id, &error, Row::TrimCut),
        }
    }

    fn note_writes(&mut self, id: NodeId, records: &[Record]) {
        for record in records {
            let judged = self.judge.wrote(id, record);
            self.judged(judged);
        }
    }

    /// A node stops for its disk: `cut` is what a power cut is here.
    pub(super) fn stop(&mut self, id: NodeId, error: &StorageError, cut: Row) {
        let text = error.to_string();
        self.trace
            .note(self.now, &[Tag::Life as u64, u64::from(id.0), 7], || {
                format!("{id} stops: {text}")
            });
        let is_off = is_power_cut(error);
        if is_off && cut != Row::PowerCut {
            self.exercised(cut);
        }
        if text.contains(INJECTED) {
            self.exercised(match self.nodes[&id].bad_call {
                BadCall::Write => Row::WriteFailed,
                BadCall::Sync => Row::SyncFailed,
                BadCall::Read => Row::ReadFailed,
            });
        }
        let death = if is_off {
            Death::PowerCut
        } else {
            Death::Killed
        };
        let doom = self.node(id).doom;
        let down = doom.map_or(STOPPED_FOR, |doom| doom.down);
        self.die(id, death, down);
    }
}

/// A machine without power runs no further, whatever its process would make of the error.
pub(super) fn is_power_cut(error: &StorageError) -> bool {
    error.to_string().contains("the power is cut")
}
