//! The state of the other nodes: their links, what they reported of themselves, and the credit that
//! bounds what is sent to each.

use crate::Seat;
use quorate_acceptor::{Credit, Taught};
use quorate_types::{LinkEpoch, NodeId, Slot, Time, View};

/// One other member of the view.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) is_acceptor: bool,
    /// The epoch of the link, while it is up.
    pub(crate) link: Option<LinkEpoch>,
    /// The highest decided prefix that it reported.
    pub(crate) decided: Slot,
    /// As a leader: when it last answered in this ballot, as an acceptor with a vote.
    pub(crate) heard: Option<Time>,
    /// As a leader: the newest heartbeat that it heard as an acceptor with a vote.
    pub(crate) beat: u64,
    /// The highest number of its answers to heartbeats.
    pub(crate) answer: u64,
    /// When anything last came from it.
    pub(crate) answered: Time,
    /// As a leader: the next slot to send to it.
    pub(crate) next: Slot,
    /// The credit for the leader's proposals sent to it.
    pub(crate) credit: Credit,
    /// The credit for the values sent to it, by their numbers.
    pub(crate) value_credit: Credit<u64>,
    /// The decided slots that it was told last on this link.
    pub(crate) taught: Option<Taught>,
}

impl Peer {
    /// Forgets the proposals sent: they are lost, or belong to another ballot. The next one to send is that of `next`.
    pub(crate) fn restart_at(&mut self, next: Slot) {
        self.credit.reset();
        self.next = next;
    }
}

/// All other members, ascending by node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peers(Vec<Peer>);

impl Peers {
    pub(crate) fn new(view: &View, own: NodeId) -> Peers {
        let others = view.nodes().without(own).iter();
        let peer = |node| Peer {
            node,
            is_acceptor: view.acceptors.contains(node),
            link: None,
            decided: Slot::ZERO,
            heard: None,
            beat: 0,
            answer: 0,
            answered: Time(0),
            next: Slot::ZERO,
            credit: Credit::default(),
            value_credit: Credit::default(),
            taught: None,
        };
        Peers(others.map(peer).collect())
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

    /// Other acceptors.
    pub(crate) fn acceptors(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter(|peer| peer.is_acceptor)
    }

    /// Those whose links are up.
    pub(crate) fn linked(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter(|peer| peer.link.is_some())
    }

    /// Whether the link to `node` is up.
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
            peer.credit.check();
            peer.value_credit.check();
        }
    }
}

impl Seat {
    /// A peer that answers but does not acknowledge what was sent has lost it: its credit is reset.
    pub(crate) fn free_stalled(&mut self, now: Time) {
        let next = self.acceptor.log.decided().next();
        let bearable = self.config.timing.election_min;
        for peer in self.peers.iter_mut() {
            let since = peer.credit.stalled_since();
            let has_lost = |since| now.since(since) >= bearable && peer.answered > since;
            if since.is_some_and(has_lost) {
                peer.restart_at(next);
            }
        }
    }
}
