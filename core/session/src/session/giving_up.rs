//! Operations for which nobody waits any more. A call that waits in the group is cancelled there, so that what another call
//! gives goes to somebody who wants it.

use super::{ClientSession, Registration, Ticket};
use crate::limits::OVERDUE_MAX;
use crate::outstanding::{Attempts, Pending, Tentative};
use crate::{Operation, SessionOutput};
use quorate_types::{CANCELLED_AT_ONCE, ObjectId, SessionId, Time, cancel_payload};
use std::collections::{BTreeMap, VecDeque};

/// What is to be cancelled in the group.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp {
    /// Calls that are parked, by object; bounded by those that may be.
    parked: BTreeMap<ObjectId, Vec<u64>>,
    /// The call that cancels some of them and has no answer.
    cancelling: Option<u64>,
    /// Calls that were sent and ended without an answer: one may yet turn out to be parked.
    overdue: VecDeque<(u64, ObjectId)>,
}

impl GivenUp {
    /// A call has ended. Says whether that lets another one be sent that cancels some.
    pub(super) fn ended(&mut self, number: u64) -> bool {
        self.cancelling.take_if(|of| *of == number).is_some() && self.is_due()
    }

    /// The session is over, and with it all that was parked.
    pub(super) fn forget(&mut self) {
        self.parked.clear();
        self.overdue.clear();
    }

    /// Whether a call is to be sent that cancels others.
    fn is_due(&self) -> bool {
        self.cancelling.is_none() && !self.parked.is_empty()
    }
}

impl ClientSession {
    /// Takes an operation back that no replica has executed or will; says whether it did. Its number stays unused.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let (of_kind, number) = match ticket {
            Ticket::Call(number) => (&mut self.calls, number),
            Ticket::Request(number) => (&mut self.requests, number),
        };
        let is_unsent = of_kind
            .pending_mut(number)
            .is_some_and(|pending| !pending.is_in_doubt());
        is_unsent && of_kind.take(number).is_some()
    }

    /// Nobody waits for an operation any more: how it ends is not told. One that was not sent is taken back; a call that waits
    /// in the group, or turns out to, is cancelled there.
    pub fn give_up(&mut self, ticket: Ticket) {
        let (of_kind, number) = match ticket {
            Ticket::Call(number) => (&mut self.calls, number),
            Ticket::Request(number) => (&mut self.requests, number),
        };
        let Some(pending) = of_kind.pending_mut(number) else {
            return;
        };
        if !pending.is_in_doubt() {
            of_kind.take(number);
        } else if !std::mem::replace(&mut pending.is_given_up, true)
            && let Ticket::Call(number) = ticket
            && self.calls.is_parked(number)
        {
            self.cancel_if_given_up(number);
        }
    }

    /// Whether calls that nobody waits for have no end yet.
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        self.calls.has_given_up()
    }

    /// A call is parked for which nobody waits.
    pub(super) fn cancel_if_given_up(&mut self, number: u64) {
        let object = match self.calls.pending_mut(number) {
            Some(pending) if pending.is_given_up => pending.object(),
            Some(_) => None,
            None => {
                let overdue = &mut self.given_up.overdue;
                let place = overdue.iter().position(|(late, _)| *late == number);
                let found = place.and_then(|place| overdue.remove(place));
                found.map(|(_, object)| object)
            }
        };
        let Some(object) = object else { return };
        let parked = self.given_up.parked.entry(object).or_default();
        if !parked.contains(&number) {
            parked.push(number);
        }
        self.wake_hint = Time(0);
    }

    /// A call ends without an answer, by its deadline for example. The newest that were sent are remembered.
    pub(super) fn note_overdue(&mut self, number: u64) {
        let pending = self.calls.pending_mut(number);
        let object = pending.filter(|p| p.is_in_doubt()).and_then(|p| p.object());
        if let Some(object) = object {
            let overdue = &mut self.given_up.overdue;
            if overdue.len() >= OVERDUE_MAX {
                overdue.pop_front();
            }
            overdue.push_back((number, object));
        }
    }

    /// Has parked calls cancelled for which nobody waits, those of one object after those of another.
    pub(super) fn send_cancels(&mut self, now: Time, out: &mut Vec<SessionOutput>) {
        let Registration::Open { id, .. } = self.registration else {
            return;
        };
        if !self.given_up.is_due() {
            return;
        }
        let Some((object, mut numbers)) = self.given_up.parked.pop_first() else {
            return;
        };
        let later = numbers.split_off(numbers.len().min(CANCELLED_AT_ONCE));
        if !later.is_empty() {
            self.given_up.parked.insert(object, later);
        }
        if self.in_flight() == 0 {
            self.last_heard = now;
        }
        let cancel = Pending::given_up(self.cancel(id, object, &numbers));
        let number = self.calls.push(cancel);
        self.given_up.cancelling = Some(number);
        self.send_one(now, Ticket::Call(number), out);
    }

    /// The call that cancels calls of the session.
    fn cancel(&self, session: SessionId, object: ObjectId, numbers: &[u64]) -> Operation {
        let sequences = numbers.iter().map(|number| self.sequence(*number));
        let sequences: Vec<u64> = sequences.collect();
        let payload = cancel_payload(session, &sequences);
        Operation::Call { object, payload }
    }
}

impl Pending {
    /// An operation of which nobody is told how it ends, and that has no deadline.
    fn given_up(operation: Operation) -> Pending {
        Pending {
            operation,
            deadline: Time(u64::MAX),
            attempts: Attempts::Many,
            copies: 0,
            sent_at: None,
            full_nodes: 0,
            resend_at: None,
            is_given_up: true,
            parked_refusals: 0,
            tentative: Tentative::default(),
        }
    }

    /// The object called.
    fn object(&self) -> Option<ObjectId> {
        match &self.operation {
            Operation::Call { object, .. } | Operation::EarlyCall { object, .. } => Some(*object),
            Operation::Read { .. }
            | Operation::Checkpoint
            | Operation::Reset { .. }
            | Operation::Skip { .. }
            | Operation::Invite { .. }
            | Operation::ChangeGroups { .. }
            | Operation::MoveLeader { .. }
            | Operation::Join { .. }
            | Operation::SetLevel { .. }
            | Operation::SwitchOrdering { .. }
            | Operation::SetQuorums { .. }
            | Operation::SetLimit { .. }
            | Operation::ChangeView { .. } => None,
        }
    }
}
