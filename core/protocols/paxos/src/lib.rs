//! Multi-Paxos: orders commands with one stable leader.
//!
//! [`MultiPaxos`] is one instance at one node. It owns an [`Acceptor`], which keeps promises and votes. Every other role
//! has its file: `election` and `candidate` find a leader, `leader` fills slots, `learner` follows, `forward` and `reads`
//! serve the local replica. This file has the state and the changes of roles. It knows no bytes, objects or clients.
#![forbid(unsafe_code)]

mod candidate;
mod currency;
mod deferral;
mod dispatch;
mod election;
mod flow;
mod forward;
mod leader;
mod learner;
mod limits;
pub mod message;
mod multicast;
mod peers;
mod policies;
mod reads;
mod repair;
mod ring;
mod spreading;
mod steps;
mod tally;
mod tenure;
mod trimming;
mod view_end;
mod votes;

pub use message::Message;
pub use quorate_acceptor::{Promise, Vote};

use candidate::Candidate;
use deferral::Deferred;
use forward::Submissions;
use leader::Leader;
use multicast::CarriedValues;
use peers::Peers;
use policies::Policies;
use quorate_acceptor::{Acceptor, Answers, Election, ForeignRecord, Learner, restore};
use quorate_ordering::{Config, Damage, OrderingStatus, PeerStatus, Record, Role, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Duration, NodeSet, Slot, Time};
use reads::PaxosReads;
use repair::Repair;
use ring::Stops;
use spreading::Spreading;
use tally::Tally;
use votes::UnsentVotes;

/// The current role of a node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Follower,
    Candidate(Box<Candidate>),
    Leader(Box<Leader>),
}

/// The state that a node has in every role: its acceptor, its peers, and waiting commands and reads.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seat {
    config: Config,
    acceptor: Acceptor,
    election: Election,
    peers: Peers,
    learner: Learner,
    policies: Policies,
    /// Votes that acceptors told to all; empty where they tell them to the leader.
    tally: Tally,
    /// What this node has to pass on of votes along a ring.
    stops: Stops,
    /// What nodes spread apart from proposals; empty where proposals bring it.
    spreading: Spreading,
    /// What a leader multicasts apart from proposals; empty where proposals bring it.
    carried: CarriedValues,
    deferred: Deferred,
    forward: Submissions,
    reads: PaxosReads,
    answers: Answers,
    /// Present while a damaged acceptor may not vote.
    repair: Option<Repair>,
    /// Damage was found, and storage has not yet been told that it is repaired.
    must_report_repair: bool,
    /// The highest slot that the replica applied. After a start it may be above the decided prefix: what lies between is in
    /// the replica's snapshot, and the log learns it like everything that others decided.
    executed: Slot,
    /// The replica has told with which slot it begins.
    has_begun: bool,
    /// The last slot of the view, once the replica has applied the command that ends it.
    last: Option<Slot>,
    /// The replica has applied that slot: whatever waits here is ordered by the next view.
    is_over: bool,
    /// The highest slot passed to the replica. Invariant: outside of `handle`, at most the decided prefix.
    delivered: Slot,
    /// Clients have sessions.
    is_attended: bool,
}

/// One node's instance of Multi-Paxos for one view: its role, and the state it has in every role. Roles
/// change here; a leader's work is in [`Leader`], the work of every node in [`Seat`].
#[derive(Clone, PartialEq, Debug)]
pub struct MultiPaxos {
    seat: Seat,
    part: Part,
    /// Votes whose answers are sent at the end of the turn.
    unsent_votes: Option<UnsentVotes>,
    role_told: Role,
    /// Messages of other views that were dropped.
    foreign: u64,
    /// When the decided watermark is written next, if it has risen.
    record_at: Time,
}

impl MultiPaxos {
    /// Makes an instance from `recovered`, the records of its log in their order. The first event must be
    /// [`quorate_ordering::Event::Executed`] with the slot of the snapshot that the replica restored, or
    /// slot 0 if there is none. Slots between it and the trim point must come by a snapshot. What the log has of slots that
    /// the snapshot covers stays: others may lack them, and the snapshot too.
    ///
    /// # Errors
    /// When a record is of another view.
    pub fn new(
        mut config: Config,
        recovered: Vec<Record>,
        now: Time,
    ) -> Result<MultiPaxos, ForeignRecord> {
        if planted(Plant::ElectionsTenTimesSlower) {
            config.timing.election_min = Duration(config.timing.election_min.0 * 10);
            config.timing.election_max = Duration(config.timing.election_max.0 * 10);
        }
        let timing = config.timing;
        if planted(Plant::DamageIgnored) {
            config.damage = Damage::default();
        }
        let is_removed = planted(Plant::RemovedAcceptorVotes) && config.view.number.0 > 1;
        let is_voter = config.is_voter() || is_removed;
        let standing = match is_voter && !config.damage.needs_survey() {
            true => Standing::Voter,
            false => Standing::Observer,
        };
        let mut acceptor = Acceptor::new(config.view_id(), standing, config.view.persistence);
        let before = config.view.first_slot.previous();
        restore(&mut acceptor, recovered, &config.damage, before)?;
        acceptor.set_tells_tentative(config.tells_tentative);
        let may_be_bound = acceptor.promised() > Ballot::ZERO || config.damage.was_found();
        // A lease granted before the restart is forgotten, so assume that one was granted.
        if may_be_bound && !planted(Plant::LeaseForgotten) {
            acceptor.bind(Ballot::ZERO, now + timing.lease);
        }
        let acceptors = config.view.acceptors.len();
        let must_repair = config.damage.needs_survey() && config.is_voter();
        let is_repairable = must_repair || !config.damage.needs_survey();
        let repair = must_repair.then(|| Repair::new(config.boot, now));
        let seat = Seat {
            election: Election::new(now, config.seed, timing, acceptors),
            peers: Peers::new(&config.view, config.own),
            learner: Learner::new(now),
            policies: Policies::of(&config.view, &config.limits),
            tally: Tally::default(),
            stops: Stops::default(),
            spreading: Spreading::new(config.boot, now, timing.resend),
            carried: CarriedValues::default(),
            deferred: Deferred::default(),
            forward: Submissions::new(config.boot),
            reads: PaxosReads::new(config.boot),
            answers: Answers::new(config.boot),
            repair,
            must_report_repair: config.damage.was_found() && is_repairable,
            executed: Slot::ZERO,
            has_begun: false,
            last: None,
            is_over: false,
            delivered: acceptor.log.trimmed(),
            is_attended: false,
            config,
            acceptor,
        };
        Ok(MultiPaxos {
            seat,
            part: Part::Follower,
            unsent_votes: None,
            role_told: Role::Follower { leader: None },
            foreign: 0,
            record_at: now,
        })
    }

    /// The leader and the state it works on, while this node leads.
    pub(crate) fn leading(&mut self) -> Option<(&mut Leader, &mut Seat)> {
        match &mut self.part {
            Part::Leader(leader) => Some((leader, &mut self.seat)),
            Part::Candidate(_) | Part::Follower => None,
        }
    }

    /// The same, while it leads in `ballot`.
    pub(crate) fn leading_in(&mut self, ballot: Ballot) -> Option<(&mut Leader, &mut Seat)> {
        self.leading().filter(|(leader, _)| leader.ballot == ballot)
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
        let (spared, suspicions) = match &self.part {
            Part::Leader(leader) => (leader.steps.narrow, leader.steps.suspicions),
            Part::Candidate(_) | Part::Follower => (0, 0),
        };
        let (window_left, waiting) = match &self.part {
            Part::Leader(leader) => {
                let ahead = leader.proposed().since(self.seat.executed);
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
                voted.since(peer.acked.max(peer.decided))
            } else {
                self.seat.learner.known().max(decided).since(peer.decided)
            },
            in_flight: peer.credit.len(),
            in_flight_bytes: peer.credit.bytes(),
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
            held_bytes: self.seat.acceptor.log.bytes() + self.seat.spreading.bytes(),
            elections: self.seat.election.begun(),
            foreign: self.foreign,
            spared,
            suspicions,
            deferred: self.seat.deferred.count(),
            multicast: self.seat.carried.status(match &self.part {
                Part::Leader(leader) => Some(leader),
                Part::Candidate(_) | Part::Follower => None,
            }),
            rounds: None,
            peers: peers.collect(),
        }
    }

    pub(crate) fn check_all(&self) {
        self.seat.acceptor.check();
        self.seat.peers.check();
        self.seat.tally.check();
        self.seat.stops.check();
        self.seat.spreading.check();
        self.seat.carried.check();
        self.seat.forward.check();
        self.seat.reads.check();
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

    /// Whether the leader may propose in `slot`.
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
}
