//! Agreement on snapshots: collects the digests that replicas report, and decides what they allow.
//!
//! A digest is *agreed* at a slot when a majority of the view's replicas took it there. Only an agreed
//! snapshot is sent to a peer, and only an agreed one is installed, so a differing state does not spread.
//! The log may be trimmed below a slot when a majority holds the agreed snapshot durably: `collecting.rs`.

use crate::limits::{REPORT_EVERY, REPORTS_PER_REPLICA, SNAPSHOTS_KEPT};
use crate::local::verdict::{MajorityVerdict, verdict};
use crate::objects::snapshots::Weight;
use crate::{Output, PeerMessage, Replica, ReplicaMessage, Snapshots, TrimHindrance, TrimWait};
use quorate_ordering::{Lane, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Digest, NodeId, NodeSet, Slot, Time};
use std::collections::{BTreeMap, VecDeque};

/// A replica's report of a durable snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotReport {
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// Its digest.
    pub digest: Digest,
    /// Bytes of the whole image.
    pub bytes: u64,
}

/// The snapshots of all replicas, as far as this node knows.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Durable snapshots by replica, ascending by slot.
    reports: BTreeMap<NodeId, VecDeque<SnapshotReport>>,
    own: Option<SnapshotReport>,
    /// Snapshots of earlier starts on this node's disk, from which its objects did not start. They show nothing of the
    /// objects, so each counts only once it is known to be agreed.
    found: Vec<SnapshotReport>,
    /// Digests that a majority took, ascending by slot; at most [`REPORTS_PER_REPLICA`].
    agreed: VecDeque<(Slot, Digest)>,
    /// The newest for which logs are trimmed: a majority held it then, whoever is left of that.
    collected: Option<(Slot, Digest)>,
    /// The newest snapshot of this node that is agreed. It is kept until a newer one is.
    kept: Option<(Slot, Digest)>,
    /// The newest that is agreed of those which the objects took or took over themselves.
    shared: Option<(Slot, Digest)>,
    stable: Slot,
    /// The stable snapshot for which the log is to be trimmed, once no linked replica lags a little behind it.
    untrimmed: Option<Untrimmed>,
    /// The newest snapshot for which the log may be trimmed.
    trimmed: Slot,
    report_at: Option<Time>,
}

/// A stable snapshot for which the log is not trimmed yet.
#[derive(Clone, Copy, Debug)]
struct Untrimmed {
    slot: Slot,
    digest: Digest,
    /// Since when nothing was trimmed though there was a stable snapshot.
    waits_since: Time,
    /// Where the log is kept from: at the first snapshot since the last trim. A newer one does not prolong the wait.
    since: Weight,
}

impl Agreement {
    /// The newest durable snapshot of this node.
    pub(crate) fn own(&self) -> Option<SnapshotReport> {
        self.own
    }

    /// The newest snapshot that a majority holds with the agreed digest.
    pub(crate) fn stable(&self) -> Slot {
        self.stable
    }

    /// The newest snapshot for which the log may be trimmed.
    pub(crate) fn trimmed(&self) -> Slot {
        self.trimmed
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.report_at
    }

    /// The report of a replica about exactly this slot.
    pub(crate) fn report_of(&self, node: NodeId, slot: Slot) -> Option<SnapshotReport> {
        let reports = self.reports.get(&node)?.iter();
        reports.rev().find(|report| report.slot == slot).copied()
    }

    /// The digest that a majority took at `slot`, if that is known.
    pub(crate) fn agreed_at(&self, slot: Slot) -> Option<Digest> {
        let agreed = self.agreed.iter().find(|(at, _)| *at == slot);
        agreed.map(|(_, digest)| *digest)
    }

    /// The newest slot at which a digest is agreed, as far as that is known.
    pub(crate) fn newest_agreed(&self) -> Slot {
        self.agreed.back().map_or(Slot::ZERO, |(at, _)| *at)
    }

    /// Whether a digest is agreed at `slot` or later, as far as that is known.
    pub(crate) fn is_agreed_since(&self, slot: Slot) -> bool {
        self.agreed.back().is_some_and(|(at, _)| *at >= slot)
    }

    /// What is agreed at `slot` and later, as far as that is known.
    pub(crate) fn agreed_since(&self, slot: Slot) -> impl Iterator<Item = (Slot, Digest)> {
        let agreed = self.agreed.iter().copied();
        agreed.filter(move |(at, _)| *at >= slot)
    }

    /// The snapshot to send to a peer that needs one at or above `slot`: the newest that is kept here and agreed.
    pub(crate) fn servable(&self, own: NodeId, slot: Slot) -> Option<(Slot, Digest)> {
        let kept = self.agreed.iter().rev().copied();
        kept.filter(|(at, _)| *at >= slot)
            .find(|(at, digest)| self.is_kept(own, *at, *digest))
    }

    /// Whether this node still has the snapshot at `slot`, with this digest.
    pub(crate) fn is_kept(&self, own: NodeId, slot: Slot, digest: Digest) -> bool {
        let reports = self.reports.get(&own).into_iter().flatten();
        let mut newest = reports.rev().take(SNAPSHOTS_KEPT);
        newest.any(|report| report.slot == slot && report.digest == digest)
            || self.kept == Some((slot, digest))
    }

    /// The newest snapshot of this node that is agreed.
    pub(crate) fn kept(&self) -> Slot {
        self.kept.map_or(Slot::ZERO, |(slot, _)| slot)
    }

    /// Where these objects last held what is agreed there.
    pub(crate) fn shared(&self) -> Slot {
        self.shared.map_or(Slot::ZERO, |(slot, _)| slot)
    }

    /// Keeps the snapshot of this node at `slot` if it is the agreed one.
    fn keep_agreed(&mut self, own: NodeId, slot: Slot) {
        let digest = self.agreed_at(slot);
        let held = self.report_of(own, slot).map(|report| report.digest);
        let Some(digest) = digest.filter(|digest| held == Some(*digest)) else {
            return;
        };
        self.shared = self.shared.max(Some((slot, digest)));
        if slot > self.kept() {
            self.kept = Some((slot, digest));
        }
    }

    /// Nodes known to hold a snapshot at or above `slot`.
    pub(crate) fn holders(&self, slot: Slot) -> NodeSet {
        let reports = self.reports.iter();
        reports
            .filter(|(_, kept)| kept.back().is_some_and(|report| report.slot >= slot))
            .map(|(node, _)| *node)
            .collect()
    }

    /// The newest report of one of `replicas`, and whose it is.
    pub(crate) fn newest_report(&self, replicas: NodeSet) -> Option<(NodeId, SnapshotReport)> {
        let reports = self.reports.iter();
        let of_replicas = reports.filter(|(node, _)| replicas.contains(**node));
        let newest = of_replicas.filter_map(|(node, kept)| Some((*node, *kept.back()?)));
        newest.max_by_key(|(_, report)| report.slot)
    }

    /// The newest slot at which two replicas reported different digests.
    pub(crate) fn newest_difference(&self) -> Option<Slot> {
        let mut digests: BTreeMap<Slot, Digest> = BTreeMap::new();
        let reports = self.reports.values().flatten();
        let odd = reports
            .filter(|report| *digests.entry(report.slot).or_insert(report.digest) != report.digest);
        odd.map(|report| report.slot).max()
    }

    /// Removes all reports of `node`.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.reports.remove(&node);
    }

    /// Logs are trimmed for this snapshot, as a decided command or the own log says.
    pub(crate) fn collected(&mut self, slot: Slot, digest: Digest) {
        self.collected = self.collected.max(Some((slot, digest)));
    }

    /// The log is trimmed for the snapshot at `slot`.
    pub(crate) fn trim(&mut self, slot: Slot) {
        self.untrimmed.take_if(|waiting| waiting.slot <= slot);
        self.trimmed = self.trimmed.max(slot);
    }

    fn note(&mut self, node: NodeId, report: SnapshotReport) {
        let kept = self.reports.entry(node).or_default();
        if kept.back().is_some_and(|newest| newest.slot > report.slot) {
            return;
        }
        // A replica that heals at the slot at which it differed reports that slot again.
        if kept.back().is_some_and(|newest| newest.slot == report.slot) {
            kept.pop_back();
        }
        kept.push_back(report);
        if kept.len() > REPORTS_PER_REPLICA {
            kept.pop_front();
        }
    }

    /// Snapshots of earlier starts are on this node's disk besides the one from which its objects start.
    pub(crate) fn find(&mut self, found: Vec<SnapshotReport>) {
        self.found = found;
    }

    /// Keeps the snapshot of an earlier start at `slot` if it is the agreed one, and returns it.
    fn take_found(&mut self, slot: Slot, digest: Digest) -> Option<SnapshotReport> {
        let place = self.found.iter().position(|found| found.slot == slot)?;
        let found = self.found.swap_remove(place);
        if found.digest != digest {
            return None;
        }
        if slot > self.kept() {
            self.kept = Some((slot, digest));
        }
        Some(found)
    }

    /// A snapshot of `own`, this node, is durable. Its disk lets older ones go, and one at the same slot.
    fn note_own(&mut self, own: NodeId, report: SnapshotReport) {
        if self.own.is_none_or(|newest| newest.slot <= report.slot) {
            self.own = Some(report);
        }
        self.note(own, report);
        let reports = self.reports.get(&own).into_iter().flatten();
        let slots: Vec<Slot> = reports.map(|report| report.slot).collect();
        self.found.retain(|found| {
            let newer = slots.iter().filter(|slot| **slot > found.slot).count();
            found.slot != report.slot && newer < SNAPSHOTS_KEPT
        });
        let is_replaced =
            |(slot, digest): &mut (Slot, Digest)| *slot == report.slot && *digest != report.digest;
        self.kept.take_if(is_replaced);
    }

    pub(crate) fn note_agreed(&mut self, slot: Slot, digest: Digest) {
        if self.agreed_at(slot).is_some() {
            return;
        }
        let place = self.agreed.partition_point(|(at, _)| *at < slot);
        self.agreed.insert(place, (slot, digest));
        if self.agreed.len() > REPORTS_PER_REPLICA {
            self.agreed.pop_front();
        }
    }

    /// Forgets that a digest is agreed at a slot, unless `stands` says that it is.
    fn retract(&mut self, stands: impl Fn(&Agreement, Slot, Digest) -> bool) {
        let agreed = std::mem::take(&mut self.agreed);
        let agreed = agreed
            .into_iter()
            .filter(|(slot, digest)| stands(self, *slot, *digest));
        self.agreed = agreed.collect();
        let standing = |held: &(Slot, Digest)| stands(self, held.0, held.1);
        let (kept, shared) = (self.kept.filter(standing), self.shared.filter(standing));
        (self.kept, self.shared) = (kept, shared);
    }

    /// Those of `nodes` that hold the snapshot at `slot` with this digest.
    pub(crate) fn holders_of(&self, nodes: NodeSet, slot: Slot, digest: Digest) -> NodeSet {
        let equal = nodes.iter().filter(|node| {
            let report = self.report_of(*node, slot);
            report.is_some_and(|report| report.digest == digest)
        });
        equal.collect()
    }
}

impl<O: Ordering> Replica<O> {
    /// A snapshot is durable here.
    pub(crate) fn report_snapshot(
        &mut self,
        now: Time,
        report: SnapshotReport,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.agreement.note_own(self.config.own, report);
        self.agreement.report_at = Some(now + REPORT_EVERY);
        self.repeat_report(self.other_keepers(), out);
        self.judge(now, report.slot, out);
    }

    /// Reports to `to` the newest snapshot held here, and the newest that is agreed.
    pub(crate) fn repeat_report(&self, to: NodeSet, out: &mut Vec<Output<O::Message>>) {
        if to.is_empty() || self.quarantine.is_diverged() {
            return;
        }
        // What is held at a reset counts only if it is what the operator chose.
        let is_told = |own: &SnapshotReport| {
            self.quarantine.reset().is_none()
                || self.agreement.agreed_at(own.slot) == Some(own.digest)
        };
        let own = self.agreement.own.filter(is_told);
        let own = own.map(|own| ReplicaMessage::Durable {
            slot: own.slot,
            digest: own.digest,
            bytes: own.bytes,
        });
        let agreed = self.agreement.agreed.back();
        let agreed = agreed.map(|&(slot, digest)| ReplicaMessage::Agreed { slot, digest });
        for message in own.into_iter().chain(agreed) {
            out.push(Output::Send {
                to,
                lane: Lane::Normal,
                message: PeerMessage::Replica(message),
            });
        }
    }

    /// Repeats the report while no majority holds the snapshot: the first one may have been lost.
    pub(crate) fn tend_reports(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if self.agreement.report_at.is_none_or(|due| due > now) {
            return;
        }
        let own = self.agreement.own;
        let is_stable = own.is_none_or(|own| own.slot <= self.agreement.stable);
        if is_stable || self.is_silent() {
            self.agreement.report_at = None;
        } else {
            self.agreement.report_at = Some(now + REPORT_EVERY);
            self.repeat_report(self.other_keepers(), out);
        }
    }

    /// Whether these objects have no say: they differ, or nobody does.
    fn is_silent(&self) -> bool {
        self.quarantine.is_set() && self.quarantine.reset().is_none()
    }

    /// A peer's snapshot is durable there.
    pub(crate) fn peer_reported(
        &mut self,
        now: Time,
        from: NodeId,
        report: SnapshotReport,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.agreement.report_of(from, report.slot).is_none() {
            self.fetch_missed(report.slot);
            if self.view().replicas.contains(from) {
                self.checkpoints.other_was_busy(report.slot);
            }
        }
        self.no_say.reported(from, report.slot);
        self.agreement.note(from, report);
        if planted(Plant::WitnessAgrees) && !self.is_replica() {
            let is_news = self
                .agreement
                .own()
                .is_none_or(|own| own.slot < report.slot);
            if is_news {
                self.report_snapshot(now, report, out);
            }
            return;
        }
        self.judge(now, report.slot, out);
        self.fetch_reported(now, from, report.slot, out);
        // Who reports may lack the reports of others, and nobody may be left to repeat them.
        if let Some(digest) = self.agreement.agreed_at(report.slot)
            && !self.is_silent()
        {
            let slot = report.slot;
            out.push(Output::Send {
                to: NodeSet::only(from),
                lane: Lane::Normal,
                message: PeerMessage::Replica(ReplicaMessage::Agreed { slot, digest }),
            });
        }
    }

    pub(crate) fn judge(&mut self, now: Time, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let absent = (self.replicated.poison.stuck(slot), self.without_say(slot));
        let digest_of = |node| self.agreement.report_of(node, slot).map(|own| own.digest);
        // Up to a reset it is the operator who has judged. Where members may have changed, those judge who know that.
        let view = self.replicated.views.judging(slot, self.replicated.applied);
        let verdict = match view.filter(|_| slot > self.replicated.reset.slot()) {
            None => MajorityVerdict::Open,
            Some(view) => verdict(view, absent, digest_of),
        };
        match verdict {
            MajorityVerdict::Agreed(digest) => self.agreed(now, slot, digest, out),
            MajorityVerdict::Split if self.is_replica() => self.freeze(slot, out),
            MajorityVerdict::Split | MajorityVerdict::Open => {}
        }
        self.agreement.keep_agreed(self.config.own, slot);
        // Once agreed, always agreed: each replica that installs the snapshot adds a copy.
        if let Some(digest) = self.agreement.agreed_at(slot) {
            self.try_trim(now, slot, digest);
        }
    }

    /// The newest snapshot at or after `slot` that is kept here and agreed, for a backup; none while these objects differ.
    #[must_use]
    pub fn snapshot_for_backup(&self, slot: Slot) -> Option<(Slot, Digest)> {
        match self.quarantine.is_set() {
            true => None,
            false => self.agreement.servable(self.config.own, slot),
        }
    }

    fn try_trim(&mut self, now: Time, slot: Slot, digest: Digest) {
        let is_held = self.is_held_enough(slot, digest) || planted(Plant::TrimByOne);
        if is_held && slot > self.agreement.stable {
            self.agreement.stable = slot;
            self.checkpoints.became_stable(slot);
            let trimmed = self.agreement.trimmed;
            let before = self
                .agreement
                .untrimmed
                .filter(|waiting| waiting.slot > trimmed);
            self.agreement.untrimmed = Some(Untrimmed {
                slot,
                digest,
                waits_since: before.map_or(now, |waiting| waiting.waits_since),
                since: before.map_or(self.checkpoints.at_stable(), |waiting| waiting.since),
            });
        }
        // At the end of the turn the view in force is the one in which commands are ordered.
        if !self.collects() {
            self.tend_trim();
        }
    }

    /// Trims the log for the newest stable snapshot. A linked node that does not hold it yet may lack slots before it, and would
    /// have to fetch it. Where that is dear, it is waited for until the log has grown by half an image.
    pub(crate) fn tend_trim(&mut self) {
        let Some(Untrimmed {
            slot,
            digest,
            since,
            ..
        }) = self.agreement.untrimmed
        else {
            return;
        };
        if slot <= self.agreement.trimmed {
            self.agreement.untrimmed = None;
            return;
        }
        if !self.is_held_enough(slot, digest) && !planted(Plant::TrimByOne) {
            // They were enough for the view before.
            return;
        }
        if !self.waited_for(slot, since).is_empty() {
            return;
        }
        self.collect(slot, digest);
    }

    /// The nodes that a trim for the snapshot at `slot` waits for.
    fn waited_for(&self, slot: Slot, since: Weight) -> NodeSet {
        if !self.may_trim_later(since) {
            return NodeSet::empty();
        }
        let holders = self.agreement.holders(slot);
        let others = self.other_keepers().iter();
        others
            .filter(|node| !holders.contains(*node) && self.is_linked(*node))
            .collect()
    }

    /// What keeps the log from being trimmed for the newest stable snapshot.
    pub(crate) fn trim_wait(&self) -> Option<TrimWait> {
        let trimmed = self.agreement.trimmed;
        let waiting = self.agreement.untrimmed;
        let waiting = waiting.filter(|waiting| waiting.slot > trimmed)?;
        let replicas = self.waited_for(waiting.slot, waiting.since);
        let hindrance = if !replicas.is_empty() {
            TrimHindrance::Replicas(replicas)
        } else if matches!(self.role, Role::Leader { .. }) {
            TrimHindrance::Votes
        } else {
            TrimHindrance::Leader
        };
        Some(TrimWait {
            slot: waiting.slot,
            since: waiting.waits_since,
            hindrance,
        })
    }

    /// Whether the log may keep what a stable snapshot covers for a while; it is kept since then.
    fn may_trim_later(&self, since: Weight) -> bool {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return false;
        };
        let image = self.agreement.own.map_or(0, |own| own.bytes);
        image >= policy.bytes_dear
            && self.log_after(policy, since) < image / 2
            && self.has_plenty_of_room()
            && !self.quarantine.is_set()
    }

    /// Where an operator had a call skipped in any case, the replicas that were past it no longer make a majority without those
    /// that were stuck before it: these are past it too, with another state.
    /// What logs are trimmed for stays agreed: a majority held it, and nothing else brings on who needs what is gone.
    fn may_be_agreed(&self, agreement: &Agreement, slot: Slot, digest: Digest) -> bool {
        let view = self.view();
        !self.replicated.poison.is_forced_over(slot)
            || slot <= self.replicated.reset.slot()
            || agreement.collected == Some((slot, digest))
            || agreement.holders_of(view.replicas, slot, digest).len() >= view.replica_majority()
    }

    /// An operator has had a call skipped in any case: what only a survivor of it made agreed is so no more.
    pub(crate) fn retract_agreed(&mut self) {
        let mut agreement = std::mem::take(&mut self.agreement);
        agreement.retract(|agreement, slot, digest| self.may_be_agreed(agreement, slot, digest));
        self.agreement = agreement;
    }

    /// A majority took `digest` at `slot`, according to the reports received here or to a peer.
    pub(crate) fn agreed(
        &mut self,
        now: Time,
        slot: Slot,
        digest: Digest,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if !self.may_be_agreed(&self.agreement, slot, digest) {
            return;
        }
        self.agreement.note_agreed(slot, digest);
        let own = self.agreement.own.map(|own| own.slot);
        let found = self.agreement.take_found(slot, digest);
        // Others trim their logs for it: not while the objects here need slots before it that the log has.
        let executed = self.pipeline.executed(self.replicated.applied);
        let past = executed.max(self.instances.begins_after());
        let is_past = |found: &SnapshotReport| Some(found.slot) > own && found.slot <= past;
        if let Some(found) = found.filter(is_past) {
            self.report_snapshot(now, found, out);
        }
        self.agreement.keep_agreed(self.config.own, slot);
        if !self.is_replica() {
            return self.keep_newest(now, slot, out);
        }
        match self.agreement.report_of(self.config.own, slot) {
            Some(_) if slot <= self.replicated.reset.slot() => {}
            Some(own) if own.digest != digest => {
                self.diverged(now, slot, own.digest, digest, out);
            }
            Some(_) => self.found_right(slot),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_agreed_no_more_is_neither_kept_nor_shared() {
        let (own, slot, digest) = (NodeId(1), Slot(5), Digest::default());
        let mut agreement = Agreement::default();
        agreement.note_own(
            own,
            SnapshotReport {
                slot,
                digest,
                bytes: 1,
            },
        );
        agreement.note_agreed(slot, digest);
        agreement.keep_agreed(own, slot);
        agreement.retract(|_, _, _| true);
        assert_eq!((agreement.kept(), agreement.shared()), (slot, slot));
        agreement.retract(|_, _, _| false);
        assert_eq!(agreement.agreed_at(slot), None);
        assert_eq!(
            (agreement.kept(), agreement.shared()),
            (Slot::ZERO, Slot::ZERO)
        );
    }

    #[test]
    fn the_newest_report_is_one_of_a_replica() {
        let mut agreement = Agreement::default();
        for (node, slot) in [(1, 5), (2, 7), (3, 9)] {
            let report = SnapshotReport {
                slot: Slot(slot),
                digest: Digest::default(),
                bytes: 1,
            };
            agreement.note(NodeId(node), report);
        }
        let replicas = [1, 2].into_iter().map(NodeId).collect();
        let newest = agreement.newest_report(replicas);
        let newest = newest.map(|(node, report)| (node, report.slot));
        assert_eq!(newest, Some((NodeId(2), Slot(7))), "that one left");
    }
}
