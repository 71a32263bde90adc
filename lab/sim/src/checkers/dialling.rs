//! Watches clients that nobody answers: each tries every node, and pauses once it has been around.
//!
//! Fed by the seeded world with what a client dials and why, and with what it is answered.

use std::collections::BTreeMap;

use quorate_types::{NodeId, NodeSet};

use super::{Property, Violation};

/// Within so many rounds of leaving nodes a client has tried all of them; hints who leads may lead it past some.
const ROUNDS_TO_TRY_ALL: u64 = 4;

/// After so many rounds its pauses are as long as they ever are.
const ROUNDS_TO_PAUSE: u64 = 5;

/// Why a client dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It left a node that was dead, fell silent or refused to serve.
    Left,
    /// A node told it who leads.
    Hinted,
}

/// What each client has dialled since anybody answered it.
#[derive(Debug)]
pub struct Dialling {
    nodes: u64,
    pause_ns: u64,
    clients: BTreeMap<u64, Tries>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// How many nodes it has left, and when it last dialled for that.
    left: u64,
    at_ns: u64,
    /// Those that it has dialled in these rounds.
    tried: NodeSet,
}

impl Dialling {
    /// Clients of `nodes` nodes pause for `pause_ns` at least between dials that nobody answers.
    pub fn new(nodes: u64, pause_ns: u64) -> Dialling {
        Dialling {
            nodes,
            pause_ns,
            clients: BTreeMap::new(),
        }
    }

    /// Takes note that a client is answered, or begins anew: a refusal is no answer, nor is a hint who leads.
    pub fn answered(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// Takes note that a client dials a node.
    ///
    /// # Errors
    /// [`Property::Dialling`] when it has passed over a node for too long, or does not pause.
    pub fn dialled(
        &mut self,
        now_ns: u64,
        client: u64,
        node: NodeId,
        why: Why,
    ) -> Result<(), Violation> {
        let tries = self.clients.entry(client).or_default();
        tries.tried.insert(node);
        if why == Why::Hinted {
            return Ok(());
        }
        let before_ns = std::mem::replace(&mut tries.at_ns, now_ns);
        tries.left += 1;
        let gap_ns = now_ns - before_ns;
        if tries.left > ROUNDS_TO_PAUSE * self.nodes && gap_ns < self.pause_ns {
            let left = tries.left;
            return broken(format!(
                "client {client} dials {node} {gap_ns} ns after the last node, and {left} have not answered it"
            ));
        }
        if tries.left.is_multiple_of(ROUNDS_TO_TRY_ALL * self.nodes) {
            let tried = std::mem::replace(&mut tries.tried, NodeSet::empty());
            if (tried.len() as u64) < self.nodes {
                return broken(format!(
                    "client {client} goes round and round between {tried:?}, and nobody answers it"
                ));
            }
        }
        Ok(())
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Dialling, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(dialling: &mut Dialling, at_ns: u64, node: u16) -> Result<(), Violation> {
        dialling.dialled(at_ns, 1, NodeId(node), Why::Left)
    }

    #[test]
    fn a_client_that_comes_back_to_one_node_again_and_again_is_found() {
        let mut dialling = Dialling::new(2, 10);
        for turn in 1..8 {
            leave(&mut dialling, 100 * turn, 1).unwrap();
        }
        assert!(leave(&mut dialling, 800, 1).is_err());
    }

    #[test]
    fn a_client_that_does_not_pause_after_many_rounds_is_found() {
        let mut dialling = Dialling::new(2, 10);
        for turn in 1..=10 {
            leave(&mut dialling, 9 * turn, 1 + turn as u16 % 2).unwrap();
        }
        let mut patient = Dialling::new(2, 10);
        for turn in 1..=10 {
            leave(&mut patient, 9 * turn, 1 + turn as u16 % 2).unwrap();
        }
        assert!(leave(&mut dialling, 99, 1).is_err());
        leave(&mut patient, 100, 1).unwrap();
    }

    #[test]
    fn an_answer_begins_a_new_round_and_a_hint_is_no_round() {
        let mut dialling = Dialling::new(2, 10);
        for turn in 1..100 {
            leave(&mut dialling, turn, 1).unwrap();
            dialling.dialled(turn, 1, NodeId(1), Why::Hinted).unwrap();
            if turn % 7 == 0 {
                dialling.answered(1);
            }
        }
    }
}
