//! Watches nodes that need a snapshot nobody has: when a peer reports one that helps, it is asked at once.
//!
//! Fed by the seeded world with questions for snapshots and what comes back. Which slot a node needs it says itself: that grows
//! when its objects stop, without a message.

use std::collections::BTreeMap;

use quorate_types::{NodeId, Slot};

use super::{Property, Violation};

/// Searches for a snapshot.
#[derive(Debug, Default)]
pub struct Fetching {
    searches: BTreeMap<NodeId, Search>,
    /// Nodes that were told in this turn of a snapshot, by whom and of which slot.
    told: BTreeMap<NodeId, (NodeId, Slot)>,
}

#[derive(Clone, Copy, Debug)]
struct Search {
    peer: NodeId,
    /// Whether the peer asked last has none.
    is_refused: bool,
}

impl Fetching {
    /// Takes note that `node` asks `peer` for the beginning of a snapshot.
    pub fn asked(&mut self, node: NodeId, peer: NodeId) {
        self.told.remove(&node);
        let is_refused = false;
        self.searches.insert(node, Search { peer, is_refused });
    }

    /// Takes note that `node` is told by `peer` that it has no such snapshot.
    pub fn refused(&mut self, node: NodeId, peer: NodeId) {
        if let Some(search) = self.searches.get_mut(&node) {
            search.is_refused |= search.peer == peer;
        }
    }

    /// Takes note that a snapshot comes to `node`, that its search begins anew, or that its life ended.
    pub fn goes_on(&mut self, node: NodeId) {
        self.searches.remove(&node);
        self.told.remove(&node);
    }

    /// Takes note that `peer` reports to `node` that it holds a snapshot at `slot`.
    pub fn reported(&mut self, node: NodeId, peer: NodeId, slot: Slot) {
        let search = self.searches.get(&node);
        if search.is_some_and(|search| search.is_refused) {
            self.told.insert(node, (peer, slot));
        }
    }

    /// Whether `node` looks for a snapshot, as far as its questions tell.
    pub fn is_watching(&self, node: NodeId) -> bool {
        self.searches.contains_key(&node)
    }

    /// Takes note that `node` has done all that it does at this moment; it needs a snapshot at `needed` or later, if any.
    ///
    /// # Errors
    /// [`Property::Liveness`] when it was told of one that helps, and did not ask for it.
    pub fn settled(&mut self, node: NodeId, needed: Option<Slot>) -> Result<(), Violation> {
        let told = self.told.remove(&node);
        let Some(needed) = needed else {
            self.goes_on(node);
            return Ok(());
        };
        match told {
            Some((peer, slot)) if slot >= needed => Err(Violation::new(
                Property::Liveness,
                format!(
                    "{node} needs a snapshot at {needed} or later, and does not ask {peer} for that at {slot}"
                ),
            )),
            Some(_) | None => Ok(()),
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
        let needed = Some(Slot(5));
        fetching.asked(ONE, TWO);
        fetching.reported(ONE, TWO, Slot(5));
        fetching.settled(ONE, needed).unwrap();
        fetching.refused(ONE, TWO);
        fetching.reported(ONE, TWO, Slot(4));
        fetching.settled(ONE, needed).unwrap();
        fetching.reported(ONE, TWO, Slot(5));
        assert!(fetching.settled(ONE, needed).is_err());
        fetching.reported(ONE, TWO, Slot(5));
        fetching.asked(ONE, TWO);
        fetching.settled(ONE, needed).unwrap();
    }

    #[test]
    fn nothing_is_owed_once_the_search_is_over_or_more_is_needed() {
        let mut fetching = Fetching::default();
        for needed in [None, Some(Slot(6)), Some(Slot(5))] {
            fetching.asked(ONE, TWO);
            fetching.refused(ONE, TWO);
            if needed == Some(Slot(5)) {
                fetching.goes_on(ONE);
            }
            fetching.reported(ONE, TWO, Slot(5));
            fetching.settled(ONE, needed).unwrap();
        }
    }
}
