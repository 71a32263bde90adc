//! Tells the checker of agreed time about clocks, and about the stamps of batches when they are voted for.

use super::World;
use super::clock::Clock;
use quorate_ordering::{Entry, Record};
use quorate_types::NodeId;

impl World {
    /// A node's wall clock is set.
    pub(super) fn watch_clock(&mut self, id: NodeId) {
        let error = self.nodes[&id].clock.wall_error_ns();
        self.leading.agreed_time.set(id, error);
    }

    /// A node's acceptor votes: a leader makes its batches so.
    pub(super) fn watch_vote(&mut self, id: NodeId, record: &Record) {
        let Entry::Vote {
            ballot,
            batch,
            kind,
            ..
        } = &record.entry
        else {
            return;
        };
        if kind.is_fast() {
            self.leading.agreed_time.proposed(batch.stamp().wall.0);
        }
        if ballot.node == id && !batch.commands().is_empty() {
            let acceptors = self.judge.governing(ballot.view).acceptors;
            let (stamp, now) = (batch.stamp().wall.0, Clock::true_wall(self.now).0);
            let judged = self.leading.agreed_time.stamped(id, acceptors, stamp, now);
            self.judged(judged);
        }
    }
}
