//! The state of the other nodes: their links, what they reported of themselves, and the credit that
//! bounds what is sent to each.

use crate::forward::AcceptedForwards;
use quorate_acceptor::{Credit, Taught};
use quorate_types::{Duration, LinkEpoch, NodeId, Slot, Time, View};

/// One other member of the view.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) is_acceptor: bool,
    /// The epoch of the link, while it is up.
    pub(crate) link: Option<LinkEpoch>,
    /// The highest decided prefix that it reported.
    pub(crate) decided: Slot,
    /// Forwards accepted from it; each number is accepted once.
    pub(crate) forwarded: AcceptedForwards,
    /// As a leader: when it last answered in this ballot, as an acceptor with a vote.
    pub(crate) heard: Time,
    /// As a leader: when it last answered in this ballot.
    pub(crate) answered: Time,
    /// As a leader: the newest heartbeat that it heard as an acceptor with a vote.
    pub(crate) beat: u64,
    /// The highest number of its answers to heartbeats.
    pub(crate) answer: u64,
    /// As a leader: when the newest heartbeat that it granted a lease for was sent.
    pub(crate) granted: Option<Time>,
    /// As a leader: how long its answers to heartbeats take, or the newest one is awaited; none before the first.
    pub(crate) round_trip: Option<Duration>,
    /// As a leader: the highest slot that it acknowledged.
    pub(crate) acked: Slot,
    /// As a leader: the next slot to send to it.
    pub(crate) next: Slot,
    /// The credit for values sent to it.
    pub(crate) credit: Credit,
    /// The credit for values spread to it, by their numbers.
    pub(crate) spread: Credit<u64>,
    /// The decided slots that it was told last on this link.
    pub(crate) taught: Option<Taught>,
}

impl Peer {
    /// As an acceptor with a vote it answered a heartbeat. Of a newer one than before the time counts: it moves the average by an eighth.
    pub(crate) fn heard_beat(&mut self, now: Time, beat: u64, sent_at: Option<Time>) {
        self.heard = now;
        if beat > self.beat
            && let Some(sent_at) = sent_at
        {
            let taken = now.since(sent_at);
            let before = self.round_trip.unwrap_or(taken);
            self.round_trip = Some(Duration((before.0.saturating_mul(7) + taken.0) / 8));
        }
        self.beat = self.beat.max(beat);
    }

    /// An answer is awaited for this time: it will have taken that long at least.
    pub(crate) fn awaits_answer(&mut self, waited: Duration) {
        self.round_trip = self.round_trip.map(|known| known.max(waited));
    }

    /// A value of `slot` is sent to it.
    pub(crate) fn charge(&mut self, now: Time, slot: Slot, bytes: usize) {
        self.credit.charge(now, slot, bytes);
        self.next = self.next.max(slot.next());
    }

    /// It acknowledged everything sent up to `upto`.
    pub(crate) fn refund(&mut self, now: Time, upto: Slot) {
        self.acked = self.acked.max(upto);
        self.credit.refund(now, upto);
    }

    /// Forgets the values sent: they are lost, or belong to another ballot. The next value to send is
    /// that of `next`.
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
        let others = view.nodes().without(own);
        Peers(
            others
                .iter()
                .map(|node| Peer {
                    node,
                    is_acceptor: view.acceptors.contains(node),
                    link: None,
                    decided: Slot::ZERO,
                    forwarded: AcceptedForwards::default(),
                    heard: Time(0),
                    answered: Time(0),
                    beat: 0,
                    answer: 0,
                    granted: None,
                    round_trip: None,
                    acked: Slot::ZERO,
                    next: Slot::ZERO,
                    credit: Credit::default(),
                    spread: Credit::default(),
                    taught: None,
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
            peer.spread.check();
        }
    }
}
