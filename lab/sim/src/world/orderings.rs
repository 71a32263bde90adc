//! How the commands of a run are ordered: drawn for its first view, and switched by the operator while it runs.
//!
//! Where nodes are of different builds, the first view names no ordering, and the operator is refused below the level that it takes.

use super::World;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use crate::checkers::Property;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Hears;
use quorate_ordering::{Flow, ProposalReach};
use quorate_replica::PeerMessage;
use quorate_types::{Duration, Level, NodeId, NodeSet, OrderingName, View, ViewChange};

/// Switches among a thousand requests for another view.
const SWITCHES: u64 = 400;

/// Who asks for another ordering.
#[derive(Debug, Default)]
pub(super) struct Switching {
    random: Option<Random>,
}

impl Switching {
    /// What follows from the seed.
    pub(super) fn new(seed: u64) -> Switching {
        Switching {
            random: Some(Random::new(seed, "switches", 0)),
        }
    }

    /// The switch that the operator asks for instead of another change, if that is one. Now and then of a view that does not allow it,
    /// or to what it is.
    pub(super) fn wish(&mut self, view: &View) -> Option<(ViewChange, OrderingName)> {
        let random = self.random.as_mut()?;
        let share = if view.level < Level::ORDERINGS {
            SWITCHES / 8
        } else {
            SWITCHES
        };
        let ordering = random
            .chance(share)
            .then(|| *random.pick(&OrderingName::ALL));
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        ordering.map(|ordering| (change, ordering))
    }
}

impl Setup {
    /// How long the steps are of a leader that spares slow acceptors.
    pub(super) fn draw_steps(&mut self) {
        let mut random = Random::new(self.seed, "steps", 0);
        self.limits.step_first_slots = *random.pick(&[0, 1, 2, 8]);
        self.limits.step_slots = self.limits.step_first_slots + random.between(1, 60);
    }

    /// Whether leaders do not do as usual: in a quarter of the runs.
    pub(super) fn draws_policies(&self) -> bool {
        Random::new(self.seed, "policies", 0).chance(250)
    }

    /// Has leaders ask the nearest majority, send again without credit what is not acknowledged, or both.
    pub(super) fn draw_policies(&mut self) {
        let mut random = Random::new(self.seed, "policy", 0);
        let is_near = random.chance(600);
        if is_near {
            self.limits.reach = ProposalReach::Nearest;
        }
        if !is_near || random.chance(400) {
            let patience = *random.pick(&[5, 30, 100, 300]);
            self.limits.flow = Flow::Retry(Duration::from_millis(patience));
        }
    }

    /// The level of the first view, and its ordering, which may be wished for: half of the groups are from before there were several.
    pub(super) fn draw_ordering(&self, wished: Option<OrderingName>) -> (Level, OrderingName) {
        let mut random = Random::new(self.seed, "ordering", 0);
        match wished.is_some() || random.chance(500) {
            true => {
                let ordering = wished.unwrap_or_else(|| *random.pick(&OrderingName::ALL));
                let level = *random.pick(&[
                    Level::ORDERINGS,
                    Level::FAST_ROUNDS,
                    Level::SPREAD_VALUES,
                    Level::BROADCAST,
                    Level::FIRST_BALLOT,
                    Level::FIRST_BALLOT,
                    Level::FIRST_BALLOT,
                ]);
                (level.max(ordering.level()), ordering)
            }
            false => (Level::UNNAMED, OrderingName::Paxos),
        }
    }
}

impl World {
    /// Counts a switch.
    pub(super) fn note_ordering(&mut self, before: &View, view: &View) {
        use OrderingName::{FastPaxos, Libpaxos, LibpaxosPlus, Paxos, RingPaxos, SPaxos};
        let row = match (before.ordering, view.ordering) {
            (Paxos, Paxos)
            | (Libpaxos, Libpaxos)
            | (LibpaxosPlus, LibpaxosPlus)
            | (RingPaxos, RingPaxos)
            | (SPaxos, SPaxos)
            | (FastPaxos, FastPaxos) => return,
            (Paxos, FastPaxos) => Row::SwitchedToFastPaxos,
            (Libpaxos | LibpaxosPlus, FastPaxos) => Row::SwitchedLibpaxosToFastPaxos,
            (FastPaxos, Paxos) => Row::SwitchedFromFastPaxos,
            (FastPaxos, Libpaxos | LibpaxosPlus) => Row::SwitchedFastPaxosToLibpaxos,
            (Paxos, Libpaxos) => Row::SwitchedToLibpaxos,
            (Paxos, LibpaxosPlus) => Row::SwitchedToLibpaxosPlus,
            (Libpaxos, Paxos) => Row::SwitchedFromLibpaxos,
            (LibpaxosPlus, Paxos) => Row::SwitchedFromLibpaxosPlus,
            (Libpaxos, LibpaxosPlus) => Row::SwitchedToSteps,
            (LibpaxosPlus, Libpaxos) => Row::SwitchedFromSteps,
            (Paxos, RingPaxos) => Row::SwitchedToRing,
            (Libpaxos, RingPaxos) => Row::SwitchedLibpaxosToRing,
            (LibpaxosPlus, RingPaxos) => Row::SwitchedStepsToRing,
            (RingPaxos, Paxos) => Row::SwitchedFromRing,
            (RingPaxos, Libpaxos) => Row::SwitchedRingToLibpaxos,
            (RingPaxos, LibpaxosPlus) => Row::SwitchedRingToSteps,
            (FastPaxos, RingPaxos) => Row::SwitchedFastPaxosToRing,
            (RingPaxos, FastPaxos) => Row::SwitchedRingToFastPaxos,
            (Paxos, SPaxos) => Row::SwitchedToSPaxos,
            (Libpaxos | LibpaxosPlus, SPaxos) => Row::SwitchedLibpaxosToSPaxos,
            (FastPaxos, SPaxos) => Row::SwitchedFastPaxosToSPaxos,
            (RingPaxos, SPaxos) => Row::SwitchedRingToSPaxos,
            (SPaxos, Paxos) => Row::SwitchedFromSPaxos,
            (SPaxos, Libpaxos | LibpaxosPlus) => Row::SwitchedSPaxosToLibpaxos,
            (SPaxos, FastPaxos) => Row::SwitchedSPaxosToFastPaxos,
            (SPaxos, RingPaxos) => Row::SwitchedSPaxosToRing,
        };
        self.exercised(row);
    }

    /// Counts what a leader does that spares acceptors, and what it did when it suspected one of the others.
    pub(super) fn note_steps(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let (narrow, suspected) = match running.replica.view().ordering {
            OrderingName::Paxos | OrderingName::Libpaxos => (Row::Near, Row::NearSuspected),
            OrderingName::FastPaxos | OrderingName::SPaxos => return,
            OrderingName::LibpaxosPlus => (Row::Spared, Row::Suspected),
            OrderingName::RingPaxos => (Row::Ringed, Row::RingBroken),
        };
        let status = running.replica.status().ordering;
        let running = self.running(id);
        let before = std::mem::replace(&mut running.steps, (status.spared, status.suspicions));
        for (row, is_news) in [
            (narrow, before.0 == 0 && status.spared > 0),
            (suspected, status.suspicions > before.1),
        ] {
            if is_news {
                self.exercised(row);
            }
        }
    }

    /// A node tells a vote to those that the ordering of its view says.
    pub(super) fn check_learners(
        &mut self,
        id: NodeId,
        to: NodeSet,
        message: &PeerMessage<AnyMessage>,
    ) {
        let PeerMessage::Ordering { message, .. } = message else {
            return;
        };
        match message {
            AnyMessage::Paxos(Message::Named(_)) => self.exercised(Row::NamedProposed),
            AnyMessage::Paxos(Message::PassId(_)) => self.exercised(Row::IdPassed),
            AnyMessage::Paxos(Message::Fetched(_)) => self.exercised(Row::ValueFetched),
            AnyMessage::Paxos(Message::Hears(Hears { slot: None, .. })) => {
                self.exercised(Row::Deaf);
            }
            AnyMessage::Paxos(Message::Want(want))
                if self.judge.governing(want.ballot.view).ordering == OrderingName::SPaxos =>
            {
                self.exercised(Row::WantAsked);
            }
            AnyMessage::Paxos(Message::Accept(accept)) if accept.slot <= accept.decided => {
                self.exercised(Row::Retried);
            }
            AnyMessage::Paxos(_) | AnyMessage::FastPaxos(_) => {}
        }
        let Testimony::Votes { ballot, .. } = message.testimony() else {
            return;
        };
        let governing = self.judge.governing(ballot.view);
        let (leader, others) = (NodeSet::only(ballot.node), governing.members.without(id));
        let is_meant = match governing.ordering {
            OrderingName::Paxos | OrderingName::RingPaxos | OrderingName::SPaxos => to == leader,
            OrderingName::Libpaxos | OrderingName::LibpaxosPlus => to == others,
            OrderingName::FastPaxos => to == leader || to == others,
        };
        if !is_meant {
            let ordering = governing.ordering;
            let detail =
                format!("{id} tells a vote in {ballot} to {to:?}, in a view with {ordering}");
            self.blame(Property::Ordered, detail);
        }
    }
}
