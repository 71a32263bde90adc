//! Watches nodes that need a snapshot nobody has: when a peer reports one that helps, it is asked at once.
//!
//! Fed by the seeded world with questions for snapshots and what comes back. What a node needs is what it asked for last.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{NodeId, Slot};

use super::{Property, Violation};

/// Searches for a snapshot.
#[derive(Debug, Default)]
pub struct Fetching {
    searches: BTreeMap<NodeId, Search>,
    /// Nodes that were told in this turn of a snapshot that helps, by whom and of which.
    told: BTreeMap<NodeId, (NodeId, Slot)>,
    /// Nodes whose host died for good, or whose objects differ: what they need may have grown without a word.
    doubtful: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct Search {
    needed: Slot,
    peer: NodeId,
    /// Whether the peer asked last has none.
    is_refused: bool,
}

impl Fetching {
    /// Takes note that `node` asks `peer` for the beginning of a snapshot at `needed` or later.
    pub fn asked(&mut self, node: NodeId, peer: NodeId, needed: Slot) {
        self.told.remove(&node);
        let is_refused = false;
        self.searches.insert(
            node,
            Search {
                needed,
                peer,
                is_refused,
            },
        );
    }

    /// Takes note that `node` is told by `peer` that it has no such snapshot.
    pub fn refused(&mut self, node: NodeId, peer: NodeId) {
        if let Some(search) = self.searches.get_mut(&node) {
            search.is_refused |= search.peer == peer;
        }
    }

    /// Takes note that a snapshot comes to `node`, that its search begins anew, or that what it needs has changed.
    pub fn goes_on(&mut self, node: NodeId) {
        self.searches.remove(&node);
        self.told.remove(&node);
    }

    /// Takes note that slots up to `upto` are trimmed where `node` asked for them.
    pub fn needs(&mut self, node: NodeId, upto: Slot) {
        let searches = self.searches.get_mut(&node);
        if searches.is_some_and(|search| search.needed < upto) {
            self.goes_on(node);
        }
    }

    /// Takes note that the objects of `node` stop: they need a snapshot past what they were given, whenever that is known.
    pub fn stopped(&mut self, node: NodeId) {
        self.doubtful.insert(node);
    }

    /// Takes note that `peer` reports to `node` that it holds a snapshot at `slot`.
    pub fn reported(&mut self, node: NodeId, peer: NodeId, slot: Slot) {
        let search = self.searches.get(&node);
        if search.is_some_and(|search| search.is_refused && slot >= search.needed) {
            self.told.insert(node, (peer, slot));
        }
    }

    /// Whether `node` looks for a snapshot, as far as its questions tell.
    pub fn is_watching(&self, node: NodeId) -> bool {
        self.searches.contains_key(&node)
    }

    /// Forgets an ended life of `node`.
    pub fn died(&mut self, node: NodeId) {
        self.goes_on(node);
        self.doubtful.remove(&node);
    }

    /// Takes note that `node` has done all that it does at this moment; `searches` if it still looks for a snapshot, and
    /// `lacks` if others have trimmed what it lacks.
    ///
    /// # Errors
    /// [`Property::Liveness`] when it was told of one that helps, and did not ask for it.
    pub fn settled(&mut self, node: NodeId, searches: bool, lacks: bool) -> Result<(), Violation> {
        let told = self.told.remove(&node);
        if !searches {
            self.died(node);
            return Ok(());
        }
        let is_sure = !lacks || !self.doubtful.contains(&node);
        match (told, self.searches.get(&node)) {
            (Some((peer, slot)), Some(search)) if is_sure => Err(Violation::new(
                Property::Liveness,
                format!(
                    "{node} needs a snapshot at {} or later, and does not ask {peer} for that at {slot}",
                    search.needed
                ),
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    #[test]
    fn a_node_that_lets_the_snapshot_that_it_needs_pass_is_found() {
        let mut fetching = Fetching::default();
        fetching.asked(ONE, TWO, Slot(5));
        fetching.reported(ONE, TWO, Slot(5));
        fetching.settled(ONE, true, true).unwrap();
        fetching.refused(ONE, TWO);
        fetching.reported(ONE, TWO, Slot(4));
        fetching.settled(ONE, true, true).unwrap();
        fetching.reported(ONE, TWO, Slot(5));
        assert!(fetching.settled(ONE, true, true).is_err());
        fetching.reported(ONE, TWO, Slot(5));
        fetching.asked(ONE, TWO, Slot(5));
        fetching.settled(ONE, true, true).unwrap();
    }

    #[test]
    fn nothing_is_owed_once_the_search_is_over_or_what_is_needed_may_have_grown() {
        let mut fetching = Fetching::default();
        for end in 0..3 {
            fetching.asked(ONE, TWO, Slot(5));
            fetching.refused(ONE, TWO);
            match end {
                0 => fetching.goes_on(ONE),
                1 => fetching.needs(ONE, Slot(6)),
                _ => fetching.stopped(ONE),
            }
            fetching.reported(ONE, TWO, Slot(5));
            fetching.settled(ONE, true, true).unwrap();
        }
        fetching.asked(ONE, TWO, Slot(5));
        fetching.refused(ONE, TWO);
        fetching.reported(ONE, TWO, Slot(5));
        fetching.settled(ONE, false, false).unwrap();
    }
}
