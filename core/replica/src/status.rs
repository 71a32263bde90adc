//! The status of a replica.

use crate::{ClockOffset, OutcomeDifference, PoisonReports, Replica};
use quorate_ordering::{Ordering, OrderingStatus};
use quorate_types::{Digest, NodeSet, ObjectId, Slot, Time, Value};

/// A replica's state for status pages, metrics and tests.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplicaStatus {
    /// The status of its ordering protocol.
    pub ordering: OrderingStatus,
    /// The highest slot of the decided prefix.
    pub decided: Slot,
    /// The highest slot whose meta part is applied.
    pub applied: Slot,
    /// The highest slot whose calls are executed by the objects.
    pub executed: Slot,
    /// The newest durable snapshot of this node; slot 0 if it has none.
    pub snapshot: Slot,
    /// What that snapshot holds.
    pub snapshot_digest: Option<Digest>,
    /// The newest snapshot that a majority holds with equal digests.
    pub stable: Slot,
    /// The last slot trimmed from the log.
    pub trimmed: Slot,
    /// What keeps the log from being trimmed for the newest stable snapshot.
    pub trim_wait: Option<TrimWait>,
    /// Slots known to be decided anywhere and not executed by the objects.
    pub lag: u64,
    /// The last time, on this node's clock, at which the objects' state was known to be the newest; `None` if it never
    /// was since the node started.
    pub current_at: Option<Time>,
    /// Rolling hash of every reply up to `executed`.
    pub digest: u64,
    /// Open sessions.
    pub sessions: usize,
    /// Bytes of the large replies that sessions keep.
    pub kept_bytes: usize,
    /// Clients connected here.
    pub connections: usize,
    /// Calls of clients here without an answer.
    pub waiting: usize,
    /// Calls of clients here that are being ordered.
    pub in_flight: usize,
    /// Reads of clients here without an answer.
    pub reads: usize,
    /// Calls decided and not executed here.
    pub backlog: usize,
    /// Whether calls and reads are accepted here.
    pub is_serving: bool,
    /// Whether this node has no objects.
    pub is_witness: bool,
    /// Whether it then has all slots that are decided, in its log or in a snapshot.
    pub is_keeping: bool,
    /// Whether the objects' host works.
    pub is_host_up: bool,
    /// Whether the log's storage takes new votes.
    pub has_room: bool,
    /// Whether a snapshot is being fetched or installed.
    pub is_fetching: bool,
    /// The slot at which this replica's state differs from the majority's.
    pub diverged: Option<Slot>,
    /// The slot at which no majority of replicas agrees on the state.
    pub frozen: Option<Slot>,
    /// The slot of the operator's reset through which these objects have to come.
    pub reset: Option<Slot>,
    /// The calls of one slot at which hosts of replicas are down for good, as far as the log tells it here.
    pub poison: Vec<PoisonStanding>,
    /// The newest difference between replicas' outcomes that was found since the node started.
    pub difference: Option<OutcomeDifference>,
    /// How far the own clock and agreed time are from a majority's clocks.
    pub clocks: ClockOffset,
    /// The slot of the agreed snapshot with which this replica last healed.
    pub healed: Option<Slot>,
}

/// A stable snapshot for which the log is not trimmed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrimWait {
    /// Its slot.
    pub slot: Slot,
    /// When the log was first to be trimmed, for this snapshot or one before it.
    pub since: Time,
    /// What it waits for.
    pub hindrance: TrimHindrance,
}

/// What a trim of the log waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimHindrance {
    /// These replicas are linked, and lag a little behind the snapshot.
    Replicas(NodeSet),
    /// This node leads, and the command is not decided: acceptors vote for it once they hold all that is before it.
    Votes,
    /// The leader has not had the command decided.
    Leader,
}

/// A call at which hosts are down.
#[derive(Clone, PartialEq, Debug)]
pub struct PoisonStanding {
    /// What the replicas have said.
    pub reports: PoisonReports,
    /// The object and the payload, while the call is the next one to be executed here.
    pub call: Option<(ObjectId, Value)>,
}

impl<O: Ordering> Replica<O> {
    /// The current status.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let ordering = self.instances.current().status();
        let executed = self.pipeline.executed(self.replicated.applied);
        ReplicaStatus {
            decided: ordering.decided,
            applied: self.replicated.applied,
            executed,
            snapshot: self.agreement.own().map_or(Slot::ZERO, |own| own.slot),
            snapshot_digest: self.agreement.own().map(|own| own.digest),
            stable: self.agreement.stable(),
            trimmed: ordering.trimmed,
            trim_wait: self.trim_wait(),
            lag: ordering.known.since(executed),
            current_at: self.currency.since(executed),
            digest: self.pipeline.outcomes.digest(),
            sessions: self.replicated.sessions.len(),
            kept_bytes: self.replicated.kept.bytes(),
            connections: self.connections.len(),
            waiting: self.waiting.len(),
            in_flight: self.waiting.in_flight(),
            reads: self.reads.len(),
            backlog: self.pipeline.backlog(),
            is_serving: self.serves_objects().is_ok(),
            is_witness: !self.is_replica(),
            is_keeping: self.is_keeping(),
            is_host_up: self.host_down_at.is_none(),
            has_room: self.has_room(),
            is_fetching: self.fetch.is_active(),
            diverged: self.quarantine.diverged(),
            frozen: self.quarantine.frozen(),
            reset: self.quarantine.reset().map(|own| own.slot()),
            healed: self.quarantine.healed(),
            poison: self.poison_standing(),
            difference: self.drift.found(),
            clocks: self.clocks.offset(),
            ordering,
        }
    }
}
