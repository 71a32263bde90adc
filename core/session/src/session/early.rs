//! Calls that are wanted early: a node whose objects executed one ahead of its decision tells what it returned there, and confirms that
//! in a few bytes once it is decided so.
//!
//! A tentative reply ends nothing and is no sign that the group does anything: the call is sent again, refused and given up as
//! any other.

use super::{ClientSession, SessionOutput};
use crate::{Answer, Operation, Ticket};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, FromClient, Outcome, Value};

impl ClientSession {
    /// Says whether the node in use reads [`FromClient::Early`]. To be said before the session hears that it is connected.
    pub fn set_early(&mut self, tells_early: bool) {
        self.tells_early = tells_early;
    }

    /// What follows a copy of a call that is wanted early.
    pub(super) fn early_message(&mut self, call: &FromClient) -> Option<FromClient> {
        let FromClient::Call { id, .. } = *call else {
            return None;
        };
        if !self.tells_early || !self.wants_early {
            return None;
        }
        let number = self.call_number(id)?;
        let is_parked = self.calls.is_parked(number);
        let pending = self.calls.pending_mut(number).filter(|_| !is_parked)?;
        let is_early = matches!(pending.operation, Operation::EarlyCall { .. });
        is_early.then_some(FromClient::Early { id })
    }

    /// What a connection told that is lost is never confirmed on another one.
    pub(super) fn forget_tentative(&mut self) {
        for (_, pending) in self.calls.iter_mut() {
            pending.tentative.confirmable = None;
        }
    }

    pub(super) fn on_tentative(
        &mut self,
        id: CommandId,
        value: Value,
        out: &mut Vec<SessionOutput>,
    ) {
        let Some(number) = self.call_number(id) else {
            return;
        };
        if planted(Plant::TentativeEndsCall) {
            let outcome = Outcome::Returned(value);
            return self.finish_call(number, Ok(Answer::Called(outcome)), out);
        }
        let is_parked = self.calls.is_parked(number);
        let Some(pending) = self.calls.pending_mut(number).filter(|_| !is_parked) else {
            return;
        };
        pending.tentative.confirmable = Some(Box::new(value.clone()));
        let is_first = !std::mem::replace(&mut pending.tentative.is_told, true);
        if is_first && !pending.is_given_up {
            let ticket = Ticket::Call(number);
            out.push(SessionOutput::Tentative { ticket, value });
        }
    }

    /// A node confirms what it has told on the same connection, and nothing else.
    pub(super) fn on_confirmed(&mut self, id: CommandId, out: &mut Vec<SessionOutput>) {
        let Some(number) = self.call_number(id) else {
            return;
        };
        let pending = self.calls.pending_mut(number);
        if let Some(value) = pending.and_then(|pending| pending.tentative.confirmable.take()) {
            self.note_life(number);
            let outcome = Outcome::Returned(*value);
            self.finish_call(number, Ok(Answer::Called(outcome)), out);
        }
    }
}
