//! Takers of a queue who wait: each is answered once, in the order in which they came or when its time is over, and nobody is
//! forgotten.
//!
//! A model of the queue replays the decided log, with the sessions that it ended, and says who must have been told what.
//! It shares no code with the objects.

use super::holding::told_by_lock;
use super::{Property, Violation};
use quorate_types::{CommandId, NodeId, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// What a place in the log does to those who wait, at the queue, for the lock or for a change of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingStep {
    /// A call offers an item.
    Offer(i64),
    /// A call offers an item that comes at an agreed time.
    OfferAt(i64, u64),
    /// A call takes one, or waits for it, until an agreed time if it names one.
    Take(CommandId, Option<u64>),
    /// A call asks for the lock until an agreed time; a number of its place in the log.
    Acquire {
        /// The call.
        id: CommandId,
        /// A larger one comes later in the log.
        place: i64,
        /// Until when.
        until: u64,
    },
    /// A call gives the lock back.
    Release(CommandId),
    /// A call publishes a change.
    Publish(i64),
    /// A call publishes a change that comes at an agreed time.
    PublishAt(i64, u64),
    /// A call asks for what came behind a change, or waits for it, until an agreed time if it names one.
    Watch {
        /// The call.
        id: CommandId,
        /// The number of the change; `None`: the newest there is.
        seen: Option<i64>,
        /// Until when.
        until: Option<u64>,
    },
    /// A call ends the waiting of calls, if they are of its session.
    Cancel(SessionId, Vec<CommandId>),
    /// A session is over.
    End(SessionId),
    /// A session has another client: what the one before waits for ends.
    Resume(SessionId),
    /// Agreed time has come so far.
    Tick(u64),
}

/// What each call was told; `None` when its time was over, or its caller gave it up.
pub type Told = BTreeMap<CommandId, Option<i64>>;

/// What was told of takers.
#[derive(Debug, Default)]
pub struct Rendezvous {
    /// By a replica or a reply; the same each time.
    told: Told,
}

impl Rendezvous {
    /// A replica's objects answer a taker, or a client hears it.
    ///
    /// # Errors
    /// [`Property::Rendezvous`] when the taker was told something else before.
    pub fn told(
        &mut self,
        id: CommandId,
        item: Option<i64>,
        by: Option<NodeId>,
    ) -> Result<(), Violation> {
        let first = *self.told.entry(id).or_insert(item);
        if first == item {
            return Ok(());
        }
        broken(format!(
            "{id} was woken with {first:?} and then with {item:?} (by {by:?})"
        ))
    }

    /// Replays the log.
    ///
    /// # Errors
    /// [`Property::Rendezvous`] when somebody was told what the log does not give, or the log gives what nobody told.
    pub fn check(&self, log: &[WaitingStep]) -> Result<(), Violation> {
        let mut given = told_by_queue(log);
        given.extend(told_by_lock(log));
        for (id, item) in &self.told {
            match given.get(id) {
                Some(right) if right == item => {}
                Some(right) => {
                    return broken(format!("{id} was told {item:?}, the log gives {right:?}"));
                }
                None => return broken(format!("{id} was told {item:?} and waits in the log")),
            }
        }
        match given.iter().find(|(id, _)| !self.told.contains_key(id)) {
            Some((id, item)) => {
                broken(format!("the log gives {item:?} to {id}, which nobody told"))
            }
            None => Ok(()),
        }
    }
}

/// The queue as its documentation has it.
#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<i64>,
    takers: VecDeque<(CommandId, Option<u64>)>,
    /// Items to come, in the order in which they were offered.
    later: Vec<(u64, i64)>,
    given: Told,
}

/// What each taker gets.
fn told_by_queue(log: &[WaitingStep]) -> Told {
    let mut queue = Queue::default();
    for step in log {
        match step {
            WaitingStep::Offer(item) => queue.offer(*item),
            WaitingStep::OfferAt(item, at) => queue.later.push((*at, *item)),
            WaitingStep::Take(id, until) => match queue.items.pop_front() {
                Some(item) => drop(queue.given.insert(*id, Some(item))),
                // Who does not wait at all.
                None if *until == Some(0) => drop(queue.given.insert(*id, None)),
                None => queue.takers.push_back((*id, *until)),
            },
            WaitingStep::Cancel(session, ids) => queue.cancel(*session, ids),
            WaitingStep::End(session) => {
                queue.takers.retain(|(taker, _)| taker.session != *session)
            }
            WaitingStep::Resume(session) => {
                let of_session = |id: &CommandId| id.session == *session;
                let takers = queue.takers.iter().map(|(taker, _)| *taker);
                let ended: Vec<CommandId> = takers.filter(of_session).collect();
                queue.cancel(*session, &ended);
            }
            WaitingStep::Tick(now) => queue.tick(*now),
            WaitingStep::Acquire { .. } | WaitingStep::Release(_) => {}
            WaitingStep::Publish(_) | WaitingStep::PublishAt(..) | WaitingStep::Watch { .. } => {}
        }
    }
    queue.given
}

impl Queue {
    fn offer(&mut self, item: i64) {
        match self.takers.pop_front() {
            Some((taker, _)) => drop(self.given.insert(taker, Some(item))),
            None => self.items.push_back(item),
        }
    }

    /// Who does not wait any more gets nothing.
    fn cancel(&mut self, session: SessionId, ids: &[CommandId]) {
        let is_cancelled = |taker: &CommandId| taker.session == session && ids.contains(taker);
        let waited = self.takers.iter().map(|(taker, _)| *taker);
        self.given
            .extend(waited.filter(is_cancelled).map(|taker| (taker, None)));
        self.takers.retain(|(taker, _)| !is_cancelled(taker));
    }

    /// Who has waited too long goes before an item comes that is due as well.
    fn tick(&mut self, now: u64) {
        let is_over = |until: &Option<u64>| until.is_some_and(|until| until <= now);
        let over = self.takers.iter().filter(|(_, until)| is_over(until));
        self.given.extend(over.map(|(taker, _)| (*taker, None)));
        self.takers.retain(|(_, until)| !is_over(until));
        self.later.sort_by_key(|(at, _)| *at);
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            let (_, item) = self.later.remove(0);
            self.offer(item);
        }
    }
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

    fn log() -> [WaitingStep; 6] {
        [
            WaitingStep::Take(id(1), None),
            WaitingStep::Take(id(2), None),
            WaitingStep::Take(id(3), Some(99)),
            WaitingStep::End(SessionId(2)),
            WaitingStep::Offer(70),
            WaitingStep::Offer(80),
        ]
    }

    #[test]
    fn who_waited_too_long_and_items_that_come_later_pass_in_agreed_time_only() {
        let log = [
            WaitingStep::Take(id(1), Some(10)),
            WaitingStep::Take(id(2), Some(30)),
            WaitingStep::Tick(9),
            WaitingStep::OfferAt(80, 21),
            WaitingStep::OfferAt(70, 20),
            WaitingStep::Tick(19),
            WaitingStep::Tick(25),
            WaitingStep::Take(id(3), None),
        ];
        let told = |pairs: &[(u64, Option<i64>)]| {
            let mut told = Rendezvous::default();
            for (session, item) in pairs {
                told.told(id(*session), *item, None).unwrap();
            }
            told
        };
        let right = [(1, None), (2, Some(70)), (3, Some(80))];
        told(&right).check(&log).unwrap();
        let early = [(1, None), (2, None), (3, Some(70))];
        assert!(told(&early).check(&log).is_err());
        assert!(
            told(&right[1..]).check(&log).is_err(),
            "nobody told the first"
        );
        let late = [(1, Some(70)), (2, Some(80))];
        assert!(told(&late).check(&log).is_err());
    }

    fn told(pairs: &[(u64, i64)]) -> Rendezvous {
        let mut told = Rendezvous::default();
        for (session, item) in pairs {
            told.told(id(*session), Some(*item), None).unwrap();
        }
        told
    }

    #[test]
    fn takers_in_their_order_pass_past_the_end_of_a_session() {
        told(&[(1, 70), (3, 80)]).check(&log()).unwrap();
    }

    #[test]
    fn takers_who_gave_up_get_nothing_and_only_their_own_client_says_so() {
        let cancel = |by| WaitingStep::Cancel(SessionId(by), vec![id(1), id(2)]);
        let mut seen = Rendezvous::default();
        seen.told(id(1), None, None).unwrap();
        seen.told(id(3), Some(70), None).unwrap();
        let cancelled_by = |by| {
            let mut steps = log().to_vec();
            steps.insert(3, cancel(by));
            steps.pop();
            steps
        };
        seen.check(&cancelled_by(1)).unwrap();
        assert!(seen.check(&cancelled_by(3)).is_err());
    }

    #[test]
    fn a_taker_who_overtakes_is_found() {
        assert!(told(&[(3, 70), (1, 80)]).check(&log()).is_err());
    }

    #[test]
    fn an_answer_to_an_ended_session_is_found() {
        assert!(told(&[(1, 70), (2, 80)]).check(&log()).is_err());
        assert!(told(&[(1, 70), (3, 80), (2, 90)]).check(&log()).is_err());
    }

    #[test]
    fn a_lost_and_a_double_wake_up_are_found() {
        assert!(
            told(&[(1, 70)]).check(&log()).is_err(),
            "nobody told the third"
        );
        assert!(told(&[(1, 70)]).told(id(1), Some(80), None).is_err());
    }
}
