//! A replica that differs and finds no agreed snapshot has no say about slots after its objects': it tells its peers.
//!
//! Otherwise its peers would wait for its digest, and it for their agreed snapshot: where they differ from each other, nobody
//! would learn that no majority is possible. What it tells is a promise about slots, not about a moment: it reports nothing there
//! that others have not agreed on, because from then on it takes over only a snapshot at the last of them or later. So a message
//! that comes late does no harm. A start is not bound by what an earlier one promised; its peers forget that with the link.

use crate::{Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering};
use quorate_types::{NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// Who has no say, and what this replica has to know before it gives up its own.
#[derive(Debug, Default)]
pub(crate) struct NoSay {
    /// Peers that were asked for a snapshot, and the newest slot at which replicas were known to differ then.
    asked: BTreeMap<NodeId, Slot>,
    /// The same of questions to which the answer was that there is none.
    refused: BTreeMap<NodeId, Slot>,
    /// The last slot about which this replica has promised to have no say.
    promised: Option<Slot>,
    /// After and up to which slot each peer has no say; one entry a replica.
    told: BTreeMap<NodeId, (Slot, Slot)>,
}

impl NoSay {
    /// The own objects differ since this moment.
    pub(crate) fn begin(&mut self) {
        self.asked.clear();
        self.refused.clear();
        self.promised = None;
    }

    /// Whether this replica may take over no state before a slot that it has named.
    pub(crate) fn is_promised(&self) -> bool {
        self.promised.is_some()
    }

    /// The peer is asked for a snapshot while replicas are known to differ at `slot`.
    pub(crate) fn asks(&mut self, peer: NodeId, slot: Option<Slot>) {
        self.asked.insert(peer, slot.unwrap_or(Slot::ZERO));
    }

    /// The peer that was asked has no snapshot that helps.
    pub(crate) fn is_refused(&mut self, peer: NodeId) {
        if let Some(slot) = self.asked.remove(&peer) {
            self.refused.insert(peer, slot);
        }
    }

    /// The newest slot at which replicas were known to differ when each of `peers` was asked in vain.
    fn refused_at(&self, peers: NodeSet) -> Option<Slot> {
        let slots: Option<Vec<Slot>> = peers
            .iter()
            .map(|peer| self.refused.get(&peer).copied())
            .collect();
        slots?.into_iter().min()
    }

    /// A peer reports a snapshot: it has a say again, unless the report is older than its word.
    pub(crate) fn reported(&mut self, peer: NodeId, slot: Slot) {
        if self.told.get(&peer).is_some_and(|(after, _)| slot > *after) {
            self.told.remove(&peer);
        }
    }

    /// The peer may be another start behind a new link.
    pub(crate) fn link_changed(&mut self, peer: NodeId) {
        self.told.remove(&peer);
        self.asked.remove(&peer);
        self.refused.remove(&peer);
    }
}

impl<O: Ordering> Replica<O> {
    /// A round of questions for a snapshot brought nothing. If all other replicas have said that they have none since two of them
    /// were known to differ at a slot, gives up the say there. Said again after each such round.
    pub(crate) fn tell_no_say(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let to = self.other_replicas();
        let needed = self
            .fetch
            .needed()
            .filter(|_| self.quarantine.is_diverged());
        if needed.is_none_or(|needed| self.agreement.is_agreed_since(needed)) {
            return;
        }
        let after = self.pipeline.handed_out(self.replicated.applied);
        let upto = self.no_say.refused_at(to).max(self.no_say.promised);
        let Some(upto) = upto.filter(|upto| *upto > after) else {
            return;
        };
        self.no_say.promised = Some(upto);
        self.fetch_at_least(now, upto, out);
        out.push(Output::Send {
            to,
            lane: Lane::Normal,
            message: PeerMessage::Replica(ReplicaMessage::NoSay { after, upto }),
        });
    }

    /// A peer that differs reports nothing after `after` and up to `upto` that others have not agreed on.
    pub(crate) fn peer_has_no_say(
        &mut self,
        now: Time,
        from: NodeId,
        (after, upto): (Slot, Slot),
        out: &mut Vec<Output<O::Message>>,
    ) {
        if !self.other_replicas().contains(from) {
            return;
        }
        self.no_say.told.insert(from, (after, upto));
        self.judge(now, upto, out);
    }

    /// Replicas that will report nothing at `slot` before a majority has. Not where a later state is known to be agreed: they may
    /// take over that.
    pub(crate) fn without_say(&self, slot: Slot) -> NodeSet {
        if self.agreement.is_agreed_since(slot) {
            return NodeSet::empty();
        }
        let told = self.no_say.told.iter();
        told.filter(|(_, (after, upto))| *after < slot && slot <= *upto)
            .map(|(node, _)| *node)
            .collect()
    }
}
