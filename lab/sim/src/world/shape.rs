//! What kind of group a run has, and how hard its clients press: written into schedules, so that one that is kept means
//! the same when the generator changes.

use std::fmt;

/// Sizes of a group and of its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes; all but the witnesses of the schedule are replicas.
    pub nodes: u16,
    /// The first so many nodes vote.
    pub acceptors: u16,
    /// Acceptors whose promises make a leader.
    pub phase1: usize,
    /// Acceptors whose votes decide.
    pub phase2: usize,
    /// Operations in flight at one client.
    pub depth: u64,
    /// The first so many clients only read.
    pub readers: u64,
}

impl Shape {
    /// Reads the words behind `shape`.
    pub(super) fn parse(words: &[&str]) -> Option<Shape> {
        let [
            "nodes",
            nodes,
            "acceptors",
            acceptors,
            "quorums",
            phase1,
            phase2,
            "depth",
            depth,
            "readers",
            readers,
        ] = *words
        else {
            return None;
        };
        Some(Shape {
            nodes: nodes.parse().ok()?,
            acceptors: acceptors.parse().ok()?,
            phase1: phase1.parse().ok()?,
            phase2: phase2.parse().ok()?,
            depth: depth.parse().ok()?,
            readers: readers.parse().ok()?,
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shape nodes {} acceptors {} quorums {} {} depth {} readers {}",
            self.nodes, self.acceptors, self.phase1, self.phase2, self.depth, self.readers
        )
    }
}
