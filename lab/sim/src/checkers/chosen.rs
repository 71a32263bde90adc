//! Watches votes become a choice before anybody says that a slot is decided: what a quorum voted for in one ballot is
//! what every higher ballot proposes.
//!
//! Fed by the seeded world with votes that are durable or were told, and with proposals as they leave. It finds a
//! proposal that contradicts a choice although nobody has learned of the choice yet, which is long before two nodes
//! decide differently. Values are compared by fingerprint.

use std::collections::BTreeMap;

use quorate_types::{Ballot, NodeId, NodeSet, Slot, ViewNumber};

use super::agreement::Fingerprint;
use super::{Property, Violation};

/// Votes and proposals so far.
#[derive(Debug)]
pub struct Chosen {
    /// How many votes of one ballot choose, by its view.
    quorums: BTreeMap<ViewNumber, usize>,
    votes: BTreeMap<(Slot, Ballot), (Fingerprint, NodeSet)>,
    proposed: BTreeMap<Slot, BTreeMap<Ballot, (Fingerprint, NodeId)>>,
    /// The lowest ballot in which a quorum voted, by slot.
    chosen: BTreeMap<Slot, (Ballot, Fingerprint)>,
}

impl Chosen {
    /// `quorum` votes of one ballot of the first view choose.
    pub fn new(quorum: usize) -> Chosen {
        Chosen {
            quorums: BTreeMap::from([(ViewNumber(1), quorum)]),
            votes: BTreeMap::new(),
            proposed: BTreeMap::new(),
            chosen: BTreeMap::new(),
        }
    }

    /// Takes note that `quorum` votes of one ballot of `view` choose.
    pub fn view_begins(&mut self, view: ViewNumber, quorum: usize) {
        self.quorums.insert(view, quorum);
    }

    /// Takes note of a vote that `node` can no longer take back.
    ///
    /// # Errors
    /// [`Property::Agreement`] when the vote makes a choice that a higher ballot contradicts.
    pub fn voted(
        &mut self,
        node: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let vote = (value, NodeSet::empty());
        let (_, voters) = self.votes.entry((slot, ballot)).or_insert(vote);
        voters.insert(node);
        let quorum = self.quorums.get(&ballot.view);
        if quorum.is_none_or(|quorum| voters.len() < *quorum) {
            return Ok(());
        }
        let first = self.chosen.entry(slot).or_insert((ballot, value));
        if ballot < first.0 {
            *first = (ballot, value);
        }
        let (ballot, value) = *first;
        let proposed = self.proposed.get(&slot).into_iter().flatten();
        let mut higher = proposed.filter(|(other, _)| **other > ballot);
        match higher.find(|(_, (other, _))| *other != value) {
            None => Ok(()),
            Some((higher, (other, proposer))) => {
                contradicted(slot, (ballot, value), *proposer, *higher, *other)
            }
        }
    }

    /// Takes note that `proposer` asks for votes.
    ///
    /// # Errors
    /// [`Property::Agreement`] when a lower ballot has chosen another value.
    pub fn proposed(
        &mut self,
        proposer: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let of_slot = self.proposed.entry(slot).or_default();
        of_slot.entry(ballot).or_insert((value, proposer));
        match self.chosen.get(&slot) {
            Some((lower, chosen)) if *lower < ballot && *chosen != value => {
                contradicted(slot, (*lower, *chosen), proposer, ballot, value)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes note that a slot is decided with a value: it must be the one that was chosen.
    ///
    /// # Errors
    /// [`Property::Agreement`] when votes chose another.
    pub fn decided(&self, node: NodeId, slot: Slot, value: Fingerprint) -> Result<(), Violation> {
        match self.chosen.get(&slot) {
            Some((ballot, chosen)) if *chosen != value => broken(format!(
                "{node} decides {value:016x} in {slot}, where a quorum voted for {chosen:016x} in {ballot}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The value that a quorum voted for in `slot`.
    pub fn value(&self, slot: Slot) -> Option<Fingerprint> {
        self.chosen.get(&slot).map(|(_, value)| *value)
    }
}

fn contradicted(
    slot: Slot,
    (ballot, chosen): (Ballot, Fingerprint),
    proposer: NodeId,
    higher: Ballot,
    other: Fingerprint,
) -> Result<(), Violation> {
    broken(format!(
        "{proposer} proposes {other:016x} in {slot} {higher}, where a quorum voted for {chosen:016x} in {ballot}"
    ))
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Agreement, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::ballot;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    #[test]
    fn a_higher_ballot_that_proposes_what_was_chosen_is_fine() {
        let mut seen = Chosen::new(2);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.proposed(B, Slot(1), ballot(2), 8).unwrap();
        seen.voted(B, Slot(1), ballot(2), 8).unwrap();
        seen.voted(B, Slot(2), ballot(1), 9).unwrap();
        seen.voted(A, Slot(2), ballot(1), 9).unwrap();
        seen.proposed(B, Slot(2), ballot(2), 9).unwrap();
        seen.decided(B, Slot(2), 9).unwrap();
    }

    #[test]
    fn a_proposal_against_a_choice_is_found_before_it_is_decided() {
        let mut seen = Chosen::new(2);
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.voted(B, Slot(1), ballot(1), 7).unwrap();
        let against = seen.proposed(B, Slot(1), ballot(2), 8).unwrap_err();
        assert_eq!(against.property, Property::Agreement);
        assert!(seen.decided(B, Slot(1), 8).is_err());
    }

    #[test]
    fn a_choice_below_an_earlier_proposal_of_another_value_is_found() {
        let mut seen = Chosen::new(2);
        seen.proposed(B, Slot(1), ballot(2), 8).unwrap();
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        assert!(seen.voted(B, Slot(1), ballot(1), 7).is_err());
    }

    #[test]
    fn each_view_chooses_with_its_own_quorum() {
        let of_view = |view, round| Ballot {
            view: ViewNumber(view),
            ..ballot(round)
        };
        let mut seen = Chosen::new(2);
        seen.view_begins(ViewNumber(2), 1);
        seen.voted(A, Slot(1), of_view(1, 1), 7).unwrap();
        assert_eq!(seen.value(Slot(1)), None);
        seen.voted(A, Slot(2), of_view(2, 1), 7).unwrap();
        assert_eq!(seen.value(Slot(2)), Some(7));
        assert!(seen.proposed(B, Slot(2), of_view(2, 2), 8).is_err());
    }

    #[test]
    fn one_acceptor_that_votes_twice_chooses_nothing() {
        let mut seen = Chosen::new(2);
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.proposed(B, Slot(1), ballot(2), 8).unwrap();
    }
}
