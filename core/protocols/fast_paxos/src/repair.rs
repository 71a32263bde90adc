//! An acceptor whose log was damaged may have lost a promise or a vote.
//!
//! If the damage names slots, the acceptor continues to vote in the others and answers `unknown` for these. If it has no bounds, it
//! observes until nothing that it can have lost matters any more. `docs/decisions/fast-rounds.md` has the argument.
//!
//! It asks all other acceptors for the highest ballot that they promised: it voted in no higher one. In a fast round it may have
//! been the only one that voted in a slot, so the slots that others know of bound nothing. Instead it waits for a leader of a
//! higher ballot, whose phase 1 counted without it, and until everything that this leader found is decided. What was decided with a
//! lost vote is among that. Claim fp-8.
//!
//! Others may have lost as much. One that asks this one for its votes says so: it has begun anew since, and is not waited for.

use crate::leader::LeaderStage;
use crate::message::{Heartbeat, Message, Survey, Surveyed};
use crate::{FastPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// Tells a survey from the next one. Boots are fewer.
const OF_ANOTHER: u64 = 1 << 32;

/// A survey of the other acceptors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Repair {
    request: u64,
    heard: NodeSet,
    /// Those that asked this one, and in which life: they were without a vote when they did.
    damaged: BTreeMap<NodeId, u64>,
    promised: Ballot,
    voted: Slot,
    /// The newest leader that has decided all it found, and up to which slot that was.
    recovered: (Ballot, Slot),
    pub(crate) ask_at: Time,
}

impl Repair {
    /// `boot` distinguishes answers to this survey from those to one before a restart.
    pub(crate) fn new(boot: u64, now: Time) -> Repair {
        Repair {
            request: boot,
            heard: NodeSet::empty(),
            damaged: BTreeMap::new(),
            promised: Ballot::ZERO,
            voted: Slot::ZERO,
            recovered: (Ballot::ZERO, Slot::ZERO),
            ask_at: now,
        }
    }

    /// `node` lost records as well, and asks with `request`. It may have led with what this one forgot, and have got its followers after
    /// they answered: all are asked anew once it has begun its new life.
    fn also_lost(&mut self, node: NodeId, request: u64) {
        let life = request & (OF_ANOTHER - 1);
        if self.damaged.insert(node, life) == Some(life) {
            return;
        }
        self.request += OF_ANOTHER;
        self.heard = NodeSet::empty();
        self.ask_at = Time(0);
    }

    /// Whether each of the others has answered, or has lost its vote as well.
    fn has_asked(&self, others: NodeSet) -> bool {
        let is_known = |node| self.heard.contains(node) || self.damaged.contains_key(&node);
        others.iter().all(is_known)
    }

    /// How many have lost their votes, with this one.
    fn lost(&self) -> usize {
        self.damaged
            .keys()
            .filter(|node| !self.heard.contains(**node))
            .count()
            + 1
    }
}

impl FastPaxos {
    pub(crate) fn on_survey(
        &mut self,
        from: NodeId,
        Survey { request, above }: Survey,
        effects: &mut Effects<Message>,
    ) {
        if let Some(repair) = &mut self.seat.repair {
            repair.also_lost(from, request);
        }
        if !self.seat.acceptor.is_voter() {
            return;
        }
        let mut proposed = self.seat.tally.highest();
        if let Part::Leader(leader) = &mut self.part {
            proposed = proposed.max(leader.next.previous());
            let is_through = match leader.stage {
                LeaderStage::Steady { .. } => true,
                LeaderStage::CatchUp { .. } | LeaderStage::Recover { .. } => false,
            };
            leader.must_renew |= is_through && above >= leader.ballot;
        }
        let acceptor = &self.seat.acceptor;
        let known = acceptor.unknown().last().unwrap_or(Slot::ZERO);
        let answer = Message::Surveyed(Surveyed {
            request,
            promised: acceptor.promised(),
            voted: known.max(acceptor.log.highest()).max(proposed),
        });
        let to = NodeSet::only(from);
        self.seat.send(to, Lane::Normal, answer, effects);
    }
}

impl Seat {
    pub(crate) fn on_surveyed(
        &mut self,
        from: NodeId,
        Surveyed {
            request,
            promised,
            voted,
        }: Surveyed,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let others = self.config.view.acceptors.without(self.config.own);
        let Some(repair) = &mut self.repair else {
            return;
        };
        if repair.request == request && repair.heard.insert(from) {
            repair.promised = repair.promised.max(promised);
            repair.voted = repair.voted.max(voted);
            if repair.has_asked(others) {
                repair.ask_at = now;
            }
        }
        self.try_enfranchise(effects);
    }

    /// The leader was heard: it may be one whose phase 1 makes up for what is lost.
    pub(crate) fn repair_heard(&mut self, beat: &Heartbeat, effects: &mut Effects<Message>) {
        if let (Some(repair), Some(upto)) = (&mut self.repair, beat.recovered) {
            repair.recovered = repair.recovered.max((beat.ballot, upto));
            self.try_enfranchise(effects);
        }
    }

    /// Asks the nodes again that have not answered, or for a leader of a higher ballot.
    pub(crate) fn wake_repair(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.try_enfranchise(effects);
        let again_at = now + self.config.timing.resend;
        let others = self.config.view.acceptors.without(self.config.own);
        let Some(repair) = &mut self.repair else {
            return;
        };
        if now < repair.ask_at {
            return;
        }
        repair.ask_at = again_at;
        let request = repair.request;
        let silent = others.iter().filter(|node| !repair.heard.contains(*node));
        let (to, above) = match repair.has_asked(others) {
            true => (others, repair.promised),
            false => (silent.collect(), Ballot::ZERO),
        };
        let ask = Message::Survey(Survey { request, above });
        self.send(to, Lane::Normal, ask, effects);
    }

    fn try_enfranchise(&mut self, effects: &mut Effects<Message>) {
        let others = self.config.view.acceptors.without(self.config.own);
        // If one vote decides, no other acceptor need know what this one has lost.
        let classic = self.quorums.classic();
        let is_told = classic.phase2() > 1 && self.quorums.fast() > 1;
        let decided = self.acceptor.log.decided();
        let is_whole = self.repair.as_ref().is_some_and(|repair| {
            let (ballot, upto) = repair.recovered;
            let has_recovered = ballot > repair.promised && decided >= upto;
            is_told
                && repair.has_asked(others)
                // The highest ballot of a leader that any of them followed is one that somebody reports.
                && repair.lost() < classic.phase1()
                && decided >= repair.voted
                && (has_recovered || planted(Plant::RepairedInItsBallot))
        });
        if is_whole && let Some(repair) = self.repair.take() {
            let promised = repair.promised.max(repair.recovered.0);
            self.acceptor.enfranchise(promised, effects);
            self.discard(effects);
        }
    }

    /// Tells storage once, when every slot that lost a record is decided, voted in again or trimmed, and that is written.
    pub(crate) fn report_repair(&mut self, effects: &mut Effects<Message>) {
        let is_whole = self.repair.is_none() && self.acceptor.unknown().next().is_none();
        if self.must_report_repair && is_whole {
            self.must_report_repair = false;
            // A chosen batch makes up for a lost vote, but counts only up to the watermark. Without the
            // watermark an older vote of the slot would be reported after the next crash.
            self.acceptor.record_decided(effects);
            self.acceptor.restate_promise(effects);
            effects.push(Effect::Repaired);
        }
    }
}
