//! Watches what leaders vouch for: a watermark of a ballot says that slots up to it are decided, and that what the ballot
//! proposed there is what was decided.
//!
//! A follower takes what it holds of the ballot for decided by this word alone, so a leader that proposed something else
//! than was decided must be silent before it says a watermark there. Fed by the seeded world with proposals and watermarks
//! as they leave, and with decisions.

use std::collections::BTreeMap;

use quorate_types::{Ballot, NodeId, Slot};

use super::agreement::Fingerprint;
use super::{Property, Violation};

/// What ballots proposed and what was decided.
#[derive(Debug, Default)]
pub struct Vouching {
    proposed: BTreeMap<Slot, BTreeMap<Ballot, Fingerprint>>,
    decided: BTreeMap<Slot, Fingerprint>,
    /// The lowest slot of each ballot in which another value than its own was decided.
    superseded: BTreeMap<Ballot, Slot>,
}

impl Vouching {
    /// Takes note that the leader of `ballot` asks for votes for a value.
    pub fn proposed(&mut self, slot: Slot, ballot: Ballot, value: Fingerprint) {
        self.proposed.entry(slot).or_default().insert(ballot, value);
        if self.decided.get(&slot).is_some_and(|known| *known != value) {
            self.note(slot, ballot);
        }
    }

    /// Takes note that a slot is decided with a value.
    pub fn decided(&mut self, slot: Slot, value: Fingerprint) {
        if self.decided.insert(slot, value).is_some() {
            return;
        }
        let proposed = self.proposed.get(&slot).into_iter().flatten();
        let others = proposed.filter(|(_, other)| **other != value);
        for ballot in others.map(|(ballot, _)| *ballot).collect::<Vec<_>>() {
            self.note(slot, ballot);
        }
    }

    fn note(&mut self, slot: Slot, ballot: Ballot) {
        let lowest = self.superseded.entry(ballot).or_insert(slot);
        *lowest = slot.min(*lowest);
    }

    /// Takes note that `node` says as the leader of `ballot` that slots up to `upto` are decided.
    ///
    /// # Errors
    /// [`Property::StepDown`] when the ballot proposed something else than was decided in one of them.
    pub fn vouched(&self, node: NodeId, ballot: Ballot, upto: Slot) -> Result<(), Violation> {
        match self.superseded.get(&ballot) {
            Some(slot) if *slot <= upto => Err(Violation::new(
                Property::StepDown,
                format!(
                    "{node} says as the leader of {ballot} that slots up to {upto} are decided; its own proposal for {slot} was not"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::ballot;

    const A: NodeId = NodeId(1);

    #[test]
    fn a_watermark_over_a_slot_that_another_ballot_won_is_found() {
        let mut seen = Vouching::default();
        seen.proposed(Slot(2), ballot(1), 7);
        seen.vouched(A, ballot(1), Slot(1)).unwrap();
        seen.decided(Slot(2), 8);
        seen.vouched(A, ballot(1), Slot(1)).unwrap();
        let found = seen.vouched(A, ballot(1), Slot(2)).unwrap_err();
        assert_eq!(found.property, Property::StepDown);
        seen.vouched(A, ballot(2), Slot(2)).unwrap();
    }

    #[test]
    fn a_proposal_that_comes_after_the_decision_is_found_too() {
        let mut seen = Vouching::default();
        seen.decided(Slot(2), 8);
        seen.proposed(Slot(2), ballot(1), 8);
        seen.vouched(A, ballot(1), Slot(2)).unwrap();
        seen.proposed(Slot(2), ballot(2), 7);
        assert!(seen.vouched(A, ballot(2), Slot(2)).is_err());
    }
}
