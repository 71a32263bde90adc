//! Watches executions: a command takes effect at one place of the log, once on each replica, with one reply everywhere.
//!
//! Fed by the seeded world when a replica executes a command or answers a client. A replica that restarts, installs a
//! snapshot or rolls speculation back says to which place it went ([`AtMostOnce::moved`]); what it executes again
//! after that must be the same commands at the same places.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{CommandId, NodeId, NodeSet, Slot};

use super::{Property, Violation};

/// A place in the log: the slot and the index in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The slot.
    pub slot: Slot,
    /// The position in the batch decided in the slot, from 0.
    pub index: usize,
}

/// All executions and acknowledgements so far. Replies are compared by hash.
#[derive(Debug, Default)]
pub struct AtMostOnce {
    executed: BTreeMap<CommandId, Execution>,
    /// Calls that the group skips.
    skipped: BTreeMap<CommandId, Place>,
    last: BTreeMap<NodeId, Place>,
    acknowledged: BTreeMap<CommandId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Execution {
    place: Place,
    reply: u64,
    node: NodeId,
    /// All that executed it.
    nodes: NodeSet,
}

impl AtMostOnce {
    /// Takes note that `node` applies a command to its object; a duplicate that is only answered is no execution.
    ///
    /// # Errors
    /// [`Property::AtMostOnce`] when the replica goes back without having said so, or when the command executed
    /// elsewhere in the log or with another reply, on any replica.
    pub fn executed(
        &mut self,
        node: NodeId,
        command: CommandId,
        place: Place,
        reply: u64,
    ) -> Result<(), Violation> {
        self.went_to(node, command, place)?;
        if self.skipped.contains_key(&command) {
            return broken(format!("{node} executes {command}, which is skipped"));
        }
        let nodes = NodeSet::only(node);
        let first = self.executed.entry(command).or_insert(Execution {
            place,
            reply,
            node,
            nodes,
        });
        first.nodes.insert(node);
        let first = *first;
        if first.place != place {
            return broken(format!(
                "{} executes at {place:?} on {node} and at {:?} on {}",
                command, first.place, first.node
            ));
        }
        if first.reply != reply {
            return broken(format!(
                "{} at {place:?} answers {reply:016x} on {node} and {:016x} on {}",
                command, first.reply, first.node
            ));
        }
        Ok(())
    }

    /// Takes note that `node` goes past a command without executing it, by decision.
    ///
    /// # Errors
    /// [`Property::AtMostOnce`] when the replica goes back, or when any replica executed the command: it may be answered.
    pub fn skipped(
        &mut self,
        node: NodeId,
        command: CommandId,
        place: Place,
    ) -> Result<(), Violation> {
        self.went_to(node, command, place)?;
        if let Some(execution) = self.executed.get(&command) {
            let by = execution.nodes;
            return broken(format!("{node} skips {command}, which {by:?} executed"));
        }
        let first = *self.skipped.entry(command).or_insert(place);
        if first != place {
            return broken(format!(
                "{command} is skipped at {place:?} on {node}, and at {first:?}"
            ));
        }
        Ok(())
    }

    /// Takes note that what `node` made of a command was lost with its process before anybody could see it.
    pub fn lost(&mut self, node: NodeId, command: CommandId) {
        if let Some(execution) = self.executed.get_mut(&command) {
            execution.nodes.remove(node);
            if execution.nodes.is_empty() {
                self.executed.remove(&command);
            }
        }
    }

    /// Takes note that `node` begins a life with the state after `held`, and that nobody was told what its earlier lives made of
    /// the calls behind `told`: what they executed beyond both is as if it had not been. Says which calls nobody executed then.
    pub fn untold(&mut self, node: NodeId, held: Slot, told: Slot) -> Vec<Place> {
        let upto = held.max(told);
        let mut undone = Vec::new();
        self.executed.retain(|_, execution| {
            if execution.place.slot > upto {
                execution.nodes.remove(node);
            }
            if execution.nodes.is_empty() {
                undone.push(execution.place);
            }
            !execution.nodes.is_empty()
        });
        undone
    }

    /// Whether the group skips a command.
    pub fn is_skipped(&self, command: CommandId) -> bool {
        self.skipped.contains_key(&command)
    }

    /// Whether a replica executed a command.
    pub fn is_executed(&self, command: CommandId) -> bool {
        self.executed.contains_key(&command)
    }

    fn went_to(&mut self, node: NodeId, command: CommandId, place: Place) -> Result<(), Violation> {
        match self.last.insert(node, place) {
            Some(last) if last >= place => broken(format!(
                "{node} executes {command} at {place:?} after {last:?}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Takes note that `node` holds the state after `upto` from a snapshot, an undo or a restart; `None`: the empty state.
    pub fn moved(&mut self, node: NodeId, upto: Option<Place>) {
        match upto {
            Some(place) => self.last.insert(node, place),
            None => self.last.remove(&node),
        };
    }

    /// Takes note that a client got a reply.
    ///
    /// # Errors
    /// [`Property::AtMostOnce`] when no replica executed the command, or with another reply.
    pub fn acknowledged(&mut self, command: CommandId, reply: u64) -> Result<(), Violation> {
        self.acknowledged.insert(command, reply);
        match self.executed.get(&command) {
            None => broken(format!("{} was answered and never executed", command)),
            Some(execution) if execution.reply != reply => broken(format!(
                "{} was answered {reply:016x} and executed with {:016x}",
                command, execution.reply
            )),
            Some(_) => Ok(()),
        }
    }

    /// Takes note that a client was told that its command is skipped.
    ///
    /// # Errors
    /// [`Property::AtMostOnce`] when no replica skipped it.
    pub fn told_skipped(&mut self, command: CommandId) -> Result<(), Violation> {
        if self.skipped.contains_key(&command) {
            return Ok(());
        }
        broken(format!("{command} was called skipped, and nobody skips it"))
    }

    /// Looks whether each acknowledged command is in `readable`: the commands of the log that a majority can tell,
    /// with those covered by its snapshots.
    ///
    /// # Errors
    /// [`Property::AtMostOnce`] naming the first that is missing.
    pub fn check_readable(&self, readable: &BTreeSet<CommandId>) -> Result<(), Violation> {
        match self.acknowledged.keys().find(|id| !readable.contains(id)) {
            None => Ok(()),
            Some(lost) => broken(format!(
                "{} was answered and is in no log that a majority can read",
                *lost
            )),
        }
    }

    /// How many distinct commands executed.
    pub fn executions(&self) -> usize {
        self.executed.len()
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::AtMostOnce, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::SessionId;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn id(sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(9),
            sequence,
        }
    }

    fn at(slot: u64, index: usize) -> Place {
        Place {
            slot: Slot(slot),
            index,
        }
    }

    #[test]
    fn what_nobody_was_told_may_be_skipped_and_what_was_told_may_not() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(5, 0), 7).unwrap();
        seen.executed(B, id(1), at(5, 0), 7).unwrap();
        assert!(seen.untold(A, Slot(2), Slot(4)).is_empty());
        assert!(seen.untold(B, Slot(2), Slot(5)).is_empty(), "it was told");
        assert!(seen.untold(B, Slot(5), Slot(2)).is_empty(), "it is held");
        assert!(seen.skipped(NodeId(3), id(1), at(5, 0)).is_err());
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(5, 0), 7).unwrap();
        assert_eq!(seen.untold(A, Slot(2), Slot(4)), [at(5, 0)]);
        seen.moved(A, None);
        seen.skipped(A, id(1), at(5, 0)).unwrap();
    }

    #[test]
    fn replicas_that_execute_the_same_log_are_fine_in_any_interleaving() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        seen.executed(A, id(2), at(1, 1), 20).unwrap();
        seen.executed(B, id(1), at(1, 0), 10).unwrap();
        seen.acknowledged(id(2), 20).unwrap();
        seen.moved(A, Some(at(1, 0)));
        seen.executed(A, id(2), at(1, 1), 20).unwrap();
        seen.moved(B, None);
        seen.executed(B, id(1), at(1, 0), 10).unwrap();
        seen.check_readable(&[id(2)].into()).unwrap();
        assert_eq!(seen.executions(), 2);
    }

    #[test]
    fn a_command_executed_twice_on_one_replica_is_found() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        assert!(seen.executed(A, id(1), at(2, 0), 11).is_err());
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        assert!(seen.executed(A, id(1), at(1, 0), 10).is_err());
    }

    #[test]
    fn a_snapshot_without_the_session_table_is_found_by_the_second_execution() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        seen.moved(B, Some(at(1, 0)));
        assert!(seen.executed(B, id(1), at(2, 0), 10).is_err());
    }

    #[test]
    fn replicas_that_answer_differently_are_found() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        assert!(seen.executed(B, id(1), at(1, 0), 11).is_err());
    }

    #[test]
    fn a_command_is_skipped_by_all_or_by_none() {
        let mut seen = AtMostOnce::default();
        seen.skipped(A, id(1), at(1, 0)).unwrap();
        seen.skipped(B, id(1), at(1, 0)).unwrap();
        seen.told_skipped(id(1)).unwrap();
        assert!(seen.told_skipped(id(2)).is_err());
        seen.moved(B, None);
        assert!(seen.executed(B, id(1), at(1, 0), 10).is_err());
    }

    #[test]
    fn a_command_that_was_executed_and_seen_is_not_skipped() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        assert!(seen.skipped(B, id(1), at(1, 0)).is_err());
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        seen.lost(A, id(1));
        seen.skipped(B, id(1), at(1, 0)).unwrap();
    }

    #[test]
    fn an_answer_without_its_execution_is_found() {
        let mut seen = AtMostOnce::default();
        assert!(seen.acknowledged(id(1), 10).is_err());
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        assert!(seen.acknowledged(id(1), 11).is_err());
    }

    #[test]
    fn an_answered_command_that_no_majority_can_read_is_found() {
        let mut seen = AtMostOnce::default();
        seen.executed(A, id(1), at(1, 0), 10).unwrap();
        seen.acknowledged(id(1), 10).unwrap();
        assert!(seen.check_readable(&[id(2)].into()).is_err());
    }
}
