//! Watches reads that are not in the log: each is confirmed by enough acceptors, in a round that was opened after the
//! read had arrived, and its barrier covers everything that was decided anywhere before it arrived.
//!
//! Fed by the seeded world with the rounds as their messages leave and with what an ordering is asked and answers. It
//! finds a read that could be stale whether or not the value it returned happened to be.

use std::collections::{BTreeMap, VecDeque};

use quorate_types::{Ballot, BroadcastId, NodeId, NodeSet, Slot, ViewNumber};

use super::announcements::Announcements;
use super::limits::ROUNDS_MAX;
use super::{Property, Violation};

/// One read of one life of a node.
pub type ReadKey = (NodeId, u64, u64);

/// Turns in which later reads are confirmed until an earlier one counts as left behind: a lost message delays any.
const TURNS_MIN: u64 = 3;

/// Rounds and reads under way.
#[derive(Debug, Default)]
pub struct Confirmations {
    /// In the order of their opening.
    rounds: VecDeque<Round>,
    reads: BTreeMap<ReadKey, Arrived>,
    /// Those that clients announce.
    pub announced: Announcements,
    terms: BTreeMap<NodeId, Term>,
}

/// What a leader did for its own reads since it began.
#[derive(Debug)]
struct Term {
    ballot: Ballot,
    began_ns: u64,
    /// When a read that was asked since had its round first.
    confirmed_ns: Option<u64>,
    /// In how many turns one had.
    turns: u64,
}

#[derive(Debug)]
struct Round {
    ballot: Ballot,
    number: u64,
    opened_ns: u64,
    by: NodeSet,
}

#[derive(Debug)]
struct Arrived {
    at_ns: u64,
    decided: Slot,
    /// Its name, if its client announces it.
    name: Option<BroadcastId>,
}

/// What a read's barrier rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A round of a ballot of this view that so many acceptors besides the leader confirm.
    Round(ViewNumber, usize),
    /// A lease, which is judged elsewhere.
    Lease,
}

impl Confirmations {
    /// Takes note that a leader asks for confirmations of round `number`, for the first time or again.
    pub fn opened(&mut self, now_ns: u64, ballot: Ballot, number: u64) {
        if self.round(ballot, number).is_some() {
            return;
        }
        if self.rounds.len() == ROUNDS_MAX {
            self.rounds.pop_front();
        }
        self.rounds.push_back(Round {
            ballot,
            number,
            opened_ns: now_ns,
            by: NodeSet::empty(),
        });
    }

    /// Takes note that a confirmation of `acceptor` leaves it.
    pub fn confirmed(&mut self, acceptor: NodeId, ballot: Ballot, number: u64) {
        if let Some(round) = self.round(ballot, number) {
            round.by.insert(acceptor);
        }
    }

    fn round(&mut self, ballot: Ballot, number: u64) -> Option<&mut Round> {
        let mut rounds = self.rounds.iter_mut().rev();
        rounds.find(|round| round.ballot == ballot && round.number == number)
    }

    /// Takes note that an ordering is asked for the barrier of a read; slots up to `decided` are decided somewhere. A read with a `name`
    /// may be attested since its client announced it: it need not reflect what was decided after that.
    pub fn arrived(
        &mut self,
        now_ns: u64,
        read: ReadKey,
        name: Option<BroadcastId>,
        decided: Slot,
    ) {
        let arrived = Arrived {
            at_ns: now_ns,
            decided: name
                .and_then(|name| self.announced.decided(name))
                .unwrap_or(decided),
            name,
        };
        self.reads.insert(read, arrived);
    }

    /// Takes note that `node` leads in `ballot`, or does not lead, after a turn in which reads had their rounds that arrived at
    /// `answered`. What had waited for its predecessor must not wait on where later reads are confirmed again and again.
    ///
    /// # Errors
    /// [`Property::ReadConfirmed`] when a read waits for longer than `within_ns` since.
    pub fn led(
        &mut self,
        now_ns: u64,
        node: NodeId,
        ballot: Option<Ballot>,
        answered: &[u64],
        within_ns: u64,
    ) -> Result<(), Violation> {
        let Some(ballot) = ballot else {
            self.terms.remove(&node);
            return Ok(());
        };
        let new = || Term {
            ballot,
            began_ns: now_ns,
            confirmed_ns: None,
            turns: 0,
        };
        let term = self.terms.entry(node).or_insert_with(new);
        if term.ballot != ballot {
            *term = new();
        }
        if answered.iter().all(|at_ns| *at_ns <= term.began_ns) {
            return Ok(());
        }
        let since = *term.confirmed_ns.get_or_insert(now_ns);
        term.turns += 1;
        if term.turns < TURNS_MIN || now_ns - since <= within_ns {
            return Ok(());
        }
        let began_ns = term.began_ns;
        let mut own = self.reads.range((node, 0, 0)..=(node, u64::MAX, u64::MAX));
        match own.find(|(_, read)| read.at_ns < began_ns) {
            None => Ok(()),
            Some(((.., number), read)) => broken(format!(
                "read {number} of {node} arrived at {} ns, {node} leads since {began_ns} ns and confirms later ones since {since} ns",
                read.at_ns
            )),
        }
    }

    /// When a read arrived that waits, and that a round has to confirm.
    pub fn arrived_at(&self, read: ReadKey) -> Option<u64> {
        let read = self.reads.get(&read)?;
        read.name.is_none().then_some(read.at_ns)
    }

    /// Takes note that nobody waits for the barrier of a read any more.
    pub fn given_up(&mut self, read: ReadKey) {
        self.reads.remove(&read);
    }

    /// Takes note that a read has its barrier.
    ///
    /// # Errors
    /// [`Property::ReadConfirmed`] when no round of its time is confirmed by enough acceptors, or when the barrier leaves
    /// out a slot that was decided before the read arrived.
    pub fn answered(
        &mut self,
        read: ReadKey,
        barrier: Slot,
        basis: Basis,
    ) -> Result<(), Violation> {
        let (node, _, number) = read;
        let Some(arrived) = self.reads.remove(&read) else {
            return broken(format!(
                "read {number} of {node} has a barrier and was never asked for"
            ));
        };
        if barrier < arrived.decided {
            return broken(format!(
                "read {number} of {node} has the barrier {barrier}; {} was decided before it arrived",
                arrived.decided
            ));
        }
        let Basis::Round(view, needed) = basis else {
            return Ok(());
        };
        let own = (node, view);
        if let Some(name) = arrived.name
            && self.announced.is_attested(name, own, needed)
        {
            return Ok(());
        }
        let after = self.rounds.iter().rev();
        let after = after.take_while(|round| round.opened_ns >= arrived.at_ns);
        let mut after = after.filter(|round| round.ballot.view == view);
        let is_confirmed =
            needed == 0 || after.any(|round| round.by.without(round.ballot.node).len() >= needed);
        if is_confirmed {
            return Ok(());
        }
        broken(format!(
            "read {number} of {node} arrived at {} ns and is answered; no later round was confirmed by {needed} others",
            arrived.at_ns
        ))
    }

    /// Forgets the reads of an ended life of `node`.
    pub fn died(&mut self, node: NodeId) {
        self.reads.retain(|(owner, ..), _| *owner != node);
        self.terms.remove(&node);
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::ReadConfirmed, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const VIEW: ViewNumber = ViewNumber(1);
    const BALLOT: Ballot = Ballot {
        view: VIEW,
        round: 1,
        node: A,
        boot: 1,
    };
    const READ: ReadKey = (A, 1, 9);

    fn asked_at(at_ns: u64) -> Confirmations {
        let mut seen = Confirmations::default();
        seen.opened(5, BALLOT, 1);
        seen.arrived(at_ns, READ, None, Slot(7));
        seen
    }

    #[test]
    fn a_read_confirmed_by_enough_in_a_round_of_its_time_is_fine() {
        let mut seen = asked_at(5);
        seen.confirmed(A, BALLOT, 1);
        seen.confirmed(B, BALLOT, 1);
        seen.answered(READ, Slot(7), Basis::Round(VIEW, 1)).unwrap();
    }

    #[test]
    fn a_read_that_joined_an_earlier_round_is_found() {
        let mut seen = asked_at(6);
        seen.confirmed(B, BALLOT, 1);
        let reused = seen
            .answered(READ, Slot(7), Basis::Round(VIEW, 1))
            .unwrap_err();
        assert_eq!(reused.property, Property::ReadConfirmed);
    }

    #[test]
    fn a_round_confirmed_by_one_too_few_is_found() {
        let mut seen = asked_at(5);
        seen.confirmed(B, BALLOT, 1);
        seen.confirmed(B, BALLOT, 1);
        seen.confirmed(A, BALLOT, 1);
        assert!(seen.answered(READ, Slot(7), Basis::Round(VIEW, 2)).is_err());
    }

    #[test]
    fn a_round_of_another_view_confirms_nothing() {
        let mut seen = asked_at(5);
        seen.confirmed(B, BALLOT, 1);
        let next = Basis::Round(ViewNumber(2), 1);
        assert!(seen.answered(READ, Slot(7), next).is_err());
    }

    #[test]
    fn a_barrier_below_what_was_decided_is_found_under_a_lease_too() {
        assert!(asked_at(5).answered(READ, Slot(6), Basis::Lease).is_err());
        asked_at(5).answered(READ, Slot(7), Basis::Lease).unwrap();
    }

    #[test]
    fn a_read_of_an_ended_life_is_not_answered_by_the_next() {
        let mut seen = asked_at(5);
        seen.died(A);
        assert!(seen.answered(READ, Slot(9), Basis::Lease).is_err());
    }
}
