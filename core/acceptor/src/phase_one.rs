//! Phase 1 of one ballot: who was asked for which page of its promise, who has promised, and who is no witness where.
//!
//! The votes found are the protocol's: what they bind a candidate to differs.

use crate::Promise;
use crate::message::Prepare;
use quorate_ordering::Timing;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, NodeId, NodeSet, Slot, Time, Wall};
use std::collections::BTreeMap;

/// One attempt to lead.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseOne {
    ballot: Ballot,
    from: Slot,
    /// Whether the own promise is durable and the others were asked.
    is_announced: bool,
    /// For each acceptor the `from` of the page that is awaited, once it differs from the first.
    awaited: BTreeMap<NodeId, Slot>,
    /// Acceptors that sent their last page.
    promised: NodeSet,
    /// For each slot the acceptors that may have lost a vote there: they count towards no quorum of the slot.
    unknown: BTreeMap<Slot, NodeSet>,
    floor: Slot,
    wall: Wall,
    deadline: Time,
    resend_at: Time,
}

impl PhaseOne {
    /// Of `ballot`, for all slots from `from` on. Nobody is asked yet.
    #[must_use]
    pub fn new(now: Time, ballot: Ballot, from: Slot, timing: &Timing) -> PhaseOne {
        PhaseOne {
            ballot,
            from,
            is_announced: false,
            awaited: BTreeMap::new(),
            promised: NodeSet::empty(),
            unknown: BTreeMap::new(),
            floor: Slot::ZERO,
            wall: Wall(0),
            deadline: now + timing.election_min,
            resend_at: now + timing.resend,
        }
    }

    /// Its ballot.
    #[must_use]
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Acceptors that sent their last page.
    #[must_use]
    pub fn promised(&self) -> NodeSet {
        self.promised
    }

    /// The highest decided or trimmed slot that anybody told: nothing at or below it is proposed.
    #[must_use]
    pub fn floor(&self) -> Slot {
        self.floor
    }

    /// The highest wall clock stamped.
    #[must_use]
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// When it needs attention.
    #[must_use]
    pub fn wake_at(&self) -> Time {
        self.deadline.min(self.resend_at)
    }

    /// The own promise of `ballot` is durable. Returns what to ask the others, if they were not asked yet.
    pub fn announce(&mut self, ballot: Ballot) -> Option<Prepare> {
        if ballot != self.ballot || self.is_announced {
            return None;
        }
        self.is_announced = true;
        let from = self.from;
        Some(Prepare { ballot, from })
    }

    fn awaited_from(&self, node: NodeId) -> Slot {
        self.awaited.get(&node).copied().unwrap_or(self.from)
    }

    /// Whether `page` is the one that `node` was asked for.
    #[must_use]
    pub fn awaits(&self, node: NodeId, page: &Promise) -> bool {
        self.ballot == page.ballot
            && self.awaited_from(node) == page.from
            && !self.promised.contains(node)
    }

    /// Takes from the page awaited what it says beside votes. Returns the question for the next one; after the last the acceptor
    /// counts.
    pub fn gather(&mut self, node: NodeId, page: &Promise) -> Option<Prepare> {
        for slot in &page.unknown {
            self.unknown.entry(*slot).or_default().insert(node);
        }
        if planted(Plant::FloorOfLastPromise) {
            self.floor = Slot::ZERO;
        }
        self.floor = self.floor.max(page.decided).max(page.trimmed);
        self.wall = self.wall.max(page.wall);
        match page.next {
            Some(from) if !planted(Plant::PromisePagesSkipped) => {
                self.awaited.insert(node, from);
                let ballot = self.ballot;
                Some(Prepare { ballot, from })
            }
            Some(_) | None => {
                self.promised.insert(node);
                None
            }
        }
    }

    /// Acceptors that answered and know what they voted for in `slot`.
    #[must_use]
    pub fn witnesses(&self, slot: Slot) -> NodeSet {
        let ignorant = self.unknown.get(&slot).copied();
        let ignorant = ignorant.unwrap_or(NodeSet::empty());
        let promised = self.promised.iter();
        promised.filter(|node| !ignorant.contains(*node)).collect()
    }

    /// Whether every slot has `quorum` witnesses. Decided slots need none. Claim mp-45.
    #[must_use]
    pub fn is_complete(&self, quorum: usize) -> bool {
        let mut open = self.unknown.range(self.floor.next()..);
        self.promised.len() >= quorum && open.all(|(slot, _)| self.witnesses(*slot).len() >= quorum)
    }

    /// Whether it took too long.
    #[must_use]
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.deadline
    }

    /// Whom of the `others` to ask again, and for what, once no answer came for long enough.
    pub fn ask_again(
        &mut self,
        now: Time,
        others: NodeSet,
        timing: &Timing,
    ) -> Vec<(NodeId, Prepare)> {
        if now < self.resend_at {
            return Vec::new();
        }
        self.resend_at = now + timing.resend;
        if !self.is_announced {
            return Vec::new();
        }
        let ballot = self.ballot;
        let silent = others.iter().filter(|node| !self.promised.contains(*node));
        let ask = |node| {
            let from = self.awaited_from(node);
            (node, Prepare { ballot, from })
        };
        silent.map(ask).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::ViewNumber;

    #[test]
    fn who_has_sent_a_page_is_asked_again_for_the_next_one() {
        let timing = Timing::default();
        let ballot = Ballot::ZERO.next(ViewNumber(1), NodeId(1), 1);
        let mut phase = PhaseOne::new(Time(0), ballot, Slot(1), &timing);
        phase.announce(ballot);
        let page = Promise {
            ballot,
            from: Slot(1),
            votes: Vec::new(),
            unknown: Vec::new(),
            next: Some(Slot(9)),
            decided: Slot::ZERO,
            trimmed: Slot::ZERO,
            wall: Wall(0),
        };
        assert!(phase.awaits(NodeId(2), &page));
        phase.gather(NodeId(2), &page);
        assert!(!phase.awaits(NodeId(2), &page), "it came twice");
        let others = [NodeId(2), NodeId(3)].into_iter().collect();
        assert_eq!(phase.ask_again(Time(0), others, &timing), []);
        let asked = phase.ask_again(Time(0) + timing.resend, others, &timing);
        let of = |node, from| (NodeId(node), Prepare { ballot, from });
        assert_eq!(asked, [of(2, Slot(9)), of(3, Slot(1))]);
    }
}
