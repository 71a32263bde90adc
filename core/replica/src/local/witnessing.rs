//! Witnesses: members without objects. They vote, keep the log and the newest agreed snapshot, and hand both to whoever lacks them.
//!
//! A witness has no digest of its own, so it has no say about which one is agreed. It fetches each snapshot that a majority of the
//! replicas agreed on, and lets go of its log only for one that it keeps: what it has is always the whole. So logs are trimmed for
//! a snapshot only where every quorum has somebody who holds it: a group that has lost some of its replicas, and can still decide,
//! has all that was acknowledged. Where quorums differ in size, each of the smaller ones has one. OpenReplica 3.1 and 4.5, claims rp-124 to rp-127.

use crate::local::agreement::SnapshotReport;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Digest, NodeSet, Slot, Time};

impl<O: Ordering> Replica<O> {
    /// All other members of the view: each keeps snapshots.
    pub(crate) fn other_keepers(&self) -> NodeSet {
        self.view().nodes().without(self.config.own)
    }

    /// Whether enough nodes hold a snapshot, so that logs may be trimmed for it: a majority of the replicas holds or has shown its
    /// digest, and where there are witnesses, every quorum of the acceptors has one that holds it.
    pub(crate) fn is_held_enough(&self, slot: Slot, digest: Digest) -> bool {
        let view = self.view();
        let holders = self.agreement.holders_of(view.nodes(), slot, digest);
        let replicas = holders.iter().filter(|node| view.replicas.contains(*node));
        let is_enough = view.witnesses().is_empty()
            || view.meets_quorums(holders)
            || planted(Plant::HoldersMissQuorums);
        replicas.count() >= view.replica_majority() && is_enough
    }

    /// Whether a snapshot at `slot` is kept here and not taken over: this witness has applied all that is in it.
    pub(crate) fn is_only_kept(&self, slot: Slot) -> bool {
        !self.is_replica() && slot <= self.replicated.applied
    }

    /// The newest snapshot that this witness keeps and has applied. One of an earlier start may be kept here before its slots are
    /// applied: it helps this start only once it is taken over.
    pub(crate) fn kept_and_applied(&self) -> Slot {
        self.agreement.kept().min(self.replicated.applied)
    }

    /// A digest is agreed at `slot`: a witness fetches that snapshot, unless it keeps one that is as new.
    pub(crate) fn keep_newest(&mut self, now: Time, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        if slot > self.agreement.kept() {
            self.fetch_at_least(now, slot, out);
        }
    }

    /// A snapshot that this witness only keeps is durable.
    pub(crate) fn kept_unread(
        &mut self,
        now: Time,
        report: SnapshotReport,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.fetched(now, report.slot, out);
        self.report_snapshot(now, report, out);
    }

    /// Whether this is a witness that waits for no snapshot to go on from.
    pub(crate) fn is_keeping(&self) -> bool {
        let applied = self.replicated.applied;
        !self.is_replica() && self.fetch.needed().is_none_or(|needed| needed <= applied)
    }

    /// Whether this node may let its log up to `slot` go: a witness keeps that snapshot, or a later one.
    pub(crate) fn may_trim_for(&self, slot: Slot) -> bool {
        self.is_replica() || self.agreement.kept() >= slot || planted(Plant::WitnessTrimsUnkept)
    }
}
