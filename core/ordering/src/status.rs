//! The status of an ordering protocol.

use quorate_types::{Ballot, NodeId, NodeSet, Slot};

/// A node's current role in ordering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Orders commands in this ballot.
    Leader {
        /// Its ballot.
        ballot: Ballot,
    },
    /// Tries to lead.
    Candidate {
        /// The ballot it tries.
        ballot: Ballot,
    },
    /// Follows `leader` where one is known.
    Follower {
        /// Who leads, as far as this node knows.
        leader: Option<NodeId>,
    },
}

impl Role {
    /// The leader, as node `own` knows it.
    #[must_use]
    pub fn leader(self, own: NodeId) -> Option<NodeId> {
        match self {
            Role::Leader { .. } => Some(own),
            Role::Candidate { .. } => None,
            Role::Follower { leader } => leader,
        }
    }
}

/// The state that a status page shows, the same for all protocols.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderingStatus {
    /// The role of this node.
    pub role: Role,
    /// Whether this node votes, or may where it is an acceptor: it has lost no votes that it has not made good.
    pub votes: bool,
    /// Highest ballot promised.
    pub promised: Ballot,
    /// Highest slot of the decided prefix.
    pub decided: Slot,
    /// Highest slot that this node knows to be decided anywhere.
    pub known: Slot,
    /// Highest slot proposed or voted in.
    pub voted: Slot,
    /// Last trimmed slot.
    pub trimmed: Slot,
    /// Slots that may still be proposed before the window is full; 0 if this node does not lead.
    pub window_left: u64,
    /// Commands waiting to be ordered here.
    pub waiting: usize,
    /// Bytes of batches held in memory.
    pub held_bytes: usize,
    /// Elections this node began since it started.
    pub elections: u64,
    /// Messages of other views or groups that arrived and were dropped, since this node started.
    pub foreign: u64,
    /// Slots that this leader did not propose to all itself: to the best quorum only, sparing slow acceptors, or along a ring.
    pub spared: u64,
    /// How often it asked all acceptors again because one of such a quorum was suspected, or the ring.
    pub suspicions: u64,
    /// Votes for the trim of logs that this node's acceptor gave only once it held what was before, or not yet, since this node started.
    pub deferred: u64,
    /// What became of values that are multicast.
    pub multicast: MulticastStatus,
    /// In which rounds slots were decided, where some are fast.
    pub rounds: Option<RoundsStatus>,
    /// The state of each peer, ascending by node.
    pub peers: Vec<PeerStatus>,
}

/// In which rounds slots were decided while this node led, since it started in its view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundsStatus {
    /// Slots decided in their fast round.
    pub fast: u64,
    /// Slots decided in a classic round, those that had collided among them.
    pub classic: u64,
    /// Slots whose fast round could decide nothing, because votes differed.
    pub collisions: u64,
}

/// What became of values that are multicast, since this node started in its view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MulticastStatus {
    /// Values that this node multicast since it began to lead.
    pub sent: u64,
    /// Values of proposals that came to this node by multicast in time, or were waited for.
    pub heard: u64,
    /// Values that it waited for in vain and asked for.
    pub asked: u64,
    /// As a leader: who does not hear what it multicasts, and gets values by links.
    pub deaf: NodeSet,
}

/// The state of one peer, as far as this node knows.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerStatus {
    /// Which node.
    pub node: NodeId,
    /// Whether a link is up.
    pub connected: bool,
    /// Slots between the leader's newest and the peer's last acknowledged one.
    pub lag: u64,
    /// Values sent and not acknowledged.
    pub in_flight: usize,
    /// Bytes sent and not acknowledged.
    pub in_flight_bytes: usize,
}
