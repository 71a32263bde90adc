//! Watches nodes that ask for decided slots: when the link to the asked peer goes down, another is asked at once, and so does a
//! new leader that lacks what phase 1 found decided, and a node whose snapshot leaves out what its leader told to be decided.
//!
//! Fed by the seeded world with links as a node learns of them, with questions as they leave and with answers as they are
//! handled.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{Ballot, NodeId, NodeSet, Slot};

use super::{Property, Violation};

/// Questions without an answer.
#[derive(Debug, Default)]
pub struct CatchingUp {
    /// Whom a node asked last, and for slots from where on.
    asked: BTreeMap<NodeId, (NodeId, Slot)>,
    linked: BTreeMap<NodeId, NodeSet>,
    /// The newest snapshot that a node took over: it asks for what follows whether or not it knows that there is more.
    installed: BTreeMap<NodeId, Slot>,
    /// Nodes that have just lost the peer that they had asked, though they have others.
    lost: BTreeSet<NodeId>,
    /// The highest ballot that a node knows of, and the highest slot that leaders whom it follows told it to be decided.
    heard: BTreeMap<NodeId, (Ballot, Slot)>,
    /// Nodes that have to ask at this moment for what they lack up to a slot, and why.
    owing: BTreeMap<NodeId, (Slot, &'static str)>,
    /// Ballots whose leader has spoken.
    led: BTreeSet<Ballot>,
}

impl CatchingUp {
    /// Takes note that `node` asks `peer` for decided slots from `from` on.
    pub fn asked(&mut self, node: NodeId, peer: NodeId, from: Slot) {
        self.lost.remove(&node);
        self.owing.remove(&node);
        if self.installed.get(&node).map(|slot| slot.next()) == Some(from) {
            self.asked.remove(&node);
        } else {
            self.asked.insert(node, (peer, from));
        }
    }

    /// Takes note that `node` asks for a snapshot: what it lacks comes with that, and no peer need have the slots.
    pub fn fetches(&mut self, node: NodeId) {
        self.lost.remove(&node);
        self.asked.remove(&node);
    }

    /// Takes note that `node` holds the state after `slot`, from a snapshot.
    pub fn installed(&mut self, node: NodeId, slot: Slot) {
        self.installed.insert(node, slot);
    }

    /// Takes note that `node` speaks as the leader of `ballot`; promises told it that slots up to `floor` are decided.
    pub fn leads(&mut self, node: NodeId, ballot: Ballot, floor: Slot) {
        if self.led.insert(ballot) {
            self.owing
                .insert(node, (floor, "begins to lead and asks nobody"));
        }
    }

    /// Takes note that `node` knows of `ballot`: it follows no leader of a lower one.
    pub fn knows(&mut self, node: NodeId, ballot: Ballot) {
        let (known, _) = self.heard.entry(node).or_default();
        *known = ballot.max(*known);
    }

    /// Takes note that the leader of `ballot` tells `node` that slots up to `decided` are decided.
    pub fn heard(&mut self, node: NodeId, ballot: Ballot, decided: Slot) {
        let (known, heard) = self.heard.entry(node).or_default();
        if ballot >= *known {
            *known = ballot;
            *heard = decided.max(*heard);
        }
    }

    /// Takes note that the ordering of `node` goes on from a snapshot that is ahead of all that it knew.
    pub fn went_on(&mut self, node: NodeId) {
        let (_, heard) = self.heard.get(&node).copied().unwrap_or_default();
        self.owing
            .insert(node, (heard, "goes on from a snapshot and asks nobody"));
    }

    /// Takes note that `node` handles an answer of `peer`.
    pub fn answered(&mut self, node: NodeId, peer: NodeId) {
        if self
            .asked
            .get(&node)
            .is_some_and(|(asked, _)| *asked == peer)
        {
            self.asked.remove(&node);
        }
    }

    /// Takes note that `node` is told that its link to `peer` is up.
    pub fn linked(&mut self, node: NodeId, peer: NodeId) {
        self.linked.entry(node).or_default().insert(peer);
    }

    /// Takes note that `node` is told that its link to `peer` is down.
    pub fn unlinked(&mut self, node: NodeId, peer: NodeId) {
        let others = self.linked.entry(node).or_default();
        others.remove(peer);
        let was_asked = self
            .asked
            .get(&node)
            .is_some_and(|(asked, _)| *asked == peer);
        if was_asked && !others.is_empty() {
            self.lost.insert(node);
        }
    }

    /// Forgets an ended life of `node`.
    pub fn died(&mut self, node: NodeId) {
        self.asked.remove(&node);
        self.linked.remove(&node);
        self.lost.remove(&node);
        self.owing.remove(&node);
        self.heard.remove(&node);
    }

    /// Takes note that `node` turns to another view: who was asked, and what leaders told, was about the one before.
    pub fn turned(&mut self, node: NodeId) {
        self.asked.remove(&node);
        self.lost.remove(&node);
        self.owing.remove(&node);
        self.heard.remove(&node);
    }

    /// Whether `node` has to ask somebody at this moment, if it lacks anything.
    pub fn owes(&self, node: NodeId) -> bool {
        self.lost.contains(&node) || self.owing.contains_key(&node)
    }

    /// Takes note that `node` has done all that it does at this moment; its decided prefix ends at `decided`.
    ///
    /// # Errors
    /// [`Property::Liveness`] when it lacks what it had to ask for at once, or waits for a peer that is gone.
    pub fn settled(&mut self, node: NodeId, decided: Slot) -> Result<(), Violation> {
        let has_peers = self
            .linked
            .get(&node)
            .is_some_and(|peers| !peers.is_empty());
        if let Some((upto, why)) = self.owing.remove(&node)
            && decided < upto
            && has_peers
        {
            return Err(Violation::new(
                Property::Liveness,
                format!(
                    "{node} lacks slots from {} to {upto}, {why}",
                    decided.next()
                ),
            ));
        }
        if !self.lost.remove(&node) {
            return Ok(());
        }
        // A question may ask for more than is decided: when a page ends with all that its sender had, the next one is asked for.
        let (_, heard) = self.heard.get(&node).copied().unwrap_or_default();
        match self.asked.remove(&node) {
            Some((peer, from)) if decided < from && from <= heard => Err(Violation::new(
                Property::Liveness,
                format!(
                    "{node} asked {peer} for slots from {from}, lost its link and asks nobody else"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn asked() -> CatchingUp {
        let mut seen = CatchingUp::default();
        seen.linked(A, B);
        seen.linked(A, C);
        seen.asked(A, B, Slot(5));
        seen.heard(A, Ballot::default(), Slot(5));
        seen
    }

    #[test]
    fn a_node_that_fetches_a_snapshot_need_not_ask_for_slots() {
        let mut seen = asked();
        seen.unlinked(A, B);
        seen.fetches(A);
        assert_eq!(seen.settled(A, Slot(4)), Ok(()));
        seen.asked(A, C, Slot(5));
        seen.linked(A, B);
        seen.unlinked(A, C);
        assert!(seen.settled(A, Slot(4)).is_err(), "a later question counts");
    }

    #[test]
    fn a_node_that_waits_for_a_peer_that_is_gone_is_found() {
        let mut seen = asked();
        seen.unlinked(A, B);
        assert!(seen.owes(A));
        assert_eq!(
            seen.settled(A, Slot(4)).unwrap_err().property,
            Property::Liveness
        );
    }

    #[test]
    fn another_question_an_answer_and_the_slot_itself_settle_it() {
        let mut seen = asked();
        seen.unlinked(A, B);
        seen.asked(A, C, Slot(5));
        seen.settled(A, Slot(4)).unwrap();
        let mut seen = asked();
        seen.answered(A, B);
        seen.unlinked(A, B);
        seen.settled(A, Slot(4)).unwrap();
        let mut seen = asked();
        seen.unlinked(A, B);
        seen.settled(A, Slot(5)).unwrap();
    }

    #[test]
    fn a_question_for_slots_that_nobody_told_to_be_decided_need_not_be_asked_again() {
        let mut seen = asked();
        seen.asked(A, B, Slot(6));
        seen.unlinked(A, B);
        seen.settled(A, Slot(5)).unwrap();
    }

    #[test]
    fn a_question_that_follows_a_snapshot_is_a_courtesy() {
        let mut seen = asked();
        seen.installed(A, Slot(4));
        seen.asked(A, B, Slot(5));
        seen.unlinked(A, B);
        seen.settled(A, Slot(4)).unwrap();
    }

    #[test]
    fn a_node_without_another_link_owes_no_question() {
        let mut seen = asked();
        seen.unlinked(A, C);
        seen.unlinked(A, B);
        seen.settled(A, Slot(4)).unwrap();
    }

    #[test]
    fn a_new_leader_and_a_node_with_a_new_snapshot_ask_at_once() {
        let ballot = |round| Ballot {
            view: quorate_types::ViewNumber(1),
            round,
            node: A,
            boot: 1,
        };
        let mut seen = CatchingUp::default();
        seen.linked(A, B);
        seen.leads(A, ballot(1), Slot(5));
        assert!(seen.settled(A, Slot(4)).is_err());
        seen.leads(A, ballot(1), Slot(9));
        seen.settled(A, Slot(4)).unwrap();
        seen.leads(A, ballot(2), Slot(5));
        seen.asked(A, B, Slot(5));
        seen.settled(A, Slot(4)).unwrap();
        seen.heard(A, ballot(2), Slot(7));
        seen.heard(A, ballot(1), Slot(9));
        seen.went_on(A);
        assert!(seen.settled(A, Slot(6)).is_err());
        seen.went_on(A);
        seen.settled(A, Slot(7)).unwrap();
        seen.died(A);
        seen.went_on(A);
        seen.settled(A, Slot(6)).unwrap();
    }
}
