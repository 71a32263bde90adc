//! How long the node that lags most needs to catch up.
//!
//! A node asks for decided slots one bounded chunk at a time, and a chunk takes a round trip. Where a run draws chunks of one
//! slot and slow links, a node that was cut off while the others went on needs longer than an answer may take otherwise.

use super::World;
use quorate_types::{Duration, Slot};

impl World {
    /// Faults stop: what is owed from now on waits until all nodes can have caught up.
    pub(super) fn faults_stopped(&mut self) {
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
        let catching_up = Duration(chunks.saturating_mul(round_trip));
        self.judge
            .liveness
            .faults_stopped(self.now.0, catching_up.0);
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
