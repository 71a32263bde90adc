//! Watches phase 1: a leader proposes only after enough acceptors have told it all that they voted for, only above what they
//! told to be decided, and what the highest of these votes was for.
//!
//! Fed by the seeded world with promises as they leave and arrive, with proposals as they leave, and with the votes that a
//! candidate itself has on its disk. A leader that heard more promises than it needs may have used any of them: a proposal is
//! wrong if no choice of enough of them allows it. Where an acceptor no longer knows what it voted for, or where the
//! candidate's own votes are in memory alone, only what contradicts every promise is found.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_types::{Ballot, FirstBallot, NodeId, NodeSet, Slot, ViewNumber};

use super::agreement::Fingerprint;
use super::rounds::{RoundQuorums, VoteRound};
use super::{Property, Violation};

/// The newest vote by slot.
pub type Votes = BTreeMap<Slot, (VoteRound, Fingerprint)>;

/// What was told for each ballot.
#[derive(Debug)]
pub struct PhaseOne {
    /// How many promises make a leader, by the view of its ballot.
    quorums: BTreeMap<ViewNumber, RoundQuorums>,
    /// The ballot that needs no promises, in views whose change names one: nothing can have been voted for in a lower one.
    firsts: BTreeMap<ViewNumber, Ballot>,
    /// Which life of its node proposed in that ballot.
    first_lives: BTreeMap<ViewNumber, u64>,
    told: BTreeMap<Ballot, Told>,
    /// Values proposed, by slot and ballot.
    proposed: BTreeMap<Slot, BTreeMap<Ballot, Fingerprint>>,
    /// The slot of each batch that holds commands.
    slots: BTreeMap<Fingerprint, Slot>,
}

/// A page of a promise.
#[derive(Debug)]
pub struct Page {
    /// Up to here all is decided at the acceptor.
    pub floor: Slot,
    /// Its votes.
    pub votes: Vec<(Slot, VoteRound, Fingerprint)>,
    /// Whether there are slots of which it no longer knows what it voted for.
    pub is_ignorant: bool,
    /// Whether no page follows.
    pub is_last: bool,
}

/// What is known of a candidate's own votes in lower ballots.
#[derive(Debug, Default)]
pub enum Own {
    /// Nothing: they are in memory alone.
    #[default]
    Unknown,
    /// Some of them: its log is damaged.
    Part(Votes),
    /// All of them.
    Whole(Votes),
}

impl Own {
    fn vote(&self, slot: Slot) -> Option<&(VoteRound, Fingerprint)> {
        match self {
            Own::Unknown => None,
            Own::Part(votes) | Own::Whole(votes) => votes.get(&slot),
        }
    }
}

#[derive(Debug, Default)]
struct Told {
    /// Acceptors that told their last page.
    whole: NodeSet,
    /// Those whose last page has arrived.
    arrived: NodeSet,
    votes: BTreeMap<(Slot, NodeId), (VoteRound, Fingerprint)>,
    floors: BTreeMap<NodeId, Slot>,
    /// What the candidate itself had voted for.
    own: Own,
    is_ignorant: bool,
}

impl Told {
    /// Whether a candidate that heard exactly `others` may propose `value`.
    fn allows(
        &self,
        others: &[NodeId],
        slot: Slot,
        value: Fingerprint,
        quorums: &RoundQuorums,
    ) -> bool {
        let floors = others.iter().filter_map(|other| self.floors.get(other));
        if floors.max().is_some_and(|floor| slot <= *floor) {
            return false;
        }
        let own = self.own.vote(slot);
        let told = others.iter();
        let told = told.filter_map(|other| self.votes.get(&(slot, *other)));
        let heard: Vec<_> = told.chain(own).collect();
        let Some(highest) = heard.iter().map(|(round, _)| *round).max() else {
            return true;
        };
        let of_round = || heard.iter().filter(|(round, _)| *round == highest);
        let count = |value| of_round().filter(|(_, voted)| *voted == value).count();
        // In a fast round a value is bound by as many votes as a quorum of it must have among those who answered.
        let threshold = (quorums.fast + others.len() + 1).saturating_sub(quorums.acceptors);
        let is_bound = |value| highest.is_classic || count(value) >= threshold;
        let mut bound = of_round().filter(|(_, voted)| is_bound(*voted));
        if bound.clone().next().is_none() || bound.any(|(_, voted)| *voted == value) {
            return true;
        }
        // A page of somebody who has not told the last one may show a higher vote, which is as good.
        let of_slot = (slot, NodeId(0))..=(slot, NodeId(u16::MAX));
        let told = self.votes.range(of_slot).map(|(_, vote)| vote);
        let is_later = |round: VoteRound| round > highest || round == highest && highest.is_classic;
        let mut allowed = told.chain(own).filter(|(round, _)| is_later(*round));
        allowed.any(|(_, voted)| *voted == value)
    }
}

impl PhaseOne {
    /// Of a group whose first view has these quorums.
    pub fn new(quorums: RoundQuorums) -> PhaseOne {
        PhaseOne {
            quorums: BTreeMap::from([(ViewNumber(1), quorums)]),
            firsts: BTreeMap::new(),
            first_lives: BTreeMap::new(),
            told: BTreeMap::new(),
            proposed: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }

    /// Takes note of the quorums of `view`, and of who may lead it first.
    pub fn view_begins(
        &mut self,
        view: ViewNumber,
        quorums: RoundQuorums,
        first: Option<FirstBallot>,
    ) {
        self.quorums.insert(view, quorums);
        if let Some(first) = first {
            self.firsts.insert(view, first.of(view));
        }
    }

    /// The ballot in which that view may be led first, if its change names one.
    pub fn first(&self, view: ViewNumber) -> Option<Ballot> {
        self.firsts.get(&view).copied()
    }

    /// Whether that value was proposed there before.
    pub fn has_proposed(&self, slot: Slot, ballot: Ballot, value: Fingerprint) -> bool {
        let of_slot = self.proposed.get(&slot);
        of_slot.is_some_and(|proposed| proposed.get(&ballot) == Some(&value))
    }

    /// Takes note that `life` of `proposer` asks for votes in `ballot`.
    ///
    /// # Errors
    /// [`Property::PhaseOne`] when nobody is named to begin without promises, or another node or life is.
    pub fn asked(&mut self, proposer: NodeId, life: u64, ballot: Ballot) -> Result<(), Violation> {
        if ballot.round > 0 {
            return Ok(());
        }
        let first = self.first(ballot.view);
        let of = *self.first_lives.entry(ballot.view).or_insert(life);
        if first == Some(ballot) && proposer == ballot.node && life == of {
            return Ok(());
        }
        broken(format!(
            "life {life} of {proposer} proposes in {ballot}; {first:?} is named, in which life {of} proposed"
        ))
    }

    /// Promises of others that a leader needs besides its own.
    fn needed(&self, ballot: Ballot) -> usize {
        let quorums = self.quorums.get(&ballot.view);
        quorums.map_or(usize::MAX, |quorums| quorums.phase1 - 1)
    }

    /// Takes note that a batch that holds commands is proposed: its stamp tells it from every other batch.
    ///
    /// # Errors
    /// [`Property::PhaseOne`] when it was proposed in another slot, by whomever.
    pub fn placed(&mut self, slot: Slot, value: Fingerprint) -> Result<(), Violation> {
        let first = *self.slots.entry(value).or_insert(slot);
        if first == slot {
            return Ok(());
        }
        broken(format!(
            "{value:016x} is proposed in {slot}, it was proposed in {first}: gaps are filled with empty batches"
        ))
    }

    /// Takes note that a candidate opens `ballot`; `own` is what its disk holds of votes in lower ones.
    pub fn opened(&mut self, ballot: Ballot, own: Own) {
        self.told.entry(ballot).or_default().own = own;
    }

    /// Takes note that `acceptor` tells a page of votes for `ballot`.
    pub fn told(&mut self, acceptor: NodeId, ballot: Ballot, page: Page) {
        let told = self.told.entry(ballot).or_default();
        for (slot, vote, value) in page.votes {
            if vote.ballot < ballot {
                told.votes.insert((slot, acceptor), (vote, value));
            }
        }
        let floor = told.floors.entry(acceptor).or_insert(page.floor);
        *floor = page.floor.min(*floor);
        told.is_ignorant |= page.is_ignorant;
        if page.is_last {
            told.whole.insert(acceptor);
        }
    }

    /// Takes note that the last page of a promise reaches the candidate.
    pub fn arrived(&mut self, acceptor: NodeId, ballot: Ballot) {
        self.told
            .entry(ballot)
            .or_default()
            .arrived
            .insert(acceptor);
    }

    /// Up to where all is decided, by the least that a candidate for `ballot` can have used of what arrived.
    pub fn floor(&self, ballot: Ballot) -> Slot {
        let Some(told) = self.told.get(&ballot) else {
            return Slot::ZERO;
        };
        let others = told.arrived.without(ballot.node).iter();
        let mut floors: Vec<Slot> = others
            .filter_map(|other| told.floors.get(&other).copied())
            .collect();
        floors.sort_unstable();
        let needed = self.needed(ballot);
        let least = floors.get(needed.saturating_sub(1)).copied();
        least.filter(|_| needed > 0).unwrap_or_default()
    }

    /// Takes note that `proposer` asks for votes for `value`.
    ///
    /// # Errors
    /// [`Property::PhaseOne`] when too few told all their votes before, or when no choice of enough promises allows it.
    pub fn proposed(
        &mut self,
        proposer: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
    ) -> Result<(), Violation> {
        let needed = self.needed(ballot);
        let of_slot = self.proposed.entry(slot).or_default();
        if of_slot.insert(ballot, value).is_some() {
            return Ok(());
        }
        if self.firsts.get(&ballot.view) == Some(&ballot) {
            return Ok(());
        }
        let nobody = Told::default();
        let told = self.told.get(&ballot).unwrap_or(&nobody);
        let others = told.arrived.without(proposer);
        if others.len() < needed {
            return broken(format!(
                "{proposer} proposes in {slot} {ballot}; of {} others only {others:?} told all their votes",
                needed
            ));
        }
        if matches!(told.own, Own::Whole(_)) && !told.is_ignorant {
            return self.allowed(proposer, slot, ballot, value, others);
        }
        let lower = of_slot.range(..ballot).rev();
        let source = lower
            .filter(|(_, known)| **known == value)
            .map(|(lower, _)| *lower)
            .next();
        // What a vote was for was proposed in its ballot, also where the proposal itself has reached nobody yet.
        let of_slot = (slot, NodeId(0))..=(slot, NodeId(u16::MAX));
        let voted = told.votes.range(of_slot).map(|(_, vote)| *vote);
        let voted = voted.filter(|(_, voted)| *voted == value);
        let source = source.map(VoteRound::from);
        let source = source.max(voted.map(|(lower, _)| lower).max());
        let is_own = told.own.vote(slot).is_some_and(|(_, own)| *own == value);
        if is_own {
            return Ok(());
        }
        let contradicts = |acceptor| {
            let vote = told.votes.get(&(slot, acceptor));
            // Votes of a fast round may differ, and few of them bind nobody.
            vote.is_some_and(|(vote, other)| {
                vote.is_classic && *other != value && Some(*vote) > source
            })
        };
        if needed == 0 || !others.iter().all(contradicts) {
            return Ok(());
        }
        let told_of = others.iter().map(|other| told.votes[&(slot, other)].0);
        let mut told_of: Vec<Ballot> = told_of.map(|round| round.ballot).collect();
        told_of.sort_unstable();
        // It may have used no more promises than it needs, those with the lowest votes.
        let least = told_of[needed - 1];
        let is_unknown = !matches!(told.own, Own::Whole(_));
        if is_unknown && self.may_have_voted_alone(proposer, slot, least, ballot) {
            return Ok(());
        }
        let votes: Vec<_> = others
            .iter()
            .map(|other| (other, told.votes[&(slot, other)]))
            .collect();
        broken(format!(
            "{proposer} proposes {value:016x} in {slot} {ballot}, last proposed in {source:?}, and was told {votes:x?}"
        ))
    }

    /// Whether `proposer` led a ballot between `vote` and `ballot` that could propose and is not known to have proposed in
    /// `slot`: cut off from all others it votes alone, no message tells of it, and its own vote outranks theirs.
    fn may_have_voted_alone(
        &self,
        proposer: NodeId,
        slot: Slot,
        vote: Ballot,
        ballot: Ballot,
    ) -> bool {
        let between = (Bound::Excluded(vote), Bound::Excluded(ballot));
        let mut own = self.told.range(between).filter(|(led, told)| {
            led.node == proposer && told.whole.without(proposer).len() >= self.needed(ballot)
        });
        own.any(|(led, _)| {
            let proposed = self.proposed.get(&slot);
            proposed.is_none_or(|known| !known.contains_key(led))
        })
    }

    /// All votes of all that it may have heard are known: one choice of enough promises must lead to this proposal.
    fn allowed(
        &self,
        proposer: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: Fingerprint,
        others: NodeSet,
    ) -> Result<(), Violation> {
        let told = &self.told[&ballot];
        let others: Vec<NodeId> = others.iter().collect();
        let Some(quorums) = self.quorums.get(&ballot.view) else {
            return Ok(());
        };
        if choices(&others, self.needed(ballot))
            .iter()
            .any(|chosen| told.allows(chosen, slot, value, quorums))
        {
            return Ok(());
        }
        let votes: Vec<_> = others
            .iter()
            .map(|other| {
                (
                    other,
                    told.floors.get(other),
                    told.votes.get(&(slot, *other)),
                )
            })
            .collect();
        let own = told.own.vote(slot);
        broken(format!(
            "{proposer} proposes {value:016x} in {slot} {ballot}; it had voted {own:x?} and was told, with what is decided, {votes:x?}"
        ))
    }
}

/// All ways to take `size` of `nodes`.
pub fn choices(nodes: &[NodeId], size: usize) -> Vec<Vec<NodeId>> {
    let Some(rest) = size.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for (index, first) in nodes.iter().enumerate() {
        for mut others in choices(&nodes[index + 1..], rest) {
            others.push(*first);
            all.push(others);
        }
    }
    all
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::PhaseOne, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::ballot;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn tells(
        seen: &mut PhaseOne,
        acceptor: NodeId,
        round: u64,
        floor: u64,
        votes: &[(u64, u64, u64)],
    ) {
        let votes = votes
            .iter()
            .map(|(slot, round, value)| (Slot(*slot), ballot(*round).into(), *value));
        let page = Page {
            floor: Slot(floor),
            votes: votes.collect(),
            is_ignorant: false,
            is_last: true,
        };
        seen.told(acceptor, ballot(round), page);
        seen.arrived(acceptor, ballot(round));
    }

    #[test]
    fn each_view_has_its_own_number_of_promises() {
        let ballot = |view| Ballot {
            view: ViewNumber(view),
            ..ballot(1)
        };
        let mut seen = PhaseOne::new(RoundQuorums::new(1, 1, 1));
        seen.view_begins(ViewNumber(2), RoundQuorums::new(3, 2, 2), None);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        assert!(seen.proposed(A, Slot(2), ballot(2), 7).is_err());
        assert!(
            seen.proposed(A, Slot(3), ballot(3), 7).is_err(),
            "nobody knows of the view"
        );
    }

    #[test]
    fn only_one_life_of_who_is_named_proposes_without_promises() {
        let view = ViewNumber(2);
        let named = |node, boot| FirstBallot { node, boot };
        let seen = |first| {
            let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
            seen.view_begins(view, RoundQuorums::new(3, 2, 2), first);
            seen
        };
        let first = named(A, 7).of(view);
        let mut of_one = seen(Some(named(A, 7)));
        of_one.asked(A, 3, first).unwrap();
        of_one.asked(A, 3, first).unwrap();
        assert!(of_one.asked(A, 4, first).is_err(), "another life");
        assert!(of_one.asked(B, 3, first).is_err(), "another node");
        assert!(of_one.asked(A, 3, named(A, 8).of(view)).is_err());
        assert!(seen(None).asked(A, 3, first).is_err(), "nobody is named");
        seen(None).asked(A, 3, ballot(1)).unwrap();
    }

    /// Slot 1 has 7 proposed in ballot 1 and 8 in ballot 2.
    fn begun() -> PhaseOne {
        let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
        for (round, value) in [(1, 7), (2, 8)] {
            tells(&mut seen, B, round, 0, &[]);
            seen.proposed(A, Slot(1), ballot(round), value).unwrap();
        }
        seen
    }

    /// The same, and a candidate for ballot 3 that voted for 7 in ballot 1.
    fn opened() -> PhaseOne {
        let mut seen = begun();
        let own = Votes::from([(Slot(1), (ballot(1).into(), 7))]);
        seen.opened(ballot(3), Own::Whole(own));
        seen
    }

    #[test]
    fn a_leader_that_was_told_only_a_page_is_found() {
        let mut seen = begun();
        let page = Page {
            floor: Slot(0),
            votes: Vec::new(),
            is_ignorant: false,
            is_last: false,
        };
        seen.told(B, ballot(3), page);
        let early = seen.proposed(A, Slot(1), ballot(3), 8).unwrap_err();
        assert_eq!(early.property, Property::PhaseOne);
        let mut seen = begun();
        tells(&mut seen, A, 3, 0, &[]);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 8).is_err(),
            "its own promise is not another's"
        );
    }

    #[test]
    fn a_batch_that_moves_to_another_slot_is_found() {
        let mut seen = begun();
        seen.placed(Slot(2), 7).unwrap();
        seen.placed(Slot(2), 7).unwrap();
        assert!(seen.placed(Slot(1), 7).is_err());
    }

    #[test]
    fn a_proposal_that_every_promise_outranks_is_found() {
        let mut seen = begun();
        tells(&mut seen, B, 3, 0, &[(1, 2, 8)]);
        tells(&mut seen, C, 3, 0, &[(1, 2, 8)]);
        assert!(seen.proposed(A, Slot(1), ballot(3), 7).is_err());
        let mut seen = begun();
        seen.opened(ballot(3), Own::Part(Votes::new()));
        tells(&mut seen, B, 3, 0, &[(1, 1, 7)]);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 9).is_err(),
            "a new value over a vote"
        );
    }

    #[test]
    fn a_vote_on_a_page_counts_before_the_last_page_is_told() {
        let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
        tells(&mut seen, B, 3, 0, &[(1, 1, 7)]);
        let page = Page {
            floor: Slot(0),
            votes: vec![(Slot(1), ballot(2).into(), 8)],
            is_ignorant: false,
            is_last: false,
        };
        seen.told(C, ballot(3), page);
        seen.proposed(A, Slot(1), ballot(3), 8).unwrap();
    }

    #[test]
    fn what_a_leader_voted_for_alone_outranks_an_older_vote_of_another() {
        let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
        tells(&mut seen, B, 1, 0, &[]);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        tells(&mut seen, C, 2, 0, &[]);
        // Its link to the others was down: no message of ballot 2 told of slot 1.
        tells(&mut seen, B, 3, 0, &[(1, 1, 7)]);
        seen.proposed(A, Slot(1), ballot(3), 9).unwrap();
        let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
        tells(&mut seen, B, 1, 0, &[]);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        tells(&mut seen, C, 2, 0, &[]);
        tells(&mut seen, B, 4, 0, &[(1, 1, 7)]);
        // It comes when the candidate leads already, which needs no second promise.
        tells(&mut seen, C, 4, 0, &[(1, 3, 7)]);
        seen.proposed(A, Slot(1), ballot(4), 9).unwrap();
        let mut seen = PhaseOne::new(RoundQuorums::new(3, 2, 2));
        tells(&mut seen, B, 1, 0, &[]);
        seen.proposed(A, Slot(1), ballot(1), 7).unwrap();
        tells(&mut seen, B, 3, 0, &[(1, 1, 7)]);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 9).is_err(),
            "it led no ballot between"
        );
    }

    #[test]
    fn a_proposal_that_some_promises_allow_is_fine() {
        let mut seen = begun();
        tells(&mut seen, B, 3, 0, &[(1, 2, 8)]);
        tells(&mut seen, C, 3, 0, &[]);
        seen.proposed(A, Slot(1), ballot(3), 7).unwrap();
        let mut seen = begun();
        tells(&mut seen, B, 3, 0, &[(1, 1, 7)]);
        seen.proposed(A, Slot(1), ballot(3), 8).unwrap();
        seen.proposed(A, Slot(2), ballot(3), 5).unwrap();
    }

    #[test]
    fn of_all_votes_known_the_highest_must_be_proposed() {
        let mut seen = opened();
        tells(&mut seen, B, 3, 0, &[(1, 2, 8)]);
        assert!(seen.proposed(A, Slot(1), ballot(3), 7).is_err());
        let mut seen = opened();
        tells(&mut seen, B, 3, 0, &[(1, 2, 8)]);
        tells(&mut seen, C, 3, 0, &[]);
        seen.proposed(A, Slot(1), ballot(3), 7).unwrap();
        let mut seen = opened();
        tells(&mut seen, B, 3, 0, &[]);
        assert!(
            seen.proposed(A, Slot(1), ballot(3), 9).is_err(),
            "its own vote counts too"
        );
    }

    #[test]
    fn a_proposal_for_what_a_promise_told_to_be_decided_is_found() {
        let mut seen = opened();
        tells(&mut seen, B, 3, 5, &[]);
        assert!(seen.proposed(A, Slot(5), ballot(3), 9).is_err());
        let mut seen = opened();
        tells(&mut seen, B, 3, 5, &[]);
        seen.proposed(A, Slot(6), ballot(3), 9).unwrap();
    }
}
