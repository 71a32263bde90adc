//! What a leader sends to each peer, and again when it seems lost, within the peer's credit.

use crate::message::{Accept, Message};
use crate::{MultiPaxos, Part};
use quorate_ordering::{Effect, Effects, Lane};
use quorate_types::{Duration, NodeId, NodeSet, Time};

impl MultiPaxos {
    /// Sends `node` the undecided slots that it lacks, as far as its credit goes.
    pub(crate) fn fill(&mut self, now: Time, node: NodeId, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let Part::Leader(leader) = &self.part else {
            return;
        };
        let Some(peer) = self.peers.find_mut(node) else {
            return;
        };
        if peer.next >= leader.next || peer.link.is_none() {
            return;
        }
        peer.next = peer.next.max(decided.next());
        while peer.next < leader.next && peer.credit.has_room(&self.config.limits) {
            let slot = peer.next;
            let proposal = &leader.in_flight[(slot.0 - decided.0 - 1) as usize];
            peer.next = slot.next();
            if proposal.voters.contains(node) {
                continue;
            }
            peer.charge(now, slot, proposal.batch.weight());
            effects.push(Effect::Send {
                to: NodeSet::only(node),
                lane: Lane::Normal,
                message: Message::Accept(Accept {
                    ballot: leader.ballot,
                    slot,
                    batch: proposal.batch.clone(),
                    decided,
                }),
            });
        }
    }

    /// Nothing was decided for a while: the oldest undecided slots go again to those who have not
    /// voted for them. Lost votes are told again by who gets a proposal twice.
    pub(crate) fn resend_unvoted(&mut self, now: Time, effects: &mut Effects<Message>) {
        let decided = self.acceptor.log.decided();
        let longest = self.config.timing.election_max;
        let Part::Leader(leader) = &mut self.part else {
            return;
        };
        if leader.in_flight.is_empty() || now < leader.progress_at + leader.patience {
            return;
        }
        leader.progress_at = now;
        leader.patience = Duration(leader.patience.0 * 2).min(longest);
        let mut slot = decided;
        for proposal in leader.in_flight.iter().take(self.config.limits.resend) {
            slot = slot.next();
            let lacking: NodeSet = (self.peers.iter())
                .filter(|peer| peer.link.is_some() && peer.next > slot)
                .map(|peer| peer.node)
                .filter(|node| !proposal.voters.contains(*node))
                .collect();
            let accept = Message::Accept(Accept {
                ballot: leader.ballot,
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

    /// A peer that answers heartbeats but no values lost them: its credit begins anew, at what is
    /// undecided. One that answers nothing gets nothing.
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
