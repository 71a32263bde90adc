//! Watches who leads: a leader that hears too few steps down in time, and while a majority is healthy and connected
//! somebody leads soon.
//!
//! Fed by the seeded world, which knows who is healthy and who heard whom. Trusts a node's own status for nothing but
//! the claim to lead.

use std::collections::BTreeMap;

use quorate_types::{Ballot, NodeId, NodeSet};

use super::{Property, Violation};

/// What was heard, and since when what lasts.
#[derive(Debug)]
pub struct Leadership {
    /// A leader that heard no quorum within this no longer leads.
    alone_ns: u64,
    /// A healthy majority is without a leader no longer than this.
    leaderless_ns: u64,
    /// When a node last heard an acceptor.
    heard: BTreeMap<(NodeId, NodeId), u64>,
    /// The ballot in which a node leads, and since when.
    leads: BTreeMap<NodeId, (Ballot, u64)>,
    /// Majorities that are healthy, with what tells their health apart, and since when each has no leader.
    healthy: BTreeMap<NodeSet, (u64, u64)>,
    longest_ns: u64,
    /// Ballots whose leader has learned that another value than its own was decided, and when.
    superseded: BTreeMap<Ballot, u64>,
}

impl Leadership {
    /// States both bounds.
    pub fn new(alone_ns: u64, leaderless_ns: u64) -> Leadership {
        Leadership {
            alone_ns,
            leaderless_ns,
            heard: BTreeMap::new(),
            leads: BTreeMap::new(),
            healthy: BTreeMap::new(),
            longest_ns: 0,
            superseded: BTreeMap::new(),
        }
    }

    /// Takes note that the leader of `ballot` learns that another value is decided where it had proposed one.
    pub fn superseded(&mut self, now_ns: u64, ballot: Ballot) {
        self.superseded.entry(ballot).or_insert(now_ns);
    }

    /// Takes note that `node` speaks as the leader of `ballot`.
    ///
    /// # Errors
    /// [`Property::StepDown`] when it has learned before that it was superseded.
    pub fn spoke(&self, now_ns: u64, node: NodeId, ballot: Ballot) -> Result<(), Violation> {
        match self.superseded.get(&ballot) {
            Some(since_ns) if now_ns > *since_ns => Err(Violation::new(
                Property::StepDown,
                format!(
                    "{node} speaks as the leader of {ballot} at {now_ns} ns; at {since_ns} ns it learned that another value was decided for a slot of its own"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes note that `node` handles a message of the acceptor `from`.
    pub fn heard(&mut self, now_ns: u64, node: NodeId, from: NodeId) {
        self.heard.insert((node, from), now_ns);
    }

    /// Takes note that `node` claims to lead in `ballot`, or not to lead, by a clock that it read at `now_ns`: a process
    /// that stands still cannot know how long. It needs to hear `needed` others.
    ///
    /// # Errors
    /// [`Property::StepDown`] when it has not heard that many for too long.
    pub fn claims(
        &mut self,
        now_ns: u64,
        node: NodeId,
        ballot: Option<Ballot>,
        needed: usize,
    ) -> Result<(), Violation> {
        let Some(ballot) = ballot else {
            self.leads.remove(&node);
            return Ok(());
        };
        let (known, since_ns) = *self.leads.entry(node).or_insert((ballot, now_ns));
        if known != ballot {
            self.leads.insert(node, (ballot, now_ns));
            return Ok(());
        }
        let is_recent = |at_ns: u64| now_ns.saturating_sub(at_ns) <= self.alone_ns;
        let of_node = (node, NodeId(0))..=(node, NodeId(u16::MAX));
        let heard = self.heard.range(of_node);
        let heard = heard.filter(|(_, at_ns)| is_recent(**at_ns)).count();
        if heard >= needed || is_recent(since_ns) {
            return Ok(());
        }
        Err(Violation::new(
            Property::StepDown,
            format!(
                "{node} leads in {ballot} since {since_ns} ns; at {now_ns} ns it has heard {heard} of {needed} others for {} ns",
                self.alone_ns
            ),
        ))
    }

    /// Forgets what an ended life of `node` heard and claimed.
    pub fn died(&mut self, node: NodeId) {
        self.leads.remove(&node);
        self.heard.retain(|(owner, _), _| *owner != node);
    }

    /// Looks at the majorities that are healthy and connected at this moment: each with a number that changes when its
    /// nodes or links were anything else in between, and whether somebody leads whom it can reach.
    ///
    /// # Errors
    /// [`Property::Election`] when one of them has been without a leader for too long.
    pub fn looked(
        &mut self,
        now_ns: u64,
        majorities: &[(NodeSet, u64, bool)],
    ) -> Result<(), Violation> {
        let before = std::mem::take(&mut self.healthy);
        for (nodes, health, is_led) in majorities {
            let since_ns = match before.get(nodes) {
                Some((same, since_ns)) if same == health && !is_led => *since_ns,
                Some(_) | None => now_ns,
            };
            self.healthy.insert(*nodes, (*health, since_ns));
            let span_ns = now_ns - since_ns;
            self.longest_ns = self.longest_ns.max(span_ns);
            if span_ns > self.leaderless_ns {
                return Err(Violation::new(
                    Property::Election,
                    format!(
                        "{nodes:?} are healthy and connected and nobody leads since {since_ns} ns; it is {now_ns} ns"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The longest time that a healthy majority was without a leader.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const BALLOT: Ballot = Ballot {
        view: quorate_types::ViewNumber(1),
        round: 1,
        node: A,
        boot: 1,
    };

    #[test]
    fn a_leader_that_hears_nobody_has_to_step_down_in_time() {
        let mut seen = Leadership::new(10, 100);
        seen.claims(0, A, Some(BALLOT), 1).unwrap();
        seen.heard(5, A, B);
        seen.claims(15, A, Some(BALLOT), 1).unwrap();
        let alone = seen.claims(16, A, Some(BALLOT), 1).unwrap_err();
        assert_eq!(alone.property, Property::StepDown);
        seen.claims(16, A, None, 1).unwrap();
    }

    #[test]
    fn a_leader_that_was_superseded_and_speaks_is_found() {
        let mut seen = Leadership::new(10, 100);
        seen.superseded(5, BALLOT);
        seen.spoke(5, A, BALLOT).unwrap();
        assert_eq!(
            seen.spoke(6, A, BALLOT).unwrap_err().property,
            Property::StepDown
        );
        seen.spoke(6, A, BALLOT.next(BALLOT.view, A, 1)).unwrap();
    }

    #[test]
    fn a_new_ballot_and_a_new_life_have_their_time() {
        let mut seen = Leadership::new(10, 100);
        seen.claims(0, A, Some(BALLOT), 1).unwrap();
        let next = BALLOT.next(BALLOT.view, A, 1);
        seen.claims(20, A, Some(next), 1).unwrap();
        seen.claims(29, A, Some(next), 1).unwrap();
        seen.died(A);
        seen.claims(40, A, Some(next), 1).unwrap();
        assert!(seen.claims(51, A, Some(next), 1).is_err());
    }

    #[test]
    fn a_healthy_majority_without_a_leader_is_found_and_an_ailing_one_is_not() {
        let both: NodeSet = [A, B].into_iter().collect();
        let mut seen = Leadership::new(10, 100);
        seen.looked(0, &[(both, 1, false)]).unwrap();
        seen.looked(100, &[(both, 1, false)]).unwrap();
        let late = seen.looked(101, &[(both, 1, false)]).unwrap_err();
        assert_eq!(late.property, Property::Election);
        seen.looked(102, &[(both, 2, false)]).unwrap();
        seen.looked(190, &[(both, 2, true)]).unwrap();
        seen.looked(203, &[(both, 2, false)]).unwrap();
        seen.looked(250, &[]).unwrap();
        seen.looked(300, &[(both, 2, false)]).unwrap();
        seen.looked(400, &[(both, 2, false)]).unwrap();
        assert_eq!(seen.longest_ns(), 101);
    }
}
