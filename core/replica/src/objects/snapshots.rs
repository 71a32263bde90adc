//! Snapshots of the objects: when one is due, how its two parts are taken, and how one is installed.
//!
//! `local/agreement.rs` decides which snapshots count and what is trimmed.

use crate::limits::{CHECKPOINT_AGAIN, REPORTS_PER_REPLICA};
use crate::local::agreement::SnapshotReport;
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::local::opens::Opener;
use crate::objects::pipeline::Work;
use crate::objects::repeating::Repeating;
use crate::objects::turns::{Elsewhere, Round};
use crate::replicated::Frozen;
use crate::replicated::sessions::{self, Table};
use crate::{CheckpointPolicy, Output, Replica, SnapshotCore, Snapshots};
use quorate_ordering::{Event, Ordering, Role};
use quorate_types::{Ask, Body, ConnectionId, Digest, Refusal, Slot, Time, ToClient};
use std::collections::VecDeque;

/// The total weight of the log since this node started, when a checkpoint was decided.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    commands: u64,
    bytes: u64,
    slots: u64,
}

/// A snapshot that this node is taking.
#[derive(Debug)]
struct Taking {
    slot: Slot,
    /// The replicated state at the slot, except outcomes that are still missing; `None` once it is whole.
    frozen: Option<Frozen>,
    /// The replica's part, while other replicas encode theirs first.
    core: Option<Box<SnapshotCore>>,
    /// Digest of the replica's part, once that is whole.
    digest: u64,
}

/// The state of checkpoints and snapshots.
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
    /// The one that is being ordered is asked for only in place of one that was left out.
    is_again: bool,
    /// The newest checkpoint that was not: once it is stable nobody waits for what was left out.
    wanted: Slot,
    /// What executing has taken since the last checkpoint.
    repeating: Repeating,
    taking: Option<Taking>,
    /// The replicas take a large snapshot in turns.
    pub(crate) round: Option<Round>,
    /// Rounds of which others have reported.
    pub(crate) elsewhere: Elsewhere,
    /// At the newest checkpoint a replica was busy with another snapshot, or stood still at a reset: another one is asked for instead,
    /// because somebody may wait for it.
    is_left_out: bool,
    /// When: set once this replica is free.
    again_at: Option<Time>,
    /// The newest checkpoint that was decided while no snapshot was being taken here; the next one waits for it to become stable.
    decided: Slot,
    /// Clients that asked for a checkpoint.
    pub(crate) requests: Vec<(ConnectionId, u64)>,
}

impl Checkpoints {
    pub(crate) fn grew(&mut self, commands: usize, bytes: usize) {
        self.total.commands += commands as u64;
        self.total.bytes += bytes as u64;
        self.total.slots += 1;
    }

    /// Whether a checkpoint of this node is being ordered.
    pub(crate) fn is_submitted(&self) -> bool {
        self.is_submitted
    }

    /// Whether the snapshot at `slot` is being taken.
    pub(crate) fn is_taking(&self, slot: Slot) -> bool {
        self.taking
            .as_ref()
            .is_some_and(|taking| taking.slot == slot)
    }

    pub(crate) fn failed(&mut self, slot: Slot) {
        if self.is_taking(slot) {
            self.forget_own();
        }
    }

    /// Sessions of the snapshot being taken, if outcomes of `slot` belong into it.
    pub(crate) fn frozen_table(&mut self, slot: Slot) -> Option<&mut Table> {
        let taking = self.taking.as_mut().filter(|taking| slot <= taking.slot)?;
        taking.frozen.as_mut().map(|frozen| &mut frozen.table)
    }

    /// The log up to the snapshot at `slot` no longer counts.
    pub(crate) fn became_stable(&mut self, slot: Slot) {
        while let Some((at, weight)) = self.marks.front().copied()
            && at <= slot
        {
            self.trimmed = weight;
            self.marks.pop_front();
        }
    }

    /// Another replica says for the first time that it holds the snapshot at `slot`. At the checkpoints since then it was busy with
    /// that, unless it is behind.
    pub(crate) fn other_was_busy(&mut self, slot: Slot) {
        if let Some((newest, _)) = self.marks.back()
            && *newest > slot
        {
            self.is_left_out = true;
        }
    }

    /// A checkpoint is decided in `slot`: the one that this node asked for, or another one.
    pub(crate) fn landed(&mut self, slot: Slot, is_own: bool) {
        if !is_own || !self.is_again {
            self.wanted = slot;
        }
        if is_own {
            (self.is_submitted, self.is_again) = (false, false);
        }
    }

    /// The log up to the newest stable snapshot.
    pub(crate) fn at_stable(&self) -> Weight {
        self.trimmed
    }

    /// The objects' state must not be kept: drops the snapshot that is being taken.
    pub(crate) fn forget_own(&mut self) {
        self.taking = None;
        self.round = None;
        self.elsewhere.stop_waiting();
    }

    /// The slot of the newest snapshot that is being taken, or of the round that is not over.
    pub(crate) fn newest_begun(&self) -> Slot {
        let taking = self.taking.as_ref().map(|taking| taking.slot);
        let round = self.round.map(|round| round.slot());
        taking.max(round).unwrap_or(Slot::ZERO)
    }

    /// The objects have a later state, at `slot`, than an own snapshot up to there would hold.
    fn passed(&mut self, slot: Slot) {
        if self.taking.as_ref().is_some_and(|own| own.slot <= slot) {
            self.forget_own();
        }
    }

    /// Whether no other snapshot may be begun: one is being taken here, or a large one elsewhere.
    fn is_busy(&self) -> bool {
        self.taking.is_some() || self.round.is_some() || self.elsewhere.until().is_some()
    }

    /// When this replica stops waiting for others that encode.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let round = self.round.and_then(|round| match &self.taking {
            Some(taking) => taking.core.as_ref().map(|_| round.turn),
            None => round.ends(),
        });
        let again = self.again_at.filter(|_| !self.is_submitted);
        Time::earlier(again, Time::earlier(round, self.elsewhere.until()))
    }
}

impl<O: Ordering> Replica<O> {
    /// Whether the log since the newest stable snapshot has reached its bound.
    pub(crate) fn is_log_full(&self) -> bool {
        let (total, trimmed) = (self.checkpoints.total, self.checkpoints.trimmed);
        total.bytes - trimmed.bytes >= self.config.log_bytes_max
            || total.commands - trimmed.commands >= self.config.log_commands_max
    }

    /// What the log counts since `then`: a slot of few bytes takes room too.
    pub(crate) fn log_after(&self, policy: CheckpointPolicy, then: Weight) -> u64 {
        let total = self.checkpoints.total;
        (total.bytes - then.bytes).max((total.slots - then.slots) * policy.slot_bytes)
    }

    /// At the end of a turn: the leader asks for a checkpoint when one is due, and every node when its disk needs one.
    pub(crate) fn tend_log(&mut self, now: Time) {
        if self.checkpoints.is_submitted {
            return;
        }
        let leads = matches!(self.role, Role::Leader { .. });
        let is_again = self.takes_again(now, leads);
        if leads && self.is_checkpoint_due() || self.needs_checkpoint(now) {
            self.want_checkpoint();
        } else if is_again {
            self.want_checkpoint();
            self.checkpoints.is_again = self.checkpoints.is_submitted;
        }
    }

    /// Whether it is time for a checkpoint in place of one that replicas left out: once after each that is decided, and no more once
    /// one is stable that somebody may wait for. Replicas that take theirs in turn would have each other left out for ever.
    fn takes_again(&mut self, now: Time, leads: bool) -> bool {
        // Asked in every turn, and seldom so.
        if self.checkpoints.is_left_out {
            self.checkpoints.is_left_out = self.checkpoints.wanted > self.agreement.stable();
        }
        let is_still = self.quarantine.reset().is_some();
        let kept = &mut self.checkpoints;
        if !leads || kept.is_busy() || is_still || !kept.is_left_out {
            kept.again_at = None;
            return false;
        }
        let is_due = now >= *kept.again_at.get_or_insert(now + CHECKPOINT_AGAIN);
        if is_due {
            // What is asked for may be refused.
            kept.again_at = Some(now + CHECKPOINT_AGAIN);
        }
        is_due
    }

    fn is_checkpoint_due(&self) -> bool {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return false;
        };
        let kept = &self.checkpoints;
        let commands = kept.total.commands - kept.last.commands;
        let is_much = commands >= policy.commands || self.log_bytes(policy) >= policy.bytes_large;
        (is_much && self.has_log_grown(policy, 1))
            || commands >= policy.commands_hard
            || self.takes_long_to_repeat(policy)
            || self.log_bytes(policy) >= policy.bytes_hard
    }

    /// Whether a node that starts again would take long to repeat what was executed since the last checkpoint, which is done with.
    /// Claim rp-149.
    fn takes_long_to_repeat(&self, policy: CheckpointPolicy) -> bool {
        let kept = &self.checkpoints;
        let is_done_with = !kept.is_busy() && self.agreement.stable() >= kept.decided;
        is_done_with && kept.repeating.is_long(policy.execution)
    }

    /// Whether the last checkpoint is done with, and the log since has a `part`-th of the bytes that make the next one due. One
    /// that is not stable counts as done with after twice as many: replicas that were busy took no snapshot at it.
    pub(crate) fn has_log_grown(&self, policy: CheckpointPolicy, part: u64) -> bool {
        let image = self.agreement.own().map_or(0, |own| own.bytes);
        let enough = policy
            .bytes
            .max(image.saturating_mul(policy.image_percent) / 100);
        let kept = &self.checkpoints;
        let is_stable = self.agreement.stable() >= kept.decided;
        let wanted = enough.saturating_mul(if is_stable { 1 } else { 2 });
        !kept.is_busy() && self.log_bytes(policy) >= wanted / part
    }

    /// What the log since the last checkpoint counts.
    fn log_bytes(&self, policy: CheckpointPolicy) -> u64 {
        self.log_after(policy, self.checkpoints.last)
    }

    /// Whether the objects execute from here on.
    pub(crate) fn time_objects(&mut self, now: Time) {
        let is_busy = self.pipeline.is_awaited() || self.speculation.is_awaited();
        let is_working = is_busy && self.host_down_at.is_none();
        self.checkpoints.repeating.look(now, is_working);
    }

    /// Submits a checkpoint unless one is being ordered.
    pub(crate) fn want_checkpoint(&mut self) {
        self.checkpoints.is_again = false;
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
        (self.checkpoints.is_submitted, self.checkpoints.is_again) = (false, false);
        for (to, request) in std::mem::take(&mut self.checkpoints.requests) {
            refuse(out, to, Ask::Request(request), refusal);
        }
    }

    /// Every replica takes a snapshot after `slot`, unless it is still busy with an earlier one.
    pub(crate) fn checkpoint_decided(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        // Objects that have to come through a reset stand still: they take the snapshot at its slot and no other.
        let is_still = self.quarantine.reset().is_some_and(|own| own.slot() < slot);
        let kept = &mut self.checkpoints;
        kept.last = kept.total;
        kept.is_left_out = kept.is_busy() || is_still;
        if !kept.is_busy() && !is_still {
            kept.decided = slot;
        }
        kept.marks.push_back((slot, kept.total));
        if kept.marks.len() > REPORTS_PER_REPLICA {
            kept.marks.pop_front();
        }
        for (to, request) in std::mem::take(&mut kept.requests) {
            reply(out, to, ToClient::Checkpointed { request, slot });
        }
        let is_possible = matches!(self.config.snapshots, Snapshots::Every(_))
            && self.is_replica()
            && !is_still
            && !self.checkpoints.is_busy()
            && !self.quarantine.is_diverged();
        self.checkpoints.repeating.checkpoint_decided(is_possible);
        if is_possible {
            self.checkpoints.taking = Some(Taking {
                slot,
                frozen: Some(self.replicated.freeze()),
                core: None,
                digest: 0,
            });
            self.checkpoints.round = self.takes_turns().then(|| Round::new(slot));
            self.checkpoints.elsewhere.begins();
            self.pipeline.push(Work::Snapshot(slot));
        }
    }

    /// Sends out the replica's part once every outcome up to the snapshot's slot is in it, and this replica's turn has come.
    pub(crate) fn try_finish_snapshot(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.try_capture(now);
        let round = self.checkpoints.round;
        if self.checkpoints.taking.is_none() && round.is_some_and(|round| self.is_over(now, &round))
        {
            self.checkpoints.round = None;
        }
        let waits = self
            .checkpoints
            .round
            .is_some_and(|round| !self.is_turn(now, &round));
        let Some(taking) = self.checkpoints.taking.as_mut().filter(|_| !waits) else {
            return;
        };
        if let Some(core) = taking.core.take() {
            let agreed = self.agreement.kept();
            out.push(Output::FinishSnapshot { core, agreed });
        }
    }

    /// Makes the replica's part once every outcome up to the snapshot's slot is in it.
    fn try_capture(&mut self, now: Time) {
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
        let replies_digest = self.pipeline.outcomes.digest();
        let core = frozen.into_core(replies_digest);
        taking.digest = core.digest();
        taking.core = Some(Box::new(core));
        if let Some(mut round) = self.checkpoints.round.take() {
            self.captured(now, &mut round);
            self.checkpoints.round = Some(round);
        }
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
        self.checkpoints.repeating.snapshot_taken(now);
        let replicated = taking.digest;
        let digest = Digest { replicated, state };
        self.shows_at_reset(now, slot, digest, out);
        let report = SnapshotReport {
            slot,
            digest,
            bytes,
        };
        self.report_snapshot(now, report, out);
    }

    /// A fetched snapshot is durable and the objects have its state.
    pub(crate) fn installed(
        &mut self,
        now: Time,
        core: &SnapshotCore,
        state: [u8; 32],
        bytes: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let slot = core.slot;
        let replicated = core.digest();
        let digest = Digest { replicated, state };
        if self.is_only_kept(slot) && !self.pipeline.is_held() {
            let report = SnapshotReport {
                slot,
                digest,
                bytes,
            };
            return self.kept_unread(now, report, out);
        }
        assert!(
            slot >= self.pipeline.executed(self.replicated.applied),
            "nothing older than the objects is restored into them"
        );
        let agreed = self.agreement.agreed_at(slot);
        assert!(
            agreed.is_none_or(|agreed| agreed == digest),
            "only what a majority agrees on is installed"
        );
        self.pipeline.installed(slot, core.replies_digest);
        self.drift.restored();
        if slot > self.replicated.applied {
            self.restore(core);
            self.checkpoints.forget_own();
            self.forget_passed_asks(out);
            if self.instances.has_early_beyond(self.view().number) {
                // Others are in a later view than the one that goes on here.
                self.raise(Event::Passed);
            }
        } else {
            if self.quarantine.is_diverged() || self.quarantine.reset().is_some() {
                // These objects' answers may differ from the group's.
                self.checkpoints.forget_own();
            }
            self.replicated.sessions.merge(&core.sessions);
            self.replicated
                .restore_kept(self.config.kept, &core.sessions);
            self.checkpoints.passed(slot);
            if let Some(table) = self.checkpoints.frozen_table(slot) {
                sessions::merge(table, &core.sessions);
            }
        }
        self.fetched(now, slot, out);
        self.own_poison.passed(slot);
        self.reads.restored(slot);
        if self.quarantine.is_diverged() {
            self.agreement.forget(self.config.own);
            self.heal(slot);
        } else if self.quarantine.is_set() {
            self.agreement.forget(self.config.own);
        }
        self.installed_at_reset(now, slot, out);
        self.shows_at_reset(now, slot, digest, out);
        self.answer_passed_waits(out);
        let report = SnapshotReport {
            slot,
            digest,
            bytes,
        };
        self.report_snapshot(now, report, out);
    }

    /// Refuses requests whose slot a snapshot covered: their answer is not known here.
    fn forget_passed_asks(&mut self, out: &mut Vec<Output<O::Message>>) {
        self.closes.clear();
        for (hash, Opener { to, .. }) in std::mem::take(&mut self.opens) {
            self.connections.end_open(to);
            refuse(out, to, Ask::Open(hash), Refusal::Unknown);
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
        self.own_poison.lost_sight();
        self.ticks.lost();
        self.collecting.lost();
        self.rejoining.answered();
        for asked in self.internals.forget() {
            if let Purpose::ChangeView(to, request)
            | Purpose::Invite(to, request)
            | Purpose::ChangeGroups(to, request) = asked
            {
                refuse(out, to, Ask::Request(request), Refusal::Unknown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wakes_to_ask_again_while_a_checkpoint_is_being_ordered() {
        let again_at = Some(Time(5));
        let mut checkpoints = Checkpoints {
            again_at,
            ..Checkpoints::default()
        };
        assert_eq!(checkpoints.next_wake(), again_at);
        checkpoints.is_submitted = true;
        assert_eq!(checkpoints.next_wake(), None);
    }
}
