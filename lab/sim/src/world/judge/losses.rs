//! What nodes that lost records must learn before they vote again.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_types::{NodeId, NodeSet, Slot, ViewNumber};

/// What a node that lost records still lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forgetful {
    /// The newest view in which it may have told anything.
    begun: ViewNumber,
    /// Acceptors that have not told it what they know.
    unheard: NodeSet,
    /// Its newest survey: answers to an earlier one count for nothing.
    pub(super) request: u64,
    /// The highest slot that those who did have voted in.
    voted: Slot,
    /// It knew all that it had to, and may have become a voter without a word: an answer that comes later changes nothing,
    /// nor does a start that finds the promise it wrote then.
    is_over: bool,
}

impl Forgetful {
    /// Whether a node that knows slots up to `decided` may vote.
    pub(super) fn knows_all(&self, decided: Slot) -> bool {
        self.is_over || self.unheard.is_empty() && decided >= self.voted
    }

    /// The node knows slots up to `decided`.
    pub(super) fn learned(&mut self, decided: Slot) {
        self.is_over = self.knows_all(decided);
    }
}

impl Judge {
    /// Who has forgotten what it told may not vote before everybody else has told what they know, and before it has learned all of
    /// that.
    pub(super) fn may_vote(&self, node: NodeId, view: ViewNumber) -> Judged {
        let decided = self.known_by(node);
        let forgetful = self.forgetful.get(&node);
        // It has told nothing in a view that began for it after the loss.
        let Some(forgetful) = forgetful.filter(|forgetful| view <= forgetful.begun) else {
            return Ok(());
        };
        let Forgetful { unheard, voted, .. } = forgetful;
        if !unheard.is_empty() {
            return broken(
                Property::Remembered,
                format!("{node} lost records, votes, and has not heard of {unheard:?}"),
            );
        }
        if forgetful.knows_all(decided) {
            return Ok(());
        }
        broken(
            Property::Remembered,
            format!(
                "{node} lost records, votes, and knows slots up to {decided}; it was told of votes up to {voted}"
            ),
        )
    }

    /// `node` begins a life in which records are lost; `others` must answer before it votes, nobody's answer is enough if
    /// it lost all.
    pub(in super::super) fn forgot(&mut self, node: NodeId, others: NodeSet, begun: ViewNumber) {
        let mut begun = begun;
        for (view, told) in &mut self.agreement {
            if told.forgot(node) {
                begun = begun.max(*view);
            }
        }
        let forgetful = Forgetful {
            begun,
            unheard: others,
            request: 0,
            voted: Slot::ZERO,
            is_over: false,
        };
        self.forgetful.insert(node, forgetful);
    }

    pub(super) fn known_by(&self, node: NodeId) -> Slot {
        self.decided_by.get(&node).copied().unwrap_or_default()
    }

    /// `node` heard what another acceptor knows.
    pub(super) fn surveyed(&mut self, node: NodeId, from: NodeId, request: u64, voted: Slot) {
        let decided = self.known_by(node);
        if let Some(forgetful) = self.forgetful.get_mut(&node)
            && forgetful.request == request
        {
            forgetful.learned(decided);
            forgetful.unheard.remove(from);
            forgetful.voted = voted.max(forgetful.voted);
        }
    }
}
