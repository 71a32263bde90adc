//! The configuration of an instance; it never changes after the instance is made.

use crate::{Damage, Limits};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, GroupId, NodeId, View, ViewId};

/// Everything that does not change between two starts of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The group that is ordered.
    pub group: GroupId,
    /// This node.
    pub own: NodeId,
    /// Which start of its data directory this is; durable before the instance is made, never reused.
    pub boot: u64,
    /// The view that is ordered.
    pub view: View,
    /// Whether this node votes.
    pub standing: Standing,
    /// The records that storage cannot read any more (a torn tail is none). In the slots that are named
    /// the acceptor answers `unknown`. If the damage has no bounds, the acceptor observes until every
    /// other acceptor of the view has reported its promise and votes, and the values are learned.
    pub damage: Damage,
    /// Times of the protocol.
    pub timing: Timing,
    /// Bounds of the protocol.
    pub limits: Limits,
    /// Whether the replica is told of orders before they are decided ([`crate::Effect::Tentative`]).
    pub tells_tentative: bool,
    /// Seed of the timeouts' randomness; different at each node and start.
    pub seed: u64,
}

impl Config {
    /// The usual timing and limits for node `own` of `view` of `group`.
    #[must_use]
    pub fn new(group: GroupId, own: NodeId, boot: u64, view: View, seed: u64) -> Config {
        Config {
            group,
            own,
            boot,
            view,
            standing: Standing::Voter,
            damage: Damage::default(),
            timing: Timing::default(),
            limits: Limits::default(),
            tells_tentative: false,
            seed,
        }
    }

    /// The id of the view that is ordered.
    #[must_use]
    pub fn view_id(&self) -> ViewId {
        ViewId {
            group: self.group,
            number: self.view.number,
        }
    }

    /// Says whether this node votes: an acceptor of the view that remembers its earlier life.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        let remembers = self.standing == Standing::Voter || planted(Plant::ForgetfulNodeVotes);
        remembers && self.view.acceptors.contains(self.own)
    }
}

/// Whether an acceptor of the view may act as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It remembers all its promises and votes.
    Voter,
    /// It may have lost promises or votes: it learns, forwards and executes, but never promises, votes or
    /// leads.
    Observer,
}

/// Times of the protocol, on the node's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Time between two heartbeats of a leader.
    pub heartbeat: Duration,
    /// The same while clients have sessions ([`crate::Event::Attended`]).
    pub attended: Duration,
    /// Shortest silence of a leader after which a follower suspects it. Also: how long a leader that hears
    /// no quorum still leads.
    pub election_min: Duration,
    /// Longest such silence; each node draws its own between the two.
    pub election_max: Duration,
    /// Shortest wait between seeing a leader's link go down and asking for pre-votes, and between two tries.
    pub retry_min: Duration,
    /// Longest such wait.
    pub retry_max: Duration,
    /// How long an acceptor that granted a lease promises no other node.
    pub lease: Duration,
    /// How much faster or slower than real time a clock may run, in parts per million. The leader shortens
    /// its lease by twice this.
    pub clock_drift_ppm: u64,
    /// How long the decided watermark waits for a message to carry it.
    pub announce: Duration,
    /// How long a gap below the decided watermark stays before the missing slots are asked for.
    pub gap: Duration,
    /// How long an unanswered request (learn, forward, accept) waits before it is sent again; doubles
    /// with each repetition up to `election_max`.
    pub resend: Duration,
    /// How long a submitted command waits for its decision before it is refused.
    pub submit: Duration,
    /// How long a read waits for its barrier before it is answered as unconfirmed.
    pub read: Duration,
}

impl Timing {
    /// The times of a group that shares its nodes with many others: what it says while no client has a session costs little. A leader
    /// whose process ends is noticed as soon as ever, one that hangs or is cut off after 3 to 5 seconds.
    #[must_use]
    pub fn of_many() -> Timing {
        Timing {
            heartbeat: Duration::from_millis(1_000),
            attended: Duration::from_millis(100),
            election_min: Duration::from_millis(3_000),
            election_max: Duration::from_millis(5_000),
            lease: Duration::from_millis(400),
            ..Timing::default()
        }
    }
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            heartbeat: Duration::from_millis(25),
            attended: Duration::from_millis(25),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(700),
            retry_min: Duration::from_millis(5),
            retry_max: Duration::from_millis(25),
            lease: Duration::from_millis(100),
            clock_drift_ppm: 500,
            announce: Duration::from_millis(5),
            gap: Duration::from_millis(5),
            resend: Duration::from_millis(100),
            submit: Duration::from_millis(3000),
            read: Duration::from_millis(1000),
        }
    }
}
