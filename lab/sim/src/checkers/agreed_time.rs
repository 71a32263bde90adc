//! Watches the time that batches are stamped with: it stays within a bound of the median clock of all acceptors, so that clocks
//! that are wrong by years do not become the time of the group, while fewer than a majority are.
//!
//! Fed by the seeded world with the error of each acceptor's wall clock against true time, with whose clocks a node was
//! told, and with each batch when it is made. Any clock that an acceptor ever had may stand behind a stamp. A clock that is told
//! arrives late and only ever looks too slow by that, so the bound is strict for stamps ahead and wide for stamps behind.
//! A leader that cannot say where the median is, because it knows too few clocks or they differ, lets agreed time go on from the
//! latest stamp: as fast as true time, and no leap. Of a new group the first stamp is near the median of the clocks that are known.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{LinkEpoch, NodeId, NodeSet};

use super::limits::CLOCK_LATE_NS;
use super::{Property, Violation};

/// How far a stamp may be from the median.
const BOUND_NS: i64 = 1_000_000_000;

/// What boot clocks gain on each other while a told clock is carried on.
const DRIFT_NS: i64 = 50_000_000;

/// The step from one stamp to the next while agreed time stands still is no longer.
const STEP_NS: u64 = 1_000;

/// All clocks and stamps of a run.
#[derive(Debug, Default)]
pub struct AgreedTime {
    /// The smallest and the largest error that each node's clock ever had.
    errors: BTreeMap<NodeId, (i64, i64)>,
    /// Whose clocks each node was told over the links that it has.
    told: BTreeMap<NodeId, NodeSet>,
    /// The link of each node to each other one, while it stands.
    links: BTreeMap<(NodeId, NodeId), LinkEpoch>,
    stamps: BTreeSet<u64>,
    /// The latest stamp, and the true time at which it was made.
    newest: (u64, u64),
    /// The latest stamp that an acceptor voted for in a fast round, whoever proposed it.
    proposed: u64,
}

impl AgreedTime {
    /// Takes note that the wall clock of `node` is set to be `error_ns` ahead of true time.
    pub fn set(&mut self, node: NodeId, error_ns: i64) {
        let (least, most) = self.errors.entry(node).or_insert((error_ns, error_ns));
        (*least, *most) = ((*least).min(error_ns), (*most).max(error_ns));
    }

    /// Takes note that a link of `node` to `peer` stands.
    pub fn linked(&mut self, node: NodeId, peer: NodeId, link: LinkEpoch) {
        self.links.insert((node, peer), link);
    }

    /// Takes note that `node` is told the clock of `from` over a link. What comes late on one that is over does not count.
    pub fn told(&mut self, node: NodeId, from: NodeId, link: LinkEpoch) {
        if self.links.get(&(node, from)) != Some(&link) {
            return;
        }
        let told = self.told.entry(node).or_insert(NodeSet::empty());
        told.insert(from);
    }

    /// Forgets what `node` was told by `from`: their link is down.
    pub fn unlinked(&mut self, node: NodeId, from: NodeId) {
        self.links.remove(&(node, from));
        if let Some(told) = self.told.get_mut(&node) {
            told.remove(from);
        }
    }

    /// Forgets what an ended life of `node` was told.
    pub fn died(&mut self, node: NodeId) {
        self.told.remove(&node);
        self.links.retain(|(of, _), _| *of != node);
    }

    /// Takes note that somebody votes for a batch that is proposed to all acceptors: time goes on from there.
    pub fn proposed(&mut self, stamp_ns: u64) {
        self.proposed = self.proposed.max(stamp_ns);
    }

    /// Takes note that `leader` votes for a batch of its own ballot, stamped with `stamp_ns`, while true time is
    /// `true_ns`, in a view in which `acceptors` vote. A batch is judged when it is seen first.
    ///
    /// # Errors
    /// [`Property::AgreedTime`] when the clocks do not explain the stamp.
    pub fn stamped(
        &mut self,
        leader: NodeId,
        acceptors: NodeSet,
        stamp_ns: u64,
        true_ns: u64,
    ) -> Result<(), Violation> {
        let is_first = self.stamps.is_empty() && self.proposed == 0;
        let highest = self.stamps.last().copied().unwrap_or(0).max(self.proposed);
        if !self.stamps.insert(stamp_ns) {
            return Ok(());
        }
        let (newest, made_ns) = self.newest;
        self.newest = self.newest.max((stamp_ns, true_ns));
        let majority = acceptors.len() / 2 + 1;
        let errors = acceptors.iter().filter_map(|node| self.errors.get(&node));
        let (mut least, mut most): (Vec<i64>, Vec<i64>) = errors.copied().unzip();
        if least.len() < acceptors.len() {
            return Ok(());
        }
        least.sort_unstable();
        most.sort_unstable();
        let is_spread = most[most.len() - 1] - least[0] > BOUND_NS;
        // Of an even number of clocks two are in the middle.
        let (least, most) = (least[acceptors.len() - majority], most[majority - 1]);
        let error = stamp_ns as i64 - true_ns as i64;
        let told = self.told.get(&leader).copied().unwrap_or(NodeSet::empty());
        let known = acceptors
            .iter()
            .filter(|node| *node == leader || told.contains(*node));
        let mut known_least: Vec<i64> = known.map(|node| self.errors[&node].0).collect();
        known_least.sort_unstable();
        let known = known_least.len();
        let (knows_majority, knows_all) = (known >= majority, known == acceptors.len());
        let knows_middle = knows_majority && !is_spread || knows_all;
        // Agreed time never falls: after it was ahead it stands still until the clocks come up with it.
        let stands_still = stamp_ns <= highest.saturating_add(STEP_NS);
        let passed = true_ns.saturating_sub(made_ns) + DRIFT_NS.unsigned_abs();
        let goes_on = !knows_middle && stamp_ns <= newest.saturating_add(passed);
        let is_ahead = error > most + BOUND_NS + DRIFT_NS && !stands_still && !goes_on;
        // Where agreed time cannot go on it begins with the median of the clocks that are known.
        let is_begun_behind = is_first
            && knows_majority
            && error < known_least[(known - 1) / 2] - BOUND_NS - CLOCK_LATE_NS;
        let is_behind = knows_middle && error < least - BOUND_NS - CLOCK_LATE_NS || is_begun_behind;
        if !is_ahead && !is_behind {
            return Ok(());
        }
        Err(Violation::new(
            Property::AgreedTime,
            format!(
                "{leader} stamps a batch {error} ns off true time; the median clock was {least} to {most} ns off"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_NS: i64 = 365 * 24 * 3600 * 1_000_000_000;
    const NOW_NS: u64 = 50 * YEAR_NS as u64;
    const LINK: LinkEpoch = LinkEpoch(1);

    /// Three acceptors; the clock of the first is wrong by `error_ns`, and everybody was told all clocks.
    fn one_wrong(error_ns: i64) -> AgreedTime {
        let nodes = [1, 2, 3].map(NodeId);
        let mut seen = AgreedTime::default();
        for node in nodes {
            seen.set(
                node,
                if node == NodeId(1) {
                    error_ns
                } else {
                    5_000_000
                },
            );
            for from in nodes {
                seen.linked(node, from, LINK);
                seen.told(node, from, LINK);
            }
        }
        seen
    }

    fn all() -> NodeSet {
        [1, 2, 3].map(NodeId).into_iter().collect()
    }

    fn stamp(error_ns: i64) -> u64 {
        NOW_NS.saturating_add_signed(error_ns)
    }

    #[test]
    fn a_stamp_near_the_majority_is_fine_and_a_wrong_clock_is_found() {
        let mut seen = one_wrong(YEAR_NS);
        seen.stamped(NodeId(1), all(), stamp(900_000_000), NOW_NS)
            .unwrap();
        let broken = seen
            .stamped(NodeId(1), all(), stamp(YEAR_NS), NOW_NS)
            .unwrap_err();
        assert_eq!(broken.property, Property::AgreedTime);
    }

    #[test]
    fn a_stamp_behind_is_found_where_a_majority_is_known() {
        let mut seen = one_wrong(0);
        assert!(
            seen.stamped(NodeId(1), all(), stamp(-YEAR_NS), NOW_NS)
                .is_err()
        );
        seen.died(NodeId(1));
        seen.stamped(NodeId(1), all(), stamp(1 - YEAR_NS), NOW_NS)
            .unwrap();
    }

    #[test]
    fn the_first_stamp_of_all_is_near_the_median_of_the_clocks_that_are_known() {
        let five = || (1..=5).map(NodeId);
        let begins = |error_ns| {
            let mut seen = AgreedTime::default();
            for node in five() {
                let is_wrong = node == NodeId(2);
                seen.set(node, if is_wrong { -YEAR_NS } else { 0 });
            }
            for from in [2, 3].map(NodeId) {
                seen.linked(NodeId(1), from, LINK);
                seen.told(NodeId(1), from, LINK);
            }
            seen.stamped(NodeId(1), five().collect(), stamp(error_ns), NOW_NS)
        };
        begins(0).unwrap();
        assert!(begins(-YEAR_NS).is_err());
    }

    #[test]
    fn a_leap_is_found_where_few_clocks_are_known_and_time_that_goes_on_is_not() {
        let mut seen = one_wrong(YEAR_NS);
        seen.stamped(NodeId(2), all(), stamp(0), NOW_NS).unwrap();
        seen.died(NodeId(1));
        seen.linked(NodeId(1), NodeId(2), LINK);
        seen.told(NodeId(1), NodeId(2), LINK);
        let later_ns = NOW_NS + 5_000_000_000;
        let leaps = seen.stamped(NodeId(1), all(), stamp(YEAR_NS), later_ns);
        assert_eq!(leaps.unwrap_err().property, Property::AgreedTime);
        let mut seen = one_wrong(-YEAR_NS);
        seen.died(NodeId(1));
        seen.linked(NodeId(1), NodeId(2), LINK);
        seen.told(NodeId(1), NodeId(2), LINK);
        seen.stamped(
            NodeId(1),
            all(),
            stamp(4_000_000_000),
            NOW_NS + 5_000_000_000,
        )
        .unwrap();
    }

    #[test]
    fn time_goes_on_from_when_a_batch_was_made_and_not_from_when_it_is_proposed_again() {
        let mut seen = one_wrong(0);
        seen.set(NodeId(3), YEAR_NS);
        let made = stamp(3_000_000_000);
        seen.proposed(made);
        seen.stamped(NodeId(2), all(), made, NOW_NS).unwrap();
        seen.died(NodeId(1));
        let second_ns = 1_000_000_000;
        let (again_ns, next_ns) = (NOW_NS + 5 * second_ns, NOW_NS + 6 * second_ns);
        seen.stamped(NodeId(1), all(), made, again_ns).unwrap();
        let next = made + 6 * second_ns;
        seen.stamped(NodeId(1), all(), next, next_ns).unwrap();
        let leaps = seen.stamped(NodeId(1), all(), next + 2 * second_ns, next_ns + second_ns);
        assert_eq!(leaps.unwrap_err().property, Property::AgreedTime);
    }

    #[test]
    fn agreed_time_that_was_ahead_stands_still() {
        let mut seen = one_wrong(0);
        seen.set(NodeId(2), YEAR_NS);
        seen.set(NodeId(3), YEAR_NS);
        seen.stamped(NodeId(2), all(), stamp(YEAR_NS), NOW_NS)
            .unwrap();
        let mut seen = AgreedTime {
            errors: one_wrong(0).errors,
            ..seen
        };
        seen.stamped(NodeId(2), all(), stamp(YEAR_NS) + 1, NOW_NS)
            .unwrap();
        assert!(
            seen.stamped(NodeId(2), all(), stamp(2 * YEAR_NS), NOW_NS)
                .is_err()
        );
        seen.proposed(stamp(3 * YEAR_NS));
        seen.stamped(NodeId(2), all(), stamp(3 * YEAR_NS) + 1, NOW_NS)
            .unwrap();
    }
}
