//! How a leadership begins, and what becomes of what it had not ordered when it ends.

use crate::candidate::PhaseOneFound;
use crate::leader::{Leader, Proposal};
use crate::message::Message;
use crate::{MultiPaxos, Part};
use quorate_acceptor::{Fate, Origin, Run, Source};
use quorate_ordering::Effects;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Command, Slot, Time};

impl MultiPaxos {
    pub(crate) fn begin_leading(
        &mut self,
        now: Time,
        ballot: Ballot,
        found: PhaseOneFound,
        effects: &mut Effects<Message>,
    ) {
        let decided = self.seat.acceptor.log.decided();
        self.seat.acceptor.log.raise_wall(found.wall);
        self.seat.learner.knows(found.floor);
        let leader = Leader::new(now, ballot, found, &self.seat);
        self.part = Part::Leader(Box::new(leader));
        self.seat.election.leads();
        for peer in self.seat.peers.iter_mut() {
            peer.heard = now;
            peer.answered = now;
            peer.beat = 0;
            peer.granted = None;
            peer.round_trip = None;
            peer.acked = Slot::ZERO;
            peer.restart_at(decided.next());
        }
        if !planted(Plant::ReadsNotAskedAgain) {
            self.seat.reask();
        }
        if let Some((leader, seat)) = self.leading() {
            leader.beat(seat, now, effects);
            leader.recover(seat, now, effects);
        }
        if !planted(Plant::StaleAskKept) {
            self.seat.learn_afresh(now, effects);
        }
    }

    /// The view names this start of this node as the first to lead. No ballot is lower, and nobody else has this one: there is nothing
    /// that phase 1 could find. Claim mp-90.
    pub(crate) fn lead_first(&mut self, now: Time, ballot: Ballot, effects: &mut Effects<Message>) {
        self.seat.election.begin(now, ballot);
        self.seat.acceptor.raise(ballot, effects);
        self.begin_leading(now, ballot, PhaseOneFound::default(), effects);
    }

    /// A higher ballot exists, or the quorum is gone: everything that waits here is routed to the next leader.
    pub(crate) fn step_down(&mut self, now: Time, effects: &mut Effects<Message>) {
        let Part::Leader(mut leader) = std::mem::replace(&mut self.part, Part::Follower) else {
            return;
        };
        for proposal in &leader.in_flight {
            let commands = own_commands(proposal);
            if planted(Plant::SubmissionForgotten) {
                continue;
            }
            self.seat.keep(now, commands, Fate::Open);
        }
        for (run, commands) in leader.queue.drain() {
            match run.source {
                Source::Own(fate) => self.seat.keep(now, commands, fate),
                Source::Forwarded { node, number } => {
                    self.seat.give_back(node, number, &commands, effects);
                }
            }
        }
        self.seat.close_reads(now, effects);
        self.seat.election.leader = None;
        self.seat.election.retry_later(now);
    }
}

/// The commands of `proposal` that were submitted at this node.
fn own_commands(proposal: &Proposal) -> Vec<Command> {
    let commands = proposal.batch.commands();
    match &proposal.origin {
        Origin::Own => commands.to_vec(),
        Origin::Found => Vec::new(),
        Origin::Mixed(runs) => own_of(runs, commands),
    }
}

fn own_of(runs: &[Run], commands: &[Command]) -> Vec<Command> {
    let mut own = Vec::new();
    let mut rest = commands;
    for run in runs {
        let (of_run, behind) = rest.split_at(run.count);
        match run.source {
            Source::Own(_) => own.extend_from_slice(of_run),
            Source::Forwarded { .. } => {}
        }
        rest = behind;
    }
    own
}
