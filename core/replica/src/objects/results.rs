//! What came of executed slots: replies are kept, callers that wait are answered.
//!
//! Called with the results of each slot, in slot order. Everything that they change of the replicated state is changed here, in
//! the order of execution, because a replica may have applied the log further than another one.

use crate::local::clients::reply;
use crate::local::early::answer;
use crate::local::waiting::Line;
use crate::objects::pipeline::Calls;
use crate::replicated::sessions;
use crate::{Output, Replica, ReplyState};
use quorate_ordering::{Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, LaterAnswer, Outcome, Slot, SlotResults, StepResult, ToClient};

impl<O: Ordering> Replica<O> {
    /// A node without objects keeps no replies; it records only that the calls were executed.
    pub(crate) fn pass(&mut self, calls: &Calls) {
        for (_, id) in calls.calls() {
            if let Some(session) = self.replicated.sessions.session_mut(id.session) {
                session.record(id.sequence, ReplyState::Gone);
            }
        }
    }

    /// The objects executed a slot: keeps the replies, answers the callers that wait, and sends more calls.
    pub(crate) fn executed(
        &mut self,
        slot: Slot,
        results: SlotResults,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.tell_early(slot, &results, out);
        let Some(results) = self.speculation.keep(slot, results) else {
            return;
        };
        let Some(calls) = self.pipeline.finish(slot) else {
            return;
        };
        assert_eq!(
            results.steps.len(),
            calls.admitted.len(),
            "one result for each step"
        );
        self.pipeline.outcomes.fold(slot, &calls.admitted, &results);
        if let Some(frozen) = self.checkpoints.frozen_table(slot) {
            for (place, id) in calls.calls() {
                sessions::record(frozen, id, state_of(results.steps[place].clone()));
            }
            let few = planted(Plant::ManyWokenNotInSnapshot).then_some(1);
            for LaterAnswer { id, outcome, .. } in
                results.answers.iter().take(few.unwrap_or(usize::MAX))
            {
                sessions::wake(frozen, *id, outcome.clone());
            }
        }
        let dropped = self.keep_replies(&calls, &results);
        let SlotResults { steps, answers } = results;
        let comes_first = planted(Plant::WokenInItsSlotParked);
        if comes_first {
            self.woken(answers.clone(), out);
        }
        self.record(&calls, steps, &answers, out);
        if !comes_first {
            self.woken(answers, out);
        }
        for id in dropped {
            if let Some(frozen) = self.checkpoints.frozen_table(slot) {
                sessions::drop_reply(frozen, id);
            }
            if let Some(session) = self.replicated.sessions.session_mut(id.session) {
                session.drop_reply(id.sequence);
            }
        }
    }

    /// Counts the replies of a slot. Returns those for which there is no more room.
    fn keep_replies(&mut self, calls: &Calls, results: &SlotResults) -> Vec<CommandId> {
        let most = match planted(Plant::RepliesLimitedAtApply) {
            true => self.replicated.replies_max(),
            false => calls.replies_max,
        };
        let kept = &mut self.replicated.kept;
        for freed in &calls.freed_before {
            kept.free(*freed);
        }
        let mut dropped = kept.limit(most);
        for (place, id) in calls.calls() {
            if let Some(outcome) = results.steps[place].outcome() {
                dropped.extend(kept.keep(id, outcome));
            }
        }
        for LaterAnswer { id, outcome, .. } in &results.answers {
            dropped.extend(kept.keep_woken(*id, outcome));
        }
        for freed in &calls.freed {
            kept.free(*freed);
        }
        kept.executed(calls.slot);
        dropped
    }

    /// Records what came of the calls, and tells who waits for it.
    fn record(
        &mut self,
        calls: &Calls,
        steps: Vec<StepResult>,
        answers: &[LaterAnswer],
        out: &mut Vec<Output<O::Message>>,
    ) {
        let is_served = !self.quarantine.is_set();
        let mut ids = calls.calls().peekable();
        let mut steps = steps.into_iter().enumerate();
        while let Some(&(_, CommandId { session: id, .. })) = ids.peek() {
            let mut session = self.replicated.sessions.session_mut(id);
            let mut line = self.waiting.line(id).filter(|_| is_served);
            while let Some((place, command)) = ids.next_if(|(_, next)| next.session == id) {
                let mut later = steps.by_ref().filter(|(at, _)| *at == place);
                let (_, result) = later.next().expect("one for each step");
                let is_lost =
                    planted(Plant::SkipLosesReply) && result.outcome() == Some(&Outcome::Skipped);
                if let Some(line) = line.as_mut().filter(|_| !is_lost) {
                    let print = session
                        .as_ref()
                        .and_then(|session| session.print(command.sequence));
                    match result.outcome() {
                        Some(outcome) => answer(line, command, print, outcome, out),
                        None => park(line, command, print, answers, out),
                    }
                }
                if let Some(session) = &mut session {
                    let state = if is_lost {
                        ReplyState::Gone
                    } else {
                        state_of(result)
                    };
                    session.record(command.sequence, state);
                }
            }
            if line.is_some() {
                self.waiting.landed(id, 0);
            }
        }
    }

    /// Parked calls have their answers: keeps them, and tells who waits.
    fn woken(&mut self, answers: Vec<LaterAnswer>, out: &mut Vec<Output<O::Message>>) {
        let is_served = !self.quarantine.is_set();
        let is_leading = matches!(self.role, Role::Leader { .. });
        for (place, LaterAnswer { id, outcome, .. }) in answers.into_iter().enumerate() {
            let session = self.replicated.sessions.session_mut(id.session);
            let line = self.waiting.line(id.session).filter(|_| is_served);
            if planted(Plant::WokenOnlyWhereAwaited) && line.is_none() {
                continue;
            }
            if let Some(line) = line {
                let print = session
                    .as_ref()
                    .and_then(|session| session.print(id.sequence));
                answer(line, id, print, &outcome, out);
                self.waiting.landed(id.session, 0);
            }
            if planted(Plant::ManyWokenKeptByLeader) && place > 0 && !is_leading {
                continue;
            }
            if let Some(session) = session {
                session.wake(id.sequence, outcome);
            }
        }
    }
}

/// What a session keeps of it.
fn state_of(result: StepResult) -> ReplyState {
    match result {
        StepResult::Answered(outcome) => ReplyState::Kept(outcome),
        StepResult::Parked => ReplyState::Parked,
        StepResult::Done => unreachable!("it is a call"),
    }
}

/// Tells the callers of a call that it waits, unless its answer follows at once.
fn park<M>(
    line: &mut Line,
    id: CommandId,
    print: Option<u64>,
    answers: &[LaterAnswer],
    out: &mut Vec<Output<M>>,
) {
    let is_answered = answers.iter().any(|answer| answer.id == id);
    if let Some(print) = print.filter(|_| !is_answered) {
        line.park(id.sequence, print, |to| {
            reply(out, to, ToClient::Parked { id });
        });
    }
}
