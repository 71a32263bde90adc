//! What nodes that lost records must learn before they vote again.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use quorate_types::{NodeId, NodeSet, OrderingName, Slot, ViewNumber};
use std::collections::BTreeMap;

/// What a node that lost records still lacks.
#[derive(Clone, Debug)]
pub(super) struct Forgetful {
    /// The newest view in which it may have told anything.
    begun: ViewNumber,
    /// What it has heard, by view: nobody tells of votes in another one.
    heard: BTreeMap<ViewNumber, Heard>,
}

/// What the acceptors of one view have told a node that lost records.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Acceptors that have not told it what they know.
    unheard: NodeSet,
    /// Its newest survey: answers to an earlier one count for nothing.
    request: u64,
    /// The highest slot that those who did have voted in.
    voted: Slot,
    /// It knew all that it had to, and may have become a voter without a word: an answer that comes later changes nothing,
    /// nor does a start that finds the promise it wrote then.
    is_over: bool,
}

impl Heard {
    /// Nothing yet of these acceptors.
    fn nothing(of: NodeSet) -> Heard {
        Heard {
            unheard: of,
            request: 0,
            voted: Slot::ZERO,
            is_over: false,
        }
    }

    /// Whether a node that knows slots up to `decided` may vote.
    fn knows_all(&self, decided: Slot) -> bool {
        self.is_over || self.unheard.is_empty() && decided >= self.voted
    }
}

impl Forgetful {
    /// The node knows slots up to `decided`.
    pub(super) fn learned(&mut self, decided: Slot) {
        for heard in self.heard.values_mut() {
            heard.is_over = heard.knows_all(decided);
        }
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
        let heard = self.heard_by(node, forgetful, view);
        let Heard { unheard, voted, .. } = heard;
        if heard.knows_all(decided) {
            return Ok(());
        }
        if !unheard.is_empty() {
            let number = view.0;
            return broken(
                Property::Remembered,
                format!(
                    "{node} lost records, votes in view {number}, and has not heard there of {unheard:?}"
                ),
            );
        }
        broken(
            Property::Remembered,
            format!(
                "{node} lost records, votes, and knows slots up to {decided}; it was told of votes up to {voted}"
            ),
        )
    }

    fn heard_by(&self, node: NodeId, forgetful: &Forgetful, view: ViewNumber) -> Heard {
        let others = || self.governing(view).acceptors.without(node);
        let heard = forgetful.heard.get(&view).copied();
        heard.unwrap_or_else(|| Heard::nothing(others()))
    }

    /// Whether all that `node` has told in `view` is known to it, as far as votes and promises go: it may vote.
    pub(in super::super) fn remembers(&self, node: NodeId, view: ViewNumber) -> bool {
        let decided = self.known_by(node);
        let forgetful = self.forgetful.get(&node);
        forgetful.is_none_or(|lost| self.heard_by(node, lost, view).knows_all(decided))
    }

    /// `node` begins a life in which records are lost: others must answer before it votes.
    pub(in super::super) fn forgot(&mut self, node: NodeId, begun: ViewNumber) {
        let mut begun = begun;
        for (view, told) in &mut self.agreement {
            if told.forgot(node) {
                begun = begun.max(*view);
            }
        }
        let heard = BTreeMap::new();
        self.forgetful.insert(node, Forgetful { begun, heard });
    }

    pub(super) fn known_by(&self, node: NodeId) -> Slot {
        self.decided_by.get(&node).copied().unwrap_or_default()
    }

    /// `node` asks in a view what others know.
    pub(super) fn surveys(&mut self, node: NodeId, view: ViewNumber, request: u64) {
        self.hear(node, view, |heard, _| heard.request = request);
    }

    /// `node` heard what another acceptor of a view knows.
    pub(super) fn surveyed(
        &mut self,
        (node, from): (NodeId, NodeId),
        view: ViewNumber,
        (request, voted): (u64, Slot),
    ) {
        // In fast rounds the slots that others know of bound nothing: the first answer of each counts.
        let counts_once = self.governing(view).ordering == OrderingName::FastPaxos;
        self.hear(node, view, |heard, decided| {
            let counts = !counts_once || heard.unheard.contains(from);
            if heard.request == request && counts {
                heard.is_over = heard.knows_all(decided);
                heard.unheard.remove(from);
                heard.voted = voted.max(heard.voted);
            }
        });
    }

    /// `node` was asked in a view by one that may have lost records as well, and votes no more than itself: it has nothing to tell.
    pub(super) fn surveyed_by(&mut self, (node, from): (NodeId, NodeId), view: ViewNumber) {
        self.hear(node, view, |heard, _| {
            heard.unheard.remove(from);
        });
    }

    fn hear(&mut self, node: NodeId, view: ViewNumber, change: impl FnOnce(&mut Heard, Slot)) {
        let decided = self.known_by(node);
        let Some(forgetful) = self.forgetful.get(&node) else {
            return;
        };
        let mut heard = self.heard_by(node, forgetful, view);
        change(&mut heard, decided);
        if let Some(forgetful) = self.forgetful.get_mut(&node) {
            forgetful.heard.insert(view, heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::setup::Setup;
    use super::*;
    use crate::checkers::liveness::Liveness;
    use quorate_types::Quorums;

    #[test]
    fn what_is_heard_in_one_view_counts_for_no_other() {
        let mut setup = Setup::from_seed(0);
        (setup.nodes, setup.acceptors) = (3, 3);
        setup.quorums = Quorums::majority(3).unwrap();
        let mut judge = Judge::new(Liveness::new(1, 0), &setup.view());
        let (node, first, second) = (NodeId(1), ViewNumber(1), ViewNumber(2));
        judge.forgot(node, second);
        judge.may_vote(node, first).unwrap_err();
        judge.surveys(node, first, 7);
        for (from, request) in [(2, 7), (3, 6), (3, 7)] {
            judge.may_vote(node, first).unwrap_err();
            judge.surveyed((node, NodeId(from)), first, (request, Slot::ZERO));
        }
        judge.may_vote(node, first).unwrap();
        judge.may_vote(node, second).unwrap_err();
        judge.may_vote(node, ViewNumber(3)).unwrap();
    }

    #[test]
    fn who_asks_as_well_is_not_waited_for() {
        let mut setup = Setup::from_seed(0);
        (setup.nodes, setup.acceptors) = (3, 3);
        setup.quorums = Quorums::majority(3).unwrap();
        let mut judge = Judge::new(Liveness::new(1, 0), &setup.view());
        let (node, view) = (NodeId(1), ViewNumber(1));
        judge.surveyed_by((node, NodeId(2)), view);
        judge.forgot(node, view);
        judge.surveys(node, view, 7);
        judge.surveyed((node, NodeId(3)), view, (7, Slot::ZERO));
        judge.may_vote(node, view).unwrap_err();
        judge.surveyed_by((node, NodeId(2)), view);
        judge.may_vote(node, view).unwrap();
    }
}
