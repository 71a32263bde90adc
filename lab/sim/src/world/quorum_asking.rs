//! Quorums of other sizes than majorities: asked for in a group's first view, and by the operator while it runs.
//!
//! Sizes are drawn so that those that are left without the nodes that never vote again can elect and decide; now and then
//! sizes are asked for that can miss each other, which are refused.

use super::World;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use quorate_types::{
    FastQuorums, Level, NodeSet, OrderingName, Persistence, QuorumRule, QuorumSizes, Quorums, View,
    ViewChange,
};

/// Changes of the quorums among a thousand requests for another view.
const ASKED: u64 = 180;

/// Who asks for other quorums.
#[derive(Debug, Default)]
pub(super) struct QuorumAsking {
    random: Option<Random>,
}

impl QuorumAsking {
    /// What follows from the seed.
    pub(super) fn new(setup: &Setup) -> QuorumAsking {
        let is_on = setup.pace.is_none();
        QuorumAsking {
            random: is_on.then(|| Random::new(setup.seed, "other quorums", 0)),
        }
    }

    /// The quorums that the operator asks for instead of another change, if that is one, where `lost` of the acceptors never vote again.
    fn wish(&mut self, view: &View, lost: usize) -> Option<(ViewChange, QuorumRule)> {
        let random = self.random.as_mut()?;
        let share = match view.level < Level::QUORUMS {
            true => ASKED / 10,
            false => ASKED,
        };
        if !random.chance(share) {
            return None;
        }
        let of = view.acceptors.len();
        let rule = match random.chance(200) {
            true => QuorumRule::Majority,
            false => QuorumRule::Sizes(draw_sizes(random, of, view.ordering)),
        };
        let is_borne = match rule.quorums(of) {
            Ok(quorums) => lost <= of - quorums.both(),
            Err(_) => true,
        };
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        is_borne.then_some((change, rule))
    }
}

/// Sizes for so many acceptors, as a rule ones that meet.
fn draw_sizes(random: &mut Random, of: usize, ordering: OrderingName) -> QuorumSizes {
    // Small ones leave acceptors that can be taken away.
    let most = if random.chance(500) {
        of.div_ceil(2)
    } else {
        of
    };
    let phase2 = random.between(1, most as u64) as usize;
    let spare = usize::from(random.chance(100) && phase2 > 1);
    let phase1 = of + 1 - phase2 + spare;
    let mut sizes = QuorumSizes {
        phase1,
        phase2,
        fast: None,
    };
    if random.chance(80) && phase1 > 1 {
        sizes.phase1 -= 1 + spare;
    } else if ordering == OrderingName::FastPaxos && random.chance(400) {
        sizes.fast = draw_fast(random, sizes, of);
    }
    sizes
}

fn draw_fast(random: &mut Random, sizes: QuorumSizes, of: usize) -> Option<usize> {
    let classic = Quorums::flexible(of, sizes.phase1, sizes.phase2).ok()?;
    let least = FastQuorums::least(classic).fast();
    Some(random.between(least as u64, of as u64) as usize)
}

impl Setup {
    /// Whether somebody asked for the quorums of the first view. Where nodes are of different builds, nobody can from the beginning on;
    /// in memory nobody gets them.
    pub(super) fn asks_quorums(&self) -> bool {
        let is_drawn = Random::new(self.seed, "quorums", 0).chance(700);
        is_drawn && self.persistence == Persistence::Disk && !self.draw_levels()
    }

    /// Asks for the sizes that the first view has, where they are not majorities. Of the other groups some are such that the operator may
    /// ask later.
    pub(super) fn ask_quorums(&mut self) {
        if !self.asks_quorums() {
            return;
        }
        let of = self.quorums.acceptors();
        let is_unequal = Quorums::majority(of) != Ok(self.quorums);
        let mut random = Random::new(self.seed, "first quorums", 0);
        if is_unequal {
            let mut sizes = QuorumSizes {
                phase1: self.quorums.phase1(),
                phase2: self.quorums.phase2(),
                fast: None,
            };
            if self.ordering.1 == OrderingName::FastPaxos && random.chance(300) {
                sizes.fast = draw_fast(&mut random, sizes, of);
            }
            self.quorums = Quorums::asked(of, sizes).expect("a schedule's quorums meet");
        }
        if is_unequal || random.chance(400) {
            self.ordering.0 = self.ordering.0.max(Level::QUORUMS);
        }
    }
}

impl World {
    /// The quorums that the operator asks for.
    pub(super) fn wish_for_quorums(&mut self, view: &View) -> Option<(ViewChange, QuorumRule)> {
        let maimed = self.harm.maimed.difference(&self.harm.back);
        let lost = maimed.filter(|node| view.acceptors.contains(**node));
        let lost = lost.count();
        self.harm.views.asking.wish(view, lost)
    }

    /// The quorums of these acceptors in the newest view that is in force anywhere, if they would have some.
    pub(super) fn quorums_with(&self, acceptors: NodeSet) -> Option<(usize, usize)> {
        let governing = self.judge.governing(self.harm.views.newest());
        let (phase1, phase2, _) = governing.after(acceptors)?;
        Some((phase1, phase2))
    }

    /// Counts changes of the quorums, and quorums that followed the acceptors.
    pub(super) fn note_quorums(&mut self, before: &View, view: &View) {
        let is_same = before.acceptors.len() == view.acceptors.len();
        let is_asked = view.quorums.is_asked();
        let rows = [
            (
                Row::QuorumsSet,
                is_same && is_asked && before.quorums != view.quorums,
            ),
            (
                Row::QuorumsUnset,
                is_same && !is_asked && before.quorums.is_asked(),
            ),
            (Row::QuorumsFollowed, !is_same && is_asked),
            (
                Row::FastQuorumsAsked,
                view.quorums.fast().is_some() && view.ordering == OrderingName::FastPaxos,
            ),
        ];
        for (row, _) in rows.into_iter().filter(|(_, applies)| *applies) {
            self.exercised(row);
        }
    }
}
