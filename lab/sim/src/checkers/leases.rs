//! Watches leases in true time: an acceptor that granted one promises nobody else before it has run out on its own
//! clock, over restarts too, and a leader answers under a lease no longer than enough acceptors are bound.
//!
//! Fed by the seeded world, which knows all clocks: it says in true time until when a grant binds, counted from when the
//! heartbeat that asked for it was *sent*, so that whatever an acceptor counts from is no earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use quorate_types::{Ballot, NodeId};

use super::limits::GRANTS_KEPT_NS;
use super::{Property, Violation};

/// Grants that may still bind.
#[derive(Debug, Default)]
pub struct Leases {
    /// Per acceptor and ballot of the leader, until when at least it is bound.
    bound: BTreeMap<NodeId, BTreeMap<Ballot, u64>>,
    /// Per acceptor that started again, the ballot promised before, and until when it promises none of another node: it may
    /// be bound to the leader of that ballot. It is bound to nobody else, for before it promised that ballot the grants to
    /// lower ones had run out, or the phase 1 that they would have prevented was over without it.
    started: BTreeMap<NodeId, (Ballot, u64)>,
    /// Ballots whose phase 1 is over. A promise that comes late gives their leader nothing, and leases of lower ballots have
    /// ended: somebody of each set that grants one promised only after its own grant had run out.
    led: BTreeSet<Ballot>,
}

impl Leases {
    /// Takes note that `acceptor` told the leader of `ballot`, or itself if it leads, that it is bound until `until_ns`.
    pub fn granted(&mut self, now_ns: u64, acceptor: NodeId, ballot: Ballot, until_ns: u64) {
        let grants = self.bound.entry(acceptor).or_default();
        grants.retain(|_, until| *until > now_ns.saturating_sub(GRANTS_KEPT_NS));
        let until = grants.entry(ballot).or_default();
        *until = until_ns.max(*until);
    }

    /// Takes note that `acceptor` starts again and has promised a ballot before: grants are not written down.
    pub fn started(&mut self, acceptor: NodeId, promised: Ballot, until_ns: u64) {
        self.started.insert(acceptor, (promised, until_ns));
    }

    /// Takes note that the leader of `ballot` speaks: enough acceptors have promised.
    pub fn leads(&mut self, ballot: Ballot) {
        self.led.insert(ballot);
    }

    /// Takes note that a promise of `acceptor` for `ballot` leaves it.
    ///
    /// # Errors
    /// [`Property::Lease`] when the acceptor is bound to another node with a lower ballot, or may be for all it knows.
    pub fn promised(&self, now_ns: u64, acceptor: NodeId, ballot: Ballot) -> Result<(), Violation> {
        if self.led.contains(&ballot) {
            return Ok(());
        }
        if let Some((promised, until)) = self.started.get(&acceptor)
            && ballot > *promised
            && ballot.view == promised.view
            && ballot.node != promised.node
            && now_ns < *until
            && !self.has_ended(*promised, ballot)
        {
            return broken(format!(
                "{acceptor} promises {ballot} at {now_ns} ns; it started again and may be bound until {until} ns"
            ));
        }
        let grants = self.bound.get(&acceptor).into_iter().flatten();
        let mut binding = grants
            .filter(|(to, until)| **until > now_ns && **to < ballot && to.node != ballot.node)
            .filter(|(to, _)| to.view == ballot.view)
            .filter(|(to, _)| !self.has_ended(**to, ballot));
        match binding.next() {
            None => Ok(()),
            Some((to, until)) => broken(format!(
                "{acceptor} promises {ballot} at {now_ns} ns and granted {to} a lease until {until} ns"
            )),
        }
    }

    /// Whether every lease of `granted` has ended, because somebody has led above it and below `ballot`.
    fn has_ended(&self, granted: Ballot, ballot: Ballot) -> bool {
        let between = (Bound::Excluded(granted), Bound::Excluded(ballot));
        self.led.range(between).next().is_some()
    }

    /// Takes note that the leader of `ballot` answers reads under a lease until `until_ns`, which takes `needed`
    /// acceptors besides itself.
    ///
    /// # Errors
    /// [`Property::Lease`] when fewer are bound for so long.
    pub fn served(&self, ballot: Ballot, until_ns: u64, needed: usize) -> Result<(), Violation> {
        let bound = self.bound.iter().filter(|(acceptor, grants)| {
            let until = grants.get(&ballot).copied().unwrap_or(0);
            **acceptor != ballot.node && until >= until_ns
        });
        let bound: Vec<NodeId> = bound.map(|(acceptor, _)| *acceptor).collect();
        if bound.len() >= needed {
            return Ok(());
        }
        broken(format!(
            "the leader of {ballot} answers under a lease until {until_ns} ns; of {needed} others only {bound:?} are bound for so long"
        ))
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Lease, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn ballot(round: u64, node: NodeId) -> Ballot {
        Ballot {
            view: quorate_types::ViewNumber(1),
            round,
            node,
            boot: 1,
        }
    }

    #[test]
    fn a_bound_acceptor_promises_its_leader_and_nobody_else() {
        let mut seen = Leases::default();
        seen.granted(0, B, ballot(1, A), 100);
        seen.promised(50, B, ballot(2, A)).unwrap();
        seen.promised(50, C, ballot(2, C)).unwrap();
        let early = seen.promised(99, B, ballot(2, C)).unwrap_err();
        assert_eq!(early.property, Property::Lease);
        seen.promised(100, B, ballot(2, C)).unwrap();
        seen.leads(ballot(2, C));
        seen.promised(99, B, ballot(2, C)).unwrap();
    }

    #[test]
    fn an_acceptor_that_starts_again_keeps_to_a_lease_that_it_may_have_granted() {
        let mut seen = Leases::default();
        seen.started(B, ballot(1, A), 100);
        seen.promised(50, B, ballot(1, A)).unwrap();
        assert!(seen.promised(99, B, ballot(2, C)).is_err());
        seen.promised(99, B, ballot(2, A)).unwrap();
        seen.promised(100, B, ballot(2, C)).unwrap();
    }

    #[test]
    fn a_lease_binds_nobody_once_somebody_else_has_led_above_it() {
        let mut seen = Leases::default();
        seen.started(B, ballot(1, A), 100);
        seen.granted(0, C, ballot(1, A), 100);
        seen.leads(ballot(1, A));
        assert!(seen.promised(50, B, ballot(3, C)).is_err());
        assert!(seen.promised(50, C, ballot(3, B)).is_err());
        seen.leads(ballot(2, C));
        seen.promised(50, B, ballot(3, C)).unwrap();
        seen.promised(50, C, ballot(3, B)).unwrap();
    }

    #[test]
    fn an_answer_beyond_what_enough_acceptors_granted_is_found() {
        let mut seen = Leases::default();
        seen.granted(0, B, ballot(1, A), 100);
        seen.granted(0, A, ballot(1, A), 500);
        seen.served(ballot(1, A), 100, 1).unwrap();
        assert!(seen.served(ballot(1, A), 101, 1).is_err());
        assert!(
            seen.served(ballot(1, A), 100, 2).is_err(),
            "its own grant is not another's"
        );
        assert!(
            seen.served(ballot(2, A), 50, 1).is_err(),
            "a lease belongs to its ballot"
        );
    }
}
