//! Takers of a queue who wait: each is answered once, in the order in which they came, and nobody is forgotten.
//!
//! A model of the queue replays the decided log, with the sessions that it ended, and says who must have been told what.
//! It shares no code with the objects.

use super::{Property, Violation};
use quorate_types::{CommandId, NodeId, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// What a place in the log does to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// A call offers an item.
    Offer(CommandId, i64),
    /// A call takes one, or waits for it.
    Take(CommandId),
    /// A session is over.
    End(SessionId),
}

/// What was told of takers.
#[derive(Debug, Default)]
pub struct Rendezvous {
    /// What each taker was told, by a replica or a reply; the same each time.
    told: BTreeMap<CommandId, i64>,
}

impl Rendezvous {
    /// A replica's objects answer a taker, or a client hears it.
    ///
    /// # Errors
    /// [`Property::Rendezvous`] when the taker was told something else before.
    pub fn told(&mut self, id: CommandId, item: i64, by: Option<NodeId>) -> Result<(), Violation> {
        let first = *self.told.entry(id).or_insert(item);
        if first == item {
            return Ok(());
        }
        broken(format!(
            "{id} was woken with {first} and then with {item} (by {by:?})"
        ))
    }

    /// Replays the log.
    ///
    /// # Errors
    /// [`Property::Rendezvous`] when somebody was told what the log does not give, or the log gives what nobody told.
    pub fn check(&self, log: impl IntoIterator<Item = QueueStep>) -> Result<(), Violation> {
        let given = replay(log);
        for (id, item) in &self.told {
            match given.get(id) {
                Some(right) if right == item => {}
                Some(right) => {
                    return broken(format!("{id} was told {item}, the log gives {right}"));
                }
                None => return broken(format!("{id} was told {item} and waits in the log")),
            }
        }
        match given.iter().find(|(id, _)| !self.told.contains_key(id)) {
            Some((id, item)) => broken(format!("the log gives {item} to {id}, which nobody told")),
            None => Ok(()),
        }
    }
}

/// What each taker gets.
fn replay(log: impl IntoIterator<Item = QueueStep>) -> BTreeMap<CommandId, i64> {
    let mut items: VecDeque<i64> = VecDeque::new();
    let mut takers: VecDeque<CommandId> = VecDeque::new();
    let mut given = BTreeMap::new();
    for step in log {
        match step {
            QueueStep::Offer(_, item) => match takers.pop_front() {
                Some(taker) => {
                    given.insert(taker, item);
                }
                None => items.push_back(item),
            },
            QueueStep::Take(id) => match items.pop_front() {
                Some(item) => {
                    given.insert(id, item);
                }
                None => takers.push_back(id),
            },
            QueueStep::End(session) => takers.retain(|taker| taker.session != session),
        }
    }
    given
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Rendezvous, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(session: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence: 1,
        }
    }

    fn log() -> [QueueStep; 6] {
        [
            QueueStep::Take(id(1)),
            QueueStep::Take(id(2)),
            QueueStep::Take(id(3)),
            QueueStep::End(SessionId(2)),
            QueueStep::Offer(id(9), 70),
            QueueStep::Offer(id(9), 80),
        ]
    }

    fn told(pairs: &[(u64, i64)]) -> Rendezvous {
        let mut told = Rendezvous::default();
        for (session, item) in pairs {
            told.told(id(*session), *item, None).unwrap();
        }
        told
    }

    #[test]
    fn takers_in_their_order_pass_past_the_end_of_a_session() {
        told(&[(1, 70), (3, 80)]).check(log()).unwrap();
    }

    #[test]
    fn a_taker_who_overtakes_is_found() {
        assert!(told(&[(3, 70), (1, 80)]).check(log()).is_err());
    }

    #[test]
    fn an_answer_to_an_ended_session_is_found() {
        assert!(told(&[(1, 70), (2, 80)]).check(log()).is_err());
        assert!(told(&[(1, 70), (3, 80), (2, 90)]).check(log()).is_err());
    }

    #[test]
    fn a_lost_and_a_double_wake_up_are_found() {
        assert!(
            told(&[(1, 70)]).check(log()).is_err(),
            "nobody told the third"
        );
        assert!(told(&[(1, 70)]).told(id(1), 80, None).is_err());
    }
}
