//! What an ordering protocol wants done.

use crate::{Mark, ReadId, Record, Role};
use quorate_types::{Batch, CommandId, NodeSet, Refusal, Slot};

/// Consequences, in the order in which they are to be performed. Owned and emptied by the caller.
pub type Effects<M> = Vec<Effect<M>>;

/// Which queue of a link a message takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Heartbeats, elections, confirmations: small, never behind bulk.
    Urgent,
    /// Agreement.
    Normal,
    /// Catch-up and snapshots.
    Bulk,
}

/// What was decided for a slot.
#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    /// This batch, for ever.
    Batch(Batch),
}

/// One consequence.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect<M> {
    /// Send `message` to each node of `to`. Never names this node.
    Send {
        /// Receivers.
        to: NodeSet,
        /// Queue of the link.
        lane: Lane,
        /// What to say.
        message: M,
    },
    /// Append `record` to the log; [`crate::Event::Persisted`] tells when it is durable.
    Persist {
        /// Number of this write, one more than the last.
        mark: Mark,
        /// What to write.
        record: Record,
    },
    /// `slot` is decided. Slots are decided in ascending order without gaps.
    Decide {
        /// Which slot.
        slot: Slot,
        /// Its batch.
        decision: Decision,
    },
    /// The node's role changed.
    Role(Role),
    /// The read may be answered once everything up to `barrier` is executed.
    Confirmed {
        /// Which read.
        read: ReadId,
        /// The highest slot the answer must reflect.
        barrier: Slot,
        /// Until when the confirmation holds, for a read under a lease: checked after the value was
        /// read and before the reply leaves.
        until: Option<quorate_types::Time>,
    },
    /// The read cannot be confirmed here and now; nothing was promised.
    Unconfirmed {
        /// Which read.
        read: ReadId,
    },
    /// Everything that the log's damage has taken is known again and written: it need not be told of at the next start.
    Repaired,
    /// Peers have trimmed slots that this node lacks: it needs a snapshot at or above `upto`.
    NeedSnapshot {
        /// The lowest slot that helps.
        upto: Slot,
    },
    /// The command is not ordered by this submission: [`Refusal::NotOrdered`] for certain,
    /// [`Refusal::Unknown`] when a forwarded one may still be, [`Refusal::Overloaded`] when queues are full.
    Refuse {
        /// Which command.
        command: CommandId,
        /// Why.
        refusal: Refusal,
    },
    /// Records of slots up to `upto` may be removed from the log once `base` is durable in it: the
    /// base records restate everything that must outlive them.
    Discard {
        /// The last slot whose records may go.
        upto: Slot,
        /// What must be written first.
        base: Vec<Record>,
    },
}

impl<M> Effect<M> {
    /// The same consequence with its message, if it sends one, as `wrap` has it.
    pub fn map<N>(self, wrap: impl FnOnce(M) -> N) -> Effect<N> {
        match self {
            Effect::Send { to, lane, message } => Effect::Send {
                to,
                lane,
                message: wrap(message),
            },
            Effect::Persist { mark, record } => Effect::Persist { mark, record },
            Effect::Decide { slot, decision } => Effect::Decide { slot, decision },
            Effect::Role(role) => Effect::Role(role),
            Effect::Confirmed {
                read,
                barrier,
                until,
            } => Effect::Confirmed {
                read,
                barrier,
                until,
            },
            Effect::Unconfirmed { read } => Effect::Unconfirmed { read },
            Effect::Repaired => Effect::Repaired,
            Effect::NeedSnapshot { upto } => Effect::NeedSnapshot { upto },
            Effect::Refuse { command, refusal } => Effect::Refuse { command, refusal },
            Effect::Discard { upto, base } => Effect::Discard { upto, base },
        }
    }
}
