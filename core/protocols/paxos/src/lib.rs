//! Multi-Paxos: orders commands with one stable leader.
//!
//! [`MultiPaxos`] is one instance at one node. It owns an [`Acceptor`], which remembers. Each other role is a
//! file: `election` and `candidate` find a leader, `leader` fills slots, `learner` follows, `forward` and `reads` serve
//! the local replica. Here is only the dispatch between them. It knows no bytes, objects or clients.
#![forbid(unsafe_code)]

mod candidate;
mod dispatch;
mod election;
mod flow;
mod forward;
mod leader;
mod learner;
mod limits;
pub mod message;
mod peers;
mod queue;
mod random;
mod reads;
mod repair;

pub use message::Message;
pub use quorate_acceptor::{Promise, Vote};

use candidate::Candidate;
use election::Election;
use forward::Submissions;
use leader::Leader;
use learner::Learner;
use peers::Peers;
use quorate_acceptor::{Acceptor, Backing, ForeignRecord, restore};
use quorate_ordering::{Config, Damage, OrderingStatus, PeerStatus, Record, Role, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Duration, NodeSet, Slot, Time};
use random::Random;
use reads::PaxosReads;
use repair::Repair;

/// A node's part in agreement at this moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Follower,
    Candidate(Box<Candidate>),
    Leader(Box<Leader>),
}

/// What this acceptor has to tell of consecutive slots of one ballot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct UnsentVotes {
    ballot: Ballot,
    first: Slot,
    last: Slot,
    backing: Backing,
}

/// One node's instance of Multi-Paxos for one view.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiPaxos {
    config: Config,
    random: Random,
    acceptor: Acceptor,
    part: Part,
    election: Election,
    peers: Peers,
    learner: Learner,
    forward: Submissions,
    reads: PaxosReads,
    /// Present while a damaged acceptor may not vote.
    repair: Option<Repair>,
    /// Damage was found, and storage has not been told that it is made up for.
    must_report_repair: bool,
    /// The highest slot that the replica applied.
    executed: Slot,
    /// The highest slot handed up. Invariant: at most the decided prefix, outside of `handle`.
    delivered: Slot,
    /// Votes whose answer leaves at the end of the turn.
    unsent_votes: Option<UnsentVotes>,
    role_told: Role,
    /// Messages of other views that were dropped.
    foreign: u64,
    /// When the decided watermark is next written, if it rose.
    record_at: Time,
}

impl MultiPaxos {
    /// An instance that remembers `recovered`, the records of its log in their order. The first event
    /// must be [`quorate_ordering::Event::Executed`] with the slot of the snapshot that the replica
    /// restored, slot 0 for none: what lies between it and the trim point has to come by a snapshot.
    ///
    /// # Errors
    /// When a record is of another view.
    pub fn new(
        config: Config,
        recovered: Vec<Record>,
        now: Time,
    ) -> Result<MultiPaxos, ForeignRecord> {
        let mut config = config;
        if planted(Plant::ElectionsTenTimesSlower) {
            config.timing.election_min = Duration(config.timing.election_min.0 * 10);
            config.timing.election_max = Duration(config.timing.election_max.0 * 10);
        }
        let timing = config.timing;
        if planted(Plant::DamageIgnored) {
            config.damage = Damage::default();
        }
        let standing = if config.is_voter() && !config.damage.needs_survey() {
            Standing::Voter
        } else {
            Standing::Observer
        };
        let mut random = Random::new(config.seed);
        let mut acceptor = Acceptor::new(config.view_id(), standing, config.view.persistence);
        restore(&mut acceptor, recovered, &config.damage)?;
        let may_be_bound = acceptor.promised() > Ballot::ZERO || config.damage.was_found();
        if may_be_bound && !planted(Plant::LeaseForgotten) {
            // A lease granted before the restart is forgotten, so it is kept to blindly.
            acceptor.bind(Ballot::ZERO, now + timing.lease);
        }
        let is_alone = config.view.acceptors.len() == 1;
        let patience = if is_alone {
            Duration::ZERO
        } else {
            random.span(timing.retry_max, timing.election_min)
        };
        let delivered = acceptor.log.trimmed();
        let must_repair = config.damage.needs_survey() && config.is_voter();
        let is_repairable = must_repair || !config.damage.needs_survey();
        let repair = must_repair.then(|| Repair::new(config.boot, now));
        Ok(MultiPaxos {
            election: Election::new(now, patience),
            peers: Peers::new(&config.view, config.own),
            learner: Learner::new(now),
            forward: Submissions::new(config.boot),
            reads: PaxosReads::new(config.boot),
            repair,
            must_report_repair: config.damage.was_found() && is_repairable,
            executed: Slot::ZERO,
            delivered,
            unsent_votes: None,
            role_told: Role::Follower { leader: None },
            foreign: 0,
            record_at: now,
            part: Part::Follower,
            config,
            random,
            acceptor,
        })
    }

    /// Every other member of the view.
    pub(crate) fn others(&self) -> NodeSet {
        self.config.view.nodes().without(self.config.own)
    }

    pub(crate) fn role(&self) -> Role {
        match &self.part {
            Part::Follower => Role::Follower {
                leader: self.election.leader.map(|ballot| ballot.node),
            },
            Part::Candidate(candidate) => Role::Candidate {
                ballot: candidate.ballot,
            },
            Part::Leader(leader) => Role::Leader {
                ballot: leader.ballot,
            },
        }
    }

    pub(crate) fn report(&self) -> OrderingStatus {
        let decided = self.acceptor.log.decided();
        let voted = self.acceptor.log.highest();
        let (window_left, waiting) = match &self.part {
            Part::Leader(leader) => {
                let ahead = leader.proposed().since(self.executed);
                let left = self.config.view.window.saturating_sub(ahead);
                (left, leader.queue.len() + self.forward.len())
            }
            Part::Candidate(_) | Part::Follower => (0, self.forward.len()),
        };
        let is_leader = matches!(self.part, Part::Leader(_));
        let peers = self.peers.iter().map(|peer| PeerStatus {
            node: peer.node,
            connected: peer.link.is_some(),
            lag: if is_leader {
                voted.since(peer.acked.max(peer.decided))
            } else {
                self.learner.known.max(decided).since(peer.decided)
            },
            in_flight_bytes: peer.credit.bytes(),
        });
        OrderingStatus {
            role: self.role(),
            promised: self.acceptor.promised(),
            decided,
            voted,
            trimmed: self.acceptor.log.trimmed(),
            window_left,
            waiting,
            held_bytes: self.acceptor.log.bytes(),
            elections: self.election.begun,
            foreign: self.foreign,
            peers: peers.collect(),
        }
    }

    pub(crate) fn check_all(&self) {
        self.acceptor.check();
        self.peers.check();
        self.forward.check();
        self.reads.check();
        let decided = self.acceptor.log.decided();
        assert!(
            self.delivered <= decided,
            "only decided slots are handed up"
        );
        assert!(
            self.acceptor.log.trimmed() <= self.delivered,
            "what is trimmed was handed up"
        );
        if let Part::Leader(leader) = &self.part {
            leader.check(decided);
            assert!(self.acceptor.is_voter(), "a leader votes");
        }
    }
}
