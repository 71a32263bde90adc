//! What the disks of all nodes show, and nothing that a node says: what is decided, and where the second view begins.

use crate::node::{Node, Posted};
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_ordering::Entry;
use quorate_types::{Ballot, Batch, Body, NodeId, NodeSet, Slot, ViewNumber};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is decided.
#[derive(Debug)]
pub(crate) struct Truth<'a> {
    decided: BTreeMap<Slot, &'a Batch>,
    /// Two batches have quorums in one slot, or votes in one ballot.
    pub(crate) has_two: bool,
    /// Who votes in the first view.
    first: NodeSet,
    /// The first slot of the second view and who votes there, once all that this follows from is decided.
    second: Option<(Slot, NodeSet)>,
}

impl Truth<'_> {
    /// What the disks of `nodes` show, where `first` vote in the first view and ω is `window` there. Majorities decide.
    pub(crate) fn of(nodes: &[Arc<Node>], first: NodeSet, window: u64) -> Truth<'_> {
        let mut truth = Truth {
            decided: BTreeMap::new(),
            has_two: false,
            first,
            second: None,
        };
        let mut votes: BTreeMap<(Ballot, Slot), (&Batch, NodeSet)> = BTreeMap::new();
        for (node, entry) in entries(nodes) {
            if let Entry::Vote {
                slot,
                ballot,
                batch,
                ..
            } = entry
            {
                let nobody = (batch, NodeSet::empty());
                let (voted, voters) = votes.entry((*ballot, *slot)).or_insert(nobody);
                voters.insert(node);
                truth.has_two |= *voted != batch;
            }
        }
        // Ballots ascend by view.
        for ((ballot, slot), (batch, voters)) in votes {
            if ballot.view > ViewNumber(1) && truth.second.is_none() {
                truth.second = truth.change(window);
            }
            if truth.is_quorum(ballot.view, voters) {
                let known = *truth.decided.entry(slot).or_insert(batch);
                truth.has_two |= known != batch;
            }
        }
        if truth.second.is_none() {
            truth.second = truth.change(window);
        }
        truth
    }

    /// The first change that is decided where all before it is, too: of two changes the first counts.
    fn change(&self, window: u64) -> Option<(Slot, NodeSet)> {
        let mut slot = Slot(1);
        while let Some(batch) = self.decided.get(&slot) {
            let mut bodies = batch.commands().iter().map(|command| &command.body);
            let change = bodies.find_map(|body| match body {
                Body::ChangeView { change, .. } => Some(change),
                _ => None,
            });
            if let Some(change) = change {
                return Some((slot.plus(window), change.acceptors));
            }
            slot = slot.next();
        }
        None
    }

    /// Who votes in a view, as far as that is decided.
    fn acceptors(&self, view: ViewNumber) -> NodeSet {
        match (view, self.second) {
            (ViewNumber(1), _) => self.first,
            (ViewNumber(2), Some((_, acceptors))) => acceptors,
            _ => NodeSet::empty(),
        }
    }

    /// Whether these voters decide in a view.
    fn is_quorum(&self, view: ViewNumber, voters: NodeSet) -> bool {
        let acceptors = self.acceptors(view);
        let voted = voters.iter().filter(|node| acceptors.contains(*node));
        voted.count() > acceptors.len() / 2
    }

    /// Whether `batch` is decided in `slot`.
    pub(crate) fn is_decided(&self, slot: Slot, batch: &Batch) -> bool {
        self.decided.get(&slot) == Some(&batch)
    }

    /// Whether the first slot of the second view is decided.
    pub(crate) fn has_second(&self) -> bool {
        let second = self.second;
        second.is_some_and(|(first, _)| self.decided.contains_key(&first))
    }

    /// Whether a view governs a slot, as far as that is decided.
    fn governs(&self, view: ViewNumber, slot: Slot) -> bool {
        match view {
            ViewNumber(1) => self.second.is_none_or(|(first, _)| slot < first),
            ViewNumber(2) => self.second.is_some_and(|(first, _)| slot >= first),
            _ => false,
        }
    }

    /// Whether all votes are of acceptors of their views, in slots of these.
    pub(crate) fn allows_votes(&self, nodes: &[Arc<Node>]) -> bool {
        entries(nodes).all(|(node, entry)| match entry {
            Entry::Vote { slot, ballot, .. } => {
                let acceptors = self.acceptors(ballot.view);
                self.governs(ballot.view, *slot) && acceptors.contains(node)
            }
            _ => true,
        })
    }

    /// Whether a message proposes nothing in a slot of another view than its own.
    pub(crate) fn allows(&self, posted: &Posted) -> bool {
        match &posted.message {
            AnyMessage::Paxos(Message::Accept(accept)) => {
                self.governs(accept.ballot.view, accept.slot)
            }
            AnyMessage::Paxos(_) | AnyMessage::FastPaxos(_) => true,
        }
    }

    /// Whether a node that has just turned from `before` to `after` has neither promised nor voted in the second view, or has applied all
    /// slots of the first one. That it will take part it may have written ahead.
    pub(crate) fn has_waited(&self, before: &Node, after: &Node) -> bool {
        let mut written = after.disk.iter().skip(before.disk.len());
        let begins = Entry::Promise {
            ballot: Ballot::ZERO,
        };
        let takes_part =
            written.any(|record| record.view.number > ViewNumber(1) && record.entry != begins);
        let second = self.second;
        !takes_part || second.is_some_and(|(first, _)| after.applied.next() >= first)
    }
}

/// The entries of all disks, and whose disk each is on.
fn entries(nodes: &[Arc<Node>]) -> impl Iterator<Item = (NodeId, &Entry)> {
    nodes.iter().flat_map(|node| {
        let own = node.start.own;
        node.disk.iter().map(move |record| (own, &record.entry))
    })
}
