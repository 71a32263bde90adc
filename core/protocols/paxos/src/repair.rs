//! An acceptor whose log was damaged may have forgotten a promise or a vote.
//!
//! Where the damage names slots, the acceptor votes on and answers `unknown` for them: see
//! `Candidate::is_complete`. Where it has no bounds (a promise that nothing later bounds, or records of
//! any slot), the acceptor votes again only when nothing that it can have forgotten matters any more.
//!
//! Every candidate makes its own promise durable before it asks for others, so a forgotten promise is
//! at or below what some other acceptor tells now; a forgotten vote that counted lies at or below what
//! its leader or another voter tells. So it asks all others (a majority is not enough), promises the
//! highest ballot told, and waits until every slot told of is decided and learned. Until then it
//! observes: its silence is "unknown", never "did not vote". Where one vote decides it observes for good.

use crate::message::{Message, Survey, Surveyed};
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};

/// A survey of the other acceptors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Repair {
    request: u64,
    heard: NodeSet,
    promised: Ballot,
    voted: Slot,
    pub(crate) ask_at: Time,
}

impl Repair {
    /// `boot` tells answers to this survey from those to one of an earlier life.
    pub(crate) fn new(boot: u64, now: Time) -> Repair {
        Repair {
            request: boot,
            heard: NodeSet::empty(),
            promised: Ballot::ZERO,
            voted: Slot::ZERO,
            ask_at: now,
        }
    }
}

impl MultiPaxos {
    pub(crate) fn on_survey(
        &mut self,
        from: NodeId,
        Survey { request }: Survey,
        effects: &mut Effects<Message>,
    ) {
        if !self.seat.acceptor.is_voter() {
            return;
        }
        let proposed = match &self.part {
            Part::Leader(leader) => leader.proposed(),
            Part::Candidate(_) | Part::Follower => Slot::ZERO,
        };
        let answer = Message::Surveyed(Surveyed {
            request,
            promised: self.seat.acceptor.promised(),
            // It may have voted where it no longer knows.
            voted: (self.seat.acceptor.unknown().last())
                .max(Some(self.seat.acceptor.log.highest().max(proposed)))
                .expect("at least the second"),
        });
        self.seat
            .send(NodeSet::only(from), Lane::Normal, answer, effects);
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
        effects: &mut Effects<Message>,
    ) {
        let Some(repair) = &mut self.repair else {
            return;
        };
        if repair.request == request {
            repair.heard.insert(from);
            repair.promised = repair.promised.max(promised);
            repair.voted = repair.voted.max(voted);
        }
        self.try_enfranchise(effects);
    }

    /// Asks again who has not answered, or votes again if all is known.
    pub(crate) fn wake_repair(&mut self, now: Time, effects: &mut Effects<Message>) {
        self.try_enfranchise(effects);
        let again_at = now + self.config.timing.resend;
        let Some(repair) = &mut self.repair else {
            return;
        };
        if now < repair.ask_at {
            return;
        }
        repair.ask_at = again_at;
        let request = repair.request;
        let acceptors = self.config.view.acceptors.without(self.config.own);
        let silent = acceptors
            .iter()
            .filter(|node| !repair.heard.contains(*node));
        let to = silent.collect();
        self.send(
            to,
            Lane::Normal,
            Message::Survey(Survey { request }),
            effects,
        );
    }

    fn try_enfranchise(&mut self, effects: &mut Effects<Message>) {
        let others = self.config.view.acceptors.without(self.config.own);
        // Where one vote decides, no other acceptor need remember what this one has forgotten.
        let is_told = self.config.view.quorums.phase2() > 1;
        let is_whole = self.repair.as_ref().is_some_and(|repair| {
            is_told
                && (others.iter().all(|node| repair.heard.contains(node))
                    || planted(Plant::RepairByOne) && !repair.heard.is_empty())
                && self.acceptor.log.decided() >= repair.voted
        });
        if is_whole && let Some(repair) = self.repair.take() {
            self.acceptor.enfranchise(repair.promised, effects);
            self.discard(effects);
        }
    }

    /// Tells storage once, when every slot that damage has taken is decided, voted in again or trimmed, and written so.
    pub(crate) fn report_repair(&mut self, effects: &mut Effects<Message>) {
        let is_whole = self.repair.is_none() && self.acceptor.unknown().next().is_none();
        if self.must_report_repair && is_whole {
            self.must_report_repair = false;
            // A lost vote is made up for by a chosen batch, which counts only up to the watermark: without
            // that, an older vote of the slot would be told after the next crash.
            self.acceptor.record_decided(effects);
            effects.push(Effect::Repaired);
        }
    }
}
