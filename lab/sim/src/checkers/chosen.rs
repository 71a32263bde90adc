//! Watches votes become a choice before anybody says that a slot is decided: what a quorum voted for in one ballot is
//! what every higher ballot proposes.
//!
//! Fed by the seeded world with votes that are durable or were told, and with proposals as they leave. It finds a
//! proposal that contradicts a choice although nobody has learned of the choice yet, which is long before two nodes
//! decide differently. Values are compared by fingerprint.

use std::collections::BTreeMap;

use quorate_types::{Ballot, NodeId, NodeSet, Slot, ViewNumber};

use super::agreement::Fingerprint;
use super::rounds::{RoundQuorums, VoteRound};
use super::{Property, Violation};

/// Votes of one round of a slot, by value.
type Counted = BTreeMap<Fingerprint, NodeSet>;

/// Votes and proposals so far.
#[derive(Debug)]
pub struct Chosen {
    /// How many votes of one round choose, by its view.
    quorums: BTreeMap<ViewNumber, RoundQuorums>,
    votes: BTreeMap<(Slot, VoteRound), Counted>,
    /// Who voted in a fast round for a value that was told to nobody else.
    unexplained: BTreeMap<(Slot, Ballot), NodeSet>,
    proposed: BTreeMap<Slot, BTreeMap<Ballot, (Fingerprint, NodeId)>>,
    /// The lowest round in which a quorum voted, by slot.
    chosen: BTreeMap<Slot, (VoteRound, Fingerprint)>,
}

impl Chosen {
    /// So many votes of one round of the first view choose.
    pub fn new(quorums: RoundQuorums) -> Chosen {
        Chosen {
            quorums: BTreeMap::from([(ViewNumber(1), quorums)]),
            votes: BTreeMap::new(),
            unexplained: BTreeMap::new(),
            proposed: BTreeMap::new(),
            chosen: BTreeMap::new(),
        }
    }

    /// Takes note how many votes of one round of `view` choose.
    pub fn view_begins(&mut self, view: ViewNumber, quorums: RoundQuorums) {
        self.quorums.insert(view, quorums);
    }

    /// Takes note of a vote that `node` can no longer take back.
    ///
    /// # Errors
    /// [`Property::Agreement`] when the vote makes a choice that a later round contradicts.
    pub fn voted(
        &mut self,
        node: NodeId,
        slot: Slot,
        round: impl Into<VoteRound>,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let round = round.into();
        let votes = self.votes.entry((slot, round)).or_default();
        let voters = votes.entry(value).or_insert(NodeSet::empty());
        voters.insert(node);
        let quorums = self.quorums.get(&round.ballot.view);
        if quorums.is_none_or(|quorums| voters.len() < quorums.needed(round)) {
            return Ok(());
        }
        let first = self.chosen.entry(slot).or_insert((round, value));
        if first.0 == round && first.1 != value {
            return broken(format!(
                "quorums voted for {:016x} and for {value:016x} in {slot} {round:?}",
                first.1
            ));
        }
        if round < first.0 {
            *first = (round, value);
        }
        let (round, value) = *first;
        let proposed = self.proposed.get(&slot).into_iter().flatten();
        let mut later = proposed.filter(|(other, _)| VoteRound::from(**other) > round);
        match later.find(|(_, (other, _))| *other != value) {
            None => Ok(()),
            Some((higher, (other, proposer))) => {
                contradicted(slot, (round, value), *proposer, *higher, *other)
            }
        }
    }

    /// Takes note of a vote in a fast round for a value of which only `node` knows: nobody else votes for that.
    pub fn voted_alone(&mut self, node: NodeId, slot: Slot, ballot: Ballot) {
        let alone = self.unexplained.entry((slot, ballot)).or_default();
        alone.insert(node);
    }

    /// Takes note that `proposer` asks for votes in the classic round of a ballot.
    ///
    /// # Errors
    /// [`Property::Agreement`] when an earlier round has chosen another value, or may still do so in the fast round of this ballot.
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
            Some((round, chosen)) if *round < ballot.into() && *chosen != value => {
                contradicted(slot, (*round, *chosen), proposer, ballot, value)
            }
            Some(_) | None => self.recovered(proposer, slot, ballot, value),
        }
    }

    /// After votes in the fast round of a ballot its leader proposes only once no other value can win that round. It has heard of
    /// some of the votes that are known here, and each further one leaves other values less room.
    fn recovered(
        &self,
        proposer: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let cast = self.votes.get(&(slot, VoteRound::fast(ballot)));
        let (Some(cast), Some(quorums)) = (cast, self.quorums.get(&ballot.view)) else {
            return Ok(());
        };
        let classic = self.votes.get(&(slot, ballot.into()));
        let voters = cast
            .values()
            .chain(classic.into_iter().flat_map(BTreeMap::values));
        let voters = voters.chain(self.unexplained.get(&(slot, ballot)));
        let heard: NodeSet = voters.flat_map(|voters| voters.iter()).collect();
        let silent = quorums.acceptors.saturating_sub(heard.len());
        let others = cast.iter().filter(|(other, _)| **other != value);
        let most = others
            .map(|(_, voters)| voters.len())
            .max()
            .unwrap_or_default();
        if heard.len() >= quorums.phase1 && most + silent < quorums.fast {
            return Ok(());
        }
        broken(format!(
            "{proposer} proposes {value:016x} in {slot} {ballot}, whose fast round another value may win: {cast:x?}"
        ))
    }

    /// Takes note that a slot is decided with a value: it must be the one that was chosen.
    ///
    /// # Errors
    /// [`Property::Agreement`] when votes chose another.
    pub fn decided(&self, node: NodeId, slot: Slot, value: Fingerprint) -> Result<(), Violation> {
        match self.chosen.get(&slot) {
            Some((round, chosen)) if *chosen != value => broken(format!(
                "{node} decides {value:016x} in {slot}, where a quorum voted for {chosen:016x} in {round:?}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether `slot` was chosen in a fast round, or in a classic one after votes in the fast one of the same ballot.
    pub fn by_fast_round(&self, slot: Slot) -> (bool, bool) {
        let Some((round, _)) = self.chosen.get(&slot) else {
            return (false, false);
        };
        let has_cast = self
            .votes
            .contains_key(&(slot, VoteRound::fast(round.ballot)));
        (!round.is_classic, round.is_classic && has_cast)
    }

    /// The value that a quorum voted for in `slot`.
    pub fn value(&self, slot: Slot) -> Option<Fingerprint> {
        self.chosen.get(&slot).map(|(_, value)| *value)
    }
}

fn contradicted(
    slot: Slot,
    (round, chosen): (VoteRound, Fingerprint),
    proposer: NodeId,
    higher: Ballot,
    other: Fingerprint,
) -> Result<(), Violation> {
    broken(format!(
        "{proposer} proposes {other:016x} in {slot} {higher}, where a quorum voted for {chosen:016x} in {round:?}"
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
    const C: NodeId = NodeId(3);

    fn three() -> RoundQuorums {
        RoundQuorums::new(3, 2, 2)
    }

    #[test]
    fn a_higher_ballot_that_proposes_what_was_chosen_is_fine() {
        let mut seen = Chosen::new(three());
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
        let mut seen = Chosen::new(three());
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.voted(B, Slot(1), ballot(1), 7).unwrap();
        let against = seen.proposed(B, Slot(1), ballot(2), 8).unwrap_err();
        assert_eq!(against.property, Property::Agreement);
        assert!(seen.decided(B, Slot(1), 8).is_err());
    }

    #[test]
    fn a_choice_below_an_earlier_proposal_of_another_value_is_found() {
        let mut seen = Chosen::new(three());
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
        let mut seen = Chosen::new(three());
        seen.view_begins(ViewNumber(2), RoundQuorums::new(1, 1, 1));
        seen.voted(A, Slot(1), of_view(1, 1), 7).unwrap();
        assert_eq!(seen.value(Slot(1)), None);
        seen.voted(A, Slot(2), of_view(2, 1), 7).unwrap();
        assert_eq!(seen.value(Slot(2)), Some(7));
        assert!(seen.proposed(B, Slot(2), of_view(2, 2), 8).is_err());
    }

    #[test]
    fn one_acceptor_that_votes_twice_chooses_nothing() {
        let mut seen = Chosen::new(three());
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.voted(A, Slot(1), ballot(1), 7).unwrap();
        seen.proposed(B, Slot(1), ballot(2), 8).unwrap();
    }

    #[test]
    fn votes_of_a_fast_round_choose_by_value_and_with_their_own_quorum() {
        let fast = VoteRound::fast(ballot(1));
        let mut seen = Chosen::new(three());
        seen.voted(A, Slot(1), fast, 7).unwrap();
        seen.voted(B, Slot(1), fast, 8).unwrap();
        seen.voted(C, Slot(1), fast, 7).unwrap();
        assert_eq!(seen.value(Slot(1)), None, "two of three choose nothing");
        for node in [A, B, C] {
            seen.voted(node, Slot(2), fast, 7).unwrap();
        }
        assert_eq!(seen.value(Slot(2)), Some(7));
        let against = seen.proposed(A, Slot(2), ballot(1), 8).unwrap_err();
        assert_eq!(against.property, Property::Agreement);
        assert!(seen.proposed(A, Slot(2), ballot(2), 8).is_err());
        seen.proposed(A, Slot(2), ballot(3), 7).unwrap();
    }

    #[test]
    fn a_recovery_while_another_value_may_win_is_found() {
        let fast = VoteRound::fast(ballot(1));
        let begun = |votes: &[(NodeId, u64)]| {
            let mut seen = Chosen::new(RoundQuorums::new(4, 3, 3));
            for (node, value) in votes {
                seen.voted(*node, Slot(1), fast, *value).unwrap();
            }
            seen
        };
        let mut early = begun(&[(A, 7), (B, 8)]);
        assert!(early.proposed(A, Slot(1), ballot(1), 7).is_err());
        let mut open = begun(&[(A, 7), (B, 8), (C, 8)]);
        assert!(open.proposed(A, Slot(1), ballot(1), 7).is_err());
        let mut collided = begun(&[(A, 7), (B, 8), (C, 9)]);
        collided.proposed(A, Slot(1), ballot(1), 7).unwrap();
    }
}
