//! How a leader sends values to each peer within the peer's credit, and sends them again if they seem lost.

use crate::Seat;
use crate::leader::Leader;
use crate::message::{Accept, Message};
use quorate_ordering::{Effect, Effects, Flow, Lane};
use quorate_types::{Duration, NodeId, NodeSet, Time};

impl Leader {
    /// Sends `node` the undecided slots that it lacks, as far as its credit allows.
    pub(crate) fn fill(
        &mut self,
        seat: &mut Seat,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        let decided = seat.acceptor.log.decided();
        let Some(peer) = seat.peers.find_mut(node) else {
            return;
        };
        let is_spared = self.steps.spares(node, peer.is_acceptor);
        if peer.next >= self.next || peer.link.is_none() || is_spared {
            return;
        }
        peer.next = peer.next.max(decided.next());
        while peer.next < self.next && peer.credit.has_room(&seat.config.limits) {
            let slot = peer.next;
            let proposal = &self.in_flight[(slot.0 - decided.0 - 1) as usize];
            peer.next = slot.next();
            if proposal.voters.contains(node) {
                continue;
            }
            peer.charge(now, slot, proposal.batch.weight());
            effects.push(Effect::Send {
                to: NodeSet::only(node),
                lane: Lane::Normal,
                message: Message::Accept(Accept {
                    ballot: self.ballot,
                    slot,
                    batch: proposal.batch.clone(),
                    decided,
                }),
            });
        }
    }

    /// Nothing was decided for a while: sends the oldest undecided slots again to the nodes that have not
    /// voted for them. A node that gets a proposal twice sends its vote again.
    pub(crate) fn resend_unvoted(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let decided = seat.acceptor.log.decided();
        let longest = seat.config.timing.election_max;
        if self.in_flight.is_empty() || now < self.progress_at + self.patience {
            return;
        }
        self.progress_at = now;
        self.patience = Duration(self.patience.0 * 2).min(longest);
        let mut slot = decided;
        for proposal in self.in_flight.iter().take(seat.config.limits.resend) {
            slot = slot.next();
            let lacking: NodeSet = (seat.peers.iter())
                .filter(|peer| peer.link.is_some() && peer.next > slot)
                .map(|peer| peer.node)
                .filter(|node| !proposal.voters.contains(*node))
                .collect();
            let accept = Message::Accept(Accept {
                ballot: self.ballot,
                slot,
                batch: proposal.batch.clone(),
                decided,
            });
            if !lacking.is_empty() {
                effects.push(Effect::Send {
                    to: lacking,
                    lane: Lane::Normal,
                    message: accept,
                });
            }
        }
    }

    /// A leader that retries sends each peer again what it did not acknowledge in time, decided or not, and at most as much at once as
    /// others have credit. What is decided there is what this leader proposed: one that was superseded steps down (claim mp-32).
    pub(crate) fn retry_overdue(
        &mut self,
        seat: &mut Seat,
        now: Time,
        effects: &mut Effects<Message>,
    ) {
        let Flow::Retry(patience) = seat.config.limits.flow else {
            return;
        };
        let decided = seat.acceptor.log.decided();
        let most = seat.config.limits.credit_messages;
        for peer in seat.peers.iter_mut().filter(|peer| peer.link.is_some()) {
            for slot in peer.credit.overdue(now, patience, most) {
                let proposed = self.proposal(slot).map(|proposal| &proposal.batch);
                let Some(batch) = proposed.or(seat.acceptor.log.chosen(slot)) else {
                    continue;
                };
                effects.push(Effect::Send {
                    to: NodeSet::only(peer.node),
                    lane: Lane::Normal,
                    message: Message::Accept(Accept {
                        ballot: self.ballot,
                        slot,
                        batch: batch.clone(),
                        decided,
                    }),
                });
            }
        }
    }
}

impl Seat {
    /// Whether a leader that blocks waits for a peer. No other leader ever does.
    pub(crate) fn is_blocked(&self) -> bool {
        match self.config.limits.flow {
            Flow::Credit | Flow::Unbounded | Flow::Retry(_) => false,
            Flow::Blocking(_) => {
                let mut linked = self.peers.linked();
                linked.any(|peer| peer.credit.blocks(&self.config.limits))
            }
        }
    }

    /// A peer that answers heartbeats but not values has lost the values: its credit is reset and starts at
    /// the undecided slots. A peer that answers nothing gets nothing.
    pub(crate) fn free_stalled(&mut self, now: Time) {
        let next = self.acceptor.log.decided().next();
        let bearable = self.config.timing.election_min;
        for peer in self.peers.iter_mut() {
            let Some(since) = peer.credit.stalled_since() else {
                continue;
            };
            if now.since(since) >= bearable && peer.answered > since {
                peer.restart_at(next);
            }
        }
    }
}
