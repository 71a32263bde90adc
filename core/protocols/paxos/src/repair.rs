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
//!
//! Others may have lost as much. One that asks this one for its votes says so: it has begun anew since, so nobody counts votes as its
//! leader, and it is not waited for. Every decision must have a voter that can still tell of it.
//!
//! Where votes are told to all, they count beyond the life of their leader, and what it has asked for may be voted for after the
//! answers. So the acceptor asks whoever leads then, too: its phase 1 ended every ballot before, or it knows of the votes.

use crate::message::{Message, Survey, Surveyed};
use crate::policies::VotesTold;
use crate::{MultiPaxos, Part, Seat};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// A request with this bit is to the leader. Below are boots, above is how often all were asked anew.
pub(crate) const OF_LEADER: u64 = 1 << 32;

/// A leader is asked once it was heard, and counts when it is heard again after its answer: it led meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Asked {
    Nobody,
    Leader(Ballot),
    Answered(Ballot),
    Led(Ballot),
}

/// A survey of the other acceptors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Repair {
    request: u64,
    heard: NodeSet,
    /// Those that asked this one, and in which life: they were without a vote when they did.
    damaged: BTreeMap<NodeId, u64>,
    /// What is known of the leader, where that is asked for as well.
    leader: Asked,
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
            damaged: BTreeMap::new(),
            leader: Asked::Nobody,
            promised: Ballot::ZERO,
            voted: Slot::ZERO,
            ask_at: now,
        }
    }

    /// The question to a leader, told apart from the one to all.
    fn request_to_leader(&self) -> u64 {
        self.request | OF_LEADER
    }

    /// `node` lost records as well, and asks with `request`. It may have led with what this one forgot, and have got its followers after
    /// they answered: all are asked anew once it has begun its new life.
    fn also_lost(&mut self, node: NodeId, request: u64) {
        let life = request & (OF_LEADER - 1);
        if self.damaged.insert(node, life) == Some(life) {
            return;
        }
        self.request += 2 * OF_LEADER;
        self.heard = NodeSet::empty();
        self.leader = Asked::Nobody;
        self.ask_at = Time(0);
    }

    /// Whether each of the others has answered, or has lost its vote as well.
    fn has_asked(&self, others: NodeSet) -> bool {
        let is_known = |node| self.heard.contains(node) || self.damaged.contains_key(&node);
        others.iter().all(is_known)
    }

    /// How many have lost their votes, with this one.
    fn lost(&self) -> usize {
        let silent = self
            .damaged
            .keys()
            .filter(|node| !self.heard.contains(**node));
        silent.count() + 1
    }

    /// Whether a leader that led in the highest ballot that anybody promised has told what it proposed.
    fn is_told_by_leader(&self) -> bool {
        match self.leader {
            Asked::Led(ballot) => ballot >= self.promised,
            Asked::Nobody | Asked::Leader(_) | Asked::Answered(_) => false,
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
        if let Some(repair) = &mut self.seat.repair {
            repair.also_lost(from, request);
        }
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
        let is_of_leader = repair.request_to_leader() == request;
        if repair.request != request && !is_of_leader {
            return;
        }
        if !is_of_leader {
            repair.heard.insert(from);
        } else if repair.leader == Asked::Leader(promised) && promised.node == from {
            repair.leader = Asked::Answered(promised);
        }
        repair.promised = repair.promised.max(promised);
        repair.voted = repair.voted.max(voted);
        self.try_enfranchise(effects);
    }

    /// A leader was heard.
    pub(crate) fn repair_led(&mut self, now: Time, ballot: Ballot, effects: &mut Effects<Message>) {
        if !self.asks_leader() {
            return;
        }
        let Some(repair) = &mut self.repair else {
            return;
        };
        repair.leader = match repair.leader {
            Asked::Answered(led) | Asked::Led(led) if led == ballot => Asked::Led(ballot),
            Asked::Leader(asked) if asked == ballot => return,
            Asked::Nobody | Asked::Leader(_) | Asked::Answered(_) | Asked::Led(_) => {
                repair.ask_at = now;
                Asked::Leader(ballot)
            }
        };
        self.try_enfranchise(effects);
    }

    /// The link to a node has changed: it may have begun anew, and then does not lead.
    pub(crate) fn repair_linked(&mut self, node: NodeId) {
        if let Some(repair) = &mut self.repair
            && let Asked::Leader(ballot) | Asked::Answered(ballot) = repair.leader
            && ballot.node == node
        {
            repair.leader = Asked::Nobody;
        }
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
        let request_to_leader = repair.request_to_leader();
        let leader = match repair.leader {
            Asked::Leader(ballot) => NodeSet::only(ballot.node),
            Asked::Nobody | Asked::Answered(_) | Asked::Led(_) => NodeSet::empty(),
        };
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
        let ask = Message::Survey(Survey {
            request: request_to_leader,
        });
        self.send(leader, Lane::Normal, ask, effects);
    }

    /// Whether votes count beyond the life of their leader.
    fn asks_leader(&self) -> bool {
        match self.policies.votes_told {
            VotesTold::ToLeader => false,
            VotesTold::ToAll => true,
        }
    }

    fn try_enfranchise(&mut self, effects: &mut Effects<Message>) {
        let others = self.config.view.acceptors.without(self.config.own);
        let quorums = self.config.view.quorums;
        let asks_leader = self.asks_leader();
        let is_whole = self.repair.as_ref().is_some_and(|repair| {
            let hasty = planted(Plant::RepairByOne) && !repair.heard.is_empty();
            // Where nobody leads without this one, whoever leads next ends all ballots before.
            let may_nobody_lead = repair.lost() == 1 && others.len() < quorums.phase1();
            (repair.has_asked(others) || hasty)
                // Else nobody need know what these have lost.
                && repair.lost() < quorums.phase2()
                // A ballot that one of them led has a follower that tells of it.
                && (repair.lost() == 1 || repair.lost() < quorums.phase1())
                && (!asks_leader || repair.is_told_by_leader() || may_nobody_lead)
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
