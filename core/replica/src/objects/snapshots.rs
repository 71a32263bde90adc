//! Snapshots: when one is due, what it holds, who agrees on it, and what may be trimmed for it.
//!
//! A snapshot counts when a majority of the view's replicas hold it durably with equal digests. Who
//! differs from such a majority, and everybody when none is possible any more, serves no objects.

use crate::limits::{REPORT_EVERY, REPORTS_PER_REPLICA};
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::objects::pipeline::Work;
use crate::replicated::Frozen;
use crate::replicated::sessions::{self, Table};
use crate::{Digest, Output, PeerMessage, Replica, ReplicaMessage, SnapshotCore, Snapshots};
use quorate_ordering::{Event, Lane, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, CommandId, ConnectionId, NodeId, NodeSet, Refusal, Slot, Time, ToClient, View,
};
use std::collections::{BTreeMap, VecDeque};

/// A durable snapshot, as its owner reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotReport {
    pub(crate) slot: Slot,
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

/// What the log weighed, in total since this node started, when a checkpoint was decided.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    commands: u64,
    bytes: u64,
}

/// A snapshot that this node is taking.
#[derive(Debug)]
struct Taking {
    slot: Slot,
    /// The replicated state at the slot, but for outcomes that are on their way; gone once the
    /// replica's part is handed over.
    frozen: Option<Frozen>,
    replies: u64,
}

/// All that is known about snapshots.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// The whole log since this node started.
    total: Weight,
    /// At the last checkpoint.
    last: Weight,
    /// At each checkpoint that is not stable; at most [`REPORTS_PER_REPLICA`].
    marks: VecDeque<(Slot, Weight)>,
    /// At the newest stable checkpoint.
    trimmed: Weight,
    is_submitted: bool,
    taking: Option<Taking>,
    /// Durable snapshots by replica, ascending by slot.
    reports: BTreeMap<NodeId, VecDeque<SnapshotReport>>,
    own: Option<SnapshotReport>,
    stable: Slot,
    /// The newest checkpoint decided; the next one waits for it to become stable.
    decided: Slot,
    diverged: Option<Slot>,
    frozen: Option<Slot>,
    report_at: Option<Time>,
    /// Clients that asked for a checkpoint.
    pub(crate) requests: Vec<(ConnectionId, u64)>,
}

impl Checkpoints {
    pub(crate) fn grew(&mut self, commands: usize, bytes: usize) {
        self.total.commands += commands as u64;
        self.total.bytes += bytes as u64;
    }

    pub(crate) fn failed(&mut self, slot: Slot) {
        if self.taking.as_ref().map(|taking| taking.slot) == Some(slot) {
            self.taking = None;
        }
    }

    /// Sessions of the snapshot being taken, if outcomes of `slot` belong into it.
    pub(crate) fn frozen_table(&mut self, slot: Slot) -> Option<&mut Table> {
        let taking = self.taking.as_mut().filter(|taking| slot <= taking.slot)?;
        taking.frozen.as_mut().map(|frozen| &mut frozen.table)
    }

    /// Says whether this node's objects must not answer anybody.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.diverged.is_some() || self.frozen.is_some()
    }

    pub(crate) fn diverged(&self) -> Option<Slot> {
        self.diverged
    }

    pub(crate) fn frozen(&self) -> Option<Slot> {
        self.frozen
    }

    /// The newest durable snapshot of this node.
    pub(crate) fn own(&self) -> Option<SnapshotReport> {
        self.own
    }

    /// The newest snapshot that a majority holds with equal digests.
    pub(crate) fn stable(&self) -> Slot {
        self.stable
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.report_at
    }

    /// What a replica reported about exactly this slot.
    pub(crate) fn report_of(&self, node: NodeId, slot: Slot) -> Option<SnapshotReport> {
        let reports = self.reports.get(&node)?.iter();
        reports.rev().find(|report| report.slot == slot).copied()
    }

    /// Says whether `slot` is one of the two newest snapshots of `node`.
    pub(crate) fn is_among_newest(&self, node: NodeId, slot: Slot) -> bool {
        let reports = self.reports.get(&node).into_iter().flatten().rev().take(2);
        reports.into_iter().any(|report| report.slot == slot)
    }

    /// Replicas known to hold a snapshot at or above `slot`.
    pub(crate) fn holders(&self, slot: Slot) -> NodeSet {
        let reports = self.reports.iter();
        reports
            .filter(|(_, kept)| kept.back().is_some_and(|report| report.slot >= slot))
            .map(|(node, _)| *node)
            .collect()
    }

    fn note(&mut self, node: NodeId, report: SnapshotReport) {
        let kept = self.reports.entry(node).or_default();
        if kept.back().is_some_and(|newest| newest.slot >= report.slot) {
            return;
        }
        kept.push_back(report);
        if kept.len() > REPORTS_PER_REPLICA {
            kept.pop_front();
        }
    }

    /// What the reports of `view`'s replicas about `slot` say.
    fn verdict(&self, view: &View, slot: Slot) -> Verdict {
        let mut counts: Vec<(Digest, usize)> = Vec::new();
        let mut heard = 0;
        for node in view.replicas.iter() {
            let Some(report) = self.report_of(node, slot) else {
                continue;
            };
            heard += 1;
            match counts
                .iter_mut()
                .find(|(digest, _)| *digest == report.digest)
            {
                Some((_, count)) => *count += 1,
                None => counts.push((report.digest, 1)),
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let unheard = view.replicas.len() - heard;
        match most {
            Some((digest, count))
                if count >= view.replica_majority() || planted(Plant::TrimByOne) =>
            {
                Verdict::Agreed(digest)
            }
            Some((_, count)) if count + unheard < view.replica_majority() => Verdict::Split,
            Some(_) | None => Verdict::Open,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// A majority holds equal digests.
    Agreed(Digest),
    /// No majority is possible any more.
    Split,
    /// More reports are needed.
    Open,
}

impl<O: Ordering> Replica<O> {
    /// Says whether the log since the newest stable snapshot has reached its bound.
    pub(crate) fn is_log_full(&self) -> bool {
        let (total, trimmed) = (self.checkpoints.total, self.checkpoints.trimmed);
        total.bytes - trimmed.bytes >= self.config.log_bytes_max
            || total.commands - trimmed.commands >= self.config.log_commands_max
    }

    /// At the end of a turn: the leader asks for a checkpoint when one is due.
    pub(crate) fn tend_log(&mut self) {
        let leads = matches!(self.role, Role::Leader { .. });
        if leads && !self.checkpoints.is_submitted && self.is_checkpoint_due() {
            self.want_checkpoint();
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return false;
        };
        let kept = &self.checkpoints;
        let commands = kept.total.commands - kept.last.commands;
        let bytes = kept.total.bytes - kept.last.bytes;
        let image = kept.own.map_or(0, |own| own.bytes);
        let enough = policy
            .bytes
            .max(image.saturating_mul(policy.image_percent) / 100);
        let is_last_done = kept.taking.is_none() && kept.stable >= kept.decided;
        (commands >= policy.commands && bytes >= enough && is_last_done)
            || commands >= policy.commands_hard
            || bytes >= policy.bytes_hard
    }

    /// Submits a checkpoint unless one is on its way.
    pub(crate) fn want_checkpoint(&mut self) {
        if matches!(self.config.snapshots, Snapshots::Disabled) || self.checkpoints.is_submitted {
            return;
        }
        self.checkpoints.is_submitted = true;
        self.submit(Purpose::Checkpoint, Body::Checkpoint);
    }

    pub(crate) fn checkpoint_refused(
        &mut self,
        refusal: Refusal,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.checkpoints.is_submitted = false;
        for (to, request) in std::mem::take(&mut self.checkpoints.requests) {
            refuse(out, to, Ask::Request(request), refusal);
        }
    }

    /// Every replica takes a snapshot after `slot`, unless it is still busy with an earlier one.
    pub(crate) fn checkpoint_decided(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let kept = &mut self.checkpoints;
        kept.last = kept.total;
        kept.decided = slot;
        kept.marks.push_back((slot, kept.total));
        if kept.marks.len() > REPORTS_PER_REPLICA {
            kept.marks.pop_front();
        }
        for (to, request) in std::mem::take(&mut kept.requests) {
            reply(out, to, ToClient::Checkpointed { request, slot });
        }
        let is_possible = matches!(self.config.snapshots, Snapshots::Every(_))
            && self.is_replica()
            && self.checkpoints.taking.is_none()
            && self.checkpoints.diverged.is_none();
        if is_possible {
            self.checkpoints.taking = Some(Taking {
                slot,
                frozen: Some(self.replicated.freeze()),
                replies: 0,
            });
            self.pipeline.push(Work::Snapshot(slot));
        }
    }

    pub(crate) fn checkpoint_landed(&mut self) {
        self.checkpoints.is_submitted = false;
    }

    /// Hands over the replica's part once every outcome up to the snapshot's slot is in it.
    pub(crate) fn try_finish_snapshot(&mut self, out: &mut Vec<Output<O::Message>>) {
        let executed = self.pipeline.executed(self.replicated.applied);
        let Some(taking) = &mut self.checkpoints.taking else {
            return;
        };
        if executed < taking.slot {
            return;
        }
        let Some(frozen) = taking.frozen.take() else {
            return;
        };
        taking.replies = self.pipeline.replies_digest;
        let core = frozen.into_core(taking.replies, self.config.view.clone());
        out.push(Output::FinishSnapshot {
            core: Box::new(core),
        });
    }

    /// The snapshot at `slot` is durable here.
    pub(crate) fn snapshot_taken(
        &mut self,
        now: Time,
        slot: Slot,
        state: [u8; 32],
        bytes: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let taking = self
            .checkpoints
            .taking
            .take_if(|taking| taking.slot == slot);
        let Some(taking) = taking else { return };
        let replies = taking.replies;
        let digest = Digest { replies, state };
        self.report(
            now,
            SnapshotReport {
                slot,
                digest,
                bytes,
            },
            out,
        );
    }

    /// A snapshot that was recovered or installed stands durable here.
    pub(crate) fn report_snapshot(
        &mut self,
        now: Time,
        slot: Slot,
        state: [u8; 32],
        bytes: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let replies = self.pipeline.replies_digest;
        let digest = Digest { replies, state };
        self.report(
            now,
            SnapshotReport {
                slot,
                digest,
                bytes,
            },
            out,
        );
    }

    fn report(&mut self, now: Time, report: SnapshotReport, out: &mut Vec<Output<O::Message>>) {
        self.checkpoints.own = Some(report);
        self.checkpoints.note(self.config.own, report);
        self.checkpoints.report_at = Some(now + REPORT_EVERY);
        self.repeat_report(self.other_replicas(), out);
        self.judge(report.slot, out);
    }

    /// Tells `to` about the newest snapshot held here.
    pub(crate) fn repeat_report(&self, to: NodeSet, out: &mut Vec<Output<O::Message>>) {
        let Some(own) = self.checkpoints.own else {
            return;
        };
        if to.is_empty() || self.checkpoints.diverged.is_some() {
            return;
        }
        let message = PeerMessage::Replica(ReplicaMessage::Durable {
            slot: own.slot,
            digest: own.digest,
            bytes: own.bytes,
        });
        let lane = Lane::Normal;
        out.push(Output::Send { to, lane, message });
    }

    /// Repeats the report while no majority agrees: the first one may have been lost.
    pub(crate) fn tend_reports(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if self.checkpoints.report_at.is_none_or(|due| due > now) {
            return;
        }
        let is_stable = self
            .checkpoints
            .own
            .is_none_or(|own| own.slot <= self.checkpoints.stable);
        if is_stable || self.checkpoints.is_quarantined() {
            self.checkpoints.report_at = None;
        } else {
            self.checkpoints.report_at = Some(now + REPORT_EVERY);
            self.repeat_report(self.other_replicas(), out);
        }
    }

    /// A peer's snapshot is durable there. Who has what this node has is told so.
    pub(crate) fn peer_reported(
        &mut self,
        from: NodeId,
        report: SnapshotReport,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.checkpoints.note(from, report);
        self.judge(report.slot, out);
    }

    fn judge(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let own = self.checkpoints.report_of(self.config.own, slot);
        match self.checkpoints.verdict(&self.config.view, slot) {
            Verdict::Agreed(digest) => {
                if slot > self.checkpoints.stable {
                    self.checkpoints.stable = slot;
                    let marks = &mut self.checkpoints.marks;
                    while let Some((at, weight)) = marks.front().copied()
                        && at <= slot
                    {
                        self.checkpoints.trimmed = weight;
                        marks.pop_front();
                    }
                    self.raise(Event::Trimmable { slot });
                }
                if own.is_some_and(|own| own.digest != digest) && !self.is_diverged() {
                    self.checkpoints.diverged = Some(slot);
                    out.push(Output::Diverged { slot });
                    self.give_up_waits(out);
                }
            }
            Verdict::Split => {
                if self.checkpoints.frozen.is_none() {
                    self.checkpoints.frozen = Some(slot);
                    self.give_up_waits(out);
                }
            }
            Verdict::Open => {}
        }
    }

    fn is_diverged(&self) -> bool {
        self.checkpoints.diverged.is_some()
    }

    /// Sends everybody who waits to another replica: what they wait for may be executed there.
    fn give_up_waits(&mut self, out: &mut Vec<Output<O::Message>>) {
        for session in self.waiting.sessions() {
            let Some(line) = self.waiting.line(session) else {
                continue;
            };
            for (sequence, _) in line.all() {
                let id = CommandId { session, sequence };
                line.give_up(sequence, |to| {
                    refuse(out, to, Ask::Call(id), Refusal::Unknown)
                });
            }
            self.waiting.landed(session, 0);
        }
    }

    /// A fetched snapshot is durable and the objects hold its state.
    pub(crate) fn installed(
        &mut self,
        now: Time,
        core: &SnapshotCore,
        state: [u8; 32],
        bytes: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let slot = core.slot;
        assert!(
            slot >= self.pipeline.executed(self.replicated.applied),
            "nothing older than the objects is restored into them"
        );
        self.pipeline.installed(slot, core.replies_digest);
        if slot > self.replicated.applied {
            self.restore(core);
            self.checkpoints.taking = None;
            self.forget_passed_asks(out);
        } else {
            self.replicated.sessions.adopt(&core.sessions);
            let later = |taking: &mut Taking| taking.slot <= slot;
            self.checkpoints.taking.take_if(later);
            if let Some(table) = self.checkpoints.frozen_table(slot) {
                sessions::adopt(table, &core.sessions);
            }
        }
        self.fetched(now, slot, out);
        self.answer_passed_waits(out);
        self.report_snapshot(now, slot, state, bytes, out);
    }

    /// Asks whose slot was passed over by a snapshot have no answer here any more.
    fn forget_passed_asks(&mut self, out: &mut Vec<Output<O::Message>>) {
        for (nonce, to) in std::mem::take(&mut self.opens) {
            refuse(out, to, Ask::Open(nonce), Refusal::Unknown);
        }
        for read in self.reads.take_ordered() {
            refuse(
                out,
                read.to,
                Ask::Request(read.request),
                Refusal::NotOrdered,
            );
        }
        self.checkpoint_refused(Refusal::Unknown, out);
        self.expiry.lost_sight();
        self.own_death.lost_sight();
        self.internals.forget();
    }
}
