//! An acceptor whose log was damaged may have lost a promise or a vote.
//!
//! If the damage names slots, the acceptor continues to vote and answers `unknown` for these: see
//! `Candidate::is_complete`. If it has no bounds (a promise that nothing later bounds, or records of any
//! slot), the acceptor votes again only when nothing that it can have lost matters any more.
//!
//! Every candidate makes its own promise durable before it asks others, so a lost promise is at or below
//! the highest ballot that some other acceptor reports. A lost vote that counted is at or below the highest
//! slot that its leader or another voter reports. So the acceptor asks all others (a majority is not
//! enough), promises the highest ballot reported, and waits until every slot reported is decided and
//! learned. Until then it observes: its silence means "unknown", never "did not vote". If one vote
//! decides, it observes for good.

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
    /// `boot` distinguishes answers to this survey from those to one before a restart.
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
        let acceptor = &self.seat.acceptor;
        let highest = if planted(Plant::SurveyOfCurrentBallot) {
            acceptor.voted()
        } else {
            acceptor.log.highest()
        };
        let answer = Message::Surveyed(Surveyed {
            request,
            promised: acceptor.promised(),
            // It may have voted in slots that it no longer knows.
            voted: (acceptor.unknown().last())
                .max(Some(highest.max(proposed)))
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

    /// Asks the nodes again that have not answered, or makes this node a voter if all is known.
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
        // If one vote decides, no other acceptor need know what this one has lost.
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

    /// Tells storage once, when every slot that lost a record is decided, voted in again or trimmed, and that is written.
    pub(crate) fn report_repair(&mut self, effects: &mut Effects<Message>) {
        let is_whole = self.repair.is_none() && self.acceptor.unknown().next().is_none();
        if self.must_report_repair && is_whole {
            self.must_report_repair = false;
            // A chosen batch makes up for a lost vote, but counts only up to the watermark. Without the
            // watermark an older vote of the slot would be reported after the next crash.
            self.acceptor.record_decided(effects);
            // A later vote makes up for a lost promise, as long as nothing is lost of it too.
            let is_early = planted(Plant::RepairedBeforePromise);
            effects.extend(is_early.then_some(Effect::Repaired));
            self.acceptor.restate_promise(effects);
            effects.extend((!is_early).then_some(Effect::Repaired));
        }
    }
}
