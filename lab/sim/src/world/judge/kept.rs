//! Which replies are kept: the log says it, of a replica that has just executed a slot and of each snapshot that is taken.

use super::super::World;
use super::super::reply_ledger::{ReplyLedger, Room};
use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_replica::{KeptAfter, KeptLimits, SnapshotCore};
use quorate_types::{NodeId, Slot, SlotResults, Step};

/// What the log says of kept replies.
pub(super) struct KeptJudge {
    ledger: ReplyLedger,
    /// Where no view says otherwise.
    usual: Room,
}

impl Judge {
    /// Replicas keep replies as these limits say, and have so many sessions open, where no view says otherwise.
    pub(in super::super) fn keeps_replies(&mut self, limits: KeptLimits, sessions: usize) {
        self.kept = Some(KeptJudge {
            ledger: ReplyLedger::new(limits),
            usual: Room {
                sessions,
                replies: limits.group_bytes,
            },
        });
    }

    /// All slots up to this one are executed somewhere. What came of it is told where it has steps.
    pub(super) fn follow_replies(&mut self, slot: Slot, came: Option<(&[Step], &SlotResults)>) {
        let Some(mut kept) = self.kept.take() else {
            return;
        };
        while kept.ledger.upto() < slot
            && let Some(batch) = self.log.get(&kept.ledger.upto().next())
        {
            let next = kept.ledger.upto().next();
            let (_, replies) = self.governing(self.views.0.governs(next)).limits;
            let room = Room {
                sessions: self.sessions_max(next, kept.usual.sessions),
                replies: replies.map_or(kept.usual.replies, |replies| replies as usize),
            };
            kept.ledger
                .follow(room, batch, came.filter(|_| next == slot));
        }
        self.kept = Some(kept);
    }

    /// `node` has executed a slot, and keeps this.
    fn keeps_after(&self, node: NodeId, own: KeptAfter) -> Judged {
        let known = self.kept.as_ref();
        match known.and_then(|kept| kept.ledger.after(own.slot)) {
            Some(said) if said != own => broken(
                Property::Digest,
                format!("{node} keeps other replies than the log says: {own:?}, not {said:?}"),
            ),
            Some(_) | None => Ok(()),
        }
    }

    /// `node` has this in a snapshot.
    fn keeps_in(&mut self, node: NodeId, core: &SnapshotCore) -> Judged {
        self.follow_replies(core.slot, None);
        match &self.kept {
            Some(kept) => self.keeps_after(node, kept.ledger.of_snapshot(core)),
            None => Ok(()),
        }
    }
}

impl World {
    /// A turn of a node is over. One that answers otherwise on purpose keeps what it answered.
    pub(in super::super) fn watch_kept(&mut self, id: NodeId) {
        let running = self.nodes[&id].running.as_ref();
        let own = running.and_then(|running| running.replica.kept_after());
        if let Some(own) = own.filter(|_| !self.has_differed(id)) {
            let judged = self.judge.keeps_after(id, own);
            self.judged(judged);
        }
    }

    /// A node takes a snapshot.
    pub(in super::super) fn watch_kept_in(&mut self, id: NodeId, core: &SnapshotCore) {
        if !self.has_differed(id) {
            let judged = self.judge.keeps_in(id, core);
            self.judged(judged);
        }
    }
}
