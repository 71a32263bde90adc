//! What is known of the other nodes: their links, what they said of themselves, and the credit that
//! bounds what is sent to each.
//!
//! Credit keeps a slow or dead peer cheap: when it is used up no value is sent to it, nothing waits
//! for it, and it learns what it missed once it answers again.

use crate::Limits;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{LinkEpoch, NodeId, Slot, Time, View};
use std::collections::VecDeque;

/// One other member of the view.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) is_acceptor: bool,
    /// The life of the link, while it is up.
    pub(crate) link: Option<LinkEpoch>,
    /// The highest decided prefix that it told of.
    pub(crate) decided: Slot,
    /// The highest number of a forward taken from it; each is taken once.
    pub(crate) forwarded: u64,
    /// As a leader: when it last answered in this ballot, as an acceptor with a vote.
    pub(crate) heard: Time,
    /// As a leader: when it last answered in this ballot.
    pub(crate) answered: Time,
    /// As a leader: when the newest heartbeat that it granted a lease for was sent.
    pub(crate) granted: Option<Time>,
    /// As a leader: the highest slot that it acknowledged.
    pub(crate) acked: Slot,
    /// As a leader: the next slot to send to it.
    pub(crate) next: Slot,
    flight: VecDeque<(Slot, usize)>,
    flight_bytes: usize,
    /// When the oldest unanswered value was sent, or the last answer came.
    stalled_since: Time,
}

impl Peer {
    /// Says whether one more value may be sent. An idle peer always takes one, however large.
    pub(crate) fn has_credit(&self, limits: &Limits) -> bool {
        self.flight.is_empty()
            || planted(Plant::CreditUnbounded)
            || (self.flight.len() < limits.credit_messages
                && self.flight_bytes < limits.credit_bytes)
    }

    /// Takes credit for a value that is sent.
    pub(crate) fn charge(&mut self, now: Time, slot: Slot, bytes: usize) {
        if self.flight.is_empty() {
            self.stalled_since = now;
        }
        self.flight.push_back((slot, bytes));
        self.flight_bytes += bytes;
        self.next = self.next.max(slot.next());
    }

    /// Gives credit back for everything sent up to `upto`.
    pub(crate) fn refund(&mut self, now: Time, upto: Slot) {
        self.acked = self.acked.max(upto);
        while let Some((slot, bytes)) = self.flight.front().copied() {
            if slot > upto {
                break;
            }
            self.flight.pop_front();
            self.flight_bytes -= bytes;
            self.stalled_since = now;
        }
    }

    /// Forgets what was sent: it is lost, or belongs to another ballot. The next value to send is
    /// `next`.
    pub(crate) fn restart_at(&mut self, next: Slot) {
        self.flight.clear();
        self.flight_bytes = 0;
        self.next = next;
    }

    /// Since when values sent are unanswered, if any are.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        (!self.flight.is_empty()).then_some(self.stalled_since)
    }

    pub(crate) fn flight_bytes(&self) -> usize {
        self.flight_bytes
    }

    fn check(&self) {
        let bytes: usize = self.flight.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, self.flight_bytes, "credit is neither lost nor made");
    }
}

/// All other members, ascending by node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peers(Vec<Peer>);

impl Peers {
    pub(crate) fn new(view: &View, own: NodeId) -> Peers {
        let others = view.nodes().without(own);
        Peers(
            others
                .iter()
                .map(|node| Peer {
                    node,
                    is_acceptor: view.acceptors.contains(node),
                    link: None,
                    decided: Slot::ZERO,
                    forwarded: 0,
                    heard: Time(0),
                    answered: Time(0),
                    granted: None,
                    acked: Slot::ZERO,
                    next: Slot::ZERO,
                    flight: VecDeque::new(),
                    flight_bytes: 0,
                    stalled_since: Time(0),
                })
                .collect(),
        )
    }

    pub(crate) fn find(&self, node: NodeId) -> Option<&Peer> {
        self.0.iter().find(|peer| peer.node == node)
    }

    pub(crate) fn find_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.0.iter_mut().find(|peer| peer.node == node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.0.iter_mut()
    }

    /// Says whether the link to `node` is up.
    pub(crate) fn is_linked(&self, node: NodeId) -> bool {
        self.find(node).is_some_and(|peer| peer.link.is_some())
    }

    /// Notes the decided prefix of a peer.
    pub(crate) fn note_decided(&mut self, node: NodeId, decided: Slot) {
        if let Some(peer) = self.find_mut(node) {
            peer.decided = peer.decided.max(decided);
        }
    }

    pub(crate) fn check(&self) {
        for peer in &self.0 {
            peer.check();
        }
    }
}
