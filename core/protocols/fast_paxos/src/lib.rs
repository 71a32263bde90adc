//! Fast Paxos: who submits a command sends it to all acceptors, and two message delays later it is decided.
//!
//! A leader that has finished phase 1 opens the slots from one on to any value. Each acceptor votes for the next value that
//! reaches it in its next free slot, and tells everybody. If enough vote alike, the slot is decided without the leader. If
//! votes differ, the leader decides the slot in a classic round of the same ballot, with the votes as its phase 1. While values
//! collide often, commands are forwarded to the leader instead, as in Multi-Paxos.
//!
//! [`FastPaxos`] is one instance at one node. It owns an [`Acceptor`]. `election` and `candidate` find a leader, `leader` works in
//! classic rounds and after collisions, `caster` votes in fast ones, `forward` serves the submissions of the local replica,
//! `learner` and `tally` find what is decided. This file has the state and the changes of roles.
#![forbid(unsafe_code)]

mod candidate;
mod caster;
mod collision;
mod contention;
mod currency;
mod dispatch;
mod election;
mod forward;
mod leader;
mod learner;
mod limits;
pub mod message;
mod peers;
mod reads;
mod repair;
pub mod selection;
mod submissions;
mod tally;
mod tenure;
mod trimming;
mod view_end;

pub use message::Message;
pub use quorate_acceptor::{Promise, Vote};

use candidate::Candidate;
use caster::Caster;
use contention::Contention;
use leader::{Leader, Mode};
use peers::Peers;
use quorate_acceptor::{Acceptor, Answers, Election, ForeignRecord, Learner, restore};
use quorate_ordering::{
    Config, MulticastStatus, OrderingStatus, PeerStatus, Record, Role, Standing,
};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, FastQuorums, NodeSet, Slot, Time};
use reads::FastReads;
use repair::Repair;
use submissions::Submissions;
use tally::Tally;

/// The current role of a node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Follower,
    Candidate(Box<Candidate>),
    Leader(Box<Leader>),
}

/// The state that a node has in every role.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seat {
    config: Config,
    quorums: FastQuorums,
    acceptor: Acceptor,
    caster: Caster,
    election: Election,
    peers: Peers,
    learner: Learner,
    tally: Tally,
    /// The highest slot in which an acceptor says that it voted, or may have: up to it slots are decided, whatever is submitted. A
    /// reader may wait for it, in whatever ballot.
    reported: Slot,
    forward: Submissions,
    reads: FastReads,
    answers: Answers,
    contention: Contention,
    /// Present while a damaged acceptor may not vote.
    repair: Option<Repair>,
    /// Damage was found, and storage has not yet been told that it is repaired.
    must_report_repair: bool,
    /// The highest slot that the replica applied.
    executed: Slot,
    /// The replica has told with which slot it begins.
    has_begun: bool,
    /// The last slot of the view, once the replica has applied the command that ends it.
    last: Option<Slot>,
    /// The replica has applied that slot: whatever waits here is ordered by the next view.
    is_over: bool,
    /// The highest slot passed to the replica. Invariant: outside of `handle`, at most the decided prefix.
    delivered: Slot,
    /// What the shell drew at the end of the last turn.
    entropy: u64,
    /// Clients have sessions.
    is_attended: bool,
}

/// One node's instance of Fast Paxos for one view.
#[derive(Clone, PartialEq, Debug)]
pub struct FastPaxos {
    seat: Seat,
    part: Part,
    role_told: Role,
    /// Messages of other views that were dropped.
    foreign: u64,
    /// When the decided watermark is written next, if it has risen.
    record_at: Time,
}

impl FastPaxos {
    /// Makes an instance from `recovered`, the records of its log in their order. Fast quorums are those of the view: the smallest that its
    /// phase-1 quorums allow, unless others were asked for. The first event must be [`quorate_ordering::Event::Executed`] with the slot of the snapshot that
    /// the replica restored, or slot 0 if there is none.
    ///
    /// # Errors
    /// When a record is of another view.
    pub fn new(
        config: Config,
        recovered: Vec<Record>,
        now: Time,
    ) -> Result<FastPaxos, ForeignRecord> {
        let quorums = FastQuorums::of(config.view.quorums);
        let timing = config.timing;
        let is_voter = config.is_voter();
        let standing = if is_voter && !config.damage.needs_survey() {
            Standing::Voter
        } else {
            Standing::Observer
        };
        let mut acceptor = Acceptor::new(config.view_id(), standing, config.view.persistence);
        let before = config.view.first_slot.previous();
        restore(&mut acceptor, recovered, &config.damage, before)?;
        acceptor.set_tells_tentative(config.tells_tentative);
        let acceptors = config.view.acceptors.len();
        let delivered = acceptor.log.trimmed();
        let must_repair = config.damage.needs_survey() && is_voter;
        let is_repairable = must_repair || !config.damage.needs_survey();
        let seat = Seat {
            quorums,
            caster: Caster::default(),
            election: Election::new(now, config.seed, timing, acceptors),
            peers: Peers::new(&config.view, config.own),
            learner: Learner::new(now),
            tally: Tally::default(),
            reported: Slot::ZERO,
            forward: Submissions::new(config.own, config.boot),
            reads: FastReads::new(config.boot),
            answers: Answers::new(config.boot),
            contention: Contention::new(),
            repair: must_repair.then(|| Repair::new(config.boot, now)),
            must_report_repair: config.damage.was_found() && is_repairable,
            executed: Slot::ZERO,
            has_begun: false,
            last: None,
            is_over: false,
            is_attended: false,
            entropy: 0,
            delivered,
            config,
            acceptor,
        };
        Ok(FastPaxos {
            seat,
            part: Part::Follower,
            role_told: Role::Follower { leader: None },
            foreign: 0,
            record_at: now,
        })
    }

    /// Whether commands are proposed to all acceptors, as far as this node knows.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.seat.any().is_some()
    }

    /// The leader and the state it works on, while this node leads.
    pub(crate) fn leading(&mut self) -> Option<(&mut Leader, &mut Seat)> {
        match &mut self.part {
            Part::Leader(leader) => Some((leader, &mut self.seat)),
            Part::Candidate(_) | Part::Follower => None,
        }
    }

    pub(crate) fn role(&self) -> Role {
        match &self.part {
            Part::Follower => Role::Follower {
                leader: self.seat.election.leader.map(|ballot| ballot.node),
            },
            Part::Candidate(candidate) => Role::Candidate {
                ballot: candidate.phase.ballot(),
            },
            Part::Leader(leader) => Role::Leader {
                ballot: leader.ballot,
            },
        }
    }

    pub(crate) fn report(&self) -> OrderingStatus {
        let decided = self.seat.acceptor.log.decided();
        let voted = self.seat.acceptor.log.highest();
        let (window_left, waiting) = match &self.part {
            Part::Leader(leader) => {
                let ahead = leader
                    .next
                    .previous()
                    .max(decided)
                    .since(self.seat.executed);
                let left = self.seat.config.view.window.saturating_sub(ahead);
                (left, leader.queue.len() + self.seat.forward.len())
            }
            Part::Candidate(_) | Part::Follower => (0, self.seat.forward.len()),
        };
        let is_leader = matches!(self.part, Part::Leader(_));
        let peers = self.seat.peers.iter().map(|peer| PeerStatus {
            node: peer.node,
            connected: peer.link.is_some(),
            lag: if is_leader {
                voted.since(peer.decided)
            } else {
                self.seat.learner.known().max(decided).since(peer.decided)
            },
            in_flight: peer.credit.len() + peer.value_credit.len(),
            in_flight_bytes: peer.credit.bytes() + peer.value_credit.bytes(),
        });
        OrderingStatus {
            role: self.role(),
            promised: self.seat.acceptor.promised(),
            decided,
            known: self.seat.learner.known().max(decided),
            voted,
            trimmed: self.seat.acceptor.log.trimmed(),
            window_left,
            waiting,
            votes: self.seat.may_be_acceptor(),
            held_bytes: self.seat.acceptor.log.bytes() + self.seat.caster.bytes(),
            elections: self.seat.election.begun(),
            foreign: self.foreign,
            spared: 0,
            suspicions: 0,
            multicast: MulticastStatus::default(),
            rounds: Some(self.seat.contention.rounds()),
            deferred: 0,
            peers: peers.collect(),
        }
    }

    pub(crate) fn check_all(&self) {
        self.seat.acceptor.check();
        self.seat.caster.check();
        self.seat.peers.check();
        self.seat.forward.check();
        self.seat.reads.check();
        self.seat.contention.check();
        let decided = self.seat.acceptor.log.decided();
        assert!(
            self.seat.delivered <= decided,
            "only decided slots are handed up"
        );
        assert!(
            self.seat.acceptor.log.trimmed() <= self.seat.delivered,
            "what is trimmed was handed up"
        );
        if let Part::Leader(leader) = &self.part {
            leader.check(decided);
            assert!(self.seat.acceptor.is_voter(), "a leader votes");
        }
    }
}

impl Seat {
    /// Whether the replica lacks slots that this node has in snapshots only.
    pub(crate) fn lacks_snapshot(&self) -> bool {
        self.executed < self.acceptor.log.trimmed()
    }

    /// Whether this node votes, or may where it is an acceptor.
    fn may_be_acceptor(&self) -> bool {
        if self.config.view.acceptors.contains(self.config.own) {
            self.acceptor.is_voter()
        } else {
            self.config.standing == Standing::Voter
        }
    }

    /// Whether something may be proposed or voted for in a fast round in `slot`: what the replica has applied says how the slot
    /// is configured, and it is one of this view.
    pub(crate) fn is_open(&self, slot: Slot) -> bool {
        slot.since(self.executed) <= self.config.view.window && self.is_in_view(slot)
    }

    /// Whether `slot` is one of this view.
    pub(crate) fn is_in_view(&self, slot: Slot) -> bool {
        self.last.is_none_or(|last| slot <= last) || planted(Plant::ProposesPastTheView)
    }

    /// The time between two heartbeats of a leader, as things are.
    pub(crate) fn heartbeat(&self) -> Duration {
        let timing = &self.config.timing;
        match self.is_attended {
            true => timing.attended,
            false => timing.heartbeat,
        }
    }

    /// Every other member of the view.
    pub(crate) fn others(&self) -> NodeSet {
        self.config.view.nodes().without(self.config.own)
    }

    /// The highest slot in which this acceptor holds a vote of the promised ballot, in either round, or has lost one that may have been
    /// of it; else the decided prefix.
    pub(crate) fn voted_now(&self) -> Slot {
        let decided = self.acceptor.log.decided();
        let open = self.acceptor.log.open_from(Slot::ZERO);
        let promised = self.acceptor.promised();
        let voted = open.filter(|(_, open)| open.ballot == promised);
        let voted = voted.map(|(slot, _)| slot).last().unwrap_or(decided);
        self.or_lost(voted)
    }
}

impl Seat {
    /// The highest slot in which this acceptor voted or may have voted, in any ballot; else the decided prefix.
    pub(crate) fn voted_ever(&self) -> Slot {
        self.or_lost(self.acceptor.log.highest())
    }

    /// At least the highest slot in which this acceptor lost a vote. Others may have counted that vote.
    fn or_lost(&self, voted: Slot) -> Slot {
        self.acceptor.unknown().last().unwrap_or(voted).max(voted)
    }
}

impl Leader {
    /// Where fast rounds begin, while there are any.
    pub(crate) fn any(&self) -> Option<Slot> {
        match self.mode {
            Mode::Classic => None,
            Mode::Fast { from } => Some(from),
        }
    }
}
