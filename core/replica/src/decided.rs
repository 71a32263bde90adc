//! The meta layer: applies decided batches to the replicated state, in slot order, without waiting for
//! objects.
//!
//! Everything here depends on the log alone, so it is the same on every replica. It also answers waiting
//! clients. A run of calls of one session costs one look-up.

use crate::local::clients::{opened_in, refuse, reply};
use crate::local::internal::Purpose;
use crate::local::waiting::Line;
use crate::objects::pipeline::{Calls, Work};
use crate::replicated::kept::Freed;
use crate::replicated::poison::{Death, Report};
use crate::replicated::reset::NamedState;
use crate::replicated::window::{Admission, Session, fingerprint};
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Batch, Body, CallPlace, Command, CommandId, ConnectionId, Level, NodeId, ObjectId,
    Outcome, Refusal, SessionId, Slot, Stamp, ToClient, Value,
};
use std::ops::Range;

/// Kept replies that decided slots freed and that no slot with steps has taken along.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FreedReplies {
    /// By slots before this one.
    before: Vec<Freed>,
    /// By the slot that is being applied.
    pub(crate) here: Vec<Freed>,
}

impl<O: Ordering> Replica<O> {
    /// Applies the meta part of the next slot and queues its calls. Slots that a snapshot covers are
    /// skipped.
    pub(crate) fn decided(&mut self, slot: Slot, batch: Batch, out: &mut Vec<Output<O::Message>>) {
        if slot <= self.replicated.applied {
            return;
        }
        let (checkpoint, reset) = self.apply(slot, batch, out);
        // Before the slot's snapshot, which tells the view that is in force after it.
        let gone = self.replicated.views.applied(slot);
        for node in gone.iter() {
            // What it answered nobody knows any more.
            self.replicated.poison.keep_before(node, slot.next());
        }
        if let Some(reset) = reset {
            self.reset_decided(slot, reset, out);
        } else if checkpoint {
            self.checkpoint_decided(slot, out);
        }
    }

    /// Returns whether the slot has a checkpoint, and the reset that has an effect.
    fn apply(
        &mut self,
        slot: Slot,
        batch: Batch,
        out: &mut Vec<Output<O::Message>>,
    ) -> (bool, Option<NamedState>) {
        assert_eq!(
            slot,
            self.replicated.applied.next(),
            "slots are decided without gaps"
        );
        self.replicated.applied = slot;
        self.checkpoints
            .grew(batch.commands().len(), batch.weight());
        if batch.commands().is_empty() {
            return (false, None);
        }
        self.replicated.stamped(batch.stamp());
        let (admitted, mut checkpoint, reset) = self.admit(slot, &batch, out);
        if checkpoint && planted(Plant::SnapshotAtWrongSlot) {
            checkpoint = false;
            self.checkpoint_decided(slot, out);
        }
        if !admitted.is_empty() {
            self.pipeline.push(Work::Calls(Calls {
                slot,
                stamp: self.replicated.stamp,
                batch,
                admitted,
                skipped: Vec::new(),
                freed_before: std::mem::take(&mut self.freed.before),
                freed: std::mem::take(&mut self.freed.here),
                replies_max: self.replicated.replies_max(),
            }));
        } else {
            self.free_replies(slot);
        }
        (checkpoint, reset)
    }

    /// No call of this slot will be executed: what it frees is counted now, or with the next call that is.
    fn free_replies(&mut self, slot: Slot) {
        let is_idle = self.pipeline.executed(slot) == slot;
        if is_idle {
            let freed = self.freed.before.drain(..);
            for freed in freed.chain(self.freed.here.drain(..)) {
                self.replicated.kept.free(freed);
            }
        } else {
            self.freed.before.append(&mut self.freed.here);
        }
    }

    /// Returns which commands are steps of the objects, whether the slot has a checkpoint, and the reset that has an effect.
    fn admit(
        &mut self,
        slot: Slot,
        batch: &Batch,
        out: &mut Vec<Output<O::Message>>,
    ) -> (Vec<u32>, bool, Option<NamedState>) {
        let commands = batch.commands();
        let mut admitted = Vec::with_capacity(commands.len());
        let (mut checkpoint, mut reset) = (false, None);
        let mut at = 0;
        while at < commands.len() {
            let command = &commands[at];
            if let Body::Call { .. } = command.body {
                let end = at + run_length(&commands[at..]);
                self.admit_run(
                    slot,
                    self.replicated.stamp,
                    commands,
                    at..end,
                    &mut admitted,
                    out,
                );
                at = end;
            } else {
                checkpoint |= command.body == Body::Checkpoint;
                let is_step = self.apply_meta(slot, at, command, out);
                if is_step && (command.body == Body::Tick || !planted(Plant::EndNotTold)) {
                    admitted.push(at as u32);
                }
                reset = reset.or(self.begin_reset(slot, command, out));
                at += 1;
            }
        }
        (admitted, checkpoint, reset)
    }

    /// Admits a run of calls of one session, and settles their waits if no outcome will follow.
    fn admit_run(
        &mut self,
        slot: Slot,
        stamp: Stamp,
        commands: &[Command],
        run: Range<usize>,
        admitted: &mut Vec<u32>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let id = commands[run.start].id.session;
        let view = self.replicated.views.current();
        let mut session = self.replicated.sessions.session_mut(id);
        let mut line = self.waiting.line(id);
        let (mut landed, mut is_life) = (0, false);
        for index in run {
            let command = &commands[index];
            let Body::Call { object, payload } = &command.body else {
                unreachable!("a run holds calls");
            };
            let sequence = command.id.sequence;
            let has_later = |known: &Session| command.id.tenancy() < known.tenancy();
            let is_over = session.as_deref().is_some_and(has_later);
            is_life |= !is_over;
            let print = print_of(line.as_deref(), sequence, *object, payload);
            let met = match &mut session {
                None => Err(Refusal::SessionExpired),
                Some(_) if !view.may_have(*object) => Err(Refusal::NoSuchObject),
                Some(session) => match session.admit(sequence, command.acknowledged, print) {
                    met @ (Admission::New | Admission::InFlight | Admission::Parked) => {
                        if met == Admission::New {
                            admitted.push(index as u32);
                        }
                        continue_waiting(&mut line, sequence, print, &mut landed);
                        if met == Admission::Parked {
                            park_waiting(&mut line, command.id, print, out);
                        }
                        continue;
                    }
                    met if executes_again(met, is_over) => {
                        admitted.push(index as u32);
                        continue;
                    }
                    Admission::Answered => Ok(()),
                    Admission::Gone if is_over => Err(Refusal::Superseded),
                    Admission::Gone => Err(Refusal::ReplyGone),
                    Admission::Reused => Err(Refusal::SequenceReused),
                    Admission::Beyond => Err(Refusal::Overloaded),
                },
            };
            let Some(line) = &mut line else { continue };
            landed += usize::from(line.decided(sequence, print));
            let kept = session.as_ref().and_then(|session| session.reply(sequence));
            let kept = met.and_then(|()| kept.ok_or(Refusal::ReplyGone));
            line.answer(sequence, print, |to| tell(out, to, command.id, kept));
        }
        if let Some(session) = session {
            let acknowledged = session.floor();
            self.freed.here.push(Freed::Acknowledged(id, acknowledged));
            if is_life {
                session.active = slot;
                session.active_wall = stamp.wall.0;
            }
        }
        if line.is_some() {
            self.waiting.landed(id, landed);
        }
    }

    /// Applies a command that is no call. Returns whether it is a step of the objects, in its place: an end of a session or of a
    /// tenancy of it, or a tick.
    // Longer than a screen: one arm a command.
    fn apply_meta(
        &mut self,
        slot: Slot,
        index: usize,
        command: &Command,
        out: &mut Vec<Output<O::Message>>,
    ) -> bool {
        match &command.body {
            Body::Open {
                hash,
                terms,
                tenant,
            } => {
                self.internals.landed(command.id);
                let session = SessionId::opened_at(slot, index);
                self.opened(session, (*hash, *tenant), *terms, out);
            }
            Body::Resume {
                session,
                tenant,
                after,
            } => {
                let asked = self.internals.landed(command.id);
                return self.resume_decided(*session, (*tenant, *after), asked, out);
            }
            Body::Close => {
                self.closes.remove(&command.id.session);
                if self
                    .is_of_client(command.id.session, command.id.tenancy())
                    .is_err()
                {
                    return false;
                }
                return self.end_session(command.id.session, out);
            }
            Body::Expire { session, judged_by } => {
                self.internals.landed(command.id);
                self.expiry.expiry_decided(*session, command.id);
                if self.replicated.is_expired(*session, *judged_by) {
                    return self.end_session(*session, out);
                }
            }
            Body::Lead { ballot } => {
                self.internals.landed(command.id);
                self.replicated.lead.decided(*ballot, slot);
            }
            Body::Tick => return self.tick_decided(slot, command.id),
            Body::Read { reader, boot } => self.read_landed(slot, command.id, (*reader, *boot)),
            Body::Checkpoint => {
                let is_own = self.internals.landed(command.id) == Some(Purpose::Checkpoint);
                self.checkpoints.landed(slot, is_own);
            }
            // After all calls of the slot: `begin_reset`.
            Body::Reset { .. } => {}
            Body::Thaw { slot, digest } => {
                self.internals.landed(command.id);
                self.reset_ended(*slot, *digest);
            }
            Body::Collect {
                slot: named,
                digest,
            } => {
                self.levels.written(command.level(), slot);
                self.collect_decided(slot, command.id, (*named, *digest));
            }
            Body::Skip {
                slot: named,
                index,
                is_unsafe,
            } => {
                let asked = self.internals.landed(command.id);
                let place = CallPlace {
                    slot: *named,
                    index: *index,
                };
                self.skip_decided(slot, place, *is_unsafe, asked, out);
            }
            Body::Invite { invitation, lasts } => {
                let asked = self.internals.landed(command.id);
                self.invited(slot, (*invitation, *lasts), asked, out);
            }
            Body::ChangeGroups { change } => {
                let asked = self.internals.landed(command.id);
                self.groups_decided(slot, change, asked, out);
            }
            Body::ChangeView { change, who, first } => {
                let asked = self.internals.landed(command.id);
                if command.level() > Level::UNNAMED {
                    self.levels.written(command.level(), slot);
                }
                self.view_change_decided(slot, (*change, who, *first), asked, out);
            }
            Body::Died { .. } | Body::Survived { .. } | Body::Retry { .. } | Body::Keep { .. } => {
                let is_own = self.internals.landed(command.id) == Some(Purpose::Poison);
                self.apply_poison(slot, command, out);
                if is_own {
                    self.own_poison.landed(slot, &command.body);
                    if let Body::Survived { slot, .. } = command.body {
                        self.told_past(slot);
                    }
                }
            }
            Body::Call { .. } => unreachable!("calls are admitted in runs"),
        }
        false
    }

    /// An ordered read has its place.
    fn read_landed(&mut self, slot: Slot, id: CommandId, (reader, boot): (NodeId, u64)) {
        let is_own = reader == self.config.own && boot == self.config.boot;
        let purpose = is_own.then(|| self.internals.landed(id)).flatten();
        if let Some(Purpose::Read(read)) = purpose {
            self.reads.confirmed(read, slot, None);
        }
    }

    /// Applies reports about poison calls. Each must name a call in an earlier slot.
    fn apply_poison(
        &mut self,
        decided: Slot,
        command: &Command,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let number = command.id.sequence;
        match command.body {
            Body::Died {
                reporter,
                slot,
                index,
                may_have_answered,
            } if slot < decided => {
                let death = if may_have_answered {
                    Death::Again
                } else {
                    Death::First
                };
                let report = Report {
                    reporter,
                    place: CallPlace { slot, index },
                    number,
                };
                self.died(report, death, out);
            }
            Body::Survived {
                reporter,
                slot,
                index,
            } if slot < decided => self.replicated.poison.survived(Report {
                reporter,
                place: CallPlace { slot, index },
                number,
            }),
            Body::Retry {
                reporter,
                slot,
                index,
            } if slot < decided => self.replicated.poison.retries(Report {
                reporter,
                place: CallPlace { slot, index },
                number,
            }),
            Body::Keep { reporter } => self.replicated.poison.keep_before(reporter, decided),
            Body::Died { .. }
            | Body::Survived { .. }
            | Body::Retry { .. }
            | Body::Skip { .. }
            | Body::Call { .. }
            | Body::Open { .. }
            | Body::Resume { .. }
            | Body::Close
            | Body::Expire { .. }
            | Body::Lead { .. }
            | Body::Tick
            | Body::Read { .. }
            | Body::Checkpoint
            | Body::Reset { .. }
            | Body::Thaw { .. }
            | Body::Collect { .. }
            | Body::Invite { .. }
            | Body::ChangeGroups { .. }
            | Body::ChangeView { .. } => {}
        }
    }

    /// Says whether there was such a session.
    fn end_session(&mut self, session: SessionId, out: &mut Vec<Output<O::Message>>) -> bool {
        let was_open = self.replicated.sessions.close(session);
        if was_open {
            self.freed.here.push(Freed::Ended(session));
            self.session_is_over(session, out);
        }
        was_open
    }

    fn session_is_over(&mut self, session: SessionId, out: &mut Vec<Output<O::Message>>) {
        for (sequence, to) in self.waiting.take_line(session) {
            let id = CommandId { session, sequence };
            refuse(out, to, Ask::Call(id), Refusal::SessionExpired);
        }
    }

    /// A snapshot covered some slots: answers every wait whose command was in them.
    pub(crate) fn answer_passed_waits(&mut self, out: &mut Vec<Output<O::Message>>) {
        for id in self.waiting.sessions() {
            let Some(session) = self.replicated.sessions.session(id) else {
                if opened_in(id) <= self.replicated.applied {
                    self.session_is_over(id, out);
                }
                continue;
            };
            let Some(line) = self.waiting.line(id) else {
                continue;
            };
            let mut landed = 0;
            for (sequence, print) in line.all() {
                let admission = session.look(sequence, print);
                if admission != Admission::New {
                    landed += usize::from(line.decided(sequence, print));
                }
                let id = CommandId {
                    session: id,
                    sequence,
                };
                let refusal = match admission {
                    Admission::New | Admission::InFlight => continue,
                    Admission::Parked => {
                        line.park(sequence, print, |to| {
                            reply(out, to, ToClient::Parked { id })
                        });
                        continue;
                    }
                    Admission::Answered => None,
                    Admission::Gone if id.tenancy() < session.tenancy() => {
                        Some(Refusal::Superseded)
                    }
                    Admission::Gone => Some(Refusal::ReplyGone),
                    Admission::Reused => Some(Refusal::SequenceReused),
                    Admission::Beyond => Some(Refusal::Overloaded),
                };
                line.answer(sequence, print, |to| {
                    match (refusal, session.reply(sequence)) {
                        (None, Some(outcome)) => {
                            let outcome = outcome.clone();
                            reply(out, to, ToClient::Replied { id, outcome });
                        }
                        (refusal, _) => {
                            let refusal = refusal.unwrap_or(Refusal::ReplyGone);
                            refuse(out, to, Ask::Call(id), refusal);
                        }
                    }
                });
            }
            self.waiting.landed(id, landed);
        }
    }
}

/// The fingerprint of a decided call: computed before, if it was submitted here.
fn print_of(line: Option<&Line>, sequence: u64, object: ObjectId, payload: &Value) -> u64 {
    let known = line.and_then(|line| line.fingerprint(sequence, object, payload));
    known.unwrap_or_else(|| fingerprint(object, payload))
}

/// Whether a planted bug has a call executed that was before, or that another client's resume has cut off.
fn executes_again(met: Admission, is_over: bool) -> bool {
    match met {
        Admission::Answered => planted(Plant::DuplicateExecutes),
        Admission::Gone => is_over && planted(Plant::EarlierTenancyExecutes),
        Admission::New
        | Admission::InFlight
        | Admission::Parked
        | Admission::Reused
        | Admission::Beyond => false,
    }
}

/// Tells a caller what came of its call.
fn tell<M>(
    out: &mut Vec<Output<M>>,
    to: ConnectionId,
    id: CommandId,
    kept: Result<&Outcome, Refusal>,
) {
    match kept {
        Ok(outcome) => {
            let outcome = outcome.clone();
            reply(out, to, ToClient::Replied { id, outcome });
        }
        Err(refusal) => refuse(out, to, Ask::Call(id), refusal),
    }
}

/// The submission was decided; its callers now wait for the outcome.
fn continue_waiting(
    line: &mut Option<&mut Line>,
    sequence: u64,
    fingerprint: u64,
    landed: &mut usize,
) {
    if let Some(line) = line {
        *landed += usize::from(line.decided(sequence, fingerprint));
    }
}

/// Tells the callers of a call that it is parked.
fn park_waiting<M>(
    line: &mut Option<&mut Line>,
    id: CommandId,
    print: u64,
    out: &mut Vec<Output<M>>,
) {
    if let Some(line) = line {
        line.park(id.sequence, print, |to| {
            reply(out, to, ToClient::Parked { id });
        });
    }
}

/// The number of calls of the same session at the front.
fn run_length(commands: &[Command]) -> usize {
    let session = commands[0].id.session;
    commands
        .iter()
        .take_while(|command| {
            command.id.session == session && matches!(command.body, Body::Call { .. })
        })
        .count()
}
