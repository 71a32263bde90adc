//! Tentative replies: what a call returned that objects executed ahead of its decision, for clients that want it early.
//!
//! It is told on one connection, once, and belongs to the wait there: neither the session nor a digest knows of it, and whatever ends
//! the wait drops it. When the call is decided as it was executed, the reply to that connection is a short word; otherwise it is
//! the reply that everybody gets. What is undone is never confirmed.
//!
//! A call that raised, was skipped or is parked is not told early: who acts on a tentative reply should have to handle values only.

use crate::local::clients::reply;
use crate::local::waiting::{Line, Waiting};
use crate::replicated::window::fingerprint;
use crate::{Output, Replica, ReplyState};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Body, Command, CommandId, ConnectionId, Outcome, Slot, SlotResults, StepResult, ToClient, Value,
};

/// A tentative reply that is wanted, or was told.
#[derive(Debug)]
pub(crate) struct Early {
    /// By whom.
    pub(crate) to: ConnectionId,
    told: Told,
}

#[derive(Debug)]
enum Told {
    Nothing,
    /// It waits for the decision with the slot that is ahead, and takes no room beside it.
    Value(Value),
    /// Nothing is told again on this connection.
    Undone,
}

impl Early {
    pub(crate) fn wanted_by(to: ConnectionId) -> Early {
        let told = Told::Nothing;
        Early { to, told }
    }

    /// What was told is undone, or nobody hears its confirmation.
    pub(crate) fn forget(&mut self) {
        self.told = Told::Undone;
    }

    /// Whether the connection was told that the call returned this.
    fn is_told(&self, outcome: &Outcome) -> bool {
        match &self.told {
            _ if planted(Plant::ConfirmedNotCompared) => true,
            Told::Value(told) => matches!(outcome, Outcome::Returned(value) if value == told),
            Told::Nothing | Told::Undone => false,
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// A client wants a tentative reply to a call of this connection. It is told at once where objects have executed the call ahead.
    pub(crate) fn wanted_early(
        &mut self,
        from: ConnectionId,
        id: CommandId,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.config.speculation == 0 || self.quarantine.is_set() {
            return;
        }
        if let Some(line) = self.waiting.line(id.session) {
            line.want_early(id.sequence, from);
        }
        if let Some((command, result)) = self.speculation.result_of(id) {
            tell(&mut self.waiting, command, result, out);
        }
    }

    /// Objects have executed a slot: if it is not decided, tells those who want to know it early.
    pub(crate) fn tell_early(
        &mut self,
        slot: Slot,
        results: &SlotResults,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let batch = self.speculation.batch_of(slot);
        let Some(batch) = batch.filter(|_| !self.quarantine.is_set()) else {
            return;
        };
        for (command, result) in batch.commands().iter().zip(&results.steps) {
            tell(&mut self.waiting, command, result, out);
            if planted(Plant::TentativeKept)
                && let StepResult::Answered(outcome) = result
                && let Body::Call { object, payload } = &command.body
                && let Some(session) = self.replicated.sessions.session_mut(command.id.session)
            {
                session.admit(command.id.sequence, 0, fingerprint(*object, payload));
                session.record(command.id.sequence, ReplyState::Kept(outcome.clone()));
            }
        }
    }

    /// What objects made of these calls is undone.
    pub(crate) fn forget_early(&mut self, calls: &[CommandId], out: &mut Vec<Output<O::Message>>) {
        for &id in calls {
            let line = self.waiting.line(id.session);
            let Some((_, early)) = line.and_then(|line| line.early(id.sequence)) else {
                continue;
            };
            let Told::Value(value) = &early.told else {
                continue;
            };
            if planted(Plant::TentativeOfUndone) {
                let value = value.clone();
                reply(out, early.to, ToClient::Tentative { id, value });
            }
            early.forget();
        }
    }
}

/// Tells who wants it early what came of a call that is not decided.
fn tell<M>(
    waiting: &mut Waiting,
    command: &Command,
    result: &StepResult,
    out: &mut Vec<Output<M>>,
) {
    let (Body::Call { object, payload }, StepResult::Answered(Outcome::Returned(value))) =
        (&command.body, result)
    else {
        return;
    };
    let id = command.id;
    let Some(line) = waiting.line(id.session) else {
        return;
    };
    if line.early(id.sequence).is_none() {
        return;
    }
    let known = line.fingerprint(id.sequence, *object, payload);
    let print = known.unwrap_or_else(|| fingerprint(*object, payload));
    if let Some((asked, early)) = line.early(id.sequence)
        && let Told::Nothing = early.told
        && asked == print
    {
        early.told = Told::Value(value.clone());
        let value = value.clone();
        reply(out, early.to, ToClient::Tentative { id, value });
    }
}

/// Sends the outcome of a call to the callers that wait. Without a fingerprint the client has acknowledged the call; callers that
/// still wait get the outcome all the same.
pub(crate) fn answer<M>(
    line: &mut Line,
    id: CommandId,
    print: Option<u64>,
    outcome: &Outcome,
    out: &mut Vec<Output<M>>,
) {
    let early = line.early(id.sequence).map(|(_, early)| early);
    let confirmed = early.filter(|early| early.is_told(outcome));
    let confirmed = confirmed.map(|early| early.to);
    let mut tell = |to| {
        let message = match confirmed {
            Some(early) if early == to => ToClient::Confirmed { id },
            Some(_) | None => {
                let outcome = outcome.clone();
                ToClient::Replied { id, outcome }
            }
        };
        reply(out, to, message);
    };
    match print {
        Some(print) => line.answer(id.sequence, print, &mut tell),
        None => line.give_up(id.sequence, &mut tell),
    }
}
