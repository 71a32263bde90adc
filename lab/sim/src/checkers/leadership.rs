//! Watches who leads: a leader that hears too few steps down in time, and while a majority is healthy and connected
//! somebody leads soon. Once it has a leader of its own, hardly anybody else tries, and slots get decided.
//!
//! Fed by the seeded world, which knows who is healthy and who heard whom. Trusts a node's own status for nothing but
//! the claim to lead.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{Ballot, NodeId, NodeSet, Slot};

use super::{Property, Violation};

/// What a group promises.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A leader that heard no quorum within this no longer leads.
    pub alone_ns: u64,
    /// A healthy majority is without a leader no longer than this.
    pub leaderless_ns: u64,
    /// One that has a leader of its own, and commands that wait, decides something within this.
    pub idle_ns: u64,
    /// So many ballots are opened at most while a majority is healthy and has had a leader of its own.
    pub elections: u64,
}

/// A majority that is healthy and connected.
#[derive(Clone, Copy, Debug)]
pub struct Majority {
    /// Who.
    pub nodes: NodeSet,
    /// A number that changes when its nodes or links were anything else in between.
    pub health: u64,
    /// Somebody leads whom it can reach.
    pub is_led: bool,
    /// One of them leads.
    pub leads_itself: bool,
    /// Commands wait at one of them for their decision.
    pub has_work: bool,
}

/// What is known of a majority while its health lasts.
#[derive(Clone, Copy, Debug)]
struct Health {
    number: u64,
    /// Since when nobody leads.
    leaderless_ns: u64,
    /// How many ballots had been opened when it had a leader of its own first.
    opened: Option<u64>,
    /// Since when nothing is decided though one of them leads and commands wait.
    idle_ns: u64,
}

/// What was heard, and since when what lasts.
#[derive(Debug)]
pub struct Leadership {
    bounds: Bounds,
    /// Ballots that were opened.
    opened: BTreeSet<Ballot>,
    /// The last slot that was decided anywhere.
    decided: Slot,
    /// When a node last heard another one.
    heard: BTreeMap<(NodeId, NodeId), u64>,
    /// The ballot in which a node leads, and since when.
    leads: BTreeMap<NodeId, (Ballot, u64)>,
    /// Majorities that are healthy.
    healthy: BTreeMap<NodeSet, Health>,
    longest_ns: u64,
    /// Ballots whose leader has learned that another value than its own was decided, and when.
    superseded: BTreeMap<Ballot, u64>,
}

impl Leadership {
    /// States the bounds.
    pub fn new(bounds: Bounds) -> Leadership {
        Leadership {
            bounds,
            opened: BTreeSet::new(),
            decided: Slot::ZERO,
            heard: BTreeMap::new(),
            leads: BTreeMap::new(),
            healthy: BTreeMap::new(),
            longest_ns: 0,
            superseded: BTreeMap::new(),
        }
    }

    /// Takes note that whoever leads is about to open a higher ballot of its own, as one does whose fast rounds end: nobody else was
    /// to be elected.
    pub fn renews(&mut self, ballot: Ballot) {
        if let Some(newest) = self.opened.last().copied()
            && (newest.view, newest.node) == (ballot.view, ballot.node)
            && newest < ballot
        {
            self.opened.remove(&newest);
        }
    }

    /// Takes note that somebody opens `ballot`.
    pub fn opened(&mut self, ballot: Ballot) {
        let newest = self.opened.last().map(|newest| newest.view);
        if newest.is_some_and(|newest| newest < ballot.view) {
            // Each view finds its own leader.
            self.opened.clear();
            for health in self.healthy.values_mut() {
                health.opened = None;
            }
        }
        if newest.is_none_or(|newest| newest <= ballot.view) {
            self.opened.insert(ballot);
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

    /// Takes note that `node` handles a message of `from`.
    pub fn heard(&mut self, now_ns: u64, node: NodeId, from: NodeId) {
        self.heard.insert((node, from), now_ns);
    }

    /// Takes note that `node` claims to lead in `ballot`, or not to lead, by a clock that it read at `now_ns`: a process
    /// that stands still cannot know how long. It needs to hear `needed` others of `acceptors`.
    ///
    /// # Errors
    /// [`Property::StepDown`] when it has not heard that many for too long.
    pub fn claims(
        &mut self,
        now_ns: u64,
        node: NodeId,
        ballot: Option<Ballot>,
        (acceptors, needed): (NodeSet, usize),
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
        let is_recent = |at_ns: u64| now_ns.saturating_sub(at_ns) <= self.bounds.alone_ns;
        let of_node = (node, NodeId(0))..=(node, NodeId(u16::MAX));
        let heard = self.heard.range(of_node);
        let heard = heard.filter(|((_, from), _)| acceptors.contains(*from));
        let heard = heard.filter(|(_, at_ns)| is_recent(**at_ns)).count();
        if heard >= needed || is_recent(since_ns) {
            return Ok(());
        }
        Err(Violation::new(
            Property::StepDown,
            format!(
                "{node} leads in {ballot} since {since_ns} ns; at {now_ns} ns it has heard {heard} of {needed} others for {} ns",
                self.bounds.alone_ns
            ),
        ))
    }

    /// Forgets what an ended life of `node` heard and claimed.
    pub fn died(&mut self, node: NodeId) {
        self.leads.remove(&node);
        self.heard.retain(|(owner, _), _| *owner != node);
    }

    /// Looks at the majorities that are healthy and connected at this moment; slots up to `decided` are decided.
    ///
    /// # Errors
    /// [`Property::Election`] when one of them has been without a leader for too long, or somebody has opened too many
    /// ballots since it had one, and [`Property::Progress`] when it has decided nothing for too long.
    pub fn looked(
        &mut self,
        now_ns: u64,
        majorities: &[Majority],
        decided: Slot,
    ) -> Result<(), Violation> {
        let moved = std::mem::replace(&mut self.decided, decided) != decided;
        let before = std::mem::take(&mut self.healthy);
        for majority in majorities {
            let known = before.get(&majority.nodes);
            let known = known.filter(|health| health.number == majority.health);
            let health = self.continued(now_ns, majority, known.copied(), moved);
            self.healthy.insert(majority.nodes, health);
            self.longest_ns = self.longest_ns.max(now_ns - health.leaderless_ns);
            self.judge(now_ns, majority.nodes, health)?;
        }
        Ok(())
    }

    fn continued(
        &self,
        now_ns: u64,
        majority: &Majority,
        known: Option<Health>,
        moved: bool,
    ) -> Health {
        let opened = self.opened.len() as u64;
        let health = known.unwrap_or(Health {
            number: majority.health,
            leaderless_ns: now_ns,
            opened: None,
            idle_ns: now_ns,
        });
        let is_idle = majority.leads_itself && majority.has_work && !moved;
        Health {
            leaderless_ns: if majority.is_led {
                now_ns
            } else {
                health.leaderless_ns
            },
            opened: health.opened.or(majority.leads_itself.then_some(opened)),
            idle_ns: if is_idle { health.idle_ns } else { now_ns },
            ..health
        }
    }

    fn judge(&self, now_ns: u64, nodes: NodeSet, health: Health) -> Result<(), Violation> {
        let since_ns = health.leaderless_ns;
        if now_ns - since_ns > self.bounds.leaderless_ns {
            return Err(Violation::new(
                Property::Election,
                format!(
                    "{nodes:?} are healthy and connected and nobody leads since {since_ns} ns; it is {now_ns} ns"
                ),
            ));
        }
        let opened = self.opened.len() as u64 - health.opened.unwrap_or(self.opened.len() as u64);
        if opened > self.bounds.elections {
            return Err(Violation::new(
                Property::Election,
                format!(
                    "{nodes:?} are healthy and connected and had a leader; {opened} ballots were opened since, the last is {:?}",
                    self.opened.last()
                ),
            ));
        }
        if now_ns - health.idle_ns > self.bounds.idle_ns {
            return Err(Violation::new(
                Property::Progress,
                format!(
                    "{nodes:?} are healthy and connected and one of them leads; commands wait and nothing is decided after {} since {} ns; it is {now_ns} ns",
                    self.decided, health.idle_ns
                ),
            ));
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
    const BOUNDS: Bounds = Bounds {
        alone_ns: 10,
        leaderless_ns: 100,
        idle_ns: 50,
        elections: 1,
    };
    const BALLOT: Ballot = Ballot {
        view: quorate_types::ViewNumber(1),
        round: 1,
        node: A,
        boot: 1,
    };

    #[test]
    fn a_leader_that_hears_nobody_has_to_step_down_in_time() {
        let mut seen = Leadership::new(BOUNDS);
        seen.claims(0, A, Some(BALLOT), (NodeSet::only(B), 1))
            .unwrap();
        seen.heard(5, A, B);
        seen.claims(15, A, Some(BALLOT), (NodeSet::only(B), 1))
            .unwrap();
        let alone = seen
            .claims(16, A, Some(BALLOT), (NodeSet::only(B), 1))
            .unwrap_err();
        assert_eq!(alone.property, Property::StepDown);
        seen.claims(16, A, None, (NodeSet::only(B), 1)).unwrap();
    }

    #[test]
    fn a_leader_that_was_superseded_and_speaks_is_found() {
        let mut seen = Leadership::new(BOUNDS);
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
        let mut seen = Leadership::new(BOUNDS);
        seen.claims(0, A, Some(BALLOT), (NodeSet::only(B), 1))
            .unwrap();
        let next = BALLOT.next(BALLOT.view, A, 1);
        seen.claims(20, A, Some(next), (NodeSet::only(B), 1))
            .unwrap();
        seen.claims(29, A, Some(next), (NodeSet::only(B), 1))
            .unwrap();
        seen.died(A);
        seen.claims(40, A, Some(next), (NodeSet::only(B), 1))
            .unwrap();
        assert!(
            seen.claims(51, A, Some(next), (NodeSet::only(B), 1))
                .is_err()
        );
    }

    fn majority(health: u64, is_led: bool) -> Majority {
        Majority {
            nodes: [A, B].into_iter().collect(),
            health,
            is_led,
            leads_itself: is_led,
            has_work: true,
        }
    }

    #[test]
    fn a_healthy_majority_without_a_leader_is_found_and_an_ailing_one_is_not() {
        let mut seen = Leadership::new(BOUNDS);
        let mut look = |now_ns, majorities: &[Majority]| {
            let decided = Slot(now_ns);
            seen.looked(now_ns, majorities, decided)
        };
        look(0, &[majority(1, false)]).unwrap();
        look(100, &[majority(1, false)]).unwrap();
        let late = look(101, &[majority(1, false)]).unwrap_err();
        assert_eq!(late.property, Property::Election);
        look(102, &[majority(2, false)]).unwrap();
        look(190, &[majority(2, true)]).unwrap();
        look(203, &[majority(2, false)]).unwrap();
        look(250, &[]).unwrap();
        look(300, &[majority(2, false)]).unwrap();
        look(400, &[majority(2, false)]).unwrap();
        assert_eq!(seen.longest_ns(), 101);
    }

    #[test]
    fn ballots_opened_again_and_again_beside_a_healthy_leader_are_found() {
        let mut seen = Leadership::new(BOUNDS);
        seen.opened(BALLOT);
        seen.looked(0, &[majority(1, true)], Slot(0)).unwrap();
        let second = BALLOT.next(BALLOT.view, A, 1);
        seen.opened(second);
        seen.looked(1, &[majority(1, true)], Slot(1)).unwrap();
        seen.opened(second.next(BALLOT.view, A, 1));
        let flapping = seen.looked(2, &[majority(1, true)], Slot(2)).unwrap_err();
        assert_eq!(flapping.property, Property::Election);
        seen.looked(3, &[majority(2, true)], Slot(3)).unwrap();
    }

    #[test]
    fn a_healthy_leader_that_decides_nothing_while_commands_wait_is_found() {
        let mut seen = Leadership::new(BOUNDS);
        let resting = Majority {
            has_work: false,
            ..majority(1, true)
        };
        seen.looked(0, &[majority(1, true)], Slot(1)).unwrap();
        seen.looked(50, &[majority(1, true)], Slot(1)).unwrap();
        seen.looked(60, &[resting], Slot(1)).unwrap();
        seen.looked(110, &[majority(1, true)], Slot(1)).unwrap();
        seen.looked(120, &[majority(1, true)], Slot(2)).unwrap();
        seen.looked(170, &[majority(1, true)], Slot(2)).unwrap();
        let stuck = seen.looked(171, &[majority(1, true)], Slot(2)).unwrap_err();
        assert_eq!(stuck.property, Property::Progress);
    }
}
