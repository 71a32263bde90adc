//! Reads that clients announce to every node: which acceptors say of which read that they follow whom, and what was decided anywhere
//! before the read was announced.
//!
//! Fed by the seeded world; [`super::confirmations::Confirmations`] asks it about the reads that it watches.

use std::collections::{BTreeMap, VecDeque};

use quorate_types::{Ballot, BroadcastId, NodeId, NodeSet, Slot, ViewNumber};

use super::limits::ROUNDS_MAX;

/// What is known of announced reads.
#[derive(Debug, Default)]
pub struct Announcements {
    begun: BTreeMap<BroadcastId, Begun>,
    /// In the order in which they were announced first.
    order: VecDeque<BroadcastId>,
}

#[derive(Debug)]
struct Begun {
    decided: Slot,
    /// Who attested it, by the ballot that they named.
    by: BTreeMap<Ballot, NodeSet>,
}

impl Announcements {
    /// Takes note that a client announces a read, for the first time or again; slots up to `decided` are decided somewhere.
    pub fn announced(&mut self, read: BroadcastId, decided: Slot) {
        if self.begun.contains_key(&read) {
            return;
        }
        if self.order.len() == ROUNDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.begun.remove(&oldest);
        }
        let by = BTreeMap::new();
        self.begun.insert(read, Begun { decided, by });
        self.order.push_back(read);
    }

    /// Takes note that an acceptor attests a read.
    pub fn attested(&mut self, acceptor: NodeId, ballot: Ballot, read: BroadcastId) {
        if let Some(begun) = self.begun.get_mut(&read) {
            begun.by.entry(ballot).or_default().insert(acceptor);
        }
    }

    /// What was decided when it was announced first.
    pub(super) fn decided(&self, read: BroadcastId) -> Option<Slot> {
        self.begun.get(&read).map(|begun| begun.decided)
    }

    /// Whether so many acceptors attested the read to `leader` in one of its ballots of a view.
    pub(super) fn is_attested(
        &self,
        read: BroadcastId,
        (leader, view): (NodeId, ViewNumber),
        needed: usize,
    ) -> bool {
        let Some(begun) = self.begun.get(&read) else {
            return false;
        };
        let mut own = begun.by.iter();
        needed == 0
            || own.any(|(ballot, by)| {
                let is_own = ballot.node == leader && ballot.view == view;
                is_own && by.without(leader).len() >= needed
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::SecretHash;

    const VIEW: ViewNumber = ViewNumber(1);

    fn read(number: u64) -> BroadcastId {
        let client = SecretHash::default();
        BroadcastId { client, number }
    }

    fn ballot(round: u64, node: u16) -> Ballot {
        Ballot {
            view: VIEW,
            round,
            node: NodeId(node),
            boot: 1,
        }
    }

    #[test]
    fn a_read_is_attested_by_those_who_name_it_and_one_ballot_of_its_leader() {
        let mut seen = Announcements::default();
        seen.announced(read(1), Slot(3));
        seen.announced(read(2), Slot(4));
        seen.announced(read(1), Slot(9));
        assert_eq!(seen.decided(read(1)), Some(Slot(3)));
        seen.attested(NodeId(2), ballot(1, 1), read(1));
        seen.attested(NodeId(3), ballot(1, 1), read(2));
        seen.attested(NodeId(3), ballot(2, 1), read(1));
        seen.attested(NodeId(1), ballot(1, 1), read(1));
        let leader = (NodeId(1), VIEW);
        assert!(seen.is_attested(read(1), leader, 1));
        assert!(!seen.is_attested(read(1), leader, 2));
        assert!(!seen.is_attested(read(1), (NodeId(2), VIEW), 1));
        seen.attested(NodeId(3), ballot(1, 1), read(1));
        assert!(seen.is_attested(read(1), leader, 2));
    }
}
