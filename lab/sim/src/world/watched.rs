//! An ordering with a window: what it is given and what it decides is seen by the checkers, whatever the replica above
//! makes of it.

use quorate_acceptor::Testimony;
use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{
    Decision, Effect, Effects, Event, Ordering, OrderingStatus, ReadId, Record, Role, Standing,
    ViewPast,
};
use quorate_types::{Batch, Body, BroadcastId, CommandId, Slot, Time, View, ViewId, ViewNumber};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What an ordering was asked about a read, or answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadSeen {
    /// Its barrier is wanted; its client may announce it.
    Asked(ReadId, Option<BroadcastId>),
    /// It has its barrier in a view; under a lease, until when.
    Answered(ReadId, ViewNumber, Slot, Option<Time>),
    /// It gets none.
    GivenUp(ReadId),
}

/// What was seen of one ordering.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Decisions that nobody has looked at.
    pub(super) decisions: Vec<(Slot, Batch)>,
    /// The newest view in which a role was told.
    pub(super) view: Option<ViewId>,
    /// The role that it told last.
    pub(super) role: Option<Role>,
    /// Reads asked for and answered that nobody has looked at.
    pub(super) reads: Vec<ReadSeen>,
    /// Commands submitted here, neither decided nor refused since.
    pub(super) unsettled: BTreeSet<CommandId>,
    /// Slots that its replica has said to be past, and that nobody has looked at.
    pub(super) survived: Vec<Slot>,
    /// Votes that it deferred, and that nobody has looked at.
    pub(super) deferred: u64,
}

/// Whether a message proposes the trim of logs.
fn is_collect(event: &Event<AnyMessage>) -> bool {
    let Event::Receive { message, .. } = event else {
        return false;
    };
    matches!(
        message.testimony(),
        Testimony::Proposes { batch, .. }
            | Testimony::Passes { batch, .. }
            | Testimony::ProposesValue { batch, .. }
            if batch.is_collecting()
    )
}

/// The read that an event asks about.
fn asked(event: &Event<AnyMessage>) -> Option<ReadSeen> {
    match event {
        Event::Read { id, .. } => Some(ReadSeen::Asked(*id, None)),
        Event::ReadAnnounced { id, read } => Some(ReadSeen::Asked(*id, Some(*read))),
        _ => None,
    }
}

/// An ordering that is watched.
pub(super) struct Watched {
    inner: AnyOrdering,
    seen: Rc<RefCell<Seen>>,
}

impl Watched {
    /// Watches `inner`.
    pub(super) fn new(inner: AnyOrdering, seen: Rc<RefCell<Seen>>) -> Watched {
        Watched { inner, seen }
    }
}

impl Ordering for Watched {
    type Message = AnyMessage;

    fn view(&self) -> ViewId {
        self.inner.view()
    }

    fn statement(&self) -> Vec<Record> {
        self.inner.statement()
    }

    fn of_view(&self, now: Time, view: View, standing: Standing, past: ViewPast) -> Watched {
        let inner = self.inner.of_view(now, view, standing, past);
        let mut seen = self.seen.borrow_mut();
        if Some(inner.view()) > seen.view {
            (seen.view, seen.role) = (Some(inner.view()), None);
        }
        drop(seen);
        Watched::new(inner, self.seen.clone())
    }

    fn gone(message: &AnyMessage, upto: Slot) -> Option<AnyMessage> {
        AnyOrdering::gone(message, upto)
    }

    fn handle(&mut self, now: Time, event: Event<AnyMessage>, effects: &mut Effects<AnyMessage>) {
        let before = effects.len();
        let deferred = is_collect(&event).then(|| self.inner.status().deferred);
        match &event {
            Event::Submit { commands } | Event::Resubmit { commands } => {
                let ids = commands.iter().map(|command| command.id);
                let past = commands.iter().filter_map(|command| match command.body {
                    Body::Survived { slot, .. } => Some(slot),
                    _ => None,
                });
                let mut seen = self.seen.borrow_mut();
                seen.unsettled.extend(ids);
                seen.survived.extend(past);
            }
            _ => self.seen.borrow_mut().reads.extend(asked(&event)),
        }
        self.inner.handle(now, event, effects);
        if let Some(deferred) = deferred {
            self.seen.borrow_mut().deferred += self.inner.status().deferred - deferred;
        }
        for effect in &effects[before..] {
            match effect {
                Effect::Decide {
                    slot,
                    decision: Decision::Batch(batch),
                } => {
                    let mut seen = self.seen.borrow_mut();
                    for command in batch.commands() {
                        seen.unsettled.remove(&command.id);
                    }
                    seen.decisions.push((*slot, batch.clone()));
                }
                Effect::Confirmed {
                    read,
                    barrier,
                    until,
                } => {
                    let answered =
                        ReadSeen::Answered(*read, self.inner.view().number, *barrier, *until);
                    self.seen.borrow_mut().reads.push(answered);
                }
                Effect::Unconfirmed { read } => {
                    let given_up = ReadSeen::GivenUp(*read);
                    self.seen.borrow_mut().reads.push(given_up);
                }
                Effect::Role(role) => {
                    let mut seen = self.seen.borrow_mut();
                    let view = self.inner.view();
                    if Some(view) >= seen.view {
                        (seen.view, seen.role) = (Some(view), Some(*role));
                    }
                }
                Effect::Unordered { commands } => {
                    let mut seen = self.seen.borrow_mut();
                    for command in commands {
                        seen.unsettled.remove(&command.id);
                    }
                }
                Effect::Refuse { command, .. } => {
                    self.seen.borrow_mut().unsettled.remove(command);
                }
                _ => {}
            }
        }
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }

    fn status(&self) -> OrderingStatus {
        self.inner.status()
    }

    fn decided(&self) -> Slot {
        self.inner.decided()
    }

    fn batch(&self, slot: Slot) -> Option<&Batch> {
        self.inner.batch(slot)
    }

    fn check(&self) {
        self.inner.check();
    }
}
