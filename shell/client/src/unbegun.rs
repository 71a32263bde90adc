//! Operations that were handed to a client and are not begun yet: nobody has sent them, or as many are in flight as may be.

use crate::cell::{CallCell, CallEnd};
use crate::early::EarlyDone;
use crate::limits::QUEUE_MAX;
use crate::{Attempts, Operation};
use quorate_types::{Time, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Numbers an operation of one client, in the order in which they are begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OperationId(pub u64);

/// Who hears how an operation ended.
pub(crate) enum Done {
    /// Somebody waits, or looks later.
    Cell(Arc<CallCell>),
    /// A function, which must not block.
    Told(Box<dyn FnOnce(CallEnd) + Send>),
    /// Somebody wants a first word besides.
    Early(Box<EarlyDone>),
}

impl Done {
    pub(crate) fn end(self, ended: CallEnd) {
        match self {
            Done::Cell(cell) => cell.fill(ended),
            Done::Told(told) => told(ended),
            Done::Early(early) => early.end(ended),
        }
    }

    /// Objects that executed the call ahead of its decision returned this.
    pub(crate) fn tell_early(&mut self, value: Value) {
        if let Done::Early(early) = self {
            early.tell(value);
        }
    }
}

/// What waits to be begun.
#[derive(Default)]
pub(crate) struct Unbegun {
    last: u64,
    /// In the order of their ids.
    waiting: VecDeque<HandedOver>,
    /// No deadline of what waits passes before this.
    late_from: Time,
    is_closed: bool,
    /// Threads that wait for room.
    pub(crate) waiters: usize,
}

/// One operation that waits.
pub(crate) struct HandedOver {
    pub(crate) id: OperationId,
    pub(crate) operation: Operation,
    pub(crate) attempts: Attempts,
    /// Counts from when it was handed over, also while there is no room.
    pub(crate) deadline: Time,
    pub(crate) done: Done,
}

impl Unbegun {
    pub(crate) fn next_id(&mut self) -> OperationId {
        self.last += 1;
        OperationId(self.last)
    }

    pub(crate) fn push(&mut self, waiting: HandedOver) {
        let deadline = waiting.deadline;
        self.late_from = self.late_from().map_or(deadline, |at| at.min(deadline));
        self.waiting.push_back(waiting);
    }

    /// The one that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<HandedOver> {
        self.waiting.pop_front()
    }

    /// Whether another one may wait. A closed queue takes all, and ends them.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < QUEUE_MAX || self.is_closed
    }

    /// When the first one may be late; `None` if none waits.
    pub(crate) fn late_from(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.late_from)
    }

    /// Takes out those whose deadlines have passed by `now`.
    pub(crate) fn take_late(&mut self, now: Time) -> VecDeque<Done> {
        let Some(late_from) = self.late_from() else {
            return VecDeque::new();
        };
        if now < late_from {
            return VecDeque::new();
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (late, others): (VecDeque<_>, VecDeque<_>) = waiting.partition(|w| w.deadline <= now);
        let deadlines = others.iter().map(|waiting| waiting.deadline);
        self.late_from = deadlines.min().unwrap_or(Time(u64::MAX));
        self.waiting = others;
        late.into_iter().map(|waiting| waiting.done).collect()
    }

    /// Takes an operation out, if it waits.
    pub(crate) fn take(&mut self, id: OperationId) -> Option<HandedOver> {
        let found = self.waiting.binary_search_by_key(&id, |w| w.id);
        found.ok().and_then(|index| self.waiting.remove(index))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// No operation is begun any more; what waits is given back.
    pub(crate) fn close(&mut self) -> VecDeque<HandedOver> {
        self.is_closed = true;
        std::mem::take(&mut self.waiting)
    }
}
