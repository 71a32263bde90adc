//! A lock: one session holds it at a time, who waits gets it in the order in which they came, and tokens only grow.
//!
//! A model of the lock replays the decided log, as that of the queue in `rendezvous` does. It shares no code with the objects.

use super::rendezvous::{Told, WaitingStep};
use quorate_types::{CommandId, SessionId};
use std::collections::VecDeque;

/// What a call of `release` is told: that it was done.
pub const RELEASED: i64 = 1;

/// That its session does not hold the lock.
pub const REFUSED: i64 = -1;

/// What a call of `acquire` is told whose time is over.
const LATE: i64 = 0;

/// The lock as its documentation has it.
#[derive(Debug, Default)]
struct Lock {
    holder: Option<SessionId>,
    tenancy: u64,
    last_token: i64,
    line: VecDeque<(CommandId, i64, u64)>,
    given: Told,
}

/// What each call of a lock is told.
pub fn told_by_lock(log: &[WaitingStep]) -> Told {
    let mut lock = Lock::default();
    for step in log {
        match step {
            WaitingStep::Acquire { id, place, .. } if lock.is_taken_over(*id) => {
                lock.grant(*id, *place);
            }
            WaitingStep::Acquire { id, place, until } => {
                lock.line.push_back((*id, *place, *until));
            }
            WaitingStep::Release(id) => lock.release(*id),
            WaitingStep::Cancel(session, ids) => lock.cancel(*session, ids),
            WaitingStep::End(session) => {
                lock.line.retain(|(id, ..)| id.session != *session);
                lock.holder.take_if(|holder| holder == session);
            }
            WaitingStep::Resume(session) => {
                let line = lock.line.iter().map(|(id, ..)| *id);
                let ended: Vec<CommandId> = line.filter(|id| id.session == *session).collect();
                lock.cancel(*session, &ended);
            }
            WaitingStep::Tick(now) => lock.tick(*now),
            WaitingStep::Offer(_) | WaitingStep::OfferAt(..) | WaitingStep::Take(..) => {}
            WaitingStep::Publish(_) | WaitingStep::PublishAt(..) | WaitingStep::Watch { .. } => {}
        }
        lock.serve();
        // Who does not wait at all.
        lock.tick(0);
    }
    lock.given
}

impl Lock {
    fn serve(&mut self) {
        if self.holder.is_none()
            && let Some((id, place, _)) = self.line.pop_front()
        {
            self.grant(id, place);
        }
    }

    fn grant(&mut self, id: CommandId, place: i64) {
        self.last_token = place.max(self.last_token + 1);
        self.holder = Some(id.session);
        self.tenancy = tenancy_of(id);
        self.given.insert(id, Some(self.last_token));
    }

    /// A client that has resumed the session of the holder gets the lock again, with a token that the one before does not have.
    fn is_taken_over(&self, id: CommandId) -> bool {
        self.holder == Some(id.session) && self.tenancy < tenancy_of(id)
    }

    fn release(&mut self, id: CommandId) {
        let is_held = self.holder == Some(id.session);
        if is_held {
            self.holder = None;
        }
        let answer = if is_held { RELEASED } else { REFUSED };
        self.given.insert(id, Some(answer));
    }

    fn cancel(&mut self, session: SessionId, ids: &[CommandId]) {
        let is_cancelled = |id: &CommandId| id.session == session && ids.contains(id);
        let cancelled = self.line.iter().filter(|(id, ..)| is_cancelled(id));
        self.given.extend(cancelled.map(|(id, ..)| (*id, None)));
        self.line.retain(|(id, ..)| !is_cancelled(id));
    }

    fn tick(&mut self, now: u64) {
        let late = self.line.iter().filter(|(.., until)| *until <= now);
        self.given.extend(late.map(|(id, ..)| (*id, Some(LATE))));
        self.line.retain(|(.., until)| *until > now);
    }
}

fn tenancy_of(id: CommandId) -> u64 {
    id.sequence >> 40
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(session: u64, sequence: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence,
        }
    }

    fn acquire(session: u64, place: i64) -> WaitingStep {
        let (id, until) = (id(session, 1), 99);
        WaitingStep::Acquire { id, place, until }
    }

    #[test]
    fn one_holds_it_and_the_others_come_in_their_order() {
        let log = [
            acquire(1, 50),
            acquire(2, 60),
            acquire(3, 70),
            WaitingStep::Release(id(3, 2)),
            WaitingStep::Release(id(1, 2)),
            WaitingStep::End(SessionId(2)),
        ];
        let told = |count: usize| told_by_lock(&log[..count]);
        assert_eq!(told(3), Told::from([(id(1, 1), Some(50))]));
        assert_eq!(told(4)[&id(3, 2)], Some(REFUSED));
        assert_eq!(told(5)[&id(2, 1)], Some(60));
        assert!(!told(5).contains_key(&id(3, 1)), "the second holds it");
        assert_eq!(told(6)[&id(3, 1)], Some(70));
    }

    #[test]
    fn who_waits_too_long_or_is_given_up_gets_nothing() {
        let log = [
            acquire(1, 50),
            acquire(2, 60),
            acquire(3, 70),
            WaitingStep::Cancel(SessionId(3), vec![id(3, 1), id(2, 1)]),
            WaitingStep::Tick(99),
            WaitingStep::Release(id(1, 2)),
        ];
        let told = told_by_lock(&log);
        assert_eq!((told[&id(2, 1)], told[&id(3, 1)]), (Some(LATE), None));
    }

    #[test]
    fn a_token_is_larger_than_all_before_also_where_the_place_is_not() {
        let log = [
            acquire(1, 50),
            WaitingStep::Release(id(1, 2)),
            acquire(2, 50),
        ];
        assert_eq!(told_by_lock(&log)[&id(2, 1)], Some(51));
    }
}
