//! After all nodes of a group were down at once, whatever was acknowledged before must be there.
//!
//! Fed by the seeded world: acknowledgements as clients get them, then the commands that the disks hold after the
//! restart. In memory mode the promise does not hold and the world does not ask.

use std::collections::BTreeSet;

use quorate_types::{CommandId, NodeId};

use super::{Property, Violation};

/// The commands acknowledged so far.
#[derive(Debug, Default)]
pub struct Durability {
    acknowledged: BTreeSet<CommandId>,
}

impl Durability {
    /// Takes note that a client got the reply of a command that may change state.
    pub fn acknowledged(&mut self, command: CommandId) {
        self.acknowledged.insert(command);
    }

    /// Looks whether a recovered group holds everything: `present` are the commands of its log and those that its
    /// snapshots cover.
    ///
    /// # Errors
    /// [`Property::Durability`] with the first command lost and how many are.
    pub fn check_recovered(&self, present: &BTreeSet<CommandId>) -> Result<(), Violation> {
        let lost: Vec<_> = self.acknowledged.difference(present).collect();
        match lost.first() {
            None => Ok(()),
            Some(first) => broken(format!(
                "{} of {} acknowledged commands are gone after a total restart, the first is {}",
                lost.len(),
                self.acknowledged.len(),
                **first
            )),
        }
    }

    /// Looks whether the disks hold everything before anyone speaks: of every `quorum` nodes at least one must hold
    /// each acknowledged command, because any of these sets may form first. `disks` lists all acceptors of the view.
    ///
    /// # Errors
    /// [`Property::Durability`] with a command that too few disks hold.
    pub fn check_disks(
        &self,
        disks: &[(NodeId, BTreeSet<CommandId>)],
        quorum: usize,
    ) -> Result<(), Violation> {
        assert!(
            (1..=disks.len()).contains(&quorum),
            "a quorum is some of the nodes"
        );
        for command in &self.acknowledged {
            let without: Vec<NodeId> = disks
                .iter()
                .filter(|(_, held)| !held.contains(command))
                .map(|(node, _)| *node)
                .collect();
            if without.len() >= quorum {
                return broken(format!(
                    "{} was acknowledged and is on no disk of the quorum {without:?}",
                    *command
                ));
            }
        }
        Ok(())
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Durability, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::SessionId;

    fn id(sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(1),
            sequence,
        }
    }

    fn acknowledged(sequences: &[u64]) -> Durability {
        let mut seen = Durability::default();
        sequences.iter().for_each(|n| seen.acknowledged(id(*n)));
        seen
    }

    #[test]
    fn a_group_that_recovers_all_acknowledged_commands_and_more_is_fine() {
        let seen = acknowledged(&[1, 2]);
        seen.check_recovered(&[id(1), id(2), id(3)].into()).unwrap();
    }

    #[test]
    fn a_lost_acknowledged_write_is_found_and_named() {
        let seen = acknowledged(&[1, 2]);
        let broken = seen.check_recovered(&[id(1)].into()).unwrap_err();
        assert_eq!(broken.property, Property::Durability);
        assert!(broken.detail.contains("s1:2"), "{broken}");
    }

    #[test]
    fn a_write_on_a_minority_of_disks_is_found_before_anyone_speaks() {
        let seen = acknowledged(&[1]);
        let holds = BTreeSet::from([id(1)]);
        let mut disks = [
            (NodeId(1), holds.clone()),
            (NodeId(2), holds),
            (NodeId(3), BTreeSet::new()),
        ];
        seen.check_disks(&disks, 2).unwrap();
        disks[1].1.clear();
        assert!(seen.check_disks(&disks, 2).is_err());
        seen.check_disks(&disks, 3).unwrap();
    }
}
