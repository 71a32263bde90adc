//! Serving peers that fetch a snapshot from here. The other side is in `fetch.rs`.
//!
//! Only a snapshot that a majority agreed on is sent, one piece for each question, and to few peers at a time.

use crate::limits::{CHUNK_BYTES, FETCHER_PATIENCE, FETCHERS};
use crate::{Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering};
use quorate_types::{Digest, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// The peers that fetch from here, and when each last asked.
#[derive(Debug, Default)]
pub(crate) struct Serving(BTreeMap<NodeId, Time>);

impl<O: Ordering> Replica<O> {
    /// Sends a piece to a peer, if an agreed snapshot kept here helps it and there is a place for it.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        from: NodeId,
        slot: Slot,
        offset: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let Serving(served) = &mut self.serving;
        served.retain(|_, asked| now.since(*asked) < FETCHER_PATIENCE);
        let has_place = served.len() < FETCHERS || served.contains_key(&from);
        let servable = self.servable(slot, offset);
        if let Some((slot, digest)) = servable
            && offset == 0
        {
            out.push(Output::Send {
                to: NodeSet::only(from),
                lane: Lane::Bulk,
                message: PeerMessage::Replica(ReplicaMessage::Agreed { slot, digest }),
            });
        }
        match servable {
            Some((slot, _)) if has_place => {
                self.serving.0.insert(from, now);
                out.push(Output::SendChunk {
                    to: from,
                    slot,
                    offset,
                    length: CHUNK_BYTES,
                });
            }
            Some(_) | None => out.push(Output::Send {
                to: NodeSet::only(from),
                lane: Lane::Bulk,
                message: PeerMessage::Replica(ReplicaMessage::NoSnapshot { slot }),
            }),
        }
    }

    fn servable(&self, slot: Slot, offset: u64) -> Option<(Slot, Digest)> {
        let own = self.config.own;
        let is_mute = self.quarantine.is_set() && self.quarantine.reset().is_none();
        // Who is frozen still has what an operator chose before, which others may need to come as far.
        let chosen = self.replicated.reset.slot();
        let is_help = slot == chosen || slot < chosen && offset == 0;
        let slot = match is_mute {
            true if self.quarantine.is_diverged() || !is_help => return None,
            true => chosen,
            false if offset == 0 => return self.agreement.servable(own, slot),
            false => slot,
        };
        let digest = self.agreement.agreed_at(slot)?;
        let is_kept = self.agreement.is_kept(own, slot, digest);
        is_kept.then_some((slot, digest))
    }
}
