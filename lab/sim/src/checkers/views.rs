//! Says which view governs a slot, and how many of whom decide there: computed from decided changes, and from nothing that a
//! node says of its view.
//!
//! A second opinion on the rule of ω: a change that is decided in slot `s` is in force from `s + ω` on, where ω is the window of
//! the view in force in `s`; of two changes of one view the first counts.

use std::collections::BTreeMap;

use quorate_types::{
    Level, Levels, LimitChange, NodeId, NodeSet, OrderingName, QuorumRule, Slot, ViewNumber,
};

use super::rounds::RoundQuorums;
use super::{Property, Violation};

/// The largest window that a change may ask for.
const WINDOW_MAX: u64 = 1 << 14;

/// Bytes of replies that a group keeps where nobody asked for another number, and the most that somebody may ask for.
const REPLIES_USUAL: u64 = 256 << 20;
const REPLIES_MAX: u64 = 512 << 20;

/// What is in force in the slots of one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Governing {
    /// Its first slot.
    pub first: Slot,
    /// Who belongs to the group.
    pub members: NodeSet,
    /// Who of them executes.
    pub replicas: NodeSet,
    /// Who votes.
    pub acceptors: NodeSet,
    /// How many promises make a leader.
    pub phase1: usize,
    /// How many votes decide.
    pub phase2: usize,
    /// Whether somebody asked for these numbers.
    pub wish: Wished,
    /// ω.
    pub window: u64,
    /// What every member speaks.
    pub level: Level,
    /// How commands are ordered.
    pub ordering: OrderingName,
    /// How many sessions may be open, and bytes of replies be kept, where somebody asked for another number than is usual.
    pub limits: (Option<u64>, Option<u64>),
}

impl Governing {
    /// How many acceptors confirm a read: they meet everybody who could make another leader, and, where there are fast rounds, everybody
    /// who could decide in one.
    pub fn confirm(&self) -> usize {
        let least = match self.ordering {
            OrderingName::FastPaxos => self.phase1.min(self.quorums().fast),
            _ => self.phase1,
        };
        self.acceptors.len() + 1 - least
    }

    /// Whether everybody but a quorum may be lost, and a snapshot that these hold is not. Asked where there are witnesses only.
    pub fn is_kept_by(&self, holders: NodeSet) -> bool {
        let holders = holders.iter().filter(|node| self.acceptors.contains(*node));
        let least = self.phase1.min(self.phase2);
        self.members == self.replicas || holders.count() > self.acceptors.len() - least
    }

    /// How many votes of each kind of round choose.
    pub fn quorums(&self) -> RoundQuorums {
        let least = RoundQuorums::new(self.acceptors.len(), self.phase1, self.phase2);
        match self.wish {
            Wished::Sizes { fast: Some(fast) } => RoundQuorums { fast, ..least },
            Wished::Sizes { fast: None } | Wished::Nothing => least,
        }
    }

    /// Who elects, who decides, and whether that is kept, once these acceptors vote instead: none where so many cannot.
    pub fn after(&self, acceptors: NodeSet) -> Option<(usize, usize, Wished)> {
        let (of, kept) = (acceptors.len(), (self.phase1, self.phase2, self.wish));
        match self.wish {
            _ if acceptors == self.acceptors => Some(kept),
            Wished::Nothing => Some((majority(of), majority(of), Wished::Nothing)),
            Wished::Sizes { .. } if of == self.acceptors.len() => Some(kept),
            Wished::Sizes { .. } if of < self.phase2 => None,
            Wished::Sizes { .. } => {
                let wish = Wished::Sizes { fast: None };
                Some((of + 1 - self.phase2, self.phase2, wish))
            }
        }
    }

    /// How many of its acceptors may be without a vote for ever.
    pub fn losable(&self) -> usize {
        self.acceptors.len() - self.phase1.max(self.phase2)
    }
}

/// What somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wished {
    /// Nothing: majorities.
    Nothing,
    /// Numbers of their own, and perhaps how many votes decide in fast rounds.
    Sizes {
        /// So many.
        fast: Option<usize>,
    },
}

/// What of these numbers can be, where so many vote.
fn asked(rule: QuorumRule, of: usize) -> Option<(usize, usize, Wished)> {
    let sizes = match rule {
        QuorumRule::Majority => return Some((majority(of), majority(of), Wished::Nothing)),
        QuorumRule::Sizes(sizes) => sizes,
    };
    let (one, two) = (sizes.phase1, sizes.phase2);
    let is_sound = (1..=of).contains(&one) && (1..=of).contains(&two) && one + two > of;
    let fast = sizes.fast;
    let is_clear = fast.is_none_or(|fast| (1..=of).contains(&fast) && one + 2 * fast > 2 * of);
    (is_sound && is_clear).then_some((one, two, Wished::Sizes { fast }))
}

/// The limits of a view with one changed; none where no group has that.
fn limited(
    limits: (Option<u64>, Option<u64>),
    limit: LimitChange,
    least: u64,
) -> Option<(Option<u64>, Option<u64>)> {
    match limit {
        LimitChange::Sessions(1_000_000) => Some((None, limits.1)),
        LimitChange::Sessions(count) => (1..1_000_000)
            .contains(&count)
            .then_some((Some(count), limits.1)),
        LimitChange::Replies(REPLIES_USUAL) if least <= REPLIES_USUAL => Some((limits.0, None)),
        LimitChange::Replies(bytes) => (least..=REPLIES_MAX)
            .contains(&bytes)
            .then_some((limits.0, Some(bytes))),
    }
}

/// Who joins or leaves with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nobody.
    None,
    /// This node joins.
    Joins(NodeId),
    /// This node joins and does not execute.
    JoinsAsWitness(NodeId),
    /// This node leaves.
    Leaves(NodeId),
    /// Nobody, and the group is at another level.
    Level(Level),
    /// Nobody, and commands are ordered in another way.
    Ordering(OrderingName),
    /// Nobody, and other numbers elect and decide.
    Quorums(QuorumRule),
    /// Nobody, and more or less is kept.
    Limit(LimitChange),
}

/// Who executes after a change, of those who did before.
fn replicas_after(before: NodeSet, turn: Turn) -> NodeSet {
    match turn {
        Turn::None
        | Turn::Level(_)
        | Turn::Ordering(_)
        | Turn::Quorums(_)
        | Turn::Limit(_)
        | Turn::JoinsAsWitness(_) => before,
        Turn::Joins(node) => before.iter().chain([node]).collect(),
        Turn::Leaves(node) => before.without(node),
    }
}

/// A majority of so many.
pub fn majority(of: usize) -> usize {
    of / 2 + 1
}

/// All views of a group, by what was decided.
#[derive(Debug)]
pub struct Views {
    all: BTreeMap<ViewNumber, Governing>,
    /// What the newest life of each node speaks, where builds are told apart.
    speaks: BTreeMap<NodeId, Levels>,
    /// Votes are in memory only: there nobody gets other numbers than majorities.
    pub is_in_memory: bool,
    /// Bytes of replies that one session keeps: no group keeps fewer.
    pub replies_least: u64,
}

impl Views {
    /// Those of a group that begins with `first`.
    pub fn new(first: Governing) -> Views {
        Views {
            all: BTreeMap::from([(ViewNumber(1), first)]),
            speaks: BTreeMap::new(),
            is_in_memory: false,
            replies_least: 0,
        }
    }

    /// The newest view that is decided, in force or not.
    pub fn newest(&self) -> (ViewNumber, &Governing) {
        let newest = self.all.last_key_value().expect("there is a first one");
        (*newest.0, newest.1)
    }

    /// Takes note that a change is decided in `slot`; slots are told in their order. Returns the view that it begins.
    pub fn changed(
        &mut self,
        slot: Slot,
        after: ViewNumber,
        (acceptors, window): (NodeSet, u64),
        turn: Turn,
    ) -> Option<ViewNumber> {
        let (number, current) = self.newest();
        let members = match turn {
            Turn::None | Turn::Level(_) | Turn::Ordering(_) | Turn::Quorums(_) | Turn::Limit(_) => {
                current.members
            }
            Turn::Joins(node) | Turn::JoinsAsWitness(node) if !current.members.contains(node) => {
                current.members.iter().chain([node]).collect()
            }
            Turn::Leaves(node) if current.members.contains(node) => current.members.without(node),
            Turn::Joins(_) | Turn::JoinsAsWitness(_) | Turn::Leaves(_) => return None,
        };
        let replicas = replicas_after(current.replicas, turn);
        let can_order = self.can_turn(current, turn);
        let is_current = after == number && slot >= current.first;
        let are_members = acceptors.iter().all(|node| members.contains(node));
        let has_leader = acceptors.iter().any(|node| replicas.contains(node));
        let is_possible = are_members && has_leader && (1..=WINDOW_MAX).contains(&window);
        if !is_current || !is_possible || !can_order {
            return None;
        }
        let (phase1, phase2, wish) = match turn {
            Turn::Quorums(rule) => asked(rule, acceptors.len())?,
            _ => current.after(acceptors)?,
        };
        let next = Governing {
            first: slot.plus(current.window),
            members,
            replicas,
            acceptors,
            phase1,
            phase2,
            wish,
            window,
            level: match turn {
                Turn::Level(level) => level,
                Turn::None
                | Turn::Joins(_)
                | Turn::JoinsAsWitness(_)
                | Turn::Leaves(_)
                | Turn::Ordering(_)
                | Turn::Quorums(_)
                | Turn::Limit(_) => current.level,
            },
            ordering: match turn {
                Turn::Ordering(ordering) => ordering,
                Turn::None
                | Turn::Joins(_)
                | Turn::JoinsAsWitness(_)
                | Turn::Leaves(_)
                | Turn::Level(_)
                | Turn::Quorums(_)
                | Turn::Limit(_) => current.ordering,
            },
            limits: match turn {
                Turn::Limit(limit) => limited(current.limits, limit, self.replies_least)?,
                _ => current.limits,
            },
        };
        let number = ViewNumber(number.0 + 1);
        self.all.insert(number, next);
        Some(number)
    }

    /// Whether the level of a view allows what turns it, and what the view has allows the level.
    fn can_turn(&self, current: &Governing, turn: Turn) -> bool {
        match turn {
            Turn::Level(level) => {
                let has_witnesses = current.members != current.replicas;
                let has_wish = current.wish != Wished::Nothing;
                level >= current.ordering.level()
                    && (!has_witnesses || level >= Level(22))
                    && (!has_wish || level >= Level(28))
                    && (current.limits == (None, None) || level >= Level(29))
            }
            Turn::Ordering(ordering) => current.level >= ordering.change_level(),
            Turn::JoinsAsWitness(_) => current.level >= Level(22),
            Turn::Limit(_) => current.level >= Level(29),
            Turn::Quorums(rule) => {
                let is_wish = rule != QuorumRule::Majority;
                current.level >= Level(28) && !(is_wish && self.is_in_memory)
            }
            Turn::None | Turn::Joins(_) | Turn::Leaves(_) => true,
        }
    }

    /// What is in force in a view, if that was decided.
    pub fn of(&self, view: ViewNumber) -> Option<&Governing> {
        self.all.get(&view)
    }

    /// The view that governs a slot.
    pub fn governs(&self, slot: Slot) -> ViewNumber {
        let mut begun = self.all.iter().rev().filter(|(_, view)| view.first <= slot);
        begun
            .next()
            .map_or(ViewNumber::default(), |(number, _)| *number)
    }

    /// Who executes in the view that governs a slot, and in each later one.
    pub fn replicas_since(&self, slot: Slot) -> impl Iterator<Item = NodeSet> {
        let views = self.all.range(self.governs(slot)..);
        views.map(|(_, view)| view.replicas)
    }

    /// The smallest majority of the replicas of any view: where there are witnesses, one replica less may make a smaller one.
    pub fn least_majority(&self) -> usize {
        let majorities = self.all.values().map(|view| majority(view.replicas.len()));
        majorities.min().expect("there is a first view")
    }

    /// The first slot after `of` from which on somebody who executed before does so no more.
    pub fn departure_after(&self, of: Slot) -> Option<Slot> {
        let mut pairs = self.all.values().zip(self.all.values().skip(1));
        let is_departure = |before: &Governing, after: &Governing| {
            let mut stay = before.replicas.iter();
            after.first > of && !stay.all(|node| after.replicas.contains(node))
        };
        let found = pairs.find(|(before, after)| is_departure(before, after));
        found.map(|(_, after)| after.first)
    }

    /// Takes note that a life of `node` begins which speaks this.
    pub fn speaks(&mut self, node: NodeId, speaks: Levels) {
        self.speaks.insert(node, speaks);
    }

    /// Takes note that `node` acts as an acceptor of a view: it votes, promises, or opens a ballot.
    ///
    /// # Errors
    /// [`Property::Agreement`] when it is none, or when nothing that is decided begins the view; [`Property::LevelSpoken`] when it does
    /// not speak the level of the view.
    pub fn acts(&self, node: NodeId, view: ViewNumber, act: &str) -> Result<(), Violation> {
        match self.of(view) {
            Some(governing) if governing.acceptors.contains(node) => {
                let speaks = self.speaks.get(&node);
                match speaks.filter(|speaks| !speaks.has(governing.level)) {
                    None => Ok(()),
                    Some(speaks) => Err(Violation::new(
                        Property::LevelSpoken,
                        format!(
                            "{node} {act} in view {}, which is at level {}, and speaks {speaks}",
                            view.0, governing.level
                        ),
                    )),
                }
            }
            Some(governing) => broken(format!(
                "{node} {act} in view {}, in which {:?} vote",
                view.0, governing.acceptors
            )),
            None => broken(format!(
                "{node} {act} in view {}, which no decided change begins",
                view.0
            )),
        }
    }

    /// Takes note that `node` asks for votes in a slot in a ballot of `view`.
    ///
    /// # Errors
    /// [`Property::Agreement`] when another view governs the slot.
    pub fn proposes(&self, node: NodeId, view: ViewNumber, slot: Slot) -> Result<(), Violation> {
        let governs = self.governs(slot);
        if governs == view {
            return Ok(());
        }
        broken(format!(
            "{node} proposes in {slot} in view {}; view {} governs it",
            view.0, governs.0
        ))
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Agreement, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::QuorumSizes;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const FIRST: ViewNumber = ViewNumber(1);
    const SECOND: ViewNumber = ViewNumber(2);

    /// Two members, of whom the first votes, and a window of 4 slots.
    fn begun() -> Views {
        let first = Governing {
            first: Slot(1),
            members: [A, B].into_iter().collect(),
            replicas: [A, B].into_iter().collect(),
            acceptors: NodeSet::only(A),
            phase1: 1,
            phase2: 1,
            wish: Wished::Nothing,
            window: 4,
            level: Level::UNNAMED,
            ordering: OrderingName::Paxos,
            limits: (None, None),
        };
        Views::new(first)
    }

    #[test]
    fn a_change_is_in_force_a_window_later_and_counts_with_majorities() {
        let mut views = begun();
        let both = [A, B].into_iter().collect();
        assert_eq!(
            views.changed(Slot(3), FIRST, (both, 9), Turn::None),
            Some(SECOND)
        );
        let of = views.of(SECOND).unwrap();
        assert_eq!((of.first, of.phase1, of.phase2), (Slot(7), 2, 2));
        assert_eq!(
            (views.governs(Slot(6)), views.governs(Slot(7))),
            (FIRST, SECOND)
        );
        views.proposes(A, FIRST, Slot(6)).unwrap();
        assert!(views.proposes(A, FIRST, Slot(7)).is_err());
        assert!(views.proposes(A, SECOND, Slot(6)).is_err());
    }

    #[test]
    fn the_second_change_of_a_view_and_one_before_its_time_begin_nothing() {
        let mut views = begun();
        let both: NodeSet = [A, B].into_iter().collect();
        views
            .changed(Slot(3), FIRST, (both, 9), Turn::None)
            .unwrap();
        assert_eq!(
            views.changed(Slot(4), FIRST, (NodeSet::only(B), 9), Turn::None),
            None
        );
        assert_eq!(
            views.changed(Slot(6), SECOND, (NodeSet::only(B), 9), Turn::None),
            None
        );
        assert!(
            views
                .changed(Slot(7), SECOND, (NodeSet::only(B), 9), Turn::None)
                .is_some()
        );
    }

    #[test]
    fn numbers_that_were_asked_for_follow_the_acceptors_and_meet() {
        let mut views = begun();
        let both: NodeSet = [A, B].into_iter().collect();
        let counts = |slots: NodeSet| (slots, 4);
        let sizes = |phase1, phase2| QuorumSizes {
            phase1,
            phase2,
            fast: None,
        };
        let wish = |phase1, phase2| Turn::Quorums(QuorumRule::Sizes(sizes(phase1, phase2)));
        let low = views.changed(Slot(3), FIRST, counts(both), wish(2, 1));
        assert_eq!(low, None, "below its level");
        let raised = Turn::Level(Level(28));
        views.changed(Slot(3), FIRST, counts(both), raised);
        let apart = views.changed(Slot(7), SECOND, counts(both), wish(1, 1));
        assert_eq!(apart, None, "they can miss each other");
        let asked = views.changed(Slot(7), SECOND, counts(both), wish(1, 2));
        assert_eq!(asked, Some(ViewNumber(3)));
        let alone = views.changed(
            Slot(11),
            ViewNumber(3),
            counts(NodeSet::only(A)),
            Turn::None,
        );
        assert_eq!(alone, None, "two decide, and one would be left");
    }

    #[test]
    fn nobody_outside_and_no_window_of_nothing_makes_a_view() {
        let mut views = begun();
        assert_eq!(
            views.changed(Slot(3), FIRST, (NodeSet::empty(), 9), Turn::None),
            None
        );
        let stranger = NodeSet::only(NodeId(3));
        assert_eq!(
            views.changed(Slot(3), FIRST, (stranger, 9), Turn::None),
            None
        );
        assert_eq!(
            views.changed(Slot(3), FIRST, (NodeSet::only(B), 0), Turn::None),
            None
        );
    }

    #[test]
    fn members_join_and_leave_once_and_never_while_they_vote() {
        let mut views = begun();
        let (third, a) = (NodeId(3), NodeSet::only(A));
        let leaves = |node| Turn::Leaves(node);
        assert_eq!(views.changed(Slot(3), FIRST, (a, 4), leaves(A)), None);
        assert_eq!(views.changed(Slot(3), FIRST, (a, 4), Turn::Joins(B)), None);
        assert_eq!(views.changed(Slot(3), FIRST, (a, 4), leaves(third)), None);
        let joined = views.changed(
            Slot(3),
            FIRST,
            (NodeSet::only(third), 4),
            Turn::Joins(third),
        );
        assert_eq!(joined, Some(SECOND));
        assert!(views.of(SECOND).unwrap().members.contains(third));
        let left = views.changed(Slot(7), SECOND, (NodeSet::only(third), 4), leaves(A));
        assert!(!views.of(left.unwrap()).unwrap().members.contains(A));
    }

    #[test]
    fn who_votes_in_a_view_without_being_its_acceptor_is_found() {
        let mut views = begun();
        views.acts(A, FIRST, "votes").unwrap();
        assert!(views.acts(B, FIRST, "votes").is_err());
        assert!(views.acts(B, SECOND, "votes").is_err());
        views
            .changed(Slot(3), FIRST, (NodeSet::only(B), 9), Turn::None)
            .unwrap();
        views.acts(B, SECOND, "votes").unwrap();
        assert!(views.acts(A, SECOND, "votes").is_err());
    }

    #[test]
    fn an_ordering_follows_the_level_that_it_takes_and_keeps_it() {
        let mut views = begun();
        let counts = (NodeSet::only(A), 4);
        let libpaxos = Turn::Ordering(OrderingName::Libpaxos);
        assert_eq!(views.changed(Slot(3), FIRST, counts, libpaxos), None);
        views.changed(Slot(3), FIRST, counts, Turn::Level(Level(21)));
        assert_eq!(
            views.changed(Slot(7), SECOND, counts, libpaxos),
            Some(ViewNumber(3))
        );
        let lower = Turn::Level(Level(20));
        assert_eq!(views.changed(Slot(11), ViewNumber(3), counts, lower), None);
        assert_eq!(
            views.of(ViewNumber(3)).unwrap().ordering,
            OrderingName::Libpaxos
        );
    }

    #[test]
    fn who_votes_in_a_view_whose_level_it_does_not_speak_is_found() {
        let mut views = begun();
        let level = Level(20);
        views.changed(Slot(3), FIRST, (NodeSet::only(A), 9), Turn::Level(level));
        assert_eq!(views.of(SECOND).unwrap().level, level);
        views.acts(A, SECOND, "votes").unwrap();
        views.speaks(A, Levels::UNNAMED);
        views.acts(A, FIRST, "votes").unwrap();
        assert!(views.acts(A, SECOND, "votes").is_err());
        views.speaks(A, Levels::new(Level(19), level).unwrap());
        views.acts(A, SECOND, "votes").unwrap();
    }
}
