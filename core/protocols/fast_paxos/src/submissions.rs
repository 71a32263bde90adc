//! Commands submitted at a node until they are decided or refused, and the values that it proposed for them.
//!
//! The node keeps each command whoever leads, so no leader has it alone. A value is lost where the slots in which acceptors
//! voted for it are decided otherwise, and too few acceptors are left for a fast quorum. Claim fp-6.

use quorate_types::{Batch, Command, CommandId, NodeId, NodeSet, Slot, Time, ValueId};
use std::collections::{BTreeMap, VecDeque};

/// What may have happened to a command that this node submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SentBy {
    /// It is to be sent, or sent again.
    No,
    /// The leader got it at this time.
    Forwarded(Time),
    /// It is in the value with this number.
    Proposed(u64),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Kept {
    pub(crate) command: Command,
    pub(crate) sent: SentBy,
    /// It was sent before, and that may still be decided.
    pub(crate) is_uncertain: bool,
    pub(crate) deadline: Time,
}

/// A value that this node proposed to all acceptors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ProposedValue {
    pub(crate) batch: Batch,
    /// Where acceptors voted for it, while the slot is undecided.
    pub(crate) votes: BTreeMap<NodeId, Slot>,
    /// Acceptors that voted for it where another value was decided.
    pub(crate) void: NodeSet,
    pub(crate) again_at: Time,
    /// Its commands came from other nodes, which keep them.
    pub(crate) is_forwarded: bool,
}

/// Submissions that are neither decided nor refused.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Submissions {
    own: NodeId,
    boot: u64,
    /// By id; the ids of one node's commands are unique.
    pub(crate) kept: BTreeMap<CommandId, Kept>,
    /// Ids to send at the end of the turn.
    pub(crate) unsent: VecDeque<CommandId>,
    /// Deadlines in ascending order; those of settled commands are skipped.
    pub(crate) deadlines: VecDeque<(Time, CommandId)>,
    /// Invariant: the weight of `kept`.
    pub(crate) bytes: usize,
    pub(crate) proposals: BTreeMap<u64, ProposedValue>,
    /// The number of the last value.
    pub(crate) number: u64,
    /// Commands that were forwarded without an answer are sent again then.
    pub(crate) resend_at: Time,
}

impl Submissions {
    pub(crate) fn new(own: NodeId, boot: u64) -> Submissions {
        Submissions {
            own,
            boot,
            kept: BTreeMap::new(),
            unsent: VecDeque::new(),
            deadlines: VecDeque::new(),
            bytes: 0,
            proposals: BTreeMap::new(),
            number: 0,
            resend_at: Time(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The name of the value with this number.
    pub(crate) fn value(&self, number: u64) -> ValueId {
        ValueId {
            node: self.own,
            boot: self.boot,
            number,
        }
    }

    /// The number of `value`, if this start of this node named it.
    pub(crate) fn number_of(&self, value: ValueId) -> Option<u64> {
        (value == self.value(value.number)).then_some(value.number)
    }

    pub(crate) fn take(&mut self, id: CommandId) -> Option<Kept> {
        let kept = self.kept.remove(&id)?;
        self.bytes -= kept.command.weight();
        Some(kept)
    }

    /// Takes everything: another view orders it.
    pub(crate) fn leave(&mut self) -> Vec<Command> {
        self.unsent.clear();
        self.deadlines.clear();
        self.proposals.clear();
        self.bytes = 0;
        let kept = std::mem::take(&mut self.kept);
        kept.into_values().map(|kept| kept.command).collect()
    }

    /// An acceptor voted for one of the values in `slot`.
    pub(crate) fn note_vote(
        &mut self,
        value: ValueId,
        acceptor: NodeId,
        slot: Slot,
        decided: Slot,
    ) {
        let number = self.number_of(value);
        let proposal = number.and_then(|number| self.proposals.get_mut(&number));
        if let Some(proposal) = proposal {
            if slot > decided {
                proposal.votes.insert(acceptor, slot);
                proposal.void.remove(acceptor);
            } else if !proposal.votes.contains_key(&acceptor) {
                proposal.void.insert(acceptor);
            }
        }
    }

    /// `slot` was decided with `batch`. Returns the values that lost there their last chance: fewer than `needed` of
    /// `acceptors` are left to vote for them.
    pub(crate) fn settle(
        &mut self,
        slot: Slot,
        batch: &Batch,
        acceptors: usize,
        needed: usize,
    ) -> Vec<u64> {
        for command in batch.commands() {
            // Another node may have submitted a different command under the same id: that does not settle this
            // one. A copy of the same command may have another `acknowledged`.
            let kept = self.kept.get(&command.id);
            if kept.is_some_and(|kept| kept.command.body == command.body) {
                self.take(command.id);
            }
        }
        self.drop_settled();
        self.proposals
            .retain(|_, proposal| proposal.batch != *batch);
        let mut lost = Vec::new();
        for (number, proposal) in &mut self.proposals {
            let here = proposal.votes.iter().filter(|(_, at)| **at == slot);
            let here: NodeSet = here.map(|(node, _)| *node).collect();
            if here.is_empty() {
                continue;
            }
            proposal.votes.retain(|_, at| *at != slot);
            for node in here.iter() {
                proposal.void.insert(node);
            }
            if proposal.votes.is_empty() && acceptors - proposal.void.len() < needed {
                lost.push(*number);
            }
        }
        lost
    }

    /// Forgets what is settled: deadlines, and values that nobody waits for.
    pub(crate) fn drop_settled(&mut self) {
        if self.kept.is_empty() {
            self.unsent.clear();
        }
        while let Some((deadline, id)) = self.deadlines.front() {
            let kept = self.kept.get(id);
            if kept.is_some_and(|kept| kept.deadline == *deadline) {
                break;
            }
            self.deadlines.pop_front();
        }
        let kept = &self.kept;
        self.proposals.retain(|number, proposal| {
            let is_of = |command: &Command| {
                let kept = kept.get(&command.id);
                kept.is_some_and(|kept| kept.sent == SentBy::Proposed(*number))
            };
            proposal.is_forwarded || proposal.batch.commands().iter().any(is_of)
        });
    }

    /// What was refused unsent is not sent any more. Whoever asked may ask again: it would be sent twice, and while no leader is
    /// known, ids of all that was ever refused would be kept.
    pub(crate) fn drop_late(&mut self) {
        let kept = &self.kept;
        self.unsent.retain(|id| kept.contains_key(id));
    }

    /// Everything is to be sent again, to another leader or in another ballot.
    pub(crate) fn send_again(&mut self) {
        self.proposals.clear();
        self.unsent.clear();
        for (id, kept) in &mut self.kept {
            kept.is_uncertain |= kept.sent != SentBy::No;
            kept.sent = SentBy::No;
            self.unsent.push_back(*id);
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        let values = self.proposals.values().map(|proposal| proposal.again_at);
        let deadline = self.deadlines.front();
        let deadline = deadline.map(|(deadline, _)| (*deadline).min(self.resend_at));
        Time::earlier(values.min(), deadline)
    }

    pub(crate) fn check(&self) {
        let bytes: usize = self.kept.values().map(|kept| kept.command.weight()).sum();
        assert_eq!(bytes, self.bytes, "kept bytes are counted");
        assert!(
            self.deadlines.len() >= self.kept.len(),
            "every kept command has a deadline"
        );
    }
}
