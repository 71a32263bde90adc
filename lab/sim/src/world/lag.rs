//! How long the node that lags most needs to catch up, and the group to order what waits; and who cannot without others.
//!
//! A node asks for decided slots one bounded chunk at a time, and a chunk takes a round trip. Where a run draws chunks of one
//! slot and slow links, a node that was cut off while the others went on needs longer than an answer may take otherwise.

use super::{Moment, World};
use quorate_types::{Duration, NodeId, Slot};

/// What nodes have to execute when faults stop: those that were started begin with a snapshot, which may be thousands of slots old.
/// Large ones are taken in turns of a second and more, and not every round brings an agreed one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// Up to here, each of them.
    upto: Slot,
    /// By then the one that began furthest behind is through at the pace of its calls.
    ends: Moment,
}

impl World {
    /// Faults stop: what is owed from now on waits until all nodes can have caught up, and what waits by now can be ordered.
    pub(super) fn faults_stopped(&mut self) {
        let upto = self.judge.last_decided();
        let least = self.executed_by_each().min().unwrap_or(upto);
        let calls = Duration(self.setup.objects.work_max.0 * upto.since(least));
        let ends = self.now + self.catching_up() + calls;
        self.replay = Some(Replay { upto, ends });
        let (catching_up, each) = (self.catching_up(), self.ordering_one());
        self.judge
            .liveness
            .faults_stopped(self.now.0, catching_up.0, each.0);
    }

    /// Nodes that execute what was decided when faults stopped owe their answers afterwards.
    pub(super) fn tend_replay(&mut self) {
        let Some(Replay { upto, ends }) = self.replay else {
            return;
        };
        if self.now < ends && self.executed_by_each().any(|executed| executed < upto) {
            self.judge.liveness.replays(self.now.0);
        } else {
            self.replay = None;
        }
    }

    /// Up to where the nodes that run have executed.
    fn executed_by_each(&self) -> impl Iterator<Item = Slot> {
        let running = self.nodes.values();
        running.filter_map(|node| Some(node.running.as_ref()?.replica.status().executed))
    }

    /// How long the group needs for each of many operations, at the pace that its limits, links and disks allow. A large one is alone
    /// in its slot, and closes the batch before it.
    fn ordering_one(&self) -> Duration {
        let (limits, network) = (&self.setup.limits, &self.setup.network);
        let batch = match limits.large_bytes < limits.batch_bytes {
            true => 1,
            false => limits.batch_commands,
        };
        let round_trip = network.latency_min.0 + network.latency_max.0;
        let slot = round_trip + self.setup.disk.commit_max.0;
        Duration(slot / (limits.pipeline * batch) as u64)
    }

    /// How long the node that lags most needs to learn all that is decided by now, at the pace that its limits and links allow.
    pub(super) fn catching_up(&self) -> Duration {
        let last = self.judge.last_decided();
        let running = self.nodes.values();
        let running = running.filter_map(|node| Some(node.running.as_ref()?.replica.status()));
        let held: Vec<_> = running
            .map(|status| (status.ordering.decided, status.ordering.trimmed))
            .collect();
        // A snapshot brings what peers have trimmed.
        let trimmed = held.iter().map(|(_, trimmed)| *trimmed).max();
        let least = held.iter().map(|(decided, _)| *decided).min();
        let chunks = self.chunks(least.max(trimmed).unwrap_or(last), last);
        let network = &self.setup.network;
        let round_trip = network.latency_min.0 + network.latency_max.0;
        Duration(chunks.saturating_mul(round_trip))
    }

    /// Whether one of these nodes leads and waits for a snapshot that none of them has: the others trimmed their logs because a
    /// majority held it, and disks of that majority were lost or damaged. The window does not let it propose before a
    /// node outside brings the state.
    pub(super) fn lacks_state(&self, nodes: &[NodeId]) -> bool {
        let running = nodes
            .iter()
            .map(|id| (*id, self.nodes[id].running.as_ref()));
        let running = running.filter_map(|(id, running)| Some((id, running?.replica.status())));
        let statuses: Vec<_> = running.collect();
        let waiting = statuses
            .iter()
            .filter(|(id, status)| status.is_fetching && self.leads(*id));
        let mut needed = waiting.map(|(_, status)| status.ordering.trimmed);
        needed.any(|slot| statuses.iter().all(|(_, status)| status.snapshot < slot))
    }

    /// The answers that bring the decided slots after `held` up to `last`: each is as full as its limits allow.
    fn chunks(&self, held: Slot, last: Slot) -> u64 {
        let limits = &self.setup.limits;
        let (mut chunks, mut slots, mut bytes) = (0, 0, 0);
        for slot in held.0 + 1..=last.0 {
            let batch = self.judge.decided_batch(Slot(slot));
            let weight = batch.map_or(0, quorate_types::Batch::weight);
            if chunks == 0 || slots == limits.chunk_slots || bytes + weight > limits.chunk_bytes {
                chunks += 1;
                (slots, bytes) = (0, 0);
            }
            slots += 1;
            bytes += weight;
        }
        chunks
    }
}
