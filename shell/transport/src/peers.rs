//! The peers: the address of each, when it is dialled next, and which connection is the link.
//!
//! Of two nodes the one with the lower id dials. A pair shares one connection for both directions, so that
//! the epochs of both ends begin and end together.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, REFUSAL_LOGGED_EVERY};
use quorate_types::{Duration, Incarnation, Levels, LinkEpoch, NodeId, PeerPast, Time};

/// A member as the transport needs to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddress {
    /// Which node.
    pub node: NodeId,
    /// Which life of its data directory; another one is refused.
    pub incarnation: Incarnation,
    /// Where it listens, `host:port`.
    pub address: String,
}

/// Where the way to a peer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerState {
    /// Nothing is under way; the peer is dialled at `at` if this node is the one to dial.
    Idle { at: Time },
    /// Its name is being looked up.
    Resolving,
    /// A connection in this slot is being made.
    Dialling { slot: usize },
    /// The link stands, in this slot.
    Linked { slot: usize, epoch: LinkEpoch },
}

pub(crate) struct RemotePeer {
    pub(crate) address: PeerAddress,
    pub(crate) way: PeerState,
    /// What was seen of it.
    pub(crate) past: PeerPast,
    /// What it said that it speaks, when it was linked last.
    pub(crate) speaks: Option<Levels>,
    /// The newest commit of this node that it was told.
    pub(crate) told: u64,
    pause: Duration,
    refusal_logged: Option<Time>,
}

impl RemotePeer {
    /// What an earlier life remembered counts if it is about this incarnation.
    pub(crate) fn new(address: PeerAddress, past: Option<PeerPast>, now: Time) -> RemotePeer {
        let past = past.filter(|past| past.incarnation == address.incarnation);
        RemotePeer {
            past: past.unwrap_or(PeerPast::new(address.incarnation)),
            speaks: None,
            told: 0,
            address,
            way: PeerState::Idle { at: now },
            pause: BACKOFF_MIN,
            refusal_logged: None,
        }
    }

    /// The try failed or the link ended: the next try comes after a pause that grows.
    pub(crate) fn lost(&mut self, now: Time) {
        let at = now + self.pause;
        self.pause = Duration((self.pause.0 * 2).min(BACKOFF_MAX.0));
        self.way = PeerState::Idle { at };
    }

    /// The next try comes after the longest pause.
    pub(crate) fn rest(&mut self) {
        self.pause = BACKOFF_MAX;
    }

    /// The link stands.
    pub(crate) fn linked(&mut self, slot: usize, epoch: LinkEpoch) {
        self.way = PeerState::Linked { slot, epoch };
        self.pause = BACKOFF_MIN;
    }

    /// The slot of the link, if it stands.
    pub(crate) fn link(&self) -> Option<usize> {
        match self.way {
            PeerState::Linked { slot, .. } => Some(slot),
            PeerState::Idle { .. } | PeerState::Resolving | PeerState::Dialling { .. } => None,
        }
    }

    /// Whether a refusal may be logged: at most once in a while.
    pub(crate) fn may_log_refusal(&mut self, now: Time) -> bool {
        let is_due = self
            .refusal_logged
            .is_none_or(|last| now.since(last) >= REFUSAL_LOGGED_EVERY);
        if is_due {
            self.refusal_logged = Some(now);
        }
        is_due
    }
}
